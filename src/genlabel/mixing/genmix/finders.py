"""Points with a given ratio of two class densities: in closed form for Gaussians, by projections for manifolds.

In every finder, m searches run at once. `pair` (m, 2) holds two class indices i, j for each, and `log_ratio` (m,) the
wanted log p_j - log p_i, that is logit(lambda).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, NamedTuple, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from genlabel.densities import ClassDensity
from genlabel.densities.base import Manifolds
from genlabel.densities.covariance import Gaussians

Floats = NDArray[np.float64]
MAX_PROJECTIONS = 25
BISECTIONS = 50


class Candidates(NamedTuple):
    """Points that may lie on a surface, with their log-densities; NaN where none was found."""

    points: Floats
    """(m, d)"""
    log_prob: Floats
    """(m, k)"""


class Finder(ABC):
    """Base class of searches for points with log p_j - log p_i = logit(lambda)."""

    patience: ClassVar[int]
    """A pair of classes is given up when fewer than one in this many searches succeeds."""

    @abstractmethod
    def find(self, pair: NDArray[np.int64], log_ratio: Floats, rng: np.random.Generator) -> Candidates:
        """Search one point for each pair of classes (m, 2), at its log-ratio (m,)."""


def third_is_likelier(log_prob: Floats, pair: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return a mask (m,) of points at which a third class is more likely than one of the pair."""
    rows = np.arange(len(pair))[:, None]
    others = log_prob.copy()
    others[rows, pair] = -np.inf
    return np.asarray(others.max(1) > log_prob[rows, pair].min(1))


def draw_rows(index: NDArray[np.int64], pair: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
    """Draw a row of each class of the pairs (m, 2), (m, 2); `index` (n,) holds the classes of the rows.

    >>> draw_rows(np.array([0, 1, 1]), np.array([[0, 1], [1, 0]]), np.random.default_rng(0))
    array([[0, 1],
           [1, 0]])
    """
    order = np.argsort(index, kind="stable")
    count = np.bincount(index)
    first = np.cumsum(count) - count
    return order[first[pair] + (rng.random(pair.shape) * count[pair]).astype(np.int64)]


@final
class QuadricFinder(Finder):
    """GenMix+GM: the log-ratio of two Gaussians on a line from a draw of class i to a draw of class j is a quadratic.

    arXiv Section F.2: the surface is that of quadratic discriminant analysis. A root between the two draws is polished
    by one Newton step.
    """

    patience: ClassVar[int] = 50

    def __init__(self, density: ClassDensity, gaussians: Gaussians) -> None:
        self.density = density
        self.gaussians = gaussians
        self.spread = torch.linalg.inv(gaussians.matrix)

    def find(self, pair: NDArray[np.int64], log_ratio: Floats, rng: np.random.Generator) -> Candidates:
        """Draw a line for each pair, and solve for its root."""
        classes = torch.from_numpy(pair.T.copy())
        start, end = (self._sample(c, rng) for c in classes)
        first, second = (self._quadratic(start, end - start, c) for c in classes)
        square, slope, constant = (b - a for a, b in zip(first, second, strict=True))
        t = roots_on_segment(square, slope, constant - torch.from_numpy(log_ratio), rng)
        points = start + t[:, None] * (end - start)
        result = Candidates(points.numpy(), np.full((len(t), len(self.gaussians.mean)), np.nan))
        rows = t.isfinite().nonzero()[:, 0].numpy()
        result.log_prob[rows] = self.density.log_prob(result.points[rows])
        rows = rows[~third_is_likelier(result.log_prob[rows], pair[rows])]
        # The coefficients lose digits far from the mean; the density itself does not.
        error = np.diff(np.take_along_axis(result.log_prob[rows], pair[rows], 1))[:, 0] - log_ratio[rows]
        slopes = (2.0 * square * t + slope)[rows].numpy()
        step = np.divide(error, slopes, out=np.zeros_like(error), where=slopes != 0.0)
        result.points[rows] -= step[:, None] * (end - start)[rows].numpy()
        result.log_prob[rows] = self.density.log_prob(result.points[rows])
        return result

    def _sample(self, classes: Tensor, rng: np.random.Generator) -> Tensor:
        """Draw a point of each of the classes (m,), (m, d)."""
        mean = self.gaussians.mean
        normal = torch.from_numpy(rng.standard_normal((len(classes), mean.shape[1])))
        points = torch.empty_like(normal)
        for c in range(len(mean)):
            mask = classes == c
            points[mask] = normal[mask] @ self.spread[c] + mean[c]
        return points

    def _quadratic(self, start: Tensor, direction: Tensor, classes: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the coefficients (m,) of t^2, t and 1 in log p_c(start + t direction), up to d/2 log 2 pi."""
        mean, matrix, log_det = self.gaussians
        a, v = torch.empty_like(start), torch.empty_like(start)
        for c in range(len(mean)):
            mask = classes == c
            a[mask] = (start[mask] - mean[c]) @ matrix[c]
            v[mask] = direction[mask] @ matrix[c]
        return -0.5 * (v * v).sum(1), -(a * v).sum(1), -0.5 * ((a * a).sum(1) + log_det[classes])


def roots_on_segment(square: Tensor, slope: Tensor, constant: Tensor, rng: np.random.Generator) -> Tensor:
    """Return a root of square t^2 + slope t + constant in [0, 1], (m,): a random one of two, NaN if there is none.

    >>> roots_on_segment(*torch.tensor([[0.0, 1.0], [2.0, 0.0], [-1.0, 1.0]]), np.random.default_rng(0))
    tensor([0.5000,    nan])
    """
    # q = -(b + sign(b) sqrt(b^2 - 4ac)) / 2 and the roots q / a, c / q: no cancellation in either.
    q = -0.5 * (slope + torch.copysign((slope * slope - 4.0 * square * constant).sqrt(), slope))
    both = torch.stack([q / square, constant / q], 1)
    inside = (both >= 0.0) & (both <= 1.0)
    second = inside[:, 1] & (~inside[:, 0] | torch.from_numpy(rng.random(len(q)) < 0.5))
    root = torch.where(second, both[:, 1], both[:, 0])
    return torch.where(inside.any(1), root, torch.full_like(root, torch.nan))


class _Projected(NamedTuple):
    """Points with their projections onto the manifolds."""

    points: Tensor
    """(m, d)"""
    projections: Tensor
    """(m, k, d)"""
    log_prob: Tensor
    """(m, k)"""
    error: Tensor
    """log p_j - log p_i minus the wanted log-ratio, (m,)."""


@final
class ProjectionFinder(Finder):
    """GenMix+GAN: alternate between projecting points onto the manifolds and moving them with frozen projections.

    From a random point between two rows (arXiv Section F.3, GenMix+GAN): the point is projected onto the manifolds, is
    moved to where its distances to the *frozen* projections have the wanted difference, within a trust radius, and is
    projected again. A step that does not reduce the error is undone, and the radius is halved. All points move at once.

    NOTE[PAPER]: the step goes along m_j - m_i, not along the gradient. On that line the difference of the distances is
    monotone in every norm, so that bisection solves the small problem; the gradient of an L1 or L-infinity distance is
    zero in whole regions, and so is the L2 one where both manifolds lie on the same side.

    A point is done when its error in p_j / (p_i + p_j) is at most `tolerance`.
    """

    patience: ClassVar[int] = 40

    def __init__(self, manifolds: Manifolds, X: Floats, index: NDArray[np.int64], tolerance: float) -> None:
        self.manifolds = manifolds
        self.X, self.index = X, index
        self.tolerance = tolerance

    def find(self, pair: NDArray[np.int64], log_ratio: Floats, rng: np.random.Generator) -> Candidates:
        """Move a point between two rows of each pair until it has the log-ratio."""
        first, second = (self.X[rows] for rows in draw_rows(self.index, pair, rng).T)
        start = first + rng.uniform(0.25, 0.75, size=(len(pair), 1)) * (second - first)
        classes, wanted = torch.from_numpy(pair), torch.from_numpy(log_ratio)
        state = self._project(torch.from_numpy(start), classes, wanted)
        radius = torch.full_like(wanted, 0.5)  # as a fraction of the distance to the further projection
        for _ in range(MAX_PROJECTIONS):
            far = ((state.error + wanted).sigmoid() - wanted.sigmoid()).abs() > self.tolerance
            rows = far.nonzero()[:, 0]
            if len(rows) == 0:
                break
            old = _Projected(*(field[rows] for field in state))
            moved = self._move(old, classes[rows], wanted[rows], radius[rows])
            new = self._project(moved, classes[rows], wanted[rows])
            better = new.error.abs() < old.error.abs()
            for field, update in zip(state, new, strict=True):
                field[rows[better]] = update[better]
            radius[rows] = torch.where(better, (2.0 * radius[rows]).clamp_max(1.0), 0.5 * radius[rows])
        return Candidates(state.points.numpy(), state.log_prob.numpy())

    def _project(self, points: Tensor, pair: Tensor, log_ratio: Tensor) -> _Projected:
        projections = self.manifolds.project(points)
        log_prob = self.manifolds.log_prob_near(points, projections)
        return _Projected(points, projections, log_prob, _difference(log_prob, pair) - log_ratio)

    def _move(self, state: _Projected, pair: Tensor, log_ratio: Tensor, radius: Tensor) -> Tensor:
        """Move points along m_j - m_i to where the frozen distances are right, within the trust radius, (m, d)."""
        rows = torch.arange(len(pair))
        first, second = (state.projections[rows, c] for c in pair.T)
        direction = second - first
        size = direction.norm(dim=1).clamp_min(torch.finfo(direction.dtype).tiny)
        distance = torch.maximum((state.points - first).norm(dim=1), (state.points - second).norm(dim=1))
        low, high = -radius * distance / size, radius * distance / size
        for _ in range(BISECTIONS):
            middle = 0.5 * (low + high)
            log_prob = self.manifolds.log_prob_near(state.points + middle[:, None] * direction, state.projections)
            below = _difference(log_prob, pair) < log_ratio
            low, high = torch.where(below, middle, low), torch.where(below, high, middle)
        return state.points + (0.5 * (low + high))[:, None] * direction


def _difference(log_prob: Tensor, pair: Tensor) -> Tensor:
    """Return log p_j - log p_i, (m,)."""
    return log_prob.gather(1, pair).diff(dim=1)[:, 0]
