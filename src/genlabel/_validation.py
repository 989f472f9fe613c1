"""Checks on parameters and labels, warnings heard once, and fits that fail without a trace."""

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
from numpy.typing import ArrayLike, NDArray

LARGEST = 1e150
"""Of numbers to learn from: the square of a larger one overflows, and its share of a sum hides all others."""
HEAVIEST = 1e100
"""Of weights of rows; the lightest is its inverse, so that neither squares nor ratios overflow."""
_Heard = dict[Hashable, tuple[str, type[Warning]]]
_heard: ContextVar[_Heard | None] = ContextVar("heard", default=None)


def check_choice(name: str, value: object, known: Iterable[str], also: str = "") -> None:
    """Raise unless `value` is one of the known strings.

    >>> check_choice("space", "inptu", ["input", "latent"])
    Traceback (most recent call last):
    ValueError: space='inptu' is not known; choose one of 'input', 'latent'
    """
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
    """Return the weights of `n` rows, one number counting for all; raise unless they can weigh anything."""
    weight = _numbers(sample_weight)
    if weight.ndim == 0:
        weight = np.full(n, weight)
    if weight.shape != (n,):
        raise ValueError(f"sample_weight has shape {weight.shape}; expected ({n},), one weight a row of X")
    if not np.isfinite(weight).all() or (weight < 0).any() or not weight.any():
        raise ValueError("sample_weight must be finite, non-negative and not all zero")
    least, most = weight[weight > 0].min(), weight.max()
    if least < 1.0 / HEAVIEST or most > HEAVIEST:
        raise ValueError(
            f"sample_weight goes from {least:.3g} to {most:.3g}, and must be 0 or within {1.0 / HEAVIEST:g} to "
            f"{HEAVIEST:g}; multiply all by a number, and make those 0 that count for nothing beside the others"
        )
    return weight


def _numbers(sample_weight: ArrayLike) -> NDArray[np.float64]:
    found = np.asarray(sample_weight)
    try:
        if found.dtype.kind == "c":
            raise TypeError("they are complex")
        return found.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"sample_weight could not be read as numbers ({error}); give one number a row of X, or leave it out"
        ) from error


def check_frame(X: object, numbers: bool = False) -> None:
    """Raise unless a frame has columns, of distinct names, none of them dates where `numbers` are needed.

    What is no frame has no columns to be checked.

    >>> import pandas as pd
    >>> check_frame(pd.DataFrame([[1, 2]], columns=["a", "a"]))
    Traceback (most recent call last):
    ValueError: X has several columns named 'a'; rename them
    """
    columns = getattr(X, "columns", None)
    if columns is None or callable(columns):
        return
    if not len(columns):
        raise ValueError("X has no columns; it needs at least one feature")
    twice = [name for name, count in Counter(columns).items() if count > 1]
    if twice:
        raise ValueError(f"X has several columns named {twice[0]!r}; rename them")
    odd = [name for name in columns if isinstance(name, str) and re.search("[\0\ud800-\udfff]", name)]
    if odd:
        raise ValueError(f"X has a column named {odd[0]!a}, with a letter that is none; rename it")
    dates = [name for name, kind in getattr(X, "dtypes", {}).items() if getattr(kind, "kind", "") in "mM"]
    if numbers and dates:
        raise ValueError(f"column {dates[0]!r} of X holds dates or durations; make it a number, or drop it")


def check_magnitude(largest: float) -> None:
    """Raise unless the largest size of the numbers to learn from is one that can be squared.

    >>> check_magnitude(1e300)
    Traceback (most recent call last):
    ValueError: X has values of size 1e+300, whose squares are beyond all numbers; make them missing, or divide them
    """
    if largest > LARGEST:
        raise ValueError(
            f"X has values of size {largest:.3g}, whose squares are beyond all numbers; make them missing, or divide "
            "them"
        )


def read_classes(labels: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """Return the classes, sorted, (k,), and the index of each label, (n,); raise unless labels (n,) can be told apart.

    >>> read_classes(np.array(["b", "a", "b"]))[1]
    array([1, 0, 1])
    """
    if labels.ndim != 1:
        raise ValueError(f"y has shape {labels.shape}; expected (n,), one label a row")
    if _has_gaps(labels):
        raise ValueError("y contains NaN, which is no class; drop those rows")
    try:
        if labels.dtype == object:
            hash(tuple(labels.tolist()))
        return np.unique(labels, return_inverse=True)
    except TypeError as error:
        kinds = " and ".join(sorted({type(label).__name__ for label in labels.tolist()}))
        raise ValueError(f"y has labels of the type {kinds}, which cannot be sorted; make all of them text") from error


def _has_gaps(labels: NDArray[Any]) -> bool:
    if labels.dtype == object:
        return any(isinstance(label, float) and label != label for label in labels.tolist())
    return labels.dtype.kind in "fcmM" and bool((labels != labels).any())


def ignore_overflow() -> AbstractContextManager[object]:
    """Numpy is silent about infinities: the checks of input add up numbers, and say themselves what is wrong."""
    return np.errstate(over="ignore", invalid="ignore")


def warn(about: Hashable, message: str, category: type[Warning]) -> None:
    """Warn of something; within :func:`deduplicate_warnings`, only the first warning about it is kept."""
    heard = _heard.get()
    if heard is None:
        warnings.warn(message, category, stacklevel=3)
    else:
        heard.setdefault(about, (message, category))


@contextmanager
def deduplicate_warnings() -> Iterator[None]:
    """Gather the warnings of a fit and give each once, at its end; a fit within a fit hands its own on.

    The latest word counts: of what recurs in every fold, what is said of the whole sample. Safe in threads.
    """
    heard: _Heard = {}
    token = _heard.set(heard)
    try:
        yield
    finally:
        _heard.reset(token)
        outer = _heard.get()
        if outer is not None:
            outer.update(heard)
        else:
            for message, category in heard.values():
                warnings.warn(message, category, stacklevel=4)


@contextmanager
def suppress_own_warnings() -> Iterator[None]:
    """Keep our own warnings to ourselves: a search tries what does not suit a small class, too. Safe in threads."""
    token = _heard.set({})
    try:
        yield
    finally:
        _heard.reset(token)


@contextmanager
def restore_on_error(estimator: object) -> Iterator[None]:
    """Undo what a failing fit has set: the estimator is fitted as before, or not at all."""
    before = dict(vars(estimator))
    try:
        yield
    except BaseException:
        vars(estimator).clear()
        vars(estimator).update(before)
        raise
