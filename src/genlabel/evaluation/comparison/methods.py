"""The methods of a comparison: networks with and without mixing, what is held against them, and the class shares."""

from __future__ import annotations

from typing import Any

from sklearn.dummy import DummyClassifier
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from genlabel.estimators import GenerativeClassifier, GenLabelClassifier, MixupClassifier
from genlabel.model_selection import TrainingOptions

PRIOR_BASELINE = "class shares"
"""The method that does not look at the features: its accuracy is the majority rate."""


def default_methods(
    network: Any = "mlp", density: str = "stacked", epochs: Any = "auto", paper: bool = False
) -> dict[str, Any]:
    """Return the methods of a comparison; those with a network have the same one.

    Parameters
    ----------
    network : "auto", "logistic", "mlp" or sequence of int
    density : "stacked", "gaussian", "kernel", "mixture", "forest", "flow", "vae", "gan" or "auto"
        "auto" lets GenLabel choose by cross-validation, and lists a generative classifier for each of the two.
    epochs : "auto" or int
    paper : bool
        Also GenLabel and mixup in the setting of the paper, whose grids take about ten times as long.

    Examples
    --------
    >>> list(default_methods(density="auto"))
    ['vanilla', 'mixup', 'GenLabel', 'generative (gaussian)', 'generative (kernel)', 'logistic', 'boosting',
     'class shares']
    """
    common = {"network": network, "training": TrainingOptions(epochs=epochs)}
    names = ("gaussian", "kernel") if density == "auto" else (density,)
    alone = density if density == "stacked" else "generative"
    generative = {
        alone if len(names) == 1 else f"{alone} ({name})": GenerativeClassifier(density=name) for name in names
    }
    return {
        "vanilla": MixupClassifier(mixer=None, **common),
        "mixup": MixupClassifier(**common),
        "GenLabel": GenLabelClassifier(density=density, **common),
        **(_paper_methods(network, epochs) if paper else {}),
        **generative,
        "logistic": make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000)),
        "boosting": HistGradientBoostingClassifier(),
        PRIOR_BASELINE: DummyClassifier(strategy="prior"),
    }


def _paper_methods(network: Any, epochs: Any) -> dict[str, Any]:
    """Return the methods in the paper's setting, with its network and its epochs in the place of "auto"."""
    given: dict[str, Any] = {
        "network": "mlp" if isinstance(network, str) and network == "auto" else network,
        "training__epochs": 100 if isinstance(epochs, str) and epochs == "auto" else epochs,
    }
    return {
        "mixup (paper)": MixupClassifier.from_paper(**given),
        "GenLabel (paper)": GenLabelClassifier.from_paper(**given),
    }
