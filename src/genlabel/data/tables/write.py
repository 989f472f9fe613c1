"""Frames as files, of the format that the ending names."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from typing import IO, Any

import pandas as pd

from genlabel._atomic_io import atomic_writer

OUTPUTS = (".csv", ".tsv", ".csv.gz", ".parquet", ".feather", ".jsonl")
"""The endings that can be written."""


def check_ending(name: str, path: Path) -> str:
    """Return the ending of a file that is to be written, or raise: one of `OUTPUTS`.

    >>> check_ending("output", Path("a/out.CSV"))
    '.csv'
    >>> check_ending("output", Path("out.xlsx"))
    Traceback (most recent call last):
    ValueError: output='out.xlsx' ends in '.xlsx'; end it in one of .csv, .tsv, .csv.gz, .parquet, .feather, .jsonl
    """
    found = [ending for ending in OUTPUTS if path.name.lower().endswith(ending)]
    if not found:
        raise ValueError(f"{name}={str(path)!r} ends in {path.suffix!r}; end it in one of {', '.join(OUTPUTS)}")
    if found[0] in (".parquet", ".feather"):
        try:
            import_module("pyarrow")
        except ImportError as error:
            raise ValueError(f'{name}={str(path)!r} needs pyarrow; pip install "genlabel[parquet]"') from error
    return found[0]


def write_frame(frame: pd.DataFrame, path: Path | IO[str]) -> None:
    """Write a frame to a file by its ending, or as CSV to a stream; numbers are written to the last bit.

    A file is written whole or not at all.

    >>> import sys
    >>> write_frame(pd.DataFrame({"a": [0.1], "b": ["u"]}), sys.stdout)
    a,b
    0.1,u
    """
    if not isinstance(path, Path):
        _write(frame, path, ".csv")
        return
    ending = check_ending("output", path)
    with atomic_writer(path) as beside:
        _write(frame, beside, ending)


def _write(frame: pd.DataFrame, target: Any, ending: str) -> None:
    if ending == ".parquet":
        frame.to_parquet(target, index=False)
    elif ending == ".feather":
        frame.to_feather(target)
    elif ending == ".jsonl":
        rows = frame.astype(object).where(frame.notna(), None).to_dict("records")
        lines = [json.dumps(row, ensure_ascii=False, default=str) + "\n" for row in rows]
        target.write_text("".join(lines), encoding="utf-8")
    else:
        frame.to_csv(target, index=False, sep="\t" if ending == ".tsv" else ",", encoding="utf-8", lineterminator="\n")
