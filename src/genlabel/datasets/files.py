"""Files as data frames: CSV, TSV and Parquet, with errors that name the file and the way out."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path

import pandas as pd

__all__ = ["SUFFIXES", "listed", "read_columns", "read_frame"]

SUFFIXES = (".csv", ".tsv", ".parquet", ".pq")


def read_frame(path: Path) -> pd.DataFrame:
    """Read a file into a frame whose columns have distinct names."""
    with _clear_errors(path):
        frame = _read_parquet(path) if _is_parquet(path) else _read_csv(path)
    if frame.empty:
        raise ValueError(f"{str(path)!r} has no rows; it needs a line of column names and the rows below it")
    twice = frame.columns[frame.columns.duplicated()].unique()
    if len(twice):
        raise ValueError(f"{str(path)!r} has several columns named {listed(twice)}; rename them")
    return frame


def read_columns(path: Path) -> list[str]:
    """Read the names of the columns of a file, and none of its rows."""
    with _clear_errors(path):
        if _is_parquet(path):
            return _parquet_columns(path)
        sep, _ = _separators(path)
        return _named(path, sep, pd.read_csv(path, sep=sep, nrows=0, index_col=False).columns)


@contextmanager
def _clear_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except UnicodeDecodeError as error:
        raise ValueError(f"{str(path)!r} is not UTF-8 text ({error.reason}); save it as UTF-8") from error
    except (pd.errors.EmptyDataError, pd.errors.ParserError, pd.errors.ParserWarning, OSError) as error:
        raise ValueError(f"{str(path)!r} could not be read: {str(error).strip()}") from error


def _is_parquet(path: Path) -> bool:
    return path.suffix.lower() in (".parquet", ".pq")


def _read_csv(path: Path) -> pd.DataFrame:
    sep, decimal = _separators(path)
    with warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)
        frame = pd.read_csv(path, sep=sep, decimal=decimal, low_memory=False, index_col=False)
    frame.columns = pd.Index(_named(path, sep, frame.columns))
    return frame


def _named(path: Path, sep: str, columns: pd.Index[str]) -> list[str]:
    """The names as the file has them: given as a header, pandas would rename those that occur twice."""
    header = pd.read_csv(path, sep=sep, header=None, nrows=1, dtype=str).iloc[0]
    return [str(given) if pd.isna(name) else str(name) for name, given in zip(header, columns, strict=True)]


def _separators(path: Path) -> tuple[str, str]:
    """What stands between values, and within numbers: semicolons may come with decimal commas (0,5)."""
    with path.open(encoding="utf-8") as lines:
        first, second = lines.readline(), lines.readline()
    if path.suffix.lower() == ".tsv" or first.count("\t") > max(first.count(","), first.count(";")):
        return "\t", "."
    if first.count(";") <= first.count(","):
        return ",", "."
    fields = [field.strip().strip('"') for field in second.split(";")]
    return ";", "," if any(re.fullmatch(r"[-+]?\d+,\d+([eE][-+]?\d+)?", field) for field in fields) else "."


def _read_parquet(path: Path) -> pd.DataFrame:
    with _clear_parquet_errors(path):
        frame = pd.read_parquet(path)
    frame.columns = frame.columns.astype(str)
    return frame


def _parquet_columns(path: Path) -> list[str]:
    """The columns that pandas would read; what it kept as an index is none of them."""
    with _clear_parquet_errors(path):
        import_module("pyarrow")
        schema = import_module("pyarrow.parquet").read_schema(path)
        return [str(name) for name in schema.empty_table().to_pandas().columns]


@contextmanager
def _clear_parquet_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except ImportError as error:
        raise ValueError(f'{str(path)!r} needs pyarrow; install it with pip install "genlabel[parquet]"') from error
    except ValueError as error:
        raise ValueError(f"{str(path)!r} could not be read: {str(error).strip()}") from error


def listed(names: Iterable[object], most: int = 30) -> str:
    """The names as text, the first `most` of them."""
    shown = [repr(str(name)) for name in names]
    more = f" and {len(shown) - most} more" if len(shown) > most else ""
    return ", ".join(shown[:most]) + more
