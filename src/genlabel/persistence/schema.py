"""Schema of a model: names, kinds and categories of its columns, and the check of a new table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Self

import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import Pipeline

from genlabel._text import count_of
from genlabel._validation import as_pandas
from genlabel.data.tables.columns import as_strings, kind_of
from genlabel.data.tables.files import join_names, missing_columns_error
from genlabel.data.tables.table import encoded_columns
from genlabel.estimators.classifier import ProbabilityClassifier
from genlabel.estimators.validation import FrameEncoder
from genlabel.persistence.objects import PersistenceError

UNUSED = "unused"
"""Kind of a column that a classifier was fitted with but does not use: a date, an identifier."""
MAX_SHOWN = 4
"""Largest number of names or values in an error message."""
UNNAMED = "the columns of the table have names that are not strings; fit with X.columns = X.columns.astype(str)"


class ColumnSchema(NamedTuple):
    """Column of the table that a model takes."""

    name: str
    kind: str
    """"numbers", "text" (see :func:`genlabel.data.tables.columns.kind_of`) or UNUSED: a column that may be absent."""
    categories: tuple[str, ...] = ()
    """Values of a text column in the training table; a missing value is "(missing)"."""


class Schema(NamedTuple):
    """Columns that a model takes; the `schema` of the model that `load_model` returns."""

    columns: tuple[ColumnSchema, ...]
    named: bool
    """True if columns are found by name, in a DataFrame; otherwise by position, in an array."""
    table: bool
    """True if the model prepares a table itself, and takes DataFrames only."""

    @classmethod
    def of(cls, model: Any) -> Schema:
        """Return the schema of a fitted classifier, or of a pipeline of `genlabel.data.tables.table_pipeline`.

        >>> from sklearn.datasets import load_iris
        >>> from genlabel import GenerativeClassifier
        >>> X, y = load_iris(return_X_y=True, as_frame=True)
        >>> Schema.of(GenerativeClassifier().fit(X, y)).columns[0]
        ColumnSchema(name='sepal length (cm)', kind='numbers', categories=())
        """
        first = model.steps[0][1] if isinstance(model, Pipeline) else model
        if isinstance(first, ColumnTransformer):
            used = _used_columns(first)
            return cls(tuple(used[name] for name in first.feature_names_in_ if name in used), named=True, table=True)
        names = getattr(first, "feature_names_in_", None)
        if isinstance(first, ProbabilityClassifier) and isinstance(first.encoder_, FrameEncoder):
            if names is None:
                raise PersistenceError(UNNAMED)
            used = _used_columns(first.encoder_.columns.steps[0][1])
            return cls(tuple(used.get(name, ColumnSchema(name, UNUSED)) for name in names), named=True, table=True)
        labels = [f"x{index}" for index in range(first.n_features_in_)] if names is None else names.tolist()
        return cls(tuple(ColumnSchema(name, "numbers") for name in labels), named=names is not None, table=False)

    def check(self, X: Any) -> Any:
        """Return the columns of the model in their order; raise if one is missing or of another kind.

        A column without values passes as any kind. Strings that are all numbers are converted, and numbers are accepted
        in a text column if all of them are among its categories.
        """
        X = as_pandas(X)
        names, shape = join_names([column.name for column in self.columns], MAX_SHOWN), np.shape(X)
        if self.table and not isinstance(X, pd.DataFrame):
            raise ValueError(f"X is {type(X).__name__}; pass a DataFrame with the columns {names}")
        if not self.named or not isinstance(X, pd.DataFrame):
            if len(shape) != 2 or shape[1] != len(self.columns):
                raise ValueError(
                    f"X has shape {shape}; the model takes {count_of(len(self.columns), 'column')}: {names}"
                )
            return X
        present = list(X.columns)
        missing = [column.name for column in self.columns if column.name not in present and column.kind != UNUSED]
        if missing:
            known = {column.name for column in self.columns}
            unknown = [name for name in present if isinstance(name, str) and name not in known]
            raise missing_columns_error(missing, unknown)
        repeated = [column.name for column in self.columns if present.count(column.name) > 1]
        if repeated:
            raise ValueError(f"the table has several columns named {join_names(repeated, MAX_SHOWN)}; keep one of each")
        empty = pd.Series(None, index=X.index, dtype=object)
        columns = {column.name: _to_kind(X.get(column.name, empty), column) for column in self.columns}
        if list(columns) == list(X.columns) and all(values.dtype == X[name].dtype for name, values in columns.items()):
            return X  # the same object: a new frame would have another order in memory
        return pd.DataFrame(columns, index=X.index)

    def to_frame(self, X: Any) -> pd.DataFrame:
        """Return the checked columns that the model uses as a DataFrame; those of an array are named by position."""
        checked = self.check(X)
        if self.named and isinstance(checked, pd.DataFrame):
            return checked[[column.name for column in self.columns if column.kind != UNUSED]]
        names = [column.name for column in self.columns]
        return pd.DataFrame(np.asarray(checked), X.index if isinstance(X, pd.DataFrame) else None, names)

    def probes(self) -> pd.DataFrame:
        """Return three made-up rows of a table, the last one without values."""
        rows: dict[str, Any] = {}
        for name, kind, categories in self.columns:
            values: list[Any] = [0.0, 1.0] if kind == "numbers" else [*categories[:1], *categories[-1:]] or [None, None]
            rows[name] = pd.Series([*values, None], dtype="float64" if kind == "numbers" else object)
        return pd.DataFrame(rows)

    def to_plain(self) -> dict[str, Any]:
        """Return the schema as JSON values."""
        return {**self._asdict(), "columns": [column._asdict() for column in self.columns]}

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Self:
        """Return the schema that :meth:`to_plain` has turned into JSON values."""
        columns = (
            ColumnSchema(str(c["name"]), str(c["kind"]), tuple(map(str, c["categories"]))) for c in plain["columns"]
        )
        return cls(tuple(columns), bool(plain["named"]), bool(plain["table"]))


def _used_columns(columns: ColumnTransformer) -> dict[str, ColumnSchema]:
    """Return the columns that a fitted table preparation uses, by name."""
    used = encoded_columns(columns)
    if not all(isinstance(column.name, str) for column in used):
        raise PersistenceError(UNNAMED)
    return {column.name: ColumnSchema(column.name, column.kind, column.categories) for column in used}


def _to_kind(values: pd.Series[Any], column: ColumnSchema) -> pd.Series[Any]:
    """Return the values, converted to the kind of the column; raise if they cannot be."""
    known, kind = values.dropna(), kind_of(values)
    if column.kind in (kind, UNUSED) or known.empty:
        return values
    if column.kind == "numbers" and kind == "text":
        numbers = pd.to_numeric(known, errors="coerce")
        if not numbers.isna().any():
            return numbers.reindex(values.index)
        invalid = known[numbers.isna()]
    else:
        strings = as_strings(known.to_frame())[column.name]
        if strings.isin(column.categories).all():
            return values
        invalid = known[~strings.isin(column.categories)]
    names = {"time": "dates or times"}
    examples = f", such as {join_names(column.categories, MAX_SHOWN)}" if column.categories else ""
    raise ValueError(
        f"the column {column.name!r} holds {names.get(kind, kind)}, such as {str(invalid.iloc[0])!r}, but the model "
        f"was fitted with {names.get(column.kind, column.kind)} there{examples}; convert the column"
    )
