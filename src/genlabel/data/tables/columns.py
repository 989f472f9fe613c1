"""The columns of a table: what kind each is, what is made of it, and which are no features at all."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import pandas as pd
from pandas.api import types

from genlabel.data.tables.parse_values import STRAYS, find_decimal, parse_dates, read_amounts, read_dates

MANY = 20
"""Columns that a text makes at most, and distinct values above which a target of numbers is asked about."""
DAY = 86_400.0
"""Seconds."""
YES, NO = ("true", "t", "yes", "y", "1", "1.0"), ("false", "f", "no", "n", "0", "0.0")
MONTHS = 60
"""Days that dates must span for their month to tell anything."""


@final
@dataclass(frozen=True)
class ColumnSpec:
    """What is made of a column of a file; plain, so that it can be kept and used on another file.

    >>> prices = pd.DataFrame({"price": ["$5.00", "$1,234.50"]})
    >>> convert_columns(prices, [ColumnSpec("price", "amount", ("price",), way=".")])["price"].tolist()
    [5.0, 1234.5]
    """

    name: str
    kind: str
    """"number", "amount" (a number written with signs), "boolean", "text", "date" or "duration"."""
    features: tuple[str, ...] = ()
    """The features that it makes, none if it is left out."""
    why: str = ""
    """Why it is left out."""
    way: str = ""
    """How texts are read as dates; of amounts, what stands before a fraction."""


@contextmanager
def clear_unicode_errors() -> Iterator[None]:
    """Turn what pandas says of a text that is half a letter, such as JSON may hold, into an error that names it.

    >>> with clear_unicode_errors():
    ...     pd.Series(["\\ud800"], dtype="string")
    Traceback (most recent call last):
    ValueError: a text of X, '\\ud800', is no Unicode: character 0 is half of one; mend it or take it away
    """
    try:
        yield
    except UnicodeEncodeError as error:
        shown = ascii(error.object[max(error.start - 20, 0) : error.end + 20])
        raise ValueError(
            f"a text of X, {shown}, is no Unicode: character {error.start} is half of one; mend it or take it away"
        ) from error


def plan_columns(
    frame: pd.DataFrame, force_include: Iterable[str] = (), notes: list[str] | None = None
) -> list[ColumnSpec]:
    """Say what is to be made of each column of a frame.

    Numbers stay; texts that read "1,234", "$5.00" or "12%" become numbers; dates become the number of the day, the
    month, the weekday and the hour, those that vary; other texts and categories stay texts. Left out are columns
    without values, with a single one, the number of the row, and texts of which most are distinct.

    Parameters
    ----------
    frame : DataFrame (n, d)
    force_include : iterable of str
        Columns that are not left out, whatever they look like, unless they have no values.
    notes : list of str, optional
        Gets a line for whatever is changed.

    Examples
    --------
    >>> frame = pd.DataFrame({"price": ["$5.00", "$1,234.50"], "day": ["2024-05-31", "2024-06-03"], "odd": ["", ""]})
    >>> [(column.name, column.kind, column.features) for column in plan_columns(frame)]
    [('price', 'amount', ('price',)), ('day', 'date', ('day (day)', 'day (weekday)')), ('odd', 'text', ())]
    """
    told = [] if notes is None else notes
    kept = set(force_include)
    with clear_unicode_errors():
        columns = [_plan(frame[name], str(name) in kept, told, set(frame.columns)) for name in frame.columns]
    told += [f"left out column {column.name!r}: {column.why}" for column in columns if column.why]
    return columns


def convert_columns(frame: pd.DataFrame, columns: Sequence[ColumnSpec], notes: list[str] | None = None) -> pd.DataFrame:
    """Return the features (n, d) that the columns of a frame make: numbers and booleans, or text.

    Parameters
    ----------
    frame : DataFrame
    columns : sequence of Column
        As of `plan_columns`, of this frame or of another one of the same columns.
    notes : list of str, optional
        Gets a line for values that count as missing.

    Examples
    --------
    >>> columns = plan_columns(pd.DataFrame({"share": ["12%", "8%"]}))
    >>> convert_columns(pd.DataFrame({"share": ["50%"]}), columns)["share"].tolist()
    [0.5]
    """
    told = [] if notes is None else notes
    parts = [_convert(frame[column.name], column, told) for column in columns if column.features]
    return pd.concat(parts, axis=1) if parts else pd.DataFrame(index=frame.index)


def describe_columns(columns: Sequence[ColumnSpec], X: pd.DataFrame) -> list[str]:
    """Return a line for each kind of column, with what was made of it.

    >>> X = pd.DataFrame({"a": [1, 2], "b": ["u", "v"]})
    >>> describe_columns(plan_columns(X), X)
    ['columns of numbers (1): a', 'columns of text, a feature for each value (1): b (2 values)']
    """
    heads = {
        "number": "numbers",
        "amount": "numbers written as text",
        "boolean": "yes and no",
        "date": "dates",
        "duration": "durations, in days",
        "text": "text, a feature for each value",
    }
    used = [column for column in columns if set(column.features) & set(X.columns)]
    lines = []
    for kind, head in heads.items():
        found = [_tell(column, X) for column in used if column.kind == kind]
        more = f" and {len(found) - 12} more" if len(found) > 12 else ""
        lines += [f"columns of {head} ({len(found)}): {', '.join(found[:12])}{more}"] if found else []
    return lines


def _tell(column: ColumnSpec, X: pd.DataFrame) -> str:
    if column.kind == "text":
        count = X[column.features[0]].nunique()
        return f"{column.name} ({count} values{f', the {MANY - 1} most frequent apart' if count > MANY else ''})"
    if column.kind == "date":
        parts = [name.removeprefix(f"{column.name} ").strip("()") for name in column.features if name in X]
        return f"{column.name} ({', '.join(parts)})"
    return column.name


def _plan(column: pd.Series[Any], keep: bool, notes: list[str], taken: set[str]) -> ColumnSpec:
    name, kind, way = str(column.name), _fine_kind(column), ""
    if kind == "text" and not types.is_bool_dtype(column):
        kind, way = _read_text(column, notes)
    why = _no_feature(column, kind, keep)
    if why:
        return ColumnSpec(name, kind, (), why, way)
    if kind != "date":
        return ColumnSpec(name, kind, (name,), "", way)
    parts = _date_parts(_as_dates(column, way))
    return ColumnSpec(name, kind, tuple(_free(f"{name} ({part})", taken) for part in parts), "", way)


def _free(name: str, taken: set[str]) -> str:
    """A name that no column has."""
    while name in taken:
        name += "'"
    return name


def _fine_kind(column: pd.Series[Any]) -> str:
    """The kind that the type of a column tells."""
    kind = types.infer_dtype(column, skipna=True)
    if types.is_bool_dtype(column) or kind == "boolean":
        return "boolean"
    if types.is_numeric_dtype(column) or kind in ("decimal", "integer", "floating", "mixed-integer-float"):
        return "number"
    if kind.startswith(("timedelta", "time")):
        return "duration"
    return "date" if kind.startswith(("date", "period")) else "text"


def _read_text(column: pd.Series[Any], notes: list[str]) -> tuple[str, str]:
    """Whether texts are numbers or dates, and how they are read."""
    known = column.dropna().astype(str)
    if len(known) and read_amounts(known).isna().mean() <= STRAYS:
        signs = known[pd.to_numeric(known, errors="coerce").isna() & read_amounts(known).notna()]
        if len(signs):
            one = signs.iloc[0]
            read = read_amounts(known)[signs.index[0]]
            notes.append(f"texts of {column.name!r} were read as numbers, such as {one!r} as {read:.10g}")
        return "amount", find_decimal(known)
    way = read_dates(column)[1]
    if way.endswith("?"):
        notes.append(f"dates of {column.name!r} were read with the month first; no day above 12 tells otherwise")
    return ("date", way) if way else ("text", "")


def _no_feature(column: pd.Series[Any], kind: str, keep: bool) -> str:
    """Why a column tells nothing about the class of a new row; empty if it may."""
    distinct = column.dropna().astype(str).nunique()
    if distinct == 0:
        return "it has no values"
    if keep:
        return ""
    if distinct == 1 and not column.isna().any():
        return "it has a single value"
    return _names_rows(column, kind, distinct)


def _names_rows(column: pd.Series[Any], kind: str, distinct: int) -> str:
    if _is_index(column):
        return "it numbers the rows"
    if kind == "text" and distinct > max(MANY, column.notna().sum() // 2):
        return f"{distinct} distinct texts in {len(column)} rows, it looks like an identifier"
    return ""


def why_not_a_feature(column: pd.Series[Any]) -> str:
    """Why a column that is used as it is, without a plan, tells nothing about the class of a new row; empty if it may.

    >>> why_not_a_feature(pd.Series(pd.date_range("2024-05-31", periods=3)))
    'dates and times are not used'
    """
    if column.isna().all():
        return "it has no values"
    kind = kind_of(column)
    if kind == "time":
        return "dates and times are not used"
    if types.is_complex_dtype(column):
        return "complex numbers are not used"
    numbers = kind == "text" and pd.to_numeric(column.dropna(), errors="coerce").isna().mean() <= STRAYS
    return _names_rows(column, "number" if numbers else kind, column.astype(str).nunique())


def _is_index(column: pd.Series[Any]) -> bool:
    """Is it the nameless row number that `DataFrame.to_csv` writes?"""
    nameless = str(column.name).startswith("Unnamed: ") and types.is_integer_dtype(column)
    return nameless and bool(column.is_unique)


def _convert(column: pd.Series[Any], plan: ColumnSpec, notes: list[str]) -> pd.DataFrame:
    """The features of a column; whatever cannot be read is missing, and told."""
    if plan.kind == "date":
        dates = _as_dates(column, plan.way)
        _tell_strays(column, dates, "dates", notes)
        parts = _date_parts(dates, tuple(name.removeprefix(f"{plan.name} ").strip("()'") for name in plan.features))
        return parts.set_axis(list(plan.features), axis=1)
    if plan.kind in ("number", "amount", "duration"):
        numbers = _as_numbers(column, plan.kind, plan.way)
        _tell_strays(column, numbers, "numbers", notes)
        column = _finite(column if types.is_numeric_dtype(column) else numbers, notes)
    if plan.kind == "boolean" and not types.is_bool_dtype(column) and not types.is_numeric_dtype(column):
        truths = column.map(_as_truth).astype("float64")
        _tell_strays(column, truths, "truth values", notes)
        column = truths
    if plan.kind == "text" and types.infer_dtype(column, skipna=True) == "string":
        column = column.str.strip()
    return column.to_frame(plan.features[0])


def _as_numbers(column: pd.Series[Any], kind: str, decimal: str) -> pd.Series[Any]:
    if kind == "duration":
        return _as_days(column)
    if types.is_numeric_dtype(column):
        return column
    if types.infer_dtype(column, skipna=True) in ("decimal", "integer", "floating", "mixed-integer-float"):
        return column.map(float, na_action="ignore").astype("float64")
    text = column.astype(object).where(column.notna(), "").astype(str)
    plain = pd.to_numeric(text, errors="coerce") if kind == "number" else pd.Series(np.nan, index=column.index)
    return plain.fillna(read_amounts(text, decimal)).where(column.notna()).astype("float64")


def _as_truth(value: Any) -> float:
    """1 for yes, 0 for no, NaN for what is neither."""
    word = str(value).strip().lower()
    return 1.0 if word in YES else 0.0 if word in NO else np.nan


def _as_days(column: pd.Series[Any]) -> pd.Series[Any]:
    """Times of a day and durations as days."""
    spans = column.map(lambda value: str(value) if isinstance(value, datetime.time) else value, na_action="ignore")
    return pd.to_timedelta(spans, errors="coerce").dt.total_seconds() / DAY


def _as_dates(column: pd.Series[Any], way: str) -> pd.Series[Any]:
    if way:
        return parse_dates(column.astype(object).where(column.notna(), None), way)
    kind = types.infer_dtype(column, skipna=True)
    if kind == "string":  # another file has texts for them
        return parse_dates(column, "ISO8601")
    if kind == "period":
        column = pd.PeriodIndex(column).to_timestamp().to_series(index=column.index)
    return pd.to_datetime(column, errors="coerce", utc=True).dt.tz_localize(None).astype("datetime64[ns]")


def _date_parts(dates: pd.Series[Any], wanted: Sequence[str] | None = None) -> pd.DataFrame:
    """The day since 1970, month, weekday and hour of dates: those wanted, or the day and those that vary."""
    days = (dates - pd.Timestamp(0)).dt.total_seconds() / DAY
    parts = {"day": days, "month": dates.dt.month, "weekday": dates.dt.day_of_week, "hour": dates.dt.hour}
    if wanted is None:
        several = [name for name, part in parts.items() if part.nunique() > 1]
        short = days.max() - days.min() < MONTHS
        wanted = ["day", *(name for name in several if name != "day" and not (name == "month" and short))]
    return pd.DataFrame({name: parts[name].astype("float64") for name in wanted})


def _tell_strays(column: pd.Series[Any], read: pd.Series[Any], what: str, notes: list[str]) -> None:
    strays = column[read.isna() & column.notna()]
    if len(strays):
        shown = ", ".join(repr(str(value)) for value in strays.unique()[:3])
        notes.append(f"values of {column.name!r} that are no {what} and count as missing: {len(strays)} ({shown})")


def _finite(column: pd.Series[Any], notes: list[str]) -> pd.Series[Any]:
    """Return the column with infinite values missing."""
    infinite = np.isinf(_floats(column).to_numpy())
    if infinite.any():
        notes.append(f"infinite values of {column.name!r} that count as missing: {infinite.sum()}")
    return column.mask(infinite) if infinite.any() else column


def kind_of(column: pd.Series[Any]) -> str:
    """Tell "numbers", "text" and "time" apart; text that reads 2024-05-31 throughout is a time.

    >>> [kind_of(pd.Series(values)) for values in ([1, None], ["a", "b"], ["2024-05-31", "2024-06-01"])]
    ['numbers', 'text', 'time']
    """
    kind = types.infer_dtype(column, skipna=True)
    if types.is_numeric_dtype(column) or kind in ("boolean", "decimal", "integer", "floating"):
        return "numbers"
    if kind.startswith(("date", "time", "period")):
        return "time"
    known = column.dropna().astype(str)
    dates = kind == "string" and len(known) > 0 and known.str.match(r"\d{4}-\d\d-\d\d").all()
    return "time" if dates else "text"


def as_numbers(X: pd.DataFrame) -> pd.DataFrame:
    """Numbers and booleans of every kind as floats, missing ones as NaN."""
    return X.apply(_floats)


def _floats(column: pd.Series[Any]) -> pd.Series[Any]:
    if types.is_object_dtype(column):
        column = column.map(float, na_action="ignore")
    return column.astype("Float64").astype("float64")


def as_text(X: pd.DataFrame) -> pd.DataFrame:
    """Every value as text, a missing one as "(missing)"."""
    return X.astype(object).where(X.notna(), "(missing)").astype(str).astype(object)
