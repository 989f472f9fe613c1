"""Splits of a table into training and test rows: stratified, with groups on one side, or by time."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from sklearn.model_selection import StratifiedShuffleSplit

from genlabel._text import count_of
from genlabel._validation import check_count, check_interval
from genlabel.data.tables.table import MIN_CLASS_ROWS, Table, select_rows

Split = tuple[NDArray[np.int64], NDArray[np.int64]]
"""Indices of the training rows and of the test rows."""


def make_splits(table: Table, n_splits: int, test_size: float, seed: int) -> list[Split]:
    """Return repeated splits of a table.

    The rows are drawn at random, stratified by class. The rows of a class with fewer than 4 are never held out; they
    are used for training unless they belong to a held-out group or are not earlier than the held-out rows. If the table
    has groups, all rows of a group are on the same side. If it has times, the latest rows are cut into `n_splits`
    intervals, fewer where many times are equal; each interval is predicted from all rows before it, except those of its
    groups. The first random splits do not depend on `n_splits`.

    Parameters
    ----------
    table : Table
    n_splits : int
    test_size : float
        Share of the rows held out: in each split, or, by time, in all of them together.
    seed : int

    Examples
    --------
    >>> table = Table("t", pd.DataFrame({"x": range(20)}), pd.Series(list("ab" * 10)))
    >>> [len(test) for train, test in make_splits(table, n_splits=2, test_size=0.3, seed=0)]
    [6, 6]
    """
    check_count("n_splits", n_splits)
    check_count("seed", seed, low=0)
    share = check_interval("test_size", test_size, 0.01, 0.99, "0.3 holds out three rows in ten")
    counts = table.y.value_counts()
    n_frequent = int((counts >= MIN_CLASS_ROWS).sum())
    if n_frequent < 2:
        raise ValueError(
            f"{table.name!r} has {count_of(n_frequent, 'class')} of at least {MIN_CLASS_ROWS} rows, and two are needed "
            "to hold rows out; add rows"
        )
    if n_frequent < len(counts):
        return _split_frequent_classes(table, n_splits, share, seed)
    if table.time is not None:
        return _split_by_time(table, n_splits, share)
    if table.groups is not None:
        splits = _split_groups(table, n_splits, share, seed)
    else:
        splitter = StratifiedShuffleSplit(n_splits, test_size=share, random_state=seed)
        try:
            splits = list(splitter.split(table.X, table.y))
        except ValueError as error:
            raise ValueError(
                f"test_size={share!r} of {len(table.y)} rows leaves one side with too few for all classes; change it"
            ) from error
    fewest = min(int(table.y.iloc[train].value_counts().reindex(counts.index).fillna(0).min()) for train, _ in splits)
    if fewest < 2:
        raise ValueError(
            f"test_size={test_size!r} leaves {count_of(fewest, 'row')} of a class to train on, and 2 are needed; the "
            f"smallest class, {counts.index[-1]!r}, has {count_of(int(counts.iloc[-1]), 'row')}: lower test_size"
        )
    return splits


def describe_splits(table: Table) -> str:
    """Return a description of how a table is split."""
    kind = "stratified splits" if table.time is None else "splits by time, earlier rows predict later ones"
    return kind if table.groups is None else f"{kind}, groups on one side"


def merge_groups(*groupings: pd.Series[Any]) -> pd.Series[Any]:
    """Return the group index of each row, where rows that share a group in any of the groupings are in one group.

    >>> merge_groups(pd.Series([0, 0, 1, 2]), pd.Series(["u", "v", "v", "w"])).tolist()
    [0, 0, 0, 1]
    """
    n = len(groupings[0])
    n_nodes = n * (1 + len(groupings))  # a node for each row, and n for the groups of each grouping
    group_nodes = [n * i + pd.factorize(grouping, use_na_sentinel=False)[0] for i, grouping in enumerate(groupings, 1)]
    edges = np.tile(np.arange(n), len(groupings)), np.concatenate(group_nodes)
    graph = coo_array((np.ones(len(edges[0])), edges), shape=(n_nodes, n_nodes))
    labels = connected_components(graph, directed=False)[1][:n]
    return pd.Series(pd.factorize(labels)[0], index=groupings[0].index)


def _split_frequent_classes(table: Table, n_splits: int, share: float, seed: int) -> list[Split]:
    """Split the rows of the classes with enough rows, and add the other rows to the training rows where they may be."""
    frequent = (table.y.map(table.y.value_counts()) >= MIN_CLASS_ROWS).to_numpy()
    rows, rare_rows = np.flatnonzero(frequent), np.flatnonzero(~frequent)
    splits = []
    for train, test in make_splits(select_rows(table, frequent), n_splits, share, seed):
        rare, held_out = rare_rows, rows[test]
        if table.groups is not None:
            rare = rare[~table.groups.iloc[rare].isin(table.groups.iloc[held_out]).to_numpy()]
        if table.time is not None:
            rare = rare[(table.time.iloc[rare] < table.time.iloc[held_out].min()).to_numpy()]
        splits.append((np.sort(np.concatenate([rows[train], rare])), held_out))
    return splits


def _split_groups(table: Table, n_splits: int, share: float, seed: int) -> list[Split]:
    """Hold out whole groups in random order; see `_draw_groups`."""
    assert table.groups is not None
    groups = pd.factorize(table.groups)[0]
    y = pd.factorize(table.y)[0]
    sizes = np.zeros((groups.max() + 1, y.max() + 1))
    np.add.at(sizes, (groups, y), 1)
    if len(sizes) < 2:
        raise ValueError(f"all rows of {table.name!r} are in one group; a split needs two: leave the groups out")
    splits = []
    for split in range(n_splits):
        test = _draw_groups(sizes, share, np.random.default_rng([seed, split]))
        splits.append((np.flatnonzero(~test[groups]), np.flatnonzero(test[groups])))
    if any(len(train) == 0 or len(test) == 0 for train, test in splits):
        raise ValueError(
            f"test_size={share!r} does not suit the {count_of(len(sizes), 'group')} of {table.name!r}: a side would be "
            "empty; change test_size, or use finer groups"
        )
    return splits


def _draw_groups(sizes: NDArray[np.float64], share: float, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Return a mask of the groups (g,) to hold out, so that about `share` of the rows of each class are held out.

    `sizes` (g, k) are the rows of each class in each group. Groups of several rows are drawn first, towards `share` of
    their own rows, so that they are held out as often as single rows are. A group is held out if that brings the class
    counts, and the total count, closer to the target.
    """
    held_out = np.zeros(len(sizes), dtype=bool)
    is_multi_row = sizes.sum(1) > 1
    missing = share * sizes[is_multi_row].sum(0)  # rows of each class still to be held out
    for group in rng.permutation(np.flatnonzero(is_multi_row)):
        after = missing - sizes[group]
        if (after**2).sum() + after.sum() ** 2 < (missing**2).sum() + missing.sum() ** 2:
            held_out[group] = True
            missing = after
    missing = missing + share * sizes[~is_multi_row].sum(0)
    single = rng.permutation(np.flatnonzero(~is_multi_row))
    for c in range(sizes.shape[1]):
        of_class = single[sizes[single, c] > 0]
        held_out[of_class[: max(int(np.round(missing[c])), 0)]] = True
    return held_out


def _split_by_time(table: Table, n_splits: int, share: float) -> list[Split]:
    """Cut the latest rows into intervals, each to be predicted from the rows before it.

    A split trains on no row of a test group, and uses only classes with at least two training rows.
    """
    assert table.time is not None
    time = table.time.to_numpy(dtype=np.float64)
    order = np.argsort(time, kind="stable")
    starts = np.linspace((1 - share) * len(time), len(time), n_splits + 1).round().astype(int)[:-1]
    start_times = [time[order[min(start, len(time) - 1)]] for start in starts]
    cuts = np.unique(np.searchsorted(time[order], start_times))  # equal times stay on one side
    bounds = [int(cut) for cut in cuts if cut > 0] + [len(time)]
    splits = []
    for low, high in pairwise(bounds):
        train, test = order[:low], order[low:high]
        if table.groups is not None:
            train = train[~table.groups.iloc[train].isin(table.groups.iloc[test]).to_numpy()]
        counts = table.y.iloc[train].value_counts()
        known = counts.index[counts > 1]
        train, test = (rows[table.y.iloc[rows].isin(known).to_numpy()] for rows in (train, test))
        if len(test) and len(known) > 1:
            splits.append((train, test))
    if not splits:
        raise ValueError(
            f"the times of {table.name!r} leave no earlier rows of two classes to train on; lower test_size "
            f"({share!r}), or leave the time out"
        )
    return splits
