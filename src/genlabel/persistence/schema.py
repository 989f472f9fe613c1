"""The columns that a model was fitted with: their names, kinds and categories, and whether a new table has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any, NamedTuple, Self

import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder

from genlabel.data.tables import kind_of
from genlabel.data.tables.columns import as_strings
from genlabel.estimators.classifier import ProbabilityClassifier
from genlabel.estimators.encoding import Columns
from genlabel.persistence.preprocessing import PersistenceError

UNUSED = "unused"
"""The kind of a column that a classifier was fitted with, and does not look at: a date, an identifier."""
SHOWN = 4
"""Names or values that an error shows at most."""
UNNAMED = "the columns of the table have names that are no text; fit with X.columns = X.columns.astype(str)"


class ColumnSchema(NamedTuple):
    """A column of the table that a model takes.

    `Schema.of` makes one for each column.
    """

    name: str
    kind: str
    """As :func:`genlabel.data.tables.columns.kind_of` says it, "numbers" or "text"; UNUSED is left out, and may be."""
    categories: tuple[str, ...] = ()
    """The values of a text that the training rows had; a missing one is "(missing)"."""


class Schema(NamedTuple):
    """The columns that a model takes.

    `Schema.of` reads it off a model; it is the `schema` of what `load_model` returns.
    """

    columns: tuple[ColumnSchema, ...]
    named: bool
    """Whether columns are found by name, in a DataFrame; else they are the places of an array."""
    table: bool
    """Whether the model prepares a table itself: then it takes nothing but a DataFrame."""

    @classmethod
    def of(cls, model: Any) -> Schema:
        """Read the schema off a fitted classifier, or a pipeline of `genlabel.data.table_pipeline`.

        >>> from sklearn.datasets import load_iris
        >>> from genlabel import GenerativeClassifier
        >>> X, y = load_iris(return_X_y=True, as_frame=True)
        >>> Schema.of(GenerativeClassifier().fit(X, y)).columns[0]
        Column(name='sepal length (cm)', kind='numbers', categories=())
        """
        first = model.steps[0][1] if isinstance(model, Pipeline) else model
        if isinstance(first, ColumnTransformer):
            used = _used(first)
            return cls(tuple(used[name] for name in first.feature_names_in_ if name in used), named=True, table=True)
        names = getattr(first, "feature_names_in_", None)
        if isinstance(first, ProbabilityClassifier) and isinstance(first.encoder_, Columns):
            if names is None:
                raise PersistenceError(UNNAMED)
            used = _used(first.encoder_.columns.steps[0][1])
            return cls(tuple(used.get(name, ColumnSchema(name, UNUSED)) for name in names), named=True, table=True)
        given = [f"x{place}" for place in range(first.n_features_in_)] if names is None else names.tolist()
        return cls(tuple(ColumnSchema(name, "numbers") for name in given), named=names is not None, table=False)

    def check(self, X: Any) -> Any:
        """Return what the model takes of a table: its columns in their order; raise where one is missing or unlike.

        A column without values is of any kind. Texts that all read as numbers are taken as numbers, and numbers as
        text where each is one of the categories.
        """
        if not isinstance(X, pd.DataFrame):
            if self.table:
                raise ValueError(f"X is {type(X).__name__}; pass a pandas DataFrame with the columns {self._names}")
            return self._checked_array(X)
        if not self.named:
            return self._checked_array(X)
        self._check_names(list(X.columns))
        fitting = {column.name: _fitting(X.get(column.name, _nothing(X)), column) for column in self.columns}
        if list(fitting) == list(X.columns) and all(values.dtype == X[name].dtype for name, values in fitting.items()):
            return X  # the very table: one that is put together anew has another order in memory
        return pd.DataFrame(fitting, index=X.index)

    def probes(self) -> pd.DataFrame:
        """Three rows such as a table might have: with some values, with others, and with none."""
        rows: dict[str, Any] = {}
        for name, kind, categories in self.columns:
            some: list[Any] = [0.0, 1.0] if kind == "numbers" else [*categories[:1], *categories[-1:]] or [None, None]
            rows[name] = pd.Series([*some, None], dtype="float64" if kind == "numbers" else object)
        return pd.DataFrame(rows)

    def to_plain(self) -> dict[str, Any]:
        """Return it as JSON holds it."""
        columns = [{"name": c.name, "kind": c.kind, "categories": list(c.categories)} for c in self.columns]
        return {"columns": columns, "named": self.named, "table": self.table}

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Self:
        """Return it from what JSON held."""
        columns = [
            ColumnSchema(str(c["name"]), str(c["kind"]), tuple(map(str, c["categories"]))) for c in plain["columns"]
        ]
        return cls(tuple(columns), bool(plain["named"]), bool(plain["table"]))

    @property
    def _names(self) -> str:
        return _listed([column.name for column in self.columns])

    def _checked_array(self, X: Any) -> Any:
        shape = np.shape(X)
        if len(shape) != 2 or shape[1] != len(self.columns):
            raise ValueError(f"X has shape {shape}; the model takes {len(self.columns)} columns: {self._names}")
        return X

    def _check_names(self, given: list[Any]) -> None:
        missing = [column.name for column in self.columns if column.name not in given and column.kind != UNUSED]
        if missing:
            known = {column.name for column in self.columns}
            near = get_close_matches(missing[0], [x for x in given if isinstance(x, str) and x not in known], n=1)
            hint = f"; is {near[0]!r} meant for {missing[0]!r}?" if near else ""
            count = f"the column {missing[0]!r}" if len(missing) == 1 else f"{len(missing)} columns: {_listed(missing)}"
            raise ValueError(f"the table lacks {count}{hint or '; the model was fitted with it, add it'}")
        twice = [column.name for column in self.columns if given.count(column.name) > 1]
        if twice:
            raise ValueError(f"the table has several columns named {_listed(twice)}; keep one of each")


def _used(columns: ColumnTransformer) -> dict[str, ColumnSchema]:
    """The columns that a fitted table preparation uses, by name."""
    found: dict[str, ColumnSchema] = {}
    for kind, part, names in columns.transformers_:
        if isinstance(part, str) and part == "drop":
            continue
        if not all(isinstance(name, str) for name in names):
            raise PersistenceError(UNNAMED)
        last = part.steps[-1][1] if isinstance(part, Pipeline) else part
        values = last.categories_ if isinstance(last, OneHotEncoder) else [()] * len(names)
        found |= {
            name: ColumnSchema(name, kind, tuple(map(str, each))) for name, each in zip(names, values, strict=True)
        }
    return found


def _fitting(values: pd.Series[Any], column: ColumnSchema) -> pd.Series[Any]:
    """The values as the kind of the column, or raise."""
    known = values.dropna()
    kind = kind_of(values)
    if column.kind in (kind, UNUSED) or known.empty:
        return values
    if column.kind == "numbers" and kind == "text":
        numbers = pd.to_numeric(known, errors="coerce")
        if not numbers.isna().any():
            return numbers.reindex(values.index)
        strange = known[numbers.isna()]
    else:
        as_read = as_strings(known.to_frame())[column.name]
        if as_read.isin(column.categories).all():
            return values
        strange = known[~as_read.isin(column.categories)]
    usual = f", such as {_listed(column.categories)}" if column.categories else ""
    raise ValueError(
        f"the column {column.name!r} holds {_called(kind)}, such as {str(strange.iloc[0])!r}, but the model was fitted "
        f"with {_called(column.kind)} there{usual}; give the column as it was then"
    )


def _nothing(X: pd.DataFrame) -> pd.Series[Any]:
    """A column without values."""
    return pd.Series(None, index=X.index, dtype=object)


def _called(kind: str) -> str:
    return {"time": "dates or times"}.get(kind, kind)


def _listed(names: Sequence[Any]) -> str:
    shown = ", ".join(repr(name) for name in list(names)[:SHOWN])
    return f"{shown} and {len(names) - SHOWN} more" if len(names) > SHOWN else shown
