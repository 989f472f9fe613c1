"""Example 3: the loss against all pairs one by one and Monte Carlo, the angles against searches, limits and an SVM."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.optimize import brentq, minimize_scalar
from scipy.stats import beta
from sklearn.metrics import log_loss
from sklearn.svm import SVC
from torch.distributions import Categorical, MixtureSameFamily, MultivariateNormal

from genlabel.densities.base import FixedDensity
from genlabel.labeling import GenLabel, Labeler, LinearLabel, LogisticLabel
from genlabel.mixing import Mixup
from genlabel_paper.theory.example3 import (
    example3_angle,
    example3_angles,
    example3_limit,
    example3_loss,
    example3_margin,
    example3_order,
    example3_parameters,
    make_example3,
)

PI = math.pi
NORM = st.floats(0.1, 200)
PHI = st.floats(0, PI / 2)
COUNT = st.integers(1, 100)
ALPHA = st.floats(0.3, 5)
SIGMA = st.floats(0.05, 2)
MIXING = st.sampled_from(["mixup", "genlabel"])
LABELS = st.sampled_from(["unit", "distance", "mixture"])


def pair_loss(scheme: str, r: float, phi: float, n: int, alpha: float, sigma: float) -> float:
    """Sum over all (n + 2)^2 ordered pairs of the dataset the integral over lam by quad."""
    X, y = make_example3(n)
    theta = r * np.array([math.cos(phi), math.sin(phi)])

    def loss(lam: float, i: int, j: int) -> float:
        rho = lam if scheme == "mixup" else 1 / (1 + math.exp(min(-(lam - 0.5) / sigma**2, 700)))
        share = rho * (y[i] == 1) + (1 - rho) * (y[j] == 1)
        score = theta @ (lam * X[i] + (1 - lam) * X[j])
        return (np.logaddexp(0, score) - share * score) * beta.pdf(lam, alpha, alpha)

    pairs = [(i, j) for i in range(n + 2) for j in range(n + 2)]
    return sum(quad(loss, 0, 1, args=pair, points=[0.5], epsabs=1e-7, epsrel=1e-7)[0] for pair in pairs)


@settings(max_examples=8)
@given(
    scheme=MIXING, r=st.floats(0.1, 30), phi=PHI, n=st.integers(1, 3), alpha=st.floats(1, 4), sigma=st.floats(0.2, 1)
)
def test_loss_equals_the_sum_over_all_pairs(
    scheme: str, r: float, phi: float, n: int, alpha: float, sigma: float
) -> None:
    expected = pair_loss(scheme, r, phi, n, alpha, sigma)
    assert example3_loss(scheme, r, phi, n, alpha=alpha, sigma=sigma) == pytest.approx(expected, rel=1e-6)


def known_mixture(sigma: float) -> FixedDensity:
    """Return class -1 as one Gaussian and class +1 as an equal mixture of two."""
    X, y = make_example3(1)
    variance = sigma**2 * torch.eye(2, dtype=torch.float64)
    two = MultivariateNormal(torch.eye(2).double(), variance.expand(2, 2, 2))
    one = MultivariateNormal(torch.tensor([-1.0, 0.0]).double(), variance)
    return FixedDensity([one, MixtureSameFamily(Categorical(torch.ones(2).double()), two)]).fit(X, y)


@pytest.mark.parametrize("alpha", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("scheme, labels", [("mixup", "unit"), ("genlabel", "unit"), ("genlabel", "mixture")])
def test_loss_equals_the_library_by_monte_carlo(scheme: str, labels: str, alpha: float) -> None:
    """A batch of many copies of the dataset has every pair equally often; agreement within 5 standard errors."""
    n, r, phi, sigma = 3, 6.0, 0.8, 0.4
    labelers: dict[tuple[str, str], Labeler] = {
        ("mixup", "unit"): LinearLabel(),
        ("genlabel", "unit"): LogisticLabel(sigma * math.sqrt(2)),  # section 3.2's factor 2
        ("genlabel", "mixture"): GenLabel(known_mixture(sigma), same_class="keep"),
    }
    X, y = (np.concatenate([values] * 20_000) for values in make_example3(n))
    draw = Mixup(alpha).draw(len(X), rng=4)
    x = Mixup().mix(X, draw)
    share = labelers[scheme, labels].label(x, y, draw)[:, 1]
    score = x @ [r * math.cos(phi), r * math.sin(phi)]
    losses = (n + 2) ** 2 * (np.logaddexp(0, score) - share * score)
    expected = example3_loss(scheme, r, phi, n, alpha=alpha, sigma=sigma, labels=labels)
    assert abs(losses.mean() - expected) < 5 * losses.std() / math.sqrt(len(X) / 2)


@given(r=st.floats(0.1, 30), phi=PHI, n=COUNT)
def test_vanilla_loss_equals_scikit_learn(r: float, phi: float, n: int) -> None:
    X, y = make_example3(n)
    share = 1 / (1 + np.exp(-(X @ [r * math.cos(phi), r * math.sin(phi)])))
    expected = log_loss(y, np.stack([1 - share, share], 1), normalize=False)
    assert example3_loss("vanilla", r, phi, n) == pytest.approx(expected, rel=1e-9)


@given(scheme=MIXING, r=NORM, phi=PHI, n=COUNT, alpha=ALPHA, sigma=SIGMA, labels=LABELS)
@settings(max_examples=25)
def test_no_other_angle_has_a_lower_loss(
    scheme: str, r: float, phi: float, n: int, alpha: float, sigma: float, labels: str
) -> None:
    options = {"alpha": alpha, "sigma": sigma, "labels": labels}
    best = example3_angle(scheme, r, n, **options)
    lowest = example3_loss(scheme, r, best, n, **options)
    for other in (phi, max(best - 1e-3, 0.0), min(best + 1e-3, PI / 2)):
        assert example3_loss(scheme, r, other, n, **options) >= lowest * (1 - 1e-12)


@given(r=st.floats(1e-3, 1e6), n=st.integers(1, 10**6))
def test_vanilla_angle_solves_the_printed_equation(r: float, n: int) -> None:
    """R(phi) = 0, in logarithms to avoid underflow; phi is from atan(1 / (n + 1)) up to pi / 4."""
    phi = example3_angle("vanilla", r, n)
    assert math.atan(1 / (n + 1)) * (1 - 1e-12) <= phi < PI / 4
    logs = [
        math.log(a) - np.logaddexp(0, r * b)
        for a, b in ((math.sin(phi), math.cos(phi)), (math.cos(phi), math.sin(phi)))
    ]
    assert math.log(n + 1) + logs[0] - logs[1] == pytest.approx(0, abs=1e-8 * max(1, r))


@pytest.mark.parametrize("scheme", ["vanilla", "mixup", "genlabel"])
@pytest.mark.parametrize("r", [1.0, 25.0])
def test_angle_equals_a_numerical_search(scheme: str, r: float) -> None:
    result = minimize_scalar(
        lambda phi: example3_loss(scheme, r, phi, 30), bounds=(0, PI / 2), method="bounded", options={"xatol": 1e-10}
    )
    assert example3_angle(scheme, r, 30) == pytest.approx(result.x, abs=2e-7)


def test_angle_is_exact_to_eight_digits() -> None:
    """Mixup, alpha = 1: the root of the derivative by quad, with small n so that all terms count."""
    r, n = 3.0, 2

    def slope(phi: float) -> float:
        c, s = math.cos(phi), math.sin(phi)

        def term(count: float, share, t, turn) -> float:
            return count * quad(lambda v: (1 / (1 + math.exp(-r * t(v))) - share(v)) * turn(v), 0, 1, epsabs=1e-13)[0]

        first = term(2 * n, lambda v: 1 - v, lambda v: (1 - v) * s - v * c, lambda v: (1 - v) * c + v * s)
        second = term(2 * n, lambda v: v, lambda v: (2 * v - 1) * c, lambda v: (1 - 2 * v) * s)
        third = term(2, lambda v: 1, lambda v: (1 - v) * c + v * s, lambda v: v * c - (1 - v) * s)
        points = (n**2 + 1) * s / (1 + math.exp(r * c)) - c / (1 + math.exp(r * s))
        return first + second + third + points

    expected = brentq(slope, 0.01, 1.5, xtol=1e-13)
    assert example3_angle("mixup", r, n) == pytest.approx(expected, abs=1e-10)


@pytest.mark.parametrize("alpha, labels", [(0.3, "unit"), (1.0, "mixture"), (3.0, "distance")])
@pytest.mark.parametrize("scheme", ["vanilla", "mixup", "genlabel"])
def test_batched_angles_equal_single_ones(scheme: str, alpha: float, labels: str) -> None:
    r, n, sigma = [1.0, 15.0, 1000.0], [1, 100], [0.05, 0.4]
    angles = example3_angles(scheme, r, n, sigma, alpha=alpha, labels=labels)

    def angle(count: int, width: float, norm: float) -> float:
        return example3_angle(scheme, norm, count, alpha=alpha, sigma=width, labels=labels)

    expected = [[[angle(count, width, norm) for norm in r] for width in sigma] for count in n]
    np.testing.assert_allclose(angles, expected, atol=1e-5)


@pytest.mark.parametrize("r, sigma", [(150.0, 1.86), (401.0, 1.03)])
def test_batched_angles_are_exact_near_a_right_angle(r: float, sigma: float) -> None:
    """Wide Gaussians turn theta so far that the derivative changes between two angles of the grid."""
    angles = example3_angles("genlabel", [r], [76, 444], [sigma], alpha=0.7)[:, 0, 0]
    expected = [example3_angle("genlabel", r, n, alpha=0.7, sigma=sigma) for n in (76, 444)]
    np.testing.assert_allclose(angles, expected, atol=1e-5)


def test_angles_at_the_printed_norm() -> None:
    angles = [example3_angle("vanilla", 25.0, n) / PI for n in (18, 30, 60)]
    np.testing.assert_allclose(angles, [0.2249, 0.2207, 0.2149], atol=5e-5)
    angles = [example3_angle("mixup", 25.0, 30, alpha=alpha) / PI for alpha in (1.0, 1.7, 2.0)]
    np.testing.assert_allclose(angles, [0.3198, 0.3004, 0.2949], atol=5e-5)
    assert example3_angle("genlabel", 25.0, 30) / PI == pytest.approx(0.2486, abs=5e-5)


def test_svm_angle_is_a_quarter_of_pi() -> None:
    """Fit to the points and their mirror images, so that the boundary goes through the origin; then without these."""
    X, y = make_example3(30)
    for points, labels in ((np.vstack([X, -X]), np.concatenate([y, -y])), (X, y)):
        svm = SVC(kernel="linear", C=1e9).fit(points, labels)
        theta = svm.coef_[0]
        assert math.atan2(theta[1], theta[0]) == pytest.approx(PI / 4, abs=1e-4)
        assert svm.intercept_[0] == pytest.approx(0, abs=1e-3)
    assert example3_limit("vanilla") == PI / 4


@given(n=COUNT, alpha=ALPHA, sigma=st.floats(0.05, 0.5), labels=LABELS, scheme=MIXING)
@settings(max_examples=15)
def test_limit_equals_the_angle_of_a_large_norm(n: int, alpha: float, sigma: float, labels: str, scheme: str) -> None:
    """For any n the distance to the limit shrinks as 1 / r or faster. Nothing overflows: warnings are errors."""
    options = {"alpha": alpha, "sigma": sigma, "labels": labels}
    limit = example3_limit(scheme, **options)
    assert example3_angle(scheme, 1e6, n, **options) == pytest.approx(limit, abs=1e-6)


def test_mixup_limit_equals_the_closed_form() -> None:
    """With alpha = 1 the hinge loss of L_1 and L_2 is (1 - sin cos) / (6 (sin + cos)) + cos / 12."""

    def hinge(phi: float) -> float:
        c, s = math.cos(phi), math.sin(phi)
        return (1 - s * c) / (6 * (s + c)) + c / 12

    result = minimize_scalar(hinge, bounds=(0, PI / 2), method="bounded", options={"xatol": 1e-12})
    assert example3_limit("mixup") == pytest.approx(result.x, abs=1e-6)
    assert example3_limit("mixup") / PI == pytest.approx(0.32488, abs=1e-5)


@given(alpha=st.floats(0.5, 3), sigma=st.floats(0.01, 0.08))
@settings(max_examples=15)
def test_genlabel_limit_differs_from_the_svm_by_a_known_amount(alpha: float, sigma: float) -> None:
    """NOTE[PAPER]: it approaches pi / 4 + 2 pi^2 sigma^4 / 3; with true lengths a sixteenth of the pull."""
    pull = 2 * PI**2 * sigma**4 / 3
    tolerance = pull * 10 * sigma**2 + 1e-12
    assert example3_limit("genlabel", alpha=alpha, sigma=sigma) - PI / 4 == pytest.approx(pull, abs=tolerance)
    by_distance = example3_limit("genlabel", alpha=alpha, sigma=sigma, labels="distance")
    assert by_distance - PI / 4 == pytest.approx(pull / 16, abs=tolerance)
    mixture = example3_limit("genlabel", alpha=alpha, sigma=sigma, labels="mixture")
    assert mixture - PI / 4 == pytest.approx(-(sigma**2) * math.log(2), rel=0.05)


@given(r=st.floats(100, 1e5), n=COUNT)
def test_vanilla_approaches_the_svm_as_one_over_r(r: float, n: int) -> None:
    gap = PI / 4 - example3_angle("vanilla", r, n)
    assert gap == pytest.approx(math.log(n + 1) / (math.sqrt(2) * r), rel=0.1)


def test_settings_that_give_the_printed_angles() -> None:
    ranges = example3_parameters()
    copies = [n for n in range(1, 121) if round(example3_angle("vanilla", 25.0, n) / PI, 2) == 0.22]
    assert copies == list(range(ranges.n[0], ranges.n[1] + 1)) == list(range(18, 60))
    low, high = ranges.alpha
    for alpha, printed in ((low - 0.01, 0.31), (low + 0.01, 0.30), (high - 0.01, 0.30), (high + 0.01, 0.29)):
        assert round(example3_angle("mixup", 25.0, 30, alpha=alpha) / PI, 2) == printed
    assert ranges.sigma[0] == 0.0
    for sigma, printed in ((1e-3, 0.25), (ranges.sigma[1] - 1e-3, 0.25), (ranges.sigma[1] + 1e-3, 0.26)):
        assert round(example3_angle("genlabel", 25.0, 30, sigma=sigma) / PI, 2) == printed


def margins_in_order(r: float) -> bool:
    genlabel, vanilla, mixup = (example3_margin(scheme, r, 30) for scheme in ("genlabel", "vanilla", "mixup"))
    return genlabel > vanilla > mixup


def test_printed_order_of_margins_holds_between_two_norms() -> None:
    """NOTE[PAPER]: not for small norms, and not for large ones: vanilla reaches pi / 4, GenLabel does not."""
    low, high = example3_order()
    assert low == pytest.approx(13.207, abs=1e-3)
    assert high == pytest.approx(3685.5, abs=0.1)
    assert [margins_in_order(r) for r in (0.99 * low, 1.01 * low, 25.0, 0.99 * high, 1.01 * high)] == [
        False,
        True,
        True,
        True,
        False,
    ]
    assert not any(margins_in_order(r) for r in (0.5, 1.0, 2.0, 3.5, 6.0, 10.0, 1e5))
    np.testing.assert_allclose(example3_order(r=2.9), [2.6873, 2.9896], atol=1e-4)
    assert example3_order(sigma=1e-3)[1] == math.inf
    with pytest.raises(ValueError, match="r=10"):
        example3_order(r=10.0)


@given(scheme=st.sampled_from(["vanilla", "mixup", "genlabel"]), r=NORM, n=COUNT)
@settings(max_examples=15)
def test_margin_is_the_smallest_distance_to_the_boundary(scheme: str, r: float, n: int) -> None:
    X, y = make_example3(n)
    phi = example3_angle(scheme, r, n)
    assert example3_margin(scheme, r, n) == pytest.approx((y * (X @ [math.cos(phi), math.sin(phi)])).min())


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: example3_angles("mixup", [25.0, -1.0], [30]), "r=-1.0"),
        (lambda: example3_angle("svm", 25.0, 30), "svm"),
        (lambda: example3_angle("logistic", 25.0, 30), "genlabel"),
        (lambda: example3_limit("mixup-without-mi"), "mixup-without-mi"),
        (lambda: example3_angle("Mixup", 25.0, 30), "scheme='Mixup'"),
        (lambda: example3_angle("mixup", 0.0, 30), "r=0.0"),
        (lambda: example3_angle("mixup", 25.0, 0), "n=0"),
        (lambda: example3_angle("mixup", 25.0, 30, alpha=-1.0), "alpha=-1.0"),
        (lambda: example3_angle("genlabel", 25.0, 30, sigma=0.0), "sigma=0.0"),
        (lambda: example3_loss("mixup", 1.0, 2.0, 30), r"phi=2.0"),
        (lambda: example3_limit("genlabel", labels="true"), "labels='true'"),
    ],
)
def test_errors_name_the_value(call, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("n", [30, 1, 2])
def test_points_equal_the_paper(n: int) -> None:
    X, y = make_example3() if n == 30 else make_example3(n)
    assert X.tolist() == [[1, 0], [0, 1]] + n * [[-1, 0]]
    assert y.tolist() == [1, 1] + n * [-1]


def test_points_give_the_printed_vanilla_angle() -> None:
    X, y = make_example3()

    def loss(phi: float) -> float:
        return float(np.logaddexp(0, -y * (X @ (25 * np.cos(phi), 25 * np.sin(phi)))).sum())

    best = minimize_scalar(loss, bounds=(0, np.pi / 2), method="bounded", options={"xatol": 1e-8}).x
    assert round(best / np.pi, 2) == 0.22


@pytest.mark.parametrize("bad", [0, -1, 1.5, True])
def test_invalid_n_is_refused(bad: object) -> None:
    with pytest.raises(ValueError, match=f"n={bad!r}"):
        make_example3(bad)  # type: ignore[arg-type]


def test_points_are_typed_and_fresh_copies() -> None:
    X, y = make_example3()
    assert (X.dtype, y.dtype) == (np.dtype(np.float64), np.dtype(np.int64))
    X += 1
    assert not np.array_equal(X, make_example3()[0])
