"""Coefficients A and B against Monte Carlo, adaptive quadrature and their limits."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad, trapezoid
from scipy.special import expit
from scipy.stats import multivariate_normal

from genlabel_paper.theory import (
    GaussianPair,
    class_coefficients,
    coefficients,
    limit_coefficients,
    pair_coefficients,
    sigma_matrix,
    taylor_coefficients,
)
from genlabel_paper.theory.coefficients import MIXUP
from genlabel_paper.theory.theorem import C_RANGE

CORRELATIONS = [(0.0, 1), (0.0, 2), (0.5, 5), (-0.03, 20)]
RATIOS = {0.3: {1, 2}, 0.5: {1, 5}, 1.0: {1, 2, 5, 20}, 2.0: {1, 20}, 3.5: {1, 2}}
"""Ratios with the dimensions that are always tested; the others take a second each and are in the long profile."""


def draw_weights(c: float, tau: float, d: int, sigma_1: float, n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw lam and the posterior of the class of x_i at the mixed points of random pairs, with scipy alone."""
    rng = np.random.default_rng(seed)
    mean, Sigma = np.eye(d)[0], sigma_matrix(tau, d)
    p, q = multivariate_normal(-mean, Sigma / sigma_1**2), multivariate_normal(mean, Sigma / (c * sigma_1) ** 2)
    first, second = (law.rvs(n, random_state=rng).reshape(n, d) for law in (p, q))
    lam = rng.uniform(size=n)
    x = lam[:, None] * first + (1 - lam[:, None]) * second
    return lam, expit(p.logpdf(x) - q.logpdf(x))


@settings(max_examples=8)
@given(
    c=st.floats(0.25, 4.0), d=st.integers(1, 5), share=st.floats(0.1, 0.9), sigma_1=st.floats(0.3, 20.0),
    seed=st.integers(0, 10**6),
)  # fmt: skip
def test_coefficients_equal_monte_carlo(c: float, d: int, share: float, sigma_1: float, seed: int) -> None:
    tau = -1 / max(d - 1, 1) * (1 - share) + share
    lam, weight = draw_weights(c, tau, d, sigma_1, 20_000, seed)
    actual = taylor_coefficients(c, tau, d, sigma_1)
    for power, value in zip((1, 2), actual, strict=True):
        draws = (1 - lam) ** power * weight + lam**power * (1 - weight)
        assert abs(draws.mean() - value) < 5 * draws.std() / np.sqrt(len(draws))


@settings(max_examples=6)
@given(c=st.floats(0.25, 4.0), d=st.integers(1, 5), sigma_1=st.floats(0.3, 20.0), seed=st.integers(0, 10**6))
def test_class_coefficients_equal_monte_carlo(c: float, d: int, sigma_1: float, seed: int) -> None:
    lam, share = draw_weights(c, 0.2, d, sigma_1, 20_000, seed)
    for moments, weight, other in zip(
        class_coefficients(c, 0.2, d, sigma_1), (share, 1 - share), (1 - lam, lam), strict=True
    ):
        for power, value in enumerate(moments):
            draws = 2 * weight * other**power
            assert abs(draws.mean() - value) < 5 * draws.std() / np.sqrt(len(draws)) + 1e-12


@given(c=st.floats(0.2, 5.0), tau=st.floats(-0.4, 0.9), d=st.integers(1, 3), sigma_1=st.floats(0.3, 8.0))
def test_coefficients_without_noise_equal_quadrature(c: float, tau: float, d: int, sigma_1: float) -> None:
    """F as arXiv prints it below the definition of A and B, with Z' = z_bar = 0."""
    c_d = float(np.linalg.inv(sigma_matrix(tau, d))[0, 0])
    s1, s2 = sigma_1**2, (c * sigma_1) ** 2

    def density(lam: float) -> float:
        first = d * np.log(c) + s1 * (2 - 4 * lam) * c_d + (s1 - s2) * 2 * lam**2 * c_d
        second = -d * np.log(c) - s1 * (4 * lam - 2) * c_d + (s2 - s1) * 2 * (1 - lam) ** 2 * c_d
        return float(expit(-first) + expit(-second))

    at = [1 / (1 + c), c / (1 + c)]
    assert quad(density, 0, 1, points=at, limit=400)[0] == pytest.approx(1.0, abs=1e-7)
    for power, value in zip((1, 2), taylor_coefficients(c, tau, d, sigma_1, noise=False), strict=True):
        exact = quad(lambda lam, k=power: (1 - lam) ** k * density(lam), 0, 1, points=at, limit=400)[0]
        assert value == pytest.approx(exact, abs=1e-7)


@pytest.mark.parametrize(("c", "sigma_1", "exact"), [(10.0, 0.3, 0.38143), (0.1, 0.1, 0.38220), (3.7, 1.0, 0.34733)])
def test_overlapping_classes_of_different_width_equal_an_integral(c: float, sigma_1: float, exact: float) -> None:
    """Compare on a line with a double integral over the mixed point and lam."""
    lam = np.linspace(0, 1, 501)
    x = np.linspace(-100, 100, 40_001) if c > 1 else np.linspace(-1000, 1000, 400_001)
    pair, total = GaussianPair(sigma_1, c, d=1), np.zeros(len(lam))
    share = expit(-pair.log_odds(x[:, None]))
    for k, t in enumerate(lam):
        width = np.hypot(t / sigma_1, (1 - t) / (c * sigma_1))
        density = np.exp(-0.5 * ((x - (1 - 2 * t)) / width) ** 2)
        total[k] = (density * ((1 - t) * share + t * (1 - share))).sum() / density.sum()
    integral = float(trapezoid(total, lam))
    assert integral == pytest.approx(exact, abs=1e-4)
    assert taylor_coefficients(c, 0.0, 1, sigma_1)[0] == pytest.approx(integral, abs=1e-4)


@pytest.mark.parametrize(
    ("c", "tau", "d"),
    [
        pytest.param(c, tau, d, marks=[] if d in short else pytest.mark.long)
        for c, short in RATIOS.items()
        for tau, d in CORRELATIONS
    ],
)
def test_coefficients_approach_their_limits(c: float, tau: float, d: int) -> None:
    limit = ((c**2 + 1) / (2 * (c + 1) ** 2), (c**2 - c + 1) / (3 * (c + 1) ** 2))
    assert limit_coefficients(c) == pytest.approx(limit)
    for sigma_1, distance in ((200.0, 1e-3), (2e3, 1e-5), (1e6, 1e-9)):
        for noise in (True, False):
            actual = taylor_coefficients(c, tau, d, sigma_1, noise=noise)
            np.testing.assert_allclose(actual, limit, atol=distance)
    assert taylor_coefficients(c, tau, d, np.inf) == limit_coefficients(c)


@given(c=st.floats(0.05, 20.0))
def test_class_limits_equal_integrals_of_a_step(c: float) -> None:
    at = 1 / (1 + c)
    for moments, low in zip(class_coefficients(c, 0.0, 2, np.inf), (at, 1 - at), strict=True):
        exact = [quad(lambda lam, k=power: 2 * (1 - lam) ** k, low, 1)[0] for power in range(3)]
        np.testing.assert_allclose(moments, exact, rtol=1e-9)
    zero, one = class_coefficients(c, 0.0, 2, np.inf)
    assert limit_coefficients(c) == pytest.approx(((zero.A + one.A) / 2, (zero.B + one.B) / 2))


@given(c=st.floats(0.01, 100.0))
def test_limits_are_below_mixup_exactly_in_the_range_of_the_theorem(c: float) -> None:
    A, B = limit_coefficients(c)
    assert (MIXUP[0] > A) == (MIXUP[1] > B) == (c**2 - 4 * c + 1 < 0) == (C_RANGE[0] < c < C_RANGE[1])


@given(c=st.floats(0.2, 5.0), d=st.integers(1, 6), sigma_1=st.floats(0.2, 50.0))
def test_a_minus_b_is_one_sixth(c: float, d: int, sigma_1: float) -> None:
    """E[(1 - lam) lam (lam_1 + 1 - lam_1)] = E[lam (1 - lam)], whatever the labels: the bounds on A and B are one."""
    A, B = taylor_coefficients(c, 0.1, d, sigma_1, noise=False)
    assert pytest.approx(1 / 6, abs=1e-9) == A - B
    assert MIXUP[0] - MIXUP[1] == pytest.approx(1 / 6)


def test_overlapping_classes_have_coefficients_above_mixup() -> None:
    """As sigma_1 vanishes the label is 1/2 everywhere: A = 1/2, B = 1/3. A is 1/3 near sigma_1 sqrt(c_d) = 1.59."""
    np.testing.assert_allclose(taylor_coefficients(1.0, 0.0, 2, 1e-4), (1 / 2, 1 / 3), atol=1e-6)
    assert taylor_coefficients(1.0, 0.0, 2, 1.58)[0] > 1 / 3 > taylor_coefficients(1.0, 0.0, 2, 1.60)[0]
    np.testing.assert_allclose(
        taylor_coefficients(1.0, 0.5, 4, 3.0 / np.sqrt(np.linalg.inv(sigma_matrix(0.5, 4))[0, 0])),
        taylor_coefficients(1.0, 0.0, 2, 3.0),
    )


def test_pair_coefficients_equal_quadrature() -> None:
    pair = GaussianPair(2.0, 1.5, 0.3, 2)
    X, y = pair.sample(3, rng=1)
    actual = pair_coefficients(X, y, pair)
    for i, j in np.ndindex(len(X), len(X)):

        def share(lam: float, i: int = i, j: int = j) -> float:
            if y[i] == y[j]:
                return 0.5
            odds = float(pair.log_odds(lam * X[i] + (1 - lam) * X[j]))
            return float(expit(odds if y[i] else -odds))

        exact = [quad(lambda lam, k=power: 2 * share(lam) * (1 - lam) ** k, 0, 1, limit=200)[0] for power in range(3)]
        np.testing.assert_allclose([values[i, j] for values in actual], exact, atol=1e-7)


@pytest.mark.parametrize(
    ("c", "d", "sigma_1", "accuracy"),
    [(0.27, 5, 3.0, 2e-5), (3.7, 2, 1.0, 2e-5), (10.0, 2, 0.3, 5e-4), (0.1, 1, 0.3, 5e-4)],
)
def test_more_nodes_change_less_than_documented(
    c: float, d: int, sigma_1: float, accuracy: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    actual = taylor_coefficients(c, 0.0, d, sigma_1)
    monkeypatch.setattr("genlabel_paper.theory.coefficients.PANELS_OF_TWO", 24)
    monkeypatch.setattr("genlabel_paper.theory.coefficients.PANELS", 120)
    zero, one = coefficients._class_moments.__wrapped__(GaussianPair(sigma_1, c, 0.0, d), True)
    np.testing.assert_allclose(actual, ((zero.A + one.A) / 2, (zero.B + one.B) / 2), atol=accuracy)


def test_label_that_crosses_one_half_twice() -> None:
    """Class 1 is narrower and x_j lies beyond it: near x_j the wider class 0 wins again."""
    pair = GaussianPair(300.0, 3.0)
    X = np.array([[-1.0, 0.0], [3.0, 0.0]])
    lam = (np.arange(400_000) + 0.5) / 400_000
    share = expit(-pair.log_odds(lam[:, None] * X[0] + (1 - lam[:, None]) * X[1]))
    actual = pair_coefficients(X, [0, 1], pair)
    for power, values in enumerate(actual):
        assert values[0, 1] == pytest.approx((2 * share * (1 - lam) ** power).mean(), abs=1e-5)
        assert values[1, 0] == pytest.approx((2 * (1 - share) * lam**power).mean(), abs=1e-5)


def test_step_2_of_the_lemma_agrees_with_the_loss_in_the_limit_only() -> None:
    """The last line of step 2 separates F_ij and the partner, but 2 lam_1 of each pair is the density of the loss."""
    differences = []
    for sigma_1 in (1.5, 100.0):
        pair = GaussianPair(sigma_1, d=1)
        X, y = pair.sample(3, rng=0)
        mass = pair_coefficients(X, y, pair).mass
        differences.append(np.abs(mass - 1).max())
    assert differences[0] > 0.1
    assert differences[1] < 0.01


def test_noise_in_the_exponent_grows_linearly() -> None:
    """sigma_1^2 Z' has the standard deviation sigma_1 sqrt(c_d v), v = lam^2 + (1 - lam)^2: it does not vanish."""
    for sigma_1 in (10.0, 1000.0):
        X, _ = GaussianPair(sigma_1).sample(4000, rng=0)
        noise = sigma_1**2 * (0.5 * (X[:4000, 0] + 1) + 0.5 * (X[4000:, 0] - 1))
        assert noise.std() == pytest.approx(sigma_1 * 0.5**0.5, rel=0.05)


def test_sample_of_one_class_has_uniform_pairs() -> None:
    mass, A, B = pair_coefficients(np.ones((2, 1)), [1, 1], GaussianPair(1.0, d=1))
    assert (mass == 1).all()
    assert (A == 0.5).all()
    assert (B == 1 / 3).all()


@pytest.mark.parametrize("bad", [(0.0, 0.0, 2, 1.0), (1.0, 1.0, 2, 1.0), (1.0, 0.0, 0, 1.0), (1.0, 0.0, 2, -1.0)])
def test_invalid_settings_are_refused(bad: tuple[float, float, int, float]) -> None:
    with pytest.raises(ValueError, match=r"must be|correlation"):
        taylor_coefficients(*bad)
