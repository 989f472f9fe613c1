"""Checks on parameters: each error names the value it got and the way out."""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any

import numpy as np

__all__ = ["check_choice", "check_count", "check_interval", "check_positive"]


def check_choice(name: str, value: Any, known: Iterable[str], also: str = "") -> None:
    """Raise unless `value` is one of the known strings.

    >>> check_choice("space", "inptu", ["input", "latent"])
    Traceback (most recent call last):
    ValueError: space='inptu' is not known; choose one of 'input', 'latent'
    """
    known = list(known)
    if not isinstance(value, str) or value not in known:
        names = ", ".join(repr(v) for v in known) + (f", or {also}" if also else "")
        raise ValueError(f"{name}={value!r} is not known; choose one of {names}")


def check_positive(name: str, value: Any, way_out: str) -> float:
    """Return `value` as a float, or raise unless it is a finite number above zero."""
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 < float(value) < np.inf:
        raise ValueError(f"{name}={value!r} must be a finite number above 0; {way_out}")
    return float(value)


def check_interval(name: str, value: Any, low: float, high: float, way_out: str) -> float:
    """Return `value` as a float, or raise unless it lies in [low, high]."""
    if isinstance(value, bool) or not isinstance(value, Real) or not low <= float(value) <= high:
        raise ValueError(f"{name}={value!r} must be a number in [{low:g}, {high:g}]; {way_out}")
    return float(value)


def check_count(name: str, value: Any, low: int = 1) -> int:
    """Return `value` as an int, or raise unless it is a whole number of at least `low`."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < low:
        raise ValueError(f"{name}={value!r} must be a whole number of at least {low}")
    return int(value)
