"""Test attacks on images: ours against autograd, AutoAttack against its parameters and the linear closed form."""

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

NEEDS_AUTOATTACK = pytest.mark.skipif(find_spec("pyautoattack") is None, reason="needs pyautoattack")
SHAPE = (1, 8, 8)


def digits(m: int) -> tuple[np.ndarray, np.ndarray]:
    """The first m digits, as uint8."""
    X, y = load_digits(return_X_y=True)
    return np.round(255 / 16 * X[:m]).astype(np.uint8).reshape(-1, *SHAPE), y[:m]


class SmallConvNet(nn.Module):
    """A convolution with batch normalization that normalizes its pixels."""

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
    """A network trained on the digits from 200 on, restricted to k classes."""
    X, y = digits(1797)
    keep = (np.arange(len(y)) >= 200) & (y < k)
    x, target = torch.from_numpy(X[keep]) / 255, torch.from_numpy(y[keep])
    network: nn.Module = nn.Sequential(nn.Flatten(), nn.Linear(64, k)) if linear else SmallConvNet(k, 0)
    optimizer = torch.optim.Adam(network.parameters(), 0.02)
    for _ in range(60):
        optimizer.zero_grad()
        cross_entropy(network(x), target).backward()
        optimizer.step()
    optimizer.zero_grad()
    return network.eval()


def input_gradient(net: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """Gradient of the cross-entropy by autograd."""
    x = x.clone().requires_grad_()
    return torch.autograd.grad(cross_entropy(net(x), y, reduction="sum"), x)[0]


def wrong(net: nn.Module, x: Any, y: Any) -> np.ndarray:
    with torch.no_grad():
        return (net(torch.as_tensor(x).float()).argmax(1) != torch.as_tensor(y)).numpy()


@pytest.mark.parametrize("block", [None, 20000], ids=["one block", "blocks"])
def test_fgsm_steps_along_the_sign_of_the_gradient(block: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    if block:
        monkeypatch.setattr("genlabel.attacks.models.MAX_IMAGE_BLOCK_VALUES", {"cpu": block})
    net, (X, y) = trained(), digits(60)
    x, index = torch.from_numpy(X) / 255, torch.from_numpy(y)
    step = (x + 0.1 * input_gradient(net, x, index).sign()).clamp(0, 1)
    adversarial = FGSM(0.1)(AttackedNetwork(net, SHAPE), X, y)
    assert adversarial.dtype == np.float32
    changed = (adversarial != x.numpy()).any((1, 2, 3))
    assert changed.mean() > 0.8
    np.testing.assert_allclose(adversarial[changed], step.numpy()[changed], atol=1e-6)
    report = robust_accuracy(net, X, y, "fgsm", eps=0.1)
    np.testing.assert_array_equal(report.is_robust, ~(wrong(net, x, y) | wrong(net, step, y)))
    assert 0 < report.accuracy < report.clean == pytest.approx(1 - wrong(net, x, y).mean())


@pytest.mark.parametrize("norm, radius", [("linf", 0.06), ("l2", 0.4)])
def test_pgd_finds_at_least_the_points_of_a_plain_loop(norm: str, radius: float) -> None:
    net, (X, y) = trained(), digits(60)
    x, index = torch.from_numpy(X) / 255, torch.from_numpy(y)
    points, step_size, fooled = x.clone(), 2.5 * radius / 20, wrong(net, x, y)
    for _ in range(20):
        gradient = input_gradient(net, points, index)
        if norm == "linf":
            points = torch.minimum(torch.maximum(points + step_size * gradient.sign(), x - radius), x + radius)
        else:
            points = points + step_size * gradient / gradient.flatten(1).norm(dim=1).view(-1, 1, 1, 1)
            length = (points - x).flatten(1).norm(dim=1).view(-1, 1, 1, 1)
            points = x + (points - x) * (radius / length).clamp(max=1)
        points = points.clamp(0, 1)
        fooled |= wrong(net, points, y)
    attack = PGD(radius, norm, random_start=False)
    report = robust_accuracy(net, X, y, attack)
    assert not (report.is_robust & fooled).any()  # ours also starts with steps towards every class
    assert abs(report.accuracy - (1 - fooled.mean())) <= 0.05
    assert report.accuracy < report.clean


@pytest.mark.parametrize("norm", ["linf", pytest.param("l2", marks=pytest.mark.long)])
@NEEDS_AUTOATTACK
def test_autoattack_meets_the_closed_form_of_a_linear_network(norm: str) -> None:
    """Away from the bounds a point is robust iff each (w_y - w_c) x + b_y - b_c > radius |w_y - w_c|, dual norm."""
    net, (X, y) = trained(5, linear=True), digits(40)
    X, y = (0.4 + 0.2 * X[y < 5] / 255).astype(np.float32), y[y < 5]
    layer = net[1]
    W, b = layer.weight.detach().double().numpy(), layer.bias.detach().double().numpy()
    scores, rows = X.reshape(len(X), -1) @ W.T + b, np.arange(len(X))
    gaps = scores[rows, y][:, None] - scores
    dual_norms = np.linalg.norm(W[y][:, None] - W, ord=1 if norm == "linf" else 2, axis=-1)
    gaps[rows, y], dual_norms[rows, y] = np.inf, 1.0
    distance = (gaps / dual_norms).min(1)
    correct = distance > 0
    radius = float(np.median(distance[correct]))
    close = np.abs(distance - radius) < 0.02 * radius
    report = robust_accuracy(net, X, y, "autoattack" if norm == "linf" else AutoAttack(radius, "l2"), eps=radius)
    np.testing.assert_array_equal(report.is_robust[~close], (distance > radius)[~close])
    assert close.sum() <= 3
    assert 0 < report.accuracy < report.clean


@NEEDS_AUTOATTACK
@pytest.mark.long
def test_autoattack_is_strongest_and_leaves_no_side_effects() -> None:
    net, (X, y) = trained(), digits(10)
    for weights in net.parameters():
        weights.grad = torch.full_like(weights, 3.0)
    before = torch.random.get_rng_state()
    tracer = sys.gettrace()
    with np.errstate(all="raise"):
        report = robust_accuracy(net, X, y, ["autoattack", "fgsm", PGD(targeted=True)], eps=0.06)
    assert report.by_attack["autoattack"] <= min(report.by_attack.values())
    assert (report.is_robust.sum(), next(iter(report.by_attack))) == (
        round(10 * report.by_attack["autoattack"]),
        "autoattack",
    )
    assert 0 < report.accuracy < report.clean
    assert sys.gettrace() is tracer
    assert torch.equal(torch.random.get_rng_state(), before)
    assert all(weights.requires_grad and (weights.grad == 3).all() for weights in net.parameters())


@NEEDS_AUTOATTACK
@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_autoattack_is_the_standard_version(norm: str) -> None:
    """100 steps each, 9 targets, 5,000 queries and one start (Croce and Hein, 2020)."""
    target = AttackedNetwork(trained(), SHAPE)
    attack = AutoAttack(0.1, norm)
    package = attack.standard_version(target, 10, 5, torch.device("cpu"))
    assert package.attacks_to_run == ["apgd-ce", "apgd-t", "fab-t", "square"]
    assert (package.epsilon, package.seed, package.norm.lower()) == (0.1, 5, norm)
    parts = package.apgd, package.apgd_targeted, package.fab, package.square
    assert [part.n_restarts for part in parts] == [1, 1, 1, 1]
    assert [part.n_iter for part in parts[:3]] == [100, 100, 100]
    assert [part.n_target_classes for part in parts[1:3]] == [9, 9]
    assert (package.square.n_queries, package.square.p_init, package.square.rescale_schedule) == (
        5000,
        0.8,
        False,
    )
    assert (package.apgd.thr_decr, package.apgd.eot_iter, package.apgd.use_rs) == (0.75, 1, True)
    assert (package.fab.alpha_max, package.fab.eta, package.fab.beta) == (0.1, 1.05, 0.9)


@NEEDS_AUTOATTACK
def test_autoattack_targets_all_other_classes_when_there_are_few() -> None:
    for k, targets in [(4, 3), (5, 4), (12, 9)]:
        target = AttackedNetwork(SmallConvNet(k, 0).eval(), SHAPE)
        package_attack = AutoAttack(0.1).standard_version(target, k, 0, torch.device("cpu"))
        assert package_attack.apgd_targeted.n_target_classes == package_attack.fab.n_target_classes == targets
    X, y = digits(60)
    X, y = X[y < 4], y[y < 4]
    report = robust_accuracy(trained(4), X, y, "autoattack", eps=0.3)
    assert report.accuracy < 0.2 < report.clean


@NEEDS_AUTOATTACK
def test_autoattack_warnings_are_raised_once_and_not_printed(capfd: pytest.CaptureFixture[str]) -> None:
    net, (X, y) = nn.Sequential(trained(), nn.Softmax(1)).eval(), digits(4)
    with pytest.warns(RuntimeWarning, match="probability") as caught:
        AutoAttack(0.9)(AttackedNetwork(net, SHAPE), X, y, seed=0)
    assert sum("probability" in str(record.message) for record in caught) == 1
    assert "".join(capfd.readouterr()) == ""


def test_autoattack_is_skipped_without_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyautoattack", None)
    report = robust_accuracy(trained(), *digits(10), ["fgsm", "autoattack"], eps=0.1)
    assert list(report.by_attack) == ["fgsm"]
    assert "genlabel[robustness]" in report.skipped["autoattack"]


def flattened(net: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Unflatten(1, SHAPE), net).eval()


@pytest.mark.parametrize("attack", [FGSM(0.1), PGD(0.1, steps=3), FGSM(0.3, "l2", targeted=True)], ids=repr)
def test_attacks_on_images_equal_attacks_on_pixels(attack: Attack) -> None:
    net, (X, y) = trained(), digits(30)
    x = torch.from_numpy(X) / 255
    image, pixels = AttackedNetwork(net, SHAPE), AttackedNetwork(flattened(net))
    bounded = type(attack)(**{**vars(attack), "bounds": (0, 1)})
    expected = bounded(pixels, x.flatten(1), y, seed=0).reshape(-1, *SHAPE)
    for images in (x, x.double(), x.flatten(1), torch.from_numpy(X)):
        adversarial = attack(image, images, y, seed=0)
        assert (adversarial.dtype, adversarial.shape) == (torch.float32, images.shape)
        torch.testing.assert_close(adversarial.reshape(expected.shape), expected)
    for images in (X, X / 255, (X / 255).tolist()):
        np.testing.assert_array_equal(attack(image, images, y, seed=0), expected.numpy())
    assert attack(AttackedNetwork(SmallConvNet(10, 0).double().eval(), SHAPE), X, y).dtype == np.float64
    if find_spec("foolbox"):
        adversarial = Boundary(2.0, steps=20, draws=20)(image, X, y, seed=0)
        assert adversarial.shape == X.shape
        assert (row_norm(torch.from_numpy(adversarial.reshape(30, -1)) - x.flatten(1), "l2") <= 2 + 1e-6).all()


def test_a_torch_network_accepts_flat_points() -> None:
    net, (X, y) = trained(), digits(30)
    points = X.reshape(30, -1) / 255
    unbounded = robust_accuracy(flattened(net), points, y, FGSM(0.1))
    bounded = robust_accuracy(flattened(net), points, y, FGSM(0.1, bounds=(0, 1)), space="input")
    np.testing.assert_array_equal(bounded.is_robust, robust_accuracy(net, X, y, FGSM(0.1)).is_robust)
    assert unbounded.accuracy <= bounded.accuracy


@pytest.mark.parametrize("change, match", [
    ({"eps": None}, "eps=None"),
    ({"space": "standardized"}, "space="),
    ({"attack": "fgms"}, "fgms"),
    ({"X": 2.0 * np.ones((3, *SHAPE))}, "pixels"),
    ({"X": np.ones((3, 8, 8))}, "shape"),
    ({"X": np.full((3, *SHAPE), np.nan)}, "NaN"),
    ({"y": [0, 1, 10]}, "indices"),
    ({"y": [0, 1]}, "shape"),
    ({"model": SmallConvNet(10, 0)}, "BatchNorm2d"),
    ({"X": np.ones((3, 64)), "attack": "autoattack"}, "images"),
    ({"X": np.ones((3, 64)), "attack": AutoAttack(0.1)}, "images"),
    ({"model": SmallConvNet(3, 0).eval(), "attack": "autoattack"}, "classes"),
])  # fmt: skip
@NEEDS_AUTOATTACK
def test_bad_images_raise(change: dict[str, Any], match: str) -> None:
    arguments = {"model": trained(), "X": np.ones((3, *SHAPE)), "attack": "fgsm", "eps": 0.1} | change
    with torch.no_grad():
        arguments.setdefault("y", arguments["model"](torch.ones(3, *SHAPE)).argmax(1).tolist())
    if np.ndim(arguments["X"]) == 2:
        arguments["model"] = flattened(arguments["model"])
    with pytest.raises(ValueError, match=match):
        robust_accuracy(**arguments)


def test_bad_parameters_and_models_raise() -> None:
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


@NEEDS_AUTOATTACK
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_network_on_a_gpu_is_attacked_on_the_gpu() -> None:
    net, (X, y) = trained(), digits(60)
    on_gpu = deepcopy(net).cuda()
    cpu, gpu = (robust_accuracy(model, X, y, ["fgsm", PGD(), "autoattack"], eps=0.1) for model in (net, on_gpu))
    assert all(abs(cpu.by_attack[name] - gpu.by_attack[name]) <= 0.04 for name in cpu.by_attack)
    state = torch.cuda.get_rng_state()
    adversarial = AutoAttack(0.5)(AttackedNetwork(on_gpu, SHAPE), torch.from_numpy(X), y, seed=0)
    assert (adversarial.device.type, adversarial.shape) == ("cpu", X.shape)
    assert torch.equal(torch.cuda.get_rng_state(), state)
    assert FGSM(0.1)(AttackedNetwork(on_gpu, SHAPE), torch.from_numpy(X).cuda(), y).is_cuda


def test_blocks_are_large_enough_for_convolutions() -> None:
    wide = AttackedNetwork(nn.Sequential(nn.Conv2d(3, 64, 3), nn.Linear(512, 10)), (3, 32, 32))
    assert wide.max_block == 64
    assert AttackedNetwork(nn.Flatten(), SHAPE).max_block == MAX_IMAGE_BLOCK_VALUES["cpu"] // 64
