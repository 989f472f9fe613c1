"""The model card: what a kept model was fitted to, what was chosen, how good it was, and when not to use it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from genlabel.estimators.classifier import ProbabilityClassifier
from genlabel.persistence.schema import Schema

FEW = 20
"""Rows of a class below which its probabilities rest on next to nothing."""
SHOWN = 30
"""Columns and classes that a card lists at most."""
LITTLE = 0.02
"""A gain on the log-loss of the class shares, as a share of it, that is next to none."""
SPECIAL = re.compile(r"([\\`*_{}\[\]<>()#+!|~-])")


def describe(classifier: ProbabilityClassifier, schema: Schema, notes: Sequence[str] = ()) -> dict[str, Any]:
    """Return what there is to say of a fitted classifier, as JSON holds it.

    >>> from sklearn.datasets import load_iris
    >>> from genlabel import GenerativeClassifier
    >>> model = GenerativeClassifier().fit(*load_iris(return_X_y=True))
    >>> found = describe(model, Schema.of(model))
    >>> found["kind"], found["columns"], found["class_count"], found["guess"]["accuracy"]
    ('GenerativeClassifier', 4, {'0': 50, '1': 50, '2': 50}, 0.3333333333333333)
    """
    count = classifier.class_count_
    # The frequencies by which the search judges, in which class weights count.
    share = np.exp(getattr(classifier, "log_prior_", np.log(count / count.sum())))
    return {
        "kind": type(classifier).__name__,
        "columns": len(schema.columns),
        "class_count": dict(zip(map(str, classifier.classes_.tolist()), count.tolist(), strict=True)),
        "chosen": {name: str(value) for name, value in getattr(classifier, "best_params_", {}).items()},
        "held_out": _held_out(classifier),
        "guess": {"log_loss": float(-share @ np.log(share)), "accuracy": float(share.max())},
        "knows_support": hasattr(classifier, "typicality_"),
        "notes": [str(note) for note in notes],
    }


def write_card(about: Mapping[str, Any], schema: Schema) -> str:
    """Return the card in Markdown; names and notes of the user are escaped.

    >>> from sklearn.datasets import load_iris
    >>> from genlabel import GenerativeClassifier
    >>> model = GenerativeClassifier().fit(*load_iris(return_X_y=True))
    >>> schema = Schema.of(model)
    >>> print(write_card(describe(model, schema), schema).splitlines()[0])
    # A GenerativeClassifier for 3 classes
    """
    parts = [
        f"# A {about['kind']} for {len(about['class_count'])} classes",
        "Kept by [genlabel](https://arxiv.org/abs/2201.02354). In a shell: `genlabel predict FOLDER table.csv`; in "
        'Python `genlabel.load_model("FOLDER").predict(table)`, where the table has the columns that are named here.',
        "## Data",
        *_data(about, schema),
        "## What was chosen",
        _bullets(f"{_safe(name)}: {_safe(value)}" for name, value in about["chosen"].items()) or "Nothing: no search.",
        "## How good it is",
        *_quality(about),
        "## When not to use it",
        _bullets(_warnings(about, schema)),
        "## What the files hold",
        "`model.safetensors` and `model.json`, which check each other; no code. Class densities and the support keep "
        "rows of the training table where they are kernels, and intervals the classes of held-out rows: do not pass "
        "the files on where the table must not go.",
        *([f"Not kept, and of no account for what it predicts: {_left_out(about)}."] if about.get("left_out") else []),
        *(["## Notes", _bullets(map(_safe, about["notes"]))] if about["notes"] else []),
    ]
    return "\n\n".join(parts) + "\n"


def _held_out(classifier: ProbabilityClassifier) -> dict[str, float] | None:
    """Log-loss and accuracy on rows that were held out in the search; None if there was no search."""
    report = getattr(getattr(classifier, "density_", None), "report_", None)
    if report is not None:
        return {"log_loss": float(report["log_loss"]), "accuracy": float(report["accuracy"])}
    results, place = getattr(classifier, "cv_results_", {}), getattr(classifier, "best_index_", 0)
    for kind in ("pooled_", ""):
        loss, score = (results.get(f"mean_test_{kind}{name}") for name in ("log_loss", "score"))
        if loss is not None and score is not None:
            return {"log_loss": float(loss[place]), "accuracy": float(score[place])}
    return None


def _data(about: Mapping[str, Any], schema: Schema) -> list[str]:
    count = about["class_count"]
    total = sum(count.values())
    rows = [f"| {_safe(name)} | {n} | {n / total:.1%} |" for name, n in list(count.items())[:SHOWN]]
    columns = [
        f"{_safe(c.name)} ({c.kind}{f', {len(c.categories)} values' if c.categories else ''})" for c in schema.columns
    ]
    return [
        f"{total} rows, {about['columns']} columns: {', '.join(columns[:SHOWN])}{_more(columns)}.",
        "\n".join(["| class | rows | share |", "|---|--:|--:|", *rows]) + _more(list(count)),
    ]


def _quality(about: Mapping[str, Any]) -> list[str]:
    held_out, guess = about["held_out"], about["guess"]
    if held_out is None:
        return ["No rows were held out: nothing is known of it. Measure it on rows that it has not seen."]
    lines = [
        f"| {name} | {of['log_loss']:.3f} | {of['accuracy']:.1%} |"
        for name, of in (("this model, held-out rows", held_out), ("the class shares alone", guess))
    ]
    return [
        "\n".join(["| | log-loss | accuracy |", "|---|--:|--:|", *lines]),
        "Held-out rows are those of the folds of the search that chose it, so that these figures flatter a little; "
        "they are of the choice before its last calibration. New rows from elsewhere, or from later, may do worse.",
    ]


def _warnings(about: Mapping[str, Any], schema: Schema) -> list[str]:
    held_out, guess, found = about["held_out"], about["guess"]["log_loss"], []
    if held_out is not None and not held_out["log_loss"] < (1.0 - LITTLE) * guess:
        found.append("**At all**: on held-out rows it says next to nothing beyond the class shares.")
    few = [name for name, n in about["class_count"].items() if n < FEW]
    if few:
        listed = ", ".join(map(_safe, few[:SHOWN])) + _more(few)
        found.append(f"Where these classes matter, of which it has seen fewer than {FEW} rows each: {listed}.")
    found.append(
        "For rows unlike those of training: where `typicality` is 0.05 or less, look at the row first."
        if about["knows_support"]
        else "For rows unlike those of training: it cannot tell them (`fit_typicality` before saving would)."
    )
    if any(column.categories for column in schema.columns):
        found.append("For values of a text column that it has never seen: they count as none, or as rare ones.")
    return [*found, "Where what decides changes with time, or was learned from columns that are not known in time."]


def _left_out(about: Mapping[str, Any]) -> str:
    return ", ".join(f"{_safe(name)} = {_safe(value)}" for name, value in about["left_out"].items())


def _bullets(lines: Iterable[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)


def _more(items: Sequence[Any]) -> str:
    return f" and {len(items) - SHOWN} more" if len(items) > SHOWN else ""


def _safe(text: Any) -> str:
    """Text of a user, in one line, with nothing in it that Markdown or HTML would act on."""
    return SPECIAL.sub(r"\\\1", " ".join(str(text).split())).replace("&", "&amp;")
