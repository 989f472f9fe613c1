"""Test moments, shrinkage and whitening against numpy, for single classes and groups, at several scales."""

import warnings

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal
from torch import Tensor

from genlabel._arrays import ROUNDING_TOLERANCE
from genlabel.densities import DensityWarning, covariance
from genlabel.densities.covariance import (
    EIGENVALUE_FLOOR,
    Gaussians,
    GroupMoments,
    Whitening,
    ledoit_wolf,
    moments,
    shrink,
    usable_covariance,
    whiten,
)
from genlabel.densities.samples import ClassSample, Groups, class_samples, effective_size

SCALES = np.array([1e-12, 1e-3, 1.0, 1e5, 1e12])


def points(n: int, d: int, seed: int = 0) -> Tensor:
    """Correlated features."""
    rng = np.random.default_rng(seed)
    return torch.from_numpy(rng.normal(size=(n, d)) @ (np.eye(d) + 0.4 * rng.normal(size=(d, d))) + rng.normal(size=d))


def sample_of(X: Tensor, others: Tensor | None = None) -> ClassSample:
    """Return class "a" with these points, next to a class "b" with other points."""
    both = torch.cat([X, X + 1.0 if others is None else others])
    index = torch.arange(len(both)) >= len(X)
    return next(iter(class_samples(np.array(["a", "b"]), both, index.long(), torch.ones(len(both)).double())))


@pytest.mark.parametrize("unbiased", [False, True])
def test_moments_equal_numpy(unbiased: bool) -> None:
    X, weight = points(40, 3), np.random.default_rng(1).uniform(0.1, 3, 40)
    mean, result = moments(X, torch.from_numpy(weight), unbiased=unbiased)
    np.testing.assert_allclose(mean, np.average(X, axis=0, weights=weight), rtol=1e-12)
    np.testing.assert_allclose(result, np.cov(X.T, aweights=weight, ddof=int(unbiased)), rtol=1e-10)
    assert float(effective_size(torch.from_numpy(weight))) == pytest.approx(weight.sum() ** 2 / (weight**2).sum())


def test_spherical_samples_are_shrunk_completely() -> None:
    """The covariance is already proportional to the identity."""
    X, ones = points(9, 1), torch.ones(9).double()
    assert ledoit_wolf(X, ones) == 1.0
    square = torch.tensor([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]], dtype=torch.float64)
    assert ledoit_wolf(square, ones[:4]) == 1.0


@pytest.mark.parametrize("offset", [0.0, 1.0])
def test_a_whitening_inverts_the_covariance_of_features_at_any_scale(offset: float) -> None:
    X = points(60, 5) * torch.from_numpy(SCALES)
    mean, sigma = moments(X, torch.ones(60).double(), unbiased=False)
    center, matrix, log_det = Whitening.of(sample_of(X), mean, sigma, "it")
    np.testing.assert_allclose(matrix.T @ sigma @ matrix, np.eye(5), atol=1e-8)
    correlation = sigma.numpy() / np.outer(SCALES, SCALES)
    assert log_det == pytest.approx(np.linalg.slogdet(correlation)[1] + 2 * np.log(SCALES).sum())
    np.testing.assert_allclose(whiten(X, center, matrix).T @ whiten(X, center, matrix) / 60, np.eye(5), atol=1e-8)
    assert torch.equal(whiten(X + offset, center, matrix), (X + offset - center) @ matrix)


def test_a_singular_covariance_is_regularized_with_a_warning() -> None:
    X = points(30, 3)
    X[:, 2] = X[:, 0] - 2.0 * X[:, 1]
    mean, sigma = moments(X, torch.ones(30).double(), unbiased=False)
    with pytest.warns(DensityWarning, match="singular"):
        white = Whitening.of(sample_of(X), mean, sigma, "it")
    spread = sigma.diagonal().sqrt()
    values, vectors = np.linalg.eigh((sigma / torch.outer(spread, spread)).numpy())
    floored = (vectors * np.maximum(values, EIGENVALUE_FLOOR)) @ vectors.T * torch.outer(spread, spread).numpy()
    np.testing.assert_allclose(white.matrix @ white.matrix.T, np.linalg.inv(floored), rtol=1e-6)
    assert white.log_det == pytest.approx(np.linalg.slogdet(floored)[1])


@pytest.mark.parametrize("scale", [1e-9, 1.0])
def test_a_constant_feature_has_the_within_class_scale_or_one(scale: float) -> None:
    X, others = points(30, 2), points(50, 2, 1)
    X[:, 1], others[:, 1] = 5.0 * scale, others[:, 1] * 7.0 * scale
    sample = sample_of(X, others)
    mean, sigma = moments(X, sample.weight, unbiased=False)
    with pytest.warns(DensityWarning, match="singular"):
        white = Whitening.of(sample, mean, sigma, "it")
    expected = EIGENVALUE_FLOOR * float(sample.pooled[1, 1])
    assert 1 / float((white.matrix @ white.matrix.T)[1, 1]) == pytest.approx(expected)
    others[:, 1] = 5.0 * scale
    with pytest.warns(DensityWarning, match="singular"):
        white = Whitening.of(sample_of(X, others), mean, sigma, "it")
    assert 1 / float((white.matrix @ white.matrix.T)[1, 1]) == pytest.approx(EIGENVALUE_FLOOR)


def test_rounding_errors_are_not_spread() -> None:
    """A spread of twice the rounding error counts, half of it does not; at zero, squares must not underflow."""
    center = torch.tensor([100.0, 100.0, -100.0, 0.0, 0.0], dtype=torch.float64)
    noise = 100.0 * ROUNDING_TOLERANCE
    spread = torch.tensor([0.5 * noise, 2.0 * noise, 2.0 * noise, 1e-150, 1e-160], dtype=torch.float64)
    expected = torch.tensor([EIGENVALUE_FLOOR**0.5, *spread[1:4].tolist(), EIGENVALUE_FLOOR**0.5], dtype=torch.float64)
    white = Whitening.of_variances(center, spread**2)
    np.testing.assert_allclose(1 / white.matrix, expected, rtol=1e-6)
    assert white.log_det == pytest.approx(2 * float(expected.log().sum()), rel=1e-9)
    assert torch.equal(whiten(center[None] + 1.0, center, white.matrix), (center[None] + 1.0 - center) * white.matrix)
    zero = torch.zeros(5, 5).double()
    scales = torch.tensor([1.0, *spread[1:4].tolist(), 1.0], dtype=torch.float64)
    np.testing.assert_allclose(covariance.feature_scales(center, (spread**2).diag(), zero), scales, rtol=1e-6)
    np.testing.assert_allclose(covariance.feature_scales(center, zero, (spread**2).diag()), scales, rtol=1e-6)
    single = GroupMoments(center[None, None, :], (spread**2).diag()[None, None], zero[None])
    assert single.has_spread.tolist() == [[True]]
    below = torch.tensor([0.5 * noise, 0.5 * noise, 0.5 * noise, 1e-160, 0.0], dtype=torch.float64)
    assert GroupMoments(center[None, None, :], (below**2).diag()[None, None], zero[None]).has_spread.tolist() == [
        [False]
    ]
    gaussians, singular = Gaussians.of(center, torch.diag(below**2 + torch.tensor([0, 1.0, 1, 1, 1])))
    assert float(1 / gaussians.matrix[1, 1]) == pytest.approx(1.0)
    assert bool(singular)
    for deviation, floored in ((1e-150, False), (1e-160, True)):
        spread = torch.tensor([deviation**2, 1.0], dtype=torch.float64).diag()
        gaussians, singular = Gaussians.of(torch.zeros(2, dtype=torch.float64), spread)
        assert bool(singular) is floored
        assert float(1 / gaussians.matrix[0, 0]) == pytest.approx(EIGENVALUE_FLOOR**0.5 if floored else deviation)


def test_small_classes_are_shrunk_or_pooled_with_a_warning() -> None:
    """n points in n dimensions span no volume; one more point does."""
    for n, d in ((3, 3), (2, 5)):
        X = points(n, d)
        sample = sample_of(X)
        biased = moments(X, sample.weight)[1]
        with pytest.warns(DensityWarning, match="Ledoit-Wolf"):
            result = usable_covariance(sample, biased * n / (n - 1), "it")
        expected = shrink(biased * n / (n - 1), ledoit_wolf(X, sample.weight))
        np.testing.assert_allclose(result, expected, rtol=1e-12)
    identity = torch.eye(3).double()
    assert usable_covariance(sample_of(points(4, 3)), identity, "it") is identity
    equal_rows = sample_of(points(1, 3).repeat(6, 1), points(9, 3))
    with pytest.warns(DensityWarning, match="spread"):
        assert usable_covariance(equal_rows, identity, "it") is equal_rows.pooled


@pytest.fixture(scope="module")
def groups() -> tuple[Tensor, Tensor, Tensor, Groups]:
    """Three classes of different sizes, and four groups of weights, some of them 0."""
    X, index = points(31, 3), torch.from_numpy(np.random.default_rng(3).permutation(np.repeat([0, 1, 2], [6, 15, 10])))
    weight = torch.from_numpy(np.random.default_rng(4).uniform(0.2, 2, (4, 31)))
    weight[1, ::3] = 0.0
    return X, index, weight, Groups.by_class(X, index, weight)


def test_groups_equal_single_classes(groups: tuple[Tensor, Tensor, Tensor, Groups]) -> None:
    X, index, weight, result = groups
    mean, spread, within = GroupMoments.of(result)
    assert result.points.shape == (3, 15, 3)
    for g, weights in enumerate(weight):
        scatter = torch.zeros(3, 3).double()
        for c in range(3):
            rows = (index == c) & (weights > 0)
            alone = moments(X[rows], weights[rows], unbiased=False)
            np.testing.assert_allclose(mean[c, g], alone[0], rtol=1e-10)
            np.testing.assert_allclose(spread[c, g], alone[1], rtol=1e-10)
            assert float(effective_size(result.weight)[c, g]) == pytest.approx(float(effective_size(weights[rows])))
            scatter += alone[1] * weights[rows].sum()
        np.testing.assert_allclose(within[g], scatter / weights.sum(), rtol=1e-10)


def test_gaussians_of_many_groups_equal_scipy(
    groups: tuple[Tensor, Tensor, Tensor, Groups], monkeypatch: pytest.MonkeyPatch
) -> None:
    """At different scales, with a singular covariance, and in blocks of rows."""
    X, _, _, result = groups
    scale = torch.tensor([1e-6, 1.0, 1e6], dtype=torch.float64)
    mean, spread, _ = GroupMoments.of(result)
    mean, spread = mean * scale, spread * torch.outer(scale, scale)
    spread[2, 3] = torch.outer(scale, scale)
    gaussians, singular = Gaussians.of(mean, spread)
    assert singular.nonzero().tolist() == [[2, 3]]
    flat = Gaussians(*(part.flatten(0, 1) for part in gaussians))
    monkeypatch.setattr(covariance, "MAX_CHUNK_VALUES", 150)  # 4 rows of 12 Gaussians in 3 dimensions
    values = flat.log_prob(X * scale).view(31, 3, 4)
    np.testing.assert_allclose(flat.log_prob(X * scale), values.view(31, 12), rtol=1e-12)
    for c, g in np.ndindex(3, 4):
        if (c, g) != (2, 3):
            inner = spread[c, g] / torch.outer(scale, scale)
            oracle = multivariate_normal(mean[c, g] / scale, inner).logpdf(X) - float(scale.log().sum())
            np.testing.assert_allclose(values[:, c, g], oracle, rtol=1e-8, atol=1e-8)
    ones = np.linalg.eigh(np.ones((3, 3)))
    floored = (ones[1] * np.maximum(ones[0], EIGENVALUE_FLOOR)) @ ones[1].T
    oracle = multivariate_normal(mean[2, 3] / scale, floored).logpdf(X) - float(scale.log().sum())
    np.testing.assert_allclose(values[:, 2, 3], oracle, rtol=1e-6)


def test_an_almost_singular_covariance_is_regularized() -> None:
    """The last pivot squared is 1 - r^2: below 1e-10 the correlation is floored."""
    for gap, expected in ((1e-11, True), (1e-9, False)):
        r = (1.0 - gap) ** 0.5
        _, singular = Gaussians.of(torch.zeros(2).double(), torch.tensor([[1.0, r], [r, 1.0]], dtype=torch.float64))
        assert bool(singular) is expected
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Whitening.of(sample_of(points(9, 2)), torch.zeros(2).double(), torch.eye(2).double(), "it")


def test_the_qr_fallback_is_a_cholesky_factor() -> None:
    rng = torch.Generator().manual_seed(0)
    vectors = torch.linalg.qr(torch.randn(40, 5, 5, dtype=torch.float64, generator=rng)).Q
    values = torch.tensor([1e-18, 1e-17, 1e-3, 0.5, 2.0], dtype=torch.float64).repeat(40, 1)
    matrices = (vectors * values[:, None, :]) @ vectors.mT
    failed = torch.linalg.cholesky_ex(matrices).info > 0
    assert 5 < int(failed.sum()) < 40
    root = covariance.cholesky_of_eigenvalues(values, vectors)
    assert torch.equal(root, root.tril())
    diagonal = root.diagonal(dim1=-2, dim2=-1)
    assert bool((diagonal > 0).all())
    torch.testing.assert_close(root @ root.mT, matrices, rtol=0.0, atol=1e-14)
    expected = 0.5 * values.log().sum(-1)
    torch.testing.assert_close(diagonal.log().sum(-1)[failed], expected[failed], rtol=0.0, atol=1e-4)
