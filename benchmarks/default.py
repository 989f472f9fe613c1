"""Measure a fit of the default with its stacked density and search, against the search of tuned mixup."""

from typing import Any

from common import alternate
from sklearn.datasets import load_wine, make_classification

from genlabel import GenLabelClassifier, MixupClassifier


def compare(name: str, X: Any, y: Any, network: str, goal: str) -> None:
    """Measure whole fits of both, with their own default search, in turn."""
    settings = {"network": network, "training__device": "cpu", "random_state": 0}
    default, mixup = GenLabelClassifier().set_params(**settings), MixupClassifier().set_params(**settings)
    slow, fast = alternate(lambda: default.fit(X, y), lambda: mixup.fit(X, y), repeats=3)
    print(
        f"{name} (n={len(X)}, d={X.shape[1]}), {network}: default {slow:.2f} s, mixup {fast:.2f} s: "
        f"{slow / fast:.2f} times ({goal})",
        flush=True,
    )


def main() -> None:
    for n, d in ((140, 5), (340, 14), (1000, 20)):
        X, y = make_classification(n, d, n_informative=4, n_redundant=0, random_state=0)
        compare("synthetic", X, y, "mlp", "goal: at most 3")
    compare("wine", *load_wine(return_X_y=True), "mlp", "goal: at most 3")
    compare("wine", *load_wine(return_X_y=True), "logistic", "no goal")


if __name__ == "__main__":
    main()
