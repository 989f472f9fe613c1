"""Files as data frames: text of any usual kind, Parquet, Feather, Excel and JSON lines, with errors that help."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from functools import partial
from importlib import import_module
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pandas.api import types

from genlabel.data.tables.csv_dialect import CsvDialect, read_bytes, sniff_csv_dialect
from genlabel.data.tables.excel_guard import check_sheets

FORMATS = {
    ".csv": "text",
    ".tsv": "text",
    ".txt": "text",
    ".data": "text",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".feather": "feather",
    ".arrow": "feather",
    ".xlsx": "excel",
    ".xlsm": "excel",
    ".jsonl": "json",
    ".ndjson": "json",
    ".json": "json",
}
SUFFIXES = tuple(FORMATS)
"""The endings that are known; .gz may follow one of them."""
BEGINNINGS = ((b"PAR1", "parquet"), (b"ARROW1", "feather"), (b"PK\x03\x04", "excel"), (b"{", "json"), (b"[", "json"))
"""What a file begins with, if its ending does not tell."""
NEEDS = {"parquet": ("pyarrow", "parquet"), "feather": ("pyarrow", "parquet"), "excel": ("openpyxl", "excel")}
"""The package that reads a format, and our extra that brings it."""
BEGIN = 1_000_000
"""Bytes of a text file that are read for its header."""
WORDS = ("NA", "N/A", "n/a", "None")
"""Words for a missing value that may well be a class."""
MISSING = ("", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "NULL",
           "NaN", "nan", "null")  # fmt: skip
"""What machines write for a missing value."""


def read_frame(
    path: str | Path, target: str | None = None, notes: list[str] | None = None, texts: Iterable[str] = ()
) -> pd.DataFrame:
    """Read a file into a frame whose columns have distinct names and whose rows are numbered from 0.

    Parameters
    ----------
    path : path
        Text of any usual encoding, with commas, semicolons, tabs, bars or spaces between the values; Parquet; Feather;
        Excel, the first sheet; JSON, a line or a list of objects. A text file may be packed by gzip.
    target : str, optional
        A column of text files that is read as it is written: "NA" in it is a word like any other.
    notes : list of str, optional
        Gets a line for what is unusual.
    texts : iterable of str
        Columns of text files whose values stay as they are written, such as "007"; those that the file lacks count as
        nothing.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> notes = []
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder, "t.csv")
    ...     _ = file.write_text("size;grade\\n0,5;NA\\n1,5;B\\n")
    ...     frame = read_frame(file, "grade", notes)
    >>> frame["size"].tolist(), frame["grade"].tolist(), notes
    ([0.5, 1.5], ['NA', 'B'], ['the file was read with semicolons between values, decimal commas'])
    """
    path, told = Path(path), [] if notes is None else notes
    with _clear_errors(path):
        frame = _READERS[find_format(path)](path, target, told, set(texts))
    frame.columns = frame.columns.astype(str)
    if frame.empty:
        raise ValueError(f"{str(path)!r} has no rows; it needs a line of column names and the rows below it")
    twice = frame.columns[frame.columns.duplicated()].unique()
    if len(twice):
        raise ValueError(f"{str(path)!r} has several columns named {join_names(twice)}; rename them")
    return frame.reset_index(drop=True)


def read_columns(path: str | Path) -> list[str]:
    r"""Read the names of the columns of a file, of a text or Parquet file without its rows.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "t.csv")
    ...     _ = path.write_text("size;colour\n0,5;red\n")
    ...     read_columns(path)
    ['size', 'colour']
    """
    path = Path(path)
    form = find_format(path)
    with _clear_errors(path):
        if form == "text":
            text, writing = _read_text(path, BEGIN)
            return _header(text, writing)
        if form == "parquet":
            return _parquet_columns(path)
        return [str(name) for name in _READERS[form](path, None, [], set()).columns]


def find_format(path: Path) -> str:
    """Return "text", "parquet", "feather", "excel" or "json": by the ending of a file, or else by how it begins.

    >>> find_format(Path("a/table.csv.gz")), find_format(Path("b.feather"))
    ('text', 'feather')
    """
    inner = Path(path.stem) if path.suffix.lower() == ".gz" else path
    known = FORMATS.get(inner.suffix.lower())
    if known is not None:
        return known
    with path.open("rb") as file:
        begin = file.read(8)
    found = [form for start, form in BEGINNINGS if begin.lstrip().startswith(start)]
    return found[0] if found else "text"


def table_name(path: Path) -> str:
    """Return the name of a file without its endings, that of gzip and the one before it.

    >>> table_name(Path("a/my.table.csv.gz"))
    'my.table'
    """
    return Path(path.stem).stem if path.suffix.lower() == ".gz" else path.stem


def check_columns(option: str, names: Iterable[str], columns: Iterable[str], source: str) -> None:
    """Raise unless all names are columns; a misspelt one is told the near one.

    >>> check_columns("drop", ["Agee"], ["age", "town"], "t.csv")
    Traceback (most recent call last):
    ValueError: drop='Agee' is no column of 't.csv'; did you mean 'age'? Its columns are 'age', 'town'
    """
    known = list(columns)
    for name in names:
        if name in known:
            continue
        near = closest_name(name, known)
        numbers = len(known) > 1 and pd.to_numeric(pd.Series(known), errors="coerce").notna().all()
        nameless = "its first line holds numbers, and must hold the names of the columns; its" if numbers else "its"
        hint = f"did you mean {near!r}? Its" if near is not None else nameless
        raise ValueError(f"{option}={name!r} is no column of {source!r}; {hint} columns are {join_names(known)}")


def closest_name(name: str, known: Iterable[str]) -> str | None:
    """Return the name that may be meant, if there is one.

    >>> closest_name("Agee", ["age", "town"])
    'age'
    """
    lower = {column.strip().lower(): column for column in reversed(list(known))}
    near = get_close_matches(name.strip().lower(), lower, 1, 0.6)
    return lower[near[0]] if near else None


def read_raw(path: str | Path) -> pd.DataFrame:
    r"""Read a file whose values are to be copied: every cell of a text file as it is written, an empty one as "".

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "t.csv")
    ...     _ = path.write_text("code,price\n007,1.50\n008,\n")
    ...     read_raw(path).to_numpy().tolist()
    [['007', '1.50'], ['008', '']]
    """
    path = Path(path)
    if find_format(path) != "text":
        return read_frame(path)
    with _clear_errors(path):
        text, writing = _read_text(path)
        frame = pd.read_csv(
            StringIO(text), sep=writing.separator, dtype=str, index_col=False, na_filter=False, skipinitialspace=True
        )
        return frame.set_axis(_header(text, writing), axis=1)


@contextmanager
def _clear_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except ImportError as error:
        package, extra = NEEDS[find_format(path)]
        raise ValueError(f'{str(path)!r} needs {package}; install it with pip install "genlabel[{extra}]"') from error
    except Exception as error:  # a damaged file may fail in any way
        reason = _reason(error)
        raise ValueError(f"{str(path)!r} could not be read: {reason}") from error


def _reason(error: Exception) -> str:
    """What an error says, in our words where lines have too many values."""
    ragged = re.search(r"Expected (\d+) fields in line (\d+), saw (\d+)", str(error))
    if ragged is None:
        return " ".join(str(error).split()) or type(error).__name__
    expected, line, seen = ragged.groups()
    return f"line {line} has {seen} values, those before it at most {expected}; quote texts that hold a separator"


def _read_text(path: Path, most: int = -1) -> tuple[str, CsvDialect]:
    content = read_bytes(path, most)
    if not content.strip():
        raise ValueError("it is empty; it needs a line of column names and the rows below it")
    if b"\x00" in content[:1000] and not content.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise ValueError(f"it is no text; save the table as one of {', '.join(SUFFIXES)}")
    writing = sniff_csv_dialect(content)
    return content.decode(writing.encoding), writing


def _read_csv(path: Path, target: str | None, notes: list[str], texts: set[str]) -> pd.DataFrame:
    """Text as pandas reads it, but for the target and the texts, which are left as they are written."""
    text, writing = _read_text(path)
    names, made = _header(text, writing), _begin(text, writing).columns
    missing = {key: list(MISSING if name == target else MISSING + WORDS) for key, name in zip(made, names, strict=True)}
    with warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)
        frame = pd.read_csv(
            StringIO(text),
            sep=writing.separator,
            decimal=writing.decimal,
            low_memory=False,
            index_col=False,
            skipinitialspace=True,
            keep_default_na=False,
            na_values=missing,
            dtype={place: str for place, name in enumerate(names) if name == target or name in texts},
        )
    frame.columns = pd.Index(names)
    notes += writing.notes
    return frame


def _header(text: str, writing: CsvDialect) -> list[str]:
    """The names as the file has them, without spaces around them; given as a header, pandas would rename twins."""
    given = _begin(text, writing).columns
    first = _begin(text, writing, header=None, nrows=1, dtype=str, keep_default_na=False)
    return [str(name).strip() or str(made) for name, made in zip(first.iloc[0], given, strict=True)]


def _begin(text: str, writing: CsvDialect, **settings: Any) -> pd.DataFrame:
    """The header as pandas reads it, or the first line."""
    how = {"nrows": 0, "index_col": False, "skipinitialspace": True, **settings}
    return pd.DataFrame(pd.read_csv(StringIO(text), sep=writing.separator, **how))


def _read_parquet(path: Path, target: str | None, notes: list[str], texts: set[str]) -> pd.DataFrame:
    import_module("pyarrow")
    return _nested_as_text(pd.read_parquet(path))


def _parquet_columns(path: Path) -> list[str]:
    """The columns that pandas would read; what it kept as an index is none of them."""
    import_module("pyarrow")
    schema = import_module("pyarrow.parquet").read_schema(path)
    return [str(name) for name in schema.empty_table().to_pandas().columns]


def _read_feather(path: Path, target: str | None, notes: list[str], texts: set[str]) -> pd.DataFrame:
    """What the file says of its own memory is checked: Arrow takes it as it is, and would read beyond it."""
    import_module("pyarrow.feather").read_table(path, memory_map=False).validate(full=True)
    return _nested_as_text(pd.read_feather(path))


def _read_excel(path: Path, target: str | None, notes: list[str], texts: set[str]) -> pd.DataFrame:
    import_module("openpyxl")
    check_sheets(path)
    with pd.ExcelFile(path, engine="openpyxl") as book:
        sheets = [str(name) for name in book.sheet_names]
        if len(sheets) > 1:
            notes.append(f"the first of {len(sheets)} sheets was read, {sheets[0]!r}")
        frame = pd.read_excel(
            book,
            sheet_name=sheets[0],
            keep_default_na=False,
            na_values=list(MISSING),
            dtype=dict.fromkeys([*([] if target is None else [target]), *sorted(texts)], object),
        )
    others = [name for name in frame.columns if name != target]
    frame[others] = frame[others].replace(list(WORDS), float("nan")).infer_objects()
    return frame


def _read_json(path: Path, target: str | None, notes: list[str], texts: set[str]) -> pd.DataFrame:
    """Objects, a line each or in one list; what is nested in them is text."""
    text = read_bytes(path).decode("utf-8-sig")
    rows = json.loads(text) if text.lstrip().startswith("[") else [_object(i, x) for i, x in _numbered(text)]
    return _nested_as_text(pd.DataFrame.from_records([dict(row) for row in rows]))


def _is_nested(value: Any) -> bool:
    return isinstance(value, dict | list | tuple | np.ndarray)


def _nested_as_text(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame with the values of columns that hold lists or objects as JSON.

    >>> _nested_as_text(pd.DataFrame({"a": [[1, 2], ["b"]], "b": [1, 2]}))["a"].tolist()
    ['[1, 2]', '["b"]']
    """
    texts = partial(json.dumps, default=lambda value: value.tolist() if hasattr(value, "tolist") else str(value))
    for name in frame.columns if frame.columns.is_unique else ():
        if types.is_object_dtype(frame[name]) and frame[name].map(_is_nested).any():
            frame[name] = frame[name].map(texts, na_action="ignore")
    return frame


def _numbered(text: str) -> Iterator[tuple[int, str]]:
    return ((i, line) for i, line in enumerate(text.splitlines(), 1) if line.strip())


def _object(number: int, line: str) -> dict[str, Any]:
    try:
        return dict(json.loads(line))
    except (TypeError, ValueError) as error:
        raise ValueError(f"line {number} is no JSON object ({error})") from error


_READERS = {
    "text": _read_csv,
    "parquet": _read_parquet,
    "feather": _read_feather,
    "excel": _read_excel,
    "json": _read_json,
}


def join_names(names: Iterable[object], most: int = 30) -> str:
    """The names as text, the first `most` of them.

    >>> join_names(["age", "town", "size"], most=2)
    "'age', 'town' and 1 more"
    """
    shown = [repr(str(name)) for name in names]
    more = f" and {len(shown) - most} more" if len(shown) > most else ""
    return ", ".join(shown[:most]) + more
