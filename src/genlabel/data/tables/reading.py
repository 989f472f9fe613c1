"""Read a labelled table from a file: its target, its features, and what tells groups and times."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pandas.api import types

from genlabel.data.tables.columns import convert_columns, plan_columns
from genlabel.data.tables.files import check_columns, read_frame, table_name
from genlabel.data.tables.table import Table
from genlabel.data.tables.targets import find_cuts, read_target


def read_table(
    path: str | Path,
    target: str,
    *,
    na_values: Iterable[str] = (),
    drop: Iterable[str] = (),
    force_include: Iterable[str] = (),
    classes: bool = False,
    bins: int | None = None,
    groups: str | None = None,
    time: str | None = None,
) -> Table:
    """Read a labelled table from a file; what was changed on the way is told in its notes.

    Leaks are not looked for here: see `drop_leaks`.

    Parameters
    ----------
    path : path
        As of `read_frame`.
    target : str
        The column of the labels.
    na_values : iterable of str
        Values that count as missing, in every column, besides empty cells and the usual words.
    drop : iterable of str
        Columns that are not used.
    force_include : iterable of str
        Columns that are used even if they look like identifiers, or tell groups or times.
    classes, bins
        What to do with a target of numbers, as of `read_target`.
    groups : str, optional
        A column whose equal values keep rows on one side of a split; a row without a value is by itself.
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
    path, drop, force_include, source = Path(path), list(drop), list(force_include), str(path)
    notes: list[str] = []
    frame = read_frame(path, target, notes)
    named = {
        "target": [target],
        "drop": drop,
        "force_include": force_include,
        "groups": _one(groups),
        "time": _one(time),
    }
    for option, names in named.items():
        check_columns(option, names, frame.columns, source)
    _check_choices(target, drop, groups, time)
    words = tuple(na_values)
    frame = replace_na_values(frame, words)
    y = read_target(frame[target], source, classes=classes, bins=bins, notes=notes)
    cuts = () if bins is None else tuple(find_cuts(frame[target], bins, source))
    frame = _complete(frame.assign(**{target: y}), target, time, notes)
    rows, frame = pd.Series(frame.index), frame.reset_index(drop=True)
    apart = {target, *drop, *({*_one(groups), *_one(time)} - set(force_include))}
    features = frame[[name for name in frame.columns if name not in apart]]
    columns = plan_columns(features, force_include, notes)
    X = convert_columns(features, columns, notes)
    if not len(X.columns):
        raise ValueError(f"{source!r} has no column of features; it needs at least one besides the target")
    when = None if time is None else _read_time(frame[time], source)
    grouped = _read_groups(frame, groups)
    return Table(table_name(path), X, _settle(frame[target]), notes, columns, grouped, when, words, cuts, rows)


def _one(name: str | None) -> list[str]:
    return [] if name is None else [name]


def _check_choices(target: str, drop: Sequence[str], groups: str | None, time: str | None) -> None:
    for option, name in (("groups", groups), ("time", time)):
        if name == target:
            raise ValueError(f"{option}={name!r} is the target; name another column")
    if target in drop:
        raise ValueError(f"drop={target!r} is the target; name another column")


def replace_na_values(frame: pd.DataFrame, words: Sequence[str]) -> pd.DataFrame:
    """Return the frame with NaN where a value is one of the words, or the number that a word says.

    >>> replace_na_values(pd.DataFrame({"n": [1, -9], "t": ["-9", "u"]}), ["-9"]).isna().sum().tolist()
    [1, 1]
    """
    if not words:
        return frame
    numbers = pd.to_numeric(pd.Series(words, dtype=object), errors="coerce").dropna().tolist()
    marked = {}
    for name in frame.columns:
        column = frame[name]
        numeric = types.is_numeric_dtype(column) and not types.is_bool_dtype(column)
        hit = column.isin(numbers) if numeric else column.astype(str).str.strip().isin(words)
        marked[name] = column.mask(hit)
    return pd.DataFrame(marked, index=frame.index)


def _complete(frame: pd.DataFrame, target: str, time: str | None, notes: list[str]) -> pd.DataFrame:
    """The rows that have a target, and a time if that is asked for."""
    for name in [target, *_one(time)]:
        missing = frame[name].isna()
        if missing.any():
            frame = frame[~missing]
            notes.append(f"rows dropped because {name!r} is missing: {missing.sum()}")
    return frame


def _settle(y: pd.Series[Any]) -> pd.Series[Any]:
    """Labels without gaps: whole numbers or text."""
    return y.astype("int64") if types.is_numeric_dtype(y) else y.astype(str)


def _read_groups(frame: pd.DataFrame, groups: str | None) -> pd.Series[Any] | None:
    if groups is None:
        return None
    codes = pd.factorize(frame[groups])[0].astype(np.int64)
    alone = codes < 0
    codes[alone] = codes.max(initial=-1) + 1 + np.arange(alone.sum())
    return pd.Series(codes)


def _read_time(column: pd.Series[Any], source: str) -> pd.Series[Any]:
    """When each row was recorded, as a number."""
    name = str(column.name)
    plan = plan_columns(column.to_frame(), force_include=[name])
    if plan[0].kind not in ("number", "amount", "date", "duration"):
        raise ValueError(f"time={name!r} of {source!r} has neither dates nor numbers; name a column that does")
    when = convert_columns(column.to_frame(), plan).iloc[:, 0].astype("float64")
    if when.isna().any():
        wrong = column[when.isna()].iloc[0]
        raise ValueError(f"time={name!r} of {source!r} has values that are no dates, such as {str(wrong)!r}; mend them")
    return when
