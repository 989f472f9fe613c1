"""Does `support` know what it has never seen? False alarms and odd rows found on OpenML datasets, beside two baselines.

    python benchmarks/support.py --json build/support.json
    python benchmarks/support.py --report results/support.json

Rows that are odd: of another set, scaled to the ranges of this one; test rows with every column shuffled by itself;
with one wild value, a whole range beyond the largest or the smallest; with a level that its column never had. Every
method is calibrated alike, by the held-out rows of the same folds; the baselines also with our rule for closed columns
before them. The stacked density as judge takes long, and is measured only if it is named.
Needs the OpenML datasets of a manifest (environment variable GENLABEL_DATA_HOME).
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
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.ensemble import IsolationForest
from sklearn.metrics import roc_auc_score
from sklearn.neighbors import LocalOutlierFactor
from threadpoolctl import threadpool_limits

from genlabel import GaussianDensity, StackedDensity, Typicality
from genlabel._arrays import Standardization
from genlabel.data.datasets import load_openml
from genlabel.data.datasets.catalog import openml_manifest
from genlabel.data.folds import round_robin_folds
from genlabel.data.tables import make_splits, table_pipeline
from genlabel.data.tables.table import drop_rare_classes
from genlabel.estimators.typicality import TypicalityModel
from genlabel_paper.benchmark.command import manifest_ids

Points = NDArray[np.float64]
LEVELS = 10
"""A column of at most so many values has levels."""
RATES = (0.01, 0.05, 0.1, 0.2)
SLOW = "support, stacked density"
NEW = -1e6
"""What a value that a closed column never had adds to a peer's score."""


class Baseline:
    """A detector of scikit-learn, calibrated as `Typicality` is: by the held-out rows of five folds."""

    def __init__(self, detector: Any, closed: bool = False) -> None:
        self.detector, self.closed = detector, closed

    def fit(self, X: Points, y: NDArray[np.intp]) -> "Baseline":
        """Fit the detector without each fold, and score the rows of the fold."""
        number = round_robin_folds(y, 5, 0)
        self.held = []
        for f in range(5):
            train = X[number != f]
            scaler = Standardization.fit(train, keep_constant=True)
            weight = torch.ones(len(train), dtype=torch.float64)
            rule = TypicalityModel.fit([], torch.from_numpy(train), y[number != f], weight) if self.closed else None
            scores = _scorer(clone(self.detector).fit(scaler(train)), scaler, rule)
            self.held.append((scores, np.sort(scores(X[number == f]))))
        return self

    def __call__(self, X: Points) -> Points:
        """One more than the number of held-out rows that are at most as typical, as `Typicality` counts it."""
        below = sum(np.searchsorted(known, scores(X), side="right") for scores, known in self.held)
        return np.asarray((1.0 + below) / (1.0 + sum(len(known) for _, known in self.held)))


def _scorer(fitted: Any, scaler: Standardization, rule: TypicalityModel | None) -> Callable[[Points], Points]:
    """How typical points are to a detector, less much for each value that a closed column never had."""

    def scores(X: Points) -> Points:
        new = 0.0 if rule is None else rule.count_new_values(torch.from_numpy(X)).numpy()
        return np.asarray(fitted.score_samples(scaler(X)) + NEW * new)

    return scores


METHODS: dict[str, Callable[[], Any]] = {
    "support": Typicality,
    "support, Gaussian": lambda: Typicality(GaussianDensity("ledoit-wolf")),
    SLOW: lambda: Typicality(StackedDensity()),
    "isolation forest": lambda: Baseline(IsolationForest(random_state=0)),
    "isolation forest, closed columns": lambda: Baseline(IsolationForest(random_state=0), closed=True),
    "LOF": lambda: Baseline(LocalOutlierFactor(novelty=True)),
    "LOF, closed columns": lambda: Baseline(LocalOutlierFactor(novelty=True), closed=True),
}


def other_set(test: Points, train: Points, stranger: Points, rng: np.random.Generator) -> Points:
    """Rows of another set with as many of its columns, each scaled to the range of a column here."""
    columns, rows = rng.integers(0, stranger.shape[1], train.shape[1]), rng.integers(0, len(stranger), len(test))
    result = stranger[:, columns]
    low, high = result.min(0), result.max(0)
    share = (result[rows] - low) / np.where(high > low, high - low, 1.0)
    return np.asarray(train.min(0) + share * (train.max(0) - train.min(0)))


def shuffled(test: Points, rng: np.random.Generator) -> Points:
    return np.stack([rng.permutation(column) for column in test.T], 1)


def one_wild_value(test: Points, train: Points, rng: np.random.Generator) -> Points:
    """In one column of each row, a whole range beyond what the training rows have; 1 where that column is constant."""
    result, column = test.copy(), rng.integers(0, train.shape[1], len(test))
    low, high = train.min(0)[column], train.max(0)[column]
    reach = np.where(high > low, high - low, 1.0)
    result[np.arange(len(test)), column] = np.where(rng.random(len(test)) < 0.5, low - reach, high + reach)
    return result


def new_level(test: Points, train: Points, rng: np.random.Generator) -> Points | None:
    """In one column of levels of each row, one below, above, or between the two lowest; None without such columns."""
    values = [np.unique(column) for column in train.T]
    columns = [j for j, known in enumerate(values) if 1 < len(known) <= LEVELS]
    if not columns:
        return None
    result = test.copy()
    for row in result:
        j = rng.choice(columns)
        known = values[j]
        row[j] = rng.choice([known[0] - 1.0, known[-1] + 1.0, (known[0] + known[1]) / 2.0])
    return result


def measure(
    method: Any, train: Points, y: NDArray[np.intp], test: Points, odd: dict[str, Points | None]
) -> dict[str, Any]:
    """False alarms on test rows, odd rows found at 0.05, their AUROC against test rows, and seconds."""
    start = perf_counter()
    fitted = method.fit(train, y)
    fit_seconds, start = perf_counter() - start, perf_counter()
    typical = fitted(test)
    record: dict[str, Any] = {"fit seconds": fit_seconds, "seconds a row": (perf_counter() - start) / len(test)}
    record |= {f"false alarms at {rate:g}": float((typical <= rate).mean()) for rate in RATES}
    for kind, rows in odd.items():
        if rows is not None:
            result = fitted(rows)
            truth = np.repeat([0, 1], [len(typical), len(result)])
            record[f"{kind}: found"] = float((result <= 0.05).mean())
            record[f"{kind}: AUROC"] = float(roc_auc_score(truth, -np.concatenate([typical, result])))
    return {name: float(f"{value:.4g}") for name, value in record.items()}


def load(number: int, home: Path | None, seed: int) -> tuple[str, Points, NDArray[np.intp], Points]:
    """The name of a dataset, its training rows as numbers with their classes, and its test rows."""
    table = drop_rare_classes(load_openml(number, data_home=home))
    train, test = make_splits(table, 1, 0.3, seed)[0]
    columns = table_pipeline(table.X, "passthrough").fit(table.X.iloc[train])
    y = pd.factorize(table.y)[0][train]
    blocks = (np.asarray(columns.transform(table.X.iloc[rows]), dtype=np.float64) for rows in (train, test))
    return table.name, next(blocks), y, next(blocks)


def report(records: list[dict[str, Any]]) -> pd.DataFrame:
    """Means over the datasets, a line for each method; seconds are medians."""
    frame = pd.DataFrame([{"method": name, **one} for record in records for name, one in record["methods"].items()])
    grouped = frame.groupby("method", sort=False)
    table = grouped.mean()
    for name in ("fit seconds", "seconds a row"):
        table[name] = grouped[name].median()
    return table.round({name: 6 if name == "seconds a row" else 3 for name in table.columns})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-home", type=Path, help="the folder of the manifest; default: GENLABEL_DATA_HOME")
    parser.add_argument("--max-rows", type=int, default=2000)
    parser.add_argument("--max-features", type=int, default=20)
    parser.add_argument("--first", type=int, help="so many datasets only")
    parser.add_argument("--methods", nargs="+", choices=list(METHODS), default=[m for m in METHODS if m != SLOW])
    parser.add_argument("--seed", type=int, default=0, help="of the splits and of the odd rows")
    parser.add_argument(
        "--json", type=Path, help="write the records there, beside those of other methods that it holds"
    )
    parser.add_argument("--report", type=Path, help="measure nothing, report these records")
    args = parser.parse_args()
    torch.set_num_threads(1)
    records = json.loads(args.report.read_text())["sets"] if args.report else run(parser, args)
    print(f"\n{len(records)} datasets\n{report(records).T.to_string()}")


def run(parser: argparse.ArgumentParser, args: argparse.Namespace) -> list[dict[str, Any]]:
    manifest = openml_manifest(args.data_home)
    if manifest is None:
        parser.error("there is no manifest.csv; name its folder with --data-home or GENLABEL_DATA_HOME")
    numbers = manifest_ids(manifest, args.max_features, min_rows=100, max_rows=args.max_rows)[: args.first]
    known = json.loads(args.json.read_text()) if args.json and args.json.exists() else {"seed": args.seed, "sets": []}
    if known["seed"] != args.seed:
        parser.error(f"{args.json} holds records of seed {known['seed']}; name another file")
    before = {record["id"]: record["methods"] for record in known["sets"]}
    records: list[dict[str, Any]] = []
    chosen = {title: METHODS[title] for title in args.methods}
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for index, number in enumerate(numbers):
            name, train, y, test = load(number, args.data_home, args.seed)
            stranger = load(numbers[(index + 1) % len(numbers)], args.data_home, args.seed)[1]
            rng = np.random.default_rng([args.seed, number])
            odd = {
                "another set": other_set(test, train, stranger, rng),
                "shuffled columns": shuffled(test, rng),
                "one wild value": one_wild_value(test, train, rng),
                "new level": new_level(test, train, rng),
            }
            result = {title: measure(make(), train, y, test, odd) for title, make in chosen.items()}
            every = before.pop(number, {}) | result
            every = {title: every[title] for title in METHODS if title in every}
            records.append({"id": number, "name": name, "n": len(train), "d": train.shape[1], "methods": every})
            print(index + 1, name, train.shape, next(iter(result.values())), flush=True)
    if args.json:
        saved = records + [record for record in known["sets"] if record["id"] in before]
        lines = ",\n".join(json.dumps(record) for record in saved)
        args.json.write_text(f'{{"seed": {args.seed}, "sets": [\n{lines}\n]}}\n')
    return records


if __name__ == "__main__":
    main()
