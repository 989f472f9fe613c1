"""A labelled table, and the preparation of its columns in front of an estimator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder

from genlabel.data.tables.columns import MANY, ColumnSpec, as_numbers, as_text, kind_of

FEWEST_ROWS = 4
"""Rows that a class needs: two to train on, and two more so that a cut of about a third leaves them there."""


@dataclass(frozen=True)
class Table:
    """A labelled table.

    >>> X = pd.DataFrame({"size": [1.0, None, 3.0], "colour": ["red", "blue", "red"]})
    >>> table = Table("flowers", X, pd.Series(["a", "b", "a"]), groups=pd.Series([0, 1, 0]))
    >>> part = select_rows(table, [True, False, True])
    >>> part.X["size"].tolist(), part.y.tolist(), part.groups.tolist()
    ([1.0, 3.0], ['a', 'a'], [0, 0])
    """

    name: str
    X: pd.DataFrame
    """Features: numbers and booleans, or text; missing values are NaN."""
    y: pd.Series[Any]
    """The label of each row: whole numbers or text, none missing."""
    notes: list[str] = field(default_factory=list)
    """What was changed on the way in, one line each."""
    columns: Sequence[ColumnSpec] = ()
    """What was made of each column of a file."""
    groups: pd.Series[Any] | None = None
    """The group of each row, a whole number: rows of one group stay on one side of a split."""
    time: pd.Series[Any] | None = None
    """When each row was recorded, a number: a split trains on earlier rows than it tests on."""
    na_values: tuple[str, ...] = ()
    """Values that count as missing, besides the usual ones."""
    cuts: tuple[float, ...] = ()
    """Where a target of numbers was cut into classes."""
    rows: pd.Series[Any] | None = None
    """The row of the file that each row was, numbered from 0."""


def select_rows(table: Table, rows: Any) -> Table:
    """Return the rows of a table that a mask (n,) names, numbered anew.

    >>> table = Table("t", pd.DataFrame({"x": [5, 6, 7]}), pd.Series(list("aab")))
    >>> select_rows(table, [True, False, True]).X["x"].tolist()
    [5, 7]
    """
    X, y = table.X[rows].reset_index(drop=True), table.y[rows].reset_index(drop=True)
    beside = {"groups": table.groups, "time": table.time, "rows": table.rows}
    taken: dict[str, Any] = {
        name: None if part is None else part[rows].reset_index(drop=True) for name, part in beside.items()
    }
    return replace(table, X=X, y=y, **taken)


def drop_rare(table: Table, fewest: int = FEWEST_ROWS) -> Table:
    """Return the table without the classes of fewer than `fewest` rows; a note names them.

    >>> table = Table("t", pd.DataFrame({"x": range(9)}), pd.Series(list("aaaabbbbc")))
    >>> drop_rare(table).notes
    ['1 class of fewer than 4 rows dropped, 1 row: c']
    """
    counts = table.y.value_counts(sort=False)
    rare = counts[counts < fewest]
    if not len(rare):
        return table
    classes = f"{len(rare)} class{'es' * (len(rare) > 1)}"
    gone = int(rare.sum())
    rows = f"{gone} row{'s' * (gone > 1)}"
    names = ", ".join(str(name) for name in rare.index[:5]) + ", ..." * (len(rare) > 5)
    kept = select_rows(table, ~table.y.isin(list(rare.index)).to_numpy())
    return replace(kept, notes=[*table.notes, f"{classes} of fewer than {fewest} rows dropped, {rows}: {names}"])


def table_pipeline(X: pd.DataFrame, estimator: Any) -> Pipeline:
    """Put the preparation of a table in front of an estimator, to be fitted together on the training rows only.

    Numbers and booleans: median imputation. Text and categories: a column for each value, a missing one being a
    value of its own; of more than 20, the 19 most frequent and a column for the rest. Dates and times: left out.

    Parameters
    ----------
    X : DataFrame (n, d)
        Tells the kind of each column; nothing is learned from it here.
    estimator : scikit-learn estimator
        Takes the numbers.

    Examples
    --------
    >>> X = pd.DataFrame({"size": [1.0, None, 3.0], "colour": ["red", "blue", None]})
    >>> table_pipeline(X, "passthrough").fit_transform(X).tolist()
    [[1.0, 0.0, 0.0, 1.0], [2.0, 0.0, 1.0, 0.0], [3.0, 1.0, 0.0, 0.0]]
    """
    numbers = make_pipeline(
        FunctionTransformer(as_numbers, feature_names_out="one-to-one"),
        SimpleImputer(strategy="median", keep_empty_features=True),
    )
    text = make_pipeline(
        FunctionTransformer(as_text, feature_names_out="one-to-one"),
        OneHotEncoder(handle_unknown="infrequent_if_exist", max_categories=MANY, sparse_output=False),
    )
    kinds = {name: kind_of(X[name]) for name in X.columns}
    named = all(isinstance(name, str) for name in X.columns)  # a number would be taken for a place
    parts = [
        (kind, part, [name if named else place for place, name in enumerate(X.columns) if kinds[name] == kind])
        for kind, part in (("numbers", numbers), ("text", text))
        if kind in kinds.values()
    ]
    return Pipeline([("columns", ColumnTransformer(parts)), ("estimator", estimator)])
