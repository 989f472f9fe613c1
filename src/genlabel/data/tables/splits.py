"""Splits of a table: stratified, with groups on one side, or by time; all cut before the first fit."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from sklearn.model_selection import StratifiedShuffleSplit

from genlabel._validation import check_count, check_interval
from genlabel.data.tables.table import FEWEST_ROWS, Table

Split = tuple[NDArray[np.int64], NDArray[np.int64]]
"""Rows of training and rows of test."""


def make_splits(table: Table, repeats: int, test_size: float, seed: int) -> list[Split]:
    """Cut all splits before the first fit, so that a class that is too small is told at once.

    The rows are drawn at random, the classes with their shares. If the table has groups, all rows of one are on the
    same side. If it has times, the latest rows are cut into `repeats` stretches, and each is predicted from all rows
    before it, but for those of its groups; where many times are equal there are fewer splits. The first random splits
    of many are those of few.

    Parameters
    ----------
    table : Table
    repeats : int
    test_size : float
        Share of the rows held out: in each split, or, by time, in all of them together.
    seed : int

    Examples
    --------
    >>> table = Table("t", pd.DataFrame({"x": range(20)}), pd.Series(list("ab" * 10)))
    >>> [len(test) for train, test in make_splits(table, repeats=2, test_size=0.3, seed=0)]
    [6, 6]
    """
    check_count("repeats", repeats)
    check_count("seed", seed, low=0)
    share = check_interval("test_size", test_size, 0.01, 0.99, "0.3 holds out three rows in ten")
    _check_classes(table)
    if table.time is not None:
        return _by_time(table, repeats, share)
    splits = _stratified(table, repeats, share, seed) if table.groups is None else _grouped(table, repeats, share, seed)
    _check_training(table, splits, test_size)
    return splits


def describe_splits(table: Table) -> str:
    """Say in words how a table is split.

    >>> describe_splits(Table("t", pd.DataFrame(), pd.Series(dtype=str)))
    'stratified splits'
    """
    way = "stratified splits" if table.time is None else "splits by time, earlier rows predict later ones"
    return way if table.groups is None else f"{way}, groups on one side"


def merge_groups(*parts: pd.Series[Any]) -> pd.Series[Any]:
    """Return the number of a group for each row: rows that are together in any of the parts are together.

    >>> merge_groups(pd.Series([0, 0, 1, 2]), pd.Series(["u", "v", "v", "w"])).tolist()
    [0, 0, 0, 1]
    """
    n = len(parts[0])
    rows, ends, start = [], [], n
    for part in parts:
        codes = pd.factorize(part, use_na_sentinel=False)[0]
        rows.append(np.arange(n))
        ends.append(codes + start)
        start += int(codes.max(initial=-1)) + 1
    edges = np.concatenate(rows), np.concatenate(ends)
    graph = coo_array((np.ones(len(edges[0])), edges), shape=(start, start))
    labels = connected_components(graph, directed=False)[1][:n]
    return pd.Series(pd.factorize(labels)[0], index=parts[0].index)


def _check_classes(table: Table) -> None:
    counts = table.y.value_counts()
    if len(counts) < 2:
        raise ValueError(f"{table.name!r} has one class only, {counts.index[0]!r}; two are needed to compare methods")
    rare = counts[counts < FEWEST_ROWS]
    if len(rare):
        named = ", ".join(f"{name!r} ({count})" for name, count in rare.iloc[:5].items())
        raise ValueError(
            f"{named}{', ...' * (len(rare) > 5)}: each class needs {FEWEST_ROWS} rows, and {len(rare)} of "
            f"{len(counts)} have fewer; merge them, or drop them with drop_rare(table), on the command line --drop-rare"
        )


def _check_training(table: Table, splits: list[Split], test_size: float) -> None:
    """Raise unless every class has two rows to train on in every split."""
    counts = table.y.value_counts()
    fewest = min(int(table.y.iloc[train].value_counts().reindex(counts.index).fillna(0).min()) for train, _ in splits)
    if fewest < 2:
        raise ValueError(
            f"test_size={test_size!r} leaves {fewest} rows of a class to train on, and 2 are needed; the smallest "
            f"class, {counts.index[-1]!r}, has {counts.iloc[-1]} rows: lower test_size"
        )


def _stratified(table: Table, repeats: int, share: float, seed: int) -> list[Split]:
    cutter = StratifiedShuffleSplit(repeats, test_size=share, random_state=seed)
    try:
        return [(train, test) for train, test in cutter.split(table.X, table.y)]
    except ValueError as error:
        raise ValueError(f"test_size={share!r} does not suit {len(table.y)} rows: {error}") from error


# Groups


def _grouped(table: Table, repeats: int, share: float, seed: int) -> list[Split]:
    """Each split takes groups in random order; see `_draw_groups`."""
    assert table.groups is not None
    groups = pd.factorize(table.groups)[0]
    y = pd.factorize(table.y)[0]
    sizes = np.zeros((groups.max() + 1, y.max() + 1))
    np.add.at(sizes, (groups, y), 1)
    if len(sizes) < 2:
        raise ValueError(f"all rows of {table.name!r} are in one group; a split needs two: leave the groups out")
    splits = []
    for split in range(repeats):
        held = _draw_groups(sizes, share, np.random.default_rng([seed, split]))
        splits.append((np.flatnonzero(~held[groups]), np.flatnonzero(held[groups])))
    if any(len(train) == 0 or len(test) == 0 for train, test in splits):
        raise ValueError(
            f"test_size={share!r} does not suit the {len(sizes)} groups of {table.name!r}: a side would be empty; "
            "change test_size, or use finer groups"
        )
    return splits


def _draw_groups(sizes: NDArray[np.float64], share: float, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Which groups are held out, (g,), so that the counts of the classes, sizes (g, k), are near their shares.

    Groups of several rows come first, and have a share of their own, so that they are on either side as often as
    single rows are. A group is held out if that brings the counts, and all rows together,
    nearer to the shares.
    """
    held = np.zeros(len(sizes), dtype=bool)
    several = sizes.sum(1) > 1
    wanted = share * sizes[several].sum(0)
    for group in rng.permutation(np.flatnonzero(several)):
        after = wanted - sizes[group]
        if (after**2).sum() + after.sum() ** 2 < (wanted**2).sum() + wanted.sum() ** 2:
            held[group], wanted = True, after
    wanted = wanted + share * sizes[~several].sum(0)
    alone = rng.permutation(np.flatnonzero(~several))
    for kind in range(sizes.shape[1]):
        mine = alone[sizes[alone, kind] > 0]
        held[mine[: max(int(np.round(wanted[kind])), 0)]] = True
    return held


# Time


def _by_time(table: Table, repeats: int, share: float) -> list[Split]:
    """Stretches of the latest rows, each to be predicted from the rows before it."""
    assert table.time is not None
    time = table.time.to_numpy(dtype=np.float64)
    order = np.argsort(time, kind="stable")
    ends = np.linspace((1 - share) * len(time), len(time), repeats + 1).round().astype(int)
    cuts = np.unique([np.searchsorted(time[order], time[order[min(end, len(time) - 1)]]) for end in ends[:-1]])
    bounds = [int(cut) for cut in cuts if cut > 0] + [len(time)]
    stretches = pairwise(bounds)
    splits = [
        _known_only(table, order[:low].astype(np.int64), order[low:high].astype(np.int64)) for low, high in stretches
    ]
    splits = [(train, test) for train, test in splits if len(test) and table.y.iloc[train].nunique() > 1]
    if not splits:
        raise ValueError(
            f"the times of {table.name!r} leave no earlier rows of two classes to train on; lower test_size={share!r}, "
            "or leave the time out"
        )
    return splits


def _known_only(table: Table, train: NDArray[np.int64], test: NDArray[np.int64]) -> Split:
    """Leave out earlier rows of the groups of the stretch, of classes with one row, and later rows of other classes."""
    if table.groups is not None:
        train = train[~table.groups.iloc[train].isin(table.groups.iloc[test]).to_numpy()]
    counts = table.y.iloc[train].value_counts()
    known = counts.index[counts > 1]
    return train[table.y.iloc[train].isin(known).to_numpy()], test[table.y.iloc[test].isin(known).to_numpy()]
