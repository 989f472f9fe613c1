"""Points between two manifolds: project, move with the projections frozen, and project again (GenMix+GAN)."""

from __future__ import annotations

from typing import ClassVar, NamedTuple, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from genlabel.densities.base import Manifolds
from genlabel.mixing.genmix.roots import draw_rows
from genlabel.mixing.genmix.surface import Candidates, Finder

MOST_PROJECTIONS = 25
FIRST_REACH = 0.5
"""How far the first step may go, as a share of the distance to the further of the two projections."""
BISECTIONS = 50


class _State(NamedTuple):
    """Points, their projections, and how far they are from where they should be."""

    points: Tensor
    """(m, d)"""
    projections: Tensor
    """(m, k, d)"""
    log_prob: Tensor
    """(m, k)"""
    excess: Tensor
    """(m,): log p_j - log p_i less the height."""

    def take(self, rows: Tensor) -> _State:
        """Some of the points."""
        return _State(*(part[rows] for part in self))


@final
class ProjectionFinder(Finder):
    """GenMix+GAN: a sequence of small problems in which the nearest points of the manifolds are taken as known.

    From a random place between two rows (arXiv Section F.3, GenMix+GAN): the point is projected onto the manifolds, is
    moved to where its distances to the *frozen* projections have the difference that is asked for, but not beyond a
    reach in which these can be trusted, and is projected again. A step that does not come nearer is taken back, and the
    reach is halved. All points move at once.

    NOTE[PAPER]: the step goes along m_j - m_i, not along the gradient. On that line the difference of the distances is
    monotone in every norm, so that bisection solves the small problem; the gradient of an L1 or L-infinity distance is
    nil in whole regions, and so is the L2 one where both manifolds lie on the same side.

    `tolerance` is the error in p_j / (p_i + p_j) at which a point is done.
    """

    patience: ClassVar[int] = 40

    def __init__(
        self, manifolds: Manifolds, X: NDArray[np.float64], index: NDArray[np.int64], tolerance: float
    ) -> None:
        self.manifolds = manifolds
        self.X, self.index = X, index
        self.tolerance = tolerance

    def find(self, pair: NDArray[np.int64], height: NDArray[np.float64], rng: np.random.Generator) -> Candidates:
        """Move a point between two rows of each pair until it is where it should be."""
        first, second = (self.X[rows] for rows in draw_rows(self.index, pair, rng).T)
        start = first + rng.uniform(0.25, 0.75, size=(len(pair), 1)) * (second - first)
        classes, wanted = torch.from_numpy(pair), torch.from_numpy(height)
        state = self._project(torch.from_numpy(start), classes, wanted)
        reach = torch.full_like(wanted, FIRST_REACH)
        for _ in range(MOST_PROJECTIONS):
            rows = self._far(state, wanted).nonzero()[:, 0]
            if len(rows) == 0:
                break
            old = state.take(rows)
            new = self._project(self._step(old, classes[rows], wanted[rows], reach[rows]), classes[rows], wanted[rows])
            better = new.excess.abs() < old.excess.abs()
            for whole, part in zip(state, new, strict=True):
                whole[rows[better]] = part[better]
            reach[rows] = torch.where(better, (2.0 * reach[rows]).clamp_max(1.0), 0.5 * reach[rows])
        return Candidates(state.points.numpy(), state.log_prob.numpy())

    def _project(self, points: Tensor, pair: Tensor, height: Tensor) -> _State:
        projections = self.manifolds.project(points)
        log_prob = self.manifolds.log_prob_near(points, projections)
        return _State(points, projections, log_prob, _difference(log_prob, pair) - height)

    def _far(self, state: _State, height: Tensor) -> Tensor:
        """Whether |1 / (1 + exp(d_j - d_i)) - lambda| is too large, (m,)."""
        return ((state.excess + height).sigmoid() - height.sigmoid()).abs() > self.tolerance

    def _step(self, state: _State, pair: Tensor, height: Tensor, reach: Tensor) -> Tensor:
        """The points, moved along m_j - m_i to where the frozen distances are right, as far as is allowed, (m, d)."""
        rows = torch.arange(len(pair))
        first, second = (state.projections[rows, part] for part in pair.T)
        direction = second - first
        size = direction.norm(dim=1).clamp_min(torch.finfo(direction.dtype).tiny)
        away = torch.maximum((state.points - first).norm(dim=1), (state.points - second).norm(dim=1))
        low, high = -reach * away / size, reach * away / size
        for _ in range(BISECTIONS):
            middle = 0.5 * (low + high)
            at = self.manifolds.log_prob_near(state.points + middle[:, None] * direction, state.projections)
            below = _difference(at, pair) < height
            low, high = torch.where(below, middle, low), torch.where(below, high, middle)
        return state.points + (0.5 * (low + high))[:, None] * direction


def _difference(log_prob: Tensor, pair: Tensor) -> Tensor:
    """log p_j - log p_i, (m,)."""
    return log_prob.gather(1, pair).diff(dim=1)[:, 0]
