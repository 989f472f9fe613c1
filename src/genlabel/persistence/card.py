"""Model card: the data of a saved model, its chosen parameters, its held-out scores, and when not to use it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, select_autoescape

from genlabel._text import count_of
from genlabel.estimators.classifier import ProbabilityClassifier
from genlabel.estimators.typicality import TYPICALITY_THRESHOLD
from genlabel.metrics import rarely_found
from genlabel.persistence.schema import Schema

MIN_CLASS_ROWS = 20
"""Number of rows of a class below which the card warns about its probabilities."""
MAX_LISTED = 30
"""Largest number of columns, and of classes, that a card lists."""
MIN_GAIN = 0.02
"""Relative gain in log-loss over the class priors below which the card warns about the model."""
SPECIAL_CHARACTERS = re.compile(r"([\\`*_{}\[\]<>()#+!|~-])")


def describe_model(
    classifier: ProbabilityClassifier,
    schema: Schema,
    notes: Sequence[str] = (),
    test_scores: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the facts of a fitted classifier for its card, as JSON values.

    >>> from sklearn.datasets import load_iris
    >>> from genlabel import GenerativeClassifier
    >>> model = GenerativeClassifier().fit(*load_iris(return_X_y=True))
    >>> describe_model(model, Schema.of(model))["class_count"]
    {'0': 50, '1': 50, '2': 50}
    """
    count = classifier.class_count_
    class_count = dict(zip(map(str, classifier.classes_.tolist()), count.tolist(), strict=True))
    return {
        "kind": type(classifier).__name__,
        "columns": len(schema.columns),
        "class_count": class_count,
        "chosen": {name: str(value) for name, value in getattr(classifier, "best_params_", {}).items()},
        "test_scores": None if test_scores is None else dict(test_scores),
        "rarely_found": rarely_found((test_scores or {}).get("recall", {}), class_count),
        "held_out": fold_scores(classifier),
        "costs": getattr(classifier, "costs_", np.array([])).tolist(),
        "prior_baseline": prior_scores(classifier),
        "has_typicality": hasattr(classifier, "typicality_"),
        "notes": [str(note) for note in notes],
    }


def fold_scores(classifier: ProbabilityClassifier) -> dict[str, float] | None:
    """Return log-loss and accuracy on the rows that the folds of a fit held out; None if there were no folds.

    >>> from sklearn.datasets import load_iris
    >>> from genlabel import GenerativeClassifier
    >>> fold_scores(GenerativeClassifier("stacked").fit(*load_iris(return_X_y=True)))["accuracy"] > 0.9
    True
    """
    results, index = getattr(classifier, "cv_results_", {}), getattr(classifier, "best_index_", 0)
    kind = "pooled_" if "mean_test_pooled_log_loss" in results else ""
    report = getattr(getattr(classifier, "density_", None), "report_", None)
    if f"mean_test_{kind}log_loss" in results:
        loss, accuracy = (results[f"mean_test_{kind}{name}"][index] for name in ("log_loss", "score"))
        return {"log_loss": float(loss), "accuracy": float(accuracy)}
    return None if report is None else {name: float(report[name]) for name in ("log_loss", "accuracy")}


def prior_scores(classifier: ProbabilityClassifier) -> dict[str, float]:
    """Return log-loss and accuracy of the class priors, in which the class weights of a search count."""
    count = classifier.class_count_
    prior = np.exp(getattr(classifier, "log_prior_", np.log(count / count.sum())))
    return {"log_loss": float(-prior @ np.log(prior)), "accuracy": float(prior.max())}


def write_card(about: Mapping[str, Any], schema: Schema) -> str:
    """Return the card in Markdown; names and notes of the user are escaped."""
    environment = Environment(
        loader=PackageLoader("genlabel.persistence"), autoescape=select_autoescape(), keep_trailing_newline=True
    )
    environment.filters |= {"md": _escape, "zip": zip, "count_of": count_of}
    limits = {"max_listed": MAX_LISTED, "min_class_rows": MIN_CLASS_ROWS, "min_gain": MIN_GAIN}
    limits["typicality_threshold"] = TYPICALITY_THRESHOLD
    return environment.get_template("card.j2").render(about, schema=schema, **limits)


def _escape(text: Any) -> str:
    """Return text of a user in one line, with the special characters of Markdown and HTML escaped."""
    return SPECIAL_CHARACTERS.sub(r"\\\1", " ".join(str(text).split())).replace("&", "&amp;")
