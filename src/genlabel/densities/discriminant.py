"""Regularized discriminant analysis: Gaussians between one for each class and one for all classes.

With fewer points than features a covariance is stored by its principal axes (`LowRankGaussians`).
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence
from typing import NamedTuple, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from genlabel._arrays import chunks, to_device
from genlabel._validation import check_choice, check_interval, warn
from genlabel.densities.base import MAX_CHUNK_VALUES, ClassDensity, DensityWarning
from genlabel.densities.covariance import (
    EIGENVALUE_FLOOR,
    LOG_2_PI,
    Gaussians,
    GroupMoments,
    group_by_class,
    group_moments,
    normal_log_prob,
    to_gaussians,
)
from genlabel.densities.cross_validation import CrossValSample
from genlabel.registry import DENSITIES

MIN_RELATIVE_VARIANCE = 1e-12  # variance of a principal axis, relative to the largest, below which it is dropped


@DENSITIES.register("discriminant")
@final
class DiscriminantDensity(ClassDensity):
    r"""A Gaussian for each class, with a covariance shrunk toward that of all classes and toward a simpler one.

    .. math:: \Sigma_c = (1 - s) A_c + s\, T(A_c) + \mathrm{reg}\, I, \qquad
              A_c = (1 - \mathrm{pooling})\, S_c + \mathrm{pooling}\, S_\mathrm{within}

    (Friedman, 1989, "Regularized discriminant analysis"). Pooling 0 is quadratic, pooling 1 linear discriminant
    analysis.

    Parameters
    ----------
    pooling : float in [0, 1]
        Weight of the within-class covariance of all classes.
    shrinkage : float in [0, 1]
        Intensity s.
    target : "sphere" or "diagonal"
        T(A) is tr(A)/d I, or the diagonal of A.
    reg : float
        Variance added to the diagonal; meant for standardized features.

    A class without spread gets the within-class covariance, and a singular covariance is regularized, each with a
    :class:`DensityWarning` that names the class.

    Examples
    --------
    >>> density = DiscriminantDensity(pooling=1.0, reg=0.0).fit([[0.0], [2.0], [5.0], [9.0]], [0, 0, 1, 1])
    >>> density.covariances_.ravel().round(3)
    array([2.5, 2.5])
    >>> density.log_prob([[1.0]]).round(3)
    array([[-1.377, -8.577]])
    """

    cv_family: Hashable | None = "discriminant"
    """All discriminant densities share the moments of the folds."""

    def __init__(self, pooling: float = 0.0, shrinkage: float = 0.0, target: str = "sphere", reg: float = 1e-4) -> None:
        self.pooling = pooling
        self.shrinkage = shrinkage
        self.target = target
        self.reg = reg

    def _fit(self, X: Tensor, index: Tensor, weight: Tensor) -> None:
        self._check_parameters()
        self.gaussians_: Gaussians | LowRankGaussians
        if self._is_low_rank(*X.shape):
            sample = CenteredSample.of(X, index, weight)
            axes = sample.axes(self.pooling)
            if self.shrinkage == 1:
                axes = [PrincipalAxes(one.vectors[:0].clone(), one.variance) for one in axes]
            gaussians = LowRankGaussians(sample.mean, axes, self.shrinkage, self.reg)
            degenerate = any(gaussians.is_degenerate(one) for one in axes)
            self.gaussians_, spread, singular = gaussians, sample.has_spread, [degenerate] * len(self.classes_)
        else:
            moments = group_moments(group_by_class(X, index, weight[None]))
            self.gaussians_, mask = to_gaussians(moments.mean[:, 0], self._covariances(moments)[:, 0])
            spread, singular = moments.has_spread[:, 0].tolist(), mask.tolist()
        for name, has_spread, is_singular in zip(self.classes_.tolist(), spread, singular, strict=True):
            if not has_spread and self.pooling < 1:
                problem = "has no spread; using the covariance within all classes"
            elif is_singular:
                problem = "has a singular covariance; using a floor on its eigenvalues"
            else:
                continue
            warn(("DiscriminantDensity", name), f"DiscriminantDensity: class {name!r} {problem}", DensityWarning)

    def _is_low_rank(self, n: int, d: int) -> bool:
        """Return whether covariances of `n` rows of `d` features have few axes and are spherical beyond them."""
        return n < d and self.target == "sphere" and self.pooling in (0, 1)

    def _check_parameters(self) -> None:
        check_interval("pooling", self.pooling, 0.0, 1.0, "0 keeps the covariance of each class")
        check_interval("shrinkage", self.shrinkage, 0.0, 1.0, "0 keeps the sample covariance")
        check_choice("target", self.target, ["sphere", "diagonal"])
        check_interval("reg", self.reg, 0.0, math.inf, "1e-4 is the usual choice")

    @property
    def means_(self) -> NDArray[np.float64]:
        """Means mu_c, (k, d)."""
        return self.gaussians().mean.numpy()

    @property
    def covariances_(self) -> NDArray[np.float64]:
        """Regularized covariances Sigma_c, (k, d, d)."""
        matrix = self.gaussians().matrix
        return torch.linalg.inv(matrix @ matrix.mT).numpy()

    def gaussians(self) -> Gaussians:
        """Return the Gaussians of the classes."""
        return self.gaussians_.dense()

    def _log_prob(self, X: Tensor) -> Tensor:
        return self.gaussians_.log_prob(X).to(X)

    def _covariances(self, moments: GroupMoments) -> Tensor:
        """Return Sigma_c of every group, (k, g, d, d), or (1, g, d, d) if all classes share it."""
        if self.pooling == 1:
            pooled = moments.within[None]
        else:
            covariance = torch.where(moments.has_spread[..., None, None], moments.covariance, moments.within)
            pooled = torch.lerp(covariance, moments.within.expand_as(covariance), float(self.pooling))
        diagonal = pooled.diagonal(dim1=-2, dim2=-1)
        if self.target == "sphere":
            diagonal = diagonal.mean(-1, keepdim=True).expand_as(diagonal)
        return (1.0 - self.shrinkage) * pooled + torch.diag_embed(self.shrinkage * diagonal + self.reg)

    def held_out_log_prob(self, sample: CrossValSample, densities: Sequence[DiscriminantDensity]) -> Tensor:
        """Return held-out log-densities (M, n, k); all densities share the moments, or the axes, of the folds."""
        for density in densities:
            density._check_parameters()
        low_rank = [m for m, density in enumerate(densities) if density._is_low_rank(*sample.X.shape)]
        if not low_rank:
            return _held_out_full(sample, densities)
        log_prob = sample.empty_log_prob(len(densities))
        for train, rows in zip(sample.train, sample.valid, strict=True):
            centered = CenteredSample.of(sample.X[train], sample.classes[train], sample.weight[train])
            squares = _squared_distances(sample.X[rows], centered.mean)
            for pooling in sorted({densities[m].pooling for m in low_rank}):
                axes = centered.axes(pooling)
                for c, projections in enumerate(_squared_projections(sample.X[rows], centered.mean, axes)):
                    own = axes[c if len(axes) > 1 else 0]
                    for m in (m for m in low_rank if densities[m].pooling == pooling):
                        gaussians = LowRankGaussians(centered.mean, axes, densities[m].shrinkage, densities[m].reg)
                        log_prob[m, rows, c] = gaussians.log_prob_from_squares(own, squares[:, c], projections)
        full = [m for m in range(len(densities)) if m not in low_rank]
        if full:
            log_prob[full] = _held_out_full(sample, [densities[m] for m in full])
        return log_prob


def _held_out_full(sample: CrossValSample, densities: Sequence[DiscriminantDensity]) -> Tensor:
    log_prob = sample.empty_log_prob(len(densities))
    values = sample.k * sample.X.shape[1] ** 2
    for part in sample.split_folds(values):
        moments = group_moments(group_by_class(part.X, part.classes, part.training_weight))
        k = len(moments.mean)
        for batch in chunks(len(densities), max(1, MAX_CHUNK_VALUES // (values * len(part.valid)))):
            each = []
            for density in densities[batch]:
                covariance = density._covariances(moments)
                (_, matrix, log_det), _ = to_gaussians(moments.mean[: len(covariance)], covariance)
                each.append((moments.mean, matrix.expand(k, -1, -1, -1), log_det.expand(k, -1)))
            stacked = [torch.stack(parts) for parts in zip(*each, strict=True)]
            for f, rows in enumerate(part.valid):
                of_fold = Gaussians(*(parts[:, :, f].flatten(0, 1) for parts in stacked))
                values_of_fold = normal_log_prob(sample.X[rows], of_fold).view(len(rows), len(each), -1)
                log_prob[batch, rows] = values_of_fold.transpose(0, 1)
    return log_prob


class PrincipalAxes(NamedTuple):
    """Principal axes of a covariance of fewer points than features."""

    vectors: Tensor  # (q, d), orthonormal rows
    variance: Tensor  # (q,)

    @classmethod
    def of(cls, centered: Tensor, share: Tensor) -> PrincipalAxes:
        """Return the axes of sum_i share_i x_i x_i^T from the Gram matrix of the n points x_i (n, d).

        >>> axes = PrincipalAxes.of(torch.tensor([[3.0, 4.0, 0.0], [-3.0, -4.0, 0.0]]), torch.tensor([0.5, 0.5]))
        >>> axes.variance.round(), axes.vectors.abs()
        (tensor([25.]), tensor([[0.6000, 0.8000, 0.0000]]))
        """
        scaled = share.sqrt()[:, None] * centered
        values, vectors = torch.linalg.eigh(scaled @ scaled.T)
        mask = values > MIN_RELATIVE_VARIANCE * values[-1].clamp_min(torch.finfo(values.dtype).tiny)
        return cls((vectors[:, mask].T @ scaled) / values[mask].sqrt()[:, None], values[mask])

    @property
    def mean_variance(self) -> float:
        """Mean variance over all features, tr / d."""
        return float(self.variance.sum()) / self.vectors.shape[1]


class LowRankGaussians(NamedTuple):
    """One normal distribution for each class, of covariance (1 - s) A + delta I, with A given by principal axes."""

    mean: Tensor  # (k, d)
    axes: Sequence[PrincipalAxes]  # axes of each class, or one for all classes
    shrinkage: float  # intensity s
    reg: float  # part of delta = s tr(A) / d + reg

    def log_prob(self, X: Tensor) -> Tensor:
        """Return the log-density (m, k) of points (m, d), in float64."""
        x, mean = X.double(), to_device(self.mean, X)
        axes = [PrincipalAxes(*(to_device(part, X) for part in one)) for one in self.axes]
        squares, projections = _squared_distances(x, mean), _squared_projections(x, mean, axes)
        own = axes * len(mean) if len(axes) == 1 else axes
        parts = zip(own, squares.unbind(1), projections, strict=True)
        return torch.stack([self.log_prob_from_squares(*part) for part in parts], 1)

    def log_prob_from_squares(self, axes: PrincipalAxes, square: Tensor, projections: Tensor) -> Tensor:
        """Return the log-density (m,) from squared distances (m,) to a mean and squared projections (m, q)."""
        d, (rest, variance) = axes.vectors.shape[1], self._variances(axes)
        variance = variance[: projections.shape[1]]
        beyond = (square - projections.sum(1)).clamp_min(0.0) / rest
        log_det = variance.log().sum() + (d - len(variance)) * rest.log()
        return -0.5 * (projections @ variance.reciprocal() + beyond + log_det + d * LOG_2_PI)

    def is_degenerate(self, axes: PrincipalAxes) -> bool:
        """Return whether there is no variance beyond the axes."""
        return self._variance_beyond(axes) <= MIN_RELATIVE_VARIANCE * axes.mean_variance

    def _variance_beyond(self, axes: PrincipalAxes) -> float:
        return self.shrinkage * axes.mean_variance + self.reg

    def _variances(self, axes: PrincipalAxes) -> tuple[Tensor, Tensor]:
        """Return the variance beyond the axes, with a floor if it vanishes, and those along the axes (q,)."""
        beyond = EIGENVALUE_FLOOR if self.is_degenerate(axes) else self._variance_beyond(axes)
        rest = axes.variance.new_tensor(beyond)
        return rest, (1.0 - self.shrinkage) * axes.variance + rest

    def dense(self) -> Gaussians:
        """Return the same distributions with full matrices (k, d, d)."""
        matrices, log_dets = [], []
        for axes in self.axes:
            rest, variance = self._variances(axes)
            along = (axes.vectors.T * (variance[: len(axes.vectors)].rsqrt() - rest.rsqrt())) @ axes.vectors
            matrices.append(along + rest.rsqrt() * torch.eye(len(along), dtype=along.dtype))
            log_dets.append(variance.log().sum() + (len(along) - len(variance)) * rest.log())
        k = len(self.mean)
        each = (torch.stack(matrices), torch.stack(log_dets))
        return Gaussians(self.mean, *(part.expand(k, *part.shape[1:]) for part in each))


class CenteredSample(NamedTuple):
    """Points less the weighted means of their classes."""

    mean: Tensor  # (k, d)
    points: Tensor  # (n, d)
    share: Tensor  # weights (n,) that sum to 1 in each class
    weight: Tensor  # weights (n,) that sum to 1
    classes: Tensor  # (n,)

    @classmethod
    def of(cls, X: Tensor, classes: Tensor, weight: Tensor) -> CenteredSample:
        """Return points (n, d) less the means of their classes."""
        k = int(classes.max()) + 1
        share = weight / X.new_zeros(k).index_add_(0, classes, weight)[classes]
        mean = X.new_zeros(k, X.shape[1]).index_add_(0, classes, share[:, None] * X)
        return cls(mean, X - mean[classes], share, weight / weight.sum(), classes)

    def axes(self, pooling: float) -> list[PrincipalAxes]:
        """Return the axes of each class (pooling 0), or of the within-class covariance (1, and without spread)."""
        pooled = [PrincipalAxes.of(self.points, self.weight)]
        if pooling == 1:
            return pooled
        each = [PrincipalAxes.of(self.points[mask], self.share[mask]) for mask in self._masks]
        return [one if len(one.variance) else pooled[0] for one in each]

    @property
    def has_spread(self) -> list[bool]:
        """True if any two points of a class differ, for each class."""
        return [bool((self.points[mask] != 0).any()) for mask in self._masks]

    @property
    def _masks(self) -> list[Tensor]:
        return [self.classes == c for c in range(len(self.mean))]


def _squared_distances(X: Tensor, mean: Tensor) -> Tensor:
    """Return squared distances (m, k) of points (m, d) from means (k, d)."""
    middle = mean.mean(0)
    x, center = X - middle, mean - middle
    return ((x * x).sum(1, keepdim=True) - 2.0 * x @ center.T + (center * center).sum(1)).clamp_min(0.0)


def _squared_projections(X: Tensor, mean: Tensor, axes: Sequence[PrincipalAxes]) -> Iterator[Tensor]:
    """Yield for each class the squared projections (m, q) of points (m, d) less its mean on its axes."""
    shared = X @ axes[0].vectors.T if len(axes) == 1 else None
    for c, center in enumerate(mean):
        vectors = axes[c if shared is None else 0].vectors
        yield ((X @ vectors.T if shared is None else shared) - vectors @ center).square_()
