"""Covariances of fewer points than features: a few axes, and the same variance in every other direction."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from genlabel._arrays import to_device
from genlabel.densities.covariance import FLOOR, LOG_2_PI, Gaussians
from genlabel.densities.cross_validation import CrossValSample

SMALLEST = 1e-12
"""An axis of less variance, as a share of the largest, is none."""


class Axes(NamedTuple):
    """The principal axes of a covariance that has no more of them than there are points."""

    vectors: Tensor
    """(q, d), orthonormal rows."""
    variance: Tensor
    """(q,)"""

    @property
    def mean_variance(self) -> float:
        """Mean over all features: tr / d."""
        return float(self.variance.sum()) / self.vectors.shape[1]

    def of_sphere(self) -> Axes:
        """What is left of them where all directions are as good as another: the variances."""
        return Axes(self.vectors[:0].clone(), self.variance)


class LowRankGaussians(NamedTuple):
    """One normal distribution a class, of covariance (1 - s) A + delta I, A by its axes."""

    mean: Tensor
    """(k, d)"""
    axes: Sequence[Axes]
    """Those of each class, or one for all classes."""
    shrinkage: float
    """The intensity s."""
    reg: float
    """With delta = s tr(A) / d + reg."""

    def log_prob(self, X: Tensor) -> Tensor:
        """Log-density (m, k) of points (m, d), in float64."""
        x, mean = X.double(), to_device(self.mean, X)
        axes = [Axes(*(to_device(part, X) for part in one)) for one in self.axes]
        square, along = _squares(x, mean), _along(x, mean, axes)
        own = axes * len(mean) if len(axes) == 1 else axes
        parts = zip(own, square.unbind(1), along, strict=True)
        return torch.stack([self.of_squares(*part) for part in parts], 1)

    def of_squares(self, axes: Axes, square: Tensor, along: Tensor) -> Tensor:
        """Log-density (m,) from squared distances (m,) to a mean, and their parts (m, q) along the axes."""
        d, (rest, variance) = axes.vectors.shape[1], self.variances(axes)
        variance = variance[: along.shape[1]]
        beyond = (square - along.sum(1)).clamp_min(0.0) / rest
        log_det = variance.log().sum() + (d - len(variance)) * rest.log()
        return -0.5 * (along @ variance.reciprocal() + beyond + log_det + d * LOG_2_PI)

    def variances(self, axes: Axes) -> tuple[Tensor, Tensor]:
        """The variance in any other direction, and those along the axes (q,); one that would be nil is floored."""
        rest = axes.variance.new_tensor(FLOOR if self.is_nil(axes) else self._beyond(axes))
        return rest, (1.0 - self.shrinkage) * axes.variance + rest

    def is_nil(self, axes: Axes) -> bool:
        """Whether there is no variance beyond the axes."""
        return self._beyond(axes) <= SMALLEST * axes.mean_variance

    def _beyond(self, axes: Axes) -> float:
        return self.shrinkage * axes.mean_variance + self.reg

    def dense(self) -> Gaussians:
        """The same, with whitenings (k, d, d)."""
        matrices, log_dets = [], []
        for axes in self.axes:
            rest, variance = self.variances(axes)
            along = (axes.vectors.T * (variance[: len(axes.vectors)].rsqrt() - rest.rsqrt())) @ axes.vectors
            matrices.append(along + rest.rsqrt() * torch.eye(len(along), dtype=along.dtype))
            log_dets.append(variance.log().sum() + (len(along) - len(variance)) * rest.log())
        k = len(self.mean)
        each = (torch.stack(matrices), torch.stack(log_dets))
        return Gaussians(self.mean, *(part.expand(k, *part.shape[1:]) for part in each))


class Centred(NamedTuple):
    """Points less the means of their classes."""

    mean: Tensor
    """(k, d)"""
    points: Tensor
    """(n, d)"""
    share: Tensor
    """(n,): weights that sum to 1 in each class."""
    whole: Tensor
    """(n,): weights that sum to 1."""
    classes: Tensor
    """(n,)"""

    def axes(self, pooling: float) -> list[Axes]:
        """Those of each class (pooling 0; a class without spread has those of all), or of all classes together (1)."""
        together = [axes_of(self.points, self.whole)]
        if pooling == 1:
            return together
        each = [axes_of(self.points[inside], self.share[inside]) for inside in self._masks]
        return [one if len(one.variance) else together[0] for one in each]

    @property
    def spread(self) -> list[bool]:
        """Whether any two points of a class differ."""
        return [bool((self.points[inside] != 0).any()) for inside in self._masks]

    @property
    def _masks(self) -> list[Tensor]:
        return [self.classes == c for c in range(len(self.mean))]


def centre_by_class(X: Tensor, classes: Tensor, weight: Tensor) -> Centred:
    """Take off the weighted means of the classes from points (n, d)."""
    k = int(classes.max()) + 1
    share = weight / X.new_zeros(k).index_add_(0, classes, weight)[classes]
    mean = X.new_zeros(k, X.shape[1]).index_add_(0, classes, share[:, None] * X)
    return Centred(mean, X - mean[classes], share, weight / weight.sum(), classes)


def axes_of(centred: Tensor, share: Tensor) -> Axes:
    """Return the axes of sum_i share_i x_i x_i^T, from the products of the n points x_i (n, d) with each other.

    >>> axes = axes_of(torch.tensor([[3.0, 4.0, 0.0], [-3.0, -4.0, 0.0]]), torch.tensor([0.5, 0.5]))
    >>> axes.variance.round(), axes.vectors.abs()
    (tensor([25.]), tensor([[0.6000, 0.8000, 0.0000]]))
    """
    scaled = share.sqrt()[:, None] * centred
    values, vectors = torch.linalg.eigh(scaled @ scaled.T)
    kept = values > SMALLEST * values[-1].clamp_min(torch.finfo(values.dtype).tiny)
    return Axes((vectors[:, kept].T @ scaled) / values[kept].sqrt()[:, None], values[kept])


def thin_log_prob(folds: CrossValSample, settings: Sequence[tuple[float, float, float]]) -> Tensor:
    """Log-densities (M, n, k) of rows held out, for settings (pooling 0 or 1, shrinkage, reg).

    The axes of a fold, and what its rows have along them, are found once for all intensities of shrinkage.
    """
    found = folds.X.new_full((len(settings), len(folds.X), folds.k), torch.nan)
    for train, rows in zip(folds.train, folds.valid, strict=True):
        centred = centre_by_class(folds.X[train], folds.classes[train], folds.weight[train])
        square = _squares(folds.X[rows], centred.mean)
        for pooling in sorted({setting[0] for setting in settings}):
            axes = centred.axes(pooling)
            for c, along in enumerate(_along(folds.X[rows], centred.mean, axes)):
                own = axes[c if len(axes) > 1 else 0]
                for m, (p, shrinkage, reg) in enumerate(settings):
                    if p == pooling:
                        thin = LowRankGaussians(centred.mean, axes, shrinkage, reg)
                        found[m, rows, c] = thin.of_squares(own, square[:, c], along)
    return found


def _squares(X: Tensor, mean: Tensor) -> Tensor:
    """Squared distances (m, k) of points (m, d) from means (k, d)."""
    middle = mean.mean(0)
    x, centre = X - middle, mean - middle
    return ((x * x).sum(1, keepdim=True) - 2.0 * x @ centre.T + (centre * centre).sum(1)).clamp_min(0.0)


def _along(X: Tensor, mean: Tensor, axes: Sequence[Axes]) -> Iterator[Tensor]:
    """Squares (m, q) of what points (m, d) less the mean of each class have along its axes, or those of all classes."""
    shared = X @ axes[0].vectors.T if len(axes) == 1 else None
    for c, centre in enumerate(mean):
        vectors = axes[c if shared is None else 0].vectors
        yield ((X @ vectors.T if shared is None else shared) - vectors @ centre).square_()
