"""Measure CPU time and memory of whole fits of the default and of baselines, over rows, columns and classes.

    python benchmarks/cost.py --json build/cost.json --picture build/cost.png
    python benchmarks/cost.py --sizes 1000x10x3 5000x10x3 --methods default network

Each fit is done in a process of its own, on one thread: the default, mixup, scikit-learn's
`MLPClassifier((128, 128), max_iter=100)` (up to 20,000 rows), `HistGradientBoostingClassifier()`, a random forest, and
CatBoost and LightGBM with their defaults where they are installed. Memory is stated twice: the peak of a process less
what it held before the fit ("megabytes"), and the whole peak, libraries and table included, as a user sees it
("peak"). A fit that takes longer than --limit seconds is stopped.
"""

import json
import warnings
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from time import process_time
from typing import Any

from common import make_parser, make_table, peak_megabytes, run_in_process
from matplotlib.figure import Figure
from threadpoolctl import threadpool_limits

SWEEPS = {
    "rows": ["200x10x3", "1000x10x3", "5000x10x3", "20000x10x3", "100000x10x3"],
    "columns": ["400x5x2", "400x20x2", "400x100x2", "400x500x2", "200x2000x2"],
    "classes": ["3000x20x2", "3000x20x5", "3000x20x20", "3000x20x100"],
}
LARGE_SIZES = ["100000x20x2", "1000000x20x2"]
MAX_NETWORK_ROWS = 20_000
"""Rows up to which scikit-learn's network is measured."""
WARM_UP_SIZE = "100x5x2"
"""Size of a first fit, which loads libraries: so small that it leaves next to no memory for the measured one."""


def _make(module: str, name: str, *arguments: Any, **parameters: Any) -> Any:
    """Return a classifier; its library is imported now, since the memory of the others is no part of its cost."""
    return getattr(import_module(module), name)(*arguments).set_params(**parameters)


METHODS: dict[str, Callable[[], Any]] = {
    "default": partial(_make, "genlabel", "GenLabelClassifier", random_state=0, training__device="cpu"),
    "mixup": partial(_make, "genlabel", "MixupClassifier", random_state=0, training__device="cpu"),
    "network": partial(_make, "sklearn.neural_network", "MLPClassifier", (128, 128), max_iter=100, random_state=0),
    "boosting": partial(_make, "sklearn.ensemble", "HistGradientBoostingClassifier"),
    "forest": partial(_make, "genlabel_paper.benchmark", "BaselineClassifier", "forest", random_state=0),
    "catboost": partial(_make, "genlabel_paper.benchmark", "BaselineClassifier", "catboost", random_state=0),
    "lightgbm": partial(_make, "genlabel_paper.benchmark", "BaselineClassifier", "lightgbm", random_state=0),
}
TITLES = {"network": "MLPClassifier", "boosting": "HistGradientBoosting"}


def measure(size: str, method: str) -> dict[str, float]:
    """Return seconds and megabytes of one fit, without those of loading libraries."""
    warnings.simplefilter("ignore")
    X, y = make_table(size)
    with threadpool_limits(1):
        METHODS[method]().fit(*make_table(WARM_UP_SIZE))
        before, start = peak_megabytes(), process_time()
        METHODS[method]().fit(X, y)
        seconds = process_time() - start
    peak = peak_megabytes()
    return {"seconds": round(seconds, 3), "megabytes": round(peak - before, 1), "peak": round(peak, 1)}


def draw(table: dict[str, Any], path: Path) -> None:
    """Draw the seconds over rows, columns and classes."""
    figure = Figure(figsize=(13.0, 4.2), dpi=130, layout="constrained")
    axes = figure.subplots(1, 3, sharey=True)
    for index, (ax, (name, sizes)) in enumerate(zip(axes, SWEEPS.items(), strict=True)):
        for color, method in enumerate(METHODS):
            values = [(size, table.get(size, {}).get(method, {}).get("seconds")) for size in sizes]
            points = [(int(size.split("x")[index]), value) for size, value in values if value is not None]
            if points:
                ours = method in ("default", "mixup")
                style = {"color": f"C{color}", "lw": 2.4 if method == "default" else 1.4, "ls": "-" if ours else "--"}
                ax.plot(*zip(*points, strict=True), marker="o", ms=4, label=TITLES.get(method, method), **style)
        titles = {
            "rows": "10 columns, 3 classes",
            "columns": "400 rows (2,000: 200), 2 classes",
            "classes": "3,000 rows, 20 columns",
        }
        ax.set(xscale="log", yscale="log", xlabel=name, title=titles[name])
        ax.grid(alpha=0.3, which="both", lw=0.4)
    axes[0].set_ylabel("CPU seconds of a whole fit, one thread")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside right center", frameon=False)
    figure.savefig(path)


def main() -> None:
    parser = make_parser(__doc__)
    sizes = list(dict.fromkeys([*(size for sweep in SWEEPS.values() for size in sweep), *LARGE_SIZES]))
    parser.add_argument("--sizes", nargs="+", default=sizes, help="rows x columns x classes, as 1000x10x3")
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS))
    parser.add_argument("--repeats", type=int, default=1, help="runs of each fit; the fastest counts")
    parser.add_argument("--limit", type=float, default=600.0, help="seconds after which a fit is stopped")
    parser.add_argument("--json", type=Path, help="write the numbers there; fits that it holds are not repeated")
    parser.add_argument("--picture", type=Path, help="draw them")
    parser.add_argument("--one", nargs=2, metavar=("SIZE", "METHOD"), help="measure one fit in this process")
    args = parser.parse_args()
    if args.one:
        print(json.dumps(measure(*args.one)))
        return
    table: dict[str, Any] = json.loads(args.json.read_text()) if args.json and args.json.exists() else {}
    for size in args.sizes:
        for method in args.methods:
            if method in table.get(size, {}) or (method == "network" and int(size.split("x")[0]) > MAX_NETWORK_ROWS):
                continue
            runs = [run_in_process(__file__, size, method, limit=args.limit) for _ in range(args.repeats)]
            table.setdefault(size, {})[method] = min(runs, key=lambda run: run.get("seconds", float("inf")))
            print(size, method, json.dumps(table[size][method]), flush=True)
            if args.json:
                args.json.write_text(json.dumps(table, indent=1) + "\n")
    if args.picture:
        draw(table, args.picture)


if __name__ == "__main__":
    main()
