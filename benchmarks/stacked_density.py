"""Measure a stacked density: time and memory of its fit over folds and of its labels, against two baselines.

    python benchmarks/stacked_density.py --json build/stacked_density.json
    python benchmarks/stacked_density.py --sizes 1000x10x3 5000x10x3

Each size (rows x columns x classes) is done in processes of its own, on one thread: the stacked density over the folds
of a search (5, or one validation part beyond 20,000 rows) with the stacks of the folds, the labels of 40 epochs of
mixed samples, `MLPClassifier((128, 128), max_iter=100)` (up to 20,000 rows) and `HistGradientBoostingClassifier()`.
Ratios are of runs that alternate. Memory is the peak of a process, the table included, less that of a fit to a small
one.
"""

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from common import make_parser, make_table, peak_megabytes, run_in_process, seconds
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPClassifier
from threadpoolctl import threadpool_limits

from genlabel.data.folds import make_folds
from genlabel.densities import DensityWarning, StackedDensity
from genlabel.densities.base import CrossFittedDensity

SIZES = [
    "200x10x3", "1000x10x3", "5000x10x3", "20000x20x5", "100000x20x2", "1000000x20x2",
    "200x2000x2", "400x500x20", "3000x20x100",
]  # fmt: skip
EPOCHS = 40
"""Epochs of mixed samples that are labeled."""
TIMED_SAMPLES = 20_000
"""Number of the mixed samples that are timed; the time of the others is extrapolated."""
MAX_CV_ROWS = 20_000
"""With more rows, one validation part stands for the folds, and there is no time for the network."""


def make_scaled_table(size: str) -> tuple[Any, Any]:
    X, y = make_table(size)
    return (X - X.mean(0)) / X.std(0), y


class StackedDensityCost:
    """Parts of the cost of a stacked density, each a method that can be timed."""

    def __init__(self, X: Any, y: Any) -> None:
        folds = make_folds(5, y, 0)
        self.X, self.y, self.folds = X, y, folds if len(y) <= MAX_CV_ROWS else folds[:1]
        self.folded: CrossFittedDensity | None = None
        self.stacks: list[Any] = []

    def search(self) -> None:
        """Search over the folds, and fit the stacks of the folds and of all rows."""
        self.folded = StackedDensity().prepare_for_cv(self.X, self.y, None, lambda: self.folds, 0)
        self.stacks = [self.folded.fit(f, self.X[fold.train], self.y[fold.train]) for f, fold in enumerate(self.folds)]
        self.folded.fit(None, self.X, self.y)

    def label(self) -> None:
        """Label some mixed samples by the stack of a fold, as training does."""
        rng = np.random.default_rng(0)
        rows, partners = rng.integers(0, len(self.X), (2, self.timed_samples))
        lam = rng.beta(0.3, 0.3, (len(rows), 1))
        mixed = torch.from_numpy(lam * self.X[rows] + (1 - lam) * self.X[partners]).float()
        for block in mixed.split(1000):
            self.stacks[0].log_prob(block)

    @property
    def timed_samples(self) -> int:
        """Number of mixed samples that `label` labels."""
        return min(TIMED_SAMPLES, EPOCHS * len(self.X))

    @property
    def extrapolation(self) -> float:
        """Number of mixed samples that a search labels, over that of `label`."""
        return EPOCHS * len(self.X) * len(self.folds) / self.timed_samples


def baselines(X: Any, y: Any) -> dict[str, Callable[[], object]]:
    result: dict[str, Callable[[], object]] = {"boosting": lambda: HistGradientBoostingClassifier().fit(X, y)}
    if len(X) <= MAX_CV_ROWS:
        result["network"] = lambda: MLPClassifier((128, 128), max_iter=100, random_state=0).fit(X, y)
    return result


def measure_time(size: str, repeats: int) -> dict[str, Any]:
    X, y = make_scaled_table(size)
    cost, others = StackedDensityCost(X, y), baselines(X, y)
    runs: dict[str, list[float]] = {"stacked density": [], "labels": [], **{name: [] for name in others}}
    for _ in range(repeats):
        runs["stacked density"].append(seconds(cost.search))
        runs["labels"].append(seconds(cost.label) * cost.extrapolation)
        for name, call in others.items():
            runs[name].append(seconds(call))
    assert cost.folded is not None
    report = cost.folded.stacked.report_ if cost.folded.stacked is not None else {}
    result: dict[str, Any] = {name: round(median(values), 3) for name, values in runs.items()}
    for name in others:
        for part in ("stacked density", "labels"):
            ratio = median(a / b for a, b in zip(runs[part], runs[name], strict=True))
            result[f"{part} / {name}"] = round(ratio, 2)
    return result | {"members": len(report["chosen"]), "rows": report["rows"], "fitted rows": report["fitted_rows"]}


def measure_memory(size: str, method: str) -> dict[str, Any]:
    calls: dict[str, Callable[[Any, Any], object]] = {
        "stacked density": lambda X, y: StackedDensityCost(X, y).search(),
        "boosting": lambda X, y: HistGradientBoostingClassifier().fit(X, y),
    }
    calls[method](*make_scaled_table("150x10x3"))  # the memory of libraries is no memory of the fit
    before = peak_megabytes()
    calls[method](*make_scaled_table(size))
    return {f"{method}, MB": round(peak_megabytes() - before)}


def measure(size: str, method: str, repeats: str = "1") -> dict[str, Any]:
    """Return the seconds of all methods if `method` is "time", otherwise the memory of that method."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", DensityWarning)
    warnings.simplefilter("ignore", ConvergenceWarning)
    with threadpool_limits(1):
        return measure_time(size, int(repeats)) if method == "time" else measure_memory(size, method)


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--sizes", nargs="+", default=SIZES, help="rows x columns x classes, as 1000x10x3")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", type=Path, help="also write the numbers there, beside those of other sizes")
    parser.add_argument("--one", nargs="+", help="measure SIZE METHOD [REPEATS] in this process")
    args = parser.parse_args()
    if args.one:
        print(json.dumps(measure(*args.one)))
        return
    table: dict[str, Any] = json.loads(args.json.read_text()) if args.json and args.json.exists() else {}
    for size in args.sizes:
        repeats = args.repeats if int(size.split("x")[0]) <= MAX_CV_ROWS else 1
        table[size] = run_in_process(__file__, size, "time", str(repeats))
        for method in ("stacked density", "boosting"):
            table[size] |= run_in_process(__file__, size, method)
        print(size, json.dumps(table[size]), flush=True)
        if args.json:
            args.json.write_text(json.dumps(table, indent=1) + "\n")


if __name__ == "__main__":
    main()
