"""From a fitted model to plain values: a tree that JSON can hold, and named arrays."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from genlabel.persistence.allowed_classes import name_of_class
from genlabel.persistence.object_state import optional_names, state_of
from genlabel.persistence.preprocessing import PersistenceError

ARRAY_KINDS = "biuf"
"""Kinds of numbers that safetensors holds."""
LONGEST = 9999
"""Characters that a text in an array has at most."""


@final
class Writer:
    """Writes values as plain ones; what is shared is written once.

    None, booleans, whole and finite numbers, texts and lists stand for themselves. Everything else is a dictionary that
    says what it "is". Objects of known classes are numbered; each refers to earlier ones only.

    Attributes
    ----------
    objects : list of dict
        "class" and "state" of each object; "left_out" says what of it could not be written, and need not be.
    arrays : dict of str -> ndarray

    Examples
    --------
    >>> from genlabel._standardization import Standardization
    >>> writer = Writer()
    >>> writer.write(Standardization(np.zeros(2), np.ones(2), np.array([True, True])), "scaler")
    {'is': 'object', 'number': 0}
    >>> writer.objects[0]["class"], list(writer.arrays)
    ('Standardization', ['scaler.keep', 'scaler.mean', 'scaler.scale'])
    """

    def __init__(self) -> None:
        self.objects: list[dict[str, Any]] = []
        self.arrays: dict[str, NDArray[Any]] = {}
        self._seen: dict[int, tuple[Any, dict[str, Any]]] = {}

    def write(self, value: Any, path: str) -> Any:
        """Return the plain value; `path` says where it is, in names of arrays and in errors."""
        if value is None or type(value) in (bool, int, str):
            return value
        if type(value) is float:
            return value if math.isfinite(value) else {"is": "float", "value": str(value)}
        if type(value) is list:
            return self._several(value, path)
        if id(value) in self._seen:
            return self._seen[id(value)][1]
        name = name_of_class(type(value))
        found = self._object(value, name, path) if name is not None else self._builtin(value, path)
        # The value is remembered with its number, lest another one is made in its place in memory.
        self._seen[id(value)] = (value, found)
        return found

    def _several(self, values: Sequence[Any], path: str) -> list[Any]:
        return [self.write(value, f"{path}.{place}") for place, value in enumerate(values)]

    def _object(self, value: Any, name: str, path: str) -> dict[str, Any]:
        optional, state, left_out = optional_names(name, value), {}, {}
        for attribute, item in sorted(state_of(value).items()):
            if attribute not in optional:
                state[attribute] = self.write(item, f"{path}.{attribute}")
                continue
            before = len(self.objects), list(self.arrays), dict(self._seen)
            try:
                state[attribute] = self.write(item, f"{path}.{attribute}")
            except PersistenceError:
                self._forget_since(*before)
                left_out[attribute] = _short(item)
        self.objects.append({"class": name, "state": state, **({"left_out": left_out} if left_out else {})})
        return {"is": "object", "number": len(self.objects) - 1}

    def _forget_since(self, objects: int, arrays: list[str], seen: dict[int, tuple[Any, dict[str, Any]]]) -> None:
        """Go back to what had been written before."""
        del self.objects[objects:]
        self.arrays = {name: self.arrays[name] for name in arrays}
        self._seen = seen

    def _builtin(self, value: Any, path: str) -> dict[str, Any]:
        """Write what is of no class of ours."""
        if isinstance(value, Tensor):
            return self._tensor(value, path)
        if type(value) is np.ndarray:
            return self._array(value, path)
        if type(value) is tuple:
            return {"is": "tuple", "items": self._several(value, path)}
        if type(value) is dict:
            return {"is": "dict", "items": self._pairs(value, path)}
        if isinstance(value, np.generic) and value.dtype.kind in ARRAY_KINDS:
            return {"is": "number", "dtype": value.dtype.name, "value": self.write(value.item(), path)}
        if isinstance(value, np.str_):
            return {"is": "text", "value": str(value)}
        raise PersistenceError(
            f"{path} is {_short(value)}, of the class {type(value).__name__}: a model is kept as plain arrays, numbers "
            "and texts, without pickle, and this is none"
        )

    def _pairs(self, value: Mapping[Any, Any], path: str) -> list[list[Any]]:
        places = enumerate(value.items())
        return [[self.write(key, path), self.write(item, _below(path, key, place))] for place, (key, item) in places]

    def _tensor(self, value: Tensor, path: str) -> dict[str, Any]:
        if value.dtype in (torch.bfloat16, torch.complex64, torch.complex128) or value.layout != torch.strided:
            raise PersistenceError(f"{path} is a tensor of {value.dtype}, which cannot be kept; use float32 or float64")
        return {"is": "tensor", **self._numbers(value.detach().cpu().numpy(), path)}

    def _array(self, value: NDArray[Any], path: str) -> dict[str, Any]:
        if value.dtype.kind in ARRAY_KINDS:
            return {"is": "array", **self._numbers(value, path)}
        if value.dtype.kind not in "UO" or (value.dtype.kind == "U" and value.dtype.itemsize > 4 * LONGEST):
            raise PersistenceError(f"{path} is an array of {value.dtype}, which cannot be kept; use numbers or texts")
        kind = "object" if value.dtype.kind == "O" else value.dtype.name
        items = self._several(value.ravel().tolist(), path)
        return {"is": "values", "dtype": kind, "shape": list(value.shape), "items": items}

    def _numbers(self, value: NDArray[Any], path: str) -> dict[str, Any]:
        """Keep an array of numbers in the order of its memory: products of another order differ in the last bit."""
        order = sorted(range(value.ndim), key=lambda axis: -abs(value.strides[axis]))
        name = path if path not in self.arrays else f"{path}~{len(self.arrays)}"
        turned = value.transpose(order)
        # The shape is given again, since numpy makes a row of a single number.
        self.arrays[name] = np.ascontiguousarray(turned, value.dtype.newbyteorder("=")).reshape(turned.shape)
        return {"at": name, **({} if order == sorted(order) else {"order": order})}


def _below(path: str, key: Any, place: int) -> str:
    simple = isinstance(key, str) and key.replace("_", "").replace(".", "").isalnum() and len(key) < 60
    return f"{path}.{key if simple else place}"


def _short(value: Any) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= 80 else f"{text[:77]}..."
