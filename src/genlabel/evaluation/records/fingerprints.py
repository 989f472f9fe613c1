"""Fingerprints: a short hash of the settings that make a record, so that an edited setting is noticed."""

from __future__ import annotations

import json
import pickle  # written for its checksum, never read  # nosec B403
from collections.abc import Mapping, Set
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache, partial
from hashlib import sha256
from inspect import signature
from math import isfinite
from numbers import Integral, Real
from pathlib import PurePath
from typing import Any, Protocol, runtime_checkable

import numpy as np

from genlabel.evaluation.records.declared_keys import DECLARED_CLASSES

LENGTH = 12
"""Characters of a fingerprint."""


@runtime_checkable
class _Resolvable(Protocol):
    """An estimator that can return the values behind the words among its parameters."""

    def resolved_config(self) -> dict[str, Any]: ...


def fingerprint(**settings: Any) -> str:
    """Return a short hash of settings: equal wherever `describe` returns the same.

    The hash covers declared names and keys and all values, nested ones included, and the values behind the words among
    them: the grid behind "auto", the candidates of a stacked density. It does not cover the code, the names of our
    classes, parameters and modules, the data, nor the versions of libraries, which stand in the records.

    >>> from sklearn.linear_model import LogisticRegression
    >>> fingerprint(model=LogisticRegression(C=2.0), test_size=0.3)
    '91837f8049f8'
    >>> fingerprint(test_size=np.float64(0.3), model=LogisticRegression(C=2)) == _
    True
    """
    text = json.dumps(describe(settings), sort_keys=True, separators=(",", ":"), allow_nan=False)
    return sha256(text.encode()).hexdigest()[:LENGTH]


def describe(value: Any) -> Any:
    """Return settings as plain dicts, lists, strings and numbers.

    Equal numbers are described alike, whatever their type. One of our classes stands under its declared name, its
    parameters under their declared keys (`genlabel.evaluation.records.declared_keys`), so that a rename changes no
    fingerprint. An estimator with `resolved_config` adds the values behind its words, so that a new meaning of a word
    is a new setting. Of scikit-learn's own estimators only parameters that differ from the defaults count, since others
    come and go with its versions. Any other estimator or dataclass stands under its class name with all parameters;
    a value that is neither counts by the bytes of its pickle.

    >>> from sklearn.linear_model import LogisticRegression
    >>> describe({"model": LogisticRegression(C=2.0), "sizes": (np.int64(4), 0.5)})
    {'model': {'class': 'LogisticRegression', 'C': 2}, 'sizes': [4, 0.5]}
    >>> from genlabel.densities import KernelDensity
    >>> describe(KernelDensity(bandwidth=0.5))["class"]
    'kernel'
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
    if isinstance(value, Mapping):
        return {str(name): describe(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [describe(part) for part in value]
    if isinstance(value, Set):
        return sorted((describe(part) for part in value), key=json.dumps)
    if isinstance(value, partial):
        return {"partial": describe(value.func), "args": describe(value.args), "keywords": describe(value.keywords)}
    if isinstance(value, type) or (callable(value) and hasattr(value, "__qualname__")):
        return str(getattr(value, "fingerprint_name", value.__qualname__))
    return _describe_object(value)


def _describe_number(value: Real) -> int | float | str:
    if isinstance(value, Integral):
        return int(value)
    number = float(value)
    if not isfinite(number):
        return str(number)
    return int(number) if number.is_integer() else number


def _describe_object(value: Any) -> dict[str, Any]:
    """Describe an estimator, a dataclass or any other object by its parameters."""
    module = type(value).__module__.split(".")[0]
    declared = _declared_keys(type(value).__qualname__) if module.startswith("genlabel") else None
    name = type(value).__qualname__ if declared is None else declared[0]
    parameters = _parameters(value)
    if module == "sklearn" and hasattr(value, "get_params"):
        parameters = {key: part for key, part in parameters.items() if _differs_from_default(type(value), key, part)}
    if declared is not None:
        parameters = _under_declared_keys(type(value), parameters, declared[1])
    result = {"class": name} | {key: describe(part) for key, part in parameters.items()}
    if isinstance(value, _Resolvable):
        try:
            result["resolved"] = describe(value.resolved_config())
        except (TypeError, ValueError):  # the parameters make no sense, which the fit reports
            result["resolved"] = None
    return result


def _parameters(value: Any) -> dict[str, Any]:
    """Return the parameters of an estimator, the fields of a dataclass, or a checksum."""
    if hasattr(value, "get_params"):
        return dict(value.get_params(deep=False))
    if is_dataclass(value):
        return {part.name: getattr(value, part.name) for part in fields(value)}
    try:
        return {"pickle": sha256(pickle.dumps(value, protocol=4)).hexdigest()}
    except Exception as error:
        raise ValueError(
            f"a setting of type {type(value).__qualname__} has no fingerprint ({error}); use numbers, strings, lists, "
            "dataclasses or estimators"
        ) from error


@cache
def _declared_keys(qualname: str) -> tuple[str, dict[str, str]] | None:
    """Return the declared name of a class and its keys by parameter; None if it is not declared."""
    if qualname not in DECLARED_CLASSES:
        return None
    name, *words = DECLARED_CLASSES[qualname].split()
    return name, {parameter: key or parameter for parameter, _, key in (word.partition("=") for word in words)}


def _under_declared_keys(cls: type[Any], parameters: Mapping[str, Any], keys: Mapping[str, str]) -> dict[str, Any]:
    """Return the values that count, by key: "-name" does not count, "name?" counts where it is not the default."""
    result = {}
    for name, value in parameters.items():
        if name in keys:
            result[keys[name]] = value
        elif f"{name}?" in keys:
            if _differs_from_default(cls, name, value):
                result[keys[f"{name}?"].removesuffix("?")] = value
        elif f"-{name}" not in keys:
            raise ValueError(
                f"{cls.__qualname__} has the parameter {name!r} without a fingerprint key; declare it in "
                "genlabel/evaluation/records/declared_keys.py"
            )
    return result


def _differs_from_default(cls: type[Any], name: str, value: Any) -> bool:
    """Return whether a parameter is not the default of its class; one without a default differs from it."""
    default = signature(cls).parameters[name].default
    return default is signature(cls).empty or describe(value) != describe(default)
