"""The files of a kept model: arrays in safetensors, everything else in JSON, each with its checksum."""

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

__all__ = ["ARRAYS", "CARD", "FORMAT_VERSION", "TREE", "Files", "check_model", "is_model", "read_files", "write_files"]

TREE, ARRAYS, CARD = "model.json", "model.safetensors", "README.md"
FORMAT = "genstacked density"
FORMAT_VERSION = 1
"""Counts up when files are written that an older version of the package cannot read."""


class Files(NamedTuple):
    """What the files of a model hold."""

    body: dict[str, Any]
    arrays: dict[str, NDArray[Any]]


def write_files(folder: Path, files: Files, card: str) -> None:
    """Write a model into a folder, in the place of one that is there; what else is in the folder stays."""
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{str(folder)!r} is a file; name a folder for the model")
    stored = save({name: np.ascontiguousarray(array).reshape(array.shape) for name, array in files.arrays.items()})
    body = {**files.body, "arrays_sha256": sha256(stored).hexdigest()}
    document = {"body": body, "body_sha256": _sum_of(body), "format": FORMAT, "format_version": FORMAT_VERSION}
    atomic_write_dir(folder, {CARD: card.encode(), ARRAYS: stored, TREE: _text(document)})


def check_model(folder: Path) -> None:
    """Raise unless the files of a folder look like a model that can be read here; its arrays are not looked at."""
    _read_document(folder)


def is_model(folder: Path) -> bool:
    """Tell whether a folder holds a model, whole or not."""
    try:
        return bool(json.loads((folder / TREE).read_bytes())["format"] == FORMAT)
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return False


def read_files(folder: Path) -> Files:
    """Read a model from a folder; raise unless both files are whole and of a format that is known here."""
    document = _read_document(folder)
    stored = _bytes(folder, ARRAYS)
    if sha256(stored).hexdigest() != document["body"].get("arrays_sha256"):
        raise ValueError(f"{_named(folder, ARRAYS)} is not the file that was saved with {TREE}: its checksum differs")
    try:
        return Files(document["body"], load(stored))
    except (SafetensorError, KeyError, ValueError, TypeError) as error:
        raise ValueError(f"{_named(folder, ARRAYS)} cannot be read as safetensors ({error})") from error


def _read_document(folder: Path) -> dict[str, Any]:
    """The contents of the JSON file, which must be to the byte as it was written."""
    if not folder.is_dir():
        raise ValueError(f"{str(folder)!r} is no folder; name one that save_model has written")
    content, path = _bytes(folder, TREE), _named(folder, TREE)
    try:
        document = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is damaged: it is no JSON ({type(error).__name__})") from error
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise ValueError(f"{path} is no model of genlabel; name a folder that save_model has written")
    if document.get("format_version") != FORMAT_VERSION:
        raise ValueError(
            f"{path} is of format version {document.get('format_version')!r}, but this genlabel reads version "
            f"{FORMAT_VERSION}; load it with the version of the package that wrote it"
        )
    body = document.get("body")
    if not isinstance(body, dict) or document.get("body_sha256") != _sum_of(body) or _text(document) != content:
        raise ValueError(f"{path} is not as it was saved: its checksum differs; save the model again")
    return document


def _bytes(folder: Path, name: str) -> bytes:
    try:
        return (folder / name).read_bytes()
    except FileNotFoundError as error:
        raise ValueError(f"{str(folder)!r} has no file {name!r}; a model is {TREE} and {ARRAYS} together") from error


def _text(document: Any) -> bytes:
    return (json.dumps(document, indent=1, sort_keys=True, allow_nan=False) + "\n").encode()


def _sum_of(body: Any) -> str:
    try:
        return sha256(_text(body)).hexdigest()
    except ValueError:  # numbers that JSON does not know, which nobody here writes
        return ""


def _named(folder: Path, name: str) -> str:
    return repr(str(folder / name))
