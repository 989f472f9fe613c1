"""Target of a table: the class of each row, from strings or numbers, or from a quantity that is cut into bins.

The values of a target are its classes, unless it looks like a quantity: then the user must say how to make classes.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from pandas.api import types

from genlabel._text import count_of
from genlabel._validation import check_count
from genlabel.data.tables.columns import MAX_CATEGORIES, has_numbers, to_float
from genlabel.data.tables.parse_values import (
    MAX_UNPARSED_SHARE,
    NA_WORDS,
    infer_date_format,
    is_placeholder,
    parse_numbers,
)


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
    same = names[parse_numbers(names).duplicated(keep=False) & parse_numbers(names).notna()]
    if len(same):
        notes.append(f"classes that are the same number: {', '.join(map(repr, same))}; if they are one, fix the file")
    for word in [*NA_WORDS, *names[is_placeholder(names) & ~names.isin(NA_WORDS)]]:
        if count := int((labels == word).sum()):
            text = f"{word!r} in the target {y.name!r} is taken as a class of {count_of(count, 'row')}"
            notes.append(f"{text}; --na-values={shlex.quote(word)} makes it missing")
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
