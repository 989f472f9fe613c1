"""Model card: the data of a saved model, its chosen parameters, its held-out scores, and when not to use it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from typing import Any

import numpy as np

from genlabel.estimators.classifier import ProbabilityClassifier
from genlabel.persistence.schema import Schema

MIN_CLASS_ROWS = 20
"""Number of rows of a class below which the card warns about its probabilities."""
MAX_LISTED = 30
"""Largest number of columns, and of classes, that a card lists."""
MIN_GAIN = 0.02
"""Relative gain in log-loss over the class priors below which the card warns about the model."""
SPECIAL_CHARACTERS = re.compile(r"([\\`*_{}\[\]<>()#+!|~-])")


def describe_model(classifier: ProbabilityClassifier, schema: Schema, notes: Sequence[str] = ()) -> dict[str, Any]:
    """Return the facts of a fitted classifier for its card, as JSON values.

    >>> from sklearn.datasets import load_iris
    >>> from genlabel import GenerativeClassifier
    >>> model = GenerativeClassifier().fit(*load_iris(return_X_y=True))
    >>> describe_model(model, Schema.of(model))["class_count"]
    {'0': 50, '1': 50, '2': 50}
    """
    count = classifier.class_count_
    results, index = getattr(classifier, "cv_results_", {}), getattr(classifier, "best_index_", 0)
    held_out = None
    kind = "pooled_" if "mean_test_pooled_log_loss" in results else ""
    report = getattr(getattr(classifier, "density_", None), "report_", None)
    if f"mean_test_{kind}log_loss" in results:
        loss, accuracy = (results[f"mean_test_{kind}{name}"][index] for name in ("log_loss", "score"))
        held_out = {"log_loss": float(loss), "accuracy": float(accuracy)}
    elif report is not None:
        held_out = {"log_loss": float(report["log_loss"]), "accuracy": float(report["accuracy"])}
    # Class weights count in the priors of a search.
    prior = np.exp(getattr(classifier, "log_prior_", np.log(count / count.sum())))
    return {
        "kind": type(classifier).__name__,
        "columns": len(schema.columns),
        "class_count": dict(zip(map(str, classifier.classes_.tolist()), count.tolist(), strict=True)),
        "chosen": {name: str(value) for name, value in getattr(classifier, "best_params_", {}).items()},
        "held_out": held_out,
        "prior_baseline": {"log_loss": float(-prior @ np.log(prior)), "accuracy": float(prior.max())},
        "has_typicality": hasattr(classifier, "typicality_"),
        "notes": [str(note) for note in notes],
    }


def write_card(about: Mapping[str, Any], schema: Schema) -> str:
    """Return the card in Markdown; names and notes of the user are escaped."""
    counts, held_out = about["class_count"], about["held_out"]
    total = sum(counts.values())
    columns = []
    for column in schema.columns:
        values = f", {len(column.categories)} values" if column.categories else ""
        columns.append(f"{_escape(column.name)} ({column.kind}{values})")
    classes = [f"| {_escape(name)} | {n} | {n / total:.1%} |" for name, n in list(counts.items())[:MAX_LISTED]]
    if held_out is None:
        scores = ["No rows were held out: the quality of the model is unknown. Measure it on new rows."]
    else:
        rows = (("this model, held-out rows", held_out), ("class priors alone", about["prior_baseline"]))
        lines = [f"| {name} | {score['log_loss']:.3f} | {score['accuracy']:.1%} |" for name, score in rows]
        scores = [
            "\n".join(["| | log-loss | accuracy |", "|---|--:|--:|", *lines]),
            "The held-out rows are those of the folds of the search that chose the model, so the scores are slightly "
            "optimistic; they are of the choice before its last calibration. Rows from another source, or of a later "
            "time, may have worse scores.",
        ]
    left_out = ", ".join(f"{_escape(name)} = {_escape(value)}" for name, value in about.get("left_out", {}).items())
    parts = [
        f"# A {about['kind']} for {len(counts)} classes",
        "Saved by [genlabel](https://arxiv.org/abs/2201.02354). In a shell: `genlabel predict FOLDER table.csv`; in "
        'Python `genlabel.load_model("FOLDER").predict(table)`, where the table has the columns named here.',
        "## Data",
        f"{total} rows, {about['columns']} columns: {', '.join(columns[:MAX_LISTED])}{_more(columns)}.",
        "\n".join(["| class | rows | share |", "|---|--:|--:|", *classes]) + _more(counts),
        "## Chosen parameters",
        _bullets(f"{_escape(name)}: {_escape(value)}" for name, value in about["chosen"].items())
        or "None: there was no search.",
        "## Held-out scores",
        *scores,
        "## When not to use it",
        _bullets(_warnings(about, schema)),
        "## Files",
        "`model.safetensors` and `model.json`, which check each other; they contain no code. Kernel densities and the "
        "typicality contain rows of the training table, and intervals the classes of held-out rows: do not share the "
        "files with anyone who may not see the table.",
        *([f"Not saved, and without effect on predictions: {left_out}."] if left_out else []),
        *(["## Notes", _bullets(map(_escape, about["notes"]))] if about["notes"] else []),
    ]
    return "\n\n".join(parts) + "\n"


def _warnings(about: Mapping[str, Any], schema: Schema) -> Iterator[str]:
    """Yield the cases in which the model should not be used."""
    held_out, baseline = about["held_out"], about["prior_baseline"]["log_loss"]
    if held_out is not None and not held_out["log_loss"] < (1.0 - MIN_GAIN) * baseline:
        yield "**At all**: on held-out rows it is hardly better than the class priors."
    rare = [name for name, n in about["class_count"].items() if n < MIN_CLASS_ROWS]
    if rare:
        listed = ", ".join(map(_escape, rare[:MAX_LISTED])) + _more(rare)
        yield f"Where these classes matter, which had fewer than {MIN_CLASS_ROWS} rows each: {listed}."
    if about["has_typicality"]:
        yield "For rows unlike those of training: check a row whose `typicality` is 0.05 or less."
    else:
        yield "For rows unlike those of training: it cannot detect them (call `fit_typicality` before saving)."
    if any(column.categories for column in schema.columns):
        yield "For values of a text column that are not in the training table: they count as none, or as rare."
    yield "Where the relation to the class changes over time, or was learned from columns that are not known in time."


def _bullets(lines: Iterable[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)


def _more(items: Sized) -> str:
    return f" and {len(items) - MAX_LISTED} more" if len(items) > MAX_LISTED else ""


def _escape(text: Any) -> str:
    """Return text of a user in one line, with the special characters of Markdown and HTML escaped."""
    return SPECIAL_CHARACTERS.sub(r"\\\1", " ".join(str(text).split())).replace("&", "&amp;")
