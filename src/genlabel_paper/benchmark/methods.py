"""The methods of the suite: GenLabel as it comes and as in the paper, and what it is held against."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def _default(**network: Any) -> Any:
    from genlabel import GenLabelClassifier

    return GenLabelClassifier(**network)


def _paper(**network: Any) -> Any:
    from genlabel import GenLabelClassifier

    return GenLabelClassifier.from_paper(**_as_printed(network))


def _paper_mixup(**network: Any) -> Any:
    from genlabel import MixupClassifier

    return MixupClassifier.from_paper(**_as_printed(network))


def _as_printed(network: dict[str, Any]) -> dict[str, Any]:
    """The paper's network for tables, and its epochs, where "auto" leaves the choice."""
    printed = {"network": "mlp", "epochs": 100}
    auto = {name for name, value in network.items() if isinstance(value, str) and value == "auto"}
    return {name: printed[name] if name in auto else value for name, value in network.items()}


def _vanilla(**network: Any) -> Any:
    from genlabel import MixupClassifier

    return MixupClassifier(mixer=None, **network)


def _mixup(**network: Any) -> Any:
    from genlabel import MixupClassifier

    return MixupClassifier(**network)


def _label_model(**_: Any) -> Any:
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
    "stacked density": _label_model,
    "logistic": _logistic,
    "boosting": _boosting,
}
"""What makes each method, for a network and a number of epochs; what it is made of is imported then."""


def default_suite(network: Any = "mlp", epochs: Any = "auto") -> dict[str, Any]:
    """Return the methods of the suite.

    Parameters
    ----------
    network : "auto", "logistic", "mlp" or sequence of int
        Of "default", "vanilla" and "mixup", which search alike, and of "paper" and "paper mixup", in whose setting
        "auto" is "mlp".
    epochs : "auto" or int
        "auto" is what each has by default.

    Examples
    --------
    >>> list(default_suite())
    ['default', 'paper', 'vanilla', 'mixup', 'paper mixup', 'stacked density', 'logistic', 'boosting']
    """
    return {name: make(network=network, epochs=epochs) for name, make in METHODS.items()}
