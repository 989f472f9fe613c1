"""Measure the CPU time of a fleet that keeps the best epoch, scored every epoch or every fifth."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from time import process_time

import numpy as np

from genlabel._runtime import one_thread
from genlabel.densities import GaussianDensity
from genlabel.labeling import GenLabel, LinearLabel
from genlabel.mixing import Mixup
from genlabel.training.batching import Hyperparameters, TrainingTask
from genlabel.training.early_stopping import BestEpoch
from genlabel.training.fleet_trainer import train_fleet

SIZES = {
    "softmax, 100 x 4": (100, 4, (), 100),
    "softmax, 1,000 x 10": (1000, 10, (), 100),
    "network, 100 x 4": (100, 4, (128, 128), 30),
    "network, 600 x 20": (600, 20, (128, 128), 15),
}
"""Rows, features, hidden layers and epochs."""
RESTORE_BEST: dict[str, bool | BestEpoch] = {
    "last": False,
    "every fifth epoch": BestEpoch(every=5),
    "every epoch": True,
}
CANDIDATES = [
    Hyperparameters(rate, label=(1.0 - gamma, gamma))
    for rate in (0.1, 0.01, 0.001, 0.0001)
    for gamma in np.linspace(0, 1, 6)
]
FOLDS = 6


def make_tasks(rows: int, features: int) -> list[TrainingTask]:
    """Return the folds of a search as training tasks."""
    rng = np.random.default_rng(0)
    y = np.arange(rows) % 3
    X = rng.normal(size=(rows, features)) + np.eye(features)[y]
    tasks = []
    for fold in range(FOLDS):
        valid = np.arange(rows) % FOLDS == fold
        train = X[~valid], y[~valid]
        labelers = (LinearLabel().fit(*train), GenLabel(GaussianDensity()).fit(*train))
        tasks.append(
            TrainingTask(*train, 3, labelers, Mixup(lam_per="batch"), seed=[0, fold], valid=(X[valid], y[valid]))
        )
    return tasks


def measure(tasks: Sequence[TrainingTask], hidden: tuple[int, ...], epochs: int, times: int) -> dict[str, float]:
    """Return the least CPU seconds with each value of `restore_best`; their runs take turns."""
    seconds: dict[str, list[float]] = {name: [] for name in RESTORE_BEST}
    for _ in range(times):
        for name, restore_best in RESTORE_BEST.items():
            begin = process_time()
            train_fleet(tasks, CANDIDATES, hidden=hidden, epochs=epochs, restore_best=restore_best)
            seconds[name].append(process_time() - begin)
    return {name: min(result) for name, result in seconds.items()}


def main() -> None:
    """Print a line for each size: the extra time in percent of a fleet that keeps the last epoch."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=5, help="runs of each; the shortest counts")
    times = parser.parse_args().times
    with one_thread():
        for name, (rows, features, hidden, epochs) in SIZES.items():
            result = measure(make_tasks(rows, features), hidden, epochs, times)
            last = result.pop("last")
            percent = {when: 100.0 * (seconds / last - 1.0) for when, seconds in result.items()}
            print(f"{name:<22}", *(f"{when}: {value:+.0f} %" for when, value in percent.items()), sep="  ")


if __name__ == "__main__":
    main()
