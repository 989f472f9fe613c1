"""The Gaussian density against scipy and scikit-learn."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import multivariate_normal
from sklearn.covariance import LedoitWolf

from genlabel.densities import GaussianDensity


def data(seed: int, n: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    return rng.normal(size=(n, d)) @ (np.eye(d) + 0.3 * rng.normal(size=(d, d)) / d**0.5) + y[:, None], y


@given(seed=st.integers(0, 10**6), d=st.integers(1, 8), reg=st.sampled_from([0.0, 1e-4, 0.5]))
def test_equals_scipy(seed: int, d: int, reg: float) -> None:
    X, y = data(seed, 60, d)
    fitted = GaussianDensity(reg=reg).fit(X, y)
    queries = 2 * X[:20]
    for c in (0, 1):
        covariance = np.cov(X[y == c].T, bias=True).reshape(d, d) + reg * np.eye(d)
        np.testing.assert_allclose(fitted.means_[c], X[y == c].mean(0), atol=1e-12)
        np.testing.assert_allclose(fitted.covariances_[c], covariance, rtol=1e-7, atol=1e-9)
        oracle = multivariate_normal(X[y == c].mean(0), covariance).logpdf(queries)
        np.testing.assert_allclose(fitted.log_prob(queries)[:, c], oracle, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("offset", [1e4, 1e6])
def test_equals_scipy_far_from_the_origin(offset: float) -> None:
    X, y = data(0, 60, 3)
    X = X + offset
    fitted = GaussianDensity().fit(X, y)
    covariance = np.cov((X[y == 1] - offset).T, bias=True) + 1e-4 * np.eye(3)
    oracle = multivariate_normal(X[y == 1].mean(0) - offset, covariance).logpdf(X - offset)
    np.testing.assert_allclose(fitted.log_prob(X)[:, 1], oracle, rtol=1e-8)


@given(seed=st.integers(0, 10**6), d=st.integers(2, 30))
def test_ledoit_wolf_equals_scikit_learn(seed: int, d: int) -> None:
    X, y = data(seed, 40, d)
    fitted = GaussianDensity(shrinkage="ledoit-wolf", reg=0.0).fit(X, y)
    for c in (0, 1):
        oracle = LedoitWolf().fit(X[y == c])
        expected = multivariate_normal(oracle.location_, oracle.covariance_).logpdf(X)
        np.testing.assert_allclose(fitted.log_prob(X)[:, c], expected, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("shrinkage", [0.0, 0.25, 1.0])
def test_fixed_shrinkage_goes_from_the_sample_covariance_to_a_sphere(shrinkage: float) -> None:
    X, y = data(3, 50, 4)
    fitted = GaussianDensity(shrinkage=shrinkage, reg=0.0).fit(X, y)
    S = np.cov(X[y == 1].T, bias=True)
    covariance = (1 - shrinkage) * S + shrinkage * np.trace(S) / 4 * np.eye(4)
    oracle = multivariate_normal(X[y == 1].mean(0), covariance).logpdf(X)
    np.testing.assert_allclose(fitted.log_prob(X)[:, 1], oracle, rtol=1e-9)


@pytest.mark.parametrize(
    "params, match",
    [
        ({"shrinkage": "ledoit"}, "'ledoit' is not known.*'ledoit-wolf'"),
        ({"shrinkage": 1.5}, r"shrinkage=1.5 .*\[0, 1\]"),
        ({"reg": -1.0}, "reg=-1.0"),
    ],
)
def test_bad_parameters_are_named(params: dict[str, object], match: str) -> None:
    X, y = data(0, 20, 2)
    with pytest.raises(ValueError, match=match):
        GaussianDensity(**params).fit(X, y)
