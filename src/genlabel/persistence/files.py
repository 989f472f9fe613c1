"""Files of a saved model: a fitted object is encoded as a tree for JSON and named arrays for safetensors, and decoded.

Files that are read are not trusted: each has a checksum, only allowed classes are looked up, and only plain values
become their state.
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
"""Version of the files that are written; a change that older versions of the package cannot read raises it."""
READABLE_VERSIONS = (1, 2)
"""Versions of files that can be read; genlabel 0.2.0 wrote version 1."""
ARRAY_KINDS = "biuf"
"""Kinds of dtypes that safetensors holds."""
INTEGERS = tuple(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64))
DTYPES = ("bool", *INTEGERS, "float16", "float32", "float64")
"""Dtypes of numbers in a file."""
STRING_DTYPE = re.compile(r"object|str(\d{1,6})")
"""Dtypes of arrays of objects, and of strings, with their size in bits."""
MAX_STRING_LENGTH = 9999
"""Largest number of characters of a string in an array."""
MAX_CHARACTERS = 1 << 26
"""Largest number of characters of an array of strings: a small forged file could fill the memory."""


class Files(NamedTuple):
    """Contents of the files of a model."""

    body: dict[str, Any]
    arrays: dict[str, NDArray[Any]]
    format_version: int = FORMAT_VERSION


def check_folder(folder: Path, overwrite: bool, option: str = "overwrite=True") -> None:
    """Raise unless a model can be written into the folder: it is new, empty, or has a model to `overwrite`."""
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{str(folder)!r} is a file; name a folder for the model")
    if not folder.exists() or not any(folder.iterdir()):
        return
    if not is_model(folder):
        raise ValueError(f"{str(folder)!r} has files that are not a model of genlabel; name another folder")
    if not overwrite:
        raise ValueError(f"{str(folder)!r} has a model; {option} replaces it, or name another folder")


def write_files(folder: Path, files: Files, card: str) -> None:
    """Write a model into a folder and replace one that is there; other files in the folder stay."""
    stored = save({name: np.ascontiguousarray(array).reshape(array.shape) for name, array in files.arrays.items()})
    body = {**files.body, "arrays_sha256": sha256(stored).hexdigest()}
    document = {"body": body, "body_sha256": _checksum(body), "format": FORMAT, "format_version": files.format_version}
    atomic_write_dir(folder, {CARD: card.encode(errors="surrogateescape"), ARRAYS: stored, TREE: _to_json(document)})


def is_model(folder: Path) -> bool:
    """Return True if a folder has the JSON file of a model, even a damaged one."""
    try:
        return bool(json.loads((folder / TREE).read_bytes())["format"] == FORMAT)
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return False


def read_files(folder: Path) -> Files:
    """Read a model from a folder; raise if a file is damaged or has an unknown format version."""
    document = read_document(folder)
    stored, path = _read_bytes(folder, ARRAYS), repr(str(folder / ARRAYS))
    if sha256(stored).hexdigest() != document["body"].get("arrays_sha256"):
        raise ValueError(
            f"{path} is not the file that was saved with {TREE}: its checksum differs; save the model again"
        )
    try:
        return Files(document["body"], load(stored), document["format_version"])
    except (SafetensorError, KeyError, ValueError, TypeError) as error:
        raise ValueError(f"{path} cannot be read as safetensors ({error}); save the model again") from error


def read_document(folder: Path) -> dict[str, Any]:
    """Return the contents of the JSON file; raise if any byte of it has changed. Arrays are not checked."""
    if not folder.is_dir():
        raise ValueError(f"{str(folder)!r} is not a folder; name the folder of a saved model")
    content, path = _read_bytes(folder, TREE), repr(str(folder / TREE))
    try:
        document = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is damaged: it is not JSON; save the model again") from error
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise ValueError(f"{path} is not a model of genlabel; name the folder of a saved model")
    version = document.get("format_version")
    if isinstance(version, bool) or version not in READABLE_VERSIONS:
        raise ValueError(
            f"{path} has format version {version!r}, but this genlabel reads versions "
            f"{' and '.join(map(str, READABLE_VERSIONS))}; load it with the genlabel that saved it"
        )
    body = document.get("body")
    if not isinstance(body, dict) or document.get("body_sha256") != _checksum(body) or _to_json(document) != content:
        raise ValueError(f"{path} was changed after it was saved: its checksum differs; save the model again")
    return document


def _read_bytes(folder: Path, name: str) -> bytes:
    try:
        return (folder / name).read_bytes()
    except FileNotFoundError as error:
        raise ValueError(f"{str(folder)!r} has no file {name!r}; a model needs both {TREE} and {ARRAYS}") from error


def _to_json(document: Any) -> bytes:
    return (json.dumps(document, indent=1, sort_keys=True, allow_nan=False) + "\n").encode()


def _checksum(body: Any) -> str:
    try:
        return sha256(_to_json(body)).hexdigest()
    except ValueError:  # NaN or infinity, which `write_files` never writes
        return ""


@final
class Encoder:
    """Encoder of values; a shared object is encoded once.

    None, booleans, integers, finite floats, strings and lists stay as they are. Everything else becomes a dictionary
    whose "is" names its kind. Objects of allowed classes are numbered, and refer to earlier ones only.

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
        plain = self._encode_builtin(value, path) if name is None else self._encode_object(name, value, path)
        # The value is stored with its id: as long as it exists, no other object gets the same id.
        self._encoded[id(value)] = (value, plain)
        return plain

    def _encode_object(self, name: str, value: Any, path: str) -> dict[str, Any]:
        """Add an object of an allowed class to `objects`, and return the reference to it."""
        attributes, optional = get_state(name, value)
        state: dict[str, Any] = {}
        left_out: dict[str, str] = {}
        for attribute, item in sorted(attributes.items()):
            if attribute not in optional:
                state[attribute] = self.encode(item, f"{path}.{attribute}")
                continue
            count, arrays, encoded = len(self.objects), dict(self.arrays), dict(self._encoded)
            try:
                state[attribute] = self.encode(item, f"{path}.{attribute}")
            except PersistenceError:
                # Forget the parts of the attribute that have been encoded.
                del self.objects[count:]
                self.arrays, self._encoded = arrays, encoded
                left_out[attribute] = _shorten(item)
        self.objects.append({"class": name, "state": state, **({"left_out": left_out} if left_out else {})})
        return {"is": "object", "number": len(self.objects) - 1}

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
        if type(value) in (tuple, torch.Size):
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
            f"{path} is {_shorten(value)} of the class {type(value).__name__}, which cannot be saved without pickle; "
            "use numbers, strings, arrays, lists and dicts"
        )

    def _encode_numbers(self, value: NDArray[Any], path: str) -> dict[str, Any]:
        """Store an array with its axes in the order of memory: products in another order differ in the last bit."""
        order = sorted(range(value.ndim), key=lambda axis: -abs(value.strides[axis]))
        name = path if path not in self.arrays else f"{path}~{len(self.arrays)}"
        transposed = value.transpose(order)
        # `ascontiguousarray` makes a row of a single number, so the shape is restored.
        self.arrays[name] = np.ascontiguousarray(transposed, value.dtype.newbyteorder("=")).reshape(transposed.shape)
        return {"at": name, **({} if order == sorted(order) else {"order": order})}


@final
class Decoder:
    """Decoder of the values of an :class:`Encoder`; it upgrades objects of version 1, and raises for unknown kinds.

    >>> Decoder([], {}).decode({"is": "tuple", "items": [1, "a", {"is": "float", "value": "nan"}]})
    (1, 'a', nan)
    """

    def __init__(
        self, objects: Sequence[Mapping[str, Any]], arrays: Mapping[str, NDArray[Any]], version: int = FORMAT_VERSION
    ) -> None:
        self._arrays = arrays
        self._objects: list[Any] = []
        for plain in objects:
            name = plain["class"]
            state = {attribute: self.decode(value) for attribute, value in plain["state"].items()}
            if version == 1:
                name, state = upgrade_state(name, state)
            self._objects.append(build_object(name, state))

    def decode(self, plain: Any) -> Any:
        """Return the value that was encoded as `plain`."""
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
                check_choice("float", plain["value"], ("nan", "inf", "-inf"))
                return float(plain["value"])
            case "number":
                check_choice("dtype", plain["dtype"], DTYPES)
                return np.dtype(plain["dtype"]).type(self.decode(plain["value"]))
            case "values":
                dtype, items = STRING_DTYPE.fullmatch(plain["dtype"]), plain["items"]
                if dtype is None:
                    raise ValueError(f"dtype={plain['dtype']!r} of an array is neither objects nor strings")
                length = 0 if dtype[1] is None else int(dtype[1]) // 32
                if length * len(items) > MAX_CHARACTERS:
                    raise ValueError(f"an array of {len(items)} strings of {length} characters is too large")
                array = np.empty(len(items), object if dtype[1] is None else f"U{length}")
                for index, item in enumerate(items):
                    array[index] = self.decode(item)
                return array.reshape(plain["shape"])
            case kind:
                raise ValueError(f"a value has the unknown kind {kind!r}")

    def _decode_numbers(self, plain: Mapping[str, Any]) -> NDArray[Any]:
        """Return a copy of an array, with its axes in the original order."""
        stored = np.array(self._arrays[plain["at"]])
        return stored if "order" not in plain else stored.transpose(np.argsort(plain["order"]))


def _shorten(value: Any) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= 80 else f"{text[:77]}..."
