"""Measure a stacked density: time and memory of its fit over folds and of its labels, against two baselines.

    python benchmarks/stacked_density.py --json build/stacked_density.json
    python benchmarks/stacked_density.py --sizes 1000x10x3 5000x10x3

Each size (rows x columns x classes) is done in processes of its own, on one thread: the stacked density over the
folds of a
search (5, or one validation part beyond 20,000 rows) with the stacks of the folds, the labels of 40 epochs of mixed
samples, `MLPClassifier((128, 128), max_iter=100)` (up to 20,000 rows) and `HistGradientBoostingClassifier()`. Ratios
are of runs that alternate. Memory is the peak of a process, the table included, less that of a fit to a small one.
"""

import argparse
import json
import os
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from resource import RUSAGE_SELF, getrusage
from statistics import median
from typing import Any

import numpy as np
import torch
from sklearn.datasets import make_classification
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPClassifier
from threadpoolctl import threadpool_limits
from timing import seconds

from genlabel.data.folds import Fold, make_folds
from genlabel.densities import DensityWarning, StackedDensity
from genlabel.densities.base import CrossFittedDensity

SIZES = [
    "200x10x3", "1000x10x3", "5000x10x3", "20000x20x5", "100000x20x2", "1000000x20x2",
    "200x2000x2", "400x500x20", "3000x20x100",
]  # fmt: skip
EPOCHS, BLENDS = 40, 20_000
"""Epochs of mixed samples that are labeled, and how many of them are timed."""
SPLIT_ROWS = 20_000
"""With more rows, one validation part stands for the folds, and there is no time for the network."""
UNIT = 1 if sys.platform == "darwin" else 1024


def points(size: str) -> tuple[Any, Any]:
    n, d, k = (int(part) for part in size.split("x"))
    informative = max(2, min(d // 2, 10))
    lumps = 1 if k > 8 else 2
    X, y = make_classification(
        n, d, n_informative=informative, n_redundant=0, n_classes=k, n_clusters_per_class=lumps, random_state=0
    )
    return (X - X.mean(0)) / X.std(0), y


def folds_of(y: Any) -> list[Fold]:
    folds = make_folds(5, y, 0)
    return folds if len(y) <= SPLIT_ROWS else folds[:1]


class Parts:
    """The parts of the stacked density's price, each a call."""

    def __init__(self, X: Any, y: Any) -> None:
        self.X, self.y, self.folds = X, y, folds_of(y)
        self.folded: CrossFittedDensity | None = None
        self.stacks: list[Any] = []

    def choose(self) -> None:
        """The search over the folds, and the stacks of the folds and of all rows."""
        self.folded = StackedDensity().prepare_for_cv(self.X, self.y, None, lambda: self.folds, 0)
        self.stacks = [self.folded.fit(f, self.X[fold.train], self.y[fold.train]) for f, fold in enumerate(self.folds)]
        self.folded.fit(None, self.X, self.y)

    def label(self) -> None:
        """The labels of some mixed samples, by the stack of a fold, as training asks for them."""
        rng = np.random.default_rng(0)
        rows, partners = rng.integers(0, len(self.X), (2, min(BLENDS, EPOCHS * len(self.X))))
        lam = rng.beta(0.3, 0.3, (len(rows), 1))
        mixed = torch.from_numpy(lam * self.X[rows] + (1 - lam) * self.X[partners]).float()
        for block in mixed.split(1000):
            self.stacks[0].log_prob(block)

    def times(self) -> float:
        """How many times as many mixed samples a search labels."""
        return EPOCHS * len(self.X) * len(self.folds) / min(BLENDS, EPOCHS * len(self.X))


def baselines(X: Any, y: Any) -> dict[str, Callable[[], object]]:
    result: dict[str, Callable[[], object]] = {"boosting": lambda: HistGradientBoostingClassifier().fit(X, y)}
    if len(X) <= SPLIT_ROWS:
        result["network"] = lambda: MLPClassifier((128, 128), max_iter=100, random_state=0).fit(X, y)
    return result


def measure_time(size: str, repeats: int) -> dict[str, Any]:
    X, y = points(size)
    blocks, others = Parts(X, y), baselines(X, y)
    runs: dict[str, list[float]] = {"stacked density": [], "labels": [], **{name: [] for name in others}}
    for _ in range(repeats):
        runs["stacked density"].append(seconds(blocks.choose))
        runs["labels"].append(seconds(blocks.label) * blocks.times())
        for name, call in others.items():
            runs[name].append(seconds(call))
    assert blocks.folded is not None
    report = blocks.folded.stacked.report_ if blocks.folded.stacked is not None else {}
    result: dict[str, Any] = {name: round(median(values), 3) for name, values in runs.items()}
    for name in others:
        for part in ("stacked density", "labels"):
            ratio = median(a / b for a, b in zip(runs[part], runs[name], strict=True))
            result[f"{part} / {name}"] = round(ratio, 2)
    return result | {"members": len(report["chosen"]), "rows": report["rows"], "fitted rows": report["fitted_rows"]}


def measure_memory(size: str, who: str) -> dict[str, Any]:
    calls: dict[str, Callable[[Any, Any], object]] = {
        "stacked density": lambda X, y: Parts(X, y).choose(),
        "boosting": lambda X, y: HistGradientBoostingClassifier().fit(X, y),
    }
    calls[who](*points("150x10x3"))  # what is loaded on the way is no memory of the fit
    before = getrusage(RUSAGE_SELF).ru_maxrss
    calls[who](*points(size))
    return {f"{who}, MB": round((getrusage(RUSAGE_SELF).ru_maxrss - before) * UNIT / 1e6)}


def in_a_process(*args: str) -> dict[str, Any]:
    """One measurement, in a process of its own."""
    one_thread = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    command = [sys.executable, __file__, "--one", *args]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | one_thread, check=False)
    if done.returncode:
        raise RuntimeError(f"{command} failed: {done.stderr[-2000:]}")
    result: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return result


def one(args: list[str]) -> dict[str, Any]:
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", DensityWarning)
    warnings.simplefilter("ignore", ConvergenceWarning)
    with threadpool_limits(1):
        return measure_time(args[0], int(args[2])) if args[1] == "time" else measure_memory(args[0], args[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="+", default=SIZES, help="rows x columns x classes, as 1000x10x3")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", type=Path, help="also keep the figures there, beside those of other sizes")
    parser.add_argument("--one", nargs="+", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        print(json.dumps(one(args.one)))
        return
    table: dict[str, Any] = json.loads(args.json.read_text()) if args.json and args.json.exists() else {}
    for size in args.sizes:
        repeats = args.repeats if int(size.split("x")[0]) <= SPLIT_ROWS else 1
        table[size] = in_a_process(size, "time", str(repeats))
        for who in ("stacked density", "boosting"):
            table[size] |= in_a_process(size, who)
        print(size, json.dumps(table[size]), flush=True)
        if args.json:
            args.json.write_text(json.dumps(table, indent=1) + "\n")


if __name__ == "__main__":
    main()
