"""Measure the detection of leaks: alarms in unchanged OpenML datasets, and planted leaks that are detected.

    python benchmarks/leaks.py
    python benchmarks/leaks.py --shown

Only small trees are fitted. An alarm in an unchanged dataset may be a leak or a false one: `--shown` prints each note,
to be judged by reading. The rules were improved after such a reading of these very datasets, so the shares flatter.
Needs the OpenML datasets of a manifest (environment variable GENLABEL_DATA_HOME).
"""

import argparse
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pandas as pd

from genlabel.data.datasets import load_openml
from genlabel.data.datasets.catalog import openml_manifest
from genlabel.data.tables import Table, drop_leaks
from genlabel.data.tables.table import drop_rare_classes
from genlabel_paper.benchmark.command import manifest_ids

PLANTED = "planted"
KINDS = {
    "numbers the rows": "row numbers",
    "alone gives the class": "alone gives the class",
    "names groups": "groups of rows",
    "copies": "equal rows stay",
    "equal, but no copies": "split like any other",
    "runs of a class": "neighboring rows",
}
"""Kinds of leaks -> words of their notes."""


def id_by_target(table: Table, rng: np.random.Generator) -> Table:
    """Add numbers of rows in the order of the target, the rows being in another."""
    rank = np.empty(len(table.y), dtype=int)
    rank[np.argsort(table.y.to_numpy(dtype=str), kind="stable")] = np.arange(1, len(table.y) + 1)
    return replace(table, X=table.X.assign(**{PLANTED: rank}))


def id_with_gaps(table: Table, rng: np.random.Generator) -> Table:
    """Add numbers of rows that rise with gaps."""
    return replace(table, X=table.X.assign(**{PLANTED: np.cumsum(rng.integers(1, 100, len(table.y)))}))


def codes(table: Table, rng: np.random.Generator) -> Table:
    """Add a text of which each class has four values of its own."""
    text = table.y.astype(str) + pd.Series(rng.integers(0, 4, len(table.y)), index=table.y.index).astype(str)
    return replace(table, X=table.X.assign(**{PLANTED: text}))


def copies(table: Table, rng: np.random.Generator) -> Table:
    """Add three rows in ten a second time, anywhere."""
    n = len(table.y)
    rows = rng.permutation(np.r_[np.arange(n), rng.choice(n, 3 * n // 10, replace=False)])
    return replace(table, X=table.X.iloc[rows].reset_index(drop=True), y=table.y.iloc[rows].reset_index(drop=True))


PLANTS: dict[str, Callable[[Table, np.random.Generator], Table]] = {
    "id in the order of the target": id_by_target,
    "id that rises with gaps": id_with_gaps,
    "codes of the class": codes,
    "three rows in ten twice": copies,
}


def is_harmless(plant: str, table: Table) -> bool:
    """Return whether a planted leak is dropped, or its copies are grouped."""
    return table.groups is not None if PLANTS[plant] is copies else PLANTED not in table.X


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shown", action="store_true", help="print the notes of each dataset")
    parser.add_argument("--max-rows", type=int, default=20_000)
    args = parser.parse_args()
    manifest = openml_manifest()
    if manifest is None:
        raise SystemExit("there is no manifest; name the folder of the cache with GENLABEL_DATA_HOME")
    ids = manifest_ids(manifest, max_features=100, min_rows=40, max_rows=args.max_rows)
    as_is: Counter[str] = Counter()
    planted: Counter[str] = Counter()
    for number in ids:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            table = replace(drop_rare_classes(load_openml(number)), notes=[])
        notes = drop_leaks(table).notes
        as_is.update(kind for kind, words in KINDS.items() if any(words in note for note in notes))
        rng = np.random.default_rng(number)
        detected = [plant for plant, change in PLANTS.items() if is_harmless(plant, drop_leaks(change(table, rng)))]
        planted.update(detected)
        if args.shown:
            missed = [f"planted and not detected: {plant}" for plant in PLANTS if plant not in detected]
            size = f"{number} {table.name} {table.X.shape}, {table.y.nunique()} classes"
            print("\n".join(f"{size}: {line}" for line in [*notes, *missed] or ["nothing"]))
    print(f"datasets: {len(ids)}")
    for kind in KINDS:
        print(f"as they are, {kind}: {as_is[kind]}")
    for plant in PLANTS:
        print(f"planted, {plant}: detected in {planted[plant]}")


if __name__ == "__main__":
    main()
