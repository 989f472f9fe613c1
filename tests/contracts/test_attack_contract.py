"""Contract of attacks, over a list of instances and a list of attacked models."""

import pickle
from dataclasses import replace
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from genlabel.attacks import FGSM, PGD, Attack, AutoAttack, Boundary, margins
from genlabel.attacks.models import AttackedFleet, AttackedModel, AttackedNetwork, DecisionModel, FunctionModel
from genlabel.registry import ATTACKS as REGISTRY
from genlabel.testing import check_attack
from genlabel.training.fleet import Fleet
from genlabel.training.networks import MLP

FOOLBOX = pytest.mark.skipif(find_spec("foolbox") is None, reason="needs foolbox")
ATTACKS: list[Any] = [
    FGSM(),
    FGSM(0.5, "l2"),
    FGSM(targeted=True),
    FGSM(0.4, "l2", targeted=True, bounds=(-2.0, 2.0)),
    PGD(steps=5),
    PGD(0.5, "l2", steps=5, restarts=2),
    PGD(0.3, steps=4, random_start=False, targeted=True, bounds=([-2.0, -2.0, -1.5], 2.0)),
    PGD(0.4, "l2", steps=4, step_size=0.3, targeted=True),
    pytest.param(Boundary(0.5, steps=20, draws=50), marks=FOOLBOX),
    pytest.param(Boundary(0.4, steps=20, bounds=(-2.0, 2.0)), marks=FOOLBOX),
]
AUTOATTACK = pytest.mark.skipif(find_spec("pyautoattack") is None, reason="needs pyautoattack")
IMAGE_ATTACKS: list[Any] = [
    FGSM(0.1),
    FGSM(0.5, "l2", targeted=True),
    PGD(0.1, steps=4),
    PGD(0.5, "l2", steps=4, restarts=2),
    pytest.param(Boundary(2.0, steps=20, draws=50), marks=FOOLBOX),
    pytest.param(AutoAttack(0.4), marks=AUTOATTACK),
    pytest.param(AutoAttack(2.5, "l2", batch_size=7), marks=AUTOATTACK),
]
UNTESTED = [name for name, cls in REGISTRY.classes().items() if cls not in (FGSM, PGD, Boundary, AutoAttack)]
ATTACKS += [REGISTRY.create(name) for name in UNTESTED if not REGISTRY.classes()[name].images_only]
IMAGE_ATTACKS += [REGISTRY.create(name) for name in UNTESTED]
every = pytest.mark.parametrize("attack", ATTACKS, ids=repr)
on_images = pytest.mark.parametrize("attack", IMAGE_ATTACKS, ids=repr)


def network(k: int = 3, hidden: tuple[int, ...] = (16,), seed: int = 0) -> MLP:
    """A small network that can be fooled; its scores are equal on average, so that it predicts every class."""
    net = MLP(3, k, hidden, seed=seed, dtype=torch.float64)
    with torch.no_grad():
        for weights in net.parameters():
            weights.mul_(2.0)
        net.layers[-1].bias -= net(torch.from_numpy(np.random.default_rng(9).uniform(-1.5, 2.0, (500, 3)))).mean(0)
    return net


def log_proba_of(net: nn.Module) -> Any:
    def log_proba(X: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            return net(torch.from_numpy(X)).log_softmax(-1).numpy()

    return log_proba


def fleet(candidates: int = 4, hidden: tuple[int, ...] = (8,), k: int = 3) -> Fleet:
    result = Fleet((3, *hidden, k), [0, 1], candidates, torch.float64, torch.device("cpu"))
    result.theta += torch.from_numpy(np.random.default_rng(5).normal(size=result.theta.shape))
    return result


TARGETS: dict[str, AttackedModel] = {
    "linear, 2 classes": AttackedNetwork(network(2, ())),
    "linear, 3 classes": AttackedNetwork(network(3, ())),
    "network, 2 classes": AttackedNetwork(network(2)),
    "network, 4 classes": AttackedNetwork(network(4)),
    "float32": AttackedNetwork(network(3).float()),
    "function": FunctionModel(log_proba_of(network(3))),
    "fleet": AttackedFleet(fleet(), 1),
    "fleet of linear models": AttackedFleet(fleet(3, (), 2)),
}
on_all = pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)


def points(target: AttackedModel, m: int = 30, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.5, 2.0, size=(m, 3))
    k = target.log_proba(torch.zeros(*target.batch_shape, 1, 3).double()).shape[-1]
    return X, rng.integers(0, k, m)


def is_correct(target: AttackedModel, X: np.ndarray, y: np.ndarray) -> np.ndarray:
    x = torch.from_numpy(np.broadcast_to(X, (*target.batch_shape, *X.shape[-2:])).copy())
    return target.log_proba(x).argmax(-1).numpy() == y


def length(change: np.ndarray, norm: str) -> np.ndarray:
    return np.linalg.norm(change, ord=2 if norm == "l2" else np.inf, axis=-1)


@every
def test_check_attack(attack: Attack) -> None:
    check_attack(replace(attack, bounds=None))


@pytest.mark.parametrize("attack", IMAGE_ATTACKS, ids=repr)
def test_check_attack_on_images(attack: Attack) -> None:
    check_attack(attack, image_shape=(1, 4, 4))


def test_check_attack_fails_for_an_idle_attack() -> None:
    class Idle(Attack):
        def run(self, model: AttackedModel, x: Tensor, y: Tensor, rng: np.random.Generator) -> Tensor:
            return x

    with pytest.raises(AssertionError, match="misclassified"):
        check_attack(Idle())


@every
@on_all
def test_attacks_stay_in_the_ball_and_fool_more_points(attack: Attack, target: AttackedModel) -> None:
    X, y = points(target)
    adversarial = attack(target, X, y, seed=0)
    assert adversarial.shape == (*target.batch_shape, 30, 3)
    assert (length(adversarial - X, attack.norm) <= attack.eps + 1e-12).all()
    if attack.bounds is not None:
        assert (adversarial >= np.asarray(attack.bounds[0])).all()
        assert (adversarial <= np.asarray(attack.bounds[1])).all()
    before, after = is_correct(target, X, y), is_correct(target, adversarial, y)
    assert (after <= before).all()  # a misclassified point stays misclassified
    assert after.sum() < before.sum()


@every
@settings(max_examples=8)
@given(seed=st.integers(0, 10**6), radius=st.floats(1e-3, 10.0), size=st.floats(1e-2, 1e4))
def test_attacks_stay_in_balls_of_any_size(attack: Attack, seed: int, radius: float, size: float) -> None:
    rng = np.random.default_rng(seed)
    net = MLP(3, 3, (4,), seed=seed, dtype=torch.float64)
    X, y = rng.normal(size=(6, 3)) * size, rng.integers(0, 3, 6)
    scaled = replace(attack, eps=radius, bounds=None if attack.bounds is None else (X.min(0) - 1e-3, X.max(0) + 0.1))
    moved = scaled(AttackedNetwork(net), X, y, seed=seed)  # the call checks this itself
    assert (length(moved - X, attack.norm) <= radius + 1e-13 * size).all()
    assert scaled.bounds is None or ((moved >= scaled.bounds[0]).all() and (moved <= scaled.bounds[1]).all())


@every
def test_attacks_are_reproducible_and_leave_global_generators_unchanged(attack: Attack) -> None:
    target = TARGETS["network, 4 classes"]
    X, y = points(target)
    torch.manual_seed(3)
    np.random.seed(3)  # noqa: NPY002
    expected = torch.rand(1), np.random.rand()  # noqa: NPY002
    torch.manual_seed(3)
    np.random.seed(3)  # noqa: NPY002
    first = attack(target, X, y, seed=7)
    assert (torch.rand(1), np.random.rand()) == expected  # noqa: NPY002
    np.testing.assert_array_equal(attack(target, X, y, seed=np.random.default_rng(7)), first)
    again = pickle.loads(pickle.dumps(attack))
    assert again == attack
    assert hash(again) == hash(attack)
    np.testing.assert_array_equal(again(target, X, y, seed=7), first)


@pytest.mark.parametrize("attack", [item for item in ATTACKS if isinstance(item, Attack)], ids=repr)
@pytest.mark.parametrize("hidden", [(), (8,)], ids=["linear", "hidden"])
def test_attacks_on_a_fleet_equal_attacks_on_its_networks(attack: Attack, hidden: tuple[int, ...]) -> None:
    models = fleet(hidden=hidden)
    target = AttackedFleet(models, 1)
    X, y = points(target)
    adversarial = attack(target, X, y, seed=0)
    for c in range(4):
        alone = attack(AttackedNetwork(models.network(1, c)), X, y, seed=0)
        np.testing.assert_allclose(adversarial[c], alone, atol=1e-9)
    np.testing.assert_array_equal(attack(target, np.stack([X] * 4), np.stack([y] * 4), seed=0), adversarial)


@FOOLBOX
def test_boundary_attacks_every_network_of_a_fleet() -> None:
    models = fleet()
    target = AttackedFleet(models, 1)
    X, y = points(target)
    adversarial = Boundary(0.5, steps=200)(target, X, y, seed=0)
    for c in range(4):
        single = AttackedNetwork(models.network(1, c))
        alone = Boundary(0.5, steps=200)(single, X, y, seed=0)
        assert abs(is_correct(single, alone, y).mean() - is_correct(single, adversarial[c], y).mean()) < 0.1


@every
def test_output_type_and_dtype_follow_the_input(attack: Attack) -> None:
    target = TARGETS["network, 4 classes"]
    X, y = points(target)
    x = torch.from_numpy(X)
    double, single = (attack(target, z, torch.from_numpy(y), seed=0) for z in (x, x.float()))
    assert (double.dtype, single.dtype) == (torch.float64, torch.float32)
    np.testing.assert_array_equal(double.numpy(), attack(target, X, y.tolist(), seed=0))
    assert not double.requires_grad


@every
def test_diverged_and_constant_models_leave_points_unchanged(attack: Attack) -> None:
    models = fleet(2)
    models.theta[1, 0] = torch.nan
    X, y = points(AttackedFleet(models, 1))
    adversarial = attack(AttackedFleet(models, 1), X, y, seed=0)
    np.testing.assert_array_equal(adversarial[0], X)
    constant = MLP(3, 2, seed=0, dtype=torch.float64).load([(np.zeros((3, 2)), np.array([0.0, 1.0]))])
    np.testing.assert_array_equal(attack(AttackedNetwork(constant), X, np.ones(30, dtype=int), seed=0), X)


class Broken(nn.Module):
    """Class 0 is predicted everywhere, less clearly as x_0 grows; the score of one class is NaN where x_0 > 0."""

    def __init__(self, column: int) -> None:
        super().__init__()
        self.column = column

    def forward(self, x: Tensor) -> Tensor:
        scores = torch.stack([9.0 - x[:, 0], torch.zeros(len(x)).to(x)], 1)
        undefined = (x[:, :1] > 0) & (torch.arange(2) == self.column)
        return scores.masked_fill(undefined, torch.nan)


def nan_log_proba(X: np.ndarray) -> np.ndarray:
    """Broken(1) without a softmax, which would also turn the other class into NaN."""
    return np.stack([-1e-3 - 1e-3 * X[:, 0], np.where(X[:, 0] > 0, np.nan, -7.0)], 1)


BROKEN: dict[str, AttackedModel] = {
    "network, NaN of the predicted class": AttackedNetwork(Broken(0)),
    "network, NaN of the other class": AttackedNetwork(Broken(1)),
    "function": FunctionModel(nan_log_proba),
    "classes": DecisionModel(lambda X: np.where(X[:, 0] > 0, -1, 0), 2),
}


@every
@pytest.mark.parametrize("target", BROKEN.values(), ids=BROKEN)
def test_nan_predictions_count_as_misclassified(attack: Attack, target: AttackedModel) -> None:
    if attack.needs_gradient and not target.has_gradient:
        return
    X = np.random.default_rng(0).uniform(-1.2, 0.2, size=(40, 3))
    adversarial = attack(target, X, np.zeros(40, dtype=int), seed=0)
    np.testing.assert_array_equal(adversarial[X[:, 0] > 0], X[X[:, 0] > 0])
    beyond = adversarial[:, 0] > 0
    assert beyond[X[:, 0] > -0.9 * attack.eps].all()
    assert not beyond[X[:, 0] < -attack.eps].any()
    np.testing.assert_array_equal(target.misclassifies(torch.from_numpy(adversarial), torch.zeros(40)).numpy(), beyond)


@pytest.mark.parametrize("target", BROKEN.values(), ids=BROKEN)
def test_margins_end_at_nan_predictions(target: AttackedModel) -> None:
    X = np.random.default_rng(0).uniform(-1.2, 0.2, size=(40, 3))
    result = margins(target, X, np.zeros(40, dtype=int))
    np.testing.assert_array_equal(result.correct, X[:, 0] <= 0)
    np.testing.assert_allclose(result.distances, np.maximum(-X[:, 0], 0), rtol=0.03)
    assert (result.distances >= -X[:, 0]).all()
    assert (result.witnesses[:, 0] > 0).all()


@pytest.mark.parametrize("X, y, match", [
    (np.zeros(3), [0], "X"),
    (np.zeros((0, 3)), [], "X"),
    (np.full((2, 3), np.nan), [0, 1], "NaN"),
    (np.zeros((2, 3)), [0], "y"),
    (np.zeros((2, 3)), [0, 4], "indices"),
    (np.zeros((2, 3)), ["a", "b"], "indices"),
    (np.zeros((2, 3)), [-1, 0], "indices"),
])  # fmt: skip
@every
def test_bad_points_raise(attack: Attack, X: np.ndarray, y: list[Any], match: str) -> None:
    with pytest.raises(ValueError, match=match):
        attack(TARGETS["network, 4 classes"], X, y)


@every
def test_bad_bounds_and_shapes_raise(attack: Attack) -> None:
    X = np.full((2, 3), 9.0)
    with pytest.raises(ValueError, match="bounds="):
        replace(attack, bounds=(0, 1))(TARGETS["function"], X, [0, 1])
    with pytest.raises(ValueError, match="bounds"):
        replace(attack, bounds=([0, 0], 1))(TARGETS["function"], X, [0, 1])
    with pytest.raises(ValueError, match="models"):
        attack(TARGETS["fleet"], np.zeros((3, 2, 3)), [0, 1])


@pytest.mark.parametrize("make, match", [
    (lambda: FGSM(0.0), "eps="),
    (lambda: PGD(-1), "eps="),
    (lambda: FGSM(norm="l1"), "norm="),
    (lambda: FGSM(bounds=(1, 0)), "bounds="),
    (lambda: FGSM(bounds=3), "bounds="),
    (lambda: PGD(steps=0), "steps="),
    (lambda: PGD(step_size=0), "step_size="),
    (lambda: PGD(restarts=2, random_start=False), "random_start"),
    (lambda: Boundary(steps=1.5), "steps="),
])  # fmt: skip
def test_bad_parameters_raise(make: Any, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        make()


def test_an_attack_that_leaves_its_ball_raises() -> None:
    class Far(Attack):
        def run(self, target: AttackedModel, x: Tensor, y: Tensor, rng: np.random.Generator) -> Tensor:
            return x + 2 * self.eps

    with pytest.raises(RuntimeError, match="ball"):
        Far()(TARGETS["function"], np.zeros((2, 3)), [0, 1])


def images(m: int = 20) -> tuple[AttackedNetwork, np.ndarray, np.ndarray]:
    """A convolution over images (3, 6, 6) and 5 classes; one label in four is not the predicted class."""
    rng = np.random.default_rng(0)
    net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(128, 5))
    with torch.no_grad():
        for weights in net.parameters():
            weights.copy_(torch.from_numpy(rng.normal(size=weights.shape)) * 0.3)
    X = rng.integers(0, 256, (m, 3, 6, 6)).astype(np.uint8)
    target = AttackedNetwork(net, shape=(3, 6, 6))
    y = target.log_proba(target.to_points(X)).argmax(-1).numpy()
    y[::4] = (y[::4] + 1) % 5
    return target, X, y


@on_images
def test_attacks_on_images_stay_in_the_ball_and_are_reproducible(attack: Attack) -> None:
    target, X, y = images()
    torch.manual_seed(3)
    np.random.seed(3)  # noqa: NPY002
    expected = torch.rand(1), np.random.rand()  # noqa: NPY002
    torch.manual_seed(3)
    np.random.seed(3)  # noqa: NPY002
    adversarial = attack(target, X, y, seed=7)
    assert (torch.rand(1), np.random.rand()) == expected  # noqa: NPY002
    assert (adversarial.shape, adversarial.dtype) == (X.shape, np.float32)
    assert (length((adversarial - X.astype(np.float32) / 255).reshape(20, -1), attack.norm) <= attack.eps + 1e-6).all()
    assert 0 <= adversarial.min() < adversarial.max() <= 1
    before, after = (
        target.misclassifies(target.to_points(points), torch.from_numpy(y)).numpy() for points in (X, adversarial)
    )
    assert (after >= before).all()
    assert after.sum() > before.sum() == 5
    again = pickle.loads(pickle.dumps(attack))
    assert again == attack
    np.testing.assert_array_equal(again(target, X, y, seed=np.random.default_rng(7)), adversarial)
    assert all(weights.grad is None and weights.requires_grad for weights in target.module.parameters())


@on_images
def test_diverged_networks_leave_images_unchanged(attack: Attack) -> None:
    target, X, y = images(6)
    with torch.no_grad():
        target.module[-1].bias.fill_(torch.nan)
    np.testing.assert_array_equal(attack(target, X, y, seed=0), X.astype(np.float32) / 255)
