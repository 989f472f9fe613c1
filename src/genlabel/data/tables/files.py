"""Reading and writing of table files, with errors that say what to do."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from importlib.util import find_spec
from pathlib import Path
from typing import IO

import pandas as pd

from genlabel._atomic_io import atomic_writer
from genlabel._text import count_of
from genlabel.data.tables.formats import TableFormat, format_of, formats

MAX_RENAMED = 10
"""Maximum of missing columns that a message names, with the columns that may be the same."""


def read_frame(
    path: str | Path, target: str | None = None, notes: list[str] | None = None, string_columns: Iterable[str] = ()
) -> pd.DataFrame:
    """Read a file into a frame with distinct column names and rows numbered from 0.

    Parameters
    ----------
    path : path
        A text file of any usual encoding, with commas, semicolons, tabs, bars or spaces between the values, perhaps
        compressed by gzip; Parquet; Feather; Excel, of which the first sheet is read; JSON, a line for each object or a
        list of objects.
    target : str, optional
        The label column: words such as "NA" in it are values.
    notes : list of str, optional
        Receives a line for everything unusual.
    string_columns : iterable of str
        Columns of text files whose values stay as they are written, such as "007"; unknown names are ignored.

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
    path = Path(path)
    with _clear_errors(path) as table_format:
        frame = table_format.read(path, target, [] if notes is None else notes, set(string_columns))
    frame.columns = frame.columns.astype(str)
    if frame.empty:
        raise ValueError(f"{str(path)!r} has no rows; it needs a line of column names and the rows below it")
    duplicates = frame.columns[frame.columns.duplicated()].unique()
    if len(duplicates):
        raise ValueError(f"{str(path)!r} has several columns named {join_names(duplicates)}; rename them")
    return frame.reset_index(drop=True)


def read_columns(path: str | Path) -> list[str]:
    """Read the column names of a file; the rows of a text or Parquet file are not read."""
    with _clear_errors(Path(path)) as table_format:
        return table_format.read_columns(Path(path))


def read_raw(path: str | Path) -> pd.DataFrame:
    """Read a file whose values are to be copied: each cell of a text file is the string that is written there."""
    with _clear_errors(Path(path)) as table_format:
        frame = table_format.read_raw(Path(path))
    return read_frame(path) if frame is None else frame


def write_frame(frame: pd.DataFrame, path: Path | IO[str]) -> None:
    """Write a frame to a file in the format of its ending, or as CSV to a stream.

    Numbers keep their last bit. A file is written completely or not at all.

    >>> import sys
    >>> write_frame(pd.DataFrame({"a": [0.1], "b": ["u"]}), sys.stdout)
    a,b
    0.1,u
    """
    if not isinstance(path, Path):
        formats()[0].write(frame, path, ".csv")
        return
    table_format, suffix = check_output_suffix("output", path)
    with atomic_writer(path) as temporary:
        table_format.write(frame, temporary, suffix)


def check_output_suffix(option: str, path: Path) -> tuple[TableFormat, str]:
    """Return the format and the ending of an output file; raise if it cannot be written.

    >>> check_output_suffix("output", Path("out.xlsx"))
    Traceback (most recent call last):
    ValueError: output='out.xlsx' ends in '.xlsx'; use one of .csv, .tsv, .csv.gz, .parquet, .feather, .jsonl
    """
    by_suffix = {suffix: table_format for table_format in formats() for suffix in table_format.writable}
    suffix = next((suffix for suffix in by_suffix if path.name.lower().endswith(suffix)), None)
    if suffix is None:
        raise ValueError(f"{option}={str(path)!r} ends in {path.suffix!r}; use one of {', '.join(by_suffix)}")
    table_format = by_suffix[suffix]
    if table_format.requires is not None:
        package, extra = table_format.requires
        if find_spec(package) is None:
            raise ValueError(f'{option}={str(path)!r} needs {package}; pip install "genlabel[{extra}]"')
    return table_format, suffix


def table_name(path: Path) -> str:
    """Return the name of a file without its ending, such as .csv or .csv.gz, read as UTF-8 in any locale."""
    name = Path(path.stem).stem if path.suffix.lower() == ".gz" else path.stem
    return os.fsencode(name).decode(errors="replace")


def check_columns(option: str, names: Iterable[str], columns: Iterable[str], source: str) -> None:
    """Raise unless all names are columns; suggest the closest name.

    >>> check_columns("drop", ["Agee"], ["age", "town"], "t.csv")
    Traceback (most recent call last):
    ValueError: drop='Agee' is not a column of 't.csv'; did you mean 'age'? Its columns are 'age', 'town'
    """
    known = list(columns)
    for name in names:
        if name in known:
            continue
        closest = closest_name(name, known)
        if closest is not None:
            hint = f"did you mean {closest!r}? Its columns are"
        elif len(known) > 1 and pd.to_numeric(pd.Series(known), errors="coerce").notna().mean() >= 0.5:
            hint = "its first line has numbers, but must have the column names; its columns are"
        else:
            hint = "its columns are"
        raise ValueError(f"{option}={name!r} is not a column of {source!r}; {hint} {join_names(known)}")


def closest_name(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that is most similar to a misspelled one, if one is similar enough."""
    lower = {column.strip().lower(): column for column in reversed(list(known))}
    matches = get_close_matches(name.strip().lower(), lower, 1, 0.6)
    return lower[matches[0]] if matches else None


def name_hint(name: str, known: Iterable[object], plural: str) -> str:
    """Return all known names, after the closest one if a name is nearly it.

    >>> name_hint("fruad", ["fraud", "ok"], "classes")
    "did you mean 'fraud'? The classes are 'fraud', 'ok'"
    """
    names = list(map(str, known))
    closest = closest_name(name, names)
    listed = f"he {plural} are {join_names(names)}"
    return f"t{listed}" if closest is None else f"did you mean {closest!r}? T{listed}"


def join_names(names: Iterable[object], max_names: int = 30) -> str:
    """Return the names in quotes, separated by commas, the first `max_names` of them.

    >>> join_names(["age", "town", "size"], max_names=2)
    "'age', 'town' and 1 more"
    """
    quoted = [repr(str(name)) for name in names]
    more = f" and {len(quoted) - max_names} more" if len(quoted) > max_names else ""
    return ", ".join(quoted[:max_names]) + more


def missing_columns_error(missing: Sequence[str], others: Iterable[str]) -> ValueError:
    """Return the error of a table without columns of a model; its other columns may be some that were renamed.

    >>> str(missing_columns_error(["age", "size"], ["Age", "sizes", "x"]))
    "the table lacks 2 columns, 'age', 'size'; rename 'Age' if it is 'age', 'sizes' if it is 'size'"
    """
    renamed, left = [], list(others)
    for name in missing:
        closest = closest_name(name, left)
        if closest is not None:
            left.remove(closest)
            renamed.append(f"{closest!r} if it is {name!r}")
    them = "it" if len(missing) == 1 else "all of them"
    more = f" and {len(renamed) - MAX_RENAMED} more" if len(renamed) > MAX_RENAMED else ""
    hints = [f"rename {', '.join(renamed[:MAX_RENAMED])}{more}"] if renamed else []
    if len(renamed) < len(missing):
        hints.append(f"the model was fitted with {them}" + ("" if renamed else "; add what is missing"))
    n_columns = count_of(len(missing), "column")
    names = f"the column {missing[0]!r}" if len(missing) == 1 else f"{n_columns}, {join_names(missing, MAX_RENAMED)}"
    return ValueError(f"the table lacks {names}; {'; '.join(hints)}")


@contextmanager
def _clear_errors(path: Path) -> Iterator[TableFormat]:
    """Yield the format of a file; turn any error of its reader into a ValueError that names the file."""
    try:
        yield format_of(path)
    except ImportError as error:
        package, extra = format_of(path).requires or (str(error.name), "all")
        raise ValueError(f'{str(path)!r} needs {package}; install it with pip install "genlabel[{extra}]"') from error
    except Exception as error:  # a damaged file may fail in any way
        ragged = re.search(r"Expected (\d+) fields in line (\d+), saw (\d+)", str(error))
        reason = " ".join(str(error).split()) or type(error).__name__
        if ragged is not None:
            expected, line, actual = ragged.groups()
            reason = f"line {line} has {actual} values, earlier lines at most {expected}; quote values with a separator"
        raise ValueError(f"{str(path)!r} could not be read: {reason}") from error
