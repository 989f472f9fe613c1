"""Leaks: columns and rows that reveal the class of a held-out row in a way that no new row will."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import balanced_accuracy_score
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.tree import DecisionTreeClassifier

from genlabel.data.tables.columns import MAX_CATEGORIES, as_strings, kind_of, to_float
from genlabel.data.tables.files import join_names
from genlabel.data.tables.splits import merge_groups
from genlabel.data.tables.table import Table, table_pipeline

MIN_ROWS = 20
"""Rows below which a column may be sorted or evenly spaced by chance."""
MIN_DISTINCT_SHARE = 0.9
"""Share of distinct values from which integers may be row ids."""
MAX_ID_DENSITY = 1.2
"""Maximum ratio of the range of row ids to the number of distinct values."""
MIN_RANK_COLUMNS = 3
"""From this many columns of dense integers on, these are ranks and not row ids."""
MIN_CLASS_RECALL = 0.995
"""Mean recall over the classes from which a column alone reveals the class."""
MIN_RECALL_TO_ASK = 0.95
"""Mean recall from which it is asked whether a column is known before the outcome."""
MIN_SHARE_TO_ASK = 0.98
"""Share of one class in the rows with a value of a column, or without one, from which the same is asked."""
MIN_ROWS_TO_ASK, MAX_PRIOR_TO_ASK = 20, 0.9
"""Fewest such rows, and largest share of this class in all rows."""
MIN_CLASS_ROWS_OF_QUANTITY = 10
"""Rows of each class below which a quantity may separate the classes by chance; a code of the class may not."""
MAX_CODES_PER_CLASS = 2
"""Distinct values for each class of a column that may be a code of the class."""
MAX_SAMPLE_ROWS = 2000
"""Rows that the search for such columns uses."""
QUESTION = "known before the outcome?"
"""Words of the notes that ask about a column."""
ROW_ID = "its values are row numbers"
ROW_ID_NAME = re.compile(
    r"(^|[\s_.-])(id|ids|uid|guid|uuid|key|index|idx|row|nr|no|num|number)$|[a-z](Id|ID|Key|No|Nr)$"
)
GROUP_ID_NAME = re.compile(r"(^|[\s_.-])(id|ids|uid|guid|uuid)$|[a-z](Id|ID)$")


class Leak(NamedTuple):
    """Column that reveals too much; `find_leaks` returns a list of them."""

    column: str
    """Name of the column of the file, or of the one of its features that leaks."""
    reason: str
    dropped: bool = True
    """True if the column is left out unless it is included on purpose."""
    question: bool = False
    """True if the column is a leak only if it is not known before the outcome."""
    features: tuple[str, ...] = ()
    """The features that leak: all parts of a date, if one of them tells the class."""


def drop_leaks(table: Table, force_include: Iterable[str] = ()) -> Table:
    """Return the table without columns that leak, and with equal rows in one group; notes list the changes.

    Parameters
    ----------
    table : Table
    force_include : iterable of str
        Features, or columns of the file, that stay even if they leak.

    Examples
    --------
    >>> X = pd.DataFrame({"customer": range(1, 41), "size": np.random.default_rng(0).normal(size=40)})
    >>> clean = drop_leaks(Table("t", X, pd.Series(list("ab" * 20))))
    >>> list(clean.X.columns)
    ['size']
    >>> clean.notes
    ["left out column 'customer': its values are row numbers (--force-include 'customer' uses it)"]
    """
    features = {column.name: column.features for column in table.columns}
    forced = {feature for name in force_include for feature in features.get(name, (name,))}
    leaks = find_leaks(table)
    dropped = [name for leak in leaks if leak.dropped for name in leak.features if name not in forced]
    is_kept = [str(name) not in dropped for name in table.X.columns]
    notes = []
    questions: dict[str, list[Leak]] = {}
    for leak in leaks:
        is_forced = set(leak.features) <= forced
        if leak.question and not is_forced:
            questions.setdefault(leak.reason, []).append(leak)
        elif not (leak.dropped or leak.question):
            notes.append(f"column {leak.column!r}: {leak.reason}")
        elif is_forced:
            notes.append(f"kept column {leak.column!r}, as requested: {leak.reason}")
        elif not any(is_kept):
            notes.append(f"kept column {leak.column!r}, because no column would be left: {leak.reason}")
        else:
            notes.append(f"left out column {leak.column!r}: {leak.reason} (--force-include {leak.column!r} uses it)")
    notes += _ask(table, questions, dropped)
    X = table.X.loc[:, is_kept] if any(is_kept) else table.X
    return group_duplicates(replace(table, X=X, notes=[*table.notes, *notes, *_note_runs(table)]))


def find_leaks(table: Table) -> list[Leak]:
    """Find the columns that number or name rows, follow their order, or reveal the class by themselves.

    Columns that nearly do so, or whose gaps do, are questions: they are leaks if they are known only afterwards.

    Row ids are integers, nearly all distinct, and either without gaps, in the order of the rows, or in a column with
    such a name ("id", "key", ...). A column reveals the class by itself if a decision tree on it has a mean recall over
    the classes of at least 99.5 % in three folds.

    >>> X = pd.DataFrame({"u": [0.1, 0.7, 0.4, 0.9, 0.2] * 8, "code": ["x", "y"] * 20})
    >>> [(leak.column, leak.reason) for leak in find_leaks(Table("t", X, pd.Series(["no", "yes"] * 20)))]
    [('code', 'it alone gives the class of 100.0 % of the rows')]
    """
    table = replace(table, X=table.X.rename(columns=str))
    dense = [name for name in table.X.columns if _is_dense(table.X[name])]
    counts = table.y.map(table.y.value_counts()).to_numpy()
    sample = np.sort(np.random.default_rng(0).permutation(np.flatnonzero(counts >= 3))[:MAX_SAMPLE_ROWS])
    sources: dict[str, list[str]] = {}
    for name in table.X.columns:
        sources.setdefault(_source_name(table, name), []).append(name)
    leaks = []
    for source, names in sources.items():
        of_rows = [leak for name in names if (leak := _row_leak(table, name, dense)) is not None]
        rest = [name for name in names if not any(leak.dropped and leak.column == name for leak in of_rows)]
        recalls = [_single_column_recall(table.X[name].iloc[sample], table.y.iloc[sample]) for name in rest]
        recall = max(recalls, default=0.0)
        reason = f"it alone gives the class of {100 * recall:.1f} % of the rows"
        if recall >= MIN_CLASS_RECALL:
            leaks.append(Leak(source, reason, features=tuple(names)))
            continue
        leaks += of_rows
        if not all(leak.dropped for leak in of_rows):  # it may be a quantity
            continue
        if recall < MIN_RECALL_TO_ASK:
            reason = next((gaps for name in rest if (gaps := _gap_reason(table.X[name], table.y))), "")
        if reason:
            leaks.append(Leak(source, reason, dropped=False, question=True, features=tuple(rest)))
    return leaks


def group_duplicates(table: Table) -> Table:
    """Return the table with rows of equal features in one group, unless they are equal by chance.

    In a table with few distinct values, equal rows need not be copies. They are taken as equal by chance if more than
    one in ten of them, and more than five, have another class than the first of them, or if at least half as many rows
    are equal after each column is shuffled within the classes.

    >>> X = pd.DataFrame({"x": [1.5, 1.5, 2.5, 3.5], "z": [7.1, 7.1, 8.1, 9.1]})
    >>> table = Table("t", X, pd.Series(list("abab")))
    >>> group_duplicates(table).groups.tolist()
    [0, 0, 1, 2]
    """
    hashes = _hash_rows(table.X)
    n_duplicates = len(hashes) - hashes.nunique()
    if not n_duplicates:
        return table
    note = f"rows that equal an earlier row: {n_duplicates}"
    n_other_class = int((table.y != table.y.groupby(hashes.to_numpy()).transform("first")).sum())
    if n_other_class > max(0.1 * n_duplicates, 5):
        note += f"; {n_other_class} of them have another class, so they are not copies and are split like other rows"
        return replace(table, notes=[*table.notes, note])
    rng = np.random.default_rng(0)
    members = [np.flatnonzero(mask) for mask in pd.get_dummies(table.y).to_numpy(dtype=bool).T]
    shuffled = {}  # each column by itself, within the classes
    for i, name in enumerate(table.X.columns):
        order = np.arange(len(table.X))
        for rows in members:
            order[rows] = rng.permutation(rows)
        shuffled[i] = table.X[name].iloc[order].reset_index(drop=True)
    by_chance = len(hashes) - _hash_rows(pd.DataFrame(shuffled)).nunique()
    if 2 * by_chance >= n_duplicates:
        note += f"; with so few values {by_chance} are equal by chance, so they are split like other rows"
        return replace(table, notes=[*table.notes, note])
    groups = merge_groups(hashes) if table.groups is None else merge_groups(hashes, table.groups)
    note += "; equal rows stay on one side of every split"
    return replace(table, groups=groups, notes=[*table.notes, note])


def _row_leak(table: Table, name: str, dense: list[str]) -> Leak | None:
    """Return the leak of a column that numbers the rows, names groups of them, or follows their order."""
    column = table.X[name]
    source = _source_name(table, name)
    hint = f"; --time {source!r} splits by it" if source != name else ""
    distinct, n = column.nunique(), len(column)
    if name in dense and len(dense) < MIN_RANK_COLUMNS:
        return Leak(name, ROW_ID + hint, features=(name,))
    if n < MIN_ROWS:
        return None
    if GROUP_ID_NAME.search(name) and MAX_CATEGORIES < distinct < MIN_DISTINCT_SHARE * n:
        reason = f"it names {distinct} groups of rows; --groups {name!r} keeps each on one side"
        return Leak(name, reason, features=(name,))
    if kind_of(column) != "numbers":
        return None
    values = to_float(column.dropna()).to_numpy()
    steps = np.diff(values)
    monotonic = bool((steps > 0).all() or (steps < 0).all())
    if distinct >= MIN_DISTINCT_SHARE * n:
        integers = bool((values % 1 == 0).all())
        even = len(steps) > 0 and steps[0] != 0 and np.allclose(steps, steps[0], rtol=1e-6, atol=0.0)
        if even and not integers:
            return Leak(name, "it rises evenly from row to row" + hint, features=(name,))
        if even or (integers and (monotonic or ROW_ID_NAME.search(name))):
            return Leak(name, ROW_ID + hint, features=(name,))
    if not monotonic or column.isna().any():
        return None
    reason = f"the rows are in its order; if that is time, --time {source!r} splits by it, --drop {source!r} drops it"
    return Leak(name, reason, dropped=False, features=(name,))


def _gap_reason(column: pd.Series[Any], y: pd.Series[Any]) -> str:
    """Return how far the gaps of a column tell one class from the others; empty if they do not nearly do so."""
    for has_value in (True, False):
        rows, word = column.notna() == has_value, "with" if has_value else "without"
        if not MIN_ROWS_TO_ASK <= rows.sum() < len(y):
            continue
        shares = y[rows].value_counts(normalize=True)
        name, share, of_class = str(shares.index[0]), float(shares.iloc[0]), y == shares.index[0]
        recall = float((rows[of_class].mean() + (~rows[~of_class]).mean()) / 2)
        if (share >= MIN_SHARE_TO_ASK and of_class.mean() <= MAX_PRIOR_TO_ASK) or recall >= MIN_RECALL_TO_ASK:
            return (
                f"{100 * share:.0f} % of the {int(rows.sum())} rows {word} a value are of class {name!r}, and "
                f"{100 * of_class.mean():.0f} % of all rows"
            )
    return ""


def _ask(table: Table, questions: Mapping[str, list[Leak]], dropped: Sequence[str]) -> list[str]:
    """Return a note on the columns of each reason for which they may be known only afterwards, with their effect."""
    asked = {name for leaks in questions.values() for leak in leaks for name in leak.features}
    others = [name for name in map(str, table.X.columns) if name not in asked and name not in dropped]
    without = _forest_accuracy(table, others) if asked else 0.0
    notes = []
    for reason, leaks in questions.items():
        names = [leak.column for leak in leaks]
        accuracy = _forest_accuracy(table, [*others, *(name for leak in leaks for name in leak.features)])
        columns = f"column {names[0]!r}" if len(names) == 1 else f"columns {join_names(names)}"
        verb, pronoun = ("is it", "it") if len(names) == 1 else ("are they", "them")
        rest = pronoun if len(questions) == 1 else "all columns asked about"
        drop, include = (" ".join(f"{option} {name!r}" for name in names) for option in ("--drop", "--force-include"))
        notes.append(
            f"{columns}: {reason}; {verb} {QUESTION} If not, {drop} leaves {pronoun} out ({include} if "
            f"so); a random forest is right on {100 * accuracy:.1f} % of the rows with {pronoun}, on "
            f"{100 * without:.1f} % without {rest}"
        )
    return notes


def _forest_accuracy(table: Table, names: list[str]) -> float:
    """Return the accuracy of a random forest on some columns, in three folds of a sample of the rows."""
    rows = np.sort(np.random.default_rng(0).permutation(len(table.y))[:MAX_SAMPLE_ROWS])
    X, y = table.X.set_axis(list(map(str, table.X.columns)), axis=1)[names].iloc[rows], table.y.iloc[rows]
    if not names:
        return float(y.value_counts(normalize=True).iloc[0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a class of fewer rows than folds
        forest = table_pipeline(X, RandomForestClassifier(50, random_state=0))
        folds = StratifiedKFold(3, shuffle=True, random_state=0)
        return float((cross_val_predict(forest, X, y.to_numpy(dtype=str), cv=folds) == y.to_numpy(dtype=str)).mean())


def _source_name(table: Table, feature: str) -> str:
    """Return the name of the column of the file that makes a feature."""
    return next((spec.name for spec in table.columns if feature in spec.features), feature)


def _is_dense(column: pd.Series[Any]) -> bool:
    """Return whether the values are integers, nearly all distinct, that fill their range."""
    distinct, n = column.nunique(), len(column)
    if n < MIN_ROWS or kind_of(column) != "numbers" or distinct < MIN_DISTINCT_SHARE * n:
        return False
    values = to_float(column.dropna()).to_numpy()
    return bool((values % 1 == 0).all() and values.max() - values.min() + 1 <= MAX_ID_DENSITY * distinct)


def _single_column_recall(column: pd.Series[Any], y: pd.Series[Any]) -> float:
    """Return the mean recall of a decision tree on one column, in three folds; 0 if there are too few rows."""
    classes, index = np.unique(y.to_numpy(dtype=str), return_inverse=True)
    counts = np.bincount(index)
    min_rows = MIN_CLASS_ROWS_OF_QUANTITY if column.nunique() > MAX_CODES_PER_CLASS * len(classes) else 3
    if len(index) < MIN_ROWS or len(classes) < 2 or counts.min() < min_rows:
        return 0.0
    if kind_of(column) == "numbers":
        values = to_float(column).to_numpy()[:, None]
        # Scaled to [0, 1], because a tree rounds to 32 bits and takes values that differ by less than 1e-7 as equal.
        values = values / (np.nanmax(np.abs(values), initial=0.0) or 1.0)
        values = values - np.nanmin(values, initial=1.0)
        values = values / (np.nanmax(values, initial=0.0) or 1.0)
    else:
        codes, known = pd.factorize(as_strings(column.to_frame()).iloc[:, 0])
        order = np.random.default_rng(0).permutation(len(known))  # else codes are in the order of the rows
        values = order[codes].astype(float)[:, None]
    folds = StratifiedKFold(3, shuffle=True, random_state=0)
    predicted = cross_val_predict(DecisionTreeClassifier(random_state=0), values, index, cv=folds)
    return float(balanced_accuracy_score(index, predicted))


def _hash_rows(X: pd.DataFrame) -> pd.Series[Any]:
    """Return a hash of each row, (n,), equal for equal values of any dtype."""
    columns = {
        i: to_float(column) if kind_of(column) == "numbers" else as_strings(column.to_frame()).iloc[:, 0]
        for i, (_, column) in enumerate(X.items())
    }
    return pd.util.hash_pandas_object(pd.DataFrame(columns), index=False)


def _note_runs(table: Table) -> list[str]:
    """Return a note if neighboring rows tend to have the same class, but are not simply sorted by it."""
    if table.time is not None or table.groups is not None:
        return []
    y = pd.factorize(table.y)[0]
    n, counts = len(y), np.bincount(y)
    changes = int((y[1:] != y[:-1]).sum())
    expected = (n - 1) * (1 - (counts * (counts - 1)).sum() / max(n * (n - 1), 1))
    is_sorted = changes < len(counts)
    if is_sorted or changes > 0.6 * expected or expected - changes < 5 * np.sqrt(expected):
        return []
    return [
        f"neighboring rows tend to have the same class ({changes} changes, {expected:.0f} by chance): if the rows are "
        "in order of time or come in groups, use --time or --groups"
    ]
