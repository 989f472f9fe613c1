"""Manifest of the OpenML datasets of the reproduction, and the rule that chooses the low-dimensional ones."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

import pandas as pd

ROUNDED = frozenset({"223"})
"""NOTE[PAPER]: a regression dataset in the paper's table 6; its target, a price, is rounded down to integers."""
MAX_FEATURES = 20
ROWS_LIMIT = 5000


@cache
def manifest() -> pd.DataFrame:
    """Return the datasets by id (string), with columns name, n, d, k, largest, text and copy_of.

    `largest` is the percentage of rows in the largest class, `text` whether a column has strings, and `copy_of` the id
    of a dataset with the same rows and, but for their names, the same classes. Of datasets that are in no cache of this
    project (1038, 1130, 1138, 1166) only the id is known; the classes of 223 are its rounded target.

    >>> manifest().loc["61", ["n", "d", "k"]].tolist()
    [150, 4, 3]
    """
    with files("genlabel_paper.runs").joinpath("manifest.csv").open() as text:
        frame = pd.read_csv(text, dtype={"id": str, "copy_of": str}, index_col="id")
    return frame.assign(text=frame["text"] == "yes").astype({"n": "Int64", "d": "Int64", "k": "Int64"})


def dataset_title(dataset: str) -> str:
    """Return the id of an OpenML dataset with its name; other datasets keep their name.

    >>> dataset_title("61"), dataset_title("moon")
    ('61 (iris)', 'moon')
    """
    name = manifest()["name"].get(dataset)
    return dataset if pd.isna(name) else f"{dataset} ({name})"


@cache
def reasons_to_leave_out() -> dict[str, str]:
    """Return why each dataset of the manifest that the paper's rule leaves out is left out.

    The rule is that of the text: "having no more than 20 features and less than 5000 data points" (arXiv Section 6), of
    classification. Nothing else leaves a dataset out: the paper removes no copies, so neither do we.

    >>> reasons_to_leave_out()["3"], "1413" in reasons_to_leave_out()
    ('36 features', False)
    """
    reasons = {}
    for name, line in manifest().iterrows():
        if pd.isna(line["n"]):
            reasons[str(name)] = "not in the cache: size unknown"
        elif name in ROUNDED:
            reasons[str(name)] = "a regression dataset"
        elif line["d"] > MAX_FEATURES:
            reasons[str(name)] = f"{line['d']} features"
        elif line["n"] >= ROWS_LIMIT:
            reasons[str(name)] = f"{line['n']:,} rows"
    return reasons


def low_dimensional_datasets(classes: int = 2) -> list[str]:
    """Return the datasets that the paper's rule leaves, those with at least so many classes, in the order of their ids.

    >>> len(low_dimensional_datasets()), len(low_dimensional_datasets(classes=3))
    (214, 38)
    """
    chosen = manifest()[~manifest().index.isin(list(reasons_to_leave_out()))]
    return [str(name) for name in chosen.index[chosen["k"] >= classes]]


def copies() -> dict[str, str]:
    """Return the low-dimensional datasets that are copies, by id, with what each is a copy of.

    >>> copies()["1413"]
    '61'
    """
    origins = manifest()["copy_of"].reindex(low_dimensional_datasets()).dropna()
    return {str(name): str(origin) for name, origin in origins.items()}
