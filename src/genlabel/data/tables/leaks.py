"""Leaks: columns and rows that would tell the class of a held-out row in a way that no new row will."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.tree import DecisionTreeClassifier

from genlabel.data.tables.columns import MANY, as_numbers, as_text, kind_of
from genlabel.data.tables.splits import merge_groups
from genlabel.data.tables.table import Table

FEW = 20
"""Rows below which numbers may follow one another by chance."""
DISTINCT = 0.9
"""Share of distinct values from which whole numbers may be those of rows."""
DENSE = 1.2
"""How much wider than the count of its values the range of such numbers may be."""
DIFFERENT = 0.1
"""Share of equal rows with another class from which they are no copies."""
FEW_DIFFERENT = 5
"""Such rows that may be errors of labels."""
RANKS = 3
"""Columns without gaps, otherwise unremarkable, that are ranks and not numbers of rows."""
SURE = 0.995
"""Mean share of each class that a column alone must tell."""
FEW_ROWS = 10
"""Rows of each class below which a quantity may tell them all apart by luck; codes of the class may not."""
CODES = 2
"""Distinct values for each class of what may be codes of it."""
SAMPLE = 2000
"""Rows that are looked at for that."""
NUMBERS = "its whole numbers number the rows"
NUMBERING = re.compile(r"(^|[\s_.-])(id|ids|uid|guid|uuid|key|index|idx|row|nr|no|num|number)$|[a-z](Id|ID|Key|No|Nr)$")
NAMING = re.compile(r"(^|[\s_.-])(id|ids|uid|guid|uuid)$|[a-z](Id|ID)$")


@final
@dataclass(frozen=True)
class Leak:
    """A column that would tell too much.

    `find_leaks` returns a list of them.
    """

    column: str
    """The feature."""
    why: str
    leaves: bool = True
    """Whether it is left out unless it is kept on purpose."""


def drop_leaks(table: Table, force_include: Iterable[str] = ()) -> Table:
    """Return the table without columns that leak, and with equal rows in one group; notes tell what was done.

    Parameters
    ----------
    table : Table
    force_include : iterable of str
        Features, or columns of the file, that stay whatever they look like.

    Examples
    --------
    >>> X = pd.DataFrame({"customer": range(1, 41), "size": np.random.default_rng(0).normal(size=40)})
    >>> guarded = drop_leaks(Table("t", X, pd.Series(list("ab" * 20))))
    >>> list(guarded.X.columns)
    ['size']
    >>> guarded.notes
    ["left out column 'customer': its whole numbers number the rows (--force-include 'customer' uses it)"]
    """
    kept = _features_of(table, force_include)
    leaks = find_leaks(table)
    out = [leak.column for leak in leaks if leak.leaves and leak.column not in kept]
    stays = [str(name) not in out for name in table.X.columns]
    spared = not any(stays)
    notes = [_tell(leak, leak.column in kept, spared) for leak in leaks]
    X = table.X if spared else table.X.loc[:, stays]
    return group_duplicates(replace(table, X=X, notes=[*table.notes, *notes, *_runs(table)]))


def find_leaks(table: Table) -> list[Leak]:
    """Find the columns that number or name rows, follow their order, or alone give the class.

    Numbers of rows are whole, nearly all distinct, and either without gaps, in the order of the rows, or called so
    ("id", "key", ...). A column alone gives the class if a tree that sees nothing else predicts at least 99.5 % of the
    rows of every class on average, in three folds.

    Examples
    --------
    >>> X = pd.DataFrame({"u": [0.1, 0.7, 0.4, 0.9, 0.2] * 8, "code": ["x", "y"] * 20})
    >>> [(leak.column, leak.why) for leak in find_leaks(Table("t", X, pd.Series(["no", "yes"] * 20)))]
    [('code', 'it alone gives the class of 100.0 % of the rows')]
    """
    table = replace(table, X=table.X.rename(columns=str))
    named = [_number_leak(table, name) or _order_leak(table, name) for name in table.X.columns]
    dense = [name for name in table.X.columns if _is_dense(table.X[name])]
    named += [Leak(name, NUMBERS + _when(table, name)) for name in dense if len(dense) < RANKS]
    found = {leak.column: leak for leak in named if leak is not None}
    rows = _sample(table.y)
    for name in table.X.columns:
        if name in found and found[name].leaves:
            continue
        sure = _tells_alone(table.X[name].iloc[rows], table.y.iloc[rows])
        if sure >= SURE:
            found[name] = Leak(name, f"it alone gives the class of {100 * sure:.1f} % of the rows")
    return [found[name] for name in table.X.columns if name in found]


def group_duplicates(table: Table) -> Table:
    """Return the table with rows of equal features in one group, unless they are no copies.

    A table of a few yes and no has equal rows that are no copies: if more than one in ten of them, and more than five,
    have another class than the first of their kind, or if half as many are equal when each column is shuffled within
    the classes.

    >>> X = pd.DataFrame({"x": [1.5, 1.5, 2.5, 3.5], "z": [7.1, 7.1, 8.1, 9.1]})
    >>> table = Table("t", X, pd.Series(list("abab")))
    >>> group_duplicates(table).groups.tolist()
    [0, 0, 1, 2]
    """
    hashes = _hash_rows(table.X)
    again = len(hashes) - hashes.nunique()
    if not again:
        return table
    same = f"rows that equal an earlier row: {again}"
    differ = int((table.y != table.y.groupby(hashes.to_numpy()).transform("first")).sum())
    if differ > max(DIFFERENT * again, FEW_DIFFERENT):
        note = f"{same}; {differ} of them have another class, so that they are no copies, and are split like any other"
        return replace(table, notes=[*table.notes, note])
    chance = len(hashes) - _hash_rows(_shuffled(table)).nunique()
    if 2 * chance >= again:
        note = f"{same}; so few values give {chance} by chance, so that they are split like any other"
        return replace(table, notes=[*table.notes, note])
    groups = merge_groups(hashes) if table.groups is None else merge_groups(hashes, table.groups)
    note = f"{same}; equal rows stay on one side of every split"
    return replace(table, groups=groups, notes=[*table.notes, note])


def _features_of(table: Table, names: Iterable[str]) -> set[str]:
    made = {column.name: column.features for column in table.columns}
    return {feature for name in names for feature in made.get(name, (name,))}


def _column_of(table: Table, feature: str) -> str:
    """The column of the file that a feature is made of."""
    return next((column.name for column in table.columns if feature in column.features), feature)


def _tell(leak: Leak, kept: bool, spared: bool) -> str:
    if not leak.leaves:
        return f"column {leak.column!r}: {leak.why}"
    if kept:
        return f"kept column {leak.column!r}, as asked: {leak.why}"
    if spared:
        return f"kept column {leak.column!r}, as no other would be left: {leak.why}"
    return f"left out column {leak.column!r}: {leak.why} (--force-include {leak.column!r} uses it)"


def _number_leak(table: Table, name: str) -> Leak | None:
    """Numbers of rows, or names of groups of rows."""
    column = table.X[name]
    known = column.dropna()
    distinct, n = known.nunique(), len(column)
    if n < FEW:
        return None
    if NAMING.search(name) and MANY < distinct < DISTINCT * n:
        return Leak(name, f"it names {distinct} groups of rows; --groups {name!r} keeps each on one side")
    if kind_of(column) != "numbers" or distinct < DISTINCT * n:
        return None
    values = as_numbers(known.to_frame()).to_numpy()[:, 0]
    whole = bool((values % 1 == 0).all())
    steps = np.diff(values)
    even = len(steps) > 0 and steps[0] != 0 and np.allclose(steps, steps[0], rtol=1e-6, atol=0.0)
    if even and not whole:
        return Leak(name, "it rises evenly from row to row" + _when(table, name))
    if even or (whole and (_sorted(values) or NUMBERING.search(name))):
        return Leak(name, NUMBERS + _when(table, name))
    return None


def _is_dense(column: pd.Series[Any]) -> bool:
    """Are they whole numbers, nearly all distinct, with hardly a gap?"""
    distinct, n = column.nunique(), len(column)
    if n < FEW or kind_of(column) != "numbers" or distinct < DISTINCT * n:
        return False
    values = as_numbers(column.dropna().to_frame()).to_numpy()[:, 0]
    return bool((values % 1 == 0).all() and values.max() - values.min() + 1 <= DENSE * distinct)


def _order_leak(table: Table, name: str) -> Leak | None:
    """A column in the order of the rows that may yet be a quantity: told, and kept."""
    column = table.X[name]
    if len(column) < FEW or kind_of(column) != "numbers" or column.isna().any():
        return None
    if not _sorted(as_numbers(column.to_frame()).to_numpy()[:, 0]):
        return None
    origin = _column_of(table, name)
    why = f"the rows are in its order; if that is time, --time {origin!r} splits by it, --drop {origin!r} leaves it out"
    return Leak(name, why, leaves=False)


def _when(table: Table, name: str) -> str:
    """What else to do with a date."""
    origin = _column_of(table, name)
    return f"; --time {origin!r} splits by it" if origin != name else ""


def _sorted(values: NDArray[np.float64]) -> bool:
    """Does every number differ from the one before it in the same direction?"""
    steps = np.diff(values)
    return bool((steps > 0).all() or (steps < 0).all())


def _sample(y: pd.Series[Any]) -> NDArray[np.int64]:
    """Some rows, of classes that have enough of them."""
    counts = y.map(y.value_counts())
    rows = np.flatnonzero(counts.to_numpy() >= 3)
    return np.sort(np.random.default_rng(0).permutation(rows)[:SAMPLE]).astype(np.int64)


def _tells_alone(column: pd.Series[Any], y: pd.Series[Any]) -> float:
    """The mean share of each class that a tree of one column predicts, in three folds; 0 where that says nothing."""
    classes, index = np.unique(y.to_numpy(dtype=str), return_inverse=True)
    counts = np.bincount(index)
    least = FEW_ROWS if column.nunique() > CODES * len(classes) else 3
    if len(index) < FEW or len(classes) < 2 or counts.min() < least:
        return 0.0
    if kind_of(column) == "numbers":
        values = _unit(as_numbers(column.to_frame()).to_numpy())
    else:
        codes, known = pd.factorize(as_text(column.to_frame()).iloc[:, 0])
        values = np.random.default_rng(0).permutation(len(known))[codes].astype(float)[:, None]  # not in order of rows
    folds = StratifiedKFold(3, shuffle=True, random_state=0)
    hit = cross_val_predict(DecisionTreeClassifier(random_state=0), values, index, cv=folds) == index
    return float(np.mean([hit[index == c].mean() for c in range(len(classes))]))


def _unit(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Numbers from 0 to 1: a tree rounds to 32 bits, and takes what differs by less than 1e-7 for the same."""
    shrunk = values / (np.nanmax(np.abs(values), initial=0.0) or 1.0)
    risen = shrunk - np.nanmin(shrunk, initial=1.0)
    return np.asarray(risen / (np.nanmax(risen, initial=0.0) or 1.0))


def _hash_rows(X: pd.DataFrame) -> pd.Series[Any]:
    plain = pd.DataFrame({i: _plain(X.iloc[:, i]) for i in range(X.shape[1])})
    return pd.util.hash_pandas_object(plain, index=False)


def _plain(column: pd.Series[Any]) -> pd.Series[Any]:
    part = column.to_frame()
    return (as_numbers(part) if kind_of(column) == "numbers" else as_text(part)).iloc[:, 0]


def _shuffled(table: Table) -> pd.DataFrame:
    """The table with each column shuffled within the classes."""
    rng = np.random.default_rng(0)
    places = [np.flatnonzero(part) for part in pd.get_dummies(table.y).to_numpy(dtype=bool).T]
    columns = {}
    for i, name in enumerate(table.X.columns):
        order = np.arange(len(table.X))
        for place in places:
            order[place] = rng.permutation(place)
        columns[i] = table.X[name].iloc[order].reset_index(drop=True)
    return pd.DataFrame(columns)


def _runs(table: Table) -> list[str]:
    """Whether neighbouring rows tend to have the same class, but are not simply sorted by it."""
    if table.time is not None or table.groups is not None:
        return []
    y = pd.factorize(table.y)[0]
    n, counts = len(y), np.bincount(y)
    changes = int((y[1:] != y[:-1]).sum())
    expected = (n - 1) * (1 - (counts * (counts - 1)).sum() / max(n * (n - 1), 1))
    if changes < len(counts) or changes > 0.6 * expected or expected - changes < 5 * np.sqrt(expected):
        return []
    return [
        f"neighbouring rows tend to have the same class ({changes} changes, {expected:.0f} by chance): if the rows are "
        "in order of time or come in groups, --time or --groups gives the honest splits"
    ]
