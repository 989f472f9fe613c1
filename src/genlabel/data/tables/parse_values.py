"""Strings as numbers or dates: "1,234", "$5.00", "12%", 05/31/2024."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pandas as pd

MAX_UNPARSED_SHARE = 0.1
"""Maximum share of the values of a column of numbers or dates that cannot be parsed."""
MACHINE_NA = ("", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "NULL",
              "NaN", "nan", "null")  # fmt: skip
"""Strings that programs write for a missing value."""
NA_WORDS = ("NA", "N/A", "n/a", "None")
"""Words for a missing value that may also be a class."""
CURRENCY = r"(?:[$€£¥]|USD|EUR|GBP|CHF)"
EUROPEAN = r"[-+]?(?:\d{1,3}(?:\.\d{3})+,\d+|\d+,(?:\d{1,2}|\d{4,}))"
AMERICAN = r"[-+]?\d{1,3}(?:,\d{3})+(?:\.\d*)?"
SPACED = r"[-+]?\d{1,3}(?:[ '\u00a0\u202f]\d{3})+(?:\.\d*)?"
CLOCK_FORMATS = ("", " %H:%M", " %H:%M:%S", " %I:%M %p", " %I:%M:%S %p")
DAY_FORMATS = {
    r"\d{1,2}/\d{1,2}/\d{4}": ("%m/%d/%Y", "%d/%m/%Y"),
    r"\d{1,2}/\d{1,2}/\d{2}": ("%m/%d/%y", "%d/%m/%y"),
    r"\d{1,2}-\d{1,2}-\d{4}": ("%m-%d-%Y", "%d-%m-%Y"),
    r"\d{1,2}\.\d{1,2}\.\d{4}": ("%d.%m.%Y",),
    r"\d{4}/\d{1,2}/\d{1,2}": ("%Y/%m/%d",),
    r"\d{1,2}[- ][A-Za-z]{3}[- ]\d{4}": ("%d-%b-%Y",),
    r"[A-Za-z]{3} \d{1,2}, \d{4}": ("%b %d, %Y",),
}
"""Pattern of a day -> its formats; if both match all values, the first one is used."""
ISO = r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[-+]\d\d:?\d\d)?)?"
SAMPLE_SIZE = 200
"""Values that are examined before all values are."""


def parse_numbers(strings: pd.Series[Any], decimal: str = "") -> pd.Series[Any]:
    """Return strings as numbers, NaN where that fails; thousands separators, currencies and percent signs are allowed.

    A percentage is divided by 100. A comma before three digits is a thousands separator, unless it is the decimal mark
    of another value. An amount in parentheses is negative, as in accounting. The decimal mark is "," or "."; if it is
    not given, it is that of `infer_decimal_mark`.

    >>> parse_numbers(pd.Series(["1,234", "$5.00", "12%", "(3.5)", "none"])).tolist()
    [1234.0, 5.0, 0.12, -3.5, nan]
    >>> parse_numbers(pd.Series(["1,234"]), decimal=",").tolist()
    [1.234]
    """
    codes, distinct = pd.factorize(strings.astype(str))
    values = pd.Series(distinct)
    negative = values.str.strip().str.fullmatch(r"\(.*\)")
    percent = values.str.strip(" ()").str.endswith("%")
    bare = _strip_signs(values)
    if (decimal or infer_decimal_mark(values)) == ",":
        bare = bare.str.replace(".", "", regex=False).str.replace(",", ".", regex=False)
    grouped = bare.str.fullmatch(AMERICAN) | bare.str.fullmatch(SPACED)
    bare = bare.where(~grouped, bare.str.replace(r"[, '\u00a0\u202f]", "", regex=True))
    numbers = pd.to_numeric(bare, errors="coerce").astype("float64")
    scale = np.where(percent, 0.01, 1.0) * np.where(negative, -1.0, 1.0)
    return pd.Series((numbers.to_numpy() * scale)[codes], index=strings.index)


def infer_decimal_mark(strings: pd.Series[Any]) -> str:
    """Return the decimal mark of strings that are numbers, "," or ".".

    >>> infer_decimal_mark(pd.Series(["1,234", "0,5"])), infer_decimal_mark(pd.Series(["1,234"]))
    (',', '.')
    """
    bare = _strip_signs(pd.Series(strings.unique()))
    points = bare.str.fullmatch(r"[-+]?\d*\.\d{1,2}").any()
    return "," if bare.str.fullmatch(EUROPEAN).any() and not points else "."


def infer_date_format(strings: pd.Series[Any]) -> str:
    """Return the format of dates, "" if fewer than nine values in ten are dates.

    The month comes first where the day and the month could be either; the format then ends in "?".

    >>> infer_date_format(pd.Series(["05/31/2024", "06/01/2024"])), infer_date_format(pd.Series(["red", "blue"]))
    ('%m/%d/%Y', '')
    """
    values = strings.dropna().astype(str).str.strip()
    sample = values.iloc[:SAMPLE_SIZE]
    min_share = 1 - MAX_UNPARSED_SHARE
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


def _strip_signs(strings: pd.Series[Any]) -> pd.Series[Any]:
    """Return strings without parentheses, percent signs and currencies."""
    bare = strings.astype(str).str.strip()
    bare = bare.where(~bare.str.fullmatch(r"\(.*\)"), bare.str.slice(1, -1))
    bare = bare.str.replace(r"\s*%$", "", regex=True)
    bare = bare.str.replace(rf"^([-+]?)\s*{CURRENCY}\s*", r"\1", regex=True)
    return bare.str.replace(rf"\s*{CURRENCY}$", "", regex=True)
