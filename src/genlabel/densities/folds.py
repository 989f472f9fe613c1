"""Folds in which every class can be learned: stratified, and a class is never taken away from training."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from genlabel.arrays import as_numpy, as_rng
from genlabel.checks import check_count, warn
from genlabel.densities.base import DensityWarning

__all__ = ["fold_numbers", "make_folds", "training_rows"]


def make_folds(cv: Any, index: Tensor, random_state: Any) -> tuple[Tensor, list[Tensor]]:
    """Return the training rows (f, n), True or False, and the validation rows of each fold.

    `cv` is a number of stratified folds, or an iterable of (train, valid) rows. A class of fewer points, but two at
    least, makes the folds fewer, with a warning.
    """
    if isinstance(cv, Integral):
        count = _count(check_count("cv", cv, low=2), index)
        number = torch.from_numpy(_stratified(index.numpy(), count, as_rng(random_state)))
        pairs = [(number != f, (number == f).nonzero()[:, 0]) for f in range(count)]
    else:
        pairs = [(_mask(train, len(index)), _rows(valid, len(index))) for train, valid in _given(cv, index)]
    pairs = [(train, valid) for train, valid in pairs if len(valid)]
    if not pairs:
        raise ValueError("cv gives no folds; give a number, or pairs (train, valid) of rows")
    return torch.stack([training_rows(~train, index) for train, _ in pairs]), [valid for _, valid in pairs]


def training_rows(held: Tensor, index: Tensor) -> Tensor:
    """Return the rows that are not held out, and all rows of a class that would have none left, (n,).

    >>> training_rows(torch.tensor([True, True, False]), torch.tensor([0, 1, 1])).tolist()
    [True, False, True]
    """
    left = torch.bincount(index[~held], minlength=int(index.max()) + 1)
    return ~held | (left == 0)[index]


def fold_numbers(valid: Sequence[Tensor], n: int) -> NDArray[np.intp]:
    """Return the fold of each of `n` rows; raise unless each is in one."""
    number = np.full(n, -1, dtype=np.intp)
    for f, rows in enumerate(valid):
        number[rows.numpy()] = f
    if (number < 0).any() or sum(len(rows) for rows in valid) != n:
        raise ValueError("cross_fit=True needs every row in the validation part of one fold of cv, and of one only")
    return number


def _count(cv: int, index: Tensor) -> int:
    sizes = torch.bincount(index)
    smallest = int(sizes[sizes > 1].min()) if bool((sizes > 1).any()) else 2
    if smallest < cv:
        warn("folds", f"LabelModel: a class has {smallest} samples; using {smallest} folds, not {cv}", DensityWarning)
    return min(cv, smallest)


def _stratified(index: NDArray[np.intp], count: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Deal the rows of each class, shuffled, to the folds in turn; a class goes on where the one before stopped."""
    shuffled = rng.permutation(len(index))
    order = shuffled[np.argsort(index[shuffled], kind="stable")]
    number = np.empty(len(index), dtype=np.intp)
    number[order] = np.arange(len(index)) % count
    return number


def _given(cv: Any, index: Tensor) -> list[tuple[Any, Any]]:
    """The pairs of a splitter of scikit-learn, or those that are given."""
    way_out = "give a number of folds, a splitter, or pairs (train, valid) of rows"
    if isinstance(cv, str) or not (hasattr(cv, "split") or hasattr(cv, "__iter__")):
        raise ValueError(f"cv={cv!r} is not known; {way_out}")
    if hasattr(cv, "split"):
        return list(cv.split(np.zeros((len(index), 1)), index.numpy()))
    pairs = [tuple(pair) for pair in cv]
    if any(len(pair) != 2 for pair in pairs):
        raise ValueError(f"cv has a fold that is no pair (train, valid); {way_out}")
    return pairs


def _mask(rows: Any, n: int) -> Tensor:
    mask = torch.zeros(n, dtype=torch.bool)
    mask[_rows(rows, n)] = True
    return mask


def _rows(rows: Any, n: int) -> Tensor:
    """Numbers of rows, from numbers or a mask."""
    given = as_numpy(rows)
    if given.size == 0:
        return torch.empty(0, dtype=torch.long)
    if given.dtype != bool and not (given.min() >= -n and given.max() < n):
        raise ValueError(f"cv names row {given.max()}, but there are {n} rows")
    return torch.arange(n)[torch.from_numpy(given)]
