"""Test that low-rank covariances equal full covariances."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import multivariate_normal

from genlabel.data.folds import make_folds
from genlabel.densities import DensityWarning, DiscriminantDensity, StackedDensity
from genlabel.densities.covariance import LowRankGaussians


def data(seed: int, n: int = 24, d: int = 40, k: int = 3) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = np.arange(n) % k
    X = rng.normal(size=(n, d)) * rng.uniform(0.5, 2, d) + y[:, None] * rng.normal(size=d)
    return X, y, rng.normal(size=(7, d)) * 2


def covariances(X: np.ndarray, y: np.ndarray, weight: np.ndarray, pooling: float, s: float, reg: float) -> np.ndarray:
    """Return the covariances by their formula."""
    sigmas = np.stack([np.cov(X[y == c].T, bias=True, aweights=weight[y == c]) for c in np.unique(y)])
    if pooling == 1:
        within = np.tensordot(np.bincount(y, weights=weight) / weight.sum(), sigmas, 1)
        sigmas = np.stack([within] * len(sigmas))
    sphere = np.trace(sigmas, axis1=1, axis2=2) / X.shape[1]
    return (1 - s) * sigmas + (s * sphere + reg)[:, None, None] * np.eye(X.shape[1])


@given(
    seed=st.integers(0, 10**6),
    pooling=st.sampled_from([0.0, 1.0]),
    shrinkage=st.sampled_from([0.0, 0.1, 1.0]),
    weighted=st.booleans(),
)
def test_low_rank_gaussians_equal_full_gaussians(seed: int, pooling: float, shrinkage: float, weighted: bool) -> None:
    X, y, queries = data(seed)
    weight = np.random.default_rng(seed).uniform(0.5, 2, len(X)) if weighted else np.ones(len(X))
    fitted = DiscriminantDensity(pooling, shrinkage, reg=1e-3).fit(X, y, weight)
    assert isinstance(fitted.gaussians_, LowRankGaussians)
    expected = covariances(X, y, weight, pooling, shrinkage, 1e-3)
    means = np.stack([np.average(X[y == c], axis=0, weights=weight[y == c]) for c in range(3)])
    for points in (queries, X):  # new points, and rows of the span
        oracle = np.stack([multivariate_normal(means[c], expected[c]).logpdf(points) for c in range(3)], 1)
        np.testing.assert_allclose(fitted.log_prob(points), oracle, rtol=1e-7)
        dense = fitted.gaussians().log_prob(torch.from_numpy(points))
        np.testing.assert_allclose(dense, oracle, rtol=1e-7)
    np.testing.assert_allclose(fitted.covariances_, expected, atol=1e-7)
    np.testing.assert_allclose(fitted.means_, means, atol=1e-10)


@pytest.mark.parametrize("d", [17, 40])
def test_held_out_log_prob_equals_separate_fits(d: int) -> None:
    """With 40 features all fits have low rank; with 17 only the fits of the folds have."""
    X, y, _ = data(3, d=d)
    candidates: list[Any] = [DiscriminantDensity(p, s) for p in (0.0, 0.3, 1.0) for s in (0.0, 0.1, 1.0)]
    model = StackedDensity(candidates, cv=3).fit(X, y)
    Z = (X - X.mean(0)) / X.std(0)
    for row, density in zip(model.report_["candidates"], candidates, strict=True):
        result = np.empty((24, 3))
        for train, valid in make_folds(3, y, 0):
            result[valid] = density.fit(Z[train], y[train]).log_prob(Z[valid])
        scores = torch.log_softmax(torch.from_numpy(result) / row["temperature"] - np.log(3), 1).numpy()
        expected = -np.maximum(scores[np.arange(24), y], np.log(1e-15)).mean()
        assert row["log_loss"] == pytest.approx(expected, rel=1e-6)


def test_degenerate_classes_warn() -> None:
    X, y, queries = data(5)
    X, y = np.vstack([X, X[:1] + 3.0]), np.append(y, 3)
    with pytest.warns(DensityWarning, match="spread"):
        fitted = DiscriminantDensity().fit(X, y)
    pooled = DiscriminantDensity(1.0).fit(X, y)
    np.testing.assert_allclose(fitted.covariances_[3], pooled.covariances_[3], atol=1e-8)
    with pytest.warns(DensityWarning, match="singular"):
        singular = DiscriminantDensity(1.0, reg=0.0).fit(X, y)
    assert np.isfinite(singular.log_prob(queries)).all()


def test_wide_tables_need_no_full_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    """No matrix decomposition is larger than the number of rows."""
    sizes: list[int] = []
    for name in ("eigh", "cholesky_ex", "cholesky", "solve_triangular", "inv", "qr"):
        plain = getattr(torch.linalg, name)

        def counted(first: torch.Tensor, *args: Any, plain: Any = plain, **kwargs: Any) -> Any:
            sizes.append(max(first.shape[-2:]))
            return plain(first, *args, **kwargs)

        monkeypatch.setattr(torch.linalg, name, counted)
    X, y, _ = data(7, n=36, d=400)
    with pytest.warns(DensityWarning) as messages:
        model = StackedDensity(cv=3).fit(X, y)
    model.log_prob(X)
    assert max(sizes) <= 36
    messages = " ".join(str(warning.message) for warning in messages)
    for kind in ("kernels of full covariance", "tied mixtures", "toward a diagonal or of partly pooled"):
        assert f"no {kind}" in messages or kind in messages
    kinds = {name.removeprefix("warped ").split()[0] for name in (row["name"] for row in model.report_["candidates"])}
    assert kinds == {"discriminant", "forest", "kernel", "mixture"}
