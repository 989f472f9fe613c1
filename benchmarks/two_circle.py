"""Measure accuracy on Two-circle with the paper's network and schedule: no mixup, mixup and GenLabel with kernels."""

import numpy as np

from genlabel import GenLabelClassifier, KernelDensity, Mixup, MixupClassifier, TrainingOptions
from genlabel.data.datasets.synthetic import make_two_circle

SEEDS = 5
# arXiv Table 10: four-layer network, SGD, momentum 0.9, weight decay 1e-4, batch 128, 100 epochs, rate 0.1.
TRAINING = TrainingOptions(
    optimizer="sgd", learning_rate=0.1, weight_decay=1e-4, epochs=100, standardize=False, device="cpu"
)
PRINTED = {"vanilla": "91.25 +- 8.14", "mixup": "57.70 +- 2.94"}  # arXiv Table 1


def methods(seed: int) -> dict[str, MixupClassifier | GenLabelClassifier]:
    settings = {"network": (64, 128, 128), "training": TRAINING, "search__restore_best": False, "random_state": seed}
    kernels = {"Scott": KernelDensity(), "likelihood": KernelDensity("likelihood")}
    return {
        "vanilla": MixupClassifier.from_paper(mixer=None, **settings),
        "mixup": MixupClassifier.from_paper(mixer=Mixup(lam_per="batch"), **settings),
        **{
            f"GenLabel, kernel ({name})": GenLabelClassifier.from_paper(density=density, gamma=1.0, **settings)
            for name, density in kernels.items()
        },
    }


def main() -> None:
    """Print the accuracy on new points after the last epoch, mean and standard deviation over the seeds."""
    scores: dict[str, list[float]] = {}
    for seed in range(SEEDS):
        X, y = make_two_circle(random_state=seed)
        X_test, y_test = make_two_circle(random_state=1000 + seed)
        for name, model in methods(seed).items():
            scores.setdefault(name, []).append(100 * model.fit(X, y).score(X_test, y_test))
    for name, values in scores.items():
        printed = f"paper: {PRINTED.get(name, 'not printed')}"
        print(f"{name:>27}: {np.mean(values):6.2f} +- {np.std(values):5.2f} %  ({SEEDS} seeds; {printed})", flush=True)


if __name__ == "__main__":
    main()
