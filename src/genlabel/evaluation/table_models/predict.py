"""Predictions of another table: classes, probabilities and their intervals, and how typical each row is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from genlabel.data.tables import TableReadSpec, join_names, read_frame
from genlabel.data.tables.columns import as_strings
from genlabel.evaluation.table_models.fit import PLAN
from genlabel.metrics import score_log_proba
from genlabel.persistence import LoadedModel, Schema

LOW_SUPPORT, FEW_ROWS = (0.01, 0.05), 200
"""Rows of as little support are unlike those of training; the second where a model has seen few rows.

A row that is less typical than all n of training has the support 1 / (n + 1), so that few rows cannot tell 0.01.
"""
CHUNK = 20_000
"""Rows that are asked about at once."""
SHOWN = 3
"""Values that a note shows."""


class NewRows(NamedTuple):
    """A file, read as the one that a model was fitted to.

    `NewRows.of` reads it; `predict_table` takes its X.
    """

    X: pd.DataFrame
    """What the model takes."""
    y: NDArray[np.int64] | None
    """The place of the class of each row among those of the model, -1 for none; None if there is no target."""
    notes: list[str]

    @classmethod
    def of(cls, model: LoadedModel, path: str | Path) -> NewRows:
        """Read a file for a model; one that `genlabel fit` has not written takes the columns as they are."""
        notes: list[str] = []
        if PLAN not in model.extra:
            return cls(read_frame(path, notes=notes), None, notes)
        plan = TableReadSpec.from_plain(model.extra[PLAN])
        frame = plan.read(path, notes)
        X = plan.features_of(frame, notes)
        return cls(X, plan.classes_of(frame, model.classes_), [*notes, *_strangers(model.schema, X)])


def predict_table(
    model: LoadedModel, X: pd.DataFrame, *, intervals: bool = False, on_rows: Callable[[int], None] | None = None
) -> pd.DataFrame:
    """Return what a model says of the rows of a table, in their order.

    Parameters
    ----------
    model : LoadedModel
    X : DataFrame (m, d)
        The features.
    intervals : bool
        Also the lower and the upper probability of each class.
    on_rows : callable (rows), optional
        Called with the number of rows done since the last call.

    Returns
    -------
    DataFrame (m, ...)
        prediction, probability_CLASS for each class, low_CLASS and high_CLASS if asked for, support if it is known.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from genlabel import GenerativeClassifier
    >>> from genlabel.persistence import LoadedModel, Schema
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> model = GenerativeClassifier().fit(X, y)
    >>> predict_table(LoadedModel(model, Schema.of(model)), X[99:101]).round(2)
       prediction  probability_0  probability_1  probability_2  support
    0           1            0.0            1.0            0.0     0.91
    1           2            0.0            0.0            1.0     0.17
    """
    if not len(X):
        raise ValueError("X has no rows; there is nothing to predict, give one at least")
    if intervals and not hasattr(model.classifier, "venn_abers_"):
        raise ValueError(
            f"this {type(model.classifier).__name__} has no intervals: no rows were held out in its search; leave "
            "--intervals out, or fit one of the methods with a network"
        )
    parts = []
    for start in range(0, len(X), CHUNK):
        part = X.iloc[start : start + CHUNK] if len(X) > CHUNK else X
        parts.append(_predict(model, part, intervals))
        if on_rows is not None:
            on_rows(len(part))
    return pd.concat(parts, ignore_index=True)


def is_atypical(model: LoadedModel) -> float:
    """Return the support at or below which a row is unlike those of training; of these, as large a share is.

    >>> from sklearn.datasets import load_iris
    >>> from genlabel import GenerativeClassifier
    >>> from genlabel.persistence import LoadedModel, Schema
    >>> model = GenerativeClassifier().fit(*load_iris(return_X_y=True))
    >>> is_atypical(LoadedModel(model, Schema.of(model)))  # 150 rows cannot tell 0.01
    0.05
    """
    return LOW_SUPPORT[int(model.classifier.class_count_.sum()) < FEW_ROWS]


def score_predictions(model: LoadedModel, predictions: pd.DataFrame, y: NDArray[np.int64]) -> dict[str, float]:
    """Return accuracy (percent), log-loss and more of predictions, over the rows whose class is known.

    Parameters
    ----------
    model : LoadedModel
    predictions : DataFrame (m, ...)
        As of `predict_table`.
    y : array (m,)
        Places among the classes, -1 for rows that do not count.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from genlabel import GenerativeClassifier
    >>> from genlabel.persistence import LoadedModel, Schema
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> model = GenerativeClassifier().fit(X, y)
    >>> model = LoadedModel(model, Schema.of(model))
    >>> score_predictions(model, predict_table(model, X[:60]), np.where(y[:60] == 0, 0, -1))["accuracy"]
    100.0
    """
    names = [f"probability_{name}" for name in model.classes_]
    known = y >= 0
    with np.errstate(divide="ignore"):
        return score_log_proba(np.log(predictions[names].to_numpy()[known]), y[known])


def _predict(model: LoadedModel, X: pd.DataFrame, intervals: bool) -> pd.DataFrame:
    proba = model.predict_proba(X)
    found: dict[str, Any] = {"prediction": model.classes_[proba.argmax(axis=1)]}
    found |= {f"probability_{name}": proba[:, c] for c, name in enumerate(model.classes_)}
    if intervals:
        low, high = model.predict_proba_interval(X)
        for c, name in enumerate(model.classes_):
            found |= {f"low_{name}": low[:, c], f"high_{name}": high[:, c]}
    if hasattr(model.classifier, "typicality_"):
        found["support"] = model.typicality(X)
    return pd.DataFrame(found)


def _strangers(schema: Schema, X: pd.DataFrame) -> list[str]:
    """A line for each column of text with values that the training rows did not have."""
    lines = []
    for name, kind, categories in schema.columns:
        if kind != "text":
            continue
        missing = X[name].isna()
        text = as_strings(X[[name]])[name][~missing]
        strange = text[~text.isin(categories)]
        if len(strange):
            shown = join_names(strange.unique()[:SHOWN]) + ", ..." * (strange.nunique() > SHOWN)
            lines.append(f"values of {name!r} that training did not have: {len(strange)} ({shown}); they count as rare")
        if missing.any() and "(missing)" not in categories:
            lines.append(f"missing values of {name!r}, which had none in training: {int(missing.sum())}")
    return lines
