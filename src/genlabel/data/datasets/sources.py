"""Which table a name means, found out before anything heavy is imported: a built-in one, or a file and its target."""

from __future__ import annotations

from pathlib import Path

from genlabel.data.datasets.manifest import openml_manifest
from genlabel.data.datasets.synthetic import SYNTHETIC
from genlabel.data.tables.files import SUFFIXES, check_columns, join_names, read_columns, table_name

EMBEDDED = ("iris", "wine", "breast_cancer", "digits")
"""The tables that come with scikit-learn."""
OPENML = "openml:"
"""What stands before the number or the name of an OpenML set."""


def find_source(source: str | Path, target: str | None = None) -> tuple[str, str | None]:
    """Return the name of a table, and the target if it is a file; raise if there is no such table or column.

    >>> find_source("Two_Circle")
    ('two-circle', None)
    >>> find_source("nowhere.csv")
    Traceback (most recent call last):
    FileNotFoundError: there is no file 'nowhere.csv'; check the path, the current folder is ...
    """
    path = Path(source)
    number = openml_id(source)
    same = {known.replace("-", "_"): known for known in (*EMBEDDED, *SYNTHETIC)}
    name = same.get(str(source).replace("-", "_").lower()) if number is None else f"openml-{number}"
    if name is None or path.is_file():
        return table_name(path), _find_target(path, target)
    if target is not None:
        raise ValueError(f"target={target!r} is for files; {name!r} has its own labels, leave it out")
    return name, None


def openml_id(source: str | Path) -> int | None:
    """Return the number of an OpenML set, "openml:61", or "openml:iris" if the list of the cache has it once.

    >>> openml_id("openml:61"), openml_id("iris") is None
    (61, True)
    """
    text = str(source)
    if not text.lower().startswith(OPENML):
        return None
    word = text[len(OPENML) :]
    if word.isdecimal():
        return int(word)
    manifest = openml_manifest()
    known = [] if manifest is None else manifest["id"][manifest["name"].str.lower() == word.lower()].tolist()
    if len(known) != 1:
        numbers = f"; {join_names(known)} are called so" if known else ""
        raise ValueError(f"{text!r} is no OpenML set at hand{numbers}; give its number, such as openml:61")
    return int(known[0])


def _find_target(path: Path, target: str | None) -> str:
    _check_path(path)
    columns = read_columns(path)
    if target is None:
        raise ValueError(
            f"target is not given; name the label column of {str(path)!r} with target=..., on the command line "
            f"--target: one of {join_names(columns)}"
        )
    check_columns("target", [target], columns, str(path))
    return target


def _check_path(path: Path) -> None:
    """Raise unless the path is a file: an unknown name, a missing file, a folder."""
    formats = ", ".join(SUFFIXES)
    if path.is_file():
        return
    if path.is_dir():
        raise ValueError(f"{str(path)!r} is a folder; name a file in it ({formats})")
    if path.suffix.lower() in (*SUFFIXES, ".gz") or len(path.parts) > 1:
        raise FileNotFoundError(
            f"there is no file {str(path)!r}; check the path, the current folder is {str(Path.cwd())!r}"
        )
    raise ValueError(
        f"{str(path)!r} is not a known table; choose one of {join_names([*EMBEDDED, *SYNTHETIC])}, or give "
        f"the path of a file ({formats})"
    )
