"""Files as data frames: CSV, TSV and Parquet, with errors that name the file and the way out."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable
from pathlib import Path

import pandas as pd

__all__ = ["SUFFIXES", "listed", "read_frame"]

SUFFIXES = (".csv", ".tsv", ".parquet", ".pq")


def read_frame(path: Path) -> pd.DataFrame:
    """Read a file into a frame whose columns have distinct names."""
    try:
        frame = _read_parquet(path) if path.suffix.lower() in (".parquet", ".pq") else _read_csv(path)
    except UnicodeDecodeError as error:
        raise ValueError(f"{str(path)!r} is not UTF-8 text ({error.reason}); save it as UTF-8") from error
    except (pd.errors.EmptyDataError, pd.errors.ParserError, pd.errors.ParserWarning, OSError) as error:
        raise ValueError(f"{str(path)!r} could not be read: {str(error).strip()}") from error
    if frame.empty:
        raise ValueError(f"{str(path)!r} has no rows; it needs a line of column names and the rows below it")
    twice = frame.columns[frame.columns.duplicated()].unique()
    if len(twice):
        raise ValueError(f"{str(path)!r} has several columns named {listed(twice)}; rename them")
    return frame


def _read_csv(path: Path) -> pd.DataFrame:
    """Read the names by themselves: given as a header, pandas would rename those that occur twice."""
    sep, decimal = _separators(path)
    header = pd.read_csv(path, sep=sep, header=None, nrows=1, dtype=str)
    with warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)
        frame = pd.read_csv(path, sep=sep, decimal=decimal, low_memory=False, index_col=False)
    names = header.iloc[0]
    frame.columns = pd.Index(
        [old if pd.isna(name) else str(name) for name, old in zip(names, frame.columns, strict=True)]
    )
    return frame


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
    try:
        frame = pd.read_parquet(path)
    except ImportError as error:
        raise ValueError(f'{str(path)!r} needs pyarrow; install it with pip install "genlabel[parquet]"') from error
    except ValueError as error:
        raise ValueError(f"{str(path)!r} could not be read: {str(error).strip()}") from error
    frame.columns = frame.columns.astype(str)
    return frame


def listed(names: Iterable[object], most: int = 30) -> str:
    """The names as text, the first `most` of them."""
    shown = [repr(str(name)) for name in names]
    more = f" and {len(shown) - most} more" if len(shown) > most else ""
    return ", ".join(shown[:most]) + more
