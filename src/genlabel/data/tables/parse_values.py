"""Strings as numbers or dates: "1,234", "$5.00", "12%", 05/31/2024."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

MAX_UNPARSED_SHARE = 0.1
"""Maximum share of the values of a column of numbers or dates that cannot be parsed."""
MACHINE_NA = ("", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "NULL",
              "NaN", "nan", "null")  # fmt: skip
"""Strings that programs write for a missing value."""
NA_WORDS = ("NA", "N/A", "n/a", "None")
"""Words for a missing value that may also be a class."""
PLACEHOLDERS = frozenset(
    ("?", "??", "-", "--", "---", "\u2013", "\u2014", ".", "..", "...", "*", "n.a.", "n. a.", "n.d.", "na", "none",
     "nil", "missing", "unknown", "unk", "not available", "not known", "#value!", "#div/0!", "#ref!", "#num!")
)  # fmt: skip
"""Strings in lower case that stand for a missing value in a column of numbers or dates; in text they are values."""
CURRENCY = r"(?:R?\$|[€£¥₹₽₩₪₫₴₺₦₱฿]|USD|EUR|GBP|CHF|JPY|CNY|INR|SEK|NOK|DKK|PLN|CZK|AUD|CAD|BRL|kr|zł|Kč)"
SPACES = r"[ '\u2019\u00a0\u202f]"
"""Characters that separate thousands in any notation."""
GROUPED = rf"[-+]?(?:[1-9]\d{{0,2}}(?:(?:,\d{{3}})+|(?:{SPACES}\d{{3}})+)|[1-9]\d?(?:,\d\d)+,\d{{3}})(?:\.\d*)?"
"""A number with a decimal point and separated thousands, or lakhs."""
CLOCK_FORMATS = ("", " %H:%M", " %H:%M:%S", " %I:%M %p", " %I:%M:%S %p")
DAY_FORMATS = {
    r"\d{1,2}/\d{1,2}/\d{4}": ("%m/%d/%Y", "%d/%m/%Y"),
    r"\d{1,2}/\d{1,2}/\d{2}": ("%m/%d/%y", "%d/%m/%y"),
    r"\d{1,2}-\d{1,2}-\d{4}": ("%m-%d-%Y", "%d-%m-%Y"),
    r"\d{1,2}\.\d{1,2}\.\d{4}": ("%d.%m.%Y",),
    r"\d{1,2}\.\d{1,2}\.\d{2}(?!\d)": ("%d.%m.%y",),
    r"\d{4}/\d{1,2}/\d{1,2}": ("%Y/%m/%d",),
    r"\d{1,2}[- ][A-Za-z]{3}[- ]\d{4}": ("%d-%b-%Y",),
    r"[A-Za-z]{3} \d{1,2}, \d{4}": ("%b %d, %Y",),
}
"""Pattern of a day -> its formats; if both match all values, the first one is used."""
ISO = r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[-+]\d\d:?\d\d)?)?"
SAMPLE_SIZE = 200
"""Values that are examined before all values are."""


def parse_numbers(strings: pd.Series[Any], notation: str = "") -> pd.Series[Any]:
    """Return strings as numbers, NaN where that fails; thousands separators, currencies and percent signs are allowed.

    A percentage is divided by 100. An amount in parentheses is negative, as in accounting. The notation is that of
    `infer_notation`, which is used if none is given. A string in another notation is NaN: with decimal commas "12.34"
    is no number, and "1.234" is 1234.

    >>> parse_numbers(pd.Series(["1,234", "$5.00", "(3.5)", "none"])).tolist()
    [1234.0, 5.0, -3.5, nan]
    >>> parse_numbers(pd.Series(["1,234", "1,234.56", "12%"]), notation=",").tolist()
    [1.234, nan, nan]
    """
    codes, distinct = _distinct_strings(strings)
    notation = notation or _infer_notation(distinct, np.bincount(codes), ".")
    numbers, has_percent = _parse(distinct, notation[0])
    numbers = numbers.where((numbers == 0) | (has_percent == notation.endswith("%")))
    return pd.Series(numbers.to_numpy()[codes], index=strings.index)


def infer_notation(strings: pd.Series[Any], decimal: str = ".") -> str:
    """Return the notation of strings that are numbers: the decimal mark, "," or ".", then "%" if they are percentages.

    The decimal mark is the one with which more strings are numbers; `decimal` if both make equally many.

    >>> infer_notation(pd.Series(["1,234", "0,5"])), infer_notation(pd.Series(["1,234"])), infer_notation(["5%"])
    (',', '.', '.%')
    """
    codes, distinct = _distinct_strings(pd.Series(strings, dtype=object))
    return _infer_notation(distinct, np.bincount(codes), decimal)


def _infer_notation(distinct: pd.Series[Any], counts: NDArray[np.int64], decimal: str) -> str:
    """Return the notation of distinct strings with their counts."""
    parsed = {mark: _parse(distinct, mark) for mark in (decimal, "," if decimal == "." else ".")}
    mark = max(parsed, key=lambda name: int(counts[parsed[name][0].notna()].sum()))
    numbers, has_percent = parsed[mark]
    return mark + "%" * bool(2 * counts[has_percent & numbers.notna()].sum() > counts[numbers.notna()].sum())


def is_placeholder(strings: pd.Series[Any]) -> pd.Series[Any]:
    """Return whether each string stands for a missing value among numbers or dates, such as "?" or "-".

    >>> is_placeholder(pd.Series(["?", "5", "N.A. "])).tolist()
    [True, False, True]
    """
    return strings.astype(str).str.strip().str.lower().isin(PLACEHOLDERS)


def _distinct_strings(strings: pd.Series[Any]) -> tuple[NDArray[np.int64], pd.Series[Any]]:
    """Return the index of each string among the distinct ones, and these; a missing value is an empty string."""
    codes, distinct = pd.factorize(strings.astype(str), use_na_sentinel=False)
    return codes, pd.Series(distinct, dtype=object).fillna("")


def _parse(strings: pd.Series[Any], decimal: str) -> tuple[pd.Series[Any], pd.Series[Any]]:
    """Return strings as numbers, NaN where that fails with this decimal mark, and whether they are percentages."""
    bare = strings.str.strip().str.replace("\u2212", "-")
    bare = bare.str.replace(r"^(.*\d)-$", r"-\1", regex=True)  # as accounting programs write it
    negative = bare.str.fullmatch(r"\(.*\)")
    bare = bare.where(~negative, bare.str.slice(1, -1))
    has_percent = bare.str.endswith("%")
    bare = bare.str.replace(r"\s*%$", "", regex=True)
    bare = bare.str.replace(rf"^([-+]?)\s*{CURRENCY}\s*", r"\1", regex=True)
    bare = bare.str.replace(rf"\s*{CURRENCY}$", "", regex=True)
    if decimal == ",":
        bare = bare.str.translate(str.maketrans(",.", ".,"))
    grouped = bare.str.fullmatch(GROUPED)
    bare = bare.where(~grouped, bare.str.replace(rf",|{SPACES}", "", regex=True))
    numbers = pd.to_numeric(bare, errors="coerce").astype("float64")
    scale = np.where(has_percent, 0.01, 1.0) * np.where(negative, -1.0, 1.0)
    return numbers * scale, has_percent.astype(bool)


def infer_date_format(strings: pd.Series[Any], min_share: float = 1 - MAX_UNPARSED_SHARE) -> str:
    """Return the format of dates, "" if a smaller share of the values than `min_share` are dates.

    The month comes first where the day and the month could be either; the format then ends in "?".

    >>> infer_date_format(pd.Series(["05/31/2024", "06/01/2024"])), infer_date_format(pd.Series(["red", "blue"]))
    ('%m/%d/%Y', '')
    """
    values = strings.dropna().astype(str).str.strip()
    sample = values.iloc[:SAMPLE_SIZE]
    if not len(values):
        return ""
    if sample.str.fullmatch(ISO).mean() >= min_share:
        return "ISO8601"
    matching = [days for pattern, days in DAY_FORMATS.items() if sample.str.match(pattern).mean() >= min_share]
    if not matching:
        return ""
    formats = [day + clock for clock in CLOCK_FORMATS for day in matching[0]]
    shares = {name: parse_dates(sample, name).notna().mean() for name in formats}
    likely = [name for name in formats if shares[name] == max(shares.values())]
    counts = {name: int(parse_dates(values, name).notna().sum()) for name in likely}
    best = max(likely, key=lambda name: counts[name])
    if counts[best] / len(values) < min_share:
        return ""
    is_ambiguous = list(counts.values()).count(counts[best]) > 1
    return f"{best}?" if is_ambiguous else best


def parse_dates(strings: pd.Series[Any], date_format: str) -> pd.Series[Any]:
    """Return strings as dates in UTC without a time zone, in a format of `infer_date_format`; NaT where that fails.

    >>> parse_dates(pd.Series(["2024-05-31T12:00+02:00", "no date"]), "ISO8601").dt.hour.tolist()
    [10.0, nan]
    """
    if "-%b-" in date_format:  # "31 May 2024" becomes "31-May-2024"
        spaces = re.compile(r"(?<=\d)[- ](?=[A-Za-z]{3}[- ])|(?<=[A-Za-z])[- ](?=\d{4})")
        strings = strings.map(lambda v: spaces.sub("-", v) if isinstance(v, str) else v, na_action="ignore")
    dates = pd.to_datetime(strings, format=date_format.removesuffix("?"), errors="coerce", utc=True)
    return dates.dt.tz_localize(None).astype("datetime64[ns]")
