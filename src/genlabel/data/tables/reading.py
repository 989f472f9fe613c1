"""Labeled tables from files, their target, and the specification that reads another file in the same way.

The values of a target are its classes, unless it looks like a quantity: then the user must say how to make classes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Self, final

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api import types

from genlabel._text import count_of
from genlabel._validation import check_count
from genlabel.data.tables.columns import (
    MAX_CATEGORIES,
    ColumnSpec,
    convert_columns,
    has_numbers,
    kind_of,
    plan_columns,
    to_float,
)
from genlabel.data.tables.files import check_columns, missing_columns_error, read_frame, table_name
from genlabel.data.tables.parse_values import MAX_UNPARSED_SHARE, NA_WORDS, infer_date_format, parse_numbers
from genlabel.data.tables.table import Table


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
    frame = frame.assign(**{target: y})
    for name in [target, *options["time"]]:
        missing = frame[name].isna()
        if missing.any():
            frame = frame[~missing]
            notes.append(f"rows dropped because {name!r} is missing: {missing.sum()}")
    rows = pd.Series(frame.index)
    frame = frame.reset_index(drop=True)
    unused = {*options["groups"], *options["time"]} - set(force_include)
    unused |= {target, *drop}
    features = frame[[name for name in frame.columns if name not in unused]]
    columns = plan_columns(features, force_include, notes)
    X = convert_columns(features, columns, notes)
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
    ["values of 'price' that are not numbers and count as missing: 1 ('none')",
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
        X = convert_columns(marked, self.columns, notes)[list(self.features)]
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


def read_target(
    y: pd.Series[Any],
    source: str,
    *,
    target_is_categorical: bool = False,
    bins: int | None = None,
    notes: list[str] | None = None,
) -> pd.Series[Any]:
    """Return the class of each row, integers or strings, NaN where it is missing.

    A target with more than 20 distinct numbers, or with a distinct number in more than half of the rows, is probably a
    quantity: then one of `target_is_categorical` and `bins` is needed, see `read_table`.

    >>> read_target(pd.Series(range(100)), "t.csv", bins=2).value_counts().to_dict()
    {'1: up to 49.5': 50, '2: above 49.5': 50}
    """
    notes = [] if notes is None else notes
    if target_is_categorical and bins is not None:
        raise ValueError(
            f"target_is_categorical=True and bins={bins} exclude each other for the target {y.name!r}; pass one of them"
        )
    if bins is not None:
        edges = find_bin_edges(y, bins, source)
        bin_names = _bin_names(edges)
        notes.append(f"the target {y.name!r} was cut into {len(bin_names)} classes: {', '.join(bin_names)}")
        return bin_target(y, edges)
    numbers = _parse_target(y)
    if numbers is None:
        _check_target(y, False, target_is_categorical, source)
        return _read_string_target(y, notes)
    _check_target(numbers.rename(str(y.name)), True, target_is_categorical, source)
    for word in NA_WORDS:
        if types.is_string_dtype(y) and (y == word).any():
            notes.append(f"{word!r} in the target {y.name!r} counts as missing, because the other values are numbers")
    if not bool((numbers.dropna() % 1 == 0).all()):
        return y.where(numbers.notna()).astype(str).where(numbers.notna())
    return numbers if numbers.isna().any() else numbers.astype("int64")


def _read_string_target(y: pd.Series[Any], notes: list[str]) -> pd.Series[Any]:
    """Return the labels without surrounding spaces; notes receive a line for classes that may be mistakes."""
    labels = y.astype(object).where(y.notna(), None)
    labels = labels.map(lambda value: str(value).strip() or None, na_action="ignore")
    names = pd.Series(sorted(labels.dropna().unique()), dtype=object)
    alike = names[names.map(str.casefold).duplicated(keep=False)]
    if len(alike):
        alike = alike.sort_values(key=lambda column: column.map(str.casefold), kind="stable")
        shown = ", ".join(map(repr, alike))
        notes.append(f"classes that differ only in capitals: {shown}; if they are one class, fix the file")
    for word in NA_WORDS:
        if count := int((labels == word).sum()):
            text = f"{word!r} in the target {y.name!r} is taken as a class of {count_of(count, 'row')}"
            notes.append(f"{text}; --na-values {word} makes it missing")
    return labels


def find_bin_edges(y: pd.Series[Any], bins: int, source: str) -> list[float]:
    """Return the edges that cut a numeric target into about equal classes, fewer where many values are equal."""
    check_count("bins", bins, low=2)
    numbers = _parse_target(y)
    if numbers is None:
        raise ValueError(f"bins={bins} is for numeric targets, but {y.name!r} of {source!r} has strings; leave it out")
    quantiles = np.unique(np.nanquantile(numbers, np.arange(1, bins) / bins))
    edges = quantiles[quantiles < numbers.max()]
    if not len(edges):
        raise ValueError(
            f"bins={bins} cannot cut {y.name!r} of {source!r}, because most numbers are equal; use "
            "target_is_categorical=True instead"
        )
    return [float(edge) for edge in edges]


def bin_target(y: pd.Series[Any], edges: Sequence[float]) -> pd.Series[Any]:
    """Return the class of each number by its bin; NaN for a value that is not a number.

    >>> bin_target(pd.Series(["1", "2", "none"]), [1.5]).tolist()
    ['1: up to 1.5', '2: above 1.5', nan]
    """
    numbers = _parse_target(y)
    numbers = parse_numbers(y.where(y.notna(), "")) if numbers is None else numbers
    index = pd.Series(np.searchsorted(edges, numbers.to_numpy(), side="left"), index=y.index, name=y.name)
    return index.map(dict(enumerate(_bin_names(edges)))).where(numbers.notna())


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


def _bin_names(edges: Sequence[float]) -> list[str]:
    shown = [f"{edge:.6g}" for edge in edges]
    between = [f"{low} to {high}" for low, high in pairwise(shown)]
    ranges = [f"up to {shown[0]}", *between, f"above {shown[-1]}"]
    return [f"{number}: {text}" for number, text in enumerate(ranges, 1)]


def _parse_target(y: pd.Series[Any]) -> pd.Series[Any] | None:
    """Return the target as numbers; None if it has strings, codes such as 007, or booleans."""
    if types.is_bool_dtype(y):
        return None
    if has_numbers(y):
        return to_float(y)
    strings = y.dropna().astype(str).str.strip()
    strings = strings[~strings.isin(NA_WORDS)]
    if not len(strings) or strings.str.match(r"0\d").any() or types.infer_dtype(y, skipna=True) != "string":
        return None
    numbers = parse_numbers(strings)
    quantity = numbers.nunique() > MAX_CATEGORIES and numbers.isna().mean() <= MAX_UNPARSED_SHARE
    return numbers.reindex(y.index) if quantity or numbers.notna().all() else None


def _check_target(y: pd.Series[Any], numeric: bool, categorical: bool, source: str) -> None:
    """Raise if a target is a quantity, an identifier, dates, or a single class."""
    distinct, n, name = y.nunique(), int(y.notna().sum()), f"target={y.name!r} of {source!r}"
    if numeric and not categorical and distinct > min(MAX_CATEGORIES, max(n // 2, 2)):
        raise ValueError(
            f"{name} has {distinct} distinct numbers in {n} rows and looks like a quantity; to take each number as a "
            "class use target_is_categorical=True; to cut them into 3 classes of about equal size use bins=3"
        )
    if not numeric and distinct > max(MAX_CATEGORIES, n // 2):
        raise ValueError(
            f"{name} has {distinct} distinct strings in {n} rows and looks like an identifier; name a column of classes"
        )
    has_many = not numeric and distinct > MAX_CATEGORIES
    if has_many and (types.is_datetime64_any_dtype(y) or infer_date_format(y.astype(object))):
        raise ValueError(f"{name} has {distinct} distinct dates; name a column of classes")
    if distinct < 2:
        raise ValueError(f"{name} has one class only (empty cells count as missing); name a column with two or more")
