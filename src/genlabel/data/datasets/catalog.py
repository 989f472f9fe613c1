"""Tables by name: those of scikit-learn, the synthetic ones, OpenML datasets, and files.

OpenML datasets come from a cache in scikit-learn's layout or from the network.
"""

from __future__ import annotations

import gzip
import json
import os
import shutil
import warnings
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any
from urllib.parse import urlparse

import pandas as pd
from pandas.api import types

from genlabel._atomic_io import atomic_write
from genlabel._validation import check_count
from genlabel.data.datasets.synthetic import SYNTHETIC
from genlabel.data.tables.columns import MAX_CATEGORIES
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
DATA_HOME = "GENLABEL_DATA_HOME"
"""Environment variable that names the folder of the cache."""
CACHE_FOLDER = Path("openml", "openml.org")
"""Folder within the cache in which scikit-learn stores the files of OpenML."""
MANIFEST_COLUMNS = ("id", "name", "n", "d", "k", "status", "group", "note")
"""Columns of manifest.csv; the first five are required."""


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
        Options for files: na_values, force_include, target_is_categorical, bins, groups, time; see
        `genlabel.data.tables.read_table`.

    Examples
    --------
    >>> table = load_table("iris")
    >>> table.X.shape, sorted(set(table.y))
    ((150, 4), ['setosa', 'versicolor', 'virginica'])
    """
    from sklearn import datasets

    from genlabel.data.tables.reading import read_table
    from genlabel.data.tables.table import Table

    name, target = find_source(source, target)
    drop = list(drop)
    if target is not None:
        return read_table(Path(source), target, drop=drop, **reading)
    for option, value in reading.items():
        if value and option != "force_include":
            shown = join_names(value) if isinstance(value, list) else repr(value)
            raise ValueError(f"{option}={shown} is for files; leave it out for {name!r}")
    data_id = openml_id(source)
    if data_id is not None:
        table = replace(load_openml(data_id), name=name)
    elif name in EMBEDDED:
        bunch = getattr(datasets, f"load_{name}")(as_frame=True)
        y = bunch.target if name == "digits" else bunch.target.map(dict(enumerate(bunch.target_names.tolist())))
        table = Table(name, bunch.data, y)
    else:
        X, labels = SYNTHETIC[name](random_state=random_state)
        frame = pd.DataFrame(X, columns=[f"x{i + 1}" for i in range(X.shape[1])])
        notes = [f"{name} was drawn with random_state={random_state}"]
        table = Table(name, frame, pd.Series(labels, name="class"), notes)
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
    data_id = openml_id(source)
    if data_id is not None:
        name: str | None = f"openml-{data_id}"
    else:
        by_spelling = {known.replace("-", "_"): known for known in (*EMBEDDED, *SYNTHETIC)}
        name = by_spelling.get(str(source).replace("-", "_").lower())
    if name is not None and not path.is_file():
        if target is not None:
            raise ValueError(f"target={target!r} is for files; {name!r} has its own labels, leave it out")
        return name, None
    formats = ", ".join(readable_suffixes())
    if path.is_dir():
        raise ValueError(f"{str(path)!r} is a folder; name a file in it ({formats})")
    if not path.is_file():
        if path.suffix.lower() in (*readable_suffixes(), ".gz") or len(path.parts) > 1:
            folder = str(Path.cwd())
            raise FileNotFoundError(f"there is no file {str(path)!r}; check the path, the current folder is {folder!r}")
        raise ValueError(
            f"{str(path)!r} is not a known table; choose one of {join_names([*EMBEDDED, *SYNTHETIC])}, or give "
            f"the path of a file ({formats})"
        )
    columns = read_columns(path)
    if target is None:
        raise ValueError(
            f"target is not given; name the label column of {str(path)!r} with target=COLUMN, one of "
            f"{join_names(columns)}"
        )
    check_columns("target", [target], columns, str(path))
    return table_name(path), target


def openml_id(source: str | Path) -> int | None:
    """Return the id of an OpenML dataset: "openml:61", or "openml:iris" if one local dataset has that name.

    >>> openml_id("openml:61"), openml_id("iris") is None
    (61, True)
    """
    text = str(source)
    if not text.lower().startswith(OPENML):
        return None
    id_or_name = text[len(OPENML) :]
    if id_or_name.isdecimal():
        return int(id_or_name)
    known = local_openml()
    ids = known["id"][known["name"].astype(str).str.lower() == id_or_name.lower()].tolist()
    if len(ids) != 1:
        ambiguous = f"; {join_names(ids)} have this name" if ids else ""
        raise ValueError(f"{text!r} is not an available OpenML dataset{ambiguous}; give its id, such as openml:61")
    return int(ids[0])


def list_tables(data_home: str | Path | None = None) -> pd.DataFrame:
    """List the tables that `genlabel compare` and the other commands can name, without going online.

    Parameters
    ----------
    data_home : path, optional
        Folder of the OpenML cache, see `load_openml`; its datasets are those of manifest.csv and those that are cached.

    Returns
    -------
    DataFrame
        name (the argument `source` of `load_table`), title, rows, columns, classes ("regression" for a numeric target),
        source, paper (the tables of the paper that have it).

    Examples
    --------
    >>> list_tables("/nowhere")[["name", "rows", "columns", "classes", "source"]].head(2)
       name  rows  columns classes        source
    0  iris   150        4       3  scikit-learn
    1  wine   178       13       3  scikit-learn
    """
    rows = []
    for name in (*EMBEDDED, *SYNTHETIC):
        table, source = load_table(name), "scikit-learn" if name in EMBEDDED else "synthetic"
        rows.append((name, name, *table.X.shape, str(table.y.nunique()), source, ""))
    built_in = pd.DataFrame(rows, columns=["name", "title", "rows", "columns", "classes", "source", "paper"])
    local = local_openml(data_home)
    groups = local["group"].astype(str) if "group" in local else pd.Series("", index=local.index)
    openml = {
        "name": OPENML + local["id"].astype(str),
        "title": local["name"].astype(str),
        "rows": local["n"],
        "columns": local["d"],
        "classes": local["k"].astype(str),
        "source": "OpenML, cached",
        "paper": groups.map(lambda group: ", ".join(PAPER_TABLES[c] for c in group if c in PAPER_TABLES)),
    }
    return pd.concat([built_in, pd.DataFrame(openml)], ignore_index=True)


def load_openml(data_id: int, data_home: str | Path | None = None, *, round_target: bool = False) -> Table:
    """Load the OpenML dataset of an id, with its default target and the column types that it declares.

    Cached files are copied to a temporary folder and read there, because scikit-learn deletes those that it cannot
    read; files that had to be downloaded are added to the cache if it can be written.

    Parameters
    ----------
    data_id : int
        The number in https://www.openml.org/d/61.
    data_home : path, optional
        Folder of the cache: the environment variable GENLABEL_DATA_HOME if not given, else scikit-learn's.
    round_target : bool
        Round the numeric target of a regression dataset down to integers, which become the classes.

    Returns
    -------
    Table
        Labels are strings; nominal columns are strings; rows without a label are left out, with a note.

    Examples
    --------
    >>> load_openml(0)
    Traceback (most recent call last):
    ValueError: data_id=0 must be a whole number of at least 1
    """
    from sklearn.datasets import fetch_openml

    data_id = check_count("data_id", data_id)
    home = find_home(data_home)
    with TemporaryDirectory(prefix="genlabel-") as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cache, copy = home / CACHE_FOLDER, Path(folder) / CACHE_FOLDER
        cached = _copy_cached(data_id, cache, copy)
        try:  # the target stays with the features, so that it may have missing values
            bunch = fetch_openml(
                data_id=data_id, data_home=folder, target_column=None, as_frame=True, parser="liac-arff"
            )
        except Exception as error:
            if cached:
                cause = error.__context__ if isinstance(error.__context__, Exception) else error
                raise ValueError(_damaged_message(data_id, cache, cause)) from error
            raise OSError(
                f"OpenML dataset {data_id} is not cached in {str(home)!r} and could not be downloaded ({error}); go "
                f"online, or name the folder of a cache with the environment variable {DATA_HOME}"
            ) from error
        features = _read_json(copy / f"api/v1/json/data/features/{data_id}.gz")["data_features"]["feature"]
        for path in copy.rglob("*.gz"):
            cached_path = cache / path.relative_to(copy)
            if not cached_path.exists():
                with suppress(OSError):  # the cache may be read-only
                    atomic_write(cached_path, path.read_bytes())
    targets = [column["name"] for column in features if column["is_target"] == "true"]
    return _to_table(bunch.frame, targets, str(bunch.details["name"]), data_id, round_target)


def openml_manifest(data_home: str | Path | None = None) -> pd.DataFrame | None:
    """Return manifest.csv of the cache, with columns id, name, n (rows), d and k; None without that file."""
    path = find_home(data_home) / "manifest.csv"
    if not path.is_file():
        return None
    frame = pd.read_csv(path)
    missing = [name for name in MANIFEST_COLUMNS[:5] if name not in frame.columns]
    if missing:
        columns = join_names(MANIFEST_COLUMNS)
        raise ValueError(f"{str(path)!r} has no column {join_names(missing)}; its columns should be {columns}")
    return frame


def local_openml(data_home: str | Path | None = None) -> pd.DataFrame:
    """Return the datasets of manifest.csv, then those that are cached but not in it, with id, name, n, d and k."""
    manifest = openml_manifest(data_home)
    manifest = pd.DataFrame(columns=list(MANIFEST_COLUMNS[:5])) if manifest is None else manifest
    known, folder = set(manifest["id"]), find_home(data_home) / CACHE_FOLDER / "api/v1/json/data"
    rows = []
    for number in sorted(int(path.stem) for path in folder.glob("*.gz") if path.stem.isdecimal()):
        with suppress(OSError, EOFError, ValueError, LookupError, TypeError):  # a damaged file
            rows += [] if number in known else [_read_facts(folder, number)]
    cached = pd.DataFrame(rows, columns=list(MANIFEST_COLUMNS[:5]))
    frames = [frame for frame in (manifest, cached) if len(frame)]
    return pd.concat(frames, ignore_index=True) if frames else cached


def _read_facts(folder: Path, number: int) -> tuple[int, str, int, int, str]:
    """Return id, name, rows, columns and classes of a cached dataset."""
    name = str(_read_json(folder / f"{number}.gz")["data_set_description"]["name"])
    columns = _read_json(folder / f"features/{number}.gz")["data_features"]["feature"]
    qualities = _read_json(folder / f"qualities/{number}.gz")["data_qualities"]["quality"]
    values = {quality["name"]: float(quality["value"]) for quality in qualities if quality["value"]}
    targets = [column for column in columns if column["is_target"] == "true"]
    numeric = any(column["data_type"] == "numeric" for column in targets)
    classes = "regression" if numeric else f"{values.get('NumberOfClasses', float('nan')):.0f}"
    return number, name, int(values["NumberOfInstances"]), len(columns) - len(targets), classes


def find_home(data_home: str | Path | None = None) -> Path:
    """Return the folder of datasets that the argument or GENLABEL_DATA_HOME names, else scikit-learn's.

    >>> find_home("somewhere").name
    'somewhere'
    """
    home = data_home or os.environ.get(DATA_HOME) or os.environ.get("SCIKIT_LEARN_DATA") or "~/scikit_learn_data"
    return Path(home).expanduser()


def _copy_cached(data_id: int, source: Path, target: Path) -> bool:
    """Copy the cached files of a dataset; return whether the cache has all of them."""
    descriptions = [Path(f"api/v1/json/data/{part}{data_id}.gz") for part in ("", "features/", "qualities/")]
    copied = [_copy(source / path, target / path) for path in descriptions]
    if not copied[0]:
        return False
    try:
        url = str(_read_json(source / descriptions[0])["data_set_description"]["url"])
        data = Path(urlparse(url).path.lstrip("/") + ".gz")
        if ".." in data.parts:
            raise ValueError(f"its url {url!r} leaves the cache")
    except (OSError, EOFError, ValueError, KeyError, TypeError) as error:
        raise ValueError(_damaged_message(data_id, source / descriptions[0], error)) from error
    return _copy(source / data, target / data) and all(copied)


def _copy(source: Path, target: Path) -> bool:
    if not source.is_file():
        return False
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
    return True


def _read_json(path: Path) -> dict[str, Any]:
    with gzip.open(path, "rt", encoding="utf-8") as text:
        return json.load(text)


def _damaged_message(data_id: int, path: Path, error: Exception) -> str:
    return f"OpenML dataset {data_id} is cached in {str(path)!r}, but cannot be read ({error}); remove its files there"


def _to_table(frame: pd.DataFrame, targets: list[str], name: str, data_id: int, round_target: bool) -> Table:
    from genlabel.data.tables.table import Table

    title = f"OpenML dataset {name} ({data_id})"
    if len(targets) != 1 or targets[0] not in frame.columns:
        raise ValueError(f"{title} has {len(targets)} usable targets, {join_names(targets)}; one is needed")
    target = targets[0]
    missing = frame[target].isna()
    frame = frame[~missing].reset_index(drop=True)
    notes = [f"rows dropped because {target!r} is missing: {missing.sum()}"] if missing.any() else []
    if round_target:
        if not types.is_numeric_dtype(frame[target]):
            raise ValueError(f"round_target=True is for quantities, but the target {target!r} of {title} is not")
        frame[target] = (frame[target].astype(float) // 1).astype("int64").astype(str)
        notes.append(f"{target!r} was rounded down to {frame[target].nunique()} whole numbers")
    if len(frame.columns) < 2:
        raise ValueError(f"{title} has no column of features in addition to {target!r}; take another")
    y = frame[target]
    distinct, numeric = y.nunique(), types.is_numeric_dtype(y)
    if numeric and distinct > MAX_CATEGORIES:
        raise ValueError(
            f"{title} is for regression: its target {target!r} is numeric and has {distinct} distinct values; take a "
            "dataset with classes"
        )
    if distinct < 2:
        raise ValueError(f"{title} has one class only in {target!r}; take a dataset with two or more")
    if numeric and bool((y.astype(float) % 1 == 0).all()):
        y = y.astype("int64")
    return Table(name, frame.drop(columns=target), y.astype(str), notes)
