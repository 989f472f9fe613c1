"""A sample and the folds of a cross-validation over it, as densities are held out in them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from genlabel.arrays import chunks

__all__ = ["AT_ONCE", "FoldedSample"]

AT_ONCE = 1 << 24
"""Numbers that are worked on at once, so that memory stays bounded."""


class FoldedSample(NamedTuple):
    """Weighted points with their classes, and the folds of a cross-validation."""

    X: Tensor
    """(n, d)"""
    classes: Tensor
    """(n,): the number of each row's class."""
    weight: Tensor
    """(n,)"""
    train: Tensor
    """(f, n): the rows a fold's models are fitted to, True or False; each class has one at least."""
    valid: Sequence[Tensor]
    """The rows they are asked of, for each fold."""

    @property
    def k(self) -> int:
        """Number of classes."""
        return int(self.classes.max()) + 1

    @property
    def training_weight(self) -> Tensor:
        """The weights of the rows in each fold, (f, n), 0 for those that it does not train on."""
        return self.train * self.weight

    @property
    def honest(self) -> Tensor:
        """Rows (n,) that the last fold to ask of them does not train on; all that are asked of if there are none."""
        held, asked = torch.zeros_like(self.classes, dtype=torch.bool), torch.zeros_like(self.classes, dtype=torch.bool)
        for train, rows in zip(self.train, self.valid, strict=True):
            asked[rows] = True
            held[rows] = ~train[rows]
        return held if bool(held.any()) else asked

    def of_classes(self, classes: Tensor) -> FoldedSample:
        """The points of some classes, numbered anew; asked of the same rows of all points."""
        inside = torch.isin(self.classes, classes)
        number = torch.searchsorted(classes, self.classes[inside])
        return FoldedSample(self.X[inside], number, self.weight[inside], self.train[:, inside], self.valid)

    def parts(self, numbers: int) -> Iterator[FoldedSample]:
        """The folds in parts, each of as many as can be worked on at once, one needing so many numbers."""
        for some in chunks(len(self.valid), max(1, AT_ONCE // numbers)):
            yield self._replace(train=self.train[some], valid=self.valid[some])

    def unanswered(self, count: int) -> Tensor:
        """Room for the log-densities of so many candidates, (count, n, k), all NaN."""
        return self.X.new_full((count, len(self.X), self.k), torch.nan)
