"""Folds of a sample: stratified, or as the user gives them, checked."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedKFold

from genlabel.checks import check_count, warn
from genlabel.estimators.sample import Sample

__all__ = ["split"]


def split(sample: Sample, cv: Any, seed: int) -> list[tuple[NDArray[Any], NDArray[Any]]]:
    """Rows of the training and the held-out part of each fold; stratified, with fewer folds for a small class."""
    if isinstance(cv, Integral):
        folds = _possible_folds(sample, check_count("cv", cv, low=2))
        pairs = list(StratifiedKFold(folds, shuffle=True, random_state=seed).split(sample.X, sample.y))
    else:
        pairs = _given_folds(sample, cv)
    for train, valid in pairs:
        missing = np.setdiff1d(np.arange(len(sample.classes)), sample.y[train])
        if len(missing):
            name = sample.classes[missing].tolist()[0]
            raise ValueError(f"a fold of cv={cv!r} has no training point of class {name!r}; use stratified folds")
        weight = sample.take(valid).score_weight
        if len(valid) == 0 or (weight is not None and weight.sum() <= 0):
            raise ValueError(f"a fold of cv={cv!r} holds out no point of positive weight; use fewer folds")
    return pairs


def _given_folds(sample: Sample, cv: Any) -> list[tuple[NDArray[Any], NDArray[Any]]]:
    if isinstance(cv, str) or not (hasattr(cv, "split") or hasattr(cv, "__iter__")):
        raise ValueError(f"cv={cv!r} must be a number of folds, a splitter, or pairs of row indices")
    if hasattr(cv, "split"):
        try:
            return [(np.asarray(train), np.asarray(valid)) for train, valid in cv.split(sample.X, sample.labels)]
        except ValueError as error:
            raise ValueError(f"cv={cv!r} could not split the rows: {error}; or give pairs of row indices") from error
    return [(_places(sample, train), _places(sample, valid)) for train, valid in cv]


def _places(sample: Sample, rows: Any) -> NDArray[np.int64]:
    """Where rows of the user's table stand in the sample; those of weight zero are gone, and are left out."""
    rows = np.asarray(rows)
    if len(rows) and not (rows.min() >= 0 and rows.max() < sample.n_rows):
        raise ValueError(f"cv names row {rows.max()}, but X has rows 0 to {sample.n_rows - 1}")
    place = np.full(sample.n_rows, -1)
    place[sample.rows] = np.arange(len(sample.rows))
    found = place[rows]
    return found[found >= 0]


def _possible_folds(sample: Sample, cv: int) -> int:
    counts = np.bincount(sample.y)
    smallest = int(counts.min())
    if smallest < cv:
        name = sample.classes.tolist()[int(counts.argmin())]
        message = f"cv={cv} folds, but class {name!r} has only {smallest} samples; using {smallest} folds"
        warn("cv", message, UserWarning)
    return min(cv, smallest)
