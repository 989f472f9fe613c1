"""Measure whether memory, threads and file descriptors grow over many fits and predictions in one process.

    python benchmarks/long_use.py
    python benchmarks/long_use.py --fits 50 --only mixup genmix

A process for each estimator, on one thread, on Linux. The slopes are those of a line through the second half of the
fits, for 100 of them: the first half fills caches. Every fit is of another table, and so of another size.
"""

import json
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from common import make_parser, make_table, run_in_process
from sklearn.linear_model import LogisticRegression

from genlabel import (
    AdaMixupClassifier,
    GenerativeClassifier,
    GenLabelClassifier,
    GenLabelSampler,
    GenMix,
    MixupClassifier,
    SoftLabelClassifier,
)
from genlabel.registry import DENSITIES

SHORT = {"gan": {"steps": 20, "min_coverage": 0.0}, "flow": {"epochs": 3}, "vae": {"epochs": 3}}
"""Parameters of densities that are trained."""
ESTIMATORS: dict[str, Callable[[], Any]] = {
    "genlabel": lambda: GenLabelClassifier().set_params(training__epochs=8, search__cv=2),
    "genlabel-kernel": lambda: GenLabelClassifier(density="kernel").set_params(training__epochs=8, search__cv=2),
    "mixup": lambda: MixupClassifier().set_params(training__epochs=8, search__cv=2),
    "adamixup": lambda: AdaMixupClassifier().set_params(training__epochs=8, search__cv=2),
    "generative": lambda: GenerativeClassifier("stacked"),
    "soft-labels": lambda: SoftLabelClassifier(LogisticRegression(), GenLabelSampler("gaussian")),
    "genmix": lambda: GenMix("gaussian", n_aug=20),
    "sampler": lambda: GenLabelSampler("kernel", n_aug=20),
    **{f"density-{name}": lambda name=name: DENSITIES.create(name).set_params(**SHORT.get(name, {}))
       for name in DENSITIES.names() if name != "stacked"},
}  # fmt: skip


def measure(name: str, fits: int) -> dict[str, float]:
    """Return the slopes over fits and predictions in this process, and its memory at the end."""
    warnings.simplefilter("ignore")
    used = np.empty((fits, 3))
    for number in range(fits):
        X, y = make_table(f"{100 + number % 10}x5x3")
        estimator = ESTIMATORS[name]()
        if hasattr(estimator, "fit_resample"):
            estimator.fit_resample(X, y)
        else:
            estimator.fit(X, y)
            getattr(estimator, "predict_proba", getattr(estimator, "log_prob", None))(X)
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        folders = "/proc/self/task", "/proc/self/fd"
        used[number] = pages * os.sysconf("SC_PAGE_SIZE") / 1e6, *(len(os.listdir(folder)) for folder in folders)
    half = fits // 2
    slopes = 100 * np.polyfit(np.arange(half, fits), used[half:], 1)[0]
    return dict(zip(("memory", "threads", "descriptors"), slopes, strict=True)) | {"end": used[-1, 0]}


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--fits", type=int, default=500, help="fits of each estimator")
    parser.add_argument("--only", nargs="+", choices=ESTIMATORS, default=list(ESTIMATORS), help="estimators")
    parser.add_argument("--one", nargs=2, metavar=("NAME", "FITS"), help="measure one estimator in this process")
    args = parser.parse_args()
    if args.one:
        print(json.dumps(measure(args.one[0], int(args.one[1]))))
        return
    print("| estimator | fits | MB at the end | MB | threads | descriptors |\n|---|---:|---:|---:|---:|---:|")
    for name in args.only:
        result = run_in_process(__file__, name, str(args.fits))
        if "failure" in result:
            print(f"| {name} | {result['failure']} |", flush=True)
            continue
        slopes = [f"{result[key]:+.2f}" for key in ("memory", "threads", "descriptors")]
        row = [name, str(args.fits), f"{result['end']:.0f}", *slopes]
        print(f"| {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main()
