"""Invertible covariances and Gaussians, of one class or of many weighted groups of points at once.

A group is a row of weights over the points of one class, 0 where a point is absent, for example the training rows of a
fold. A density of k classes has one group per class; a cross-validation has one per class and fold.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from genlabel._arrays import ROUNDING_TOLERANCE, chunks, to_device
from genlabel._validation import warn
from genlabel.densities.base import MAX_CHUNK_VALUES, DensityWarning
from genlabel.densities.per_class import ClassSample

LOG_2_PI = math.log(2.0 * math.pi)
MIN_EIGENVALUE = 1e-10  # eigenvalue below which a correlation matrix counts as singular
EIGENVALUE_FLOOR = 1e-4
"""Lower bound on the eigenvalues of a singular correlation matrix: the 1e-4 of the paper on standardized features."""


class Whitening(NamedTuple):
    """Affine map to unit covariance: a = (x - center) @ matrix."""

    center: Tensor  # (d,)
    matrix: Tensor  # (d, d), with matrix @ matrix.T the inverse covariance; (d,) for a diagonal one
    log_det: float  # log-determinant of the covariance


def moments(X: Tensor, weight: Tensor, *, unbiased: bool) -> tuple[Tensor, Tensor]:
    """Return the weighted mean (d,) and covariance (d, d); `unbiased` divides like `numpy.cov(aweights=...)`."""
    share = weight / weight.sum()
    mean = share @ X
    centered = X - mean
    covariance = (share[:, None] * centered).T @ centered
    if unbiased:
        covariance = covariance / (1.0 - float((share**2).sum()))
    return mean, covariance


def effective_size(weight: Tensor) -> float:
    """Return the effective sample size (sum w)^2 / sum w^2 (Kish)."""
    return float(weight.sum() ** 2 / (weight**2).sum())


def ledoit_wolf(X: Tensor, weight: Tensor, mean: Tensor, covariance: Tensor) -> float:
    """Return the shrinkage intensity in [0, 1] toward the scaled identity of Ledoit and Wolf (2004).

    With mu = tr(S) / d, delta^2 = |S - mu I|^2 and beta^2 = sum_i w_i (|x_i|^4 - |S|^2) / (n sum_i w_i), the
    intensity is min(beta^2, delta^2) / delta^2 on centered points. Weights count as repetitions; n is their sum or
    their effective number, whichever is larger.
    """
    d = X.shape[1]
    norms = ((X - mean) ** 2).sum(1)
    total = float((covariance**2).sum())
    delta = total - float(covariance.trace()) ** 2 / d
    n = max(float(weight.sum()), effective_size(weight))
    beta = (float((weight / weight.sum()) @ norms**2) - total) / n
    return min(max(beta, 0.0), delta) / delta if delta > 0 else 1.0


def usable_covariance(sample: ClassSample, covariance: Tensor, owner: str) -> Tensor:
    """Return a covariance that can be inverted, with a warning that names the class if it is too small for one.

    A class of equal points gets the within-class covariance, one of at most d points Ledoit-Wolf shrinkage.
    """
    n, d = sample.X.shape
    if not sample.has_spread:
        _warn(owner, sample, f"has {n} sample(s) and no spread", "the covariance within all classes")
        return sample.pooled
    if n > d:
        return covariance
    _warn(owner, sample, f"has {n} samples for {d} features", "Ledoit-Wolf shrinkage")
    mean, biased = moments(sample.X, sample.weight, unbiased=False)
    return shrink(covariance, ledoit_wolf(sample.X, sample.weight, mean, biased))


def shrink(covariance: Tensor, intensity: float) -> Tensor:
    """Return (1 - intensity) S + intensity tr(S)/d I."""
    d = len(covariance)
    eye = torch.eye(d, dtype=covariance.dtype)
    return (1.0 - intensity) * covariance + intensity * covariance.trace() / d * eye


def whitening(sample: ClassSample, center: Tensor, covariance: Tensor, owner: str) -> Whitening:
    """Return the whitening of a covariance; a singular one is regularized, with a warning that names the class.

    Eigenvalues are those of the correlation matrix, so that features of scale 1e-12 and 1e12 count equally.
    """
    scale = feature_scales(center, covariance, sample.pooled)
    values, vectors = torch.linalg.eigh(covariance / torch.outer(scale, scale))
    if float(values[0]) < MIN_EIGENVALUE:
        floor = f"eigenvalues of its correlation of at least {EIGENVALUE_FLOOR:g}"
        _warn(owner, sample, "has a singular covariance", floor)
        values = values.clamp_min(EIGENVALUE_FLOOR)
    matrix = (vectors / values.sqrt()) / scale[:, None]
    log_det = float(values.log().sum() + 2.0 * scale.log().sum())
    return Whitening(center, matrix, log_det)


def diagonal_whitening(center: Tensor, variance: Tensor) -> Whitening:
    """Return the whitening of a diagonal covariance with variances (d,); variances of rounding size are replaced.

    >>> diagonal_whitening(torch.zeros(2), torch.tensor([4.0, 0.25])).matrix
    tensor([0.5000, 2.0000])
    """
    scale = variance.clamp_min(0).sqrt()
    scale = torch.where(scale > _rounding(center), scale, torch.full_like(scale, EIGENVALUE_FLOOR**0.5))
    return Whitening(center, 1.0 / scale, float(2.0 * scale.log().sum()))


def whiten(X: Tensor, center: Tensor, matrix: Tensor) -> Tensor:
    """Return (X - center) @ matrix of points (m, d); a matrix (d,) is a diagonal."""
    return (X - center) * matrix if matrix.dim() == 1 else (X - center) @ matrix


def feature_scales(center: Tensor, covariance: Tensor, pooled: Tensor) -> Tensor:
    """Return the standard deviation of each feature; where it is only rounding, that of all classes, or else 1."""
    spread, within = covariance.diagonal().clamp_min(0).sqrt(), pooled.diagonal().clamp_min(0).sqrt()
    noise = _rounding(center)
    return torch.where(spread > noise, spread, torch.where(within > noise, within, torch.ones_like(spread)))


def _rounding(center: Tensor) -> Tensor:
    """Return the standard deviation that rounding alone gives to features around a center."""
    return ROUNDING_TOLERANCE * center.abs() + torch.finfo(center.dtype).tiny ** 0.5


def _warn(owner: str, sample: ClassSample, problem: str, remedy: str) -> None:
    warn((owner, sample.name), f"{owner}: class {sample.name!r} {problem}; using {remedy}", DensityWarning)


class Groups(NamedTuple):
    """Points of each class, padded to the largest class, with the weights of the groups of each class."""

    points: Tensor  # (k, n, d)
    weight: Tensor  # (k, g, n), 0 for absent points and padding

    @property
    def size(self) -> Tensor:
        """Effective sample size of each group, (k, g)."""
        return self.weight.sum(-1) ** 2 / (self.weight**2).sum(-1)


class GroupMoments(NamedTuple):
    """Weighted moments of each group."""

    mean: Tensor  # (k, g, d)
    covariance: Tensor  # (k, g, d, d), not corrected for bias
    within: Tensor  # within-class covariance of all classes, (g, d, d)

    @property
    def has_spread(self) -> Tensor:
        """Mask (k, g) of the groups whose points differ by more than rounding."""
        deviation = self.covariance.diagonal(dim1=-2, dim2=-1).clamp_min(0).sqrt()
        return (deviation > _rounding(self.mean)).any(-1)


class Gaussians(NamedTuple):
    """Normal distributions with any number of leading dimensions."""

    mean: Tensor  # (..., d)
    matrix: Tensor  # (..., d, d), with matrix @ matrix.T the inverse covariance
    log_det: Tensor  # log-determinants (...) of the covariances

    def log_prob(self, X: Tensor) -> Tensor:
        """Return the log-density (m, r) of points (m, d) under r Gaussians, in float64."""
        return normal_log_prob(X, self)

    def dense(self) -> Gaussians:
        """Return the Gaussians; `LowRankGaussians.dense` computes them."""
        return self


def group_by_class(X: Tensor, index: Tensor, weight: Tensor) -> Groups:
    """Return points (n, d) by class; `weight` (g, n) has one row for each group.

    >>> X = torch.tensor([[0.0], [1.0], [5.0]])
    >>> groups = group_by_class(X, torch.tensor([0, 0, 1]), torch.ones(1, 3))
    >>> groups.points[:, :, 0].tolist(), groups.weight[:, 0].tolist()
    ([[0.0, 1.0], [5.0, 0.0]], [[1.0, 1.0], [1.0, 0.0]])
    """
    rows_by_class = [(index == c).nonzero()[:, 0] for c in range(int(index.max()) + 1)]
    longest = max(len(rows) for rows in rows_by_class)
    points = X.new_zeros(len(rows_by_class), longest, X.shape[1])
    grouped = X.new_zeros(len(rows_by_class), len(weight), longest)
    for c, rows in enumerate(rows_by_class):
        points[c, : len(rows)] = X[rows]
        grouped[c, :, : len(rows)] = weight[:, rows]
    return Groups(points, grouped)


def group_moments(groups: Groups) -> GroupMoments:
    """Return the moments of every group, by one matrix product for each fold."""
    points, weight = groups
    mass = weight.sum(-1)
    mean = weight @ points / mass[..., None]
    parts = []
    for g in range(weight.shape[1]):
        centered = points - mean[:, g, None]
        parts.append((weight[:, g, :, None] * centered).mT @ centered)
    scatter = torch.stack(parts, 1)
    within = scatter.sum(0) / mass.sum(0)[:, None, None]
    return GroupMoments(mean, scatter / mass[..., None, None], within)


def to_gaussians(mean: Tensor, covariance: Tensor) -> tuple[Gaussians, Tensor]:
    """Return the Gaussians of covariances (..., d, d), and the mask (...) of singular ones, which are regularized.

    The batched counterpart of :func:`whitening`.
    """
    scale = covariance.diagonal(dim1=-2, dim2=-1).clamp_min(0).sqrt()
    scale = torch.where(scale > _rounding(mean), scale, torch.ones_like(scale))
    correlation = covariance / (scale[..., :, None] * scale[..., None, :])
    root, info = torch.linalg.cholesky_ex(correlation)
    singular = (info > 0) | ~(root.diagonal(dim1=-2, dim2=-1).amin(-1) ** 2 > MIN_EIGENVALUE)
    if bool(singular.any()):
        values, vectors = torch.linalg.eigh(correlation[singular])
        root[singular] = cholesky_of_eigenvalues(values.clamp_min(EIGENVALUE_FLOOR), vectors)
    eye = torch.eye(mean.shape[-1], dtype=mean.dtype, device=mean.device).expand_as(root)
    matrix = torch.linalg.solve_triangular(root, eye, upper=False).mT / scale[..., :, None]
    log_det = 2.0 * (root.diagonal(dim1=-2, dim2=-1).log().sum(-1) + scale.log().sum(-1))
    return Gaussians(mean, matrix, log_det), singular


def cholesky_of_eigenvalues(values: Tensor, vectors: Tensor) -> Tensor:
    """Return Cholesky factors of the matrices with positive eigenvalues (..., d) and eigenvectors (..., d, d).

    Where the condition is too bad for Cholesky, the factor comes from a QR decomposition of the matrix root.
    """
    root, info = torch.linalg.cholesky_ex((vectors * values[..., None, :]) @ vectors.mT)
    failed = info > 0
    if bool(failed.any()):
        triangle = torch.linalg.qr((vectors[failed] * values[failed].sqrt()[..., None, :]).mT).R.mT
        root[failed] = triangle * torch.where(triangle.diagonal(dim1=-2, dim2=-1) < 0, -1.0, 1.0)[..., None, :]
    return root


def normal_log_prob(X: Tensor, gaussians: Gaussians, dtype: torch.dtype = torch.float64) -> Tensor:
    """Return the log-density of the rows of `X` (m, d) under r Gaussians, (m, r), by one product in `dtype`.

    -1/2 (|a|^2 + log det Sigma + d log 2 pi) with a = x - mu whitened; differences are always taken in float64.
    """
    mean, matrix, log_det = (to_device(part, X) for part in gaussians)
    r, d = mean.shape
    middle = mean.mean(0)
    shift = ((middle - mean)[:, None] @ matrix).view(r * d, 1).to(dtype)
    stacked, constant = matrix.mT.reshape(r * d, d).to(dtype), (log_det + d * LOG_2_PI)[:, None].to(dtype)
    distance = X.new_empty(r, len(X), dtype=dtype)
    for rows in chunks(len(X), max(1, MAX_CHUNK_VALUES // (r * d))):
        white = torch.addmm(shift, stacked, (X[rows].double() - middle).to(dtype).T)
        distance[:, rows] = white.square_().view(r, d, -1).sum(1)
    return distance.add_(constant).mul_(-0.5).T
