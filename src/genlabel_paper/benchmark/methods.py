"""Methods of the benchmark: GenLabel by default and as in the paper, and simpler classifiers to compare with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def _default(network: Any, epochs: Any) -> Any:
    from genlabel import GenLabelClassifier, TrainingOptions

    return GenLabelClassifier(network, training=TrainingOptions(epochs=epochs))


def _paper(network: Any, epochs: Any) -> Any:
    from genlabel import GenLabelClassifier

    return GenLabelClassifier.from_paper(**_paper_network(network, epochs))


def _paper_mixup(network: Any, epochs: Any) -> Any:
    from genlabel import MixupClassifier

    return MixupClassifier.from_paper(**_paper_network(network, epochs))


def _paper_network(network: Any, epochs: Any) -> dict[str, Any]:
    """Replace "auto" by the paper's network and epochs for tables; the records keep the last epoch."""
    return {
        "search__restore_best": False,
        "network": "mlp" if isinstance(network, str) and network == "auto" else network,
        "training__epochs": 100 if isinstance(epochs, str) and epochs == "auto" else epochs,
    }


def _vanilla(network: Any, epochs: Any) -> Any:
    from genlabel import MixupClassifier, TrainingOptions

    return MixupClassifier(network, mixer=None, training=TrainingOptions(epochs=epochs))


def _mixup(network: Any, epochs: Any) -> Any:
    from genlabel import MixupClassifier, TrainingOptions

    return MixupClassifier(network, training=TrainingOptions(epochs=epochs))


def _stacked_density(**_: Any) -> Any:
    from genlabel import GenerativeClassifier

    return GenerativeClassifier(density="stacked")


def _logistic(**_: Any) -> Any:
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000))


def _boosting(**_: Any) -> Any:
    from sklearn.ensemble import HistGradientBoostingClassifier

    return HistGradientBoostingClassifier()


METHODS: dict[str, Callable[..., Any]] = {
    "default": _default,
    "paper": _paper,
    "vanilla": _vanilla,
    "mixup": _mixup,
    "paper mixup": _paper_mixup,
    "stacked density": _stacked_density,
    "logistic": _logistic,
    "boosting": _boosting,
}
"""Constructors by name; they take `network` and `epochs`, and import their packages when called."""


def default_methods(network: Any = "mlp", epochs: Any = "auto") -> dict[str, Any]:
    """Return the methods of the benchmark.

    Parameters
    ----------
    network : "auto", "logistic", "mlp" or sequence of int
        Network of all methods that train one; "paper" and "paper mixup" read "auto" as "mlp".
    epochs : "auto" or int
        Training epochs; "auto" is the default of each method.

    Returns
    -------
    dict of str -> classifier

    Examples
    --------
    >>> list(default_methods())
    ['default', 'paper', 'vanilla', 'mixup', 'paper mixup', 'stacked density', 'logistic', 'boosting']
    """
    return {name: make(network=network, epochs=epochs) for name, make in METHODS.items()}
