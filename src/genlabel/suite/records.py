"""The records of a suite: a file of JSON lines, the settings first and then a line for every fit that ended."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self, final

import pandas as pd

__all__ = ["CELL", "Writer", "open_records", "read_header", "read_records", "replace_file"]

CELL = ("id", "split", "method")
"""What names a fit."""
MARK = "genlabel suite"
"""Key of the first line; its value is the version of the format."""


def read_header(path: str | Path) -> dict[str, Any]:
    """Return the settings of the first line: what the records of a file have in common.

    >>> read_header("nowhere.jsonl")
    Traceback (most recent call last):
    FileNotFoundError: there is no file of records 'nowhere.jsonl'; run the suite first, or name another
    """
    return _read(Path(path))[0]


def read_records(path: str | Path, errors: bool = False) -> pd.DataFrame:
    """Return the fits of a file as a frame, a row for each id, split and method: the last one where there are several.

    Parameters
    ----------
    path : path
        A last line that was cut short, by a kill or a full disk, is ignored.
    errors : bool
        Return the fits that failed, and have not succeeded since, instead of the others.

    Returns
    -------
    DataFrame
        id, name, n, d, k, split, method, accuracy, log_loss, brier, calibration_error, seconds, params, ... of a fit;
        id, name, split, method, error of one that failed.
    """
    _, rows, _ = _read(Path(path))
    latest = {_cell(row): row for row in rows if "error" in row}
    latest |= {_cell(row): row for row in rows if "error" not in row}
    kept = [row for row in latest.values() if ("error" in row) == errors]
    return pd.DataFrame(kept, columns=None if kept else [*CELL, "name", *(["error"] if errors else [])])


def open_records(path: str | Path, settings: Mapping[str, Any], fresh: bool = False) -> Writer:
    """Open a file of records to go on with it, or begin it.

    Parameters
    ----------
    path : path
    settings : dict
        What changes results. Going on with other settings than those of the file is an error.
    fresh : bool
        Begin again: what the file has is lost.
    """
    path = Path(path)
    wanted = json.loads(json.dumps(dict(settings)))
    path.parent.mkdir(parents=True, exist_ok=True)
    if fresh or not path.exists() or not path.stat().st_size:
        replace_file(path, _line({MARK: 1, **wanted}))
        return Writer(path, [])
    header, rows, whole = _read(path)
    differ = [name for name in {**header, **wanted} if header.get(name) != wanted.get(name)]
    if differ:
        was, now = (", ".join(f"{name}={of.get(name)!r}" for name in differ) for of in (header, wanted))
        raise ValueError(
            f"the records of {str(path)!r} were made with {was}, not with {now}; use the same, name another file, or "
            "begin again with fresh=True, on the command line --fresh"
        )
    if not whole:
        replace_file(path, _line({MARK: 1, **header}) + "".join(map(_line, rows)))
    return Writer(path, rows)


@final
class Writer:
    """Adds records to a file; each is on the disk when `write` returns."""

    def __init__(self, path: Path, rows: list[dict[str, Any]]) -> None:
        self.path = path
        self.done = {_cell(row) for row in rows if "error" not in row}
        """The fits that the file had when it was opened, and those written since."""
        self._file = path.open("a", encoding="utf-8")

    def write(self, record: Mapping[str, Any]) -> None:
        """Add a record."""
        self._file.write(_line(record))
        self._file.flush()
        os.fsync(self._file.fileno())
        if "error" not in record:
            self.done.add(_cell(record))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


def _cell(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(row.get(name) for name in CELL)


def _line(record: Mapping[str, Any]) -> str:
    """One line of JSON; numbers have 7 digits, which is more than they are worth."""
    short = {name: float(f"{value:.7g}") if isinstance(value, float) else value for name, value in record.items()}
    return json.dumps(short, allow_nan=False) + "\n"


def replace_file(path: Path, text: str) -> None:
    """Write a whole file at once: a kill leaves the old one or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.part")
    with part.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(part, path)


def _read(path: Path) -> tuple[dict[str, Any], list[dict[str, Any]], bool]:
    """Return the settings, the rows, and whether the last line is whole."""
    if not path.is_file():
        raise FileNotFoundError(f"there is no file of records {str(path)!r}; run the suite first, or name another")
    text = path.read_text(encoding="utf-8", errors="replace")
    lines = text.removesuffix("\n").split("\n") if text else []
    rows: list[dict[str, Any]] = []
    whole = text.endswith("\n")
    for number, line in enumerate(lines, 1):
        try:
            row = json.loads(line)
        except ValueError as error:
            if number == len(lines) > 1:
                whole = False
                break
            raise ValueError(f"line {number} of {str(path)!r} is no record ({error}); mend or remove it") from error
        if not isinstance(row, dict) or (number == 1) != (MARK in row):
            raise ValueError(f"line {number} of {str(path)!r} is no line of a suite; name another file of records")
        rows.append(row)
    if not rows:
        raise ValueError(f"{str(path)!r} is empty; name another file of records")
    return {name: value for name, value in rows[0].items() if name != MARK}, rows[1:], whole
