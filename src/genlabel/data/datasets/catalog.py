"""Tables by name: those of scikit-learn, the synthetic ones, OpenML datasets, and files."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from genlabel.data.datasets.openml import load_openml, openml_manifest
from genlabel.data.datasets.synthetic import SYNTHETIC
from genlabel.data.tables.files import check_columns, join_names, read_columns, table_name
from genlabel.data.tables.formats import readable_suffixes

if TYPE_CHECKING:
    from genlabel.data.tables.table import Table

EMBEDDED = ("iris", "wine", "breast_cancer", "digits")
"""The tables that come with scikit-learn."""
OPENML = "openml:"
"""Prefix of the id or the name of an OpenML dataset."""
PAPER_TABLES = {"A": "Tables 4 and 5", "B": "Table 1", "C": "Table 6", "D": "Table 8", "E": "Table 9"}
"""The tables of the paper that the column "group" of a manifest names by a letter."""


def load_table(
    source: str | Path, target: str | None = None, *, random_state: int = 0, drop: Iterable[str] = (), **reading: Any
) -> Table:
    """Load a table: a built-in or OpenML dataset by its name, or a file.

    Parameters
    ----------
    source : str or Path
        "iris", "wine", "breast_cancer", "digits", a name of `SYNTHETIC`, an OpenML dataset ("openml:61"), or a file:
        CSV, TSV, Parquet, Feather, Excel or JSON lines.
    target : str, optional
        The label column of a file.
    random_state : int
        Seed of a synthetic dataset.
    drop : iterable of str
        Columns that are not used.
    **reading
        Options for files: na_values, force_include, classes, bins, groups, time; see
        `genlabel.data.tables.read_table`.

    Examples
    --------
    >>> table = load_table("iris")
    >>> table.X.shape, sorted(set(table.y))
    ((150, 4), ['setosa', 'versicolor', 'virginica'])
    """
    from genlabel.data.tables.reading import read_table

    name, column = find_source(source, target)
    drop = list(drop)
    if column is not None:
        return read_table(Path(source), column, drop=drop, **reading)
    for_files = [option for option, value in reading.items() if value and option != "force_include"]
    if for_files:
        raise ValueError(f"{for_files[0]}={reading[for_files[0]]!r} is for files; leave it out for {name!r}")
    table = _load_named(name, openml_id(source), random_state)
    check_columns("drop", drop, table.X.columns, name)
    check_columns("force_include", reading.get("force_include", ()), table.X.columns, name)
    return replace(table, X=table.X.drop(columns=drop))


def find_source(source: str | Path, target: str | None = None) -> tuple[str, str | None]:
    """Return the name of a table, and the target if it is a file; raise if there is no such table or column.

    This is fast: it imports nothing heavy and reads no rows of a text file.

    >>> find_source("Two_Circle")
    ('two-circle', None)
    >>> find_source("nowhere.csv")
    Traceback (most recent call last):
    FileNotFoundError: there is no file 'nowhere.csv'; check the path, the current folder is ...
    """
    path = Path(source)
    number = openml_id(source)
    names = {known.replace("-", "_"): known for known in (*EMBEDDED, *SYNTHETIC)}
    name = names.get(str(source).replace("-", "_").lower()) if number is None else f"openml-{number}"
    if name is not None and not path.is_file():
        if target is not None:
            raise ValueError(f"target={target!r} is for files; {name!r} has its own labels, leave it out")
        return name, None
    _check_file(path)
    columns = read_columns(path)
    if target is None:
        raise ValueError(
            f"target is not given; name the label column of {str(path)!r} with target=..., on the command line "
            f"--target: one of {join_names(columns)}"
        )
    check_columns("target", [target], columns, str(path))
    return table_name(path), target


def openml_id(source: str | Path) -> int | None:
    """Return the id of an OpenML dataset: "openml:61", or "openml:iris" if the manifest has that name once.

    >>> openml_id("openml:61"), openml_id("iris") is None
    (61, True)
    """
    text = str(source)
    if not text.lower().startswith(OPENML):
        return None
    word = text[len(OPENML) :]
    if word.isdecimal():
        return int(word)
    manifest = openml_manifest()
    ids = [] if manifest is None else manifest["id"][manifest["name"].str.lower() == word.lower()].tolist()
    if len(ids) != 1:
        ambiguous = f"; {join_names(ids)} have this name" if ids else ""
        raise ValueError(f"{text!r} is not an available OpenML dataset{ambiguous}; give its id, such as openml:61")
    return int(ids[0])


def list_tables(data_home: str | Path | None = None) -> pd.DataFrame:
    """List the tables that `genlabel compare` and the other commands can name, without going online.

    Parameters
    ----------
    data_home : path, optional
        Folder of the OpenML cache, see `load_openml`; its list is manifest.csv.

    Returns
    -------
    DataFrame
        name (the source to give), title, rows, columns, classes ("regression" for a quantity), source, paper (its
        tables).

    Examples
    --------
    >>> list_tables("/nowhere")[["name", "rows", "columns", "classes", "source"]].head(2)
       name  rows  columns classes        source
    0  iris   150        4       3  scikit-learn
    1  wine   178       13       3  scikit-learn
    """
    rows = []
    for name in (*EMBEDDED, *SYNTHETIC):
        table = load_table(name)
        size = {"rows": len(table.X), "columns": table.X.shape[1], "classes": str(table.y.nunique())}
        source = "scikit-learn" if name in EMBEDDED else "synthetic"
        rows.append({"name": name, "title": name, **size, "source": source, "paper": ""})
    built_in, manifest = pd.DataFrame(rows), openml_manifest(data_home)
    if manifest is None:
        return built_in
    groups = manifest["group"].astype(str) if "group" in manifest else pd.Series("", index=manifest.index)
    openml = pd.DataFrame(
        {
            "name": OPENML + manifest["id"].astype(str),
            "title": manifest["name"].astype(str),
            "rows": manifest["n"],
            "columns": manifest["d"],
            "classes": manifest["k"].astype(str),
            "source": "OpenML, cached",
            "paper": groups.map(lambda letters: ", ".join(PAPER_TABLES[one] for one in letters if one in PAPER_TABLES)),
        }
    )
    return pd.concat([built_in, openml], ignore_index=True)


def _load_named(name: str, data_id: int | None, random_state: int) -> Table:
    from sklearn import datasets

    from genlabel.data.tables.table import Table

    if data_id is not None:
        return replace(load_openml(data_id), name=name)
    if name in EMBEDDED:
        bunch = getattr(datasets, f"load_{name}")(as_frame=True)
        y = bunch.target if name == "digits" else bunch.target.map(dict(enumerate(bunch.target_names.tolist())))
        return Table(name, bunch.data, y)
    X, labels = SYNTHETIC[name](random_state=random_state)
    frame = pd.DataFrame(X, columns=[f"x{i + 1}" for i in range(X.shape[1])])
    return Table(name, frame, pd.Series(labels, name="class"), [f"{name} was drawn with random_state={random_state}"])


def _check_file(path: Path) -> None:
    """Raise unless the path is a file: an unknown name, a missing file, a folder."""
    formats = ", ".join(readable_suffixes())
    if path.is_file():
        return
    if path.is_dir():
        raise ValueError(f"{str(path)!r} is a folder; name a file in it ({formats})")
    if path.suffix.lower() in (*readable_suffixes(), ".gz") or len(path.parts) > 1:
        raise FileNotFoundError(
            f"there is no file {str(path)!r}; check the path, the current folder is {str(Path.cwd())!r}"
        )
    raise ValueError(
        f"{str(path)!r} is not a known table; choose one of {join_names([*EMBEDDED, *SYNTHETIC])}, or give "
        f"the path of a file ({formats})"
    )
