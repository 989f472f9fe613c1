"""File formats of tables: text, Parquet, Feather, Excel and JSON lines, registered by name.

A new format is a subclass of `TableFormat` with `@FORMATS.register("name")` above it, in this module, or in another
package that has an entry point of the group `genlabel.data.tables.formats`. The registry loads this module alone, since
others import scikit-learn, and the command line checks its input before that.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import json
import re
import warnings
from functools import partial
from importlib import import_module
from io import BytesIO
from pathlib import Path
from typing import Any, ClassVar, NamedTuple
from zipfile import ZipFile

import numpy as np
import pandas as pd
from pandas.api import types

from genlabel.data.tables.parse_values import MACHINE_NA, NA_WORDS, infer_notation
from genlabel.registry import Registry

FORMATS: Registry[TableFormat] = Registry("format", "genlabel.data.tables.formats")
"""File formats of tables by name."""
MAX_HEADER_BYTES = 1_000_000
"""Bytes of a text file that are read for its column names."""
MAX_UNPACKED_BYTES = 4 << 30
"""Maximum unpacked size of a gzip or Excel file: a small hostile file could fill the memory."""
CHUNK_SIZE = 1 << 20
MAX_EMPTY_CELLS, MAX_EMPTY_RATIO = 10_000_000, 100
"""An Excel sheet is rejected if it has more cells than this, and more than this for each cell that has a value."""
CELL_REFERENCE = re.compile(rb'\sr="([A-Z]{0,3})(\d{1,7})"')
"""Letters of the column and number of the row of a cell."""
MAX_REFERENCE_BYTES = 64
"""Bytes of a cell reference that may be split between two chunks."""
NESTED_TYPES = (dict, list, tuple, np.ndarray)
SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars", r"\s+": "spaces"}
MAX_SNIFFED_LINES = 60
MAX_SNIFFED_VALUES = 5000
UTF8_CHARACTER = re.compile(rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}")
"""A character of several bytes in UTF-8, which makes little sense in another encoding."""
BYTE_ORDER_MARKS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}


class TableFormat:
    """Base class of file formats.

    A subclass sets `suffixes` and implements `read`; it implements `write` if it sets `writable`.

    >>> isinstance(FORMATS.create("parquet"), TableFormat)
    True
    """

    suffixes: ClassVar[tuple[str, ...]]
    """File endings, in lower case."""
    writable: ClassVar[tuple[str, ...]] = ()
    """The endings that can be written."""
    signatures: ClassVar[tuple[bytes, ...]] = ()
    """First bytes of such files, by which one with an unknown ending is recognized."""
    requires: ClassVar[tuple[str, str] | None] = None
    """The package that the format needs, and the extra of genlabel that installs it."""

    def read(self, path: Path, target: str | None, notes: list[str], string_columns: set[str]) -> pd.DataFrame:
        """Read a file.

        Parameters
        ----------
        path : Path
        target : str or None
            The label column: words such as "NA" in it are values.
        notes : list of str
            Receives a line for everything unusual.
        string_columns : set of str
            Columns whose values stay as they are written.
        """
        raise NotImplementedError

    def read_columns(self, path: Path) -> list[str]:
        """Read the column names of a file."""
        return [str(name) for name in self.read(path, None, [], set()).columns]

    def read_raw(self, path: Path) -> pd.DataFrame | None:
        """Read every cell as it is written; return None if the format stores types, so that `read` does that."""
        return None

    def write(self, frame: pd.DataFrame, target: Any, suffix: str) -> None:
        """Write a frame to a path or stream; numbers keep their last bit."""
        raise NotImplementedError


def formats() -> tuple[TableFormat, ...]:
    """Return an instance of each registered format."""
    return tuple(FORMATS.create(name) for name in FORMATS.names())


def readable_suffixes() -> tuple[str, ...]:
    """Return the file endings that can be read; .gz may follow those of text."""
    return tuple(suffix for table_format in formats() for suffix in table_format.suffixes)


def format_of(path: Path) -> TableFormat:
    """Return the format of a file: by its ending, else by its first bytes, else text.

    >>> type(format_of(Path("a/table.csv.gz"))).__name__, type(format_of(Path("b.feather"))).__name__
    ('Text', 'Feather')
    """
    inner = Path(path.stem) if path.suffix.lower() == ".gz" else path
    for table_format in formats():
        if inner.suffix.lower() in table_format.suffixes:
            return table_format
    with path.open("rb") as file:
        start = file.read(8).lstrip()
    return next((known for known in formats() if start.startswith(known.signatures)), formats()[0])


def read_bytes(path: Path, max_bytes: int = -1) -> bytes:
    """Return the unpacked content of a file, with `max_bytes` only the complete lines within that many bytes."""
    with path.open("rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
    if packed and max_bytes < 0:
        content = BytesIO()
        with gzip.open(path) as file:
            while chunk := file.read(CHUNK_SIZE):
                content.write(chunk)
                if content.tell() > MAX_UNPACKED_BYTES:
                    raise ValueError(f"the file unpacks to more than {MAX_UNPACKED_BYTES} bytes; unpack it with gunzip")
        return content.getvalue()
    with gzip.open(path) if packed else path.open("rb") as file:
        start = file.read(max_bytes)
    return start[: start.rfind(b"\n") + 1] if len(start) == max_bytes else start


class CsvDialect(NamedTuple):
    """Encoding, separator and decimal mark of a text table; see `sniff_csv_dialect`."""

    encoding: str
    separator: str
    """A character, or the regular expression for spaces."""
    decimal: str = "."
    mixed: bool = False
    """True if some characters are in UTF-8 and others are not."""

    @property
    def notes(self) -> list[str]:
        """Lines that say what is unusual."""
        unusual = []
        if self.separator != ",":
            unusual.append(f"{SEPARATORS[self.separator]} between values")
        if self.decimal != ".":
            unusual.append("decimal commas")
        if not self.encoding.startswith("utf-8"):
            unusual.append(f"encoding {self.encoding}")
        notes = [f"the file was read with {', '.join(unusual)}"] if unusual else []
        mixed = f"some characters are in UTF-8 and others in {self.encoding}, so some were read wrong; save it as UTF-8"
        return [*notes, mixed] if self.mixed else notes


def sniff_csv_dialect(content: bytes) -> CsvDialect:
    r"""Infer the dialect of a text table from its first lines.

    The encoding is UTF-8 if that decodes, else cp1252 (Windows), else latin-1. The separator is the one that splits the
    most lines into as many values as the first line. The decimal mark is the one with which more values are numbers
    (0,5). A comma before three digits separates thousands, unless semicolons separate the values and none has a point.
    `csv.Sniffer` is not used: it guesses letters as separators, raises on one column, and knows no decimal comma.

    >>> sniff_csv_dialect(b"size;color\n0,5;red\n1,5;blue\n")
    CsvDialect(encoding='utf-8', separator=';', decimal=',', mixed=False)
    """
    encodings_of_mark = [encoding for mark, encoding in BYTE_ORDER_MARKS.items() if content.startswith(mark)]
    for encoding in encodings_of_mark or ("utf-8", "cp1252", "latin-1"):
        try:
            text = content.decode(encoding)
            break
        except UnicodeDecodeError:
            if encodings_of_mark:
                raise
    lines = [line for line in text.splitlines()[:MAX_SNIFFED_LINES] if line.strip()]

    def score(separator: str) -> tuple[float, int]:
        counts = [len(values) for values in _split_lines(lines, separator)]
        return (counts.count(counts[0]) / len(counts), counts[0]) if counts and counts[0] > 1 else (0.0, 1)

    separator = max(SEPARATORS, key=score)
    values = pd.Series([v.strip() for row in _split_lines(lines[1:], separator) for v in row][:MAX_SNIFFED_VALUES])
    has_commas, has_points = (values.str.fullmatch(rf"[-+]?\d*{mark}\d+").any() for mark in (",", r"\."))
    undecided = "," if separator == ";" and has_commas and not has_points else "."
    mixed = not encoding.startswith("utf") and UTF8_CHARACTER.search(content) is not None
    return CsvDialect(encoding, separator, infer_notation(values, undecided)[0], mixed)


def _split_lines(lines: list[str], separator: str) -> list[list[str]]:
    if separator == r"\s+":
        return [line.split() for line in lines]
    return [fields for fields in csv.reader(lines, delimiter=separator) if fields]


@FORMATS.register("text")
class Text(TableFormat):
    """Text with commas, semicolons, tabs, bars or spaces between the values, of any usual encoding."""

    suffixes = (".csv", ".tsv", ".txt", ".data")
    writable = (".csv", ".tsv", ".csv.gz")

    def read(self, path: Path, target: str | None, notes: list[str], string_columns: set[str]) -> pd.DataFrame:
        """Read a file."""
        text, dialect = self._read_text(path)
        names, unique_names = self._read_header(text, dialect)
        na_values = {
            unique: list(MACHINE_NA if name == target else MACHINE_NA + NA_WORDS)
            for unique, name in zip(unique_names, names, strict=True)
        }
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)
            as_written = {i: str for i, name in enumerate(names) if name == target or name in string_columns}
            options = {"decimal": dialect.decimal, "na_values": na_values, "dtype": as_written}
            frame = _read_csv(text, dialect, low_memory=False, keep_default_na=False, **options)
        frame.columns = pd.Index(names)
        frame.attrs["decimal"] = dialect.decimal
        notes += dialect.notes
        return frame

    def read_columns(self, path: Path) -> list[str]:
        """Read the column names from the start of the file."""
        return self._read_header(*self._read_text(path, MAX_HEADER_BYTES))[0]

    def read_raw(self, path: Path) -> pd.DataFrame:
        """Read every cell as a string."""
        text, dialect = self._read_text(path)
        frame = _read_csv(text, dialect, dtype=str, na_filter=False)
        return frame.set_axis(self._read_header(text, dialect)[0], axis=1)

    def write(self, frame: pd.DataFrame, target: Any, suffix: str) -> None:
        """Write a frame to a path or stream."""
        separator = "\t" if suffix == ".tsv" else ","
        frame.to_csv(target, index=False, sep=separator, encoding="utf-8", lineterminator="\n")

    def _read_text(self, path: Path, max_bytes: int = -1) -> tuple[str, CsvDialect]:
        content = read_bytes(path, max_bytes)
        if not content.strip():
            raise ValueError("it is empty; it needs a line of column names and the rows below it")
        if b"\x00" in content[:1000] and not content.startswith((b"\xff\xfe", b"\xfe\xff")):
            raise ValueError(f"it is not a text file; save the table as one of {', '.join(readable_suffixes())}")
        dialect = sniff_csv_dialect(content)
        return content.decode(dialect.encoding), dialect

    def _read_header(self, text: str, dialect: CsvDialect) -> tuple[list[str], list[str]]:
        """Return the column names without surrounding spaces, and the unique names that pandas makes of them."""
        start = text[:MAX_HEADER_BYTES]
        text = start if "\n" in start else text
        unique_names = [str(name) for name in _read_csv(text, dialect, nrows=0)]
        first = _read_csv(text, dialect, header=None, nrows=1, dtype=str, keep_default_na=False).iloc[0]
        return [str(name).strip() or unique for name, unique in zip(first, unique_names, strict=True)], unique_names


def _read_csv(text: str, dialect: CsvDialect, **options: Any) -> pd.DataFrame:
    # StringIO takes four bytes for each character.
    return pd.read_csv(BytesIO(text.encode()), sep=dialect.separator, index_col=False, skipinitialspace=True, **options)


@FORMATS.register("parquet")
class Parquet(TableFormat):
    """Apache Parquet."""

    suffixes = (".parquet", ".pq")
    writable = (".parquet",)
    signatures = (b"PAR1",)
    requires = ("pyarrow", "parquet")

    def read(self, path: Path, target: str | None, notes: list[str], string_columns: set[str]) -> pd.DataFrame:
        """Read a file."""
        import_module("pyarrow")
        return _nested_to_json(pd.read_parquet(path))

    def read_columns(self, path: Path) -> list[str]:
        """Read the column names from the start of the file."""
        import_module("pyarrow")
        schema = import_module("pyarrow.parquet").read_schema(path)
        return [str(name) for name in schema.empty_table().to_pandas().columns]  # without an index of pandas

    def write(self, frame: pd.DataFrame, target: Any, suffix: str) -> None:
        """Write a frame to a path or stream."""
        frame.to_parquet(target, index=False)


@FORMATS.register("feather")
class Feather(TableFormat):
    """Apache Arrow files."""

    suffixes = (".feather", ".arrow")
    writable = (".feather",)
    signatures = (b"ARROW1",)
    requires = ("pyarrow", "parquet")

    def read(self, path: Path, target: str | None, notes: list[str], string_columns: set[str]) -> pd.DataFrame:
        """Read a file."""
        # Arrow trusts the offsets in a file and would read beyond its memory; a full validation checks them first.
        import_module("pyarrow.feather").read_table(path, memory_map=False).validate(full=True)
        return _nested_to_json(pd.read_feather(path))

    def write(self, frame: pd.DataFrame, target: Any, suffix: str) -> None:
        """Write a frame to a path or stream."""
        frame.to_feather(target)


@FORMATS.register("excel")
class Excel(TableFormat):
    """Excel: the first sheet."""

    suffixes = (".xlsx", ".xlsm")
    signatures = (b"PK\x03\x04",)
    requires = ("openpyxl", "excel")

    def read(self, path: Path, target: str | None, notes: list[str], string_columns: set[str]) -> pd.DataFrame:
        """Read a file."""
        check_excel_size(path)
        with pd.ExcelFile(path, engine="openpyxl") as book:
            sheets = [str(name) for name in book.sheet_names]
            if len(sheets) > 1:
                notes.append(f"the first of {len(sheets)} sheets was read, {sheets[0]!r}")
            frame = pd.read_excel(
                book,
                sheet_name=sheets[0],
                keep_default_na=False,
                na_values=list(MACHINE_NA),
                dtype=dict.fromkeys([*([] if target is None else [target]), *sorted(string_columns)], object),
            )
        others = [name for name in frame.columns if name != target]
        frame[others] = frame[others].replace(list(NA_WORDS), float("nan")).infer_objects()
        return frame


@FORMATS.register("json")
class Json(TableFormat):
    """JSON objects, one for each line or in one list; nested values become JSON strings."""

    suffixes = (".jsonl", ".ndjson", ".json")
    writable = (".jsonl",)
    signatures = (b"{", b"[")

    def read(self, path: Path, target: str | None, notes: list[str], string_columns: set[str]) -> pd.DataFrame:
        """Read a file."""
        text = read_bytes(path).decode("utf-8-sig")
        if text.lstrip().startswith("["):
            rows = [dict(row) for row in json.loads(text)]
        else:
            rows = []
            for number, line in enumerate(text.splitlines(), 1):
                try:
                    rows += [dict(json.loads(line))] if line.strip() else []
                except (TypeError, ValueError) as error:
                    raise ValueError(f"line {number} is not a JSON object ({error})") from error
        return _nested_to_json(pd.DataFrame.from_records(rows))

    def write(self, frame: pd.DataFrame, target: Any, suffix: str) -> None:
        """Write a frame to a path or stream."""
        rows = frame.astype(object).where(frame.notna(), None).to_dict("records")
        lines = [json.dumps(row, ensure_ascii=False, default=str) + "\n" for row in rows]
        target.write_text("".join(lines), encoding="utf-8")


def _nested_to_json(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the frame with the lists and objects in its cells as JSON strings."""
    dumps = partial(json.dumps, default=lambda value: value.tolist() if hasattr(value, "tolist") else str(value))
    for name in frame.columns if frame.columns.is_unique else ():
        column = frame[name]
        if types.is_object_dtype(column) and column.map(lambda value: isinstance(value, NESTED_TYPES)).any():
            frame[name] = column.map(dumps, na_action="ignore")
    return frame


def check_excel_size(path: Path) -> None:
    """Raise if a small Excel file would make a huge table.

    A table has all cells up to the last row and column: a single value in the last cell of a sheet makes 17 billion
    cells. A fair share of them must have values.
    """
    from openpyxl.utils import column_index_from_string

    with ZipFile(path) as book:
        if sum(part.file_size for part in book.infolist()) > MAX_UNPACKED_BYTES:
            raise ValueError(f"the file unpacks to more than {MAX_UNPACKED_BYTES} bytes; save the table as CSV")
        for name in book.namelist():
            if not (name.startswith("xl/worksheets/") and name.endswith(".xml")):
                continue
            n_values, rows, columns = 0, 0, 0
            end_of_chunk = b""  # a reference may be split between two chunks
            with book.open(name) as sheet:
                while chunk := sheet.read(CHUNK_SIZE):
                    cells = CELL_REFERENCE.findall(end_of_chunk + chunk)
                    n_values += len(cells)
                    rows = max([rows, *(int(row) for _, row in cells)])
                    letters_of_cells = {letters.decode() for letters, _ in cells if letters}
                    columns = max([columns, *map(column_index_from_string, letters_of_cells)])
                    end_of_chunk = chunk[-MAX_REFERENCE_BYTES:]
            if rows * columns > max(MAX_EMPTY_CELLS, MAX_EMPTY_RATIO * n_values):
                raise ValueError(
                    f"the sheet {name} has {rows} rows and {columns} columns, nearly all of them empty; delete the "
                    "cells far from the table"
                )
