"""The columns of a table: which are numbers, text or times, and which are no features at all."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from pandas.api import types

__all__ = ["MANY", "as_numbers", "as_text", "kind_of", "no_feature", "read_features", "read_labels"]

MANY = 20
"""Columns that a text makes at most, and distinct values above which a target of fractions is no class."""
STRAYS = 0.1
"""Share of values that may fail to be numbers in a column of numbers."""


def read_labels(y: pd.Series[Any], source: str) -> pd.Series[Any]:
    """Return labels as whole numbers or text; raise where they look like a quantity."""
    distinct, n = y.nunique(), len(y)
    fractions = types.is_float_dtype(y) and bool((y.astype(float) % 1 != 0).any())
    if distinct > (MANY if fractions else max(MANY, n // 2)):
        raise ValueError(
            f"target={y.name!r} of {source!r} has {distinct} distinct values in {n} rows: it looks continuous, "
            "or like an identifier; name a column of classes"
        )
    if distinct < 2:
        raise ValueError(
            f"target={y.name!r} of {source!r} has one class only (empty cells, NA, None and the like count as "
            "missing); name a column with two or more"
        )
    whole = types.is_numeric_dtype(y) and not types.is_bool_dtype(y) and not fractions
    return y.astype("int64") if whole else y.astype(str)


def read_features(X: pd.DataFrame, source: str, notes: list[str]) -> pd.DataFrame:
    """Return the usable columns; add a note for whatever is changed or left out."""
    reasons = {name: no_feature(X[name]) for name in X.columns}
    notes += [f"left out column {name!r}: {reason}" for name, reason in reasons.items() if reason]
    X = X[[name for name, reason in reasons.items() if not reason]]
    if not len(X.columns):
        raise ValueError(f"{source!r} has no column of features; it needs at least one besides the target")
    X = X.assign(**{name: _mend(X[name], notes) for name in X.columns})
    text = {name: X[name].nunique() for name in X.columns if kind_of(X[name]) == "text"}
    if text:
        notes.append("text columns, one-hot encoded: " + ", ".join(f"{k!r} ({v} values)" for k, v in text.items()))
    return X


def no_feature(column: pd.Series[Any]) -> str:
    """Why a column tells nothing about the class of a new row; empty if it may."""
    if column.isna().all():
        return "it has no values"
    if _is_index(column):
        return "it numbers the rows"
    kind, distinct = kind_of(column), column.astype(str).nunique()
    if kind == "time":
        return "dates and times are not used"
    if kind == "text" and distinct > max(MANY, column.notna().sum() // 2) and not _mostly_numbers(column):
        return f"{distinct} distinct texts in {len(column)} rows, it looks like an identifier"
    return ""


def _mend(column: pd.Series[Any], notes: list[str]) -> pd.Series[Any]:
    """Return the column with infinite values, and texts among numbers, missing."""
    if kind_of(column) == "text" and _mostly_numbers(column):
        numbers = pd.to_numeric(column, errors="coerce")
        strays = column[numbers.isna() & column.notna()]
        shown = ", ".join(repr(str(value)) for value in strays.unique()[:3])
        notes.append(f"values of {column.name!r} that are no numbers and count as missing: {len(strays)} ({shown})")
        column = numbers
    if kind_of(column) != "numbers":
        return column
    infinite = np.isinf(_floats(column).to_numpy())
    if infinite.any():
        notes.append(f"infinite values of {column.name!r} that count as missing: {infinite.sum()}")
    return column.mask(infinite) if infinite.any() else column


def _mostly_numbers(column: pd.Series[Any]) -> bool:
    """Are nine in ten of the values numbers, as of a column that writes a gap as "?"?"""
    known = column.dropna()
    return bool(pd.to_numeric(known, errors="coerce").isna().mean() <= STRAYS)


def _is_index(column: pd.Series[Any]) -> bool:
    """Is it the nameless row number that `DataFrame.to_csv` writes?"""
    nameless = str(column.name).startswith("Unnamed: ") and types.is_integer_dtype(column)
    return nameless and bool(column.is_unique)


def kind_of(column: pd.Series[Any]) -> str:
    """Tell "numbers", "text" and "time" apart; text that reads 2024-05-31 throughout is a time."""
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
