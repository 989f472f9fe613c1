"""Folds of a cross-validation: stratified, grouped, or given as rows, masks or a splitter."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedKFold

from genlabel._arrays import as_numpy, as_rng
from genlabel._text import count_of
from genlabel._validation import check_count, warn

HINT = "give a number of folds, a splitter, or pairs (train, valid) of row indices"
MISSING = -1
"""Index of a row that was dropped, because its weight is 0."""


class Fold(NamedTuple):
    """Indices of the training rows and of the validation rows of a fold."""

    train: NDArray[np.intp]
    valid: NDArray[np.intp]


def make_folds(
    cv: Any,
    y: NDArray[np.intp],
    seed: Any,
    method: Literal["round_robin", "stratified", "rare"] = "round_robin",
    *,
    classes: NDArray[Any] | None = None,
    X: Any = None,
    rows: NDArray[np.intp] | None = None,
    n_rows: int = 0,
    groups: NDArray[np.intp] | None = None,
) -> list[Fold]:
    """Return the folds of rows with class indices `y` (n,); at least one.

    Parameters
    ----------
    cv : int, splitter or iterable of pairs (train, valid)
        Pairs hold row indices, or masks.
    method : str
        Rule where `cv` is a number of folds: "round_robin" is :func:`round_robin_folds`, "stratified" is scikit-learn's
        `StratifiedKFold`. Both use fewer folds, with a warning, if a class has fewer rows, but at least two. "rare" is
        :func:`stratified_folds_rare`, which always uses `cv` folds.
    classes : array (k,), optional
        Labels of the classes.
    X : array, optional
        Features, for a splitter.
    rows, n_rows : array (n,), int
        If `y` has only some `rows` of a table of `n_rows`, the pairs of `cv` index the table; indices of other rows are
        ignored.
    groups : array (n,), optional
        Group numbers; the rows of a group are held out together.

    Examples
    --------
    >>> folds = make_folds(2, np.array([0, 0, 1, 1]), 0)
    >>> [fold.valid.tolist() for fold in folds]
    [[0, 2], [1, 3]]
    """
    labels = np.arange(int(y.max()) + 1) if classes is None else classes
    if isinstance(cv, Integral):
        fold_of_row = _assign_folds(check_count("cv", cv, low=2), y, seed, method, labels, groups)
        numbers = np.unique(fold_of_row[fold_of_row >= 0])
        folds = [Fold(np.flatnonzero(fold_of_row != i), np.flatnonzero(fold_of_row == i)) for i in numbers]
    elif hasattr(cv, "split") and not isinstance(cv, str):
        arguments = (np.zeros((len(y), 1)) if X is None else X, labels[y], *([] if groups is None else [groups]))
        try:
            folds = [Fold(np.asarray(train), np.asarray(valid)) for train, valid in cv.split(*arguments)]
        except ValueError as error:
            raise ValueError(f"cv={cv!r} could not split the rows: {error}; {HINT}") from error
    elif groups is not None:
        raise ValueError("cv names the rows of each fold, so groups have no effect; leave out one of them")
    elif isinstance(cv, str) or not hasattr(cv, "__iter__"):
        raise ValueError(f"cv={cv!r} is not known; {HINT}")
    else:
        index = np.full(len(y) if rows is None else n_rows, MISSING)
        index[slice(None) if rows is None else rows] = np.arange(len(y))
        pairs = [tuple(pair) if np.iterable(pair) else (pair,) for pair in cv]
        if any(len(pair) != 2 for pair in pairs):
            raise ValueError(f"cv has a fold that is not a pair (train, valid); {HINT}")
        folds = [Fold(_row_indices(train, index), _row_indices(valid, index)) for train, valid in pairs]
    if not folds and np.bincount(y).max() < 2:
        raise ValueError(
            f"each of the {len(y)} rows has a class of its own, so none can be held out; give more rows of a class, or "
            "merge classes"
        )
    if not folds:
        raise ValueError(f"cv={cv!r} gives no folds; {HINT}")
    if any(len(fold.valid) == 0 for fold in folds):
        raise ValueError(f"a fold of cv={cv!r} holds out no row; use fewer folds")
    return folds


def _assign_folds(
    count: int, y: NDArray[np.intp], seed: Any, method: str, classes: NDArray[Any], groups: NDArray[np.intp] | None
) -> NDArray[np.intp]:
    """Return the fold of each row, (n,), -1 for a row that is never held out, with warnings about rare classes."""
    sizes = np.bincount(y)
    if groups is not None:
        fold_of_row = grouped_folds(y, groups, count, seed)
        never_held_out = np.bincount(y[fold_of_row >= 0], minlength=len(sizes)) == 0
        problems = [(never_held_out, "too few groups", "used for training only, no score counts them")]
    elif method != "rare":
        return _stratified_folds(y, count, seed, method, classes)
    else:
        fold_of_row = stratified_folds_rare(y, count, seed)
        problems = [
            (sizes == 1, "a single row", "used for training only, no score counts it"),
            (sizes == 2, "two rows", "too few for a score to be trusted"),
        ]
    messages = []
    for is_rare, number_of_rows, consequence in problems:
        names = [repr(name) for name in classes[: len(sizes)][is_rare].tolist()]
        if len(names) == 1:
            messages.append(f"class {names[0]} has {number_of_rows}: {consequence}")
        elif names:
            others = names[1] if len(names) == 2 else f"{len(names) - 1} others"
            messages.append(f"classes {names[0]} and {others} have {number_of_rows} each: {consequence}")
    if messages:
        warn("rare", "; ".join(messages), UserWarning)
    return fold_of_row


def _stratified_folds(
    y: NDArray[np.intp], count: int, seed: Any, method: str, classes: NDArray[Any]
) -> NDArray[np.intp]:
    """Return the fold of each row, (n,), with fewer folds, and a warning, if a class of several rows has fewer rows."""
    sizes = np.bincount(y)
    smallest = int(sizes[sizes > 1].min()) if sizes.max() > 1 else 2
    if smallest < count:
        names = classes[: len(sizes)][sizes == smallest].tolist()
        reason = f"class {names[0]!r} has only {count_of(smallest, 'sample')}" if names else "no class has 2 samples"
        warn("cv", f"cv={count} folds, but {reason}; using {smallest} folds", UserWarning)
        count = smallest
    if method == "round_robin":
        return round_robin_folds(y, count, seed)
    # NOTE: the paper's setting uses these folds, all others round_robin_folds; published results rest on both.
    fold_of_row = np.empty(len(y), dtype=np.intp)
    for number, (_, valid) in enumerate(StratifiedKFold(count, shuffle=True, random_state=seed).split(y, y)):
        fold_of_row[valid] = number
    return fold_of_row


def round_robin_folds(y: NDArray[np.intp], count: int, seed: Any) -> NDArray[np.intp]:
    """Return the fold of each row, (n,): the rows, sorted by class and shuffled within it, go to the folds in turn.

    It is ours because, unlike `StratifiedKFold`, it also accepts a class with a single row.
    """
    shuffled = as_rng(seed).permutation(len(y))
    order = shuffled[np.argsort(y[shuffled], kind="stable")]
    fold_of_row = np.empty(len(y), dtype=np.intp)
    fold_of_row[order] = np.arange(len(y)) % count
    return fold_of_row


def stratified_folds_rare(y: NDArray[np.intp], count: int, seed: Any) -> NDArray[np.intp]:
    """Return the fold of each row, (n,), in turn; -1 for a row that is the only one of its class.

    A class with fewer rows than folds is held out in as many folds as it has rows, a single row in none: every fold
    trains on every class.
    """
    single = np.bincount(y)[y] == 1
    fold_of_row = np.full(len(y), -1, dtype=np.intp)
    fold_of_row[~single] = round_robin_folds(y[~single], min(count, int((~single).sum())), seed)
    return fold_of_row


def grouped_folds(y: NDArray[np.intp], groups: NDArray[np.intp], count: int, seed: Any) -> NDArray[np.intp]:
    """Return the fold of each row, (n,), the same for all rows of a group; -1 for a group that is never held out.

    Groups of several rows, the largest first, go to the fold where their classes are rarest; groups of one row take
    folds in turn. A class of which one fold holds out all rows would be missing in training, so its groups are never
    held out: `StratifiedGroupKFold` has no such rule.

    >>> grouped_folds(np.array([0, 0, 0, 0, 1, 1, 2, 2]), np.array([0, 0, 1, 1, 2, 3, 4, 4]), 2, 0).tolist()
    [0, 0, 1, 1, 0, 1, -1, -1]
    """
    _, group, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    if len(sizes) < 2:
        raise ValueError("all rows are in one group, but folds need two; leave the groups out")
    class_shares = np.zeros((len(sizes), int(y.max()) + 1))  # share of each class that is in each group
    np.add.at(class_shares, (group, y), 1.0)
    class_shares /= class_shares.sum(0)
    shuffled = as_rng(seed).permutation(np.flatnonzero(sizes > 1))
    held_out = np.zeros((count, class_shares.shape[1]))
    fold_of_group = np.full(len(sizes), -1, dtype=np.intp)
    for g in shuffled[np.argsort(-sizes[shuffled], kind="stable")]:
        fold = int(((held_out + class_shares[g]) ** 2 - held_out**2).sum(1).argmin())
        fold_of_group[g] = fold
        held_out[fold] += class_shares[g]
    fold_of_row = fold_of_group[group]
    single = sizes[group] == 1
    fold_of_row[single] = round_robin_folds(y[single], count, seed)
    for c in range(int(y.max()) + 1):
        of_class = y == c
        if len(np.unique(fold_of_row[of_class])) == 1 and fold_of_row[of_class].max() >= 0:
            fold_of_row = np.where(np.isin(group, group[of_class]), -1, fold_of_row)
    if (fold_of_row < 0).all():
        raise ValueError("each class is in one group only, so no group can be held out; leave the groups out")
    return fold_of_row


def folds_by_size(n: int) -> tuple[int, int | None]:
    """Return the number of folds for `n` rows, and how many of the folds are used (None for all).

    >>> folds_by_size(100), folds_by_size(1_000), folds_by_size(100_000)
    ((6, None), (4, None), (10, 2))
    """
    if n >= 20_000:
        return 10, 2
    return (6 if n < 600 else 4), None


def check_folds(
    folds: Sequence[Fold], cv: Any, y: NDArray[np.intp], classes: NDArray[Any], weight: NDArray[np.float64] | None
) -> None:
    """Raise unless every fold trains on every class and holds out rows of positive weight."""
    for train, valid in folds:
        missing = np.setdiff1d(np.arange(len(classes)), y[train])
        if len(missing):
            name = classes[missing].tolist()[0]
            raise ValueError(f"a fold of cv={cv!r} has no training row of class {name!r}; use stratified folds")
        if weight is not None and weight[valid].sum() <= 0:
            raise ValueError(f"a fold of cv={cv!r} holds out no row of positive weight; use fewer folds")


def training_rows(train: NDArray[np.intp], y: NDArray[np.intp]) -> NDArray[np.bool_]:
    """Return a mask (n,) of the rows to train on: `train`, and all rows of a class that has none in it.

    >>> training_rows(np.array([2]), np.array([0, 1, 1])).tolist()
    [True, False, True]
    """
    mask = np.zeros(len(y), dtype=bool)
    mask[train] = True
    counts = np.bincount(y[mask], minlength=int(y.max()) + 1)
    return mask | (counts == 0)[y]


def fold_numbers(folds: Sequence[Fold], n: int) -> NDArray[np.intp]:
    """Return the fold that holds out each of `n` rows; raise unless each is held out once."""
    fold_of_row = np.full(n, -1, dtype=np.intp)
    for number, fold in enumerate(folds):
        fold_of_row[fold.valid] = number
    if (fold_of_row < 0).any() or sum(len(fold.valid) for fold in folds) != n:
        raise ValueError("cross_fit=True needs every row in the validation part of exactly one fold of cv")
    return fold_of_row


def _row_indices(rows_or_mask: Any, index: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return the `index` of rows of a table, given by row numbers or a mask, without rows that were dropped."""
    rows = as_numpy(rows_or_mask)
    if rows.ndim != 1 or (len(rows) and rows.dtype.kind not in "biu"):
        raise ValueError(f"cv names the rows {rows_or_mask!r}; they must be whole numbers, or a mask of True and False")
    if rows.dtype == bool:
        if len(rows) != len(index):
            raise ValueError(f"cv has a mask of {len(rows)} rows, but X has {len(index)}")
        rows = np.flatnonzero(rows)
    outside = rows[(rows < 0) | (rows >= len(index))]
    if len(outside):
        raise ValueError(f"cv names row {outside[0]}, but X has rows 0 to {len(index) - 1}")
    result = index[rows.astype(np.intp)]
    return result[result != MISSING]
