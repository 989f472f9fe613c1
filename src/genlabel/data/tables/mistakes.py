"""Notes on values of a column that may be mistakes: numbers that make it text, codes for missing values, capitals."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from typing import Any

import pandas as pd

from genlabel.data.tables.parse_values import DAY_FORMATS, ISO, infer_date_format, parse_dates, parse_numbers

MAX_SHOWN_VALUES = 3
"""Values that a note names."""
MIN_NUMBER_SHARE = 0.5
"""Share of the values of a text column that are numbers or dates, from which a note says why it is text."""
MIN_DISTINCT_NUMBERS = 20
"""Distinct numbers above which a text column is no column of codes."""
WITH_UNIT = r"[-+]?\d+(?:[.,]\d+)?\s*[^\W\d_][^\d,;]*"
"""A number with its unit: 80 kg."""
SENTINEL = re.compile(r"-?9{2,}|-?9{2,}8")
"""A number that often stands for a missing value: -999, 99998."""
MIN_SENTINEL_ROWS = 2
SAMPLE_SIZE = 2000
"""Values of a text column that are examined before all values are."""


def note_mostly_numbers(strings: pd.Series[Any], numbers: pd.Series[Any], notation: str) -> list[str]:
    """Return a note on a column of text whose strings are mostly numbers or dates: the others, and a remedy.

    `numbers` are the strings as numbers in the notation of the column, NaN for the others.

    >>> strings = pd.Series([str(i) for i in range(60)] + ["on request"] * 20, name="price")
    >>> note_mostly_numbers(strings, pd.to_numeric(strings, errors="coerce"), ".")[0].split("; ")[1]
    "the others are 'on request' in row 60, counted from 0: missing values? Add --na-values='on request'"
    """
    step = len(strings) // SAMPLE_SIZE + 1
    if step > 1 and not note_mostly_numbers(strings[::step], numbers[::step], notation):
        return []
    stripped = strings.str.strip()
    matches = {pattern: stripped.str.fullmatch(f"(?:{pattern}).*") for pattern in (ISO, *DAY_FORMATS)}
    date_format = infer_date_format(strings, MIN_NUMBER_SHARE)
    readings = {
        "numbers": numbers.notna(),
        "numbers with a unit": stripped.str.fullmatch(WITH_UNIT),
        "dates": parse_dates(strings, date_format).notna() if date_format else max(matches.values(), key=sum),
    }
    kind = max(("numbers", "numbers with a unit"), key=lambda name: int(readings[name].sum()))
    if pd.concat(matches, axis=1).any(axis=1).mean() > MIN_NUMBER_SHARE:  # in several formats
        kind = "dates"
    of_kind, odd = strings[readings[kind]], strings[~readings[kind]]
    is_mostly = len(of_kind) > MIN_NUMBER_SHARE * len(strings) or kind == "dates"
    if not is_mostly or of_kind.nunique() <= MIN_DISTINCT_NUMBERS:
        return []
    odd = odd[odd.map(odd.value_counts()).sort_values(ascending=False, kind="stable").index]
    if kind == "dates":
        remedy = "write all dates alike"
    elif kind == "numbers with a unit":
        remedy = f"remove the unit, as in {list_values(of_kind[:1])}"
    elif in_any_notation(odd).mean() > MIN_NUMBER_SHARE:
        remedy = f"write all numbers with {describe_notation(notation, odd)}"
    else:
        options = [f"--na-values={shlex.quote(value)}" for value in odd.str.strip().unique()[:MAX_SHOWN_VALUES]]
        remedy = f"missing values? Add {' '.join(options)}"
    others = f"; the others are {list_values(odd)}" if len(odd) else ""
    count = f"{len(of_kind)} of its {len(strings)} values are {kind}"
    return [f"column {strings.name!r} is text, although {count}{others}: {remedy}"]


def note_sentinels(numbers: pd.Series[Any]) -> list[str]:
    """Return a note on a number such as -999 that recurs far from the other numbers of a column, (n,).

    >>> note_sentinels(pd.Series([1, 2, -999, -999, 3], name="z"))
    ["column 'z' has -999 in 2 rows, far from its other numbers (1 to 3): a missing value? Add --na-values=-999"]
    """
    notes = []
    for value in sorted({numbers.min(), numbers.max()}):
        is_value = numbers == value
        others = numbers[~is_value].dropna()
        if not SENTINEL.fullmatch(f"{value:.10g}") or is_value.sum() < MIN_SENTINEL_ROWS or others.nunique() < 2:
            continue
        low, high = others.min(), others.max()
        if max(low - value, value - high) > high - low:
            notes.append(
                f"column {numbers.name!r} has {value:.10g} in {is_value.sum()} rows, far from its other numbers "
                f"({low:.10g} to {high:.10g}): a missing value? Add --na-values={value:.10g}"
            )
    return notes


def note_capitals(column: pd.Series[Any]) -> list[str]:
    """Return a note on the values of a text column that differ only in capitals, most frequent first.

    >>> note_capitals(pd.Series(["red", "Red", "blue"], name="color"))
    ["values of 'color' that differ only in capitals: 'red', 'Red'; if they are one category, fix the file"]
    """
    names = column.dropna().astype(str).str.strip().value_counts().index.to_series()
    folded = names.str.casefold()
    alike = names[folded.duplicated(keep=False)]
    if not len(alike):
        return []
    alike = alike.sort_values(key=lambda values: values.str.casefold(), kind="stable")
    more = ", ..." if len(alike) > 2 * MAX_SHOWN_VALUES else ""
    shown = ", ".join(map(repr, alike[: 2 * MAX_SHOWN_VALUES])) + more
    return [f"values of {column.name!r} that differ only in capitals: {shown}; if they are one category, fix the file"]


def in_any_notation(strings: pd.Series[Any]) -> pd.Series[Any]:
    """Return whether each string is a number in any notation of `infer_notation`."""
    parsed = [parse_numbers(strings, notation).notna() for notation in (".", ",", ".%", ",%")]
    return pd.concat(parsed, axis=1).any(axis=1)


def describe_notation(notation: str, others: Iterable[str] = ()) -> str:
    """Return a notation of `infer_notation` in words, as far as `others` are not written so.

    >>> describe_notation(",%"), describe_notation(".", ["0,5"]), describe_notation(".", ["12%"])
    ('decimal commas and percent signs', 'decimal points', 'decimal points and no percent signs')
    """
    mark = "decimal commas" if notation.startswith(",") else "decimal points"
    if notation.endswith("%"):
        return f"{mark} and percent signs"
    return f"{mark} and no percent signs" if any("%" in text for text in others) else mark


def list_values(values: pd.Series[Any]) -> str:
    """Return the first distinct values with the number of a row of each.

    >>> list_values(pd.Series(["u", "v", "u"]))
    "'u' in row 0, 'v' in row 1, counted from 0"
    """
    shown = values.astype(str).drop_duplicates()
    listed = ", ".join(f"{value!r} in row {row}" for row, value in shown[:MAX_SHOWN_VALUES].items())
    return f"{listed}{', ...' if len(shown) > MAX_SHOWN_VALUES else ''}, counted from 0"
