"""Measure coverage and width of probability intervals on OpenML datasets.

    python benchmarks/intervals.py --first 4 --sizes 100 --json build/intervals.json
    python benchmarks/intervals.py --report results/intervals.json --skip 6

The classifiers, with their defaults, are fitted to some rows of a dataset, and asked of all others, which are many:
with few, any interval would hold but for noise. Of every test row and class, the interval is put into one of ten bins
by its middle; a bin of a fit counts if it has 20 of them. Beside what the library does ("cross": what the network of
each fold says, against the held-out rows of that fold, in the mean over the folds; each class against all others)
stand other ways, made of the same fits:

- "folds": the same with the probability that is predicted, that of all networks, in the place of each network's;
- "together": the probability that is predicted, against all held-out rows at once;
- "pairs": the same with the classes in pairs, the bounds combined as p_i = 1 / (1 + sum_j (1 - p_ij) / p_ij);
- "probability": what is predicted, as an interval of no width.

"if exact" is how many bins would hold the frequency if the middle of each interval were the truth.
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
from numpy.typing import NDArray
from scipy.stats import binom
from sklearn.model_selection import train_test_split
from threadpoolctl import threadpool_limits

from genlabel import GenLabelClassifier, MixupClassifier
from genlabel.data.datasets import load_openml
from genlabel.data.datasets.catalog import openml_manifest
from genlabel.data.tables.table import drop_rare_classes
from genlabel.estimators.classifier import Calibration, Intervals, venn_abers
from genlabel_paper.benchmark.command import manifest_ids

Numbers = NDArray[np.float64]
BINS, FEWEST = 10, 20
"""Bins of the middle of an interval; rows and classes that a bin of a dataset needs to count."""
SIZES = (100, 300, 1000)
"""Training rows."""
MOST_TESTED = 3000
METHODS: dict[str, Callable[[int], Any]] = {
    "GenLabel": lambda seed: GenLabelClassifier(random_state=seed).set_params(training__device="cpu"),
    "mixup": lambda seed: MixupClassifier(random_state=seed).set_params(training__device="cpu"),
}


def pairs(model: Any, X: Any) -> Intervals:
    """Each class against each other, with the rows of these two; bounds of p_i are those of all p_ij together."""
    known, text = model.venn_abers_, model.predict_log_proba(X).astype(np.float32)
    m, k = text.shape
    against = np.zeros((2, m, k, k))  # odds of the class against, at most and at least
    for i, j in combinations(range(k), 2):
        block = (known.y == i) | (known.y == j)
        scores = known.log_proba[block, i] - known.log_proba[block, j]
        low, high = venn_abers(scores, known.y[block] == i, text[:, i] - text[:, j])
        with np.errstate(divide="ignore"):
            against[:, :, i, j] = (1 - low) / low, (1 - high) / high
            against[:, :, j, i] = high / (1 - high), low / (1 - low)
    return Intervals(1 / (1 + against[0].sum(2)), 1 / (1 + against[1].sum(2)))


def together(model: Any, X: Any) -> Intervals:
    known = model.venn_abers_
    return Calibration.of(known.log_proba, known.y)(model.predict_log_proba(X))


def folds(model: Any, X: Any) -> Intervals:
    return cast(Intervals, model.venn_abers_._replace(crossed=False)(model.predict_log_proba(X)))


OTHERS: dict[str, Callable[[Any, Any], Intervals]] = {"folds": folds, "together": together, "pairs": pairs}


def measure(result: Intervals, index: NDArray[Any], predicted: NDArray[Any]) -> dict[str, Any]:
    """Sums over rows and classes in each bin: number, lower, upper, hits; the mean widths; the misses of all bins."""
    lower, upper = result
    hits = index[:, None] == np.arange(lower.shape[1])
    place = np.minimum(((lower + upper) / 2 * BINS).astype(int), BINS - 1).ravel()
    sums = [np.bincount(place, part.ravel(), minlength=BINS) for part in (np.ones_like(lower), lower, upper, hits)]
    width, rows = upper - lower, np.arange(len(index))
    return {
        "bins": np.stack(sums, 1).round(4).tolist(),
        "width": float(f"{width.mean():.4g}"),
        "width of the predicted class": float(f"{width[rows, predicted].mean():.4g}"),
    }


def one_fit(name: str, table: Any, size: int, seed: int) -> dict[str, Any]:
    """The record of a classifier fitted to so many rows: for each way, the bins and widths."""
    labels = table.y.astype(str)
    train, others = train_test_split(np.arange(len(labels)), train_size=size, stratify=labels, random_state=seed)
    X, y, X_test = table.X.iloc[train], labels.iloc[train].to_numpy(), table.X.iloc[others[:MOST_TESTED]]
    model = METHODS[name](seed).fit(X, y)
    proba = model.predict_proba(X_test)
    result = {"cross": cast(Intervals, model.predict_proba_interval(X_test))}
    result |= {way: of(model, X_test) for way, of in OTHERS.items()}
    result["probability"] = Intervals(proba, proba)
    truth = pd.Index(model.classes_).get_indexer(labels.iloc[others[:MOST_TESTED]])  # a class that is new here: -1
    return {
        "rows": size,
        "method": name,
        **{way: measure(each, truth, proba.argmax(1)) for way, each in result.items()},
    }


def one_set(number: int, home: Path | None, seed: int, methods: list[str], sizes: list[int]) -> dict[str, Any]:
    """The records of a dataset."""
    table = drop_rare_classes(load_openml(number, data_home=home))
    fits = [one_fit(name, table, size, seed) for size in sizes for name in methods]
    return {"id": number, "name": table.name, "n": len(table.y), "fits": fits}


def coverage(fits: list[dict[str, Any]]) -> pd.DataFrame:
    """For each way: how many bins of single fits hold the frequency, and would if the middle were the truth."""
    rows = []
    for way in ("cross", *OTHERS, "probability"):
        every = np.concatenate([np.array(fit[way]["bins"]) for fit in fits])
        count, lower, upper, hits = every[every[:, 0] >= FEWEST].T
        lower, upper, share = lower / count, upper / count, hits / count
        middle = (lower + upper) / 2
        miss = np.maximum(np.maximum(lower - share, share - upper), 0.0)
        noise = np.sqrt(middle * (1.0 - middle) / count)
        chance = binom.cdf(np.floor(count * upper), count, middle) - binom.cdf(
            np.ceil(count * lower) - 1, count, middle
        )
        rows.append(
            {
                "way": way,
                "bins": len(count),
                "hold it": (miss <= 1e-9).mean(),
                "if exact": chance.mean(),
                "within 2 s.e.": (miss <= 2.0 * noise).mean(),
                "mean miss": np.average(miss, weights=count),
                "mean noise": np.average(noise, weights=count),
                "width": np.mean([fit[way]["width"] for fit in fits]),
                "of the predicted": np.mean([fit[way]["width of the predicted class"] for fit in fits]),
            }
        )
    return pd.DataFrame(rows).set_index("way")


def over_all(fits: list[dict[str, Any]], way: str) -> pd.DataFrame:
    """The bins of all fits together: mean lower and upper probability, and the frequency."""
    bins = np.sum([fit[way]["bins"] for fit in fits], axis=0)
    count = np.maximum(bins[:, 0], 1.0)
    edges = [f"{b / BINS:.1f} to {(b + 1) / BINS:.1f}" for b in range(BINS)]
    result = pd.DataFrame(bins[:, [1, 3, 2]] / count[:, None], index=edges, columns=["lower", "frequency", "upper"])
    return result.assign(number=bins[:, 0].astype(int))


def report(records: list[dict[str, Any]]) -> None:
    """Print, for each classifier and number of rows, how the ways compare, and the bins of the library's."""
    every = [fit for record in records for fit in record["fits"]]
    print(f"\n{len(records)} datasets")
    for name in dict.fromkeys(fit["method"] for fit in every):
        for rows in sorted({fit["rows"] for fit in every}):
            fits = [fit for fit in every if (fit["method"], fit["rows"]) == (name, rows)]
            print(f"\n{name}, {rows} rows")
            print(coverage(fits).round(4).to_string())
        print(
            f"\n{name}, all fits\n{over_all([f for f in every if f['method'] == name], 'cross').round(4).to_string()}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-home", type=Path, help="the folder of the manifest; default: GENLABEL_DATA_HOME")
    parser.add_argument("--min-rows", type=int, default=2000)
    parser.add_argument("--max-rows", type=int, default=20000)
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES), help="training rows")
    parser.add_argument("--max-features", type=int, default=20)
    parser.add_argument("--skip", type=int, default=0, help="so many datasets are left out, from the first on")
    parser.add_argument("--first", type=int, help="so many datasets only")
    parser.add_argument("--methods", nargs="+", choices=list(METHODS), default=list(METHODS))
    parser.add_argument("--seed", type=int, default=0, help="of the splits and the fits")
    parser.add_argument(
        "--json", type=Path, help="write the records there; datasets that it holds are not measured again"
    )
    parser.add_argument("--report", type=Path, help="measure nothing, report these records")
    args = parser.parse_args()
    torch.set_num_threads(1)
    if args.report:
        report(json.loads(args.report.read_text())["sets"][args.skip :][: args.first])
    else:
        report(run(parser, args))


def run(parser: argparse.ArgumentParser, args: argparse.Namespace) -> list[dict[str, Any]]:
    manifest = openml_manifest(args.data_home)
    if manifest is None:
        parser.error("there is no manifest.csv; name its folder with --data-home or GENLABEL_DATA_HOME")
    numbers = manifest_ids(manifest, args.max_features, min_rows=args.min_rows, max_rows=args.max_rows)[args.skip :]
    setting = {"seed": args.seed, "methods": args.methods, "sizes": args.sizes}
    known = json.loads(args.json.read_text()) if args.json and args.json.exists() else {**setting, "sets": []}
    if {name: known.get(name) for name in setting} != setting:
        parser.error(f"{args.json} holds records of another seed, other methods or sizes; name another file")
    records = {record["id"]: record for record in known["sets"]}
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number in numbers[: args.first]:
            if number not in records:
                records[number] = one_set(number, args.data_home, **setting)
                print(number, records[number]["name"], records[number]["n"], flush=True)
            if args.json:
                lines = ",\n".join(json.dumps(record) for record in records.values())
                head = json.dumps(setting)[1:-1]
                args.json.write_text(f'{{{head}, "sets": [\n{lines}\n]}}\n')
    return list(records.values())


if __name__ == "__main__":
    main()
