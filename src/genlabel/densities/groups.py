"""Many weighted subsets of the same points at once: their moments, and Gaussians fitted to them.

A group is a row of weights over the points of one class, 0 where a point is absent: the training part of a fold, say.
One density of k classes has one group a class; a search over folds has as many as there are folds, and shares
everything else.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from genlabel.arrays import chunks
from genlabel.densities.covariance import FLOOR, SINGULAR
from genlabel.standardisation import ROUNDING

__all__ = [
    "Gaussians",
    "Groups",
    "Moments",
    "group_by_class",
    "group_moments",
    "normal_log_prob",
    "to_gaussians",
]

LOG_2_PI = math.log(2.0 * math.pi)
AT_ONCE = 1 << 24
"""Numbers that are worked on at once, so that memory stays bounded."""


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


class Moments(NamedTuple):
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


def group_by_class(X: Tensor, index: Tensor, weight: Tensor) -> Groups:
    """Sort points (n, d) by class; `weight` (g, n) holds one row for each group.

    >>> X = torch.tensor([[0.0], [1.0], [5.0]])
    >>> groups = group_by_class(X, torch.tensor([0, 0, 1]), torch.ones(1, 3))
    >>> groups.points[:, :, 0].tolist(), groups.weight[:, 0].tolist()
    ([[0.0, 1.0], [5.0, 0.0]], [[1.0, 1.0], [1.0, 0.0]])
    """
    rows = [(index == c).nonzero()[:, 0] for c in range(int(index.max()) + 1)]
    longest = max(len(own) for own in rows)
    points = X.new_zeros(len(rows), longest, X.shape[1])
    grouped = X.new_zeros(len(rows), len(weight), longest)
    for c, own in enumerate(rows):
        points[c, : len(own)] = X[own]
        grouped[c, :, : len(own)] = weight[:, own]
    return Groups(points, grouped)


def group_moments(groups: Groups) -> Moments:
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
    return Moments(mean, scatter / mass[..., None, None], within)


def to_gaussians(mean: Tensor, covariance: Tensor) -> tuple[Gaussians, Tensor]:
    """Invert covariances (..., d, d); return which of them (...) were singular, and floored to be inverted.

    As :func:`genlabel.densities.covariance.whitening`, on the correlation matrix, but all at once.
    """
    scale = covariance.diagonal(dim1=-2, dim2=-1).clamp_min(0).sqrt()
    noise = ROUNDING * mean.abs() + torch.finfo(scale.dtype).tiny ** 0.5
    scale = torch.where(scale > noise, scale, torch.ones_like(scale))
    correlation = covariance / (scale[..., :, None] * scale[..., None, :])
    root, info = torch.linalg.cholesky_ex(correlation)
    singular = (info > 0) | ~(root.diagonal(dim1=-2, dim2=-1).amin(-1) ** 2 > SINGULAR)
    if bool(singular.any()):
        values, vectors = torch.linalg.eigh(correlation[singular])
        repaired = (vectors * values.clamp_min(FLOOR)[..., None, :]) @ vectors.mT
        root[singular] = torch.linalg.cholesky(repaired)
    eye = torch.eye(mean.shape[-1], dtype=mean.dtype, device=mean.device).expand_as(root)
    matrix = torch.linalg.solve_triangular(root, eye, upper=False).mT / scale[..., :, None]
    log_det = 2.0 * (root.diagonal(dim1=-2, dim2=-1).log().sum(-1) + scale.log().sum(-1))
    return Gaussians(mean, matrix, log_det), singular


def normal_log_prob(X: Tensor, gaussians: Gaussians, dtype: torch.dtype = torch.float64) -> Tensor:
    """Log-density of the rows of `X` (m, d) under r Gaussians, (m, r): one product for all of them, in `dtype`.

    -1/2 (|a|^2 + log det Sigma + d log 2 pi), a = x - mu whitened; differences are taken in float64, whatever `X` is.
    """
    mean, matrix, log_det = (part.to(X.device) for part in gaussians)
    r, d = mean.shape
    middle = mean.mean(0)
    shift = ((middle - mean)[:, None] @ matrix).view(r * d, 1).to(dtype)
    stacked, constant = matrix.mT.reshape(r * d, d).to(dtype), (log_det + d * LOG_2_PI)[:, None].to(dtype)
    found = X.new_empty(r, len(X), dtype=dtype)
    for rows in chunks(len(X), AT_ONCE // (r * d)):
        white = torch.addmm(shift, stacked, (X[rows].double() - middle).to(dtype).T)
        found[:, rows] = white.square_().view(r, d, -1).sum(1)
    return found.add_(constant).mul_(-0.5).T
