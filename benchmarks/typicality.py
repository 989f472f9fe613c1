"""Measure the alarms on OpenML datasets: false alarms, and the unusual rows that are flagged and named.

    python benchmarks/typicality.py --first 20 --json build/typicality.json
    python benchmarks/typicality.py --report results/typicality.json
    python benchmarks/typicality.py --first 20 --free-text

Unusual rows are test rows of a dataset

- with one number a half, 2, 10, 100 or 1,000,000 ranges beyond the range of its column in training;
- with one category that training never had;
- with every column shuffled by itself, or with the values of each column under the name of the next one of its kind;
- replaced by rows of the next dataset, as they are, or scaled to the ranges and mapped to the categories of this one.

A row is flagged by `typicality` at the threshold of the library, by `unusual_values`, or by one of the two, which is
the alarm of `genlabel predict`. The local outlier factor of scikit-learn, calibrated as typicality is, by the held-out
rows of the same folds, takes the place of typicality. "named" is the share of the changed values that `unusual_values`
names. With `--free-text` a column of as many names as rows, drawn at random, is added to each dataset. Needs the OpenML
datasets of a manifest (environment variable GENLABEL_DATA_HOME).
"""

import argparse
import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from common import add_data_home, dataset_ids, make_parser, read_records, write_records
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.neighbors import LocalOutlierFactor
from threadpoolctl import threadpool_limits

from genlabel import GaussianDensity, GenerativeClassifier, Typicality
from genlabel._arrays import Standardization
from genlabel.data.datasets import load_openml
from genlabel.data.folds import round_robin_folds
from genlabel.data.tables import make_splits
from genlabel.data.tables.columns import kind_of, to_float
from genlabel.data.tables.table import drop_rare_classes
from genlabel.estimators.typicality import TYPICALITY_THRESHOLD

Points = NDArray[np.float64]
Unusual = tuple[pd.DataFrame, list[Any]]
"""Rows, and the column that was changed in each of them; none if all were."""
RANGES = (0.5, 2.0, 10.0, 100.0, 1e6)
"""Distances of extreme values from the range of their column, in units of this range."""
MAX_TEST_ROWS = 200


class Peer:
    """A detector of scikit-learn, calibrated as `Typicality` is: by the held-out rows of five folds."""

    def __init__(self, detector: Any) -> None:
        self.detector = detector

    def fit(self, X: Points, y: NDArray[np.intp]) -> "Peer":
        """Fit the detector without each fold, and score the rows of the fold."""
        number = round_robin_folds(y, 5, 0)
        self.folds = []
        for f in range(5):
            scaler = Standardization.fit(X[number != f], keep_constant=True)
            detector = clone(self.detector).fit(scaler(X[number != f]))
            self.folds.append((scaler, detector, np.sort(detector.score_samples(scaler(X[number == f])))))
        return self

    def __call__(self, X: Points) -> Points:
        """Return the share of held-out rows that are at most as typical, as `Typicality` counts them."""
        below = sum(
            np.searchsorted(known, detector.score_samples(scaler(X)), side="right")
            for scaler, detector, known in self.folds
        )
        return np.asarray((1.0 + below) / (1.0 + sum(len(known) for *_, known in self.folds)))


DETECTORS: dict[str, Callable[[], Any]] = {
    "typicality": Typicality,
    "typicality, one Gaussian per class": lambda: Typicality(GaussianDensity("ledoit-wolf")),
    "LOF": lambda: Peer(LocalOutlierFactor(novelty=True)),
}


def as_plain(X: pd.DataFrame) -> pd.DataFrame:
    """Return a table with columns of floats and of strings."""
    return pd.DataFrame(
        {
            name: to_float(X[name]) if kind_of(X[name]) == "numbers" else X[name].astype(object).where(X[name].notna())
            for name in X
        }
    )


def columns_of_kind(X: pd.DataFrame, numbers: bool) -> list[Any]:
    return [name for name in X if (X[name].dtype == np.float64) == numbers]


def move_values(test: pd.DataFrame, train: pd.DataFrame, ranges: float, rng: np.random.Generator) -> Unusual | None:
    """Move one number of each row beyond the range of its column in training."""
    low, high = train.min(numeric_only=True), train.max(numeric_only=True)
    names = [name for name in columns_of_kind(train, numbers=True) if high[name] > low[name]]
    if not names:
        return None
    result, changed = test.copy(), rng.choice(np.array(names, dtype=object), len(test)).tolist()
    for row, name in enumerate(changed):
        distance = ranges * (high[name] - low[name])
        value = low[name] - distance if rng.random() < 0.5 else high[name] + distance
        result.iloc[row, result.columns.get_loc(name)] = value
    return result, changed


def add_new_categories(test: pd.DataFrame, train: pd.DataFrame, rng: np.random.Generator) -> Unusual | None:
    """Give each row a category that its column never had."""
    names = columns_of_kind(train, numbers=False)
    if not names:
        return None
    result, changed = test.copy(), rng.choice(np.array(names, dtype=object), len(test)).tolist()
    for row, name in enumerate(changed):
        result.iloc[row, result.columns.get_loc(name)] = "never seen"
    return result, changed


def shuffle_columns(test: pd.DataFrame, rng: np.random.Generator) -> Unusual:
    return test.apply(lambda column: pd.Series(rng.permutation(column.to_numpy()), column.index)), []


def permute_columns(test: pd.DataFrame) -> Unusual | None:
    """Put the values of each column under the name of the next one of its kind."""
    result = test.copy()
    for numbers in (True, False):
        names = columns_of_kind(test, numbers)
        result[names] = test[[*names[1:], *names[:1]]].to_numpy()
    return None if result.equals(test) else (result, [])


def rows_of_other_table(
    test: pd.DataFrame, train: pd.DataFrame, other: pd.DataFrame, fit: bool, rng: np.random.Generator
) -> Unusual:
    """Return rows of another table under the names of this one; with `fit`, within its ranges and its categories."""
    rows, result = rng.integers(0, len(other), len(test)), {}
    for name in test:
        numbers = name in columns_of_kind(train, numbers=True)
        column = other[rng.choice(np.array(columns_of_kind(other, numbers) or list(other), dtype=object))]
        codes = column if column.dtype == np.float64 else pd.Series(pd.factorize(column, sort=True)[0]).astype(float)
        known = np.sort(train[name].dropna().unique())
        if fit:
            share = ((codes - codes.min()) / (codes.max() - codes.min() or 1.0)).fillna(0.0).to_numpy()[rows]
            category = np.rint(share * (len(known) - 1)).astype(int)
            result[name] = known[0] + share * (known[-1] - known[0]) if numbers else known[category]
        else:
            result[name] = codes.to_numpy()[rows] if numbers else column.astype(str).to_numpy()[rows]
    return pd.DataFrame(result, test.index), []


def make_unusual(
    test: pd.DataFrame, train: pd.DataFrame, other: pd.DataFrame, rng: np.random.Generator
) -> dict[str, Unusual | None]:
    """Return unusual rows by kind; None where the table has no column for them."""
    rows: dict[str, Unusual | None] = {f"{r:g} ranges beyond": move_values(test, train, r, rng) for r in RANGES}
    return rows | {
        "new category": add_new_categories(test, train, rng),
        "shuffled columns": shuffle_columns(test, rng),
        "permuted columns": permute_columns(test),
        "rows of another table": rows_of_other_table(test, train, other, False, rng),
        "the same, scaled": rows_of_other_table(test, train, other, True, rng),
    }


def measure(train: pd.DataFrame, y: NDArray[np.intp], kinds: dict[str, Unusual | None]) -> dict[str, Any]:
    """Return for each kind of rows the share that each method flags, and that of the changed values that are named."""
    model = GenerativeClassifier("gaussian").fit(train, y)
    points = model.encode(train)
    detectors = {name: make().fit(points, y) for name, make in DETECTORS.items()}
    record: dict[str, Any] = {}
    for kind, unusual in kinds.items():
        if unusual is None:
            continue
        rows, changed = unusual
        values, encoded = model.unusual_values(rows), model.encode(rows)
        has_value = np.isin(np.arange(len(rows)), values["row"])
        flags = {"unusual values": has_value}
        for name, detector in detectors.items():
            atypical = detector(encoded) <= TYPICALITY_THRESHOLD
            flags |= {name: atypical, f"{name} or unusual values": atypical | has_value}
        record[kind] = {name: float(f"{flagged.mean():.4g}") for name, flagged in flags.items()}
        if changed:
            named = set(zip(values["row"], values["column"], strict=True))
            record[kind]["named"] = float(f"{np.mean([cell in named for cell in enumerate(changed)]):.4g}")
    return record


def load(number: int, home: Path | None, seed: int) -> tuple[str, pd.DataFrame, NDArray[np.intp], pd.DataFrame]:
    """Return the name of a dataset, its training rows, their classes, and its test rows."""
    table = drop_rare_classes(load_openml(number, data_home=home))
    train, test = make_splits(table, 1, 0.3, seed)[0]
    X = as_plain(table.X)
    return table.name, X.iloc[train], pd.factorize(table.y)[0][train], X.iloc[test[:MAX_TEST_ROWS]]


def add_free_text(train: pd.DataFrame, test: pd.DataFrame, rng: np.random.Generator) -> list[pd.DataFrame]:
    """Add a column of names to the rows: about one in three of the test rows has a name that training does not have."""
    return [
        X.assign(**{"free text": [f"name {i}" for i in rng.integers(0, len(train), len(X))]}) for X in (train, test)
    ]


def report(records: list[dict[str, Any]]) -> pd.DataFrame:
    """Return means over the datasets, a line for each kind of rows."""
    kinds = dict.fromkeys(kind for record in records for kind in record["kinds"])
    lines = {}
    for kind in kinds:
        shares = pd.DataFrame([record["kinds"][kind] for record in records if kind in record["kinds"]])
        lines[kind] = shares.mean().round(4 if kind == "test rows" else 3).to_dict() | {"datasets": len(shares)}
    return pd.DataFrame(lines)


def main() -> None:
    parser = make_parser(__doc__)
    add_data_home(parser)
    parser.add_argument("--max-rows", type=int, default=2000)
    parser.add_argument("--max-features", type=int, default=20)
    parser.add_argument("--first", type=int, help="number of datasets, from the first on")
    parser.add_argument("--free-text", action="store_true", help="add a column of names to each dataset")
    parser.add_argument("--seed", type=int, default=0, help="seed of the splits and of the unusual rows")
    parser.add_argument("--json", type=Path, help="write the records there; datasets that it holds are not repeated")
    parser.add_argument("--report", type=Path, help="measure nothing, report these records")
    args = parser.parse_args()
    torch.set_num_threads(1)
    records = json.loads(args.report.read_text())["sets"] if args.report else run(args)
    mixed = [record for record in records if "new category" in record["kinds"]]
    print(f"\n{len(records)} datasets\n{report(records).to_string()}")
    print(f"\n{len(mixed)} datasets with columns of text\n{report(mixed).to_string()}")


def run(args: argparse.Namespace) -> list[dict[str, Any]]:
    limits = {"max_features": args.max_features, "min_rows": 100, "max_rows": args.max_rows}
    numbers = dataset_ids(args.data_home, **limits)
    settings = {"seed": args.seed, "threshold": TYPICALITY_THRESHOLD} | ({"free_text": True} if args.free_text else {})
    records = {record["id"]: record for record in read_records(args.json, settings)}
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for index, number in enumerate(numbers[: args.first]):
            if number not in records:
                name, train, y, test = load(number, args.data_home, args.seed)
                other = load(numbers[(index + 1) % len(numbers)], args.data_home, args.seed)[1]
                rng = np.random.default_rng([args.seed, number])
                if args.free_text:
                    train, test = add_free_text(train, test, rng)
                kinds = {"test rows": (test, []), **make_unusual(test, train, other, rng)}
                shares = measure(train, y, kinds)
                records[number] = {"id": number, "name": name, "n": len(train), "d": train.shape[1], "kinds": shares}
                print(index + 1, name, train.shape, shares["test rows"], flush=True)
            write_records(args.json, settings, records.values())
    return list(records.values())


if __name__ == "__main__":
    main()
