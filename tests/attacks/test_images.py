"""Attacks on images: our own against plain autograd, AutoAttack against its parameters and the linear closed form."""

import sys
from copy import deepcopy
from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from genlabel.attacks import FGSM, PGD, Attack, AutoAttack, Boundary, robust_accuracy
from genlabel.attacks.base import row_norm
from genlabel.attacks.models import MAX_IMAGE_BLOCK_VALUES, AttackedFleet, AttackedNetwork
from genlabel.training.fleet import Fleet

PACKAGE = pytest.mark.skipif(find_spec("pyautoattack") is None, reason="needs pyautoattack")
SHAPE = (1, 8, 8)


def digits(m: int) -> tuple[np.ndarray, np.ndarray]:
    """The first m, as uint8."""
    X, y = load_digits(return_X_y=True)
    return np.round(255 / 16 * X[:m]).astype(np.uint8).reshape(-1, *SHAPE), y[:m]


class Small(nn.Module):
    """A convolution with batch normalisation; pixels are normalised inside."""

    def __init__(self, k: int, seed: int) -> None:
        super().__init__()
        with torch.random.fork_rng([]):
            torch.manual_seed(seed)
            self.body = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2))
            self.head = nn.Linear(128, k)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.body((x - 0.3) / 0.4).flatten(1))


@cache
def trained(k: int = 10, linear: bool = False) -> nn.Module:
    """Trained on digits 200 and on, those of k classes."""
    X, y = digits(1797)
    keep = (np.arange(len(y)) >= 200) & (y < k)
    x, target = torch.from_numpy(X[keep]) / 255, torch.from_numpy(y[keep])
    net: nn.Module = nn.Sequential(nn.Flatten(), nn.Linear(64, k)) if linear else Small(k, 0)
    optimizer = torch.optim.Adam(net.parameters(), 0.02)
    for _ in range(60):
        optimizer.zero_grad()
        cross_entropy(net(x), target).backward()
        optimizer.step()
    optimizer.zero_grad()
    return net.eval()


def slope(net: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """Plain autograd of the cross-entropy."""
    x = x.clone().requires_grad_()
    return torch.autograd.grad(cross_entropy(net(x), y, reduction="sum"), x)[0]


def wrong(net: nn.Module, x: Any, y: Any) -> np.ndarray:
    with torch.no_grad():
        return (net(torch.as_tensor(x).float()).argmax(1) != torch.as_tensor(y)).numpy()


@pytest.mark.parametrize("block", [None, 20000], ids=["one block", "blocks"])
def test_fgsm_is_the_sign_of_a_plain_gradient(block: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    if block:
        monkeypatch.setattr("genlabel.attacks.models.MAX_IMAGE_BLOCK_VALUES", {"cpu": block})
    net, (X, y) = trained(), digits(60)
    x, index = torch.from_numpy(X) / 255, torch.from_numpy(y)
    step = (x + 0.1 * slope(net, x, index).sign()).clamp(0, 1)
    found = FGSM(0.1)(AttackedNetwork(net, SHAPE), X, y)
    assert found.dtype == np.float32
    moved = (found != x.numpy()).any((1, 2, 3))
    assert moved.mean() > 0.8
    np.testing.assert_allclose(found[moved], step.numpy()[moved], atol=1e-6)
    report = robust_accuracy(net, X, y, "fgsm", eps=0.1)
    np.testing.assert_array_equal(report.is_robust, ~(wrong(net, x, y) | wrong(net, step, y)))
    assert 0 < report.accuracy < report.clean == pytest.approx(1 - wrong(net, x, y).mean())


@pytest.mark.parametrize("norm, radius", [("linf", 0.06), ("l2", 0.4)])
def test_pgd_finds_what_a_plain_loop_finds(norm: str, radius: float) -> None:
    net, (X, y) = trained(), digits(60)
    x, index = torch.from_numpy(X) / 255, torch.from_numpy(y)
    points, size, lost = x.clone(), 2.5 * radius / 20, wrong(net, x, y)
    for _ in range(20):
        way = slope(net, points, index)
        if norm == "linf":
            points = torch.minimum(torch.maximum(points + size * way.sign(), x - radius), x + radius)
        else:
            points = points + size * way / way.flatten(1).norm(dim=1).view(-1, 1, 1, 1)
            length = (points - x).flatten(1).norm(dim=1).view(-1, 1, 1, 1)
            points = x + (points - x) * (radius / length).clamp(max=1)
        points = points.clamp(0, 1)
        lost |= wrong(net, points, y)
    attack = PGD(radius, norm, random_start=False)
    report = robust_accuracy(net, X, y, attack)
    assert not (report.is_robust & lost).any()  # ours starts with steps towards every class, too
    assert abs(report.accuracy - (1 - lost.mean())) <= 0.05
    assert report.accuracy < report.clean


@pytest.mark.parametrize("norm", ["linf", pytest.param("l2", marks=pytest.mark.long)])
@PACKAGE
def test_autoattack_meets_the_closed_form_of_a_linear_network(norm: str) -> None:
    """Away from the bounds a point is robust iff each (w_y - w_c) x + b_y - b_c > radius |w_y - w_c|, dual norm."""
    net, (X, y) = trained(5, linear=True), digits(40)
    X, y = (0.4 + 0.2 * X[y < 5] / 255).astype(np.float32), y[y < 5]
    layer = net[1]
    W, b = layer.weight.detach().double().numpy(), layer.bias.detach().double().numpy()
    scores, rows = X.reshape(len(X), -1) @ W.T + b, np.arange(len(X))
    gaps = scores[rows, y][:, None] - scores
    reach = np.linalg.norm(W[y][:, None] - W, ord=1 if norm == "linf" else 2, axis=-1)
    gaps[rows, y], reach[rows, y] = np.inf, 1.0
    distance = (gaps / reach).min(1)
    right = distance > 0
    radius = float(np.median(distance[right]))
    close = np.abs(distance - radius) < 0.02 * radius
    found = robust_accuracy(net, X, y, "autoattack" if norm == "linf" else AutoAttack(radius, "l2"), eps=radius)
    np.testing.assert_array_equal(found.is_robust[~close], (distance > radius)[~close])
    assert close.sum() <= 3
    assert 0 < found.accuracy < found.clean


@PACKAGE
@pytest.mark.long
def test_autoattack_finds_what_ours_find_and_leaves_no_trace() -> None:
    net, (X, y) = trained(), digits(10)
    for weights in net.parameters():
        weights.grad = torch.full_like(weights, 3.0)
    before = torch.random.get_rng_state()
    tracer = sys.gettrace()
    with np.errstate(all="raise"):
        found = robust_accuracy(net, X, y, ["autoattack", "fgsm", PGD(targeted=True)], eps=0.06)
    assert found.by_attack["autoattack"] <= min(found.by_attack.values())
    assert (found.is_robust.sum(), next(iter(found.by_attack))) == (
        round(10 * found.by_attack["autoattack"]),
        "autoattack",
    )
    assert 0 < found.accuracy < found.clean
    assert sys.gettrace() is tracer
    assert torch.equal(torch.random.get_rng_state(), before)
    assert all(weights.requires_grad and (weights.grad == 3).all() for weights in net.parameters())


@PACKAGE
@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_autoattack_is_the_standard_version(norm: str) -> None:
    """100 steps each, 9 targets, 5,000 queries and one start: Croce and Hein, 2020."""
    target = AttackedNetwork(trained(), SHAPE)
    attack = AutoAttack(0.1, norm)
    inside = attack.standard_version(target, 10, 5, torch.device("cpu"))
    assert inside.attacks_to_run == ["apgd-ce", "apgd-t", "fab-t", "square"]
    assert (inside.epsilon, inside.seed, inside.norm.lower()) == (0.1, 5, norm)
    parts = inside.apgd, inside.apgd_targeted, inside.fab, inside.square
    assert [part.n_restarts for part in parts] == [1, 1, 1, 1]
    assert [part.n_iter for part in parts[:3]] == [100, 100, 100]
    assert [part.n_target_classes for part in parts[1:3]] == [9, 9]
    assert (inside.square.n_queries, inside.square.p_init, inside.square.rescale_schedule) == (5000, 0.8, False)
    assert (inside.apgd.thr_decr, inside.apgd.eot_iter, inside.apgd.use_rs) == (0.75, 1, True)
    assert (inside.fab.alpha_max, inside.fab.eta, inside.fab.beta) == (0.1, 1.05, 0.9)


@PACKAGE
def test_with_few_classes_all_others_are_targets() -> None:
    for k, targets in [(4, 3), (5, 4), (12, 9)]:
        target = AttackedNetwork(Small(k, 0).eval(), SHAPE)
        inside = AutoAttack(0.1).standard_version(target, k, 0, torch.device("cpu"))
        assert inside.apgd_targeted.n_target_classes == inside.fab.n_target_classes == targets
    X, y = digits(60)
    X, y = X[y < 4], y[y < 4]
    found = robust_accuracy(trained(4), X, y, "autoattack", eps=0.3)
    assert found.accuracy < 0.2 < found.clean


@PACKAGE
def test_what_the_package_doubts_is_a_warning(capfd: pytest.CaptureFixture[str]) -> None:
    net, (X, y) = nn.Sequential(trained(), nn.Softmax(1)).eval(), digits(4)
    with pytest.warns(RuntimeWarning, match="probability") as heard:
        AutoAttack(0.9)(AttackedNetwork(net, SHAPE), X, y, seed=0)
    assert sum("probability" in str(each.message) for each in heard) == 1
    assert "".join(capfd.readouterr()) == ""


def test_without_the_package_autoattack_is_skipped_with_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyautoattack", None)
    found = robust_accuracy(trained(), *digits(10), ["fgsm", "autoattack"], eps=0.1)
    assert list(found.by_attack) == ["fgsm"]
    assert "pip install 'genlabel[robustness]'" in found.skipped["autoattack"]


def flat(net: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Unflatten(1, SHAPE), net).eval()


@pytest.mark.parametrize("attack", [FGSM(0.1), PGD(0.1, steps=3), FGSM(0.3, "l2", targeted=True)], ids=repr)
def test_images_are_attacked_as_their_pixels(attack: Attack) -> None:
    net, (X, y) = trained(), digits(30)
    x = torch.from_numpy(X) / 255
    image, pixels = AttackedNetwork(net, SHAPE), AttackedNetwork(flat(net))
    bounded = type(attack)(**{**vars(attack), "bounds": (0, 1)})
    expected = bounded(pixels, x.flatten(1), y, seed=0).reshape(-1, *SHAPE)
    for given in (x, x.double(), x.flatten(1), torch.from_numpy(X)):
        found = attack(image, given, y, seed=0)
        assert (found.dtype, found.shape) == (torch.float32, given.shape)
        torch.testing.assert_close(found.reshape(expected.shape), expected)
    for given in (X, X / 255, (X / 255).tolist()):
        np.testing.assert_array_equal(attack(image, given, y, seed=0), expected.numpy())
    assert attack(AttackedNetwork(Small(10, 0).double().eval(), SHAPE), X, y).dtype == np.float64
    if find_spec("foolbox"):
        found = Boundary(2.0, steps=20, draws=20)(image, X, y, seed=0)
        assert found.shape == X.shape
        assert (row_norm(torch.from_numpy(found.reshape(30, -1)) - x.flatten(1), "l2") <= 2 + 1e-6).all()


def test_a_torch_network_takes_points_too() -> None:
    net, (X, y) = trained(), digits(30)
    rows = X.reshape(30, -1) / 255
    free = robust_accuracy(flat(net), rows, y, FGSM(0.1))
    held = robust_accuracy(flat(net), rows, y, FGSM(0.1, bounds=(0, 1)), space="input")
    np.testing.assert_array_equal(held.is_robust, robust_accuracy(net, X, y, FGSM(0.1)).is_robust)
    assert free.accuracy <= held.accuracy


@pytest.mark.parametrize("change, match", [
    ({"eps": None}, "eps=None"),
    ({"space": "standardized"}, "space="),
    ({"attack": "fgms"}, "fgms"),
    ({"X": 2.0 * np.ones((3, *SHAPE))}, "pixels"),
    ({"X": np.ones((3, 8, 8))}, "shape"),
    ({"X": np.full((3, *SHAPE), np.nan)}, "NaN"),
    ({"y": [0, 1, 10]}, "class indices"),
    ({"y": [0, 1]}, "shape"),
    ({"model": Small(10, 0)}, "BatchNorm2d"),
    ({"X": np.ones((3, 64)), "attack": "autoattack"}, "images"),
    ({"X": np.ones((3, 64)), "attack": AutoAttack(0.1)}, "images"),
    ({"model": Small(3, 0).eval(), "attack": "autoattack"}, "classes"),
])  # fmt: skip
@PACKAGE
def test_bad_images_are_named(change: dict[str, Any], match: str) -> None:
    given = {"model": trained(), "X": np.ones((3, *SHAPE)), "attack": "fgsm", "eps": 0.1} | change
    with torch.no_grad():
        given.setdefault("y", given["model"](torch.ones(3, *SHAPE)).argmax(1).tolist())
    if np.ndim(given["X"]) == 2:
        given["model"] = flat(given["model"])
    with pytest.raises(ValueError, match=match):
        robust_accuracy(**given)


def test_bad_parameters_and_targets_are_named() -> None:
    with pytest.raises(TypeError, match="eps"):
        AutoAttack()  # type: ignore[call-arg]
    with pytest.raises(ValueError, match="bounds="):
        AutoAttack(0.1, bounds=(0, 2))
    with pytest.raises(ValueError, match="batch_size="):
        AutoAttack(0.1, batch_size=0)
    with pytest.raises(ValueError, match="shape="):
        AttackedNetwork(trained(), (8, 8))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="shape"):
        FGSM(0.1)(AttackedNetwork(trained(), SHAPE), np.ones((3, 1, 9, 9)), [0, 1, 2])
    fleet = AttackedFleet(Fleet((2, 5), [0], 1, torch.float32, torch.device("cpu")))
    if find_spec("pyautoattack"):
        with pytest.raises(ValueError, match="images"):
            AutoAttack(0.1)(fleet, np.zeros((2, 2)), [0, 1])


@PACKAGE
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_network_on_a_gpu_is_attacked_there() -> None:
    net, (X, y) = trained(), digits(60)
    there = deepcopy(net).cuda()
    here, far = (robust_accuracy(each, X, y, ["fgsm", PGD(), "autoattack"], eps=0.1) for each in (net, there))
    assert all(abs(here.by_attack[name] - far.by_attack[name]) <= 0.04 for name in here.by_attack)
    state = torch.cuda.get_rng_state()
    found = AutoAttack(0.5)(AttackedNetwork(there, SHAPE), torch.from_numpy(X), y, seed=0)
    assert (found.device.type, found.shape) == ("cpu", X.shape)
    assert torch.equal(torch.cuda.get_rng_state(), state)
    assert FGSM(0.1)(AttackedNetwork(there, SHAPE), torch.from_numpy(X).cuda(), y).is_cuda


def test_blocks_are_large_enough_for_convolutions() -> None:
    wide = AttackedNetwork(nn.Sequential(nn.Conv2d(3, 64, 3), nn.Linear(512, 10)), (3, 32, 32))
    assert wide.max_block() == 64
    assert AttackedNetwork(nn.Flatten(), SHAPE).max_block() == MAX_IMAGE_BLOCK_VALUES["cpu"] // 64
