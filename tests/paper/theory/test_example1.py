"""Example 1: losses against scipy's quad and the library's labelers, minimizers against a search of scipy."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.optimize import brentq, minimize_scalar
from torch.distributions import Categorical, MixtureSameFamily, MultivariateNormal

from genlabel.densities.base import FixedDensity
from genlabel.labeling import GenLabel, Labeler, LinearLabel
from genlabel.mixing import MixParams, Mixup
from genlabel_paper.theory.example1 import (
    PAIRS,
    UNDEFINED,
    example1_loss,
    example1_loss_by_quadrature,
    example1_margin,
    example1_prediction,
    example1_theta,
    make_example1,
)
from genlabel_paper.theory.example2 import KNOWN as KNOWN_2
from genlabel_paper.theory.example2 import UNDEFINED as UNDEFINED_2
from genlabel_paper.theory.example3 import KNOWN as KNOWN_3
from genlabel_paper.theory.example3 import UNDEFINED as UNDEFINED_3
from genlabel_paper.theory.inputs import SCHEMES

CASES = [
    ("mixup", {}, 3 / 8),
    ("mixup", {"as_printed": True}, 7 / 16),
    ("mixup-without-mi", {}, 1 / 2),
    ("mixup-without-mi", {"as_printed": True}, 1 / 2),
    ("genlabel", {}, math.sqrt(3) / 4),
    ("genlabel", {"same_class": "keep"}, math.sqrt(2) / 4),
]
each_case = pytest.mark.parametrize("scheme, options, best", CASES, ids=[f"{s}-{o}" for s, o, _ in CASES])
THETA = st.floats(0.01, 3)


def squared_errors(scheme: str, theta: float, as_printed: bool = False, same_class: str = "relabel") -> float:
    """The three integrals of the proof over x in [-1, 1], by quad: each label spelt out."""

    def f(x: float) -> float:
        return abs(x) / (2 * theta) if abs(x) <= 2 * theta else 1.0

    def integral(label, low: float, high: float) -> float:  # the mean over the segment
        cuts = [x for x in (-2 * theta, -0.5, 0, 0.5, 2 * theta) if low < x < high]
        return quad(lambda x: 2 * (f(x) - label(x)) ** 2 / (high - low), low, high, points=cuts or None)[0]

    def step(x: float) -> float:
        return float(abs(x) > 0.5)

    two = step if scheme == "genlabel" else abs
    one = step if scheme == "genlabel" and same_class == "relabel" else lambda x: 1.0
    total = integral(two, -1, 0) + integral(two, 0, 1)
    third = 0.0 if scheme == "mixup-without-mi" else integral(one, -1, 1)
    return total + third * (0.5 if as_printed else 1.0)


@each_case
@given(theta=THETA)
def test_closed_form_equals_the_integral(scheme: str, options: dict, best: float, theta: float) -> None:
    loss = example1_loss(scheme, theta, **options)
    assert loss == pytest.approx(squared_errors(scheme, theta, **options), abs=1e-9)
    assert loss == pytest.approx(example1_loss_by_quadrature(scheme, theta, **options), abs=1e-12)
    assert loss >= example1_loss(scheme, best, **options) - 1e-15


@each_case
def test_minimizer_equals_a_search(scheme: str, options: dict, best: float) -> None:
    result = minimize_scalar(lambda t: squared_errors(scheme, t, **options), bounds=(0.2, 0.8), method="bounded")
    assert result.x == pytest.approx(best, abs=1e-5)
    assert example1_theta(scheme, **options) == pytest.approx(best, abs=1e-15)
    assert example1_margin(scheme, **options) == pytest.approx(min(best, 1 - best), abs=1e-15)


@given(theta=st.floats(0.001, 0.5))
def test_losses_equal_the_printed_polynomials(theta: float) -> None:
    """arXiv, proof for Example 1: 3/2 (L_1 + L_2 + L_3) = 8 theta^2 - 7 theta + 2, and (2 theta - 1)^2 without MI."""
    printed = example1_loss("mixup", theta, as_printed=True)
    assert 1.5 * printed == pytest.approx(8 * theta**2 - 7 * theta + 2)
    assert 0.75 * example1_loss("mixup-without-mi", theta) == pytest.approx((2 * theta - 1) ** 2, abs=1e-15)
    assert example1_loss("mixup", theta) - printed == pytest.approx(2 * theta / 3)  # the factor 2 that L_3 lacks


def test_genlabel_repairs_most_of_the_margin_but_not_all() -> None:
    """With unchanged labels of pairs of one class the margin is below that of mixup."""
    assert example1_margin("mixup") < example1_margin("genlabel") < example1_margin("mixup-without-mi")
    assert example1_margin("genlabel", same_class="keep") < example1_margin("mixup")


def test_one_width_gives_the_largest_margin() -> None:
    """A softer step suits f_theta better: at some width the margin is 1/2."""
    width = brentq(lambda sigma: example1_theta("genlabel", sigma=sigma) - 0.5, 0.1, 0.5)
    assert width == pytest.approx(0.28911, abs=1e-5)
    assert example1_margin("genlabel", sigma=2 * width) < 0.5


def known_mixture(sigma: float) -> FixedDensity:
    """Return class 1 (label 0) as an equal mixture of two Gaussians and class 2 as one."""
    X, y = make_example1()
    variance = sigma**2 * torch.eye(1, dtype=torch.float64)
    two = MultivariateNormal(torch.tensor([[-1.0], [1.0]]).double(), variance.expand(2, 1, 1))
    models = [
        MixtureSameFamily(Categorical(torch.ones(2).double()), two),
        MultivariateNormal(torch.zeros(1).double(), variance),
    ]
    return FixedDensity(models).fit(X, y)


def labelled_errors(labeler: Labeler, theta: float, pairs: list, lam: np.ndarray) -> np.ndarray:
    """||y_hat - y||^2 at the mixed points of each pair, (pairs, lam), with the library's mixer and labels."""
    X, y = make_example1()
    rows = []
    for i, j in pairs:
        batch, names = np.repeat(X[[i, j]], len(lam), axis=0), np.repeat(y[[i, j]], len(lam))
        draw = MixParams(np.roll(np.arange(2 * len(lam)), len(lam)), np.concatenate([lam, 1 - lam]))
        x = Mixup().mix(batch, draw)
        share = example1_prediction(x[:, 0], theta)
        target = labeler.label(x, np.eye(2)[names], draw)
        rows.append(((np.stack([share, 1 - share], 1) - target) ** 2).sum(1)[: len(lam)])
    return np.array(rows)


@pytest.mark.parametrize("theta", [0.2, 0.4, 0.7])
@pytest.mark.parametrize("sigma", [0.1, 0.3, 1.0])
@pytest.mark.parametrize("same_class", ["relabel", "keep"])
def test_loss_of_a_width_equals_the_librarys_genlabel(theta: float, sigma: float, same_class: str) -> None:
    lam = (np.arange(10_000) + 0.5) / 10_000
    labeler = GenLabel(known_mixture(sigma), same_class=same_class)
    expected = labelled_errors(labeler, theta, [(0, 1), (1, 2), (2, 0)], lam).mean(1).sum()
    assert example1_loss("genlabel", theta, sigma=sigma, same_class=same_class) == pytest.approx(expected, abs=1e-7)


@pytest.mark.parametrize("theta", [0.3, 0.375, 0.6])
def test_mixup_loss_equals_monte_carlo(theta: float) -> None:
    """Uniform lam from the library's mixer and its linear labels, within five standard errors."""
    lam = Mixup().draw(40_000, rng=1).lam
    for scheme, pairs in (("mixup", [(0, 1), (1, 2), (2, 0)]), ("mixup-without-mi", [(0, 1), (1, 2)])):
        errors = labelled_errors(LinearLabel(), theta, pairs, lam).sum(0)
        standard = errors.std() / math.sqrt(len(lam))
        assert abs(errors.mean() - example1_loss(scheme, theta)) < 5 * standard


def test_small_widths_approach_the_limit() -> None:
    for same_class in ("relabel", "keep"):
        limit = example1_theta("genlabel", same_class=same_class)
        gaps = [example1_theta("genlabel", sigma=s, same_class=same_class) - limit for s in (0.02, 0.01)]
        assert gaps[0] / gaps[1] == pytest.approx(4, rel=0.02)  # of order sigma^2: the mixture's log 2 moves the step
        assert example1_loss("genlabel", 0.4, sigma=1e-7, same_class=same_class) == pytest.approx(
            example1_loss("genlabel", 0.4, same_class=same_class), abs=1e-12
        )


def test_vanilla_fits_the_points_with_many_thetas() -> None:
    X, y = make_example1()
    for theta in (0.01, 0.3, 0.5, 0.6, 2.0):
        share = example1_prediction(X[:, 0], theta)
        error = ((np.stack([share, 1 - share], 1) - np.eye(2)[y]) ** 2).sum()
        assert example1_loss("vanilla", theta) == pytest.approx(error, abs=1e-15)
        assert example1_loss_by_quadrature("vanilla", theta) == pytest.approx(error, abs=1e-12)
        assert (error == 0) == (theta <= 0.5)
    with pytest.raises(ValueError, match="vanilla"):
        example1_theta("vanilla")


def test_dropping_intruding_points_alone_does_not_give_one_half() -> None:
    """The paper's own criterion (nearest neighbour of a third class) drops |x| < 1/2 of the pair -1, +1 only.

    The rest of that pair has the label e_1 and still pulls: Example 1 gets 1/2 as it drops the pair altogether.
    """

    def loss(theta: float) -> float:
        rest = quad(lambda x: 2 * (1 - min(x / (2 * theta), 1)) ** 2, 0.5, 1, points=[2 * theta])[0]
        return example1_loss("mixup-without-mi", theta) + rest

    result = minimize_scalar(loss, bounds=(0.3, 0.5), method="bounded", options={"xatol": 1e-9})
    assert result.x == pytest.approx(0.44827, abs=1e-5)


@pytest.mark.parametrize("known, undefined", [(PAIRS, UNDEFINED), (KNOWN_2, UNDEFINED_2), (KNOWN_3, UNDEFINED_3)])
def test_every_scheme_is_known_or_has_a_reason(known, undefined: dict[str, str]) -> None:
    assert sorted([*known, *undefined]) == sorted(SCHEMES)


@given(x=st.floats(-5, 5), theta=st.floats(1e-300, 1e300))
def test_prediction_is_even_and_one_half_at_theta(x: float, theta: float) -> None:
    assert 0 <= example1_prediction(x, theta) <= 1
    assert example1_prediction(x, theta) == example1_prediction(-x, theta)
    assert example1_prediction(theta, theta) == pytest.approx(0.5)


@pytest.mark.parametrize(
    "call, keyword",
    [
        (lambda: example1_loss("mixpu", 0.4), "scheme='mixpu'"),
        (lambda: example1_loss("svm", 0.4), "svm"),
        (lambda: example1_theta("logistic"), "logistic"),
        (lambda: example1_loss("mixup", 0.0), "theta=0.0"),
        (lambda: example1_prediction(0.5, -1.0), "theta=-1.0"),
        (lambda: example1_theta("genlabel", sigma=-0.1), "sigma=-0.1"),
        (lambda: example1_theta("genlabel", same_class="drop"), "same_class='drop'"),
        (lambda: example1_theta("genlabel", as_printed=True), "genlabel"),
    ],
)
def test_errors_name_the_value(call, keyword: str) -> None:
    with pytest.raises(ValueError, match=keyword):
        call()


def test_points_equal_the_paper() -> None:
    X, y = make_example1()
    assert X.tolist() == [[-1], [0], [1]]
    assert y.tolist() == [0, 1, 0]
    assert (0.5 * X[0] + 0.5 * X[2] == X[1]).all()  # the intrusion: the middle of class 0 is of class 1


def test_points_are_typed_and_fresh_copies() -> None:
    X, y = make_example1()
    assert (X.dtype, y.dtype) == (np.dtype(np.float64), np.dtype(np.int64))
    X += 1
    assert not np.array_equal(X, make_example1()[0])
