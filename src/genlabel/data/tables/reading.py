"""Labeled tables from files, and the specification that reads another file in the same way."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self, final

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api import types

from genlabel.data.tables.columns import ColumnSpec, convert_columns, kind_of, plan_columns
from genlabel.data.tables.files import check_columns, missing_columns_error, read_frame, table_name
from genlabel.data.tables.mistakes import list_values
from genlabel.data.tables.parse_values import NA_WORDS, parse_numbers
from genlabel.data.tables.table import Table
from genlabel.data.tables.targets import bin_target, find_bin_edges, read_target


def read_table(
    path: str | Path,
    target: str,
    *,
    na_values: Iterable[str] = (),
    drop: Iterable[str] = (),
    force_include: Iterable[str] = (),
    target_is_categorical: bool = False,
    bins: int | None = None,
    groups: str | None = None,
    time: str | None = None,
) -> Table:
    """Read a labeled table from a file; the notes of the table list what was changed.

    This function does not look for leaks: see `drop_leaks`.

    Parameters
    ----------
    path : path
        File that `read_frame` can read.
    target : str
        The label column.
    na_values : iterable of str
        Values that count as missing, in every column, in addition to empty cells and the usual words.
    drop : iterable of str
        Columns that are not used.
    force_include : iterable of str
        Columns that are used even if they look like identifiers, or hold the groups or times.
    target_is_categorical : bool
        Take each distinct number of the target as a class.
    bins : int, optional
        Number of classes of about equal size into which a numeric target is cut.
    groups : str, optional
        A column of groups: rows with equal values stay on one side of a split; each row without a value is a group.
    time : str, optional
        A column of dates or numbers: splits train on earlier rows.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder, "t.csv")
    ...     _ = file.write_text("price,who,label\\n$5.00,ann,no\\n-9,bob,yes\\n$7.50,ann,no\\n")
    ...     table = read_table(file, "label", na_values=["-9"], groups="who")
    >>> table.X["price"].tolist(), table.groups.tolist(), table.y.tolist()
    ([5.0, nan, 7.5], [0, 1, 0], ['no', 'yes', 'no'])
    """
    path, source = Path(path), str(path)
    drop, force_include, na_strings = list(drop), list(force_include), tuple(na_values)
    notes: list[str] = []
    frame = read_frame(path, target, notes)
    decimal = frame.attrs.get("decimal", ".")
    options = {"target": [target], "drop": drop, "force_include": force_include}
    options |= {"groups": [] if groups is None else [groups], "time": [] if time is None else [time]}
    for option, names in options.items():
        check_columns(option, names, frame.columns, source)
    for option in ("groups", "time", "drop"):
        if target in options[option]:
            raise ValueError(f"{option}={target!r} is the target; name another column")
    frame = replace_na_values(frame, na_strings)
    y = read_target(frame[target], source, target_is_categorical=target_is_categorical, bins=bins, notes=notes)
    bin_edges = () if bins is None else tuple(find_bin_edges(frame[target], bins, source))
    unread = frame[target][y.isna() & frame[target].notna()].astype(str).str.strip()
    unread = unread[~unread.isin(["", *NA_WORDS])]
    if len(unread):
        count = f"{len(unread)} ({list_values(unread)})"
        notes.append(f"labels of {target!r} that are not numbers and count as missing: {count}")
    frame = frame.assign(**{target: y})
    for name in [target, *options["time"]]:
        missing = frame[name].isna()
        if missing.any():
            frame = frame[~missing]
            notes.append(f"rows dropped because {name!r} is missing: {missing.sum()}")
    rows = pd.Series(frame.index)
    unused = {*options["groups"], *options["time"]} - set(force_include)
    unused |= {target, *drop}
    features = frame[[name for name in frame.columns if name not in unused]]
    columns = plan_columns(features, force_include, notes, decimal)  # with the rows of the file
    X = convert_columns(features, columns, notes, decimal).reset_index(drop=True)
    frame = frame.reset_index(drop=True)
    if not len(X.columns):
        raise ValueError(f"{source!r} has no column of features; it needs at least one in addition to the target")
    y = frame[target].astype("int64") if types.is_numeric_dtype(frame[target]) else frame[target].astype(str)
    return Table(
        table_name(path),
        X,
        y,
        notes,
        columns,
        groups=None if groups is None else _encode_groups(frame[groups]),
        time=None if time is None else _parse_time(frame[time], source),
        na_values=na_strings,
        bin_edges=bin_edges,
        rows=rows,
    )


@final
@dataclass(frozen=True)
class TableReadSpec:
    """Specification of how a table was read: the conversion of its columns, and what counts as missing.

    It has plain values only, so that it can be saved with a model, and reads another file in the same way.

    Examples
    --------
    >>> X, y = pd.DataFrame({"price": [5.0, 1234.5]}), pd.Series(["no", "yes"], name="paid")
    >>> spec = TableReadSpec.of(Table("t", X, y, columns=[ColumnSpec("price", "amount", ("price",), format=".")]))
    >>> new, notes = pd.DataFrame({"price": ["$7.50", "none"], "who": ["ann", "bob"]}), []
    >>> spec.features_of(new, notes)["price"].tolist()
    [7.5, nan]
    >>> notes
    ["values of 'price' that are not numbers and count as missing: 1 ('none' in row 1, counted from 0)",
     "missing values of 'price', which had none in training: 1"]
    """

    target: str
    columns: tuple[ColumnSpec, ...]
    """The columns that make features."""
    features: tuple[str, ...]
    """Names of the features in their order."""
    features_with_missing: tuple[str, ...] = ()
    """The features that had missing values."""
    na_values: tuple[str, ...] = ()
    """Values that count as missing, in addition to the usual ones."""
    bin_edges: tuple[float, ...] = ()
    """Edges at which a numeric target was cut into classes."""

    @classmethod
    def of(cls, table: Table) -> Self:
        """Return the specification of a table, after leaks were dropped."""
        features = tuple(str(name) for name in table.X.columns)
        all_columns = list(table.columns)
        if not all_columns:  # the table does not come from a file
            for name in features:
                kind = "number" if kind_of(table.X[name]) == "numbers" else "text"
                kind = "boolean" if types.is_bool_dtype(table.X[name]) else kind
                all_columns.append(ColumnSpec(name, kind, (name,)))
        columns = tuple(column for column in all_columns if set(column.features) & set(features))
        with_missing = tuple(str(name) for name in table.X.columns[table.X.isna().any()])
        return cls(str(table.y.name), columns, features, with_missing, table.na_values, table.bin_edges)

    @property
    def day_features(self) -> dict[str, str]:
        """The column of dates of each feature that counts days."""
        dates = [column for column in self.columns if column.kind == "date"]
        return {name: column.name for column in dates for name in column.features if name.rstrip("'").endswith("(day)")}

    def to_plain(self) -> dict[str, Any]:
        """Return plain values, fit for JSON."""
        return json.loads(json.dumps(asdict(self)))

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Self:
        """Return the specification of plain values that `to_plain` returned."""
        columns = tuple(ColumnSpec(**{**column, "features": tuple(column["features"])}) for column in plain["columns"])
        names = ("features", "features_with_missing", "na_values", "bin_edges")
        return cls(str(plain["target"]), columns, **{name: tuple(plain[name]) for name in names})

    def read(self, path: str | Path, notes: list[str] | None = None) -> pd.DataFrame:
        """Read another file; columns that were strings in training are read as strings."""
        strings = [column.name for column in self.columns if column.kind in ("text", "amount") or column.format]
        return read_frame(path, self.target, notes, strings)

    def features_of(self, frame: pd.DataFrame, notes: list[str] | None = None) -> pd.DataFrame:
        """Return the features (m, d) of a frame that `read` returned; each row is converted by itself.

        Other columns of the frame are ignored. Notes receive a line for values that become missing values, and for
        missing values where training had none.
        """
        notes = [] if notes is None else notes
        absent = [column.name for column in self.columns if column.name not in frame]
        if absent:
            known = {self.target, *(column.name for column in self.columns)}
            raise missing_columns_error(absent, [name for name in frame.columns if name not in known])
        marked = replace_na_values(frame[[column.name for column in self.columns]], self.na_values)
        X = convert_columns(marked, self.columns, notes, frame.attrs.get("decimal", "."))[list(self.features)]
        for column in self.columns:
            if column.kind == "text":  # also where the strings look like numbers
                values = X[column.name]
                strings = values.astype(object).where(values.notna(), None).map(str, na_action="ignore")
                X[column.name] = strings.astype("category")
                continue
            if column.kind == "number" and not types.is_numeric_dtype(frame[column.name]):
                X[[column.name]] = replace_na_values(X[[column.name]], self.na_values)
            used = [name for name in column.features if name in self.features]
            missing = int(X[used].isna().any(axis=1).sum())
            if missing and not set(used) & set(self.features_with_missing):
                notes.append(f"missing values of {column.name!r}, which had none in training: {missing}")
        return X

    def classes_of(self, frame: pd.DataFrame, classes: NDArray[Any]) -> NDArray[np.int64] | None:
        """Return the class index of each row, (m,), -1 for an unknown label; None without a target column."""
        if self.target not in frame:
            return None
        y = replace_na_values(frame[[self.target]], self.na_values)[self.target]
        if self.bin_edges:
            labels = bin_target(y, self.bin_edges)
        elif classes.dtype.kind in "iu":
            labels = parse_numbers(y.where(y.notna(), ""))
        else:
            labels = y.astype(object).where(y.notna(), None).map(lambda value: str(value).strip(), na_action="ignore")
        return pd.Index(classes).get_indexer(pd.Index(labels)).astype(np.int64)


def replace_na_values(frame: pd.DataFrame, na_values: Sequence[str]) -> pd.DataFrame:
    """Return the frame with NaN in place of `na_values`; strings match as strings, and in numeric columns as numbers.

    >>> replace_na_values(pd.DataFrame({"n": [1, -9], "t": ["-9", "u"]}), ["-9"]).isna().sum().tolist()
    [1, 1]
    """
    if not na_values:
        return frame
    numbers = pd.to_numeric(pd.Series(na_values, dtype=object), errors="coerce").dropna().tolist()
    masked = {}
    for name in frame.columns:
        column = frame[name]
        numeric = types.is_numeric_dtype(column) and not types.is_bool_dtype(column)
        is_missing = column.isin(numbers) if numeric else column.astype(str).str.strip().isin(na_values)
        masked[name] = column.mask(is_missing)
    return pd.DataFrame(masked, index=frame.index)


def _encode_groups(column: pd.Series[Any]) -> pd.Series[Any]:
    """Return the index of the group of each row; rows without a value are groups of their own."""
    codes = pd.factorize(column)[0].astype(np.int64)
    single = codes < 0
    codes[single] = codes.max(initial=-1) + 1 + np.arange(single.sum())
    return pd.Series(codes)


def _parse_time(column: pd.Series[Any], source: str) -> pd.Series[Any]:
    """Return the times of the rows as numbers."""
    name = str(column.name)
    columns = plan_columns(column.to_frame(), force_include=[name])
    if columns[0].kind not in ("number", "amount", "date", "duration"):
        raise ValueError(f"time={name!r} of {source!r} has neither dates nor numbers; name a column that does")
    time = convert_columns(column.to_frame(), columns).iloc[:, 0].astype("float64")
    if time.isna().any():
        value = str(column[time.isna()].iloc[0])
        raise ValueError(f"time={name!r} of {source!r} has values that are not dates, such as {value!r}; fix them")
    return time
