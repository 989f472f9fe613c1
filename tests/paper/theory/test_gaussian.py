"""The lemmas on the Gaussian setting against linear algebra, scipy's densities and random draws."""

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.special import expit
from scipy.stats import chi2, kstest, multivariate_normal, norm

from genlabel import GenLabel
from genlabel.densities.base import FixedDensity
from genlabel.mixing import MixParams
from genlabel_paper.theory import (
    GaussianPair,
    inverse_coefficients,
    proof_label,
    sigma_inverse,
    sigma_matrix,
    square_coefficients,
)

dimensions = st.integers(1, 12)
shares = st.floats(0.01, 0.99)


def valid_correlation(d: int, share: float) -> float:
    """Return a correlation between the lowest of a covariance matrix and 1."""
    low = -1.0 / (d - 1) if d > 1 else -0.9
    return low + share * (1.0 - low)


@given(d=dimensions, tau=st.floats(-0.99, 0.99))
def test_inverse_equals_numpy(d: int, tau: float) -> None:
    assume(abs((d - 1) * tau + 1) > 1e-3)
    np.testing.assert_allclose(sigma_inverse(tau, d), np.linalg.inv(sigma_matrix(tau, d)), rtol=1e-9, atol=1e-9)


@given(d=dimensions, share=shares)
def test_lemma_gives_the_inverse(d: int, share: float) -> None:
    tau = valid_correlation(d, share)
    c_d, tau_d = inverse_coefficients(tau, d)
    lemma = c_d * np.where(np.eye(d, dtype=bool), 1.0, -tau_d)
    np.testing.assert_allclose(lemma, sigma_inverse(tau, d), rtol=1e-9)


def test_lemma_fails_at_an_invertible_value() -> None:
    """At tau = -1 / (d - 2) tau_d is infinite, but the inverse exists."""
    with pytest.raises(ValueError, match="tau_d"):
        inverse_coefficients(-0.5, 4)
    np.testing.assert_allclose(sigma_inverse(-0.5, 4) @ sigma_matrix(-0.5, 4), np.eye(4), atol=1e-12)


@pytest.mark.parametrize(("tau", "d"), [(1.0, 3), (-1.0, 2), (-0.5, 3), (1.0, 1)])
def test_singular_matrix_is_refused(tau: float, d: int) -> None:
    with pytest.raises(ValueError, match="tau"):
        sigma_inverse(tau, d)


def test_printed_condition_on_tau_allows_indefinite_matrices() -> None:
    """-1 < tau < 1 and tau not in {-1/2, -1}: invertible at tau = -0.9, but with a negative eigenvalue."""
    assert np.linalg.eigvalsh(sigma_matrix(-0.9, 3)).min() == pytest.approx(1 - 2 * 0.9)
    with pytest.raises(ValueError, match="tau"):
        GaussianPair(1.0, tau=-0.9, d=3)


@given(d=dimensions, share=shares, seed=st.integers(0, 10**6))
def test_completed_squares_equal_the_quadratic_form(d: int, share: float, seed: int) -> None:
    tau = valid_correlation(d, share)
    A, B = square_coefficients(tau, d)
    z = np.random.default_rng(seed).normal(size=d)
    terms = [A[n] * (z[n] - (B[n] * z[n + 1 :].sum() if n < d - 1 else 0.0)) ** 2 for n in range(d)]
    c_d = inverse_coefficients(tau, d)[0]
    assert c_d * sum(terms) == pytest.approx(z @ np.linalg.inv(sigma_matrix(tau, d)) @ z, rel=1e-6)


def test_printed_double_sum_counts_each_product_twice() -> None:
    """sum Z_i^2 - 2 tau_d sum_{i != j} Z_i Z_j is not z Sigma^-1 z / c_d; with i < j it is."""
    tau, d, z = 0.4, 3, np.array([1.0, 2.0, -1.5])
    c_d, tau_d = inverse_coefficients(tau, d)
    products = z.sum() ** 2 - (z**2).sum()
    true = z @ np.linalg.inv(sigma_matrix(tau, d)) @ z
    assert c_d * ((z**2).sum() - tau_d * products) == pytest.approx(true)
    assert abs(c_d * ((z**2).sum() - 2 * tau_d * products) - true) > 0.5


@pytest.mark.parametrize(("tau", "d"), [(0.5, 3), (-0.2, 5), (0.0, 2)])
def test_draws_have_the_distributions_of_the_lemmas(tau: float, d: int) -> None:
    """Y_n, Z' and z_bar of random draws against their distributions, and the correlations of the Y_n."""
    Z = np.random.default_rng(3).standard_normal((20_000, d)) @ np.linalg.cholesky(sigma_matrix(tau, d)).T
    A, B = square_coefficients(tau, d)
    c_d = inverse_coefficients(tau, d)[0]
    later = Z[:, ::-1].cumsum(1)[:, ::-1] - Z
    Y = np.column_stack([Z[:, :-1] - B[:-1] * later[:, :-1], Z[:, -1]])
    inverse = np.linalg.inv(sigma_matrix(tau, d))
    p_values = [kstest(Y[:, n], norm(scale=(c_d * A[n]) ** -0.5).cdf).pvalue for n in range(d)]
    p_values += [kstest(Z @ inverse[0], norm(scale=c_d**0.5).cdf).pvalue]
    p_values += [kstest(((Z @ inverse) * Z).sum(1), chi2(d).cdf).pvalue]
    assert min(p_values) > 1e-3
    assert np.abs(np.corrcoef(Y.T) - np.eye(d)).max() < 4 / np.sqrt(len(Z))


def test_printed_cdf_has_the_wrong_scale() -> None:
    """It prints erf(x sqrt(c_d A) / 2) for the cdf of N(0, 1 / (c_d A)); the lemma before it has sqrt(2)."""
    from scipy.special import erf

    precision, x = 1.7, 0.8
    true = norm(scale=precision**-0.5).cdf(x)
    assert 0.5 * (1 + erf(x * precision**0.5 / 2**0.5)) == pytest.approx(true)
    assert abs(0.5 * (1 + erf(x * precision**0.5 / 2)) - true) > 0.03


@given(
    d=st.integers(1, 6), share=shares, c=st.floats(0.2, 5.0), sigma_1=st.floats(0.1, 30.0), lam=st.floats(0, 1),
    seed=st.integers(0, 10**6),
)  # fmt: skip
def test_label_of_the_proof_equals_scipy_and_the_library(
    d: int, share: float, c: float, sigma_1: float, lam: float, seed: int
) -> None:
    """The form of the proof, `log_odds`, scipy's densities, and the library's own GenLabel."""
    tau = valid_correlation(d, share)
    pair = GaussianPair(sigma_1, c, tau, d)
    X, y = pair.sample(1, rng=seed)
    mixed = lam * X[0] + (1 - lam) * X[1]
    Z = mixed - (1 - 2 * lam) * np.eye(d)[0]
    inverse = np.linalg.inv(sigma_matrix(tau, d))
    proof = proof_label(lam, inverse[0] @ Z, Z @ inverse @ Z, sigma_1=sigma_1, c=c, tau=tau, d=d)
    means, scales = np.array([-1.0, 1.0])[:, None] * np.eye(d)[0], [sigma_1, c * sigma_1]
    logs = [
        multivariate_normal(m, sigma_matrix(tau, d) / s**2).logpdf(mixed) for m, s in zip(means, scales, strict=True)
    ]
    np.testing.assert_allclose(proof, expit(logs[1] - logs[0]), rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(expit(pair.log_odds(mixed)), proof, rtol=1e-6, atol=1e-9)
    covariances = [torch.from_numpy(sigma_matrix(tau, d) / s**2) for s in scales]
    density = FixedDensity(
        [
            torch.distributions.MultivariateNormal(torch.from_numpy(m), cov)
            for m, cov in zip(means, covariances, strict=True)
        ]
    )
    labels = (
        GenLabel(density).fit(X, y).label(mixed[None].repeat(2, 0), y, MixParams(np.array([1, 0]), np.full(2, lam)))
    )
    np.testing.assert_allclose(labels[0, 1], proof, rtol=1e-6, atol=1e-9)


def test_sample_has_the_means_and_covariances_of_the_setting() -> None:
    pair = GaussianPair(4.0, 2.0, 0.3, 3)
    X, y = pair.sample((30_000, 20_000), rng=0)
    assert np.bincount(y).tolist() == [30_000, 20_000]
    for c, sigma, sign in ((0, 4.0, -1.0), (1, 8.0, 1.0)):
        rows = X[y == c]
        np.testing.assert_allclose(rows.mean(0), sign * np.eye(3)[0], atol=4 / sigma / np.sqrt(len(rows)))
        np.testing.assert_allclose(np.cov(rows.T) * sigma**2, sigma_matrix(0.3, 3), atol=0.05)


@pytest.mark.parametrize("bad", [{"sigma_1": 0.0}, {"sigma_1": 1.0, "c": -1.0}, {"sigma_1": 1.0, "d": 0}])
def test_invalid_settings_are_refused(bad: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(reversed(bad))):
        GaussianPair(**bad)  # type: ignore[arg-type]
