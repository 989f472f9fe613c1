"""A sample and the folds of a cross-validation over it, as densities are held out in them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from genlabel._arrays import as_rng, chunks

AT_ONCE = 1 << 18
"""Numbers that are worked on at once, so that memory stays bounded."""
FEWEST = 20
"""Rows of a class among the first ones of a sample, if it has them."""


class CrossValSample(NamedTuple):
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

    def of_classes(self, classes: Tensor) -> CrossValSample:
        """The points of some classes, numbered anew; asked of the same rows of all points."""
        inside = torch.isin(self.classes, classes)
        number = torch.searchsorted(classes, self.classes[inside])
        return CrossValSample(self.X[inside], number, self.weight[inside], self.train[:, inside], self.valid)

    def parts(self, numbers: int) -> Iterator[CrossValSample]:
        """The folds in parts, each of as many as can be worked on at once, one needing so many numbers."""
        for some in chunks(len(self.valid), max(1, AT_ONCE // numbers)):
            yield self._replace(train=self.train[some], valid=self.valid[some])

    def empty_log_prob(self, count: int) -> Tensor:
        """Room for the log-densities of so many candidates, (count, n, k), all NaN."""
        return self.X.new_full((count, len(self.X), self.k), torch.nan)


def stratified_order(classes: NDArray[np.intp], seed: Any = 0) -> NDArray[np.intp]:
    """Return the rows (n,), so that the first m of them, for any m, hold each class in its share, or a few rows of it.

    >>> y = np.repeat([0, 1, 2], [900, 300, 30])
    >>> np.bincount(y[stratified_order(y)[:400]]).tolist()
    [285, 95, 20]
    """
    shuffled = as_rng(seed).permutation(len(classes))
    order = shuffled[np.argsort(classes[shuffled], kind="stable")]
    counts = np.bincount(classes)
    place = np.arange(len(classes)) - np.repeat(np.cumsum(counts) - counts, counts)
    size = np.repeat(counts, counts)
    # A class whose share of the rows is too small for FEWEST of them has these first.
    quantile = np.where(place < np.minimum(size, FEWEST), 0.0, place / size)
    return order[np.lexsort((place, quantile))]
