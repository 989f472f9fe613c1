"""Column types of a table: which features each column makes, and which columns are left out."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import pandas as pd
from pandas.api import types

from genlabel._text import count_of
from genlabel.data.tables.mistakes import (
    MIN_NUMBER_SHARE,
    describe_notation,
    in_any_notation,
    list_values,
    note_capitals,
    note_mostly_numbers,
    note_sentinels,
)
from genlabel.data.tables.parse_values import (
    CURRENCY,
    MAX_UNPARSED_SHARE,
    SAMPLE_SIZE,
    infer_date_format,
    infer_notation,
    is_placeholder,
    parse_dates,
    parse_numbers,
)

MAX_CATEGORIES = 20
"""Maximum of one-hot features of a string column; a numeric target with more distinct values may be a quantity."""
MAX_ONCE_SHARE = 0.5
"""Share of the values of a string column that occur once, above which the column identifies rows."""
SECONDS_PER_DAY = 86_400.0
MIN_DAYS_FOR_MONTH = 60
"""Days that dates must span for their month to be a feature."""
TRUTH_VALUES = dict.fromkeys(("true", "t", "yes", "y", "1", "1.0"), 1.0)
TRUTH_VALUES |= dict.fromkeys(("false", "f", "no", "n", "0", "0.0"), 0.0)
OBJECT_NUMBERS = ("decimal", "integer", "floating", "mixed-integer-float")
"""Inferred types of object columns that hold numbers."""
KIND_TITLES = {
    "number": "numbers",
    "amount": "numbers written as text",
    "boolean": "yes and no",
    "date": "dates",
    "duration": "durations, in days",
    "text": "text, a feature for each value",
}


@final
@dataclass(frozen=True)
class ColumnSpec:
    """Conversion of a file column to features; it has plain values only, to be saved and applied to another file.

    >>> prices = pd.DataFrame({"price": ["$5.00", "$1,234.50"]})
    >>> convert_columns(prices, [ColumnSpec("price", "amount", ("price",), format=".")])["price"].tolist()
    [5.0, 1234.5]
    """

    name: str
    kind: str
    """"number", "amount" (a number with signs, such as $), "boolean", "text", "date" or "duration"."""
    features: tuple[str, ...] = ()
    """Names of the features that the column makes; empty if it is left out."""
    reason: str = ""
    """Why the column is left out."""
    format: str = ""
    """Format of dates in a string column; notation of numbers, see `infer_notation`, "" for that of Python."""


@contextmanager
def clear_unicode_errors() -> Iterator[None]:
    """Turn the error of pandas about a lone surrogate, which JSON may hold, into one that shows the string."""
    try:
        yield
    except UnicodeEncodeError as error:
        shown = ascii(error.object[max(error.start - 20, 0) : error.end + 20])
        raise ValueError(
            f"X has the string {shown}, which is not valid Unicode (character {error.start}); fix or remove it"
        ) from error


def plan_columns(
    frame: pd.DataFrame, force_include: Iterable[str] = (), notes: list[str] | None = None, decimal: str = "."
) -> list[ColumnSpec]:
    """Decide which features each column of a frame makes; notes receive a line for each change.

    Numbers stay; strings such as "1,234", "$5.00" or "12%" become numbers; dates become the day number, month, weekday
    and hour, as far as these vary; other strings and categories stay strings. Columns without values, with a single
    value, row numbers, and string columns most of whose values occur once are left out. A column in `force_include` is
    left out only if it has no values. `decimal` is the decimal mark of the file, for a column of strings such as
    "1.234" that could have either.

    >>> frame = pd.DataFrame({"price": ["$5.00", "$1,234.50"], "day": ["2024-05-31", "2024-06-03"], "odd": ["", ""]})
    >>> [(column.name, column.kind, column.features) for column in plan_columns(frame)]
    [('price', 'amount', ('price',)), ('day', 'date', ('day (day)', 'day (weekday)')), ('odd', 'text', ())]
    """
    notes = [] if notes is None else notes
    forced = set(force_include)
    columns = []
    for name in frame.columns:
        column = frame[name]
        with clear_unicode_errors():
            kind, column_format = _infer_kind(column, notes, decimal)
            # Objects may not be hashable; the strings of numbers would take most of the time of reading a wide table.
            distinct = (column if types.is_numeric_dtype(column) else column.dropna().astype(str)).nunique()
        if distinct == 0:
            reason = "it has no values"
        elif str(name) in forced:
            reason = ""
        elif distinct == 1 and not column.isna().any():
            reason = "it has a single value"
        else:
            reason = _identifier_reason(column, kind)
        if not reason and kind in ("text", "number"):
            notes += note_sentinels(to_float(column)) if kind == "number" else note_capitals(column)
        if reason:
            features = []
        elif kind == "date":
            features = [f"{name} ({part})" for part in _date_parts(_to_datetime(column, column_format))]
            while set(features) & set(frame.columns):  # another column has this name
                features = [f"{feature}'" if feature in frame.columns else feature for feature in features]
        else:
            features = [str(name)]
        columns.append(ColumnSpec(str(name), kind, tuple(features), reason, column_format))
    notes += [f"left out column {column.name!r}: {column.reason}" for column in columns if column.reason]
    return columns


def convert_columns(
    frame: pd.DataFrame, columns: Sequence[ColumnSpec], notes: list[str] | None = None, decimal: str = "."
) -> pd.DataFrame:
    """Return the features (n, d) that the columns of a frame make: numbers and booleans, or strings.

    The plan may have been made for another frame; notes receive a line for values that become missing values, with
    their rows in the index of the frame. `decimal` is the decimal mark of the file of this frame.

    >>> columns = plan_columns(pd.DataFrame({"share": ["12%", "8%"]}))
    >>> convert_columns(pd.DataFrame({"share": ["50%"]}), columns)["share"].tolist()
    [0.5]
    """
    notes = [] if notes is None else notes
    parts = [_convert_column(frame[column.name], column, notes, decimal) for column in columns if column.features]
    return pd.concat(parts, axis=1) if parts else pd.DataFrame(index=frame.index)


def describe_columns(columns: Sequence[ColumnSpec], X: pd.DataFrame) -> list[str]:
    """Return a line for each kind of column that says which features it makes.

    >>> X = pd.DataFrame({"a": [1, 2], "b": ["u", "v"]})
    >>> describe_columns(plan_columns(X), X)
    ['columns of numbers (1): a', 'columns of text, a feature for each value (1): b (2 values)']
    """
    by_kind: dict[str, list[str]] = {kind: [] for kind in KIND_TITLES}
    for column in columns:
        features = [name for name in column.features if name in X]
        text = column.name
        if not features:
            continue
        if column.kind == "text":
            count = X[features[0]].nunique()
            rest = f", all but the {MAX_CATEGORIES - 1} most frequent in one feature" if count > MAX_CATEGORIES else ""
            text += f" ({count_of(count, 'value')}{rest})"
        if column.kind == "date":
            text += f" ({', '.join(name.removeprefix(f'{column.name} ').strip('()') for name in features)})"
        by_kind[column.kind].append(text)
    lines = []
    for kind, names in by_kind.items():
        if names:
            more = f" and {len(names) - 12} more" if len(names) > 12 else ""
            lines.append(f"columns of {KIND_TITLES[kind]} ({len(names)}): {', '.join(names[:12])}{more}")
    return lines


def why_not_a_feature(column: pd.Series[Any]) -> str:
    """Return why a column cannot be a feature of a table that has no `ColumnSpec`; empty if it can.

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
    numeric = kind == "text" and pd.to_numeric(column.dropna(), errors="coerce").isna().mean() <= MAX_UNPARSED_SHARE
    return _identifier_reason(column, "number" if numeric else kind)


def kind_of(column: pd.Series[Any]) -> str:
    """Return "numbers", "text" or "time"; a string column of dates such as 2024-05-31 is "time"."""
    kind = types.infer_dtype(column, skipna=True)
    if types.is_numeric_dtype(column) or kind in ("boolean", "decimal", "integer", "floating"):
        return "numbers"
    if kind.startswith(("date", "time", "period")):
        return "time"
    strings = column.dropna().astype(str)
    dates = kind == "string" and len(strings) > 0 and strings.str.match(r"\d{4}-\d\d-\d\d").all()
    return "time" if dates else "text"


def as_floats(X: pd.DataFrame) -> pd.DataFrame:
    """Return numbers and booleans of every dtype as float64, missing values as NaN."""
    return X.apply(to_float)


def as_strings(X: pd.DataFrame) -> pd.DataFrame:
    """Return every value as a string, a missing value as "(missing)"."""
    return X.astype(object).where(X.notna(), "(missing)").astype(str).astype(object)


def has_numbers(column: pd.Series[Any]) -> bool:
    """Return whether a column has numbers, perhaps as objects such as decimals; booleans count as numbers."""
    return types.is_numeric_dtype(column) or types.infer_dtype(column, skipna=True) in OBJECT_NUMBERS


def to_float(column: pd.Series[Any]) -> pd.Series[Any]:
    """Return a column of numbers as float64, missing values as NaN."""
    if column.dtype == np.float64:
        return column
    if types.is_object_dtype(column):
        column = column.map(float, na_action="ignore")
    return column.astype("Float64").astype("float64")


# Planning


def _infer_kind(column: pd.Series[Any], notes: list[str], decimal: str) -> tuple[str, str]:
    """Return the kind of a column, and the notation of its numbers or the format of its dates."""
    inferred = types.infer_dtype(column, skipna=True)
    if types.is_bool_dtype(column) or inferred == "boolean":
        return "boolean", ""
    if has_numbers(column):
        return "number", decimal.removeprefix(".")
    if inferred.startswith("time"):
        return "duration", ""
    if inferred.startswith(("date", "period")):
        return "date", ""
    strings = column.dropna().astype(str)
    without_gaps = strings[~is_placeholder(strings)]
    if len(without_gaps) < MIN_NUMBER_SHARE * len(strings) or without_gaps.nunique() < 2:
        without_gaps = strings  # they may be a category
    sample = without_gaps.iloc[:: 1 + len(without_gaps) // SAMPLE_SIZE]
    notation, numbers = ".", pd.Series(np.nan, index=without_gaps.index)
    if len(sample) and parse_numbers(sample).isna().mean() <= 1 - MIN_NUMBER_SHARE:
        notation = infer_notation(without_gaps, decimal)
        numbers = parse_numbers(without_gaps, notation)
    if len(without_gaps) and numbers.isna().mean() <= MAX_UNPARSED_SHARE:
        with_signs = without_gaps[numbers.notna() & (pd.to_numeric(without_gaps, errors="coerce") != numbers)]
        if len(with_signs):
            text, value = with_signs.iloc[0], numbers[with_signs.index[0]]
            notes.append(f"strings of {column.name!r} were read as numbers, such as {text!r} as {value:.10g}")
        return "amount", notation
    date_format = infer_date_format(without_gaps)
    if date_format.endswith("?"):
        notes.append(f"dates of {column.name!r} were read with the month first; no day is above 12")
    if date_format:
        return "date", date_format
    notes += note_mostly_numbers(without_gaps, numbers, notation)
    return "text", ""


def _identifier_reason(column: pd.Series[Any], kind: str) -> str:
    """Return why a column identifies rows; empty if it does not."""
    nameless = str(column.name).startswith("Unnamed: ") and types.is_integer_dtype(column)
    if nameless and bool(column.is_unique):  # the index that DataFrame.to_csv writes
        return "it is the row number"
    if kind != "text":
        return ""
    values = column.dropna().astype(str)
    once = float((~values.duplicated(keep=False)).mean())
    if values.nunique() > MAX_CATEGORIES and once > MAX_ONCE_SHARE:
        return f"{100 * once:.0f} % of its values occur in one row only, so it looks like an identifier"
    return ""


# Conversion


def _convert_column(column: pd.Series[Any], spec: ColumnSpec, notes: list[str], decimal: str) -> pd.DataFrame:
    """Return the features of a column; values that cannot be parsed become missing values, with a note."""
    values, noun = _parse_column(column, spec, notes, decimal)
    unparsed = column[values.isna() & column.notna()].map(str)
    other = in_any_notation(unparsed) if noun == "numbers" else pd.Series(False, unparsed.index)
    written = f"not written with {describe_notation(spec.format or '.', unparsed)}, as the column is,"
    for named, reason in (
        (unparsed[~other], f"are not {noun} and count as missing"),
        (unparsed[other], f"are {written} and count as missing"),
    ):
        if len(named):
            notes.append(f"values of {column.name!r} that {reason}: {len(named)} ({list_values(named)})")
    if spec.kind == "date":
        parts = _date_parts(values, [name.removeprefix(f"{spec.name} ").strip("()'") for name in spec.features])
        return parts.set_axis(list(spec.features), axis=1)
    if noun == "numbers":
        infinite = np.isinf(to_float(values).to_numpy())
        if infinite.any():
            notes.append(f"infinite values of {column.name!r} that count as missing: {infinite.sum()}")
            values = values.mask(infinite)
    return values.to_frame(spec.features[0])


def _parse_column(
    column: pd.Series[Any], spec: ColumnSpec, notes: list[str], decimal: str
) -> tuple[pd.Series[Any], str]:
    """Return the values of a column, durations and times of day in days, and a noun for them."""
    if spec.kind == "date":
        return _to_datetime(column, spec.format), "dates"
    if spec.kind == "text":
        return column.str.strip() if types.infer_dtype(column, skipna=True) == "string" else column, "text"
    noun = "truth values" if spec.kind == "boolean" else "numbers"
    if types.is_numeric_dtype(column) or (spec.kind == "boolean" and types.is_bool_dtype(column)):
        return column, noun
    if spec.kind == "boolean":
        truths = column.map(lambda value: TRUTH_VALUES.get(str(value).strip().lower(), np.nan))
        return truths.astype("float64"), noun
    if spec.kind == "duration":
        spans = column.map(lambda value: str(value) if isinstance(value, datetime.time) else value, na_action="ignore")
        return pd.to_timedelta(spans, errors="coerce").dt.total_seconds() / SECONDS_PER_DAY, noun
    if has_numbers(column):
        return to_float(column), noun
    strings = column.dropna().astype(str)
    trained = spec.format or "."
    notation = _notation_here(strings, trained, decimal)
    numbers = parse_numbers(strings, notation)
    if notation != trained:
        contradicting = strings[numbers.notna() & parse_numbers(strings, trained).isna()]
        notes.append(
            f"numbers of {column.name!r} were read with {describe_notation(notation)}, unlike those of training "
            f"({describe_notation(trained)}): {list_values(contradicting if len(contradicting) else strings)}"
        )
    currencies = strings.str.findall(CURRENCY).str[0].dropna()
    if currencies.nunique() > 1:
        listed = list_values(currencies)
        notes.append(f"amounts of {column.name!r} in several currencies were not converted: {listed}")
    return numbers.reindex(column.index), noun


def _notation_here(strings: pd.Series[Any], trained: str, decimal: str) -> str:
    """Return the notation of a column of strings: that of its specification, unless they contradict it.

    The other decimal mark is used if no string needs that of the specification and if some string needs the other one,
    or the file has decimal commas.
    """
    other = ("." if trained[0] == "," else ",") + trained[1:]
    has_other_mark = other[0] == "," == decimal
    in_trained = parse_numbers(strings, trained).notna()
    if in_trained.all() and not has_other_mark:
        return trained
    in_other = parse_numbers(strings, other).notna()
    if (in_trained & ~in_other).any() or not ((in_other & ~in_trained).any() or has_other_mark):
        return trained
    return other


def _to_datetime(column: pd.Series[Any], date_format: str) -> pd.Series[Any]:
    if date_format:
        return parse_dates(column.astype(object).where(column.notna(), None), date_format)
    kind = types.infer_dtype(column, skipna=True)
    if kind == "string":  # in another file than the one that was planned
        return parse_dates(column, "ISO8601")
    if kind == "period":
        column = pd.PeriodIndex(column).to_timestamp().to_series(index=column.index)
    return pd.to_datetime(column, errors="coerce", utc=True).dt.tz_localize(None).astype("datetime64[ns]")


def _date_parts(dates: pd.Series[Any], names: Sequence[str] | None = None) -> pd.DataFrame:
    """Return parts of dates by name: day (since 1970), month, weekday, hour; by default the day and those that vary."""
    days = (dates - pd.Timestamp(0)).dt.total_seconds() / SECONDS_PER_DAY
    parts = {"day": days, "month": dates.dt.month, "weekday": dates.dt.day_of_week, "hour": dates.dt.hour}
    if names is None:
        candidates = ["month", "weekday", "hour"]
        if days.max() - days.min() < MIN_DAYS_FOR_MONTH:
            candidates.remove("month")
        names = ["day", *(name for name in candidates if parts[name].nunique() > 1)]
    return pd.DataFrame({name: parts[name].astype("float64") for name in names})
