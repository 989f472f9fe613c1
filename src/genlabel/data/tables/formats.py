"""File formats of tables: text, Parquet, Feather, Excel and JSON lines, registered by name.

A new format is a subclass of `TableFormat` with `@FORMATS.register("name")` above it, here or in another package that
has an entry point of the group `genlabel.data.tables.formats`.
"""

from __future__ import annotations

import gzip
import json
import re
import warnings
from functools import partial
from importlib import import_module
from io import BytesIO, StringIO
from pathlib import Path
from typing import IO, Any, ClassVar
from zipfile import ZipFile

import numpy as np
import pandas as pd
from pandas.api import types

from genlabel.data.tables.csv_dialect import CsvDialect, sniff_csv_dialect
from genlabel.data.tables.parse_values import MACHINE_NA, NA_WORDS
from genlabel.registry import Registry

FORMATS: Registry[TableFormat] = Registry("format", "genlabel.data.tables.formats")
"""File formats of tables by name."""
MAX_HEADER_BYTES = 1_000_000
"""Bytes of a text file that are read for its column names."""
MAX_UNPACKED_BYTES = 4 << 30
"""Unpacked size of a gzip or Excel file at most: a small hostile file could fill the memory."""
CHUNK_SIZE = 1 << 20
MAX_EMPTY_CELLS, MAX_EMPTY_RATIO = 10_000_000, 100
"""Cells of an Excel sheet that would fill the memory, if there are also this many for each cell that has a value."""
CELL_REFERENCE = re.compile(rb'\sr="([A-Z]{0,3})(\d{1,7})"')
MAX_REFERENCE_BYTES = 64
"""Bytes of a cell reference that may be split between two chunks."""


class TableFormat:
    """Base class of file formats.

    A subclass sets `suffixes` and implements `read`; it implements `write` if it sets `writable`.

    >>> from genlabel.data.tables import FORMATS
    >>> isinstance(FORMATS.create("parquet"), TableFormat)
    True
    """

    suffixes: ClassVar[tuple[str, ...]]
    """File endings, in lower case."""
    writable: ClassVar[tuple[str, ...]] = ()
    """The endings that can be written."""
    signatures: ClassVar[tuple[bytes, ...]] = ()
    """First bytes of a file, where its ending is not known."""
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
            Receives a line for what is unusual.
        string_columns : set of str
            Columns whose values stay as they are written.
        """
        raise NotImplementedError

    def read_columns(self, path: Path) -> list[str]:
        """Read the column names of a file."""
        return [str(name) for name in self.read(path, None, [], set()).columns]

    def read_raw(self, path: Path) -> pd.DataFrame | None:
        """Read every cell as it is written; None if the format has types of its own, so that `read` does that."""
        return None

    def write(self, frame: pd.DataFrame, target: Any, suffix: str) -> None:
        """Write a frame to a path or stream; numbers keep their last bit."""
        raise NotImplementedError


def formats() -> tuple[TableFormat, ...]:
    """Return an instance of each registered format."""
    return tuple(FORMATS.create(name) for name in FORMATS.names())


def readable_suffixes() -> tuple[str, ...]:
    """Return the file endings that can be read; .gz may follow those of text.

    >>> readable_suffixes()[:3]
    ('.csv', '.tsv', '.txt')
    """
    return tuple(suffix for one in formats() for suffix in one.suffixes)


def writable_suffixes() -> tuple[str, ...]:
    """Return the file endings that can be written.

    >>> writable_suffixes()
    ('.csv', '.tsv', '.csv.gz', '.parquet', '.feather', '.jsonl')
    """
    return tuple(suffix for one in formats() for suffix in one.writable)


def format_of(path: Path) -> TableFormat:
    """Return the format of a file: by its ending, else by its first bytes, else text.

    >>> type(format_of(Path("a/table.csv.gz"))).__name__, type(format_of(Path("b.feather"))).__name__
    ('Text', 'Feather')
    """
    inner = Path(path.stem) if path.suffix.lower() == ".gz" else path
    by_suffix = [one for one in formats() if inner.suffix.lower() in one.suffixes]
    if by_suffix:
        return by_suffix[0]
    with path.open("rb") as file:
        start = file.read(8).lstrip()
    by_signature = [one for one in formats() if one.signatures and start.startswith(one.signatures)]
    return by_signature[0] if by_signature else formats()[0]


def read_bytes(path: Path, max_bytes: int = -1) -> bytes:
    """Return the content of a file, unpacked if it is a gzip file.

    Parameters
    ----------
    path : Path
    max_bytes : int
        Read only the whole lines among the first `max_bytes` bytes; -1 reads everything.
    """
    with path.open("rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
    if packed and max_bytes < 0:
        content = BytesIO()
        with gzip.open(path) as file:
            while chunk := file.read(CHUNK_SIZE):
                content.write(chunk)
                if content.tell() > MAX_UNPACKED_BYTES:
                    raise ValueError(f"it unpacks to more than {MAX_UNPACKED_BYTES} bytes; unpack it with gunzip")
        return content.getvalue()
    with gzip.open(path) if packed else path.open("rb") as file:
        start = file.read(max_bytes)
    return start[: start.rfind(b"\n") + 1] if len(start) == max_bytes else start


@FORMATS.register("text")
class Text(TableFormat):
    """Text with commas, semicolons, tabs, bars or spaces between the values, of any usual encoding."""

    suffixes = (".csv", ".tsv", ".txt", ".data")
    writable = (".csv", ".tsv", ".csv.gz")

    def read(self, path: Path, target: str | None, notes: list[str], string_columns: set[str]) -> pd.DataFrame:
        """Read a file."""
        text, dialect = self._read_text(path)
        names, unique_names = self._header(text, dialect), self._read_start(text, dialect).columns
        na_values = {
            unique: list(MACHINE_NA if name == target else MACHINE_NA + NA_WORDS)
            for unique, name in zip(unique_names, names, strict=True)
        }
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)
            frame = pd.read_csv(
                StringIO(text),
                sep=dialect.separator,
                decimal=dialect.decimal,
                low_memory=False,
                index_col=False,
                skipinitialspace=True,
                keep_default_na=False,
                na_values=na_values,
                dtype={i: str for i, name in enumerate(names) if name == target or name in string_columns},
            )
        frame.columns = pd.Index(names)
        notes += dialect.notes
        return frame

    def read_columns(self, path: Path) -> list[str]:
        """Read the column names from the start of the file."""
        return self._header(*self._read_text(path, MAX_HEADER_BYTES))

    def read_raw(self, path: Path) -> pd.DataFrame:
        """Read every cell as a string."""
        text, dialect = self._read_text(path)
        frame = pd.read_csv(
            StringIO(text), sep=dialect.separator, dtype=str, index_col=False, na_filter=False, skipinitialspace=True
        )
        return frame.set_axis(self._header(text, dialect), axis=1)

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

    def _header(self, text: str, dialect: CsvDialect) -> list[str]:
        """Return the column names without surrounding spaces; as a header, pandas would rename duplicates."""
        unique_names = self._read_start(text, dialect).columns
        first = self._read_start(text, dialect, header=None, nrows=1, dtype=str, keep_default_na=False)
        return [str(name).strip() or str(unique) for name, unique in zip(first.iloc[0], unique_names, strict=True)]

    def _read_start(self, text: str, dialect: CsvDialect, **options: Any) -> pd.DataFrame:
        options = {"nrows": 0, "index_col": False, "skipinitialspace": True, **options}
        return pd.DataFrame(pd.read_csv(StringIO(text), sep=dialect.separator, **options))


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
        import_module("openpyxl")
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
            rows = json.loads(text)
        else:
            rows = []
            for number, line in enumerate(text.splitlines(), 1):
                try:
                    rows += [dict(json.loads(line))] if line.strip() else []
                except (TypeError, ValueError) as error:
                    raise ValueError(f"line {number} is not a JSON object ({error})") from error
        return _nested_to_json(pd.DataFrame.from_records([dict(row) for row in rows]))

    def write(self, frame: pd.DataFrame, target: Any, suffix: str) -> None:
        """Write a frame to a path or stream."""
        rows = frame.astype(object).where(frame.notna(), None).to_dict("records")
        lines = [json.dumps(row, ensure_ascii=False, default=str) + "\n" for row in rows]
        target.write_text("".join(lines), encoding="utf-8")


def _nested_to_json(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the frame with the lists and objects in its cells as JSON strings.

    >>> _nested_to_json(pd.DataFrame({"a": [[1, 2], ["b"]], "b": [1, 2]}))["a"].tolist()
    ['[1, 2]', '["b"]']
    """
    dumps = partial(json.dumps, default=lambda value: value.tolist() if hasattr(value, "tolist") else str(value))
    for name in frame.columns if frame.columns.is_unique else ():
        column = frame[name]
        if (
            types.is_object_dtype(column)
            and column.map(lambda v: isinstance(v, dict | list | tuple | np.ndarray)).any()
        ):
            frame[name] = column.map(dumps, na_action="ignore")
    return frame


def check_excel_size(path: Path) -> None:
    """Raise if a small Excel file would make a huge table.

    A cell far from all others makes a table of everything between them: one in the last row and column of a sheet
    makes 17 billion cells.
    """
    with ZipFile(path) as book:
        if sum(part.file_size for part in book.infolist()) > MAX_UNPACKED_BYTES:
            raise ValueError(f"it unpacks to more than {MAX_UNPACKED_BYTES} bytes; save the table as CSV")
        for name in book.namelist():
            if name.startswith("xl/worksheets/") and name.endswith(".xml"):
                with book.open(name) as sheet:
                    _check_extent(sheet)


def _check_extent(sheet: IO[bytes]) -> None:
    """Raise unless a fair share of the cells up to the last row and column of a sheet has values."""
    n_values, rows, columns, rest = 0, 0, 0, b""
    while chunk := sheet.read(CHUNK_SIZE):
        cells = CELL_REFERENCE.findall(rest + chunk)
        n_values += len(cells)
        rows = max(rows, max((int(row) for _, row in cells), default=0))
        for letters in {letters for letters, _ in cells}:
            column = 0  # 1 for A, 27 for AA
            for letter in letters:
                column = 26 * column + letter - 64
            columns = max(columns, column)
        rest = chunk[-MAX_REFERENCE_BYTES:]
    if rows * columns > max(MAX_EMPTY_CELLS, MAX_EMPTY_RATIO * n_values):
        raise ValueError(
            f"it has {rows} rows and {columns} columns, nearly all of them empty; delete the cells far from the table"
        )
