"""Gaussians whose covariances can always be inverted: of one class, or of many weighted groups of points at once.

A group is a row of weights over the points of one class, 0 where a point is absent: the training part of a fold, say.
One density of k classes has one group a class; a search over folds has as many as there are folds, and shares
everything else.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from genlabel._arrays import chunks, to_device
from genlabel._standardization import ROUNDING
from genlabel._validation import warn
from genlabel.densities.base import MAX_CHUNK_VALUES, DensityWarning
from genlabel.densities.per_class import ClassSample

LOG_2_PI = math.log(2.0 * math.pi)
SINGULAR = 1e-10
"""A correlation matrix with a smaller eigenvalue counts as singular."""
FLOOR = 1e-4
"""What the eigenvalues of a singular one are raised to: the paper's 1e-4 on standardised features."""


class Whitening(NamedTuple):
    """An affine map to unit covariance: a = (x - centre) @ matrix."""

    centre: Tensor
    """(d,)"""
    matrix: Tensor
    """(d, d), with matrix @ matrix.T the inverse covariance; or the diagonal of one that is diagonal, (d,)."""
    log_det: float
    """Log-determinant of the covariance."""


def moments(X: Tensor, weight: Tensor, *, unbiased: bool) -> tuple[Tensor, Tensor]:
    """Weighted mean (d,) and covariance (d, d); `unbiased` divides as `numpy.cov(aweights=...)` does."""
    share = weight / weight.sum()
    mean = share @ X
    centred = X - mean
    covariance = (share[:, None] * centred).T @ centred
    if unbiased:
        covariance = covariance / (1.0 - float((share**2).sum()))
    return mean, covariance


def effective_size(weight: Tensor) -> float:
    """Number of equal weights that say as much, (sum w)^2 / sum w^2 (Kish)."""
    return float(weight.sum() ** 2 / (weight**2).sum())


def ledoit_wolf(X: Tensor, weight: Tensor, mean: Tensor, covariance: Tensor) -> float:
    """Ledoit-Wolf's shrinkage intensity in [0, 1] towards the scaled identity (Ledoit and Wolf, 2004).

    With mu = tr(S) / d, delta^2 = |S - mu I|^2 and beta^2 = sum_i w_i (|x_i|^4 - |S|^2) / (n sum_i w_i), the
    intensity is min(beta^2, delta^2) / delta^2 on centred points. Weights count as repetitions; where they are small
    (normalised, say), n is their effective number.
    """
    d = X.shape[1]
    norms = ((X - mean) ** 2).sum(1)
    total = float((covariance**2).sum())
    delta = total - float(covariance.trace()) ** 2 / d
    n = max(float(weight.sum()), effective_size(weight))
    beta = (float((weight / weight.sum()) @ norms**2) - total) / n
    return min(max(beta, 0.0), delta) / delta if delta > 0 else 1.0


def usable_covariance(sample: ClassSample, covariance: Tensor, owner: str) -> Tensor:
    """Return a covariance for a class that is too small to have one, and warn once by the class's name.

    One point (or several equal ones) says nothing of spread: the covariance within the classes stands in.
    At most d points span no volume: Ledoit-Wolf's shrinkage is used.
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


def whitening(sample: ClassSample, centre: Tensor, covariance: Tensor, owner: str) -> Whitening:
    """Return the whitening of a covariance; a singular one is floored, with a warning by the class's name.

    The work is done on the correlation matrix, so that features of scale 1e-12 and 1e12 meet as equals.
    """
    scale = _scales(centre, covariance, sample.pooled)
    values, vectors = torch.linalg.eigh(covariance / torch.outer(scale, scale))
    if float(values[0]) < SINGULAR:
        _warn(owner, sample, "has a singular covariance", f"eigenvalues of its correlation of at least {FLOOR:g}")
        values = values.clamp_min(FLOOR)
    matrix = (vectors / values.sqrt()) / scale[:, None]
    log_det = float(values.log().sum() + 2.0 * scale.log().sum())
    return Whitening(centre, matrix, log_det)


def diagonal_whitening(centre: Tensor, variance: Tensor) -> Whitening:
    """Return the whitening of a diagonal covariance, of variances (d,); those that are but rounding are floored.

    >>> diagonal_whitening(torch.zeros(2), torch.tensor([4.0, 0.25])).matrix
    tensor([0.5000, 2.0000])
    """
    scale = variance.clamp_min(0).sqrt()
    noise = ROUNDING * centre.abs() + torch.finfo(scale.dtype).tiny ** 0.5
    scale = torch.where(scale > noise, scale, torch.full_like(scale, FLOOR**0.5))
    return Whitening(centre, 1.0 / scale, float(2.0 * scale.log().sum()))


def whiten(X: Tensor, centre: Tensor, matrix: Tensor) -> Tensor:
    """Return the points (m, d) less the centre, times a matrix (d, r), or times that of a diagonal (d,)."""
    return (X - centre) * matrix if matrix.dim() == 1 else (X - centre) @ matrix


def _scales(centre: Tensor, covariance: Tensor, pooled: Tensor) -> Tensor:
    """Standard deviation of each feature; where it is but rounding, the one within all classes, or else 1."""
    spread, within = covariance.diagonal().clamp_min(0).sqrt(), pooled.diagonal().clamp_min(0).sqrt()
    noise = ROUNDING * centre.abs() + torch.finfo(spread.dtype).tiny ** 0.5
    return torch.where(spread > noise, spread, torch.where(within > noise, within, torch.ones_like(spread)))


def _warn(owner: str, sample: ClassSample, what: str, remedy: str) -> None:
    warn((owner, sample.name), f"{owner}: class {sample.name!r} {what}; using {remedy}", DensityWarning)


class Groups(NamedTuple):
    """The points of each class, padded to the largest, and the weights of the groups of each class."""

    points: Tensor
    """(k, n, d)"""
    weight: Tensor
    """(k, g, n), 0 for a point that is absent and for padding."""

    @property
    def size(self) -> Tensor:
        """Effective number of points of each group, (sum w)^2 / sum w^2, (k, g)."""
        return self.weight.sum(-1) ** 2 / (self.weight**2).sum(-1)


class GroupMoments(NamedTuple):
    """Weighted moments of every group."""

    mean: Tensor
    """(k, g, d)"""
    covariance: Tensor
    """(k, g, d, d), divided by the mass."""
    within: Tensor
    """(g, d, d): the covariance within the classes, over all classes."""

    @property
    def spread(self) -> Tensor:
        """Whether any two points of a group differ by more than rounding, (k, g)."""
        deviation = self.covariance.diagonal(dim1=-2, dim2=-1).clamp_min(0).sqrt()
        return (deviation > ROUNDING * self.mean.abs() + torch.finfo(deviation.dtype).tiny ** 0.5).any(-1)


class Gaussians(NamedTuple):
    """Normal distributions, in any number of leading dimensions."""

    mean: Tensor
    """(..., d)"""
    matrix: Tensor
    """(..., d, d), with matrix @ matrix.T the inverse covariance."""
    log_det: Tensor
    """(...): log-determinants of the covariances."""

    def log_prob(self, X: Tensor) -> Tensor:
        """Log-density (m, r) of points (m, d) under r of them, in float64."""
        return normal_log_prob(X, self)

    def dense(self) -> Gaussians:
        """These, as others have to be told to be."""
        return self


def group_by_class(X: Tensor, index: Tensor, weight: Tensor) -> Groups:
    """Sort points (n, d) by class; `weight` (g, n) holds one row for each group.

    >>> X = torch.tensor([[0.0], [1.0], [5.0]])
    >>> groups = group_by_class(X, torch.tensor([0, 0, 1]), torch.ones(1, 3))
    >>> groups.points[:, :, 0].tolist(), groups.weight[:, 0].tolist()
    ([[0.0, 1.0], [5.0, 0.0]], [[1.0, 1.0], [1.0, 0.0]])
    """
    rows_of = [(index == c).nonzero()[:, 0] for c in range(int(index.max()) + 1)]
    longest = max(len(rows) for rows in rows_of)
    points = X.new_zeros(len(rows_of), longest, X.shape[1])
    grouped = X.new_zeros(len(rows_of), len(weight), longest)
    for c, rows in enumerate(rows_of):
        points[c, : len(rows)] = X[rows]
        grouped[c, :, : len(rows)] = weight[:, rows]
    return Groups(points, grouped)


def group_moments(groups: Groups) -> GroupMoments:
    """Return the moments of every group: the means by one product, the covariances of a fold by another."""
    points, weight = groups
    mass = weight.sum(-1)
    mean = weight @ points / mass[..., None]
    parts = []
    for g in range(weight.shape[1]):
        centred = points - mean[:, g, None]
        parts.append((weight[:, g, :, None] * centred).mT @ centred)
    scatter = torch.stack(parts, 1)
    within = scatter.sum(0) / mass.sum(0)[:, None, None]
    return GroupMoments(mean, scatter / mass[..., None, None], within)


def to_gaussians(mean: Tensor, covariance: Tensor) -> tuple[Gaussians, Tensor]:
    """Invert covariances (..., d, d); return which of them (...) were singular, and floored to be inverted.

    As :func:`whitening`, on the correlation matrix, but all at once.
    """
    scale = covariance.diagonal(dim1=-2, dim2=-1).clamp_min(0).sqrt()
    noise = ROUNDING * mean.abs() + torch.finfo(scale.dtype).tiny ** 0.5
    scale = torch.where(scale > noise, scale, torch.ones_like(scale))
    correlation = covariance / (scale[..., :, None] * scale[..., None, :])
    root, info = torch.linalg.cholesky_ex(correlation)
    singular = (info > 0) | ~(root.diagonal(dim1=-2, dim2=-1).amin(-1) ** 2 > SINGULAR)
    if bool(singular.any()):
        values, vectors = torch.linalg.eigh(correlation[singular])
        root[singular] = _root(values.clamp_min(FLOOR), vectors)
    eye = torch.eye(mean.shape[-1], dtype=mean.dtype, device=mean.device).expand_as(root)
    matrix = torch.linalg.solve_triangular(root, eye, upper=False).mT / scale[..., :, None]
    log_det = 2.0 * (root.diagonal(dim1=-2, dim2=-1).log().sum(-1) + scale.log().sum(-1))
    return Gaussians(mean, matrix, log_det), singular


def _root(values: Tensor, vectors: Tensor) -> Tensor:
    """Lower triangles L with L L^T the matrices of these eigenvalues (..., d), all positive, and vectors (..., d, d).

    Where eigenvalues are too far apart for Cholesky's rounding, the triangle is that of their roots, by QR.
    """
    root, info = torch.linalg.cholesky_ex((vectors * values[..., None, :]) @ vectors.mT)
    failed = info > 0
    if bool(failed.any()):
        triangle = torch.linalg.qr((vectors[failed] * values[failed].sqrt()[..., None, :]).mT).R.mT
        root[failed] = triangle * torch.where(triangle.diagonal(dim1=-2, dim2=-1) < 0, -1.0, 1.0)[..., None, :]
    return root


def normal_log_prob(X: Tensor, gaussians: Gaussians, dtype: torch.dtype = torch.float64) -> Tensor:
    """Log-density of the rows of `X` (m, d) under r Gaussians, (m, r): one product for all of them, in `dtype`.

    -1/2 (|a|^2 + log det Sigma + d log 2 pi), a = x - mu whitened; differences are taken in float64, whatever `X` is.
    """
    mean, matrix, log_det = (to_device(part, X) for part in gaussians)
    r, d = mean.shape
    middle = mean.mean(0)
    shift = ((middle - mean)[:, None] @ matrix).view(r * d, 1).to(dtype)
    stacked, constant = matrix.mT.reshape(r * d, d).to(dtype), (log_det + d * LOG_2_PI)[:, None].to(dtype)
    found = X.new_empty(r, len(X), dtype=dtype)
    for some in chunks(len(X), max(1, MAX_CHUNK_VALUES // (r * d))):
        white = torch.addmm(shift, stacked, (X[some].double() - middle).to(dtype).T)
        found[:, some] = white.square_().view(r, d, -1).sum(1)
    return found.add_(constant).mul_(-0.5).T
