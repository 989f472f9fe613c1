"""Losses against Monte Carlo with the library's mixing and labels, and their expansions against autograd."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad, trapezoid
from scipy.optimize import minimize
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, softplus

from genlabel import GenLabel, LinearLabel
from genlabel.densities.base import FixedDensity
from genlabel.mixing import MixParams
from genlabel.mixing.base import blend
from genlabel_paper.theory import (
    GaussianPair,
    adversarial_loss,
    expand,
    genlabel_loss,
    mixup_loss,
    pair_coefficients,
    sigma_matrix,
    standard_loss,
)
from genlabel_paper.theory.inputs import read_model
from genlabel_paper.theory.quadrature import nodes_between

SETTINGS = [(3.0, 1.0, 0.0, 2), (2.0, 2.5, 0.3, 3), (8.0, 0.4, -0.2, 3), (1.0, 1.0, 0.0, 1)]


def make_network(d: int, act: Callable[[], nn.Module] = nn.ReLU, *, bias: bool = False, seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    layers = [nn.Linear(d, 8, bias=bias), act(), nn.Linear(8, 8, bias=bias), act(), nn.Linear(8, 1, bias=bias)]
    network = nn.Sequential(*layers).double()
    with torch.no_grad():
        network[-1].weight.mul_(4.0)
    return network


def make_models(d: int) -> list[Any]:
    return [np.linspace(1.0, -0.5, d), make_network(d), make_network(d, nn.Tanh, bias=True)]


def value(model: Any, X: np.ndarray) -> Tensor:
    points = torch.from_numpy(X)
    with torch.no_grad():
        return points @ torch.from_numpy(model) if isinstance(model, np.ndarray) else model(points)[:, 0]


def draw_pairs(n: int, count: int, seed: int) -> tuple[np.ndarray, MixParams]:
    """Return the rows of a batch of random pairs and its draw: the first half is mixed with the second."""
    rng = np.random.default_rng(seed)
    rows = rng.integers(0, n, 2 * count)
    partner = np.concatenate([np.arange(count, 2 * count), np.arange(count)])
    lam = rng.uniform(size=count)
    return rows, MixParams(partner, np.concatenate([lam, rng.uniform(size=count)]))


def known_density(pair: GaussianPair) -> FixedDensity:
    mean, Sigma = torch.eye(pair.d, dtype=torch.float64)[0], torch.from_numpy(sigma_matrix(pair.tau, pair.d))
    normal = torch.distributions.MultivariateNormal
    return FixedDensity([normal(-mean, Sigma / pair.sigma_1**2), normal(mean, Sigma / pair.sigma_2**2)])


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("kind", [0, 1, 2], ids=["theta", "relu", "tanh"])
@pytest.mark.parametrize("scheme", ["mixup", "genlabel"])
def test_exact_losses_equal_monte_carlo(setting: tuple[float, float, float, int], kind: int, scheme: str) -> None:
    """Mix and label with the library as in training; cross-entropy is torch's."""
    sigma_1, c, tau, d = setting
    pair, model = GaussianPair(*setting), make_models(d)[kind]
    X, y = pair.sample((4, 6), rng=1)
    rows, draw = draw_pairs(len(X), 20_000, seed=2)
    mixed = blend(X[rows], draw)
    if scheme == "mixup":
        labels, exact = LinearLabel().label(mixed, y[rows], draw), mixup_loss(model, X, y)
    else:
        labeler = GenLabel(known_density(pair), same_class="keep").fit(X, y)
        labels, exact = labeler.label(mixed, y[rows], draw), genlabel_loss(model, X, y, sigma_1=sigma_1, c=c, tau=tau)
    target = torch.from_numpy(labels[:, 1])
    draws = binary_cross_entropy_with_logits(value(model, mixed), target, reduction="none").numpy()
    assert abs(draws.mean() - exact) < 5 * draws.std() / np.sqrt(len(draws) / 2)


@settings(max_examples=10)
@given(theta=st.floats(-5, 5), a=st.floats(-2, -0.2), b=st.floats(0.2, 2))
def test_losses_of_two_points_equal_quadrature(theta: float, a: float, b: float) -> None:
    def loss(lam: float, label: float) -> float:
        f = theta * (lam * a + (1 - lam) * b)
        return float(np.logaddexp(0, f) - label * f)

    pair = GaussianPair(2.0, 1.5, d=1)
    ends = np.logaddexp(0, theta * a) + np.logaddexp(0, -theta * b)
    gen = [quad(lambda t: loss(t, 1 / (1 + np.exp(-pair.log_odds([t * a + (1 - t) * b])))), 0, 1, limit=300)[0]]
    mix = [quad(lambda t: loss(t, 1 - t), 0, 1)[0]]
    X, y = [[a], [b]], [0, 1]
    assert mixup_loss([theta], X, y) == pytest.approx((2 * mix[0] + ends) / 4, abs=1e-9)
    assert genlabel_loss([theta], X, y, sigma_1=2.0, c=1.5) == pytest.approx((2 * gen[0] + ends) / 4, abs=1e-7)


@pytest.mark.parametrize("kind", [0, 1, 2], ids=["theta", "relu", "tanh"])
@pytest.mark.parametrize("scheme", ["mixup", "genlabel"])
def test_expansions_equal_autograd(kind: int, scheme: str) -> None:
    """Scale all steps x_j - x_i by t; compare with the value and two derivatives of the loss at t = 0 by torch."""
    pair = GaussianPair(3.0, 2.0, 0.2, 3)
    X, y = pair.sample(4, rng=3)
    model = make_models(3)[kind]
    scorer = read_model(model, 3)
    x, labels = torch.from_numpy(X), torch.from_numpy(y).double()
    lam, weight = map(torch.from_numpy, nodes_between(np.array([0.3, 0.7])))
    density = _own_density(pair, x, labels, lam) if scheme == "genlabel" else (2 * lam).expand(8, 8, -1)
    step = (1 - lam)[:, None] * (x[None, :, None] - x[:, None, None])

    def shrunk(t: Tensor) -> Tensor:
        f = scorer.scores((x[:, None, None] + t * step).reshape(-1, 3)).reshape(8, 8, -1)
        return (weight * density * (softplus(f) - labels[:, None, None] * f)).sum(-1).mean()

    t = torch.zeros((), dtype=torch.float64, requires_grad=True)
    first = torch.autograd.grad(shrunk(t), t, create_graph=True)[0]
    second = torch.autograd.grad(first, t)[0] if first.requires_grad else torch.zeros(())
    oracle = float((shrunk(t) + first + second / 2).detach())
    if scheme == "mixup":
        assert mixup_loss(model, X, y, taylor=True) == pytest.approx(oracle, rel=1e-6)
    else:
        mass, A, B = pair_coefficients(X, y, pair)
        assert expand(model, X, y, A, B, mass).total == pytest.approx(oracle, rel=1e-6)


def _own_density(pair: GaussianPair, x: Tensor, y: Tensor, lam: Tensor) -> Tensor:
    """Return 2 lam_1, the density of lam given by the label of each pair; 1 for pairs of one class."""
    mixed = lam[:, None] * x[:, None, None] + (1 - lam[:, None]) * x[None, :, None]
    positive = torch.from_numpy(pair.log_odds(mixed.numpy())).sigmoid()
    share = torch.where(y[:, None, None] == 1, positive, 1 - positive)
    return torch.where((y[:, None] == y)[..., None], torch.ones_like(share), 2 * share)


@pytest.mark.parametrize("kind", [0, 1, 2], ids=["theta", "relu", "tanh"])
@pytest.mark.parametrize("c", [1.0, 3.0])
def test_expansions_err_by_third_powers_of_the_distance(kind: int, c: float) -> None:
    model = make_models(3)[kind]
    step = np.random.default_rng(0).normal(size=(6, 3))
    y = np.array([0, 0, 0, 1, 1, 1])
    errors = []
    for size in (0.01, 0.005):
        X = np.array([1.4, 0.9, -0.7]) + size * step
        kwargs = {"sigma_1": 2.0, "c": c, "tau": 0.1}
        gen = genlabel_loss(model, X, y, **kwargs)
        difference = gen - genlabel_loss(model, X, y, taylor=True, coefficients="pair", **kwargs)
        errors.append((mixup_loss(model, X, y) - mixup_loss(model, X, y, taylor=True), difference))
    large, small = np.abs(errors)
    assert (large < 1e-4).all()
    assert (small < large / 6 + 2e-13).all()  # 8 in the limit, but for rounding


@pytest.mark.parametrize("c", [1.0, 2.0, 3.0])
def test_lemma_gives_the_coefficients_of_the_loss_only_for_c_of_1(c: float) -> None:
    """For a line off the origin the lemma is wrong at first order; with coefficients by class it is right."""
    X, y = GaussianPair(1e4, c).sample(5, rng=0)

    def line(x: Tensor) -> Tensor:
        return 0.01 * (x[:, 0] + 0.6)

    kwargs = {"sigma_1": 1e4, "c": c}
    exact = genlabel_loss(line, X, y, **kwargs)
    lemma, by_class = (genlabel_loss(line, X, y, taylor=True, coefficients=k, **kwargs) for k in ("lemma", "class"))
    assert by_class == pytest.approx(exact, abs=1e-6)
    missed = 0.01 * 0.6 * (c - 1) / (c + 1) / 4  # sum over both classes of (1/2 - y_i) mass f(0) / 2
    assert lemma - exact == pytest.approx(-missed, abs=1e-6)


@given(eta=st.floats(0, 3), size=st.floats(-3, 3), seed=st.integers(0, 10**6))
def test_adversarial_loss_of_a_linear_model_equals_a_search(eta: float, size: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    theta, x, label = size * rng.normal(size=2), rng.normal(size=2), int(rng.integers(2))
    angles = np.linspace(0, 2 * np.pi, 721)
    ball = x + eta * np.column_stack([np.cos(angles), np.sin(angles)])
    f = ball @ theta
    loss = adversarial_loss(theta, x[None], [label], eta)
    best = (np.logaddexp(0, f) - label * f).max()
    assert best - 1e-12 <= loss <= best + 1e-3 * max(1.0, eta * float(np.linalg.norm(theta)))


@pytest.mark.parametrize("label", [0, 1])
def test_adversarial_expansion_equals_autograd(label: int) -> None:
    theta, x = torch.tensor([1.5, -0.7], dtype=torch.float64), torch.tensor([[0.4, 0.9]], dtype=torch.float64)
    eta = torch.zeros((), dtype=torch.float64, requires_grad=True)
    loss = softplus((1 - 2 * label) * (x @ theta)[0] + eta * theta.norm())
    first = torch.autograd.grad(loss, eta, create_graph=True)[0]
    second = torch.autograd.grad(first, eta)[0]
    for radius in (0.0, 0.1, 0.7):
        oracle = float((loss + radius * first + radius**2 / 2 * second).detach())
        assert adversarial_loss(theta, x, [label], radius, taylor=True) == pytest.approx(oracle)
    printed = adversarial_loss(theta, x, [label], 0.7, taylor=True, as_printed=True)
    assert printed - oracle == pytest.approx(float(0.7**2 / 2 * second))


def test_adversarial_loss_of_a_network_equals_scipy() -> None:
    """Neither random points of the ball nor scipy give a higher loss; a linear module has the closed form."""
    X, y = GaussianPair(3.0, d=3).sample(6, rng=0)
    network, radius = make_network(3, nn.Tanh, bias=True), 0.4
    loss = adversarial_loss(network, X, y, radius)
    step = np.random.default_rng(0).normal(size=(500, *X.shape))
    step *= radius / np.linalg.norm(step, axis=-1, keepdims=True)
    f = value(network, (X + step).reshape(-1, 3)).numpy().reshape(500, -1)
    assert loss >= (np.logaddexp(0, f) - y * f).max(0).mean()
    best = [_worst_by_scipy(network, point, label, radius) for point, label in zip(X, y, strict=True)]
    assert loss == pytest.approx(np.mean(best), rel=1e-3)
    line = nn.Linear(3, 1, bias=False).double()
    theta = line.weight.detach()[0]
    assert adversarial_loss(line, X, y, radius) == pytest.approx(adversarial_loss(theta, X, y, radius))
    assert adversarial_loss(network, X, y, 0.0) == pytest.approx(standard_loss(network, X, y))


def _worst_by_scipy(network: nn.Module, x: np.ndarray, label: int, radius: float) -> float:
    def negative(step: np.ndarray) -> float:
        f = float(value(network, (x + step)[None])[0])
        return float(label * f - np.logaddexp(0, f))

    constraint = {"type": "ineq", "fun": lambda step: radius**2 - step @ step}
    starts = radius * 0.5 * np.vstack([np.eye(3), -np.eye(3)])
    return max(-minimize(negative, start, method="SLSQP", constraints=[constraint]).fun for start in starts)


def test_network_of_two_scores_equals_their_difference() -> None:
    X, y = GaussianPair(3.0).sample(5, rng=0)
    network = nn.Sequential(nn.Linear(2, 6), nn.Tanh(), nn.Linear(6, 2)).double()

    def difference(x: Tensor) -> Tensor:
        both = network(x)
        return both[:, 1] - both[:, 0]

    for loss in (mixup_loss, standard_loss):
        assert loss(network, X, y) == loss(difference, X, y)
    assert mixup_loss(network, X, y, taylor=True) == pytest.approx(mixup_loss(difference, X, y, taylor=True))
    assert adversarial_loss(network, X, y, 0.3) == pytest.approx(adversarial_loss(difference, X, y, 0.3))
    entropy = nn.functional.cross_entropy(network(torch.from_numpy(X)), torch.from_numpy(y))
    assert standard_loss(network, X, y) == pytest.approx(entropy.item())


@pytest.mark.parametrize("model", [object(), lambda x: x.numpy(), lambda x: 1.0], ids=["object", "array", "number"])
def test_invalid_model_is_refused(model: Any) -> None:
    with pytest.raises(TypeError, match="theta"):
        mixup_loss(model, [[1.0]], [1])


@pytest.mark.parametrize("size", [1.0, 36.0, 40.0, 300.0])
def test_confident_models_are_symmetric_in_both_classes(size: float) -> None:
    """Swapping labels and signs changes nothing: 1 - sigmoid(f) is not lost in rounding."""
    for radius in (0.0, 0.1):
        zero, one = (adversarial_loss([size], [[x]], [y], radius, taylor=True) for x, y in ((-1.0, 0), (1.0, 1)))
        assert zero == pytest.approx(one, rel=1e-12)
    terms = expand([size], [[-1.0], [1.0]], [0, 1], 1 / 3, 1 / 6)
    exact = np.exp(-np.logaddexp(0, size))  # sigmoid(-size)
    assert pytest.approx(size / 3 * exact, rel=1e-9) == terms.R1


@pytest.mark.parametrize("theta", [1.0, 100.0, 1e4, 1e6])
def test_steep_models_equal_an_integral(theta: float) -> None:
    """Two points: the mixed loss is E[softplus(f)] - E[label f], an integral of softplus in f by dilogarithms."""
    a, b = -1.0, 0.37
    lam = np.linspace(0, 1, 2_000_001)
    f = theta * (lam * a + (1 - lam) * b)
    values = np.logaddexp(0, f) - (1 - lam) * f
    alone = np.logaddexp(0, theta * a) + np.logaddexp(0, -theta * b)
    pair = float(trapezoid(values, lam))
    assert mixup_loss([theta], [[a], [b]], [0, 1]) == pytest.approx((2 * pair + alone) / 4, rel=1e-7)


def test_losses_of_one_point() -> None:
    expected = standard_loss([[1.0, 2.0]], [[0.5, -1.0]], [1])
    assert expected == standard_loss([1.0, 2.0], [[0.5, -1.0]], [1]) == pytest.approx(np.log1p(np.exp(1.5)))
    assert mixup_loss([1.0, 2.0], [[0.5, -1.0]], [1]) == pytest.approx(expected)
    assert genlabel_loss([1.0, 2.0], [[0.5, -1.0]], [1], sigma_1=3.0) == pytest.approx(expected)


def test_vector_and_function_agree() -> None:
    """A vector never forms the mixed points; a function does, in chunks of pairs."""
    X, y = GaussianPair(3.0, d=40).sample(8, rng=0)
    theta = torch.linspace(-1, 1, 40, dtype=torch.float64)
    assert mixup_loss(theta, X, y) == pytest.approx(mixup_loss(lambda x: x @ theta, X, y), rel=1e-12)
    gen = genlabel_loss(theta, X, y, sigma_1=3.0)
    assert gen == pytest.approx(genlabel_loss(lambda x: x @ theta, X, y, sigma_1=3.0), rel=1e-12)


def test_chunked_losses_are_equal(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = GaussianPair(3.0).sample(5, rng=0)
    whole = [mixup_loss([1.0, 2.0], X, y), genlabel_loss([1.0, 2.0], X, y, sigma_1=3.0)]
    monkeypatch.setattr("genlabel_paper.theory.losses.CHUNK_ELEMENTS", 40_000)
    assert [mixup_loss([1.0, 2.0], X, y), genlabel_loss([1.0, 2.0], X, y, sigma_1=3.0)] == pytest.approx(whole)


@pytest.mark.parametrize(
    ("call", "keyword"),
    [
        (lambda: mixup_loss([1.0], [[1.0], [2.0]], [1, -1]), "labels"),
        (lambda: mixup_loss([1.0], [[1.0]], [1, 0]), "shape"),
        (lambda: mixup_loss([1.0], [[np.nan]], [1]), "NaN"),
        (lambda: mixup_loss([1.0, 2.0], [[1.0]], [1]), "theta"),
        (lambda: mixup_loss(nn.Linear(1, 1), [[1.0]], [1]), "double"),
        (lambda: mixup_loss(nn.Linear(1, 3).double(), [[1.0]], [1]), "shape"),
        (lambda: mixup_loss([np.nan], [[1.0]], [1]), "theta"),
        (lambda: mixup_loss(lambda x: x[:, 0] / 0, [[1.0]], [1]), "NaN"),
        (lambda: mixup_loss(nn.Linear(5, 1).double(), [[1.0]], [1]), "float64"),
        (lambda: mixup_loss(nn.Sequential(nn.Linear(1, 1), nn.Dropout()).double(), [[1.0]], [1]), "eval"),
        (lambda: mixup_loss([1.0], [["a"]], [1]), "numeric"),
        (lambda: mixup_loss([1.0], [[1.0]], [None]), "labels"),
        (lambda: adversarial_loss([1.0], [[1.0]], [1], -1.0), r"radius=-1.0"),
        (lambda: adversarial_loss([1.0], [[1.0]], [1], 0.1, as_printed=True), "as_printed=True"),
        (lambda: genlabel_loss([1.0], [[1.0]], [1], sigma_1=np.inf), "taylor"),
        (lambda: genlabel_loss([1.0], [[1.0]], [1], sigma_1=1e200), "sigma_1"),
        (lambda: genlabel_loss([1.0], [[1.0]], [1], sigma_1="10"), "sigma_1='10'"),
        (
            lambda: genlabel_loss([1.0], [[1.0]], [1], sigma_1=1.0, taylor=True, coefficients="pairs"),
            "coefficients='pairs'",
        ),
    ],
)
def test_invalid_input_is_refused(call: Callable[[], float], keyword: str) -> None:
    with pytest.raises(ValueError, match=keyword):
        call()
