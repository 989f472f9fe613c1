"""Invertible covariances and Gaussians: of one class, of many weighted groups of points at once, and of low rank.

With fewer points than features a covariance is stored by its principal axes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from genlabel._arrays import ROUNDING_TOLERANCE, chunks, to_device
from genlabel._text import count_of
from genlabel._validation import warn
from genlabel.densities.base import DensityWarning
from genlabel.densities.samples import MAX_CHUNK_VALUES, ClassSample, Groups, effective_size

LOG_2_PI = math.log(2.0 * math.pi)
MIN_EIGENVALUE = 1e-10  # eigenvalue below which a correlation matrix counts as singular
EIGENVALUE_FLOOR = 1e-4
"""Lower bound on the eigenvalues of a singular correlation matrix: the 1e-4 of the paper on standardized features."""
MIN_RELATIVE_VARIANCE = 1e-12  # variance of a principal axis, relative to the largest, below which it is dropped


def moments(X: Tensor, weight: Tensor, *, unbiased: bool = False) -> tuple[Tensor, Tensor]:
    """Return the weighted mean (d,) and covariance (d, d); `unbiased` divides like `numpy.cov(aweights=...)`."""
    share = weight / weight.sum()
    mean = share @ X
    centered = X - mean
    covariance = (share[:, None] * centered).T @ centered
    return mean, (covariance / (1.0 - float((share**2).sum())) if unbiased else covariance)


def ledoit_wolf(X: Tensor, weight: Tensor) -> float:
    """Return the shrinkage intensity min(beta^2, delta^2) / delta^2 toward the scaled identity (Ledoit and Wolf, 2004).

    With mu = tr(S) / d, delta^2 = |S - mu I|^2 and beta^2 = sum_i w_i (|x_i|^4 - |S|^2) / (n sum_i w_i) on centered
    points; n is the sum of the weights (scikit-learn has none) or their effective number, whichever is larger.
    """
    mean, covariance = moments(X, weight)
    squared_norms = ((X - mean) ** 2).sum(1)
    total = float((covariance**2).sum())
    delta_squared = total - float(covariance.trace()) ** 2 / X.shape[1]
    n = max(float(weight.sum()), float(effective_size(weight)))
    beta_squared = (float((weight / weight.sum()) @ squared_norms**2) - total) / n
    return min(max(beta_squared, 0.0), delta_squared) / delta_squared if delta_squared > 0 else 1.0


def shrink(covariance: Tensor, intensity: float) -> Tensor:
    """Return (1 - intensity) S + intensity tr(S)/d I."""
    d = len(covariance)
    return (1.0 - intensity) * covariance + intensity * covariance.trace() / d * torch.eye(d, dtype=covariance.dtype)


def usable_covariance(
    sample: ClassSample, covariance: Tensor, owner: str, shrinkage: str | float | None = None
) -> Tensor:
    """Return the covariance of a class, shrunk by an intensity or by "ledoit-wolf", such that it can be inverted.

    With a warning, equal points get the within-class covariance, and at most d points the shrinkage of Ledoit and Wolf.
    """
    n, d = sample.X.shape
    if not bool((sample.X[:1] != sample.X).any()):
        _warn(owner, sample, f"has {count_of(n, 'sample')} and no spread", "the covariance within all classes")
        return sample.pooled
    if shrinkage is None:
        if n > d:
            return covariance
        _warn(owner, sample, f"has {count_of(n, 'sample')} for {count_of(d, 'feature')}", "Ledoit-Wolf shrinkage")
    intensity = shrinkage if isinstance(shrinkage, float) else ledoit_wolf(sample.X, sample.weight)
    return shrink(covariance, intensity)


class Whitening(NamedTuple):
    """Affine map to unit covariance: a = (x - center) @ matrix."""

    center: Tensor  # (d,)
    matrix: Tensor  # (d, d), with matrix @ matrix.T the inverse covariance; (d,) for a diagonal one
    log_det: float  # log-determinant of the covariance

    @classmethod
    def of(cls, sample: ClassSample, center: Tensor, covariance: Tensor, owner: str) -> Whitening:
        """Return the whitening of a covariance; a singular one is regularized, with a warning that names the class.

        Eigenvalues are those of the correlation matrix, so that features of scale 1e-12 and 1e12 count equally.
        """
        scale = feature_scales(center, covariance, sample.pooled)
        values, vectors = torch.linalg.eigh(covariance / torch.outer(scale, scale))
        if float(values[0]) < MIN_EIGENVALUE:
            floor = f"eigenvalues of its correlation of at least {EIGENVALUE_FLOOR:g}"
            _warn(owner, sample, "has a singular covariance", floor)
            values = values.clamp_min(EIGENVALUE_FLOOR)
        log_det = float(values.log().sum() + 2.0 * scale.log().sum())
        return cls(center, (vectors / values.sqrt()) / scale[:, None], log_det)

    @classmethod
    def of_variances(cls, center: Tensor, variance: Tensor) -> Whitening:
        """Return the whitening of a diagonal covariance with variances (d,); those of rounding size are replaced."""
        scale = variance.clamp_min(0).sqrt()
        scale = torch.where(scale > _rounding(center), scale, torch.full_like(scale, EIGENVALUE_FLOOR**0.5))
        return cls(center, 1.0 / scale, float(2.0 * scale.log().sum()))


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


class GroupMoments(NamedTuple):
    """Weighted moments of each group."""

    mean: Tensor  # (k, g, d)
    covariance: Tensor  # (k, g, d, d), not corrected for bias
    within: Tensor  # within-class covariance of all classes, (g, d, d)

    @classmethod
    def of(cls, groups: Groups) -> GroupMoments:
        """Return the moments of every group, by one matrix product for each fold."""
        points, weight = groups
        mass = weight.sum(-1)
        mean = weight @ points / mass[..., None]
        centered = (points - center[:, None] for center in mean.unbind(1))
        scatter = torch.stack([(w[..., None] * x).mT @ x for w, x in zip(weight.unbind(1), centered, strict=True)], 1)
        return cls(mean, scatter / mass[..., None, None], scatter.sum(0) / mass.sum(0)[:, None, None])

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

    @classmethod
    def of(cls, mean: Tensor, covariance: Tensor) -> tuple[Gaussians, Tensor]:
        """Return the Gaussians of covariances (..., d, d), and the mask (...) of singular ones, which get a floor."""
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
        return cls(mean, matrix, log_det), singular

    def log_prob(self, X: Tensor, dtype: torch.dtype = torch.float64) -> Tensor:
        """Return the log-density (m, r) of points (m, d) under r Gaussians, by one product in `dtype`.

        -1/2 (|a|^2 + log det Sigma + d log 2 pi) with a = x - mu whitened; differences are always taken in float64.
        """
        mean, matrix, log_det = (to_device(part, X) for part in self)
        r, d = mean.shape
        middle = mean.mean(0)
        shift = ((middle - mean)[:, None] @ matrix).view(r * d, 1).to(dtype)
        stacked = matrix.mT.reshape(r * d, d).to(dtype)
        constant = (log_det + d * LOG_2_PI)[:, None].to(dtype)
        distance = X.new_empty(r, len(X), dtype=dtype)
        for rows in chunks(len(X), max(1, MAX_CHUNK_VALUES // (r * d))):
            whitened = torch.addmm(shift, stacked, (X[rows].double() - middle).to(dtype).T)
            distance[:, rows] = whitened.square_().view(r, d, -1).sum(1)
        return distance.add_(constant).mul_(-0.5).T


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


class PrincipalAxes(NamedTuple):
    """Principal axes of a covariance of fewer points than features."""

    vectors: Tensor  # (q, d), orthonormal rows
    variance: Tensor  # (q,)

    @classmethod
    def of(cls, centered: Tensor, share: Tensor) -> PrincipalAxes:
        """Return the axes of sum_i share_i x_i x_i^T from the Gram matrix of the n points x_i (n, d)."""
        scaled = share.sqrt()[:, None] * centered
        values, vectors = torch.linalg.eigh(scaled @ scaled.T)
        mask = values > MIN_RELATIVE_VARIANCE * values[-1].clamp_min(torch.finfo(values.dtype).tiny)
        return cls((vectors[:, mask].T @ scaled) / values[mask].sqrt()[:, None], values[mask])


class LowRankGaussians(NamedTuple):
    """One normal distribution for each class, of covariance (1 - s) A + delta I, with A given by principal axes.

    With s = 1 the axes need no vectors, but still have their variances, whose sum is tr(A).
    """

    mean: Tensor  # (k, d)
    axes: Sequence[PrincipalAxes]  # axes of each class, or one for all classes
    shrinkage: float  # intensity s
    reg: float  # part of delta = s tr(A) / d + reg

    def log_prob(self, X: Tensor) -> Tensor:
        """Return the log-density (m, k) of points (m, d), in float64."""
        return low_rank_log_prob([self], X)[0]

    def variance_beyond(self, axes: PrincipalAxes) -> float:
        """Return the variance beyond the axes; 0 if there is none."""
        mean = float(axes.variance.sum()) / axes.vectors.shape[1]  # over all features, tr / d
        beyond = self.shrinkage * mean + self.reg
        return beyond if beyond > MIN_RELATIVE_VARIANCE * mean else 0.0

    def variances(self, axes: PrincipalAxes) -> tuple[Tensor, Tensor]:
        """Return the variance beyond the axes, with a floor if it vanishes, and those along the axes (q,)."""
        rest = axes.variance.new_tensor(self.variance_beyond(axes) or EIGENVALUE_FLOOR)
        return rest, ((1.0 - self.shrinkage) * axes.variance + rest)[: len(axes.vectors)]

    def dense(self) -> Gaussians:
        """Return the same distributions with full matrices (k, d, d)."""
        (k, d), parts = self.mean.shape, []
        for axes in self.axes:
            rest, variance = self.variances(axes)
            along = (axes.vectors.T * (variance.rsqrt() - rest.rsqrt())) @ axes.vectors
            log_det = variance.log().sum() + (d - len(variance)) * rest.log()
            parts.append((along + rest.rsqrt() * torch.eye(d, dtype=along.dtype), log_det))
        matrices, log_dets = map(torch.stack, zip(*parts, strict=True))
        return Gaussians(self.mean, matrices.expand(k, d, d), log_dets.expand(k))


def class_axes(
    X: Tensor, classes: Tensor, weight: Tensor, pooling: float
) -> tuple[Tensor, list[PrincipalAxes], list[bool]]:
    """Return the class means (k, d) of points (n, d), the axes, and the mask of classes whose points differ.

    The axes are those of each class for pooling 0, and one for all classes for pooling 1. A class of equal points has
    those of the within-class covariance.
    """
    k = int(classes.max()) + 1
    share = weight / X.new_zeros(k).index_add_(0, classes, weight)[classes]
    mean = X.new_zeros(k, X.shape[1]).index_add_(0, classes, share[:, None] * X)
    points, masks = X - mean[classes], [classes == c for c in range(k)]
    axes = [PrincipalAxes.of(points, weight / weight.sum())]
    if pooling < 1:
        own = [PrincipalAxes.of(points[mask], share[mask]) for mask in masks]
        axes = [each if len(each.variance) else axes[0] for each in own]
    return mean, axes, [bool((points[mask] != 0).any()) for mask in masks]


def low_rank_log_prob(gaussians: Sequence[LowRankGaussians], X: Tensor) -> Tensor:
    """Return the log-density (M, m, k) of points (m, d) under Gaussians of the same means and axes, in float64."""
    x, mean, d = X.double(), to_device(gaussians[0].mean, X), X.shape[1]
    axes = [PrincipalAxes(to_device(vectors, X), to_device(variance, X)) for vectors, variance in gaussians[0].axes]
    middle = mean.mean(0)
    x_middle, center = x - middle, mean - middle
    squares = (x_middle * x_middle).sum(1, keepdim=True) - 2.0 * x_middle @ center.T + (center * center).sum(1)
    shared = x @ axes[0].vectors.T if len(axes) == 1 else None
    log_prob = x.new_empty(len(gaussians), len(x), len(mean))
    for c, square in enumerate(squares.clamp_min(0.0).unbind(1)):
        own = axes[c if shared is None else 0]
        projections = ((x @ own.vectors.T if shared is None else shared) - own.vectors @ mean[c]).square_()
        for m, each in enumerate(gaussians):
            rest, variance = each.variances(own)
            beyond = (square - projections.sum(1)).clamp_min(0.0) / rest
            log_det = variance.log().sum() + (d - len(variance)) * rest.log()
            log_prob[m, :, c] = -0.5 * (projections @ variance.reciprocal() + beyond + log_det + d * LOG_2_PI)
    return log_prob
