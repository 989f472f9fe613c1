"""What every mixer shares: one draw of all that is random, then a deterministic mix."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from torch import Tensor

__all__ = ["Mix", "Mixer", "blend"]


class Mix(NamedTuple):
    """Everything random in one step of mixing a batch of n points."""

    partner: NDArray[np.int64]
    """Row of the batch that each row is mixed with, (n,)."""
    lam: NDArray[np.float64]
    """Weight of the row itself, (n,); its partner has 1 - lam."""
    depth: int = 0
    """Number of network stages before the mixing; 0 mixes the input."""
    clean: NDArray[np.bool_] | None = None
    """Rows that are left as they are and keep their own labels, (n,); None is none of them."""
    rows: NDArray[np.int64] | None = None
    """Row of the training set that each row of the batch is, (n,), where it is known: for labels by cross-fitting."""
    points: Any = None
    """The training set (N, d) of `rows`, where each mixed point is known to be the blend of two of its rows."""

    def keep(self, count: int) -> Mix:
        """The same draw, but the first `count` rows are left as they are: the order of a batch is random."""
        clean = np.arange(len(self.partner)) < count
        partner = np.where(clean, np.arange(len(self.partner)), self.partner)
        return self._replace(partner=partner, lam=np.where(clean, 1.0, self.lam), clean=clean)


class Mixer(BaseEstimator, ABC):
    """A way of pairing and weighting the points of a batch."""

    @abstractmethod
    def draw(self, n: int, rng: Any = None) -> Mix:
        """Draw partners, weights and depth for a batch of `n` points; `rng` is a numpy generator or a seed."""

    def mix(self, X: Any, draw: Mix) -> Any:
        """Return lam x_i + (1 - lam) x_j for the drawn pairs (arXiv Alg. 1, line 4); numpy or torch.

        Row by row: a stretch of many batches may be mixed in one call. One that is not this blend is for the input
        (depth 0) only.
        """
        return blend(X, draw)

    @property
    def max_depth(self) -> int:
        """The largest depth that `draw` may name."""
        return 0


def blend(values: Any, draw: Mix) -> Any:
    """Blend the rows of `values` (n, ...) with their partners' rows."""
    rows = len(draw.partner)
    if len(values) != rows:
        raise ValueError(f"the draw is for {rows} rows, but {len(values)} were given; draw with n={len(values)}")
    if isinstance(values, Tensor):
        partner = torch.as_tensor(draw.partner, device=values.device)
        lam = torch.as_tensor(draw.lam, dtype=values.dtype, device=values.device)
        lam = lam.reshape(-1, *[1] * (values.ndim - 1))
        return lam * values + (1.0 - lam) * values[partner]
    values = np.asarray(values, dtype=np.float64)
    weight = draw.lam.reshape(-1, *[1] * (values.ndim - 1))
    return weight * values + (1.0 - weight) * values[draw.partner]
