"""Dialect of a text table: encoding, separator and decimal mark.

`csv.Sniffer` is not used: it guesses letters as separators, raises on one column, and knows no decimal comma.
"""

from __future__ import annotations

import codecs
import csv
import re
from dataclasses import dataclass
from typing import final

SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars", r"\s+": "spaces"}
MAX_SNIFFED_LINES = 60
BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


@final
@dataclass(frozen=True)
class CsvDialect:
    """Encoding, separator and decimal mark of a text table; see `sniff_csv_dialect`."""

    encoding: str
    separator: str
    """A character, or the regular expression for spaces."""
    decimal: str = "."

    @property
    def notes(self) -> list[str]:
        """At most one line that says what is unusual."""
        unusual = []
        if self.separator != ",":
            unusual.append(f"{SEPARATORS[self.separator]} between values")
        if self.decimal != ".":
            unusual.append("decimal commas")
        if not self.encoding.startswith("utf-8"):
            unusual.append(f"encoding {self.encoding}")
        return [f"the file was read with {', '.join(unusual)}"] if unusual else []


def sniff_csv_dialect(content: bytes) -> CsvDialect:
    r"""Infer the dialect of a text table from its first lines.

    The encoding is UTF-8 if that decodes, else cp1252 (Windows), else latin-1. The separator is the one that splits the
    most lines into as many values as the first line; a decimal comma (0,5) is possible unless commas separate values.

    Parameters
    ----------
    content : bytes

    Examples
    --------
    >>> sniff_csv_dialect(b"size;color\n0,5;red\n1,5;blue\n")
    CsvDialect(encoding='utf-8', separator=';', decimal=',')
    """
    encoding = _sniff_encoding(content)
    lines = [line for line in content.decode(encoding).splitlines()[:MAX_SNIFFED_LINES] if line.strip()]
    separator, best = ",", (0.0, 1)
    for candidate in SEPARATORS:
        counts = [len(fields) for fields in _split_lines(lines, candidate)]
        if counts and counts[0] > 1:
            score = (sum(count == counts[0] for count in counts) / len(counts), counts[0])
            separator, best = (candidate, score) if score > best else (separator, best)
    return CsvDialect(encoding, separator, _sniff_decimal(lines, separator))


def _sniff_encoding(content: bytes) -> str:
    for mark, encoding in BYTE_ORDER_MARKS:
        if content.startswith(mark):
            return encoding
    for encoding in ("utf-8", "cp1252"):
        try:
            content.decode(encoding)
        except UnicodeDecodeError:
            continue
        return encoding
    return "latin-1"


def _split_lines(lines: list[str], separator: str) -> list[list[str]]:
    if separator == r"\s+":
        return [line.split() for line in lines]
    return [fields for fields in csv.reader(lines, delimiter=separator) if fields]


def _sniff_decimal(lines: list[str], separator: str) -> str:
    """Return "," if numbers have it; before three digits it separates thousands, unless semicolons separate values."""
    if separator == ",":
        return "."
    fields = [field.strip() for row in _split_lines(lines[1:], separator) for field in row]
    commas = [field for field in fields if re.fullmatch(r"[-+]?\d+,\d+([eE][-+]?\d+)?", field)]
    points = any(re.fullmatch(r"[-+]?\d*\.\d+", field) for field in fields)
    thousands = all(re.fullmatch(r"[-+]?\d{1,3},\d{3}", field) for field in commas)
    return "," if commas and not points and not (thousands and separator != ";") else "."
