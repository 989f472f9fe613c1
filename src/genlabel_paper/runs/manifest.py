"""The OpenML sets of the study: id, name, rows, features, classes, and which ones the statistics are over."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

import pandas as pd

ROUNDED = frozenset({"223"})
"""NOTE[PAPER]: a regression set in the paper's table 6: its target, a price, is rounded down to whole numbers."""


@cache
def manifest() -> pd.DataFrame:
    """Return the sets by id (as text): name, n, d, k, the percent of rows in the largest class, and whether it is one
    of those that the paper's authors list for their study.

    The sets that we could not have (1038, 1130, 1138, 1166) have no numbers; the classes of 223 are its rounded target.

    >>> manifest().loc["61", ["n", "d", "k"]].tolist()
    [150, 4, 3]
    """
    with files("genlabel_paper.runs").joinpath("manifest.csv").open() as text:
        frame = pd.read_csv(text, dtype={"id": str}, index_col="id")
    return frame.assign(study=frame["study"] == "yes").astype({"n": "Int64", "d": "Int64", "k": "Int64"})


def name_set(dataset: str) -> str:
    """Return the number of an OpenML set with its name; sets without one are called as they are.

    >>> name_set("61"), name_set("moon")
    ('61 (iris)', 'moon')
    """
    name = manifest()["name"].get(dataset)
    return dataset if pd.isna(name) else f"{dataset} ({name})"


def study_sets() -> list[str]:
    """Return the ids of the sets over which the paper's statistics are taken, as far as they are at hand.

    >>> len(study_sets())
    131
    """
    return [str(number) for number in manifest().index[manifest()["study"]]]
