"""The target of a table: classes as they are written, or a quantity that must be asked about."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from pandas.api import types

from genlabel._validation import check_count
from genlabel.data.tables.columns import MANY
from genlabel.data.tables.files import WORDS
from genlabel.data.tables.parse_values import STRAYS, read_amounts, read_dates


def read_target(
    y: pd.Series[Any],
    source: str,
    *,
    classes: bool = False,
    bins: int | None = None,
    notes: list[str] | None = None,
) -> pd.Series[Any]:
    """Return the class of each row, whole numbers or text, NaN where it is missing.

    A target of more than 20 distinct numbers, or of numbers that are distinct in more than half of the rows, is a
    quantity as far as can be told: that is an error that asks, not a guess.

    Parameters
    ----------
    y : Series (n,)
        Texts as a file has them, or numbers.
    source : str
        The name of the table, for errors.
    classes : bool
        Take each number as a class.
    bins : int, optional
        Cut numbers into so many classes of about the same size.
    notes : list of str, optional
        Gets a line for whatever is changed.

    Examples
    --------
    >>> read_target(pd.Series(["1.0", "2.0", "NA"]), "t.csv").tolist()
    [1.0, 2.0, nan]
    >>> read_target(pd.Series(["yes", "NA"]), "t.csv").tolist()
    ['yes', 'NA']
    >>> read_target(pd.Series(range(100)), "t.csv", bins=2).value_counts().to_dict()
    {'1: up to 49.5': 50, '2: above 49.5': 50}
    """
    told = [] if notes is None else notes
    if classes and bins is not None:
        raise ValueError(f"classes=True and bins={bins} are two ways to read the target {y.name!r}; give one of them")
    if bins is not None:
        cuts = find_cuts(y, bins, source)
        names = _names(cuts)
        told.append(f"the target {y.name!r} was cut into {len(names)} classes: {', '.join(names)}")
        return cut_target(y, cuts)
    numbers = _numbers(y)
    _check(y if numbers is None else numbers.rename(str(y.name)), numbers is not None, classes, source)
    if numbers is None:
        return _texts(y, told)
    words = [word for word in WORDS if types.is_string_dtype(y) and (y == word).any()]
    told += [f"{word!r} in the target {y.name!r} counts as missing, as the others are numbers" for word in words]
    whole = bool((numbers.dropna() % 1 == 0).all())
    return _wholes(numbers) if whole else y.where(numbers.notna()).astype(str).where(numbers.notna())


def _numbers(y: pd.Series[Any]) -> pd.Series[Any] | None:
    """The target as numbers; none if it is text, has codes such as 007, or is true and false."""
    if types.is_bool_dtype(y):
        return None
    if types.is_numeric_dtype(y):
        return y.astype("Float64").astype("float64")
    if types.infer_dtype(y, skipna=True) in ("integer", "floating", "decimal", "mixed-integer-float"):
        return y.map(float, na_action="ignore").astype("float64")
    known = y.dropna().astype(str).str.strip()
    known = known[~known.isin(WORDS)]
    if not len(known) or known.str.match(r"0\d").any() or types.infer_dtype(y, skipna=True) != "string":
        return None
    numbers = read_amounts(known)
    many = numbers.nunique() > MANY and numbers.isna().mean() <= STRAYS
    return numbers.reindex(y.index) if many or numbers.notna().all() else None


def _check(y: pd.Series[Any], numeric: bool, classes: bool, source: str) -> None:
    """Raise where a target is a quantity, an identifier, dates, or a single class."""
    distinct, n, of = y.nunique(), int(y.notna().sum()), f"target={y.name!r} of {source!r}"
    if numeric and not classes and distinct > min(MANY, max(n // 2, 2)):
        raise ValueError(
            f"{of} has {distinct} distinct numbers in {n} rows, it looks like a quantity; to take each number as a "
            "class use classes=True, on the command line --classes; to cut them into 3 classes of about the same size "
            "use bins=3, on the command line --bins 3"
        )
    if not numeric and distinct > max(MANY, n // 2):
        raise ValueError(f"{of} has {distinct} distinct texts in {n} rows: an identifier; name a column of classes")
    if not numeric and distinct > MANY and (types.is_datetime64_any_dtype(y) or read_dates(y.astype(object))[1]):
        raise ValueError(f"{of} has {distinct} distinct dates; name a column of classes")
    if distinct < 2:
        raise ValueError(f"{of} has one class only (empty cells count as missing); name a column with two or more")


def _texts(y: pd.Series[Any], notes: list[str]) -> pd.Series[Any]:
    """Classes as text; a word that often means a missing value is told."""
    text = y.astype(object).where(y.notna(), None).map(lambda value: str(value).strip() or None, na_action="ignore")
    notes += _tell_cases(text)
    for word in WORDS:
        count = int((text == word).sum())
        if count:
            notes.append(
                f"{word!r} in the target {y.name!r} is taken as a class of {count} rows; --na-values {word} makes it "
                "missing"
            )
    return text


def _tell_cases(text: pd.Series[Any]) -> list[str]:
    """A line for classes that differ in nothing but capital letters."""
    classes = pd.Series(sorted(text.dropna().unique()), dtype=object)
    folded = classes.map(str.casefold)
    alike = ", ".join(repr(name) for _, part in classes.groupby(folded) if len(part) > 1 for name in part)
    return [f"classes that differ only in capitals: {alike}; if they are one, mend the file"] if alike else []


def _wholes(numbers: pd.Series[Any]) -> pd.Series[Any]:
    return numbers if numbers.isna().any() else numbers.astype("int64")


def find_cuts(y: pd.Series[Any], bins: int, source: str) -> list[float]:
    """Return where a target of numbers is cut into classes of about the same size, fewer where many are equal.

    >>> find_cuts(pd.Series(range(100)), 2, "t.csv")
    [49.5]
    """
    check_count("bins", bins, low=2)
    numbers = _numbers(y)
    if numbers is None:
        raise ValueError(f"bins={bins} is for a target of numbers; {y.name!r} of {source!r} has texts, leave it out")
    inner = np.unique(np.nanquantile(numbers, np.arange(1, bins) / bins))
    edges = inner[inner < numbers.max()]
    if not len(edges):
        raise ValueError(f"bins={bins}: most numbers of {y.name!r} of {source!r} are the same; use --classes instead")
    return [float(edge) for edge in edges]


def cut_target(y: pd.Series[Any], cuts: Sequence[float]) -> pd.Series[Any]:
    """Return the classes of numbers that are cut; NaN for what is no number.

    >>> cut_target(pd.Series(["1", "2", "none"]), [1.5]).tolist()
    ['1: up to 1.5', '2: above 1.5', nan]
    """
    numbers = _numbers(y)
    numbers = read_amounts(y.where(y.notna(), "")) if numbers is None else numbers
    place = pd.Series(np.searchsorted(cuts, numbers.to_numpy(), side="left"), index=y.index, name=y.name)
    return place.map(dict(enumerate(_names(cuts)))).where(numbers.notna())


def _names(cuts: Sequence[float]) -> list[str]:
    """The classes, in order."""
    shown = [f"{edge:.6g}" for edge in cuts]
    between = [f"{low} to {high}" for low, high in pairwise(shown)]
    return [f"{i}: {text}" for i, text in enumerate([f"up to {shown[0]}", *between, f"above {shown[-1]}"], 1)]
