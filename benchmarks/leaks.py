"""Measure the detection of leaks: alarms in unchanged OpenML datasets, and planted leaks that are detected.

    python benchmarks/leaks.py
    python benchmarks/leaks.py --show
    python benchmarks/leaks.py --plant "known only afterwards"

Nothing but small trees and forests is fitted. A finding in an unchanged dataset may be a leak or a false alarm:
`--show` prints each line, to be judged by reading. The rules were improved after such a reading of these datasets, so
the rates are optimistic. Needs the OpenML datasets of a manifest (environment variable GENLABEL_DATA_HOME).
"""

import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pandas as pd
from common import dataset_ids, make_parser

from genlabel.data.datasets import load_openml
from genlabel.data.tables import Table, drop_leaks
from genlabel.data.tables.leaks import ROW_ID
from genlabel.data.tables.table import drop_rare_classes

PLANTED = "planted"
FINDINGS = {
    "numbers the rows": ROW_ID,
    "alone gives the class": "of the rows (--force-include",
    "names groups": "groups of rows",
    "copies": "equal rows stay",
    "equal, but no copies": "split like other rows",
    "asked about": "known before the outcome?",
    "runs of a class": "neighboring rows",
}
"""Kinds of findings, and the words of the note that tells of them."""


def id_by_target(table: Table, rng: np.random.Generator) -> Table:
    """Add numbers of rows in the order of the target; the rows are in another order."""
    number = np.empty(len(table.y), dtype=int)
    number[np.argsort(table.y.to_numpy(dtype=str), kind="stable")] = np.arange(1, len(table.y) + 1)
    return replace(table, X=table.X.assign(**{PLANTED: number}))


def id_with_gaps(table: Table, rng: np.random.Generator) -> Table:
    """Add numbers of rows that rise with gaps."""
    return replace(table, X=table.X.assign(**{PLANTED: np.cumsum(rng.integers(1, 100, len(table.y)))}))


def class_codes(table: Table, rng: np.random.Generator) -> Table:
    """Add a text of which each class has four values of its own."""
    text = table.y.astype(str) + pd.Series(rng.integers(0, 4, len(table.y)), index=table.y.index).astype(str)
    return replace(table, X=table.X.assign(**{PLANTED: text}))


def known_afterwards(table: Table, rng: np.random.Generator) -> Table:
    """Add a text that 95 % of the rows of the largest class have, and 3 % of the others, as boats of survivors."""
    largest = (table.y == table.y.value_counts().index[0]).to_numpy()
    has_value = rng.random(len(table.y)) < np.where(largest, 0.95, 0.03)
    text = pd.Series(np.where(has_value, rng.choice(list("abcdefgh"), len(table.y)), None), index=table.y.index)
    return replace(table, X=table.X.assign(**{PLANTED: text}))


def duplicate_rows(table: Table, rng: np.random.Generator) -> Table:
    """Add three rows in ten a second time, at random places."""
    n = len(table.y)
    rows = rng.permutation(np.r_[np.arange(n), rng.choice(n, 3 * n // 10, replace=False)])
    return replace(table, X=table.X.iloc[rows].reset_index(drop=True), y=table.y.iloc[rows].reset_index(drop=True))


LEAKS: dict[str, Callable[[Table, np.random.Generator], Table]] = {
    "id in the order of the target": id_by_target,
    "id that rises with gaps": id_with_gaps,
    "codes of the class": class_codes,
    "three rows in ten twice": duplicate_rows,
    "known only afterwards": known_afterwards,
}


def is_detected(leak: str, table: Table) -> bool:
    """Return whether a planted leak does no harm any more, or is asked about."""
    if LEAKS[leak] is known_afterwards:
        return PLANTED not in table.X or any(PLANTED in note for note in table.notes)
    return table.groups is not None if LEAKS[leak] is duplicate_rows else PLANTED not in table.X


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--show", action="store_true", help="print the findings in each dataset")
    parser.add_argument("--plant", nargs="*", default=list(LEAKS), choices=list(LEAKS), help="leaks to plant")
    parser.add_argument("--max-rows", type=int, default=20_000)
    args = parser.parse_args()
    ids = dataset_ids(None, max_features=100, min_rows=40, max_rows=args.max_rows)
    unchanged: Counter[str] = Counter()
    planted: Counter[str] = Counter()
    for number in ids:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            table = replace(drop_rare_classes(load_openml(number)), notes=[])
        notes = drop_leaks(table).notes
        unchanged.update(kind for kind, words in FINDINGS.items() if any(words in note for note in notes))
        rng = np.random.default_rng(number)
        detected = [leak for leak in args.plant if is_detected(leak, drop_leaks(LEAKS[leak](table, rng)))]
        planted.update(detected)
        if args.show:
            missed = [f"planted and not detected: {leak}" for leak in args.plant if leak not in detected]
            size = f"{number} {table.name} {table.X.shape}, {table.y.nunique()} classes"
            print("\n".join(f"{size}: {line}" for line in [*notes, *missed] or ["nothing"]))
    print(f"datasets: {len(ids)}")
    for kind in FINDINGS:
        print(f"unchanged, {kind}: {unchanged[kind]}")
    for leak in args.plant:
        print(f"planted, {leak}: detected in {planted[leak]}")


if __name__ == "__main__":
    main()
