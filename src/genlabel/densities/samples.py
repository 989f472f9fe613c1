"""Weighted samples: the points of each class, the folds of a cross-validation, and padded groups of either."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from genlabel._arrays import as_rng, chunks
from genlabel.data.folds import Fold, training_rows

MAX_CHUNK_VALUES = 1 << 18
"""Values per intermediate array of the densities that work in chunks, so that memory stays bounded."""
MIN_CLASS_ROWS = 20  # rows of each class among the first rows of a stratified order, if the class has them


def effective_size(weight: Tensor) -> Tensor:
    """Return the effective sample size (sum w)^2 / sum w^2 over the last dimension (Kish)."""
    return weight.sum(-1) ** 2 / (weight**2).sum(-1)


class WithinClass:
    """Within-class covariance of all classes, computed on first use."""

    def __init__(self, X: Tensor, index: Tensor, weight: Tensor) -> None:
        self.sample = (X, index, weight)

    @cached_property
    def covariance(self) -> Tensor:
        """(d, d)"""
        centered, weight, mass = self._centered
        return (weight[:, None] * centered).T @ centered / mass

    @cached_property
    def variance(self) -> Tensor:
        """Diagonal of the covariance, (d,)."""
        centered, weight, mass = self._centered
        return weight @ centered**2 / mass

    @property
    def _centered(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return the points (n, d) less their class means, their weights (n,) and the sum of these."""
        X, index, weight = self.sample
        k, d = int(index.max()) + 1, X.shape[1]
        mass = X.new_zeros(k).index_add_(0, index, weight)
        sums = X.new_zeros(k, d).index_add_(0, index, weight[:, None] * X)
        return X - (sums / mass[:, None])[index], weight, mass.sum()


@dataclass(frozen=True)
class ClassSample:
    """Training points of one class, the argument of `PerClassDensity._fit_class`."""

    name: object
    """Class label as the user wrote it."""
    X: Tensor
    """Points (n_c, d), float64 on the CPU unless the density sets `fit_dtype` or `fit_device`."""
    weight: Tensor
    """Positive weights (n_c,)."""
    within: WithinClass

    @property
    def pooled(self) -> Tensor:
        """Within-class covariance of all classes, (d, d): a fallback for small classes."""
        return self.within.covariance


def class_samples(classes: NDArray[Any], X: Tensor, index: Tensor, weight: Tensor) -> list[ClassSample]:
    """Return the training points of each class."""
    within = WithinClass(X, index, weight)
    names_and_masks = [(name, index == c) for c, name in enumerate(classes.tolist())]
    return [ClassSample(name, X[mask], weight[mask], within) for name, mask in names_and_masks]


class Groups(NamedTuple):
    """Weighted points by class, padded to the largest class, with g groups of weights for each class.

    A fit has one group per class; a cross-validation has one per class and fold, of weight 0 for held-out rows.
    """

    points: Tensor  # (k, n, d)
    weight: Tensor  # (k, g, n); 0 for points that are not in a group, and for padding

    @classmethod
    def by_class(cls, X: Tensor, index: Tensor, weight: Tensor) -> Groups:
        """Return points (n, d) by class; `weight` (g, n) has one row for each group."""
        rows_by_class = [(index == c).nonzero()[:, 0] for c in range(int(index.max()) + 1)]
        points = pad_sequence([X[rows] for rows in rows_by_class], batch_first=True)
        grouped = pad_sequence([weight[:, rows].T for rows in rows_by_class], batch_first=True)
        return cls(points, grouped.mT.contiguous())


class CrossValSample(NamedTuple):
    """Weighted points with their classes, and the folds of a cross-validation."""

    X: Tensor  # (n, d)
    classes: Tensor  # class indices (n,)
    weight: Tensor  # (n,)
    train: Tensor  # masks (f, n) of the training rows of each fold; each fold has at least one row of each class
    valid: Sequence[Tensor]  # indices of the validation rows of each fold

    @classmethod
    def of_rows(
        cls, X: Tensor, classes: Tensor, weight: Tensor, folds: Sequence[Fold], rows: NDArray[np.intp]
    ) -> CrossValSample:
        """Return some rows and their folds; a class without training rows in a fold keeps its held-out rows there."""
        position = np.full(len(X), -1)
        position[rows] = np.arange(len(rows))
        masks, valid = [], []
        for fold in folds:
            train, held_out = position[fold.train], position[fold.valid]
            masks.append(training_rows(train[train >= 0], classes.numpy()[rows]))
            valid.append(torch.from_numpy(held_out[held_out >= 0]))
        return cls(X[rows], classes[rows], weight[rows], torch.from_numpy(np.stack(masks)), valid)

    @property
    def k(self) -> int:
        """Number of classes."""
        return int(self.classes.max()) + 1

    @property
    def out_of_fold(self) -> Tensor:
        """Mask (n,) of rows with an out-of-fold prediction; if there is none, of all predicted rows."""
        mask = torch.zeros_like(self.classes, dtype=torch.bool)
        for train, rows in zip(self.train, self.valid, strict=True):
            mask[rows] = ~train[rows]
        if not bool(mask.any()):
            mask[torch.cat(list(self.valid))] = True
        return mask

    def of_classes(self, classes: Tensor) -> CrossValSample:
        """Return the points of some classes, renumbered from 0; the validation rows are those of all classes."""
        mask = torch.isin(self.classes, classes)
        index = torch.searchsorted(classes, self.classes[mask])
        return CrossValSample(self.X[mask], index, self.weight[mask], self.train[:, mask], self.valid)

    def fold_groups(self, values: int) -> Iterator[tuple[Groups, Sequence[Tensor]]]:
        """Yield the groups and the validation rows of some folds at a time; a fold takes `values` values of memory."""
        for part in chunks(len(self.valid), max(1, MAX_CHUNK_VALUES // values)):
            yield Groups.by_class(self.X, self.classes, self.train[part] * self.weight), self.valid[part]

    def empty_log_prob(self, count: int) -> Tensor:
        """Return an array for the log-densities of candidates, (count, n, k), filled with NaN."""
        return self.X.new_full((count, len(self.X), self.k), torch.nan)


def stratified_order(classes: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return an order of the rows (n,) whose first m rows, for any m, are a stratified sample.

    A class whose proportional number of rows is below `MIN_CLASS_ROWS` has that many, if it has them.
    """
    shuffled = as_rng(0).permutation(len(classes))
    by_class = shuffled[np.argsort(classes[shuffled], kind="stable")]
    counts = np.bincount(classes)
    size = np.repeat(counts, counts)  # size of the class of each row, and its rank within that class
    rank = np.arange(len(classes)) - np.repeat(np.cumsum(counts) - counts, counts)
    quantile = np.where(rank < np.minimum(size, MIN_CLASS_ROWS), 0.0, rank / size)
    return by_class[np.lexsort((rank, quantile))]
