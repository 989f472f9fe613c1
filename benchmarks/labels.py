"""Measure training of a fleet with generative labels against the same fleet with mixup's labels."""

import numpy as np
from common import alternate
from numpy.typing import NDArray
from sklearn.datasets import load_wine, make_classification
from sklearn.model_selection import StratifiedKFold
from sklearn.preprocessing import StandardScaler

from genlabel import GaussianDensity, GenLabel, KernelDensity, LinearLabel, Mixup
from genlabel.densities import ClassDensity
from genlabel.training.batching import Hyperparameters, TrainingTask
from genlabel.training.fleet_trainer import train_fleet

RATES, GAMMAS = (0.1, 0.01, 0.001, 0.0001), (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)


def train(X: NDArray[np.float64], y: NDArray[np.int64], density: ClassDensity | None) -> None:
    """Fit the labelers of six folds and train 24 candidates on each, 144 models, 100 epochs."""
    tasks, shares = [], [(1.0,)] * 6 if density is None else [(1 - gamma, gamma) for gamma in GAMMAS]
    for fold, (rows, _) in enumerate(StratifiedKFold(6, shuffle=True, random_state=0).split(X, y)):
        labelers = [LinearLabel()] if density is None else [LinearLabel(), GenLabel(density)]
        fitted = tuple(labeler.fit(X[rows], y[rows]) for labeler in labelers)
        tasks.append(TrainingTask(X[rows], y[rows], int(y.max()) + 1, fitted, Mixup(), seed=fold))
    train_fleet(tasks, [Hyperparameters(rate, label=share) for rate in RATES for share in shares])


def compare(name: str, X: NDArray[np.float64], y: NDArray[np.int64], density: ClassDensity, goal: str) -> None:
    X = StandardScaler().fit_transform(X)
    slow, fast = alternate(lambda: train(X, y, density), lambda: train(X, y, None), repeats=5)
    print(
        f"{name} (n={len(X)}), 144 models, {type(density).__name__}: {slow:.3f} s, mixup {fast:.3f} s: "
        f"{slow / fast:.2f} times ({goal})",
        flush=True,
    )


def main() -> None:
    wine = load_wine(return_X_y=True)
    thousand = make_classification(1000, 10, n_informative=6, n_redundant=0, random_state=0)
    compare("wine", *wine, GaussianDensity(), "goal: at most 1.25")
    compare("synthetic", *thousand, GaussianDensity(), "goal: at most 1.25")
    compare("wine", *wine, KernelDensity(), "no goal")
    compare("synthetic", *thousand, KernelDensity(), "goal: at most 3")


if __name__ == "__main__":
    main()
