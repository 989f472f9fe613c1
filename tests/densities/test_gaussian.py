"""The Gaussian density against scipy and scikit-learn."""

import pickle
import warnings
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import softmax
from scipy.stats import multivariate_normal
from sklearn.base import clone
from sklearn.covariance import LedoitWolf

from genlabel.densities import DensityWarning, GaussianDensity
from genlabel.labeling import GenLabel
from genlabel.mixing import Mixer, MixParams, Mixup
from genlabel.mixing.base import blend
from genlabel.training.batching import BatchPlan, TrainingTask


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
def test_fixed_shrinkage_interpolates_to_a_sphere(shrinkage: float) -> None:
    X, y = data(3, 50, 4)
    fitted = GaussianDensity(shrinkage=shrinkage, reg=0.0).fit(X, y)
    S = np.cov(X[y == 1].T, bias=True)
    covariance = (1 - shrinkage) * S + shrinkage * np.trace(S) / 4 * np.eye(4)
    oracle = multivariate_normal(X[y == 1].mean(0), covariance).logpdf(X)
    np.testing.assert_allclose(fitted.log_prob(X)[:, 1], oracle, rtol=1e-9)


@pytest.mark.parametrize(
    "params, match",
    [
        ({"shrinkage": "ledoit"}, "'ledoit'"),
        ({"shrinkage": 1.5}, "shrinkage=1.5"),
        ({"reg": -1.0}, "reg=-1.0"),
    ],
)
def test_bad_parameters_raise(params: dict[str, object], match: str) -> None:
    X, y = data(0, 20, 2)
    with pytest.raises(ValueError, match=match):
        GaussianDensity(**params).fit(X, y)


@pytest.mark.parametrize("shrinkage", [None, "ledoit-wolf"])
@pytest.mark.parametrize("d", [64, 90])
def test_log_prob_of_pairs_equals_log_prob_of_mixed_points(d: int, shrinkage: Any) -> None:
    """Stewart's theorem against the density itself, on new points, for few and many features."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, d)), rng.integers(0, 3, 300)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DensityWarning)
        density = GaussianDensity(shrinkage).fit(X[150:], y[150:])
        again = clone(density).fit(X[150:], y[150:])
    i, j, lam = rng.integers(0, 150, 400), rng.integers(0, 150, 400), rng.random(400)
    mixed, points = lam[:, None] * X[i] + (1 - lam[:, None]) * X[j], X[:150]
    expected = density.log_prob(mixed)
    result = density.log_prob_of_pairs(mixed, i, j, lam, points)
    np.testing.assert_allclose(result, expected, rtol=1e-8, atol=1e-6)
    assert not np.array_equal(result, expected)
    assert density.log_prob_of_pairs(torch.from_numpy(mixed).float(), i, j, lam, points).dtype == torch.float32
    np.testing.assert_array_equal(density.log_prob_of_pairs(mixed, i, j), expected)
    first_rows = density.log_prob_of_pairs(mixed[:9], i[:9], j[:9], lam[:9], points)
    np.testing.assert_array_equal(first_rows, density.log_prob(mixed[:9]))
    assert len(pickle.dumps(density)) == len(pickle.dumps(again))


class ShiftedMixer(Mixer):
    """Mixer that moves its mixed points, whose labels must not be computed from their parents."""

    def draw(self, n: int, rng: Any = None) -> MixParams:
        return Mixup().draw(n, rng)

    def mix(self, X: Any, draw: MixParams) -> Any:
        return blend(X, draw) + 0.5


@pytest.mark.parametrize("mixer", [Mixup(), ShiftedMixer(), None])
@pytest.mark.parametrize("clean_fraction", [0.0, 0.4])
@pytest.mark.parametrize("weighted", [False, True])
def test_labels_of_a_batch_plan_equal_those_of_its_points(mixer: Any, clean_fraction: float, weighted: bool) -> None:
    """In many dimensions, with clean rows, rows of weight 0, and a density fitted to other rows."""
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(400, 70)), np.arange(400) % 2
    density = GaussianDensity().fit(X[120:], y[120:])
    weight = np.where(np.arange(120) % 5 == 0, 0.0, 1.0) if weighted else None
    task = TrainingTask(X[:120], y[:120], 2, (GenLabel(density),), mixer, weight, clean_fraction=clean_fraction, seed=0)
    steps = BatchPlan(task, 1, torch.zeros(1, dtype=torch.float64)).steps(2)
    expected = softmax(density.log_prob(steps.x.flatten(0, 1).numpy()), axis=1)
    if clean_fraction:
        expected[(steps.draw.lam == 1.0).flatten().numpy()] = 0.0
    result = steps.target[..., 0].flatten(0, 1).numpy()
    result = np.where(expected.any(axis=1, keepdims=True), result, 0.0)
    np.testing.assert_allclose(result, expected, atol=1e-9)


def test_cached_distances_belong_to_their_points() -> None:
    rng = np.random.default_rng(1)
    half = rng.normal(size=(80, 64))
    X, y = np.concatenate([half, -half]), np.tile([0, 1], 80)
    density = GaussianDensity(0.1).fit(X, y)
    i, j, lam = np.arange(160), np.roll(np.arange(160), 80), np.full(160, 0.5)
    peak = density.log_prob(np.zeros((1, 64)))
    np.testing.assert_allclose(
        density.log_prob_of_pairs(np.zeros((160, 64)), i, j, lam, X), peak.repeat(160, 0), atol=1e-8
    )
    for points in (X[::-1].copy() * 2.0, X + 1.0):
        mixed = 0.5 * points[i] + 0.5 * points[j]
        np.testing.assert_allclose(
            density.log_prob_of_pairs(mixed, i, j, lam, points), density.log_prob(mixed), rtol=1e-8, atol=1e-6
        )
