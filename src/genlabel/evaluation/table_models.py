"""Models of tables: fitted with a first measurement on held-out rows, saved, and applied to another table."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple, cast, final

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline

from genlabel._arrays import chunks
from genlabel._validation import check_choice
from genlabel.data.tables import Split, Table, TableReadSpec, make_splits, read_frame, table_pipeline
from genlabel.data.tables.columns import as_strings
from genlabel.data.tables.files import join_names
from genlabel.data.tables.table import MIN_CLASS_ROWS, select_rows
from genlabel.evaluation.comparison import count_warnings, default_methods, score_table
from genlabel.evaluation.runner import groups_fit_param, with_random_state
from genlabel.metrics import index_labels, predict_log_proba, prior_log_loss, score_log_proba
from genlabel.persistence import LoadedModel, save_model

TABLE_METHODS = {"genlabel": "GenLabel", "mixup": "mixup", "vanilla": "plain training", "stacked": "stacked density"}
"""Methods that can be fitted -> their names in a comparison."""
READ_SPEC = "read_spec"
"""Name under which a saved model has the `TableReadSpec` of its table."""
FIRST_FIT_SHARE = 0.4
"""Share of the time limit that the first fit may take."""
FEW_ROWS = 200
"""Training rows below which the level of atypical rows is higher."""
CHUNK_ROWS = 20_000
"""Rows that are predicted at once."""

StageContext = Callable[[str], AbstractContextManager[Any]]
"""Function of the name of a stage of a fit that returns a context manager for it."""


@final
@dataclass(frozen=True)
class HoldoutScores:
    """Scores of a first fit on held-out rows; the `held_out` of what `fit_table` returns."""

    rows: int
    cases: int
    """Number of groups of these rows if the table has groups, else of rows: rows of a group are not independent."""
    scores: dict[str, float]
    """Metrics of `genlabel.evaluation.comparison.score_table`."""
    prior_scores: dict[str, float]
    """Accuracy and log-loss of predicting the class priors of the other rows."""


@final
@dataclass(frozen=True)
class FittedTable:
    """Model that was fitted to a table; `fit_table` returns it."""

    model: Pipeline
    """Classifier of the features of the table."""
    read_spec: TableReadSpec
    """Specification of how the file of the table was read."""
    held_out: HoldoutScores | None
    """None if no rows were held out."""
    warnings: dict[str, int]
    """Number of times that each warning was issued during the fits."""
    seconds: float

    @property
    def chosen(self) -> dict[str, Any]:
        """Hyperparameters that the search chose."""
        return dict(getattr(self.model[-1], "best_params_", {}))

    @property
    def has_intervals(self) -> bool:
        """True if probabilities have intervals."""
        return hasattr(self.model[-1], "venn_abers_")

    def save(self, folder: str | Path, notes: list[str] | None = None) -> Path:
        """Save the model with the specification of its table in a folder; see `genlabel.save_model`."""
        return save_model(self.model, folder, notes=notes or [], extra={READ_SPEC: self.read_spec.to_plain()})


def make_classifier(name: str, network: Any = "mlp", epochs: Any = "auto") -> BaseEstimator:
    """Return the classifier of a method of `TABLE_METHODS`, the same as in a comparison.

    >>> make_classifier("vanilla").mixer is None
    True
    """
    check_choice("method", name, list(TABLE_METHODS))
    return cast(BaseEstimator, default_methods(network, "stacked", epochs)[TABLE_METHODS[name]])


def fit_table(
    table: Table,
    method: BaseEstimator,
    *,
    test_size: float = 0.2,
    seed: int = 0,
    time_limit: float | None = None,
    stage: StageContext = nullcontext,
) -> FittedTable:
    """Measure a first fit of a method on held-out rows of a table, then fit the method to all rows.

    The held-out rows are those of the first split of `make_splits`: stratified, with groups on one side, or the latest
    ones. A class of fewer than 4 rows is never held out; its rows are used for training unless they belong to a
    held-out group or are not earlier than the held-out rows. The folds of a search keep groups on one side, too.

    Parameters
    ----------
    table : Table
    method : classifier
        Classifier that `save_model` can save; it trains with `seed` unless it has a random state.
    test_size : float
        Share of the rows held out from the first fit; 0 skips that fit.
    seed : int
    time_limit : float, optional
        Seconds for both fits together, for methods with a network.
    stage : callable (name) -> context manager

    Examples
    --------
    >>> from genlabel import GenerativeClassifier
    >>> from genlabel.data.datasets import load_table
    >>> fitted = fit_table(load_table("iris"), GenerativeClassifier())
    >>> fitted.held_out.rows, fitted.held_out.scores["accuracy"] > 0.9
    (30, True)
    >>> fitted.model.predict(load_table("iris").X[:1]).tolist()
    ['setosa']
    """
    start = monotonic()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        held_out = None
        if test_size > 0 and (split := _hold_out(table, test_size, seed)) is not None:
            train, test = split
            with stage("first fit"):
                limit = None if time_limit is None else FIRST_FIT_SHARE * time_limit
                first = _fit(select_rows(table, np.isin(np.arange(len(table.y)), train)), method, seed, limit)
            y_train, y_test = (index_labels(table.y.iloc[rows], first.classes_) for rows in split)
            scores = score_table(predict_log_proba(first, table.X.iloc[test]), y_test)
            prior_scores = {"accuracy": float((y_test == np.bincount(y_train).argmax()).mean())}
            prior_scores["log_loss"] = prior_log_loss(y_train, y_test)
            cases = len(test) if table.groups is None else table.groups.iloc[test].nunique()
            held_out = HoldoutScores(len(test), cases, scores, prior_scores)
        limit = None if time_limit is None else max(time_limit - (monotonic() - start), 1.0)
        with stage("final fit"):
            model = _fit(table, method, seed, limit)
        if not hasattr(model[-1], "typicality_"):
            with stage("typicality"):
                model[-1].fit_typicality(model[:-1].transform(table.X), table.y)
    return FittedTable(model, TableReadSpec.of(table), held_out, count_warnings(caught), monotonic() - start)


class NewRows(NamedTuple):
    """Rows of a file, read like the table of a model; `NewRows.of` returns them, and `predict_table` takes their X."""

    X: pd.DataFrame
    """Features of the model."""
    y: NDArray[np.int64] | None
    """Class index of each row, -1 for an unknown label; None without a label column."""
    notes: list[str]

    @classmethod
    def of(cls, model: LoadedModel, path: str | Path) -> NewRows:
        """Read a file for a model; for a model that `genlabel fit` did not write, columns are not converted."""
        notes: list[str] = []
        if READ_SPEC not in model.extra:
            return cls(read_frame(path, notes=notes), None, notes)
        spec = TableReadSpec.from_plain(model.extra[READ_SPEC])
        frame = spec.read(path, notes)
        X = spec.features_of(frame, notes)
        for name, kind, categories in model.schema.columns:
            if kind != "text":
                continue
            missing = X[name].isna()
            strings = as_strings(X[[name]])[name][~missing]
            unknown = strings[~strings.isin(categories)]
            if len(unknown):
                shown = f"{len(unknown)} ({join_names(unknown.unique()[:3])}{', ...' if unknown.nunique() > 3 else ''})"
                notes.append(f"values of {name!r} that training did not have: {shown}; they count as rare")
            if missing.any() and "(missing)" not in categories:
                notes.append(f"missing values of {name!r}, which had none in training: {int(missing.sum())}")
        return cls(X, spec.classes_of(frame, model.classes_), notes)


def predict_table(
    model: LoadedModel, X: pd.DataFrame, *, intervals: bool = False, on_rows: Callable[[int], None] | None = None
) -> pd.DataFrame:
    """Return the predictions of a model for the rows of a table, in their order.

    Parameters
    ----------
    model : LoadedModel
    X : DataFrame (m, d)
        Features of the model.
    intervals : bool
        Also return the lower and the upper probability of each class.
    on_rows : callable (rows), optional
        Called with the number of rows done since the last call.

    Returns
    -------
    DataFrame (m, ...)
        prediction, probability_CLASS for each class, low_CLASS and high_CLASS with `intervals`, and typicality if
        the model has it.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from genlabel import GenerativeClassifier
    >>> from genlabel.persistence import LoadedModel
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> model = LoadedModel(GenerativeClassifier().fit(X, y))
    >>> predictions = predict_table(model, X[99:101])
    >>> predictions.round(2)
       prediction  probability_0  probability_1  probability_2  typicality
    0           1            0.0            1.0            0.0        0.91
    1           2            0.0            0.0            1.0        0.17
    >>> score_predictions(model, predictions, np.array([1, -1]))["accuracy"], atypical_level(model)
    (1.0, 0.05)
    """
    if not len(X):
        raise ValueError("X has no rows; there is nothing to predict, pass at least one")
    if intervals and not hasattr(model.classifier, "venn_abers_"):
        raise ValueError(
            f"this {type(model.classifier).__name__} has no intervals: no rows were held out in its search; leave "
            "--intervals out, or fit one of the methods with a network"
        )
    parts = []
    for rows in chunks(len(X), CHUNK_ROWS):
        chunk = X.iloc[rows]
        proba = model.predict_proba(chunk)
        columns: dict[str, Any] = {"prediction": model.classes_[proba.argmax(axis=1)]}
        columns |= {f"probability_{name}": proba[:, c] for c, name in enumerate(model.classes_)}
        if intervals:
            low, high = model.predict_proba_interval(chunk)
            for c, name in enumerate(model.classes_):
                columns |= {f"low_{name}": low[:, c], f"high_{name}": high[:, c]}
        if hasattr(model.classifier, "typicality_"):
            columns["typicality"] = model.typicality(chunk)
        parts.append(pd.DataFrame(columns))
        if on_rows is not None:
            on_rows(len(chunk))
    return pd.concat(parts, ignore_index=True)


def atypical_level(model: LoadedModel) -> float:
    """Return the typicality at or below which a row is atypical, which is also the share of atypical training rows.

    A row that is less typical than all n training rows has typicality 1 / (n + 1), so 0.01 needs enough training rows.

    >>> from sklearn.datasets import load_iris
    >>> from genlabel import GenerativeClassifier
    >>> atypical_level(LoadedModel(GenerativeClassifier().fit(*load_iris(return_X_y=True))))
    0.05
    """
    return 0.05 if int(model.classifier.class_count_.sum()) < FEW_ROWS else 0.01


def score_predictions(model: LoadedModel, predictions: pd.DataFrame, y: NDArray[np.int64]) -> dict[str, float]:
    """Return accuracy, log-loss and more of the result of `predict_table`, over the rows whose class is known.

    The class indices `y` (m,) are -1 for the other rows.

    >>> from sklearn.datasets import load_iris
    >>> from genlabel import GenerativeClassifier
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> model = LoadedModel(GenerativeClassifier().fit(X, y))
    >>> score_predictions(model, predict_table(model, X[:60]), np.where(y[:60] == 0, 0, -1))["accuracy"]
    1.0
    """
    columns = [f"probability_{name}" for name in model.classes_]
    known = y >= 0
    with np.errstate(divide="ignore"):
        return score_log_proba(np.log(predictions[columns].to_numpy()[known]), y[known])


def _hold_out(table: Table, share: float, seed: int) -> Split | None:
    """Return training and held-out rows; None, with a warning, if the table is too small."""
    frequent = (table.y.map(table.y.value_counts()) >= MIN_CLASS_ROWS).to_numpy()
    rows, rare = np.flatnonzero(frequent), np.flatnonzero(~frequent)
    try:
        train, test = make_splits(select_rows(table, frequent), 1, share, seed)[0]
    except ValueError as error:
        warnings.warn(f"nothing was held out: {error}", UserWarning, stacklevel=2)
        return None
    train, test = rows[train], rows[test]
    if table.groups is not None:
        rare = rare[~table.groups.iloc[rare].isin(table.groups.iloc[test]).to_numpy()]
    if table.time is not None:
        rare = rare[(table.time.iloc[rare] < table.time.iloc[test].min()).to_numpy()]
    return np.sort(np.concatenate([train, rare])), test


def _fit(table: Table, method: BaseEstimator, seed: int, time_limit: float | None) -> Pipeline:
    estimator = with_random_state(method, seed)
    if time_limit is not None and "search__time_limit" in estimator.get_params():
        estimator.set_params(search__time_limit=time_limit)
    model = table_pipeline(table.X, estimator)
    return model.fit(table.X, table.y, **groups_fit_param(model, table))
