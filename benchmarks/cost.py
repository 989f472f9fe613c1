"""Measure CPU time and memory of whole fits of the default and of baselines, over rows, columns and classes.

    python benchmarks/cost.py --json build/cost.json --picture build/cost.png
    python benchmarks/cost.py --sizes 1000x10x3 5000x10x3 --methods default network

Each fit is done in a process of its own, on one thread: the default, mixup, scikit-learn's
`MLPClassifier((128, 128), max_iter=100)` (up to 20,000 rows), `HistGradientBoostingClassifier()`, a random forest, and
CatBoost and LightGBM with their defaults where they are installed. Memory is stated twice: the peak of a process less
what it held before the fit ("megabytes"), and the whole peak, libraries and table included, as a user sees it
("peak"). A fit that takes longer than --limit seconds is given up.
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
from time import process_time
from typing import Any

from matplotlib.figure import Figure
from sklearn.datasets import make_classification

SWEEPS = {
    "rows": ["200x10x3", "1000x10x3", "5000x10x3", "20000x10x3", "100000x10x3"],
    "columns": ["400x5x2", "400x20x2", "400x100x2", "400x500x2", "200x2000x2"],
    "classes": ["3000x20x2", "3000x20x5", "3000x20x20", "3000x20x100"],
}
MORE = ["100000x20x2", "1000000x20x2"]
MOST_ROWS = 20_000
"""Of scikit-learn's network."""
SMALL = "100x5x2"
"""Fitted first, to load what is loaded: so small that next to no memory is left of it for the fit that is measured."""
UNIT = 1 if sys.platform == "darwin" else 1024


def points(size: str) -> tuple[Any, Any]:
    n, d, k = (int(part) for part in size.split("x"))
    X, y = make_classification(
        n,
        d,
        n_informative=max(2, min(d // 2, 10)),
        n_redundant=0,
        n_classes=k,
        n_clusters_per_class=1 if k > 8 or d < 6 else 2,
        random_state=0,
    )
    return X, y


def _ours() -> Any:
    from genlabel import GenLabelClassifier

    return GenLabelClassifier(random_state=0).set_params(training__device="cpu")


def _mixup() -> Any:
    from genlabel import MixupClassifier

    return MixupClassifier(random_state=0).set_params(training__device="cpu")


def _network() -> Any:
    from sklearn.neural_network import MLPClassifier

    return MLPClassifier((128, 128), max_iter=100, random_state=0)


def _boosting() -> Any:
    from sklearn.ensemble import HistGradientBoostingClassifier

    return HistGradientBoostingClassifier()


def _peer(name: str) -> Callable[[], Any]:
    def make() -> Any:
        from genlabel_paper.benchmark import BaselineClassifier

        return BaselineClassifier(name, random_state=0)

    return make


METHODS: dict[str, Callable[[], Any]] = {
    "default": _ours,
    "mixup": _mixup,
    "network": _network,
    "boosting": _boosting,
    "forest": _peer("forest"),
    "catboost": _peer("catboost"),
    "lightgbm": _peer("lightgbm"),
}
TITLES = {"network": "MLPClassifier", "boosting": "HistGradientBoosting"}


def one(size: str, method: str) -> dict[str, float]:
    """Fit once; what is loaded on the way is no part of the cost."""
    from threadpoolctl import threadpool_limits

    warnings.simplefilter("ignore")
    X, y = points(size)
    with threadpool_limits(1):
        METHODS[method]().fit(*points(SMALL))
        before, start = getrusage(RUSAGE_SELF).ru_maxrss, process_time()
        METHODS[method]().fit(X, y)
        seconds = process_time() - start
    peak = getrusage(RUSAGE_SELF).ru_maxrss * UNIT / 1e6
    return {"seconds": round(seconds, 3), "megabytes": round(peak - before * UNIT / 1e6, 1), "peak": round(peak, 1)}


def in_a_process(size: str, method: str, limit: float) -> dict[str, Any]:
    threads = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    command = [sys.executable, __file__, "--one", size, method]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, env=os.environ | threads, check=False, timeout=limit
        )
    except subprocess.TimeoutExpired:
        return {"failure": f"longer than {limit:g} s"}
    if done.returncode:
        return {"failure": (done.stderr.strip().splitlines() or ["no word"])[-1][:200]}
    result: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return result


def draw(table: dict[str, Any], path: Path) -> None:
    """Seconds over rows, columns and classes."""
    figure = Figure(figsize=(13.0, 4.2), dpi=130, layout="constrained")
    axes = figure.subplots(1, 3, sharey=True)
    for index, (ax, (name, sizes)) in enumerate(zip(axes, SWEEPS.items(), strict=True)):
        for colour, method in enumerate(METHODS):
            result = [(size, table.get(size, {}).get(method, {}).get("seconds")) for size in sizes]
            known = [(int(size.split("x")[index]), value) for size, value in result if value is not None]
            if known:
                ours = method in ("default", "mixup")
                style = {"color": f"C{colour}", "lw": 2.4 if method == "default" else 1.4, "ls": "-" if ours else "--"}
                ax.plot(*zip(*known, strict=True), marker="o", ms=4, label=TITLES.get(method, method), **style)
        fixed = {
            "rows": "10 columns, 3 classes",
            "columns": "400 rows (2,000: 200), 2 classes",
            "classes": "3,000 rows, 20 columns",
        }
        ax.set(xscale="log", yscale="log", xlabel=name, title=fixed[name])
        ax.grid(alpha=0.3, which="both", lw=0.4)
    axes[0].set_ylabel("CPU seconds of a whole fit, one thread")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside right center", frameon=False)
    figure.savefig(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    sizes = list(dict.fromkeys([*(size for sweep in SWEEPS.values() for size in sweep), *MORE]))
    parser.add_argument("--sizes", nargs="+", default=sizes, help="rows x columns x classes, as 1000x10x3")
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS))
    parser.add_argument("--repeats", type=int, default=1, help="of each fit; the fastest counts")
    parser.add_argument("--limit", type=float, default=600.0, help="seconds after which a fit is given up")
    parser.add_argument("--json", type=Path, help="write the figures there, after each fit; what is there is kept")
    parser.add_argument("--picture", type=Path, help="draw them")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        print(json.dumps(one(*args.one)))
        return
    table: dict[str, Any] = json.loads(args.json.read_text()) if args.json and args.json.exists() else {}
    for size in args.sizes:
        for method in args.methods:
            if method in table.get(size, {}) or (method == "network" and int(size.split("x")[0]) > MOST_ROWS):
                continue
            runs = [in_a_process(size, method, args.limit) for _ in range(args.repeats)]
            table.setdefault(size, {})[method] = min(runs, key=lambda run: run.get("seconds", float("inf")))
            print(size, method, json.dumps(table[size][method]), flush=True)
            if args.json:
                args.json.write_text(json.dumps(table, indent=1) + "\n")
    if args.picture:
        draw(table, args.picture)


if __name__ == "__main__":
    main()
