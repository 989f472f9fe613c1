"""Measure coverage and width of probability intervals on OpenML datasets.

    python benchmarks/intervals.py --first 4 --sizes 100 --json build/intervals.json
    python benchmarks/intervals.py --report results/intervals.json --skip 6

The classifiers, with their defaults, are fitted to some rows of a dataset and tested on all others, which are many:
with few, noise would hide a wrong interval. The interval of every test row and class is put into one of ten bins by
its middle; a bin of a fit counts if it has 20 of them. "cross" is the Venn-Abers interval: the probabilities of the
network of each fold, calibrated on the held-out rows of that fold, averaged over the folds; each class against all
others. "library" is what `predict_proba_interval` returns: "cross", widened where it excludes the predicted
probability. They are compared with other methods on the same fits:

- "folds": "cross" with the predicted probability, that of all networks, in the place of each network's;
- "together": the predicted probability, calibrated on all held-out rows at once;
- "pairs": the same with the classes in pairs, the bounds combined as p_i = 1 / (1 + sum_j (1 - p_ij) / p_ij);
- "probability": the predicted probability as an interval of no width.

"if exact" is the share of bins that would hold the frequency if the middle of each interval were the truth; "excludes"
is the share of test rows whose interval of the predicted class excludes its predicted probability.
Needs the OpenML datasets of a manifest (environment variable GENLABEL_DATA_HOME).
"""

import argparse
import json
import warnings
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd
import torch
from common import add_data_home, dataset_ids, make_parser, read_records, write_records
from numpy.typing import NDArray
from scipy.stats import binom
from sklearn.model_selection import train_test_split
from threadpoolctl import threadpool_limits

from genlabel import GenLabelClassifier, MixupClassifier
from genlabel.data.datasets import load_openml
from genlabel.data.tables.table import drop_rare_classes
from genlabel.estimators.classifier import Calibration, Intervals, venn_abers

Numbers = NDArray[np.float64]
BINS = 10
"""Bins of the middle of an interval."""
MIN_BIN_COUNT = 20
"""Rows and classes that a bin of a fit needs to count."""
SIZES = (100, 300, 1000)
"""Training rows."""
MAX_TEST_ROWS = 3000
CLASSIFIERS: dict[str, Callable[[int], Any]] = {
    "GenLabel": lambda seed: GenLabelClassifier(random_state=seed).set_params(training__device="cpu"),
    "mixup": lambda seed: MixupClassifier(random_state=seed).set_params(training__device="cpu"),
}


def pairs(model: Any, X: Any) -> Intervals:
    """Return intervals by pairs of classes, from the rows of these two."""
    known, log_proba = model.venn_abers_, model.predict_log_proba(X).astype(np.float32)
    m, k = log_proba.shape
    odds = np.zeros((2, m, k, k))  # upper and lower odds against the class
    for i, j in combinations(range(k), 2):
        rows = (known.y == i) | (known.y == j)
        scores = known.log_proba[rows, i] - known.log_proba[rows, j]
        low, high = venn_abers(scores, known.y[rows] == i, log_proba[:, i] - log_proba[:, j])
        with np.errstate(divide="ignore"):
            odds[:, :, i, j] = (1 - low) / low, (1 - high) / high
            odds[:, :, j, i] = high / (1 - high), low / (1 - low)
    return Intervals(1 / (1 + odds[0].sum(2)), 1 / (1 + odds[1].sum(2)))


def together(model: Any, X: Any) -> Intervals:
    known = model.venn_abers_
    return Calibration.of(known.log_proba, known.y)(model.predict_log_proba(X))


def folds(model: Any, X: Any) -> Intervals:
    return cast(Intervals, model.venn_abers_._replace(crossed=False)(model.predict_log_proba(X)))


def cross(model: Any, X: Any) -> Intervals:
    points = model.scaler_(model.encode(X))
    return cast(Intervals, model.venn_abers_(model._log_proba_to_calibrate(points)))


def library(model: Any, X: Any) -> Intervals:
    return cast(Intervals, model.predict_proba_interval(X))


METHODS: dict[str, Callable[[Any, Any], Intervals]] = {
    "library": library,
    "cross": cross,
    "folds": folds,
    "together": together,
    "pairs": pairs,
}


def measure(result: Intervals, index: NDArray[Any], proba: Numbers) -> dict[str, Any]:
    """Return sums over rows and classes in each bin (number, lower, upper, hits), widths, and the excluded rows."""
    lower, upper = result
    hits = index[:, None] == np.arange(lower.shape[1])
    bin_index = np.minimum(((lower + upper) / 2 * BINS).astype(int), BINS - 1).ravel()
    sums = [
        np.bincount(bin_index, values.ravel(), minlength=BINS) for values in (np.ones_like(lower), lower, upper, hits)
    ]
    width, rows, predicted = upper - lower, np.arange(len(index)), proba.argmax(1)
    excludes = ((proba < lower) | (proba > upper))[rows, predicted]
    return {
        "bins": np.stack(sums, 1).round(4).tolist(),
        "width": float(f"{width.mean():.4g}"),
        "width of the predicted class": float(f"{width[rows, predicted].mean():.4g}"),
        "excludes": float(f"{excludes.mean():.4g}"),
    }


def measure_fit(name: str, table: Any, size: int, seed: int) -> dict[str, Any]:
    """Return the record of a classifier fitted to `size` rows: the bins and widths of each method."""
    labels = table.y.astype(str)
    train, test = train_test_split(np.arange(len(labels)), train_size=size, stratify=labels, random_state=seed)
    X, y, X_test = table.X.iloc[train], labels.iloc[train].to_numpy(), table.X.iloc[test[:MAX_TEST_ROWS]]
    model = CLASSIFIERS[name](seed).fit(X, y)
    proba = model.predict_proba(X_test)
    result = {method: intervals(model, X_test) for method, intervals in METHODS.items()}
    result["probability"] = Intervals(proba, proba)
    truth = pd.Index(model.classes_).get_indexer(labels.iloc[test[:MAX_TEST_ROWS]])  # a class that is new here: -1
    return {
        "rows": size,
        "method": name,
        **{method: measure(intervals, truth, proba) for method, intervals in result.items()},
    }


def measure_dataset(number: int, home: Path | None, seed: int, methods: list[str], sizes: list[int]) -> dict[str, Any]:
    """Return the records of a dataset."""
    table = drop_rare_classes(load_openml(number, data_home=home))
    fits = [measure_fit(name, table, size, seed) for size in sizes for name in methods]
    return {"id": number, "name": table.name, "n": len(table.y), "fits": fits}


def coverage(fits: list[dict[str, Any]]) -> pd.DataFrame:
    """Return how many bins of single fits hold the frequency, and would if the middle were the truth, by method."""
    rows = []
    for method in (*METHODS, "probability"):
        bins = np.concatenate([np.array(fit[method]["bins"]) for fit in fits])
        count, lower, upper, hits = bins[bins[:, 0] >= MIN_BIN_COUNT].T
        lower, upper, share = lower / count, upper / count, hits / count
        middle = (lower + upper) / 2
        miss = np.maximum(np.maximum(lower - share, share - upper), 0.0)
        noise = np.sqrt(middle * (1.0 - middle) / count)
        chance = binom.cdf(np.floor(count * upper), count, middle) - binom.cdf(
            np.ceil(count * lower) - 1, count, middle
        )
        rows.append(
            {
                "method": method,
                "bins": len(count),
                "hold it": (miss <= 1e-9).mean(),
                "if exact": chance.mean(),
                "within 2 s.e.": (miss <= 2.0 * noise).mean(),
                "mean miss": np.average(miss, weights=count),
                "mean noise": np.average(noise, weights=count),
                "width": np.mean([fit[method]["width"] for fit in fits]),
                "of the predicted": np.mean([fit[method]["width of the predicted class"] for fit in fits]),
                "excludes": np.mean([fit[method]["excludes"] for fit in fits]),
            }
        )
    return pd.DataFrame(rows).set_index("method")


def pool_bins(fits: list[dict[str, Any]], method: str) -> pd.DataFrame:
    """Return mean lower and upper probability and the frequency in each bin of all fits together."""
    bins = np.sum([fit[method]["bins"] for fit in fits], axis=0)
    count = np.maximum(bins[:, 0], 1.0)
    edges = [f"{b / BINS:.1f} to {(b + 1) / BINS:.1f}" for b in range(BINS)]
    result = pd.DataFrame(bins[:, [1, 3, 2]] / count[:, None], index=edges, columns=["lower", "frequency", "upper"])
    return result.assign(number=bins[:, 0].astype(int))


def report(records: list[dict[str, Any]]) -> None:
    """Print the methods for each classifier and number of rows, and the bins of the library's method."""
    all_fits = [fit for record in records for fit in record["fits"]]
    print(f"\n{len(records)} datasets")
    for name in dict.fromkeys(fit["method"] for fit in all_fits):
        for rows in sorted({fit["rows"] for fit in all_fits}):
            fits = [fit for fit in all_fits if (fit["method"], fit["rows"]) == (name, rows)]
            print(f"\n{name}, {rows} rows")
            print(coverage(fits).round(4).to_string())
        pooled = pool_bins([fit for fit in all_fits if fit["method"] == name], "library")
        print(f"\n{name}, all fits\n{pooled.round(4).to_string()}")


def main() -> None:
    parser = make_parser(__doc__)
    add_data_home(parser)
    parser.add_argument("--min-rows", type=int, default=2000)
    parser.add_argument("--max-rows", type=int, default=20000)
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES), help="training rows")
    parser.add_argument("--max-features", type=int, default=20)
    parser.add_argument("--skip", type=int, default=0, help="number of datasets to leave out, from the first on")
    parser.add_argument("--first", type=int, help="number of datasets")
    parser.add_argument("--methods", nargs="+", choices=list(CLASSIFIERS), default=list(CLASSIFIERS))
    parser.add_argument("--seed", type=int, default=0, help="seed of the splits and the fits")
    parser.add_argument("--json", type=Path, help="write the records there; datasets that it holds are not repeated")
    parser.add_argument("--report", type=Path, help="measure nothing, report these records")
    args = parser.parse_args()
    torch.set_num_threads(1)
    if args.report:
        report(json.loads(args.report.read_text())["sets"][args.skip :][: args.first])
    else:
        report(run(args))


def run(args: argparse.Namespace) -> list[dict[str, Any]]:
    limits = {"max_features": args.max_features, "min_rows": args.min_rows, "max_rows": args.max_rows}
    numbers = dataset_ids(args.data_home, **limits)[args.skip :][: args.first]
    settings = {"seed": args.seed, "methods": args.methods, "sizes": args.sizes}
    records = {record["id"]: record for record in read_records(args.json, settings)}
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number in numbers:
            if number not in records:
                records[number] = measure_dataset(number, args.data_home, **settings)
                print(number, records[number]["name"], records[number]["n"], flush=True)
            write_records(args.json, settings, records.values())
    return list(records.values())


if __name__ == "__main__":
    main()
