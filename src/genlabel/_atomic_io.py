"""Atomic writes: a file is written to a hidden folder next to its path, and moved there once it is on the disk."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory


@contextmanager
def atomic_writer(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Give a temporary path of the same name; on leaving, the file written there replaces that of `path`.

    After an error, an interrupt or on a full disk the old file is unchanged and nothing else remains; a killed process
    leaves at most a hidden folder next to it. Special files such as /dev/stdout are written directly.
    """
    path = Path(path)
    target = path.resolve()
    if not ((path.is_file() or not path.exists()) and os.access(target.parent, os.W_OK)):
        yield path  # a special file, or a folder that takes no other
        return
    with _clear_errors(path), _hidden_folder(target.parent, path.name) as folder:
        temporary = folder / path.name
        yield temporary
        if target.exists():
            shutil.copymode(target, temporary)
        _sync(temporary)
        os.replace(temporary, target)


def atomic_write(path: str | os.PathLike[str], content: str | bytes | memoryview) -> None:
    """Write a file atomically, text as UTF-8; its folder is created."""
    with _clear_errors(Path(path)):
        Path(path).parent.mkdir(parents=True, exist_ok=True)
    with atomic_writer(path) as temporary:
        temporary.write_bytes(content.encode() if isinstance(content, str) else content)


def atomic_write_dir(folder: Path, contents: Mapping[str, bytes]) -> None:
    """Write files into a folder, all or none; they replace those of the same names.

    A new folder appears at once. In an existing one the files are moved one after the other, in their order, once all
    of them are on the disk: only a kill between these moves leaves old and new files.
    """
    is_new = not folder.exists()
    with _clear_errors(folder):
        parent = folder.resolve().parent if is_new else folder.resolve()
        parent.mkdir(parents=True, exist_ok=True)
        with _hidden_folder(parent, folder.name) as hidden:
            temporary = hidden / "files"
            temporary.mkdir()
            for name, content in contents.items():
                (temporary / name).write_bytes(content)
                _sync(temporary / name)
            if is_new:
                temporary.rename(folder)
                return
            for name in contents:
                os.replace(temporary / name, folder / name)


@contextmanager
def _hidden_folder(parent: Path, name: str) -> Iterator[Path]:
    """Give a hidden folder, which is removed afterwards."""
    with TemporaryDirectory(prefix=f".{name[:80]}-", dir=parent, ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def _sync(path: Path) -> None:
    """Flush a file to the disk; a full disk may report it only now."""
    with path.open("rb+") as file:
        os.fsync(file.fileno())


@contextmanager
def _clear_errors(path: Path) -> Iterator[None]:
    """Turn errors of the system into one that names the file."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        hint = "free some space, or choose another path; an old file is unchanged"
        raise OSError(f"{str(path)!r} cannot be written ({reason}); {hint}") from error
