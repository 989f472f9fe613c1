"""Measure `Typicality` on OpenML datasets: false alarms and detected unusual rows, compared with two baselines.

    python benchmarks/typicality.py --json build/support.json
    python benchmarks/typicality.py --report results/support.json

Unusual rows are: rows of another dataset, scaled to the ranges of this one; test rows with every column shuffled by
itself; rows with one extreme value, a whole range beyond the largest or the smallest; rows with a value that a column
of few values never had. Every method is calibrated alike, by the held-out rows of the same folds; the baselines also
with our rule for discrete columns before them. The stacked density as detector takes long, and is measured only if it
is named. Needs the OpenML datasets of a manifest (environment variable GENLABEL_DATA_HOME).
"""

import argparse
import json
import warnings
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pandas as pd
import torch
from common import add_data_home, dataset_ids, make_parser, read_records, write_records
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.ensemble import IsolationForest
from sklearn.metrics import roc_auc_score
from sklearn.neighbors import LocalOutlierFactor
from threadpoolctl import threadpool_limits

from genlabel import GaussianDensity, StackedDensity, Typicality
from genlabel._arrays import Standardization
from genlabel.data.datasets import load_openml
from genlabel.data.folds import round_robin_folds
from genlabel.data.tables import make_splits, table_pipeline
from genlabel.data.tables.table import drop_rare_classes
from genlabel.estimators.typicality import TypicalityModel

Points = NDArray[np.float64]
MAX_LEVELS = 10
"""Values of a column up to which it counts as discrete."""
RATES = (0.01, 0.05, 0.1, 0.2)
SLOW = "support, stacked density"  # names of methods are keys in results/support.json
NEW_VALUE_SCORE = -1e6
"""Addition to a baseline's score for each value that a discrete column never had."""


class Baseline:
    """A detector of scikit-learn, calibrated as `Typicality` is: by the held-out rows of five folds."""

    def __init__(self, detector: Any, discrete: bool = False) -> None:
        self.detector, self.discrete = detector, discrete

    def fit(self, X: Points, y: NDArray[np.intp]) -> "Baseline":
        """Fit the detector without each fold, and score the rows of the fold."""
        number = round_robin_folds(y, 5, 0)
        self.folds = []
        for f in range(5):
            train = X[number != f]
            scaler = Standardization.fit(train, keep_constant=True)
            weight = torch.ones(len(train), dtype=torch.float64)
            rule = TypicalityModel.fit([], torch.from_numpy(train), y[number != f], weight) if self.discrete else None
            scores = _scorer(clone(self.detector).fit(scaler(train)), scaler, rule)
            self.folds.append((scores, np.sort(scores(X[number == f]))))
        return self

    def __call__(self, X: Points) -> Points:
        """Return the share of held-out rows that are at most as typical, as `Typicality` counts them."""
        below = sum(np.searchsorted(known, scores(X), side="right") for scores, known in self.folds)
        return np.asarray((1.0 + below) / (1.0 + sum(len(known) for _, known in self.folds)))


def _scorer(fitted: Any, scaler: Standardization, rule: TypicalityModel | None) -> Callable[[Points], Points]:
    """Return the scores of a detector as a function, much lower for each value that a discrete column never had."""

    def scores(X: Points) -> Points:
        new = 0.0 if rule is None else rule.count_new_values(torch.from_numpy(X)).numpy()
        return np.asarray(fitted.score_samples(scaler(X)) + NEW_VALUE_SCORE * new)

    return scores


METHODS: dict[str, Callable[[], Any]] = {
    "support": Typicality,
    "support, Gaussian": lambda: Typicality(GaussianDensity("ledoit-wolf")),
    SLOW: lambda: Typicality(StackedDensity()),
    "isolation forest": lambda: Baseline(IsolationForest(random_state=0)),
    "isolation forest, closed columns": lambda: Baseline(IsolationForest(random_state=0), discrete=True),
    "LOF": lambda: Baseline(LocalOutlierFactor(novelty=True)),
    "LOF, closed columns": lambda: Baseline(LocalOutlierFactor(novelty=True), discrete=True),
}


def rows_of_other_dataset(test: Points, train: Points, other: Points, rng: np.random.Generator) -> Points:
    """Return rows of another dataset with as many of its columns, each scaled to the range of a column here."""
    columns, rows = rng.integers(0, other.shape[1], train.shape[1]), rng.integers(0, len(other), len(test))
    result = other[:, columns]
    low, high = result.min(0), result.max(0)
    share = (result[rows] - low) / np.where(high > low, high - low, 1.0)
    return np.asarray(train.min(0) + share * (train.max(0) - train.min(0)))


def shuffle_columns(test: Points, rng: np.random.Generator) -> Points:
    return np.stack([rng.permutation(column) for column in test.T], 1)


def add_extreme_values(test: Points, train: Points, rng: np.random.Generator) -> Points:
    """Move one value of each row a whole range beyond the training rows; by 1 where the column is constant."""
    result, column = test.copy(), rng.integers(0, train.shape[1], len(test))
    low, high = train.min(0)[column], train.max(0)[column]
    width = np.where(high > low, high - low, 1.0)
    result[np.arange(len(test)), column] = np.where(rng.random(len(test)) < 0.5, low - width, high + width)
    return result


def add_new_levels(test: Points, train: Points, rng: np.random.Generator) -> Points | None:
    """Give a discrete column of each row a value below, above, or between the two lowest; None without such columns."""
    values = [np.unique(column) for column in train.T]
    columns = [j for j, known in enumerate(values) if 1 < len(known) <= MAX_LEVELS]
    if not columns:
        return None
    result = test.copy()
    for row in result:
        j = rng.choice(columns)
        known = values[j]
        row[j] = rng.choice([known[0] - 1.0, known[-1] + 1.0, (known[0] + known[1]) / 2.0])
    return result


def measure(
    method: Any, train: Points, y: NDArray[np.intp], test: Points, unusual: dict[str, Points | None]
) -> dict[str, Any]:
    """Return false alarms on test rows, unusual rows found at 0.05, their AUROC against test rows, and seconds."""
    start = perf_counter()
    fitted = method.fit(train, y)
    fit_seconds, start = perf_counter() - start, perf_counter()
    typical = fitted(test)
    record: dict[str, Any] = {"fit seconds": fit_seconds, "seconds a row": (perf_counter() - start) / len(test)}
    record |= {f"false alarms at {rate:g}": float((typical <= rate).mean()) for rate in RATES}
    for kind, rows in unusual.items():
        if rows is not None:
            values = fitted(rows)
            truth = np.repeat([0, 1], [len(typical), len(values)])
            record[f"{kind}: found"] = float((values <= 0.05).mean())
            record[f"{kind}: AUROC"] = float(roc_auc_score(truth, -np.concatenate([typical, values])))
    return {name: float(f"{value:.4g}") for name, value in record.items()}


def load(number: int, home: Path | None, seed: int) -> tuple[str, Points, NDArray[np.intp], Points]:
    """Return the name of a dataset, its training rows as numbers, their classes, and its test rows."""
    table = drop_rare_classes(load_openml(number, data_home=home))
    train, test = make_splits(table, 1, 0.3, seed)[0]
    columns = table_pipeline(table.X, "passthrough").fit(table.X.iloc[train])
    y = pd.factorize(table.y)[0][train]
    parts = (np.asarray(columns.transform(table.X.iloc[rows]), dtype=np.float64) for rows in (train, test))
    return table.name, next(parts), y, next(parts)


def report(records: list[dict[str, Any]]) -> pd.DataFrame:
    """Return means over the datasets, a line for each method; seconds are medians."""
    frame = pd.DataFrame(
        [{"method": name, **values} for record in records for name, values in record["methods"].items()]
    )
    grouped = frame.groupby("method", sort=False)
    table = grouped.mean()
    for name in ("fit seconds", "seconds a row"):
        table[name] = grouped[name].median()
    return table.round({name: 6 if name == "seconds a row" else 3 for name in table.columns})


def main() -> None:
    parser = make_parser(__doc__)
    add_data_home(parser)
    parser.add_argument("--max-rows", type=int, default=2000)
    parser.add_argument("--max-features", type=int, default=20)
    parser.add_argument("--first", type=int, help="number of datasets, from the first on")
    parser.add_argument("--methods", nargs="+", choices=list(METHODS), default=[m for m in METHODS if m != SLOW])
    parser.add_argument("--seed", type=int, default=0, help="seed of the splits and of the unusual rows")
    parser.add_argument("--json", type=Path, help="write the records there, beside those of other methods")
    parser.add_argument("--report", type=Path, help="measure nothing, report these records")
    args = parser.parse_args()
    torch.set_num_threads(1)
    records = json.loads(args.report.read_text())["sets"] if args.report else run(args)
    print(f"\n{len(records)} datasets\n{report(records).T.to_string()}")


def run(args: argparse.Namespace) -> list[dict[str, Any]]:
    limits = {"max_features": args.max_features, "min_rows": 100, "max_rows": args.max_rows}
    numbers = dataset_ids(args.data_home, **limits)[: args.first]
    saved = {record["id"]: record for record in read_records(args.json, {"seed": args.seed})}
    records: list[dict[str, Any]] = []
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for index, number in enumerate(numbers):
            name, train, y, test = load(number, args.data_home, args.seed)
            other = load(numbers[(index + 1) % len(numbers)], args.data_home, args.seed)[1]
            rng = np.random.default_rng([args.seed, number])
            unusual = {
                "another set": rows_of_other_dataset(test, train, other, rng),
                "shuffled columns": shuffle_columns(test, rng),
                "one wild value": add_extreme_values(test, train, rng),
                "new level": add_new_levels(test, train, rng),
            }
            result = {title: measure(METHODS[title](), train, y, test, unusual) for title in args.methods}
            all_results = saved.pop(number, {"methods": {}})["methods"] | result
            ordered = {title: all_results[title] for title in METHODS if title in all_results}
            records.append({"id": number, "name": name, "n": len(train), "d": train.shape[1], "methods": ordered})
            print(index + 1, name, train.shape, next(iter(result.values())), flush=True)
    write_records(args.json, {"seed": args.seed}, [*records, *saved.values()])
    return records


if __name__ == "__main__":
    main()
