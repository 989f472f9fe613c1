"""Which OpenML sets are at hand: the folder of their cache, and the list that lies in it."""

from __future__ import annotations

import os
from pathlib import Path

import pandas as pd

from genlabel.data.tables.files import join_names

DATA_HOME = "GENLABEL_DATA_HOME"
"""Environment variable that names the folder of the cache."""
COLUMNS = ("id", "name", "n", "d", "k", "status", "group", "note")


def openml_manifest(data_home: str | Path | None = None) -> pd.DataFrame | None:
    """Return the list of sets that lies in the cache as manifest.csv, with its id, n (rows), d and k; None without.

    >>> openml_manifest("/nowhere") is None
    True
    """
    default = Path(os.environ.get("SCIKIT_LEARN_DATA", "~/scikit_learn_data")).expanduser()
    path = (find_home(data_home) or default) / "manifest.csv"
    if not path.is_file():
        return None
    frame = pd.read_csv(path)
    missing = [name for name in COLUMNS[:5] if name not in frame.columns]
    if missing:
        raise ValueError(
            f"{str(path)!r} has no column {join_names(missing)}; its columns should be {join_names(COLUMNS)}"
        )
    return frame


def manifest_ids(manifest: pd.DataFrame, max_features: int, min_rows: int, max_rows: int) -> list[int]:
    """Return the ids of the sets of a manifest that have classes and are within the limits.

    >>> manifest = pd.DataFrame({"id": [1, 2, 3], "n": [150, 150, 9], "d": 4, "k": [3, "regression", 2]})
    >>> manifest_ids(manifest, max_features=20, min_rows=100, max_rows=2000)
    [1]
    """
    size = manifest["n"].between(min_rows, max_rows) & (manifest["d"] <= max_features)
    return [int(number) for number in manifest["id"][size & (pd.to_numeric(manifest["k"], errors="coerce") >= 2)]]


def find_home(data_home: str | Path | None = None) -> Path | None:
    """Return the folder of the cache as it is named here or by the environment; None is scikit-learn's own.

    >>> find_home("somewhere").name
    'somewhere'
    """
    named = data_home or os.environ.get(DATA_HOME)
    return Path(named).expanduser() if named else None
