"""Labeled tables, and the preprocessing of their columns in front of an estimator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Self

import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder

from genlabel._text import count_of
from genlabel.data.tables.columns import MAX_CATEGORIES, ColumnSpec, as_floats, as_strings, kind_of
from genlabel.data.tables.files import join_names

MIN_CLASS_ROWS = 4
"""Rows that a class needs, so that two of them remain for training when about a third is held out."""


@dataclass(frozen=True)
class Table:
    """Labeled table.

    >>> X = pd.DataFrame({"size": [1.0, None, 3.0], "color": ["red", "blue", "red"]})
    >>> table = Table("flowers", X, pd.Series(["a", "b", "a"]), groups=pd.Series([0, 1, 0]))
    >>> select_rows(table, [True, False, True]).groups.tolist()
    [0, 0]
    """

    name: str
    X: pd.DataFrame
    """Features: numbers and booleans, or strings; missing values are NaN."""
    y: pd.Series[Any]
    """Label of each row, an integer or a string; none is missing."""
    notes: list[str] = field(default_factory=list)
    """A line for each change that reading made."""
    columns: Sequence[ColumnSpec] = ()
    """Conversion of each column of the file."""
    groups: pd.Series[Any] | None = None
    """Group of each row, an integer: rows of one group stay on one side of a split."""
    time: pd.Series[Any] | None = None
    """Time of each row, a number: a split trains on earlier rows than it tests on."""
    na_values: tuple[str, ...] = ()
    """Values that count as missing, in addition to the usual ones."""
    bin_edges: tuple[float, ...] = ()
    """Edges at which a numeric target was cut into classes."""
    rows: pd.Series[Any] | None = None
    """Row number of each row in the file, from 0."""


def select_rows(table: Table, rows: Any) -> Table:
    """Return the rows of a table that a mask (n,) selects, with a new index."""
    selected = {}
    for name in ("X", "y", "groups", "time", "rows"):
        part = getattr(table, name)
        if part is not None:
            selected[name] = part[rows].reset_index(drop=True)
    return replace(table, **selected)


def note_rare_classes(table: Table) -> Table:
    """Return the table with a note on the classes of fewer than 4 rows, whose scores say nothing.

    >>> table = Table("t", pd.DataFrame({"x": range(9)}), pd.Series(list("aaaabbbbc")))
    >>> note_rare_classes(table).notes
    ["the class 'c' has 1 row, too few to be measured; --min-class-size 4 leaves such classes out"]
    """
    counts = table.y.value_counts(sort=False)
    rare = counts[counts < MIN_CLASS_ROWS]
    if not len(rare):
        return table
    hint = f"; --min-class-size {MIN_CLASS_ROWS} leaves such classes out" if len(counts) - len(rare) > 1 else ""
    if len(rare) == 1:
        note = (
            f"the class {str(rare.index[0])!r} has {count_of(int(rare.iloc[0]), 'row')}, too few to be measured{hint}"
        )
    else:
        few = f"fewer than {MIN_CLASS_ROWS} rows, too few to be measured"
        note = f"{len(rare)} of {len(counts)} classes have {few}: {join_names(rare.index, 5)}{hint}"
    return replace(table, notes=[*table.notes, note])


def drop_rare_classes(table: Table, min_rows: int = MIN_CLASS_ROWS) -> Table:
    """Return the table without the classes of fewer than `min_rows` rows; a note names them.

    >>> table = Table("t", pd.DataFrame({"x": range(9)}), pd.Series(list("aaaabbbbc")))
    >>> drop_rare_classes(table).notes
    ["1 class of fewer than 4 rows left out, 1 row: 'c'"]
    """
    counts = table.y.value_counts(sort=False)
    rare = counts[counts < min_rows]
    if not len(rare):
        return table
    n_rows, few = count_of(int(rare.sum()), "row"), count_of(min_rows, "row")
    note = f"{count_of(len(rare), 'class')} of fewer than {few} left out, {n_rows}: {join_names(rare.index, 5)}"
    remaining = select_rows(table, ~table.y.isin(list(rare.index)).to_numpy())
    return replace(remaining, notes=[*table.notes, note])


class CategoryEncoder(OneHotEncoder):
    """One-hot encoder that also learns how often new rows have a category that training did not have.

    Attributes
    ----------
    new_shares_ : list of float
        Share of the training rows of each column whose category occurs once, which estimates that share of new rows
        (Good, 1953).

    Examples
    --------
    >>> CategoryEncoder().fit(pd.DataFrame({"color": ["red", "red", "blue", "red"]})).new_shares_
    [0.25]
    """

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the categories of the columns of a DataFrame, and how often new rows have others."""
        super().fit(X, y)
        self.new_shares_ = [float((~column.duplicated(keep=False)).mean()) for _, column in X.items()]
        return self


def table_pipeline(X: pd.DataFrame, estimator: Any) -> Pipeline:
    """Put the preprocessing of a table in front of an estimator, to be fitted together on the training rows only.

    Numbers and booleans: median imputation. Strings and categories: one-hot encoding, where a missing value is a
    category, and of more than 20 categories all but the 19 most frequent share one. Dates and times: left out.

    Parameters
    ----------
    X : DataFrame (n, d)
        Only the column types are used; nothing is fitted here.
    estimator : scikit-learn estimator

    Examples
    --------
    >>> X = pd.DataFrame({"size": [1.0, None, 3.0], "color": ["red", "blue", None]})
    >>> table_pipeline(X, "passthrough").fit_transform(X).tolist()
    [[1.0, 0.0, 0.0, 1.0], [2.0, 0.0, 1.0, 0.0], [3.0, 1.0, 0.0, 0.0]]
    """
    numbers = make_pipeline(
        FunctionTransformer(as_floats, feature_names_out="one-to-one"),
        SimpleImputer(strategy="median", keep_empty_features=True),
    )
    text = make_pipeline(
        FunctionTransformer(as_strings, feature_names_out="one-to-one"),
        CategoryEncoder(handle_unknown="infrequent_if_exist", max_categories=MAX_CATEGORIES, sparse_output=False),
    )
    kinds = {name: kind_of(X[name]) for name in X.columns}
    has_names = all(isinstance(name, str) for name in X.columns)  # scikit-learn would take an integer for a position
    transformers = []
    for kind, steps in (("numbers", numbers), ("text", text)):
        columns = [name if has_names else i for i, name in enumerate(X.columns) if kinds[name] == kind]
        if columns:
            transformers.append((kind, steps, columns))
    return Pipeline([("columns", ColumnTransformer(transformers)), ("estimator", estimator)])


class EncodedColumn(NamedTuple):
    """Column of a table, with the features that a fitted preprocessing makes of it."""

    name: Any
    """Name, or the position of a column whose name is not a string."""
    kind: str
    """"numbers" or "text"."""
    features: range
    """Positions of its features: one for numbers, one for each frequent category of text."""
    categories: tuple[str, ...] = ()
    """Values of a text column in the training table; a missing value is "(missing)"."""
    new_share: float = 0.0
    """Expected share of new rows with another value."""


def encoded_columns(columns: ColumnTransformer) -> list[EncodedColumn]:
    """Return the columns that a fitted preprocessing of `table_pipeline` uses, in the order of the table.

    >>> X = pd.DataFrame({"color": ["red", "blue", None], "size": [1.0, None, 3.0]})
    >>> for column in encoded_columns(table_pipeline(X, "passthrough")[:-1].fit(X)[0]):
    ...     print(*column)
    color text range(1, 4) ('(missing)', 'blue', 'red') 1.0
    size numbers range(0, 1) () 0.0
    """
    result: list[EncodedColumn] = []
    start = 0
    for kind, transformer, names in columns.transformers_:
        if isinstance(transformer, str) and transformer == "drop":
            continue
        last = transformer.steps[-1][1] if isinstance(transformer, Pipeline) else transformer
        all_categories = getattr(last, "categories_", [()] * len(names))
        all_infrequent = getattr(last, "infrequent_categories_", [None] * len(names))
        new_shares = getattr(last, "new_shares_", [0.0] * len(names))
        for name, categories, infrequent, new in zip(names, all_categories, all_infrequent, new_shares, strict=True):
            width = max(1, len(categories) - (0 if infrequent is None else len(infrequent) - 1))
            result.append(EncodedColumn(name, kind, range(start, start + width), tuple(map(str, categories)), new))
            start += width
    order = {name: i for i, name in enumerate(getattr(columns, "feature_names_in_", ()))}
    return sorted(result, key=lambda column: order.get(column.name, column.name))
