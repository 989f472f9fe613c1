"""The tables that can be named: those of scikit-learn, the synthetic ones, and the OpenML sets that are at hand."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from genlabel.data.datasets.manifest import openml_manifest
from genlabel.data.datasets.sources import EMBEDDED, OPENML
from genlabel.data.datasets.synthetic import SYNTHETIC
from genlabel.data.datasets.tables import load_table

PAPER = {"A": "Tables 4 and 5", "B": "Table 1", "C": "Table 6", "D": "Table 8", "E": "Table 9"}
"""The tables of the paper that a manifest names by a letter in its column "group"."""


def list_tables(data_home: str | Path | None = None) -> pd.DataFrame:
    """List the tables that `genlabel compare` and its kin can name, without going online.

    Parameters
    ----------
    data_home : path, optional
        The folder of the OpenML cache, as of `load_openml`; its list is manifest.csv.

    Returns
    -------
    DataFrame
        name (what to write), title, rows, columns, classes ("regression" for a quantity), source, paper (its tables).

    Examples
    --------
    >>> list_tables("/nowhere")[["name", "rows", "columns", "classes", "source"]].head(2)
       name  rows  columns classes        source
    0  iris   150        4       3  scikit-learn
    1  wine   178       13       3  scikit-learn
    """
    parts = [_built_in(name, "scikit-learn") for name in EMBEDDED]
    parts += [_built_in(name, "synthetic") for name in SYNTHETIC]
    manifest = openml_manifest(data_home)
    found = pd.DataFrame(parts)
    return found if manifest is None else pd.concat([found, _from_openml(manifest)], ignore_index=True)


def _built_in(name: str, source: str) -> dict[str, object]:
    table = load_table(name)
    rows, columns = table.X.shape
    classes = str(table.y.nunique())
    return {"name": name, "title": name, "rows": rows, "columns": columns, "classes": classes, "source": source,
            "paper": ""}  # fmt: skip


def _from_openml(manifest: pd.DataFrame) -> pd.DataFrame:
    groups = manifest["group"].astype(str) if "group" in manifest else pd.Series("", index=manifest.index)
    return pd.DataFrame(
        {
            "name": OPENML + manifest["id"].astype(str),
            "title": manifest["name"].astype(str),
            "rows": manifest["n"],
            "columns": manifest["d"],
            "classes": manifest["k"].astype(str),
            "source": "OpenML, at hand",
            "paper": groups.map(lambda letters: ", ".join(PAPER[one] for one in letters if one in PAPER)),
        }
    )
