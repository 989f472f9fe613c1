"""The label column of a table: classes as they are written, or a quantity that needs a decision of the user."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from pandas.api import types

from genlabel._validation import check_count
from genlabel.data.tables.columns import MAX_CATEGORIES, OBJECT_NUMBERS
from genlabel.data.tables.parse_values import MAX_UNPARSED_SHARE, NA_WORDS, infer_date_format, parse_numbers


def read_target(
    y: pd.Series[Any],
    source: str,
    *,
    classes: bool = False,
    bins: int | None = None,
    notes: list[str] | None = None,
) -> pd.Series[Any]:
    """Return the class of each row, integers or strings, NaN where it is missing.

    A target with more than 20 distinct numbers, or with numbers that are distinct in more than half of the rows, is
    probably a quantity: that raises an error that asks for `classes` or `bins`.

    Parameters
    ----------
    y : Series (n,)
        Strings as they are in the file, or numbers.
    source : str
        Name of the table, for error messages.
    classes : bool
        Take each distinct number as a class.
    bins : int, optional
        Number of classes of about equal size into which numbers are cut.
    notes : list of str, optional
        Receives a line for each change.

    Examples
    --------
    >>> read_target(pd.Series(["1.0", "2.0", "NA"]), "t.csv").tolist()
    [1.0, 2.0, nan]
    >>> read_target(pd.Series(["yes", "NA"]), "t.csv").tolist()
    ['yes', 'NA']
    >>> read_target(pd.Series(range(100)), "t.csv", bins=2).value_counts().to_dict()
    {'1: up to 49.5': 50, '2: above 49.5': 50}
    """
    notes = [] if notes is None else notes
    if classes and bins is not None:
        raise ValueError(f"classes=True and bins={bins} exclude each other for the target {y.name!r}; pass one of them")
    if bins is not None:
        edges = find_bin_edges(y, bins, source)
        names = _bin_names(edges)
        notes.append(f"the target {y.name!r} was cut into {len(names)} classes: {', '.join(names)}")
        return bin_target(y, edges)
    numbers = _parse_target(y)
    if numbers is None:
        _check_target(y, False, classes, source)
        return _to_labels(y, notes)
    _check_target(numbers.rename(str(y.name)), True, classes, source)
    words = [word for word in NA_WORDS if types.is_string_dtype(y) and (y == word).any()]
    notes += [f"{word!r} in the target {y.name!r} counts as missing, as the others are numbers" for word in words]
    if not bool((numbers.dropna() % 1 == 0).all()):
        return y.where(numbers.notna()).astype(str).where(numbers.notna())
    return numbers if numbers.isna().any() else numbers.astype("int64")


def find_bin_edges(y: pd.Series[Any], bins: int, source: str) -> list[float]:
    """Return the edges that cut a numeric target into classes of about equal size, fewer where many values are equal.

    >>> find_bin_edges(pd.Series(range(100)), 2, "t.csv")
    [49.5]
    """
    check_count("bins", bins, low=2)
    numbers = _parse_target(y)
    if numbers is None:
        raise ValueError(f"bins={bins} is for numeric targets; {y.name!r} of {source!r} has texts, leave it out")
    quantiles = np.unique(np.nanquantile(numbers, np.arange(1, bins) / bins))
    edges = quantiles[quantiles < numbers.max()]
    if not len(edges):
        raise ValueError(
            f"bins={bins}: most numbers of {y.name!r} of {source!r} are equal; use --target-is-categorical instead"
        )
    return [float(edge) for edge in edges]


def bin_target(y: pd.Series[Any], edges: Sequence[float]) -> pd.Series[Any]:
    """Return the classes of numbers between bin edges; NaN for what is not a number.

    >>> bin_target(pd.Series(["1", "2", "none"]), [1.5]).tolist()
    ['1: up to 1.5', '2: above 1.5', nan]
    """
    numbers = _parse_target(y)
    numbers = parse_numbers(y.where(y.notna(), "")) if numbers is None else numbers
    index = pd.Series(np.searchsorted(edges, numbers.to_numpy(), side="left"), index=y.index, name=y.name)
    return index.map(dict(enumerate(_bin_names(edges)))).where(numbers.notna())


def _bin_names(edges: Sequence[float]) -> list[str]:
    shown = [f"{edge:.6g}" for edge in edges]
    between = [f"{low} to {high}" for low, high in pairwise(shown)]
    return [f"{i}: {text}" for i, text in enumerate([f"up to {shown[0]}", *between, f"above {shown[-1]}"], 1)]


def _parse_target(y: pd.Series[Any]) -> pd.Series[Any] | None:
    """Return the target as numbers; None if it has strings, codes such as 007, or booleans."""
    if types.is_bool_dtype(y):
        return None
    if types.is_numeric_dtype(y):
        return y.astype("Float64").astype("float64")
    if types.infer_dtype(y, skipna=True) in OBJECT_NUMBERS:
        return y.map(float, na_action="ignore").astype("float64")
    strings = y.dropna().astype(str).str.strip()
    strings = strings[~strings.isin(NA_WORDS)]
    if not len(strings) or strings.str.match(r"0\d").any() or types.infer_dtype(y, skipna=True) != "string":
        return None
    numbers = parse_numbers(strings)
    quantity = numbers.nunique() > MAX_CATEGORIES and numbers.isna().mean() <= MAX_UNPARSED_SHARE
    return numbers.reindex(y.index) if quantity or numbers.notna().all() else None


def _check_target(y: pd.Series[Any], numeric: bool, classes: bool, source: str) -> None:
    """Raise if a target is a quantity, an identifier, dates, or a single class."""
    distinct, n, name = y.nunique(), int(y.notna().sum()), f"target={y.name!r} of {source!r}"
    if numeric and not classes and distinct > min(MAX_CATEGORIES, max(n // 2, 2)):
        raise ValueError(
            f"{name} has {distinct} distinct numbers in {n} rows, it looks like a quantity; to take each number as a "
            "class use classes=True, on the command line --target-is-categorical; to cut them into 3 "
            "classes of about equal size use bins=3, on the command line --bins 3"
        )
    if not numeric and distinct > max(MAX_CATEGORIES, n // 2):
        raise ValueError(f"{name} has {distinct} distinct texts in {n} rows: an identifier; name a column of classes")
    many = not numeric and distinct > MAX_CATEGORIES
    if many and (types.is_datetime64_any_dtype(y) or infer_date_format(y.astype(object))):
        raise ValueError(f"{name} has {distinct} distinct dates; name a column of classes")
    if distinct < 2:
        raise ValueError(f"{name} has one class only (empty cells count as missing); name a column with two or more")


def _to_labels(y: pd.Series[Any], notes: list[str]) -> pd.Series[Any]:
    """Return the classes as strings; note words for missing values, and classes that differ only in capitals."""
    labels = y.astype(object).where(y.notna(), None).map(lambda value: str(value).strip() or None, na_action="ignore")
    names = pd.Series(sorted(labels.dropna().unique()), dtype=object)
    alike = [repr(name) for _, part in names.groupby(names.map(str.casefold)) if len(part) > 1 for name in part]
    if alike:
        notes.append(f"classes that differ only in capitals: {', '.join(alike)}; if they are one, fix the file")
    for word in NA_WORDS:
        count = int((labels == word).sum())
        if count:
            notes.append(
                f"{word!r} in the target {y.name!r} is taken as a class of {count} rows; --na-values {word} makes it "
                "missing"
            )
    return labels
