"""Which generator of several is kept for a class: judged on held-out rows, refused if it leaves some out."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from genlabel.densities.gan_training import Generators

__all__ = ["FEW", "ClassRows", "Judged", "judge", "split_rows"]

FEW = 20
"""Rows of a class under which none are held out."""
HELD_OUT = 0.1
"""The share of the rows that is held out."""
SEEN = 1024
"""Generated points by which a generator is judged."""
NEAR = 2.0
"""How far the nearest generated point may be, in distances (their 90 % quantile) to the nearest training row."""


class ClassRows(NamedTuple):
    """Standardised rows of a class: those that train, with the running sum of their shares, and those that judge."""

    train: Tensor
    shares: Tensor
    held_out: Tensor

    @property
    def reach(self) -> float:
        """How near a generated point must come to a held-out row to cover it."""
        distance = torch.cdist(self.held_out, self.train)
        if len(self.train) < FEW and len(self.train) > 1:  # the rows judge themselves
            distance = distance + torch.diag(torch.full((len(self.train),), torch.inf, dtype=distance.dtype))
        typical = NEAR * float(distance.min(1).values.quantile(0.9))
        return max(typical, 0.1 * self.train.shape[1] ** 0.5)


class Judged(NamedTuple):
    """A generator of a class, and how it did on the rows that were held out."""

    generators: Generators
    penalty: float
    coverage: float
    """The share of the held-out rows that have a generated point near by."""
    energy: float
    """The energy distance between them and generated points, but for a term that all share: less is better."""


def split_rows(rows: Tensor, weight: Tensor, seed: int) -> ClassRows:
    """Hold out a part of the rows (n, d) of a class; of few rows none, and all of them judge."""
    order = torch.from_numpy(np.random.default_rng(seed).permutation(len(rows)))
    cut = 0 if len(rows) < FEW else max(4, round(HELD_OUT * len(rows)))
    train = order[cut:]
    shares = weight[train].cumsum(0) / weight[train].sum()
    return ClassRows(rows[train], shares, rows[order[:cut]] if cut else rows[train])


def judge(generators: Generators, rows: ClassRows, penalty: float, seed: int) -> Judged:
    """Compare the points of one generator with the rows of its class that were held out."""
    with torch.no_grad():
        points = generators.sample(SEEN, np.random.default_rng(seed))[0]
    distance = torch.cdist(rows.held_out.to(points), points)
    covered = distance.min(1).values <= rows.reach
    energy = 2 * distance.mean() - torch.cdist(points, points).mean()
    return Judged(generators, penalty, float(covered.double().mean()), float(energy))
