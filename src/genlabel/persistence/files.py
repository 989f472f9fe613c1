"""Files of a saved model: a fitted object as a tree for JSON and named arrays for safetensors, and back.

The files are untrusted when they are read: each has a checksum, only allowed classes are looked up, and only plain
values become their state.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple, final

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save
from torch import Tensor

from genlabel._atomic_io import atomic_write_dir
from genlabel._validation import check_choice
from genlabel.persistence.legacy import upgrade_state
from genlabel.persistence.objects import PersistenceError, build_object, get_state, saved_name

TREE, ARRAYS, CARD = "model.json", "model.safetensors", "README.md"
FORMAT = "genlabel model"
FORMAT_VERSION = 2
"""Version of the files that are written; it is raised when older versions of the package cannot read them."""
READABLE_VERSIONS = (1, 2)
"""Version 1 is that of genlabel 0.2.0."""
ARRAY_KINDS = "biuf"
"""Kinds of dtypes that safetensors holds."""
INTEGERS = tuple(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64))
DTYPES = ("bool", *INTEGERS, "float16", "float32", "float64")
"""Dtypes of numbers in a file."""
STRING_DTYPE = re.compile(r"object|str(\d{1,6})")
"""Dtypes of arrays of objects, and of strings with the bits of each."""
MAX_STRING_LENGTH = 9999
"""Characters of a string in an array."""
MAX_CHARACTERS = 1 << 26
"""Characters of an array of strings, since a small file could fill the memory."""


class Files(NamedTuple):
    """Contents of the files of a model."""

    body: dict[str, Any]
    arrays: dict[str, NDArray[Any]]
    format_version: int = FORMAT_VERSION


def write_files(folder: Path, files: Files, card: str) -> None:
    """Write a model into a folder and replace one that is there; other files in the folder stay."""
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{str(folder)!r} is a file; name a folder for the model")
    stored = save({name: np.ascontiguousarray(array).reshape(array.shape) for name, array in files.arrays.items()})
    body = {**files.body, "arrays_sha256": sha256(stored).hexdigest()}
    document = {
        "body": body,
        "body_sha256": _checksum(body),
        "format": FORMAT,
        "format_version": files.format_version,
    }
    atomic_write_dir(folder, {CARD: card.encode(), ARRAYS: stored, TREE: _to_json(document)})


def is_model(folder: Path) -> bool:
    """Return whether a folder has the JSON file of a model, damaged or not."""
    try:
        return bool(json.loads((folder / TREE).read_bytes())["format"] == FORMAT)
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return False


def read_files(folder: Path) -> Files:
    """Read a model from a folder; raise unless both files are undamaged and of a version that this one reads."""
    document = read_document(folder)
    stored, path = _read_bytes(folder, ARRAYS), repr(str(folder / ARRAYS))
    if sha256(stored).hexdigest() != document["body"].get("arrays_sha256"):
        raise ValueError(f"{path} is not the file that was saved with {TREE}: its checksum differs")
    try:
        return Files(document["body"], load(stored), document["format_version"])
    except (SafetensorError, KeyError, ValueError, TypeError) as error:
        raise ValueError(f"{path} cannot be read as safetensors ({error})") from error


def read_document(folder: Path) -> dict[str, Any]:
    """Return the contents of the JSON file, which must be to the byte as it was written; arrays are not checked."""
    if not folder.is_dir():
        raise ValueError(f"{str(folder)!r} is not a folder; name one that save_model has written")
    content, path = _read_bytes(folder, TREE), repr(str(folder / TREE))
    try:
        document = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is damaged: it is not JSON ({type(error).__name__})") from error
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise ValueError(f"{path} is not a model of genlabel; name a folder that save_model has written")
    version = document.get("format_version")
    if isinstance(version, bool) or version not in READABLE_VERSIONS:
        raise ValueError(
            f"{path} has format version {version!r}, but this genlabel reads versions "
            f"{' and '.join(map(str, READABLE_VERSIONS))}; load it with the genlabel that saved it"
        )
    body = document.get("body")
    if not isinstance(body, dict) or document.get("body_sha256") != _checksum(body) or _to_json(document) != content:
        raise ValueError(f"{path} is not as it was saved: its checksum differs; save the model again")
    return document


def _read_bytes(folder: Path, name: str) -> bytes:
    try:
        return (folder / name).read_bytes()
    except FileNotFoundError as error:
        raise ValueError(f"{str(folder)!r} has no file {name!r}; a model is {TREE} and {ARRAYS} together") from error


def _to_json(document: Any) -> bytes:
    return (json.dumps(document, indent=1, sort_keys=True, allow_nan=False) + "\n").encode()


def _checksum(body: Any) -> str:
    try:
        return sha256(_to_json(body)).hexdigest()
    except ValueError:  # numbers that JSON does not have, which are never written
        return ""


@final
class Encoder:
    """Encoder of values; a shared object is encoded once.

    None, booleans, integers, finite numbers, strings and lists stand for themselves. Everything else is a dictionary
    whose "is" says what it is. Objects of allowed classes are numbered, and refer to earlier ones only.

    >>> from genlabel._arrays import Standardization
    >>> encoder = Encoder()
    >>> encoder.encode(Standardization(np.zeros(2), np.ones(2), np.array([True, True])), "scaler")
    {'is': 'object', 'number': 0}
    >>> encoder.objects[0]["class"], list(encoder.arrays)
    ('Standardization', ['scaler.mask', 'scaler.mean', 'scaler.scale'])
    """

    def __init__(self) -> None:
        self.objects: list[dict[str, Any]] = []
        """"class" and "state" of each object; "left_out" is the optional state that could not be encoded."""
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
        if name is None:
            plain = self._encode_builtin(value, path)
        else:
            (items, optional), state, left_out = get_state(name, value), {}, {}
            for attribute, item in sorted(items.items()):
                if attribute not in optional:
                    state[attribute] = self.encode(item, f"{path}.{attribute}")
                    continue
                objects, arrays, encoded = len(self.objects), list(self.arrays), dict(self._encoded)
                try:
                    state[attribute] = self.encode(item, f"{path}.{attribute}")
                except PersistenceError:
                    del self.objects[objects:]  # undo what has been encoded of the attribute
                    self.arrays = {key: self.arrays[key] for key in arrays}
                    self._encoded = encoded
                    left_out[attribute] = _shorten(item)
            self.objects.append({"class": name, "state": state, **({"left_out": left_out} if left_out else {})})
            plain = {"is": "object", "number": len(self.objects) - 1}
        # The value is stored with its id, so that no other object takes its place in memory, and with it the id.
        self._encoded[id(value)] = (value, plain)
        return plain

    def _encode_items(self, values: Sequence[Any], path: str) -> list[Any]:
        return [self.encode(value, f"{path}.{index}") for index, value in enumerate(values)]

    def _encode_builtin(self, value: Any, path: str) -> dict[str, Any]:
        kind = getattr(getattr(value, "dtype", None), "kind", "")
        if isinstance(value, Tensor):
            if value.dtype in (torch.bfloat16, torch.complex64, torch.complex128) or value.layout != torch.strided:
                raise PersistenceError(
                    f"{path} is a tensor of {value.dtype}, which cannot be saved; use float32 or float64"
                )
            return {"is": "tensor", **self._encode_numbers(value.detach().cpu().numpy(), path)}
        if type(value) is np.ndarray and kind in ARRAY_KINDS:
            return {"is": "array", **self._encode_numbers(value, path)}
        if type(value) is np.ndarray:
            if kind not in "UO" or (kind == "U" and value.dtype.itemsize > 4 * MAX_STRING_LENGTH):
                raise PersistenceError(
                    f"{path} is an array of {value.dtype}, which cannot be saved; use numbers or strings"
                )
            items = self._encode_items(value.ravel().tolist(), path)
            dtype = "object" if kind == "O" else value.dtype.name
            return {"is": "values", "dtype": dtype, "shape": list(value.shape), "items": items}
        if type(value) is tuple:
            return {"is": "tuple", "items": self._encode_items(value, path)}
        if type(value) is dict:
            pairs = []
            for index, (key, item) in enumerate(value.items()):
                simple = isinstance(key, str) and key.replace("_", "").replace(".", "").isalnum() and len(key) < 60
                pairs.append([self.encode(key, path), self.encode(item, f"{path}.{key if simple else index}")])
            return {"is": "dict", "items": pairs}
        if isinstance(value, np.generic) and kind in ARRAY_KINDS:
            return {"is": "number", "dtype": value.dtype.name, "value": self.encode(value.item(), path)}
        if isinstance(value, np.str_):
            return {"is": "text", "value": str(value)}
        raise PersistenceError(
            f"{path} is {_shorten(value)}, of the class {type(value).__name__}: a model is saved without pickle, as "
            "arrays, numbers and strings"
        )

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
    """Decoder of what an :class:`Encoder` has encoded; anything else is an error. Objects of version 1 are upgraded.

    >>> Decoder([], {}).decode({"is": "tuple", "items": [1, "a", {"is": "float", "value": "nan"}]})
    (1, 'a', nan)
    """

    def __init__(
        self,
        objects: Sequence[Mapping[str, Any]],
        arrays: Mapping[str, NDArray[Any]],
        format_version: int = FORMAT_VERSION,
    ) -> None:
        self._arrays = arrays
        self._objects: list[Any] = []
        for plain in objects:
            name, state = plain["class"], {name: self.decode(value) for name, value in plain["state"].items()}
            if format_version == 1:
                name, state = upgrade_state(name, state)
            self._objects.append(build_object(name, state))

    def decode(self, plain: Any) -> Any:
        """Return the value of a plain one."""
        if isinstance(plain, list):
            return [self.decode(item) for item in plain]
        if not isinstance(plain, dict):
            return plain
        match plain["is"]:
            case "array":
                return self._decode_numbers(plain)
            case "tensor":
                return torch.from_numpy(self._decode_numbers(plain)).clone()
            case "object":
                return self._objects[plain["number"]]
            case "tuple":
                return tuple(self.decode(item) for item in plain["items"])
            case "dict":
                return {self.decode(key): self.decode(value) for key, value in plain["items"]}
            case "text":
                return np.str_(plain["value"])
            case "float":
                check_choice("it has a float", plain["value"], ("nan", "inf", "-inf"))
                return float(plain["value"])
            case "number":
                check_choice("it has a number of dtype", plain["dtype"], DTYPES)
                return np.dtype(plain["dtype"]).type(self.decode(plain["value"]))
            case "values":
                dtype, items = STRING_DTYPE.fullmatch(plain["dtype"]), plain["items"]
                if dtype is None:
                    raise ValueError(f"it has an array of {plain['dtype']!r}, neither of objects nor of strings")
                length = 0 if dtype[1] is None else int(dtype[1]) // 32
                if length * len(items) > MAX_CHARACTERS:
                    raise ValueError(f"it has {len(items)} strings of {length} characters each, which is too much")
                array = np.empty(len(items), object if dtype[1] is None else f"U{length}")
                for index, item in enumerate(items):
                    array[index] = self.decode(item)
                return array.reshape(plain["shape"])
            case kind:
                raise ValueError(f"it has a value of the kind {kind!r}, which is not known")

    def _decode_numbers(self, plain: Mapping[str, Any]) -> NDArray[Any]:
        """Return an array in its own memory, with its axes in their order there."""
        stored = np.array(self._arrays[plain["at"]])
        return stored if "order" not in plain else stored.transpose(np.argsort(plain["order"]))


def _shorten(value: Any) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= 80 else f"{text[:77]}..."
