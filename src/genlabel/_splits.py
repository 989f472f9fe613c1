"""The folds of a cross-validation: dealt by class, or given as rows, masks or a splitter, and checked once for all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedKFold

from genlabel._arrays import as_numpy, as_rng
from genlabel._validation import check_count, warn

WAY_OUT = "give a number of folds, a splitter, or pairs (train, valid) of row numbers"
GONE = -1
"""The place of a row that is no point: its weight was 0."""

FEW_ROWS, MANY_ROWS = 600, 20_000
"""Where `folds_by_size` changes."""

Dealer = Callable[[NDArray[np.intp], int, Any], NDArray[np.intp]]
"""From class numbers (n,), a number of folds and a seed to the fold of each row, (n,)."""


class Fold(NamedTuple):
    """The rows that a model is fitted to, and those that it is asked of."""

    train: NDArray[np.intp]
    valid: NDArray[np.intp]


def make_folds(
    cv: Any,
    y: NDArray[np.intp],
    seed: Any,
    deal: Dealer,
    *,
    fewer: bool = True,
    classes: NDArray[Any] | None = None,
    X: Any = None,
    rows: NDArray[np.intp] | None = None,
    n_rows: int = 0,
    groups: NDArray[np.intp] | None = None,
) -> list[Fold]:
    """Return the folds of points with the class numbers `y` (n,).

    A number of folds is dealt by `deal`; a class of fewer points makes them `fewer`, with a warning, unless it has one
    point only, or that is not asked for. Pairs (train, valid) hold row numbers, or masks; where the points are only
    some `rows` (n,) of a table of `n_rows`, they are those of the table, and the rows that are gone are left out. A
    splitter of scikit-learn is shown `X`, the `classes` of the points and their `groups`. Points of a group, given by
    its number for each, (n,), are held out together.

    >>> folds = make_folds(2, np.array([0, 0, 1, 1]), 0, round_robin_folds)
    >>> [fold.valid.tolist() for fold in folds]
    [[0, 2], [1, 3]]
    >>> make_folds([([0, 1, 2], [-1])], np.array([0, 0, 1, 1]), 0, round_robin_folds)
    Traceback (most recent call last):
    ValueError: cv names row -1, but X has rows 0 to 3
    """
    names = np.arange(int(y.max()) + 1) if classes is None else classes
    if isinstance(cv, Integral):
        count = check_count("cv", cv, low=2)
        if groups is not None:
            number = grouped_folds(y, groups, count, seed)
            _warn_of_whole(y, number, names)
        else:
            if fewer:
                count = _possible(count, y, names)
            else:
                _warn_of_rare(y, names)
            number = deal(y, count, seed)
        numbers = np.unique(number[number >= 0])
        return [Fold(np.flatnonzero(number != f), np.flatnonzero(number == f)) for f in numbers]
    if hasattr(cv, "split") and not isinstance(cv, str):
        folds = _split(cv, np.zeros((len(y), 1)) if X is None else X, names[y], groups)
    elif groups is not None:
        raise ValueError("cv names the rows of each fold, so that groups have no say; leave out one of them")
    else:
        place = np.arange(len(y)) if rows is None else np.full(n_rows, GONE)
        if rows is not None:
            place[rows] = np.arange(len(y))
        folds = [Fold(_points(train, place), _points(valid, place)) for train, valid in _pairs(cv)]
    if not folds:
        _check_several(y)
        raise ValueError(f"cv={cv!r} gives no folds; {WAY_OUT}")
    if any(len(fold.valid) == 0 for fold in folds):
        raise ValueError(f"a fold of cv={cv!r} holds out no point of positive weight; use fewer folds")
    return folds


def stratified_folds(y: NDArray[np.intp], count: int, seed: Any) -> NDArray[np.intp]:
    """Return the fold of each row, (n,), as `StratifiedKFold` shuffles them.

    NOTE: the estimators deal so, stacked densities on their own :func:`round_robin_folds`; published numbers rest on
    either.
    """
    number = np.empty(len(y), dtype=np.intp)
    splitter = StratifiedKFold(count, shuffle=True, random_state=seed)
    for f, (_, valid) in enumerate(splitter.split(np.zeros((len(y), 1)), y)):
        number[valid] = f
    return number


def round_robin_folds(y: NDArray[np.intp], count: int, seed: Any) -> NDArray[np.intp]:
    """Return the fold of each row, (n,): a class is shuffled and dealt in turn, from where the one before it stopped.

    NOTE: see :func:`stratified_folds`; this one also deals a class of a single point.
    """
    shuffled = as_rng(seed).permutation(len(y))
    order = shuffled[np.argsort(y[shuffled], kind="stable")]
    number = np.empty(len(y), dtype=np.intp)
    number[order] = np.arange(len(y)) % count
    return number


def stratified_folds_rare(y: NDArray[np.intp], count: int, seed: Any) -> NDArray[np.intp]:
    """Return the fold of each row, (n,), dealt in turn; -1 for a row that is the only one of its class.

    A class of few rows is held out in as few folds, a single row in none: each fold trains on every class.

    >>> sorted(stratified_folds_rare(np.array([0, 0, 0, 0, 1, 1, 2]), 3, 0).tolist())
    [-1, 0, 0, 1, 1, 2, 2]
    """
    alone = np.bincount(y)[y] == 1
    number = np.full(len(y), -1, dtype=np.intp)
    number[~alone] = round_robin_folds(y[~alone], min(count, int((~alone).sum())), seed)
    return number


def grouped_folds(y: NDArray[np.intp], groups: NDArray[np.intp], count: int, seed: Any) -> NDArray[np.intp]:
    """Return the fold of each row, (n,), the same for all rows of a group; -1 for a group that is never held out.

    Groups of several rows go, the largest first, where their classes are rarest so far; single rows are dealt in turn.
    Without a fold each class must still be there: groups of a class that would be gone stay in training.

    >>> grouped_folds(np.array([0, 0, 0, 0, 1, 1, 2, 2]), np.array([0, 0, 1, 1, 2, 3, 4, 4]), 2, 0).tolist()
    [0, 0, 1, 1, 0, 1, -1, -1]
    """
    _, group, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    if len(sizes) < 2:
        raise ValueError("all rows are in one group, and folds need two; leave the groups out")
    table = np.zeros((len(sizes), int(y.max()) + 1))
    np.add.at(table, (group, y), 1.0)
    table /= table.sum(0)
    several = np.flatnonzero(sizes > 1)
    several = as_rng(seed).permutation(several)
    held, of_group = np.zeros((count, table.shape[1])), np.full(len(sizes), -1, dtype=np.intp)
    for one in several[np.argsort(-sizes[several], kind="stable")]:
        fold = int(((held + table[one]) ** 2 - held**2).sum(1).argmin())
        of_group[one] = fold
        held[fold] += table[one]
    number = of_group[group]
    alone = sizes[group] == 1
    number[alone] = round_robin_folds(y[alone], count, seed)
    return _keep_classes(number, y, group)


def _keep_classes(number: NDArray[np.intp], y: NDArray[np.intp], group: NDArray[np.intp]) -> NDArray[np.intp]:
    """The folds of rows, without those groups whose fold has all of a class."""
    for kind in range(int(y.max()) + 1):
        mine = y == kind
        if len(np.unique(number[mine])) == 1 and number[mine].max() >= 0:
            number = np.where(np.isin(group, group[mine]), -1, number)
    if (number < 0).all():
        raise ValueError("each class is in one group only, so that no group can be held out; leave the groups out")
    return number


def folds_by_size(n: int) -> tuple[int, int | None]:
    """Return into how many folds so many rows are dealt, and how many of these are used (None is all).

    >>> folds_by_size(100), folds_by_size(1_000), folds_by_size(100_000)
    ((6, None), (4, None), (10, 2))
    """
    if n >= MANY_ROWS:
        return 10, 2
    return (6 if n < FEW_ROWS else 4), None


def check_folds(
    folds: Sequence[Fold], cv: Any, y: NDArray[np.intp], classes: NDArray[Any], weight: NDArray[np.float64] | None
) -> None:
    """Raise unless every fold trains on each of the classes, and what it holds out weighs something."""
    if not folds:
        _check_several(y)
    for train, valid in folds:
        missing = np.setdiff1d(np.arange(len(classes)), y[train])
        if len(missing):
            name = classes[missing].tolist()[0]
            raise ValueError(f"a fold of cv={cv!r} has no training point of class {name!r}; use stratified folds")
        if weight is not None and weight[valid].sum() <= 0:
            raise ValueError(f"a fold of cv={cv!r} holds out no point of positive weight; use fewer folds")


def _check_several(y: NDArray[np.intp]) -> None:
    """Raise if no row can be held out from others of its class."""
    if np.bincount(y).max() < 2:
        raise ValueError(
            f"each of {len(y)} rows has a class of its own, so that none can be held out; give more rows of a class, "
            "or merge classes"
        )


def training_rows(train: NDArray[np.intp], y: NDArray[np.intp]) -> NDArray[np.bool_]:
    """Return the rows to train on, (n,), True or False: those given, and all of a class that would have none.

    >>> training_rows(np.array([2]), np.array([0, 1, 1])).tolist()
    [True, False, True]
    """
    mask = np.zeros(len(y), dtype=bool)
    mask[train] = True
    left = np.bincount(y[mask], minlength=int(y.max()) + 1)
    return mask | (left == 0)[y]


def fold_numbers(folds: Sequence[Fold], n: int) -> NDArray[np.intp]:
    """Return the fold that holds out each of `n` rows; raise unless each is held out once."""
    number = np.full(n, -1, dtype=np.intp)
    for f, fold in enumerate(folds):
        number[fold.valid] = f
    if (number < 0).any() or sum(len(fold.valid) for fold in folds) != n:
        raise ValueError("cross_fit=True needs every row in the validation part of one fold of cv, and of one only")
    return number


def _possible(cv: int, y: NDArray[np.intp], classes: NDArray[Any]) -> int:
    """The number of folds, or of the points of the smallest class that has two at least."""
    counts = np.bincount(y)
    several = counts[counts > 1]
    smallest = int(several.min()) if len(several) else 2
    if smallest < cv:
        small = classes[: len(counts)][counts == smallest].tolist()
        why = f"class {small[0]!r} has only {smallest} samples" if small else "no class has 2 samples"
        warn("cv", f"cv={cv} folds, but {why}; using {smallest} folds", UserWarning)
    return min(cv, smallest)


def _warn_of_rare(y: NDArray[np.intp], classes: NDArray[Any]) -> None:
    """Say which classes have a single row, or two."""
    counts = np.bincount(y)
    what = {
        1: "a single row{more}: it is trained on, but never held out, so no score counts it",
        2: "two rows{more}: each is held out from networks that know the other alone, so its score is a guess",
    }
    told = []
    for count, sentence in what.items():
        names = classes[: len(counts)][counts == count].tolist()
        more = f" (and so for {len(names) - 1} more)" if len(names) > 1 else ""
        told += [f"class {names[0]!r} has " + sentence.format(more=more)] if names else []
    if told:
        warn("rare", "; ".join(told), UserWarning)


def _warn_of_whole(y: NDArray[np.intp], number: NDArray[np.intp], classes: NDArray[Any]) -> None:
    """Say which classes have no row that is held out."""
    gone = np.bincount(y[number >= 0], minlength=int(y.max()) + 1) == 0
    names = classes[: len(gone)][gone].tolist()
    if names:
        more = f" (and so for {len(names) - 1} more)" if len(names) > 1 else ""
        message = f"class {names[0]!r} has too few groups{more}: it is trained on, but never held out"
        warn("rare", message, UserWarning)


def _split(cv: Any, X: Any, labels: NDArray[Any], groups: NDArray[np.intp] | None) -> list[Fold]:
    """The folds of a splitter of scikit-learn."""
    given = (X, labels) if groups is None else (X, labels, groups)
    try:
        return [Fold(np.asarray(train), np.asarray(valid)) for train, valid in cv.split(*given)]
    except ValueError as error:
        raise ValueError(f"cv={cv!r} could not split the rows: {error}; {WAY_OUT}") from error


def _pairs(cv: Any) -> list[tuple[Any, Any]]:
    """The pairs that are given."""
    if isinstance(cv, str) or not hasattr(cv, "__iter__"):
        raise ValueError(f"cv={cv!r} is not known; {WAY_OUT}")
    pairs = [tuple(pair) if np.iterable(pair) else (pair,) for pair in cv]
    if any(len(pair) != 2 for pair in pairs):
        raise ValueError(f"cv has a fold that is no pair (train, valid); {WAY_OUT}")
    return [(train, valid) for train, valid in pairs]


def _points(given: Any, place: NDArray[np.intp]) -> NDArray[np.intp]:
    """The numbers of the points that are the given rows of a table; those that are gone are left out."""
    rows = as_numpy(given)
    if rows.ndim != 1 or (len(rows) and rows.dtype.kind not in "biu"):
        raise ValueError(f"cv names the rows {given!r}; they must be whole numbers, or a mask of True and False")
    if rows.dtype == bool:
        if len(rows) != len(place):
            raise ValueError(f"cv has a mask of {len(rows)} rows, but X has {len(place)}")
        rows = np.flatnonzero(rows)
    outside = rows[(rows < 0) | (rows >= len(place))]
    if len(outside):
        raise ValueError(f"cv names row {outside[0]}, but X has rows 0 to {len(place) - 1}")
    found = place[rows.astype(np.intp)]
    return found[found != GONE]
