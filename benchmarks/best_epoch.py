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
    """The folds of a search."""
    rng = np.random.default_rng(0)
    y = np.arange(rows) % 3
    X = rng.normal(size=(rows, features)) + np.eye(features)[y]
    blocks = [(np.arange(rows) % FOLDS == fold) for fold in range(FOLDS)]
    tasks = []
    for fold, held in enumerate(blocks):
        train = X[~held], y[~held]
        labelers = (LinearLabel().fit(*train), GenLabel(GaussianDensity()).fit(*train))
        tasks.append(
            TrainingTask(*train, 3, labelers, Mixup(lam_per="batch"), seed=[0, fold], valid=(X[held], y[held]))
        )
    return tasks


def measure(tasks: Sequence[TrainingTask], hidden: tuple[int, ...], epochs: int, times: int) -> dict[str, float]:
    """The least CPU seconds of each way, which take turns."""
    seconds: dict[str, list[float]] = {name: [] for name in RESTORE_BEST}
    for _ in range(times):
        for name, keep in RESTORE_BEST.items():
            begin = process_time()
            train_fleet(tasks, CANDIDATES, hidden=hidden, epochs=epochs, restore_best=keep)
            seconds[name].append(process_time() - begin)
    return {name: min(result) for name, result in seconds.items()}


def main() -> None:
    """Print a line for each size: the cost of looks, in percent of a fleet that keeps the last epoch."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=5, help="runs of each, of which the shortest counts")
    times = parser.parse_args().times
    with one_thread():
        for name, (rows, features, hidden, epochs) in SIZES.items():
            result = measure(make_tasks(rows, features), hidden, epochs, times)
            more = {way: 100.0 * (seconds / result["last"] - 1.0) for way, seconds in result.items() if way != "last"}
            print(f"{name:<22}", *(f"{way}: {percent:+.0f} %" for way, percent in more.items()), sep="  ")


if __name__ == "__main__":
    main()
