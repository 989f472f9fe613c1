"""Encoder of a fitted model as plain values, a tree for JSON and named arrays; and the decoder, for untrusted files."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from genlabel.persistence.classes import PersistenceError, saved_name
from genlabel.persistence.legacy import upgrade_state
from genlabel.persistence.object_state import build_object, get_state, optional_names

ARRAY_KINDS = "biuf"
"""Kinds of dtypes that safetensors holds."""
INTEGERS = tuple(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64))
DTYPES = ("bool", *INTEGERS, "float16", "float32", "float64")
"""Dtypes of numbers in a file."""
STRING_DTYPE = re.compile(r"object|str(\d{1,6})")
"""Dtypes of arrays of objects, and of strings with the bits of each."""
MAX_STRING_LENGTH = 9999
"""Characters of a string in an array."""
MAX_STRING_ARRAY = 1 << 26
"""Characters that an array of strings has memory for: a small file could fill the memory."""


@final
class Encoder:
    """Encoder of values; a shared object is encoded once.

    None, booleans, integers, finite numbers, strings and lists stand for themselves. Everything else is a dictionary
    whose "is" says what it is. Objects of allowed classes are numbered, and refer to earlier ones only.

    Attributes
    ----------
    objects : list of dict
        "class" and "state" of each object; "left_out" is the optional state that could not be encoded.
    arrays : dict of str -> ndarray
        Arrays by name.

    Examples
    --------
    >>> from genlabel._standardization import Standardization
    >>> encoder = Encoder()
    >>> encoder.encode(Standardization(np.zeros(2), np.ones(2), np.array([True, True])), "scaler")
    {'is': 'object', 'number': 0}
    >>> encoder.objects[0]["class"], list(encoder.arrays)
    ('Standardization', ['scaler.keep', 'scaler.mean', 'scaler.scale'])
    """

    def __init__(self) -> None:
        self.objects: list[dict[str, Any]] = []
        self.arrays: dict[str, NDArray[Any]] = {}
        self._encoded: dict[int, tuple[Any, dict[str, Any]]] = {}

    def encode(self, value: Any, path: str) -> Any:
        """Return the plain value; `path` is its position, for names of arrays and for errors."""
        if value is None or type(value) in (bool, int, str):
            return value
        if type(value) is float:
            return value if math.isfinite(value) else {"is": "float", "value": str(value)}
        if type(value) is list:
            return self._encode_items(value, path)
        if id(value) in self._encoded:
            return self._encoded[id(value)][1]
        name = saved_name(type(value))
        plain = self._encode_object(value, name, path) if name is not None else self._encode_builtin(value, path)
        # The value is stored with its id, so that no other object takes its place in memory, and with it the id.
        self._encoded[id(value)] = (value, plain)
        return plain

    def _encode_items(self, values: Sequence[Any], path: str) -> list[Any]:
        return [self.encode(value, f"{path}.{index}") for index, value in enumerate(values)]

    def _encode_object(self, value: Any, name: str, path: str) -> dict[str, Any]:
        optional, state, left_out = optional_names(name, value), {}, {}
        for attribute, item in sorted(get_state(value).items()):
            if attribute not in optional:
                state[attribute] = self.encode(item, f"{path}.{attribute}")
                continue
            objects, arrays, encoded = len(self.objects), list(self.arrays), dict(self._encoded)
            try:
                state[attribute] = self.encode(item, f"{path}.{attribute}")
            except PersistenceError:  # undo what has been encoded of the attribute
                del self.objects[objects:]
                self.arrays = {key: self.arrays[key] for key in arrays}
                self._encoded = encoded
                left_out[attribute] = _shorten(item)
        self.objects.append({"class": name, "state": state, **({"left_out": left_out} if left_out else {})})
        return {"is": "object", "number": len(self.objects) - 1}

    def _encode_builtin(self, value: Any, path: str) -> dict[str, Any]:
        if isinstance(value, Tensor):
            if value.dtype in (torch.bfloat16, torch.complex64, torch.complex128) or value.layout != torch.strided:
                raise PersistenceError(
                    f"{path} is a tensor of {value.dtype}, which cannot be saved; use float32 or float64"
                )
            return {"is": "tensor", **self._encode_numbers(value.detach().cpu().numpy(), path)}
        if type(value) is np.ndarray:
            return self._encode_array(value, path)
        if type(value) is tuple:
            return {"is": "tuple", "items": self._encode_items(value, path)}
        if type(value) is dict:
            pairs = [
                [self.encode(key, path), self.encode(item, _item_path(path, key, index))]
                for index, (key, item) in enumerate(value.items())
            ]
            return {"is": "dict", "items": pairs}
        if isinstance(value, np.generic) and value.dtype.kind in ARRAY_KINDS:
            return {"is": "number", "dtype": value.dtype.name, "value": self.encode(value.item(), path)}
        if isinstance(value, np.str_):
            return {"is": "text", "value": str(value)}
        raise PersistenceError(
            f"{path} is {_shorten(value)}, of the class {type(value).__name__}: a model is saved without pickle, as "
            "arrays, numbers and strings"
        )

    def _encode_array(self, value: NDArray[Any], path: str) -> dict[str, Any]:
        kind = value.dtype.kind
        if kind in ARRAY_KINDS:
            return {"is": "array", **self._encode_numbers(value, path)}
        if kind not in "UO" or (kind == "U" and value.dtype.itemsize > 4 * MAX_STRING_LENGTH):
            raise PersistenceError(
                f"{path} is an array of {value.dtype}, which cannot be saved; use numbers or strings"
            )
        items = self._encode_items(value.ravel().tolist(), path)
        dtype = "object" if kind == "O" else value.dtype.name
        return {"is": "values", "dtype": dtype, "shape": list(value.shape), "items": items}

    def _encode_numbers(self, value: NDArray[Any], path: str) -> dict[str, Any]:
        """Store an array in the order of its memory: products in another order differ in the last bit."""
        order = sorted(range(value.ndim), key=lambda axis: -abs(value.strides[axis]))
        name = path if path not in self.arrays else f"{path}~{len(self.arrays)}"
        turned = value.transpose(order)
        # The shape is given again, since numpy makes a row of a single number.
        self.arrays[name] = np.ascontiguousarray(turned, value.dtype.newbyteorder("=")).reshape(turned.shape)
        return {"at": name, **({} if order == sorted(order) else {"order": order})}


@final
class Decoder:
    """Decoder of what an :class:`Encoder` has encoded; anything else is a ValueError.

    Only allowed classes are looked up, and only plain values become their state.

    Parameters
    ----------
    objects : list of dict
        Objects of the encoder.
    arrays : mapping of str -> ndarray
        Arrays of the encoder.
    format_version : int
        Format version of the file; objects of version 1 are upgraded.

    Examples
    --------
    >>> Decoder([], {}).decode({"is": "tuple", "items": [1, "a", {"is": "float", "value": "nan"}]})
    (1, 'a', nan)
    >>> Decoder([{"class": "subprocess.Popen", "state": {}}], {})
    Traceback (most recent call last):
    ValueError: it names the class 'subprocess.Popen', which is not one of those that a saved model is made of
    """

    def __init__(
        self, objects: Sequence[Mapping[str, Any]], arrays: Mapping[str, NDArray[Any]], format_version: int = 2
    ) -> None:
        self._arrays = arrays
        self._decoders: dict[str, Callable[[Mapping[str, Any]], Any]] = {
            "array": self._decode_numbers,
            "dict": lambda plain: {self.decode(key): self.decode(value) for key, value in plain["items"]},
            "float": lambda plain: float(_check_in(plain["value"], ("nan", "inf", "-inf"))),
            "number": lambda plain: np.dtype(_check_in(plain["dtype"], DTYPES)).type(self.decode(plain["value"])),
            "object": lambda plain: self._objects[plain["number"]],
            "tensor": lambda plain: torch.from_numpy(self._decode_numbers(plain)).clone(),
            "text": lambda plain: np.str_(plain["value"]),
            "tuple": lambda plain: tuple(self.decode(item) for item in plain["items"]),
            "values": self._decode_values,
        }
        self._objects: list[Any] = []
        for plain in objects:
            name, state = plain["class"], {name: self.decode(value) for name, value in plain["state"].items()}
            if format_version == 1:
                name, state = upgrade_state(name, state)
            self._objects.append(build_object(name, state))

    def decode(self, value: Any) -> Any:
        """Return the value of a plain one."""
        if isinstance(value, list):
            return [self.decode(item) for item in value]
        return (
            self._decoders[_check_in(value["is"], tuple(self._decoders))](value) if isinstance(value, dict) else value
        )

    def _decode_numbers(self, plain: Mapping[str, Any]) -> NDArray[Any]:
        """Return an array in its own memory, with its axes in their order there."""
        stored = np.array(self._arrays[plain["at"]])
        return stored if "order" not in plain else stored.transpose(np.argsort(plain["order"]))

    def _decode_values(self, plain: Mapping[str, Any]) -> NDArray[Any]:
        dtype = STRING_DTYPE.fullmatch(plain["dtype"])
        if dtype is None:
            raise ValueError(f"it has an array of {plain['dtype']!r}, which is neither of objects nor of strings")
        length = 0 if dtype[1] is None else int(dtype[1]) // 32
        if length * len(plain["items"]) > MAX_STRING_ARRAY:
            raise ValueError(
                f"it has {len(plain['items'])} strings with memory for {length} characters each, which is too much"
            )
        array = np.empty(len(plain["items"]), object if dtype[1] is None else f"U{length}")
        for index, item in enumerate(plain["items"]):
            array[index] = self.decode(item)
        return array.reshape(plain["shape"])


def _check_in(value: Any, names: Sequence[str]) -> str:
    if value not in names:
        raise ValueError(f"it has {value!r} where one of {', '.join(names)} must be")
    return str(value)


def _item_path(path: str, key: Any, index: int) -> str:
    simple = isinstance(key, str) and key.replace("_", "").replace(".", "").isalnum() and len(key) < 60
    return f"{path}.{key if simple else index}"


def _shorten(value: Any) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= 80 else f"{text[:77]}..."
