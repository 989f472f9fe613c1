"""Cost of AdaMixup: its fit time over that of mixup, in the same run and the same grid search, on three tables.

python benchmarks/adamixup_cost.py
"""

from __future__ import annotations

from statistics import median
from time import process_time

import torch
from sklearn.datasets import load_breast_cancer, load_digits, load_wine

from genlabel import AdaMixupClassifier, GridSearch, MixupClassifier, TrainingOptions

TABLES = {"wine": load_wine, "breast cancer": load_breast_cancer, "digits": load_digits}
ROUNDS = 3


def main() -> None:
    """Print a line for each network and table."""
    torch.set_num_threads(1)
    print("network   table          rows  mixup s  AdaMixup s  ratio")
    for network in ("logistic", "mlp"):
        options = {
            "search": GridSearch(cv=6, scoring="accuracy"),
            "training": TrainingOptions(epochs=100, weight_decay=1e-4),
            "random_state": 0,
        }
        models = {
            "mixup": MixupClassifier(network, clean_fraction=0.0, calibrate=False, **options),
            "adamixup": AdaMixupClassifier(network, **options),
        }
        for name, load in TABLES.items():
            X, y = load(return_X_y=True)
            seconds: dict[str, list[float]] = {key: [] for key in models}
            for _ in range(ROUNDS):  # alternately, so that a busy machine slows both
                for key, model in models.items():
                    start = process_time()
                    model.fit(X, y)
                    seconds[key].append(process_time() - start)
            mixup, adamixup = (median(seconds[key]) for key in models)
            print(f"{network:<9} {name:<13} {len(X):>5} {mixup:>8.2f} {adamixup:>11.2f} {adamixup / mixup:>6.1f}")


if __name__ == "__main__":
    main()
