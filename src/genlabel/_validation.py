"""Checks of parameters, tables and labels; warnings that are given once; estimators restored after an error."""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from numbers import Integral, Real
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

MAX_MAGNITUDE = 1e150
"""Largest absolute value of a feature: the square of a larger one may overflow."""
MAX_WEIGHT = 1e100
"""Largest weight of a row; its inverse is the smallest positive one, so that neither squares nor ratios overflow."""
_Warnings = dict[Hashable, tuple[str, type[Warning]]]
_collected: ContextVar[_Warnings | None] = ContextVar("collected", default=None)


def check_choice(name: str, value: object, known: Iterable[str], also: str = "") -> None:
    """Raise unless `value` is one of the known strings."""
    known = list(known)
    if not isinstance(value, str) or value not in known:
        names = ", ".join(repr(v) for v in known) + (f", or {also}" if also else "")
        raise ValueError(f"{name}={value!r} is not known; choose one of {names}")


def check_positive(name: str, value: object, hint: str) -> float:
    """Return `value` as a float, or raise unless it is a finite number above zero."""
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 < float(value) < np.inf:
        raise ValueError(f"{name}={value!r} must be a finite number above 0; {hint}")
    return float(value)


def check_interval(name: str, value: object, low: float, high: float, hint: str) -> float:
    """Return `value` as a float, or raise unless it lies in [low, high]."""
    if isinstance(value, bool) or not isinstance(value, Real) or not low <= float(value) <= high:
        raise ValueError(f"{name}={value!r} must be a number in [{low:g}, {high:g}]; {hint}")
    return float(value)


def check_count(name: str, value: object, low: int = 1) -> int:
    """Return `value` as an int, or raise unless it is a whole number of at least `low`."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < low:
        raise ValueError(f"{name}={value!r} must be a whole number of at least {low}")
    return int(value)


def check_weights(sample_weight: ArrayLike, n: int) -> NDArray[np.float64]:
    """Return checked weights of `n` rows; a single number is the weight of all of them."""
    values = np.asarray(sample_weight)
    try:
        if values.dtype.kind == "c":
            raise TypeError("they are complex")
        weight = values.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"sample_weight could not be read as numbers ({error}); give one number for each row of X, or None"
        ) from error
    if weight.ndim == 0:
        weight = np.full(n, weight)
    if weight.shape != (n,):
        raise ValueError(f"sample_weight has shape {weight.shape}; expected ({n},), one weight a row of X")
    if not np.isfinite(weight).all() or (weight < 0).any() or not weight.any():
        raise ValueError("sample_weight must be finite, non-negative and not all zero")
    low, high = weight[weight > 0].min(), weight.max()
    if low < 1.0 / MAX_WEIGHT or high > MAX_WEIGHT:
        raise ValueError(
            f"sample_weight has values from {low:.3g} to {high:.3g}; they must be 0 or in [{1.0 / MAX_WEIGHT:g}, "
            f"{MAX_WEIGHT:g}]; rescale them, and set negligible ones to 0"
        )
    return weight


def as_pandas(X: Any) -> Any:
    """Return a table of polars, pyarrow or another package as a pandas DataFrame, anything else as it is.

    >>> as_pandas([[1.0]])
    [[1.0]]
    """
    if hasattr(X, "collect_schema") and not hasattr(X, "__arrow_c_stream__"):
        raise ValueError(f"X is a {type(X).__name__}, which has no rows yet; call X.collect()")
    if isinstance(X, pd.DataFrame) or not (hasattr(X, "__arrow_c_stream__") and hasattr(X, "columns")):
        return X
    try:
        return X.to_pandas()
    except ImportError:  # polars converts with pyarrow
        return pd.DataFrame({name: X[name].to_list() for name in X.columns})


def check_frame(X: Any, numbers: bool = False) -> Any:
    """Return a table as NumPy and pandas have it; raise unless its columns have valid, distinct names.

    With `numbers`, it must have numbers only; a sparse matrix is refused.
    """
    if hasattr(X, "tocsr"):
        raise TypeError(f"X is sparse, of shape {X.shape}, and the methods need all values; pass X.toarray()")
    X = as_pandas(X)
    if numbers and isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype.kind in "OUS":
        X = pd.DataFrame(X)
    columns = getattr(X, "columns", None)
    if columns is None or callable(columns):
        return X
    if not len(columns):
        raise ValueError("X has no columns; it needs at least one feature")
    repeated = [name for name, count in Counter(columns).items() if count > 1]
    if repeated:
        raise ValueError(f"X has several columns named {repeated[0]!r}; rename them")
    invalid = [name for name in columns if isinstance(name, str) and re.search("[\0\ud800-\udfff]", name)]
    if invalid:
        raise ValueError(f"X has a column named {invalid[0]!a}, which has an invalid character; rename it")
    if numbers:
        for name, values in X.items():
            _check_numbers(name, values)
    return X


def _check_numbers(name: Any, values: pd.Series[Any]) -> None:
    """Raise unless a column of X has numbers only."""
    kind = getattr(values.dtype, "kind", "")
    if kind in "mM":
        raise ValueError(f"column {name!r} of X holds dates or durations; convert it to a number, or drop it")
    text = values[:0] if kind in "biufc" else values[pd.to_numeric(values, errors="coerce").isna() & values.notna()]
    if len(text) and isinstance(text.iloc[0], str):  # scikit-learn refuses other objects
        raise ValueError(
            f"column {name!r} of X holds {text.iloc[0]!r}, which is no number; encode it, for example by "
            "genlabel.data.tables.table_pipeline, or drop it"
        )
    missing = int(values.isna().sum())
    if missing:
        raise ValueError(f"column {name!r} of X has {missing} missing values (NaN); impute them, or drop the rows")


def check_labels(y: Any) -> None:
    """Raise if a label is missing (NaN, None or NA), or if labels cannot be sorted."""
    labels = np.asarray(y)
    if labels.ndim != 1:
        return
    missing = np.flatnonzero(pd.isna(labels))
    if len(missing):
        count = "1 missing label" if len(missing) == 1 else f"{len(missing)} missing labels"
        raise ValueError(f"y contains {count} (NaN or None), the first in row {missing[0]}; drop these rows of X and y")
    if labels.dtype == object:
        try:
            np.unique(labels)
            hash(tuple(labels.tolist()))
        except TypeError as error:
            kinds = " and ".join(sorted({type(label).__name__ for label in labels.tolist()}))
            raise ValueError(
                f"y has labels of the type {kinds}, which cannot be sorted; convert all of them to strings"
            ) from error


def check_magnitude(largest: float) -> None:
    """Raise if values of this size cannot be squared."""
    if largest > MAX_MAGNITUDE:
        raise ValueError(
            f"X has values of size {largest:.3g}, whose squares overflow; set them to NaN, or rescale the column"
        )


def read_classes(labels: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """Return the sorted classes (k,) and the class index of each label (n,), or raise."""
    if labels.ndim != 1:
        raise ValueError(f"y has shape {labels.shape}; expected (n,), one label a row")
    check_labels(labels)
    return np.unique(labels, return_inverse=True)


def ignore_overflow() -> AbstractContextManager[object]:
    """Return a context without NumPy's warnings of overflow: the checks of input report it themselves."""
    return np.errstate(over="ignore", invalid="ignore")


def warn(about: Hashable, message: str, category: type[Warning]) -> None:
    """Give a warning; within :func:`deduplicate_warnings`, only the first one with the key `about`."""
    collected = _collected.get()
    if collected is None:
        warnings.warn(message, category, stacklevel=3)
    else:
        collected.setdefault(about, (message, category))


@contextmanager
def deduplicate_warnings() -> Iterator[None]:
    """Collect the warnings of a fit, and give one for each key at its end; safe in threads.

    An inner fit passes its warnings to the outer one, where the latest replaces earlier ones of the same key.
    """
    collected: _Warnings = {}
    token = _collected.set(collected)
    try:
        yield
    finally:
        _collected.reset(token)
        outer = _collected.get()
        if outer is not None:
            outer.update(collected)
        else:
            for message, category in collected.values():
                warnings.warn(message, category, stacklevel=4)


@contextmanager
def suppress_own_warnings() -> Iterator[None]:
    """Suppress the warnings of genlabel: a search also tries candidates that do not suit a small class."""
    token = _collected.set({})
    try:
        yield
    finally:
        _collected.reset(token)


@contextmanager
def restore_on_error(estimator: object) -> Iterator[None]:
    """Restore the attributes of an estimator if its fit raises."""
    before = dict(vars(estimator))
    try:
        yield
    except BaseException:
        vars(estimator).clear()
        vars(estimator).update(before)
        raise
