"""Datasets of OpenML by id: from a cache in scikit-learn's layout, which is only read, or from the network."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import warnings
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any
from urllib.parse import urlparse

import pandas as pd
from pandas.api import types

from genlabel._validation import check_count
from genlabel.data.tables.columns import MAX_CATEGORIES
from genlabel.data.tables.files import join_names

if TYPE_CHECKING:
    from genlabel.data.tables.table import Table

DATA_HOME = "GENLABEL_DATA_HOME"
"""Environment variable that names the folder of the cache."""
CACHE_FOLDER = Path("openml", "openml.org")
"""Folder within the cache in which scikit-learn stores the files of OpenML."""
MANIFEST_COLUMNS = ("id", "name", "n", "d", "k", "status", "group", "note")
"""Columns of manifest.csv; the first five are required."""


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
        Make classes of a quantity: the target of a regression dataset, rounded down to integers.

    Returns
    -------
    Table
        Labels are strings; nominal columns are strings; rows without a label are left out, with a note.

    Examples
    --------
    >>> table = load_openml(61)  # doctest: +SKIP
    >>> table.name, table.X.shape  # doctest: +SKIP
    ('iris', (150, 4))
    >>> load_openml(0)
    Traceback (most recent call last):
    ValueError: data_id=0 must be a whole number of at least 1
    """
    from sklearn.datasets import get_data_home

    data_id = check_count("data_id", data_id)
    home = find_home(data_home) or Path(get_data_home())
    with TemporaryDirectory(prefix="genlabel-") as copy:
        cached = _copy_cached(data_id, home / CACHE_FOLDER, Path(copy) / CACHE_FOLDER)
        bunch = _fetch(data_id, home, copy, cached)
        features = _read_json(Path(copy) / CACHE_FOLDER / f"api/v1/json/data/features/{data_id}.gz")
        _update_cache(Path(copy) / CACHE_FOLDER, home / CACHE_FOLDER)
    targets = [column["name"] for column in features["data_features"]["feature"] if column["is_target"] == "true"]
    return _to_table(bunch.frame, targets, str(bunch.details["name"]), data_id, round_target)


def openml_manifest(data_home: str | Path | None = None) -> pd.DataFrame | None:
    """Return manifest.csv of the cache, with columns id, name, n (rows), d and k; None without that file.

    >>> openml_manifest("/nowhere") is None
    True
    """
    default = Path(os.environ.get("SCIKIT_LEARN_DATA", "~/scikit_learn_data")).expanduser()
    path = (find_home(data_home) or default) / "manifest.csv"
    if not path.is_file():
        return None
    frame = pd.read_csv(path)
    missing = [name for name in MANIFEST_COLUMNS[:5] if name not in frame.columns]
    if missing:
        columns = join_names(MANIFEST_COLUMNS)
        raise ValueError(f"{str(path)!r} has no column {join_names(missing)}; its columns should be {columns}")
    return frame


def manifest_ids(manifest: pd.DataFrame, max_features: int, min_rows: int, max_rows: int) -> list[int]:
    """Return the ids of the datasets of a manifest that have classes and are within the limits.

    >>> manifest = pd.DataFrame({"id": [1, 2, 3], "n": [150, 150, 9], "d": 4, "k": [3, "regression", 2]})
    >>> manifest_ids(manifest, max_features=20, min_rows=100, max_rows=2000)
    [1]
    """
    size = manifest["n"].between(min_rows, max_rows) & (manifest["d"] <= max_features)
    return [int(number) for number in manifest["id"][size & (pd.to_numeric(manifest["k"], errors="coerce") >= 2)]]


def find_home(data_home: str | Path | None = None) -> Path | None:
    """Return the folder of the cache that the argument or the environment names; None means scikit-learn's own.

    >>> find_home("somewhere").name
    'somewhere'
    """
    home = data_home or os.environ.get(DATA_HOME)
    return Path(home).expanduser() if home else None


def _copy_cached(data_id: int, source: Path, target: Path) -> bool:
    """Copy the cached files of a dataset; return whether the cache has all of them."""
    descriptions = [Path(f"api/v1/json/data/{part}{data_id}.gz") for part in ("", "features/", "qualities/")]
    copied = [_copy(source / path, target / path) for path in descriptions]
    if not copied[0]:
        return False
    try:
        url = str(_read_json(source / descriptions[0])["data_set_description"]["url"])
    except (OSError, EOFError, ValueError, KeyError, TypeError) as error:
        raise ValueError(_damaged(data_id, source / descriptions[0], error)) from error
    data = Path(urlparse(url).path.lstrip("/") + ".gz")
    if ".." in data.parts:
        raise ValueError(_damaged(data_id, source / descriptions[0], ValueError(f"its url {url!r} leaves the cache")))
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


def _damaged(data_id: int, path: Path, error: Exception) -> str:
    reason = f"{type(error).__name__}: {error}"
    return f"OpenML dataset {data_id} is cached in {str(path)!r}, but cannot be read ({reason}); remove its files there"


def _fetch(data_id: int, home: Path, copy: str, cached: bool) -> Any:
    """Let scikit-learn read the copy; the target stays with the features, so that it may have missing values."""
    from sklearn.datasets import fetch_openml

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return fetch_openml(data_id=data_id, data_home=copy, target_column=None, as_frame=True, parser="liac-arff")
        except Exception as error:
            if cached:
                first = error.__context__ if isinstance(error.__context__, Exception) else error
                raise ValueError(_damaged(data_id, home / CACHE_FOLDER, first)) from error
            raise OSError(
                f"OpenML dataset {data_id} is not cached in {str(home)!r} and could not be downloaded ({error}); go "
                f"online, or name the folder of a cache with data_home or the environment variable {DATA_HOME}"
            ) from error


def _update_cache(copy: Path, cache: Path) -> None:
    """Add downloaded files to the cache, each completely or not at all; ignore a cache that cannot be written."""
    for path in copy.rglob("*.gz"):
        target = cache / path.relative_to(copy)
        if target.exists():
            continue
        with suppress(OSError):
            target.parent.mkdir(parents=True, exist_ok=True)
            part = target.with_name(f"{target.name}.{os.getpid()}.part")
            shutil.copyfile(path, part)
            os.replace(part, target)


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
    y, distinct = frame[target], frame[target].nunique()
    numeric = types.is_numeric_dtype(y)
    if numeric and distinct > MAX_CATEGORIES:
        raise ValueError(
            f"{title} is for regression: its target {target!r} is numeric and has {distinct} distinct values; take a "
            "dataset with classes"
        )
    if distinct < 2:
        raise ValueError(f"{title} has one class only in {target!r}; take a dataset with two or more")
    integers = numeric and bool((y.astype(float) % 1 == 0).all())
    return Table(name, frame.drop(columns=target), (y.astype("int64") if integers else y).astype(str), notes)
