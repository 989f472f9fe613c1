"""Test power-transformed densities: the transform equals scikit-learn, and densities integrate to one."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import trapezoid
from sklearn.preprocessing import PowerTransformer

from genlabel.densities import (
    DiscriminantDensity,
    GaussianDensity,
    KernelDensity,
    MixtureDensity,
    PowerTransformedDensity,
)
from genlabel.densities.transformed import PowerTransform


def skewed(seed: int, n: int = 100, d: int = 4) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    X[:, 0] = np.exp(X[:, 0])
    X[:, 1] = -np.exp(0.7 * X[:, 1]) + 2
    y = np.arange(n) % 2
    return X + 0.5 * y[:, None], y


def ones(n: int) -> torch.Tensor:
    return torch.ones(n, dtype=torch.float64)


@given(seed=st.integers(0, 10**6), scale=st.sampled_from([0.1, 1.0, 10.0]))
def test_the_transform_equals_scikit_learn(seed: int, scale: float) -> None:
    X = skewed(seed)[0] * scale
    oracle = PowerTransformer().fit(X)
    transform = PowerTransform.fit(torch.from_numpy(X), ones(100))
    inside = np.abs(oracle.lambdas_) < 5.9
    np.testing.assert_allclose(transform.power.numpy()[inside], oracle.lambdas_[inside], atol=2e-4)
    np.testing.assert_allclose(
        transform(torch.from_numpy(X))[0].numpy()[:, inside], oracle.transform(X)[:, inside], atol=5e-3
    )


def test_the_jacobian_equals_finite_differences() -> None:
    X, _ = skewed(0)
    transform = PowerTransform.fit(torch.from_numpy(X), ones(100))
    step = 1e-6
    high, low = (transform(torch.from_numpy(X + s))[0] for s in (step, -step))
    expected = ((high - low) / (2 * step)).log().sum(1)
    np.testing.assert_allclose(transform(torch.from_numpy(X))[1], expected, atol=1e-6)


@pytest.mark.parametrize(
    "density", [GaussianDensity(), DiscriminantDensity(0.5), KernelDensity(0.4), MixtureDensity(2)], ids=repr
)
@pytest.mark.parametrize("feature", [0, 1, 2])
def test_integrates_to_one(density: object, feature: int) -> None:
    """A negative power maps the line to an interval; the mass beyond it is lost."""
    X, y = skewed(1)
    x = X[:, feature : feature + 1]
    grid = np.linspace(-200, 200, 800001)[:, None]
    p = np.exp(PowerTransformedDensity(density).fit(x, y).log_prob(grid))  # type: ignore[arg-type]
    np.testing.assert_allclose(trapezoid(p, grid[:, 0], axis=0), 1.0, atol=2e-4 if feature == 2 else 2e-3)


def test_weights_are_repetitions() -> None:
    X, y = skewed(2)
    weight = np.arange(100) % 3
    repeated = np.repeat(np.arange(100), weight)
    weighted = PowerTransformedDensity(GaussianDensity()).fit(X, y, weight)
    repeated_fit = PowerTransformedDensity(GaussianDensity()).fit(X[repeated], y[repeated])
    np.testing.assert_allclose(weighted.log_prob(X), repeated_fit.log_prob(X), rtol=1e-6)


def test_a_shared_transform_gives_the_same_result() -> None:
    X, y = skewed(3)
    transform = PowerTransform.fit(torch.from_numpy(X), ones(100))
    alone, shared = (PowerTransformedDensity(GaussianDensity(), w).fit(X, y) for w in (None, transform))
    np.testing.assert_array_equal(alone.log_prob(X), shared.log_prob(X))
    assert shared.transform_ is transform


@pytest.mark.parametrize(
    "column", [np.zeros(100), np.full(100, 1e9), np.r_[np.zeros(99), 1e12], np.arange(100) * 1e-14]
)
def test_degenerate_features_and_far_points_are_finite(column: np.ndarray) -> None:
    X, y = skewed(4)
    X[:, 2] = column
    fitted = PowerTransformedDensity(DiscriminantDensity(0.3, 0.1)).fit(X, y)
    assert fitted.transform_.power.isfinite().all()
    assert np.isfinite(fitted.log_prob(X)).all()
    assert np.isfinite(fitted.log_prob(X + 1e4)).all()
    assert not np.isnan(fitted.log_prob(np.full((1, 4), 1e308))).any()
