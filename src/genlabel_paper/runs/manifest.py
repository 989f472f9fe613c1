"""Manifest of the OpenML datasets of the reproduction: name, size, and membership in the paper's study."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

import pandas as pd

ROUNDED = frozenset({"223"})
"""NOTE[PAPER]: a regression dataset in the paper's table 6; its target, a price, is rounded down to integers."""


@cache
def manifest() -> pd.DataFrame:
    """Return the datasets by id (string), with columns name, n, d, k, largest and study.

    `largest` is the percentage of rows in the largest class, `study` whether the paper's authors list the dataset for
    their study. The datasets that are not available (1038, 1130, 1138, 1166) have missing sizes; the classes of 223 are
    its rounded target.

    >>> manifest().loc["61", ["n", "d", "k"]].tolist()
    [150, 4, 3]
    """
    with files("genlabel_paper.runs").joinpath("manifest.csv").open() as text:
        frame = pd.read_csv(text, dtype={"id": str}, index_col="id")
    return frame.assign(study=frame["study"] == "yes").astype({"n": "Int64", "d": "Int64", "k": "Int64"})


def dataset_title(dataset: str) -> str:
    """Return the id of an OpenML dataset with its name; other datasets keep their name.

    >>> dataset_title("61"), dataset_title("moon")
    ('61 (iris)', 'moon')
    """
    name = manifest()["name"].get(dataset)
    return dataset if pd.isna(name) else f"{dataset} ({name})"


def study_datasets() -> list[str]:
    """Return the ids of the available datasets of the paper's study.

    >>> len(study_datasets())
    131
    """
    return [str(number) for number in manifest().index[manifest()["study"]]]
