"""Tables from OpenML by id: from a cache in scikit-learn's layout, which is only read, or from the network."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import warnings
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import urlparse

import pandas as pd
from pandas.api import types
from sklearn.datasets import fetch_openml, get_data_home

from genlabel._validation import check_count
from genlabel.data.datasets.manifest import DATA_HOME, find_home
from genlabel.data.datasets.tables import Table
from genlabel.data.tables.columns import MANY
from genlabel.data.tables.files import join_names

INSIDE = Path("openml", "openml.org")
"""Where scikit-learn keeps what it had from OpenML, in that folder."""


def load_openml(data_id: int, data_home: str | Path | None = None, *, round_target: bool = False) -> Table:
    """Load the OpenML set of an id, with its default target and the kinds of columns that it declares.

    Cached files are copied to a temporary folder and read there, because scikit-learn deletes those that it cannot
    read; what had to be downloaded is added to the cache where it can be written.

    Parameters
    ----------
    data_id : int
        The number in https://www.openml.org/d/61.
    data_home : path, optional
        The folder of the cache: the environment variable GENLABEL_DATA_HOME if not given, else scikit-learn's.
    round_target : bool
        Make classes of a quantity: the target of a regression set, rounded down to whole numbers.

    Returns
    -------
    Table
        Labels are text; nominal columns are text; rows without a label are left out, which a note tells.

    Examples
    --------
    >>> table = load_openml(61)  # doctest: +SKIP
    >>> table.name, table.X.shape  # doctest: +SKIP
    ('iris', (150, 4))
    >>> load_openml(0)
    Traceback (most recent call last):
    ValueError: data_id=0 must be a whole number of at least 1
    """
    number = check_count("data_id", data_id)
    home = find_home(data_home) or Path(get_data_home())
    with TemporaryDirectory(prefix="genlabel-") as copy:
        cached = _copy_files(number, home / INSIDE, Path(copy) / INSIDE)
        bunch = _fetch(number, home, copy, cached)
        features = _read_json(Path(copy) / INSIDE / f"api/v1/json/data/features/{number}.gz")
        _keep_files(Path(copy) / INSIDE, home / INSIDE)
    targets = [column["name"] for column in features["data_features"]["feature"] if column["is_target"] == "true"]
    return _table(bunch.frame, targets, str(bunch.details["name"]), number, round_target)


def _copy_files(number: int, source: Path, into: Path) -> bool:
    """Copy what the cache has of a set; tell whether that is all of it."""
    about = [Path(f"api/v1/json/data/{part}{number}.gz") for part in ("", "features/", "qualities/")]
    found = [_copy(source / path, into / path) for path in about]
    if not found[0]:
        return False
    try:
        url = str(_read_json(source / about[0])["data_set_description"]["url"])
    except (OSError, EOFError, ValueError, KeyError, TypeError) as error:
        raise ValueError(_damaged(number, source / about[0], error)) from error
    data = Path(urlparse(url).path.lstrip("/") + ".gz")
    if ".." in data.parts:
        raise ValueError(_damaged(number, source / about[0], ValueError(f"its url {url!r} leaves the cache")))
    return _copy(source / data, into / data) and all(found)


def _copy(source: Path, into: Path) -> bool:
    if not source.is_file():
        return False
    into.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, into)
    return True


def _read_json(path: Path) -> dict[str, Any]:
    with gzip.open(path, "rt", encoding="utf-8") as text:
        return json.load(text)


def _damaged(number: int, where: Path, error: Exception) -> str:
    reason = f"{type(error).__name__}: {error}"
    return f"OpenML set {number} is cached in {str(where)!r}, but cannot be read ({reason}); remove its files there"


def _fetch(number: int, home: Path, copy: str, cached: bool) -> Any:
    """Let scikit-learn read the copy; the target stays with the features, so that it may have gaps."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return fetch_openml(data_id=number, data_home=copy, target_column=None, as_frame=True, parser="liac-arff")
        except Exception as error:
            if cached:
                first = error.__context__ if isinstance(error.__context__, Exception) else error
                raise ValueError(_damaged(number, home / INSIDE, first)) from error
            raise OSError(
                f"OpenML set {number} is not cached in {str(home)!r} and could not be downloaded ({error}); go online, "
                f"or name the folder of a cache with data_home or the environment variable {DATA_HOME}"
            ) from error


def _keep_files(copy: Path, cache: Path) -> None:
    """Add what was downloaded to the cache, whole files at once; a cache that cannot be written stays as it is."""
    for path in copy.rglob("*.gz"):
        kept = cache / path.relative_to(copy)
        if kept.exists():
            continue
        with suppress(OSError):
            kept.parent.mkdir(parents=True, exist_ok=True)
            part = kept.with_name(f"{kept.name}.{os.getpid()}.part")
            shutil.copyfile(path, part)
            os.replace(part, kept)


def _table(frame: pd.DataFrame, targets: list[str], name: str, number: int, round_target: bool) -> Table:
    shown = f"{name} ({number})"
    if len(targets) != 1 or targets[0] not in frame.columns:
        raise ValueError(f"OpenML set {shown} has {len(targets)} usable targets, {join_names(targets)}; one is needed")
    target = targets[0]
    missing = frame[target].isna()
    frame = frame[~missing].reset_index(drop=True)
    notes = [f"rows dropped because {target!r} is missing: {missing.sum()}"] if missing.any() else []
    if round_target:
        frame[target] = _rounded(frame[target], shown)
        notes.append(f"{target!r} was rounded down to {frame[target].nunique()} whole numbers")
    if len(frame.columns) < 2:
        raise ValueError(f"OpenML set {shown} has no column of features besides {target!r}; take another")
    return Table(name, frame.drop(columns=target), _labels(frame[target], shown), notes)


def _rounded(y: pd.Series[Any], shown: str) -> pd.Series[Any]:
    if not types.is_numeric_dtype(y):
        raise ValueError(f"round_target=True is for quantities, but the target {y.name!r} of OpenML set {shown} is not")
    return (y.astype(float) // 1).astype("int64").astype(str)


def _labels(y: pd.Series[Any], shown: str) -> pd.Series[Any]:
    """Labels as text; a target of many numbers is a quantity."""
    distinct = y.nunique()
    if types.is_numeric_dtype(y) and distinct > MANY:
        raise ValueError(
            f"OpenML set {shown} is for regression: its target {y.name!r} is numeric and has {distinct} distinct "
            "values; take a set with classes"
        )
    if distinct < 2:
        raise ValueError(f"OpenML set {shown} has one class only in {y.name!r}; take a set with two or more")
    whole = types.is_numeric_dtype(y) and bool((y.astype(float) % 1 == 0).all())
    return (y.astype("int64") if whole else y).astype(str)
