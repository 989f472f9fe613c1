"""Compare mixers with linear, generative and automatic labels on tables of OpenML: log-loss and accuracy.

    python benchmarks/mixers.py [--tables 40] [--splits 2] [--data-home FOLDER] [--json FILE]

The tables are the first of the data home with at least `--min-rows` rows. Each split has 60 % of the rows for training,
20 % for validation and 20 % for the test. A network with two hidden layers of 64 units is trained by Adam for 100
epochs with each mixer, as it is registered, and each of three learning rates. Validation log-loss chooses among the
candidates: with "linear" labels the learning rate, with "generative" labels (gamma = 1, the stacked density of the
training rows) too, and with "auto" both the learning rate and gamma from 0, 0.25, 0.5, 0.75 and 1. "no mixing" is the
same network without a mixer, "density alone" the posterior of the stacked density. Printed are, for each mixer and kind
of labels, the means over the tables of test log-loss and accuracy, the mean rank by log-loss, and wins and losses
against "no mixing" (a difference below 0.005 is a tie).
"""

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from common import add_data_home, dataset_ids
from numpy.typing import NDArray
from scipy.stats import rankdata
from sklearn.model_selection import train_test_split

from genlabel import GenLabel, LinearLabel, StackedDensity
from genlabel.data.datasets import load_openml
from genlabel.data.tables.table import drop_rare_classes
from genlabel.labeling import Labeler
from genlabel.metrics import accuracy, log_loss
from genlabel.registry import MIXERS
from genlabel.training.batching import Hyperparameters, TrainingTask
from genlabel.training.fleet_trainer import train_fleet

NAMES = (
    "mixup", "manifold", "k-mixup", "similarity-mixup", "local-mixup", "same-class", "feat-mix", "regmixup"
)  # fmt: skip
RATES, GAMMAS = (0.01, 0.003, 0.001), (0.0, 0.25, 0.5, 0.75, 1.0)
HIDDEN, EPOCHS, TIE = (64, 64), 100, 0.005
KINDS = {"linear": (0.0,), "generative": (1.0,), "auto": GAMMAS}


def encode(number: int, data_home: Path | None) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return the points, with categories as indicators and gaps as medians, and the class indices of a table."""
    import pandas as pd

    table = drop_rare_classes(load_openml(number, data_home))
    frame = pd.get_dummies(table.X, dummy_na=False).astype(np.float64)
    frame = frame.fillna(frame.median()).fillna(0.0)
    return frame.to_numpy(), np.unique(table.y.to_numpy(), return_inverse=True)[1]


def split_rows(X: NDArray[np.float64], y: NDArray[np.int64], seed: int) -> list[tuple[NDArray[np.float64], Any]]:
    """Return standardized rows for training, validation and test."""
    rest, test = train_test_split(np.arange(len(y)), test_size=0.2, stratify=y, random_state=seed)
    train, valid = train_test_split(rest, test_size=0.25, stratify=y[rest], random_state=seed)
    mean, scale = X[train].mean(0), X[train].std(0)
    Z = (X - mean) / np.where(scale > 0.0, scale, 1.0)
    return [(Z[rows], y[rows]) for rows in (train, valid, test)]


def measure(X: NDArray[np.float64], y: NDArray[np.int64], seed: int) -> dict[str, dict[str, float]]:
    """Return test log-loss and accuracy of every mixer with every kind of labels on a split."""
    train, valid, test = split_rows(X, y, seed)
    k = int(y.max()) + 1
    generative = GenLabel(StackedDensity()).fit(*train)
    labelers: tuple[Labeler, ...] = (LinearLabel().fit(*train), generative)
    results = {"density alone": scores(generative.log_posterior(test[0]), test[1])}
    for name in ("no mixing", *NAMES):
        is_mixed = name != "no mixing"
        gammas = GAMMAS if is_mixed else (0.0,)
        mixer = MIXERS.create(name) if is_mixed else None
        if name == "manifold":  # labels need mixed inputs there
            gammas = (0.0,)
        used = labelers if len(gammas) > 1 else labelers[:1]
        candidates = [
            Hyperparameters(rate, label=(1.0 - gamma, gamma)[: len(used)]) for rate in RATES for gamma in gammas
        ]
        task = TrainingTask(*train, k, used, mixer, seed=seed)
        fleet = train_fleet([task], candidates, hidden=HIDDEN, epochs=EPOCHS)
        on_valid, on_test = fleet.log_proba(0, valid[0]), fleet.log_proba(0, test[0])
        for kind, allowed in KINDS.items():
            indices = [i for i, (_, gamma) in enumerate((r, g) for r in RATES for g in gammas) if gamma in allowed]
            if not indices or (len(allowed) > 1 and len(gammas) == 1):
                continue
            best = min(indices, key=lambda i: log_loss(on_valid[i], valid[1]))
            results[f"{name}, {kind}" if is_mixed else name] = scores(on_test[best], test[1])
    return results


def scores(log_proba: NDArray[np.float64], y: NDArray[np.int64]) -> dict[str, float]:
    """Return log-loss and accuracy."""
    return {"log_loss": float(log_loss(log_proba, y)), "accuracy": float(accuracy(log_proba, y))}


def print_table(results: dict[str, dict[str, dict[str, float]]]) -> None:
    """Print a row for each mixer and kind of labels, best mean rank first."""
    methods = list(next(iter(results.values())))
    losses = np.array([[table[method]["log_loss"] for method in methods] for table in results.values()])
    accuracies = np.array([[table[method]["accuracy"] for method in methods] for table in results.values()])
    ranks = rankdata(losses, axis=1).mean(0)
    difference = losses - losses[:, [methods.index("no mixing")]]
    print(f"{len(results)} tables\n| method | log-loss | accuracy (%) | mean rank | wins | ties | losses |")
    print("|---|--:|--:|--:|--:|--:|--:|")
    for i in np.argsort(ranks):
        wins, defeats = int((difference[:, i] < -TIE).sum()), int((difference[:, i] > TIE).sum())
        counts = f"{wins} | {len(losses) - wins - defeats} | {defeats}"
        mean = f"{losses[:, i].mean():.3f} | {100.0 * accuracies[:, i].mean():.2f}"
        print(f"| {methods[i]} | {mean} | {ranks[i]:.1f} | {counts} |")


def main() -> None:
    """Measure each table, save the results so far, and print the table of means."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", type=int, default=40)
    parser.add_argument("--splits", type=int, default=2)
    parser.add_argument("--min-rows", type=int, default=300)
    parser.add_argument("--json", type=Path)
    add_data_home(parser)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    results: dict[str, dict[str, dict[str, float]]] = {}
    if arguments.json and arguments.json.exists():
        results = json.loads(arguments.json.read_text())
    numbers = dataset_ids(arguments.data_home, max_features=60, min_rows=arguments.min_rows, max_rows=1500)
    for number in numbers[: arguments.tables]:
        if str(number) in results:
            continue
        X, y = encode(number, arguments.data_home)
        runs = [measure(X, y, seed) for seed in range(arguments.splits)]
        results[str(number)] = {
            method: {metric: float(np.mean([run[method][metric] for run in runs])) for metric in runs[0][method]}
            for method in runs[0]
        }
        print(f"{number}: {len(y)} rows, {X.shape[1]} columns", flush=True)
        if arguments.json:
            arguments.json.write_text(json.dumps(results, indent=1))
    print_table(results)


if __name__ == "__main__":
    main()
