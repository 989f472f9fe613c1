"""Texts that are numbers or dates: "1,234", "$5.00", "12%", 05/31/2024."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pandas as pd

STRAYS = 0.1
"""Share of values that may fail to be numbers in a column of numbers, or dates in one of dates."""
CURRENCY = r"(?:[$€£¥]|USD|EUR|GBP|CHF)"
EUROPEAN = r"[-+]?(?:\d{1,3}(?:\.\d{3})+,\d+|\d+,(?:\d{1,2}|\d{4,}))"
AMERICAN = r"[-+]?\d{1,3}(?:,\d{3})+(?:\.\d*)?"
SPACED = r"[-+]?\d{1,3}(?:[ '\u00a0\u202f]\d{3})+(?:\.\d*)?"
CLOCKS = ("", " %H:%M", " %H:%M:%S", " %I:%M %p", " %I:%M:%S %p")
DAYS = {
    r"\d{1,2}/\d{1,2}/\d{4}": ("%m/%d/%Y", "%d/%m/%Y"),
    r"\d{1,2}/\d{1,2}/\d{2}": ("%m/%d/%y", "%d/%m/%y"),
    r"\d{1,2}-\d{1,2}-\d{4}": ("%m-%d-%Y", "%d-%m-%Y"),
    r"\d{1,2}\.\d{1,2}\.\d{4}": ("%d.%m.%Y",),
    r"\d{4}/\d{1,2}/\d{1,2}": ("%Y/%m/%d",),
    r"\d{1,2}[- ][A-Za-z]{3}[- ]\d{4}": ("%d-%b-%Y",),
    r"[A-Za-z]{3} \d{1,2}, \d{4}": ("%b %d, %Y",),
}
"""What a day looks like, and the ways to read it; the first wins where both can."""
ISO = r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[-+]\d\d:?\d\d)?)?"
FEW = 200
"""Values that are looked at before all are."""


def read_amounts(text: pd.Series[Any], decimal: str = "") -> pd.Series[Any]:
    """Return texts as numbers, without thousands separators, currencies and percent signs; NaN where that fails.

    A percent is a hundredth. A comma before three digits is a thousands separator, unless another value of the column
    has it before a fraction. An amount in parentheses is negative, as in accounts.

    Parameters
    ----------
    text : Series of str (n,)
    decimal : str
        What stands before a fraction, "," or ".", where that is known; else `find_decimal` looks.

    Examples
    --------
    >>> read_amounts(pd.Series(["1,234", "$5.00", "12%", "(3.5)", "none"])).tolist()
    [1234.0, 5.0, 0.12, -3.5, nan]
    >>> read_amounts(pd.Series(["1,234"]), decimal=",").tolist()
    [1.234]
    """
    negative = text.astype(str).str.strip().str.fullmatch(r"\(.*\)")
    percent = text.astype(str).str.strip(" ()").str.endswith("%")
    bare = _bare(text)
    if (decimal or find_decimal(text)) == ",":
        bare = bare.str.replace(".", "", regex=False).str.replace(",", ".", regex=False)
    grouped = bare.str.fullmatch(AMERICAN) | bare.str.fullmatch(SPACED)
    bare = bare.where(~grouped, bare.str.replace(r"[, '\u00a0\u202f]", "", regex=True))
    numbers = pd.to_numeric(bare, errors="coerce").astype("float64")
    scale = np.where(percent, 0.01, 1.0) * np.where(negative, -1.0, 1.0)
    return numbers.mul(pd.Series(scale, index=text.index))


def find_decimal(text: pd.Series[Any]) -> str:
    """Tell what stands before the fractions of texts that are numbers, "," or ".".

    >>> find_decimal(pd.Series(["1,234", "0,5"])), find_decimal(pd.Series(["1,234"]))
    (',', '.')
    """
    bare = _bare(text)
    points = bare.str.fullmatch(r"[-+]?\d*\.\d{1,2}").any()
    return "," if bare.str.fullmatch(EUROPEAN).any() and not points else "."


def _bare(text: pd.Series[Any]) -> pd.Series[Any]:
    """Texts without parentheses, percent signs and currencies."""
    bare = text.astype(str).str.strip()
    bare = bare.where(~bare.str.fullmatch(r"\(.*\)"), bare.str.slice(1, -1))
    bare = bare.str.replace(r"\s*%$", "", regex=True)
    bare = bare.str.replace(rf"^([-+]?)\s*{CURRENCY}\s*", r"\1", regex=True)
    return bare.str.replace(rf"\s*{CURRENCY}$", "", regex=True)


def read_dates(text: pd.Series[Any]) -> tuple[pd.Series[Any], str]:
    """Return texts as dates, NaT where that fails, and how they were read; "" if nine in ten of them are no dates.

    Where the day and the month could be either, the month comes first, and "?" ends the way.

    Parameters
    ----------
    text : Series of str (n,)
        Missing values are NaN.

    Examples
    --------
    >>> dates, way = read_dates(pd.Series(["05/31/2024", "06/01/2024"]))
    >>> dates.dt.day.tolist(), way
    ([31, 1], '%m/%d/%Y')
    >>> read_dates(pd.Series(["red", "blue"]))[1]
    ''
    """
    known = text.dropna().astype(str).str.strip()
    first = known.iloc[:FEW]
    nothing = pd.Series(pd.NaT, index=text.index, dtype="datetime64[ns]")
    if not len(known):
        return nothing, ""
    if first.str.fullmatch(ISO).mean() >= 1 - STRAYS:
        return parse_dates(known, "ISO8601").reindex(text.index), "ISO8601"
    for shape, days in DAYS.items():
        if first.str.match(shape).mean() >= 1 - STRAYS:
            return _read_way(known, days, nothing)
    return nothing, ""


def _read_way(known: pd.Series[Any], days: tuple[str, ...], nothing: pd.Series[Any]) -> tuple[pd.Series[Any], str]:
    """The way in which the most values are dates, and the dates."""
    ways = [day + clock for clock in CLOCKS for day in days]
    read = {way: parse_dates(known.iloc[:FEW], way).notna().mean() for way in ways}
    best = {way: parse_dates(known, way) for way in ways if read[way] == max(read.values())}
    way = max(best, key=lambda name: best[name].notna().sum())
    if best[way].notna().mean() < 1 - STRAYS:
        return nothing, ""
    both = sum(int(dates.notna().sum()) == int(best[way].notna().sum()) for dates in best.values()) > 1
    return best[way].reindex(nothing.index), f"{way}{'?' * both}"


def parse_dates(text: pd.Series[Any], way: str) -> pd.Series[Any]:
    """Return texts as dates without a zone, read in a way of `read_dates`; those of a zone are told as in Greenwich.

    >>> parse_dates(pd.Series(["2024-05-31T12:00+02:00", "no date"]), "ISO8601").dt.hour.tolist()
    [10.0, nan]
    """
    plain = text.map(_joined, na_action="ignore") if "-%b-" in way else text
    dates = pd.to_datetime(plain, format=way.removesuffix("?"), errors="coerce", utc=True)
    return dates.dt.tz_localize(None).astype("datetime64[ns]")


def _joined(text: Any) -> Any:
    """31 May 2024 as 31-May-2024."""
    return (
        re.sub(r"(?<=\d)[- ](?=[A-Za-z]{3}[- ])|(?<=[A-Za-z])[- ](?=\d{4})", "-", text)
        if isinstance(text, str)
        else text
    )
