"""Test regularized discriminant analysis against scikit-learn and its formula."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import log_softmax
from scipy.stats import multivariate_normal
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis

from genlabel.densities import DensityWarning, DiscriminantDensity


def data(seed: int, n: int = 80, d: int = 3, k: int = 3) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = np.arange(n) % k
    return rng.normal(size=(n, d)) @ (np.eye(d) + 0.3 * rng.normal(size=(d, d)) / d**0.5) + y[:, None] * rng.normal(
        size=d
    ), y


def posterior(density: DiscriminantDensity, X: np.ndarray) -> np.ndarray:
    """Return the log posterior, clipped like that of scikit-learn."""
    return log_softmax(density.log_prob(X) + np.log(density.class_prior_), axis=1).clip(-700)


@given(seed=st.integers(0, 10**6), d=st.integers(1, 5))
def test_full_pooling_is_linear_discriminant_analysis(seed: int, d: int) -> None:
    X, y = data(seed, d=d)
    fitted = DiscriminantDensity(pooling=1.0, reg=0.0).fit(X, y)
    oracle = LinearDiscriminantAnalysis(solver="lsqr").fit(X, y)
    np.testing.assert_allclose(posterior(fitted, X), oracle.predict_log_proba(X).clip(-700), rtol=1e-6, atol=1e-6)


@given(seed=st.integers(0, 10**6), d=st.integers(1, 5))
def test_no_pooling_is_quadratic_discriminant_analysis(seed: int, d: int) -> None:
    X, y = data(seed, n=90, d=d)
    fitted = DiscriminantDensity(reg=0.0).fit(X, y)
    oracle = QuadraticDiscriminantAnalysis(store_covariance=True).fit(X, y)
    for c in range(3):
        S = np.cov(X[y == c].T, bias=True).reshape(d, d)
        expected = multivariate_normal(X[y == c].mean(0), S).logpdf(X)
        np.testing.assert_allclose(fitted.log_prob(X)[:, c], expected, rtol=1e-7, atol=1e-7)
    factor = oracle.covariance_[2].ravel()[0] / S.ravel()[0]  # by version, scikit-learn divides by n or n - 1
    gaussians = fitted.gaussians_
    fitted.gaussians_ = gaussians._replace(
        matrix=gaussians.matrix / factor**0.5, log_det=gaussians.log_det + d * np.log(factor)
    )
    np.testing.assert_allclose(posterior(fitted, X), oracle.predict_log_proba(X).clip(-700), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("target", ["sphere", "diagonal"])
def test_the_covariance_follows_the_formula(target: str) -> None:
    X, y = data(1)
    S = np.stack([np.cov(X[y == c].T, bias=True) for c in range(3)])
    within = np.tensordot(np.bincount(y) / len(y), S, 1)
    pooled = 0.7 * S + 0.3 * within
    target_covariance = np.stack(
        [np.diag(np.diag(A)) if target == "diagonal" else np.trace(A) / 3 * np.eye(3) for A in pooled]
    )
    fitted = DiscriminantDensity(0.3, 0.2, target, reg=0.01).fit(X, y)
    np.testing.assert_allclose(
        fitted.covariances_, 0.8 * pooled + 0.2 * target_covariance + 0.01 * np.eye(3), rtol=1e-8
    )
    np.testing.assert_allclose(fitted.means_, [X[y == c].mean(0) for c in range(3)], rtol=1e-12)


def test_a_class_without_spread_gets_the_within_class_covariance() -> None:
    X, y = data(2, k=2)
    X, y = np.vstack([X, [[5.0, 5.0, 5.0]]]), np.append(y, 2)
    with pytest.warns(DensityWarning, match="spread"):
        fitted = DiscriminantDensity(reg=0.0).fit(X, y)
    pooled = DiscriminantDensity(pooling=1.0, reg=0.0).fit(X, y)
    np.testing.assert_allclose(fitted.covariances_[2], pooled.covariances_[2], rtol=1e-8)


@pytest.mark.parametrize(
    "params, match",
    [
        ({"pooling": 2}, "pooling=2"),
        ({"shrinkage": -1}, "shrinkage=-1"),
        ({"target": "cube"}, "'cube'"),
        ({"reg": -1}, "reg"),
    ],
)
def test_bad_parameters_raise(params: dict[str, object], match: str) -> None:
    with pytest.raises(ValueError, match=match):
        DiscriminantDensity(**params).fit(*data(0))  # type: ignore[arg-type]
