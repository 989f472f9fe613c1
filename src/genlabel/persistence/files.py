"""Files of a saved model: arrays in safetensors, everything else in JSON, each with its checksum."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from genlabel._atomic_io import atomic_write_dir

TREE, ARRAYS, CARD = "model.json", "model.safetensors", "README.md"
FORMAT = "genlabel model"
FORMAT_VERSION = 2
"""Version of the files that are written; it is raised when older versions of the package cannot read them."""
READABLE_VERSIONS = (1, 2)
"""Version 1 is that of genlabel 0.2.0."""


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


def check_model(folder: Path) -> None:
    """Raise unless the JSON file of a folder is that of a model that this version reads; arrays are not checked."""
    _read_document(folder)


def is_model(folder: Path) -> bool:
    """Return whether a folder has the JSON file of a model, damaged or not."""
    try:
        return bool(json.loads((folder / TREE).read_bytes())["format"] == FORMAT)
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return False


def read_files(folder: Path) -> Files:
    """Read a model from a folder; raise unless both files are undamaged and of a version that this one reads."""
    document = _read_document(folder)
    stored, path = _read_bytes(folder, ARRAYS), repr(str(folder / ARRAYS))
    if sha256(stored).hexdigest() != document["body"].get("arrays_sha256"):
        raise ValueError(f"{path} is not the file that was saved with {TREE}: its checksum differs")
    try:
        return Files(document["body"], load(stored), document["format_version"])
    except (SafetensorError, KeyError, ValueError, TypeError) as error:
        raise ValueError(f"{path} cannot be read as safetensors ({error})") from error


def _read_document(folder: Path) -> dict[str, Any]:
    """Return the contents of the JSON file, which must be to the byte as it was written."""
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
