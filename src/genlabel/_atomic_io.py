"""A file is written whole or not at all: it is made beside its place, and moved there when it is on the disk."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

LETTERS = 80
"""Of a name, in that of the hidden folder beside it."""


@contextmanager
def atomic_writer(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Give a path of the same name to write to; on leaving, what is there takes the place of the file.

    An error, an interrupt or a full disk leaves the file as it was, and nothing beside it; a kill leaves at most a
    hidden folder beside it. What is no plain file, such as /dev/stdout, is written as it is.

    Parameters
    ----------
    path : path

    Examples
    --------
    >>> with TemporaryDirectory() as folder:
    ...     with atomic_writer(f"{folder}/a.csv") as beside:
    ...         _ = beside.write_text("x,y")
    ...         os.path.exists(f"{folder}/a.csv")
    ...     os.listdir(folder)
    False
    ['a.csv']
    """
    path = Path(path)
    if not _is_replaceable(path):
        yield path
        return
    place = path.resolve()
    with _clear_errors(path), _beside(place.parent, path.name) as folder:
        beside = folder / path.name
        yield beside
        _move(beside, place)


def atomic_write(path: str | os.PathLike[str], content: str | bytes | memoryview) -> None:
    """Write a file, text as UTF-8, whole or not at all; its folder is made.

    >>> with TemporaryDirectory() as folder:
    ...     atomic_write(f"{folder}/deep/a.txt", "text")
    ...     Path(folder, "deep", "a.txt").read_text()
    'text'
    """
    with _clear_errors(Path(path)):
        Path(path).parent.mkdir(parents=True, exist_ok=True)
    with atomic_writer(path) as beside:
        beside.write_bytes(content.encode() if isinstance(content, str) else content)


def atomic_write_dir(folder: Path, contents: Mapping[str, bytes]) -> None:
    """Write the files of a folder, all or none; in one that is there they take the places of those of their names.

    A new folder appears at once. In an old one the files are moved one after the other, in their order, once all of
    them are on the disk: only a kill between these moves leaves some of each.

    >>> with TemporaryDirectory() as place:
    ...     atomic_write_dir(Path(place, "model"), {"a": b"1", "b": b"2"})
    ...     sorted(path.name for path in Path(place, "model").iterdir())
    ['a', 'b']
    """
    new = not folder.exists()
    with _clear_errors(folder):
        room = folder.resolve().parent if new else folder.resolve()
        room.mkdir(parents=True, exist_ok=True)
        with _beside(room, folder.name) as place:
            beside = place / "whole"
            beside.mkdir()
            for name, content in contents.items():
                (beside / name).write_bytes(content)
                _settle(beside / name)
            if new:
                beside.rename(folder)
                return
            for name in contents:
                os.replace(beside / name, folder / name)


@contextmanager
def _beside(room: Path, name: str) -> Iterator[Path]:
    """A hidden folder, gone afterwards."""
    with TemporaryDirectory(prefix=f".{name[:LETTERS]}-", dir=room, ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def _is_replaceable(path: Path) -> bool:
    """Whether another file may take the place of this one: a plain file or none, in a folder where files are made."""
    return (path.is_file() or not path.exists()) and os.access(path.resolve().parent, os.W_OK)


def _move(beside: Path, place: Path) -> None:
    if place.exists():
        shutil.copymode(place, beside)
    _settle(beside)
    os.replace(beside, place)


def _settle(path: Path) -> None:
    """See that all of a file is on the disk: one that is full may say so only now."""
    with path.open("rb+") as file:
        os.fsync(file.fileno())


@contextmanager
def _clear_errors(path: Path) -> Iterator[None]:
    """Say which file could not be written, and the way out, where the system speaks of itself."""
    try:
        yield
    except OSError as error:
        why = error.strerror or str(error)
        hint = "make room there, or name another place; what was there is as it was"
        raise OSError(f"{str(path)!r} cannot be written ({why}); {hint}") from error
