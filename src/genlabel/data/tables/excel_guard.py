"""Excel files before they are read: what they would unpack to, and how far their cells reach."""

from __future__ import annotations

import re
from pathlib import Path
from typing import IO
from zipfile import ZipFile

MOST_UNPACKED = 4 << 30
"""Bytes that a file may hold: a small one could fill the memory."""
LARGE, SPARSE = 10_000_000, 100
"""Cells of a table that would fill the memory, if this many of them stand there for one that is written."""
PIECE, LONGEST = 1 << 20, 64
"""Bytes that are looked at together, and those of a place that may be cut."""
PLACE = re.compile(rb'\sr="([A-Z]{0,3})(\d{1,7})"')


def check_sheets(path: Path) -> None:
    """Raise if an Excel file is small and what is read from it would not be.

    A cell far away from all others makes a table of everything between them: one in the last row and column of a sheet
    is 17 thousand million cells.
    """
    with ZipFile(path) as book:
        if sum(part.file_size for part in book.infolist()) > MOST_UNPACKED:
            raise ValueError(f"it unpacks to more than {MOST_UNPACKED} bytes; save the table as CSV, if it is meant")
        for name in book.namelist():
            if name.startswith("xl/worksheets/") and name.endswith(".xml"):
                with book.open(name) as sheet:
                    _check_extent(sheet)


def _check_extent(sheet: IO[bytes]) -> None:
    written, rows, columns, rest = 0, 0, 0, b""
    while piece := sheet.read(PIECE):
        found = PLACE.findall(rest + piece)
        written += len(found)
        rows = max(rows, max((int(row) for _, row in found), default=0))
        columns = max(columns, max((_number(column) for column in {column for column, _ in found}), default=0))
        rest = piece[-LONGEST:]
    if rows * columns > max(LARGE, SPARSE * written):
        raise ValueError(
            f"it has {rows} rows and {columns} columns, nearly all of them empty; delete what stands far from the table"
        )


def _number(column: bytes) -> int:
    """The number of a column: 1 for A, 27 for AA; 0 where none is told."""
    number = 0
    for letter in column:
        number = 26 * number + letter - 64
    return number
