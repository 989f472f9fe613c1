"""How a text file is written: its encoding, what stands between values, and what within numbers."""

from __future__ import annotations

import codecs
import csv
import gzip
import re
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import final

SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars", r"\s+": "spaces"}
LINES = 60
"""Of a file that are looked at."""
MOST_UNPACKED = 4 << 30
"""Bytes that a packed file may hold: a small one could fill the memory."""
PIECE = 1 << 20
MARKS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
"""What a file may begin with to tell its encoding."""


@final
@dataclass(frozen=True)
class CsvDialect:
    """How a text file is written.

    `sniff_csv_dialect` returns it.
    """

    encoding: str
    separator: str
    """A letter, or the pattern of spaces."""
    decimal: str = "."

    @property
    def notes(self) -> list[str]:
        """What is unusual about it, at most one line."""
        unusual = []
        if self.separator != ",":
            unusual.append(f"{SEPARATORS[self.separator]} between values")
        if self.decimal != ".":
            unusual.append("decimal commas")
        if not self.encoding.startswith("utf-8"):
            unusual.append(f"encoding {self.encoding}")
        return [f"the file was read with {', '.join(unusual)}"] if unusual else []


def read_bytes(path: Path, most: int = -1) -> bytes:
    """Return the content of a file, unpacked if it is packed by gzip; if asked, only the lines of its first bytes.

    Parameters
    ----------
    path : Path
    most : int
        Bytes to read; -1 reads all.
    """
    with path.open("rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
    if packed and most < 0:
        return _unpacked(path)
    with gzip.open(path) if packed else path.open("rb") as file:
        content = file.read(most)
    return content[: content.rfind(b"\n") + 1] if len(content) == most else content


def _unpacked(path: Path) -> bytes:
    """All of a packed file, piece by piece."""
    content = BytesIO()
    with gzip.open(path) as file:
        while piece := file.read(PIECE):
            content.write(piece)
            if content.tell() > MOST_UNPACKED:
                raise ValueError(
                    f"it unpacks to more than {MOST_UNPACKED} bytes; unpack it with gunzip, if it is meant"
                )
    return content.getvalue()


def sniff_csv_dialect(content: bytes) -> CsvDialect:
    r"""Find out how the text of a table is written, from its first lines.

    UTF-8 is tried first; what is not is taken as cp1252, the encoding of Windows, or as latin-1. A separator is the one
    that cuts the most lines into as many values as the first; semicolons may come with decimal commas (0,5).

    Parameters
    ----------
    content : bytes

    Examples
    --------
    >>> sniff_csv_dialect(b"size;colour\n0,5;red\n1,5;blue\n")
    Writing(encoding='utf-8', separator=';', decimal=',')
    """
    encoding = _find_encoding(content)
    lines = [line for line in content.decode(encoding).splitlines()[:LINES] if line.strip()]
    separator = _find_separator(lines)
    return CsvDialect(encoding, separator, _find_decimal(lines, separator))


def _find_encoding(content: bytes) -> str:
    for mark, encoding in MARKS:
        if content.startswith(mark):
            return encoding
    for encoding in ("utf-8", "cp1252"):
        try:
            content.decode(encoding)
        except UnicodeDecodeError:
            continue
        return encoding
    return "latin-1"


def _find_separator(lines: list[str]) -> str:
    """The separator under which the most lines have as many values as the first, of these the one with most values."""
    found = ",", (0.0, 1)
    for separator in SEPARATORS:
        counts = [len(fields) for fields in _cut(lines, separator)]
        if not counts or counts[0] < 2:
            continue
        alike = sum(count == counts[0] for count in counts) / len(counts)
        if (alike, counts[0]) > found[1]:
            found = separator, (alike, counts[0])
    return found[0]


def _cut(lines: list[str], separator: str) -> list[list[str]]:
    if separator == r"\s+":
        return [line.split() for line in lines]
    return [fields for fields in csv.reader(lines, delimiter=separator) if fields]


def _find_decimal(lines: list[str], separator: str) -> str:
    """A comma, where values are numbers with one; three digits after it are thousands unless semicolons are about."""
    if separator == ",":
        return "."
    fields = [field.strip() for row in _cut(lines[1:], separator) for field in row]
    commas = [field for field in fields if re.fullmatch(r"[-+]?\d+,\d+([eE][-+]?\d+)?", field)]
    points = any(re.fullmatch(r"[-+]?\d*\.\d+", field) for field in fields)
    thousands = all(re.fullmatch(r"[-+]?\d{1,3},\d{3}", field) for field in commas)
    return "," if commas and not points and not (thousands and separator != ";") else "."
