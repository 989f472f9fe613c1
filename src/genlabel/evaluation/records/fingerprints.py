"""Fingerprints: a short hash of the settings that make a record, so that an edited setting is noticed."""

from __future__ import annotations

import json
import pickle  # written for its checksum, never read  # nosec B403
from collections.abc import Mapping, Set
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import partial
from hashlib import sha256
from inspect import signature
from math import isfinite
from numbers import Integral, Real
from pathlib import PurePath
from typing import Any, Protocol, runtime_checkable

import numpy as np

LETTERS = 12
"""Of a fingerprint."""


@runtime_checkable
class _Explained(Protocol):
    """What can say what the words among its parameters stand for."""

    def resolved_config(self) -> dict[str, Any]: ...


def fingerprint(**settings: Any) -> str:
    """Return a short hash of settings: the same wherever `describe` says the same.

    It covers the names of classes and functions and every parameter, nested ones included, and what the words among
    them stand for: the grid behind "cv", the candidates of a stacked density. It does not cover the code behind the
    names,
    the data, nor the versions of libraries, which are kept beside the records.

    >>> from sklearn.linear_model import LogisticRegression
    >>> fingerprint(model=LogisticRegression(C=2.0), test_size=0.3)
    '91837f8049f8'
    >>> fingerprint(test_size=np.float64(0.3), model=LogisticRegression(C=2)) == _
    True
    """
    text = json.dumps(describe(settings), sort_keys=True, separators=(",", ":"), allow_nan=False)
    return sha256(text.encode()).hexdigest()[:LETTERS]


def describe(value: Any) -> Any:
    """Return settings as plain dicts, lists, texts and numbers: an estimator with all its parameters, by name.

    Equal numbers are described alike, whatever their type. An estimator that can says what its words stand for
    (`resolved_config`), so that a word whose meaning changes is another setting. Of scikit-learn's own estimators only
    parameters that differ from the defaults are told, since others come and go with its versions; of ours and of
    others, all but those that came later and are as if they had not (`fingerprint_defaults`), so that older records
    stay valid.
    What is neither an estimator nor plain counts by the bytes of its pickle.

    >>> from sklearn.linear_model import LogisticRegression
    >>> describe({"model": LogisticRegression(C=2.0), "sizes": (np.int64(4), 0.5)})
    {'model': {'class': 'LogisticRegression', 'C': 2}, 'sizes': [4, 0.5]}
    >>> describe(open)
    'open'
    """
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, np.generic | np.ndarray):
        return describe(value.tolist())
    if isinstance(value, Real):
        return _describe_number(value)
    if isinstance(value, PurePath):
        return str(value)
    if isinstance(value, Enum):
        return [type(value).__qualname__, value.name]
    return _describe_parts(value)


def _describe_number(value: Real) -> int | float | str:
    if isinstance(value, Integral):
        return int(value)
    number = float(value)
    if not isfinite(number):
        return str(number)
    return int(number) if number.is_integer() else number


def _describe_parts(value: Any) -> Any:
    """What has parts: a collection, a function, an estimator or a dataclass."""
    if isinstance(value, Mapping):
        return {str(name): describe(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [describe(part) for part in value]
    if isinstance(value, Set):
        return sorted((describe(part) for part in value), key=json.dumps)
    if isinstance(value, partial):
        return {"partial": describe(value.func), "args": describe(value.args), "keywords": describe(value.keywords)}
    if isinstance(value, type) or (callable(value) and hasattr(value, "__qualname__")):
        return str(value.__qualname__)
    found = {"class": type(value).__qualname__} | {name: describe(part) for name, part in _parameters(value).items()}
    return found | {"in full": _in_full(value)} if isinstance(value, _Explained) else found


def _in_full(value: _Explained) -> Any:
    """What the words of an estimator stand for; nothing where they make no sense, which its fit will tell."""
    try:
        return describe(value.resolved_config())
    except (TypeError, ValueError):
        return None


def _parameters(value: Any) -> dict[str, Any]:
    if hasattr(value, "get_params"):
        found = dict(value.get_params(deep=False))
        if type(value).__module__.split(".")[0] == "sklearn":
            return _changed(value, found)
        later = getattr(value, "fingerprint_defaults", {})
        return {name: part for name, part in found.items() if name not in later or part != later[name]}
    if is_dataclass(value):
        return {part.name: getattr(value, part.name) for part in fields(value)}
    try:
        return {"pickle": sha256(pickle.dumps(value, protocol=4)).hexdigest()}
    except Exception as error:
        kind = type(value).__qualname__
        hint = "use numbers, texts, lists, dataclasses or estimators"
        raise ValueError(f"a setting of type {kind} has no fingerprint ({error}); {hint}") from error


def _changed(value: Any, found: dict[str, Any]) -> dict[str, Any]:
    """The parameters that are not the defaults of the class."""
    defaults = {name: part.default for name, part in signature(type(value)).parameters.items()}
    return {name: part for name, part in found.items() if describe(part) != _describe_default(defaults[name])}


def _describe_default(default: Any) -> Any:
    """A parameter without a default differs from it."""
    return NotImplemented if default is signature(_describe_default).empty else describe(default)
