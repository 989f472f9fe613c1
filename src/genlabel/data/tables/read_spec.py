"""How a table was read from its file, plain, so that another file is read in the same way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self, final

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api import types

from genlabel.data.tables.columns import ColumnSpec, convert_columns, kind_of
from genlabel.data.tables.files import closest_name, join_names, read_frame
from genlabel.data.tables.parse_values import read_amounts
from genlabel.data.tables.reading import replace_na_values
from genlabel.data.tables.table import Table
from genlabel.data.tables.targets import cut_target


@final
@dataclass(frozen=True)
class TableReadSpec:
    """What was made of the columns of a file, and what counts as missing in it.

    Examples
    --------
    >>> X, y = pd.DataFrame({"price": [5.0, 1234.5]}), pd.Series(["no", "yes"], name="paid")
    >>> plan = TableReadSpec.of(Table("t", X, y, columns=[ColumnSpec("price", "amount", ("price",), way=".")]))
    >>> new, notes = pd.DataFrame({"price": ["$7.50", "none"], "who": ["ann", "bob"]}), []
    >>> plan.features_of(new, notes)["price"].tolist()
    [7.5, nan]
    >>> notes
    ["values of 'price' that are no numbers and count as missing: 1 ('none')",
     "missing values of 'price', which had none in training: 1"]
    """

    target: str
    columns: tuple[ColumnSpec, ...]
    """Those that make features."""
    features: tuple[str, ...]
    """The features that are used, in their order."""
    gaps: tuple[str, ...] = ()
    """The features that had missing values."""
    na_values: tuple[str, ...] = ()
    """Values that count as missing, besides the usual ones."""
    cuts: tuple[float, ...] = ()
    """Where a target of numbers was cut into classes."""

    @classmethod
    def of(cls, table: Table) -> Self:
        """Return how a table was read, after columns that leak were left out."""
        features = tuple(str(name) for name in table.X.columns)
        known = table.columns or [ColumnSpec(name, _kind(table.X[name]), (name,)) for name in features]
        columns = tuple(column for column in known if set(column.features) & set(features))
        gaps = tuple(str(name) for name in table.X.columns[table.X.isna().any()])
        return cls(str(table.y.name), columns, features, gaps, table.na_values, table.cuts)

    def to_plain(self) -> dict[str, Any]:
        """Return it as JSON holds it."""
        found = {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}
        columns = [{**column, "features": list(column["features"])} for column in found["columns"]]
        return {**found, "columns": columns}

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Self:
        """Return it from what JSON held."""
        columns = [ColumnSpec(**{**column, "features": tuple(column["features"])}) for column in plain["columns"]]
        parts: dict[str, Any] = {name: tuple(plain[name]) for name in ("features", "gaps", "na_values", "cuts")}
        return cls(str(plain["target"]), tuple(columns), **parts)

    def read(self, path: str | Path, notes: list[str] | None = None) -> pd.DataFrame:
        """Read a file; what was read as text is text, whatever its values look like here.

        Parameters
        ----------
        path : path
            As of `read_frame`.
        notes : list of str, optional
            Gets a line for what is unusual.
        """
        written = [column.name for column in self.columns if column.kind in ("text", "amount") or column.way]
        return read_frame(path, self.target, notes, written)

    def features_of(self, frame: pd.DataFrame, notes: list[str] | None = None) -> pd.DataFrame:
        """Return the features (m, d) of a frame as of `read`, each row by itself.

        Parameters
        ----------
        frame : DataFrame (m, ...)
            With the columns that make features; others count as nothing.
        notes : list of str, optional
            Gets a line for values that count as missing, and where there were none in training.
        """
        told = [] if notes is None else notes
        self._check(frame)
        marked = replace_na_values(frame[[column.name for column in self.columns]], self.na_values)
        X = convert_columns(marked, self.columns, told)[list(self.features)]
        for column in self.columns:
            if column.kind == "text":
                X[column.name] = _as_categories(X[column.name])
            elif column.kind == "number" and not types.is_numeric_dtype(frame[column.name]):
                X[[column.name]] = replace_na_values(X[[column.name]], self.na_values)
            told += [_tell_gaps(column, X)] if self._has_new_gaps(column, X) else []
        return X

    def classes_of(self, frame: pd.DataFrame, classes: NDArray[Any]) -> NDArray[np.int64] | None:
        """Return the place of the class of each row among the classes, (m,); -1 for none, None without a target."""
        if self.target not in frame:
            return None
        y = replace_na_values(frame[[self.target]], self.na_values)[self.target]
        if self.cuts:
            labels = cut_target(y, self.cuts)
        elif classes.dtype.kind in "iu":
            labels = read_amounts(y.where(y.notna(), ""))
        else:
            labels = y.astype(object).where(y.notna(), None).map(lambda value: str(value).strip(), na_action="ignore")
        return pd.Index(classes).get_indexer(pd.Index(labels)).astype(np.int64)

    def _check(self, frame: pd.DataFrame) -> None:
        """Raise where a column is missing; a misspelt one is told the near one."""
        missing = [column.name for column in self.columns if column.name not in frame]
        if missing:
            known = {self.target, *(column.name for column in self.columns)}
            near = closest_name(missing[0], [name for name in frame.columns if name not in known])
            hint = f"is {near!r} meant for it? Rename it" if near else "add it, it may be empty"
            which = (
                f"the column {missing[0]!r}"
                if len(missing) == 1
                else f"{len(missing)} columns, {join_names(missing, 4)}"
            )
            raise ValueError(f"the table lacks {which}; the model was fitted with it: {hint}")

    def _has_new_gaps(self, column: ColumnSpec, X: pd.DataFrame) -> bool:
        used = [name for name in column.features if name in self.features]
        return column.kind != "text" and not set(used) & set(self.gaps) and bool(X[used].isna().to_numpy().any())


def _kind(column: pd.Series[Any]) -> str:
    """The kind of a feature that was made of no file."""
    if types.is_bool_dtype(column):
        return "boolean"
    return "number" if kind_of(column) == "numbers" else "text"


def _as_categories(column: pd.Series[Any]) -> pd.Series[Any]:
    """Values as text that is never taken for anything else."""
    return column.astype(object).where(column.notna(), None).map(str, na_action="ignore").astype("category")


def _tell_gaps(column: ColumnSpec, X: pd.DataFrame) -> str:
    count = int(X[[name for name in column.features if name in X]].isna().any(axis=1).sum())
    return f"missing values of {column.name!r}, which had none in training: {count}"
