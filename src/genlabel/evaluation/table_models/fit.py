"""A model of a table: measured on rows that a first fit has not seen, then fitted to all of them and kept."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any, final

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline

from genlabel._validation import check_choice
from genlabel.data.tables import Split, Table, TableReadSpec, make_splits, select_rows, table_pipeline
from genlabel.data.tables.table import MIN_CLASS_ROWS
from genlabel.evaluation.comparison import count_warnings, default_methods, score_table
from genlabel.evaluation.runner import groups_fit_param, with_random_state
from genlabel.metrics import index_labels, predict_log_proba, shares_log_loss
from genlabel.persistence import save_model

METHODS = {"genlabel": "GenLabel", "mixup": "mixup", "vanilla": "vanilla", "stacked": "stacked"}
"""The methods that can be fitted, and their names in a comparison."""
PLAN = "plan"
"""Under which name a kept model has the plan of its table."""
FIRST = 0.4
"""Share of the time that the first fit may take."""

Watching = Callable[[str], AbstractContextManager[Any]]
"""Makes a context of each part of the work, of which it is told the name."""


@final
@dataclass(frozen=True)
class HoldoutScores:
    """How good a first fit was on rows that it had not seen.

    It is the `held_out` of what `fit_table` returns.
    """

    rows: int
    cases: int
    """The groups that they are, where the table has groups: rows of one are no independent cases."""
    scores: dict[str, float]
    """As of `genlabel.evaluation.comparison.score_table`."""
    shares: dict[str, float]
    """Accuracy (percent) and log-loss of predicting the class shares of the other rows."""


@final
@dataclass(frozen=True)
class FittedTable:
    """A model that was fitted to a table.

    `fit_table` returns it.
    """

    model: Pipeline
    """Takes the features of the table."""
    plan: TableReadSpec
    """How the file of the table was read."""
    held_out: HoldoutScores | None
    """None if nothing could be held out, or was to be."""
    warnings: dict[str, int]
    """What was heard in fitting, and how often."""
    seconds: float

    @property
    def chosen(self) -> dict[str, Any]:
        """What the search chose, by name."""
        return dict(getattr(self.model[-1], "best_params_", {}))

    @property
    def has_intervals(self) -> bool:
        """Whether probabilities have intervals."""
        return hasattr(self.model[-1], "venn_abers_")

    def save(self, folder: str | Path, notes: list[str] | None = None) -> Path:
        """Write the model into a folder, with the plan of its table; see `genlabel.save_model`."""
        return save_model(self.model, folder, notes=notes or [], extra={PLAN: self.plan.to_plain()})


def make_classifier(name: str, network: Any = "mlp", epochs: Any = "auto") -> BaseEstimator:
    """Return a method by name, as it is in a comparison.

    >>> type(make_classifier("vanilla")).__name__
    'MixupClassifier'
    """
    check_choice("method", name, list(METHODS))
    method: BaseEstimator = default_methods(network, "stacked", epochs)[METHODS[name]]
    return method


def fit_table(
    table: Table,
    method: BaseEstimator,
    *,
    test_size: float = 0.2,
    seed: int = 0,
    time_limit: float | None = None,
    watching: Watching = nullcontext,
) -> FittedTable:
    """Fit a method to all rows of a table, once it is known how a first fit does on rows that it has not seen.

    The rows that are held out are those of the first split of `make_splits`: stratified, with groups on one side, or
    the
    latest ones. A class of fewer than 4 rows is never held out; its rows are trained on unless they are of a group that
    is, or not earlier. If the table has groups, the folds of a search keep them on one side too.

    Parameters
    ----------
    table : Table
    method : classifier
        One that `save_model` takes; trains with `seed` unless it has a random state.
    test_size : float
        Share of the rows that the first fit does not see; 0 leaves that fit out.
    seed : int
    time_limit : float, optional
        Seconds that both fits may take together, for methods with a network.
    watching : callable (name) -> context manager

    Examples
    --------
    >>> from genlabel import GenerativeClassifier
    >>> from genlabel.data.datasets import load_table
    >>> fitted = fit_table(load_table("iris"), GenerativeClassifier())
    >>> fitted.held_out.rows, fitted.held_out.scores["accuracy"] > 90
    (30, True)
    >>> fitted.model.predict(load_table("iris").X[:1]).tolist()
    ['setosa']
    """
    start = monotonic()
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        split = _hold_out(table, test_size, seed) if test_size > 0 else None
        held_out = None
        if split is not None:
            with watching("first fit"):
                limit = None if time_limit is None else FIRST * time_limit
                first = _fit(select_rows(table, _mask(split[0], len(table.y))), method, seed, limit)
            held_out = _measure(first, table, split)
        left = None if time_limit is None else max(time_limit - (monotonic() - start), 1.0)
        with watching("final fit"):
            model = _fit(table, method, seed, left)
        if not hasattr(model[-1], "typicality_"):
            with watching("support"):
                model[-1].fit_typicality(model[:-1].transform(table.X), table.y)
    return FittedTable(model, TableReadSpec.of(table), held_out, count_warnings(heard), monotonic() - start)


def _hold_out(table: Table, share: float, seed: int) -> Split | None:
    """The rows to train on and to hold out; None, with a warning, where a table is too small for that."""
    counts = table.y.map(table.y.value_counts())
    enough = (counts >= MIN_CLASS_ROWS).to_numpy()
    place, rare = np.flatnonzero(enough), np.flatnonzero(~enough)
    try:
        train, test = make_splits(select_rows(table, enough), 1, share, seed)[0]
    except ValueError as error:
        warnings.warn(f"nothing was held out: {error}", UserWarning, stacklevel=2)
        return None
    return np.sort(np.concatenate([place[train], rare[_apart(table, rare, place[test])]])), place[test]


def _apart(table: Table, rows: NDArray[np.int64], held: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which of the rows (m,) are of other groups than those that are held out, and earlier."""
    apart = np.ones(len(rows), dtype=bool)
    if table.groups is not None:
        apart &= ~table.groups.iloc[rows].isin(table.groups.iloc[held]).to_numpy()
    if table.time is not None:
        apart &= (table.time.iloc[rows] < table.time.iloc[held].min()).to_numpy()
    return apart


def _mask(rows: NDArray[np.int64], n: int) -> NDArray[np.bool_]:
    mask = np.zeros(n, dtype=bool)
    mask[rows] = True
    return mask


def _fit(table: Table, method: BaseEstimator, seed: int, time_limit: float | None) -> Pipeline:
    estimator = with_random_state(method, seed)
    if time_limit is not None and "search__time_limit" in estimator.get_params():
        estimator.set_params(search__time_limit=time_limit)
    model = table_pipeline(table.X, estimator)
    return model.fit(table.X, table.y, **groups_fit_param(model, table))


def _measure(model: Pipeline, table: Table, split: Split) -> HoldoutScores:
    train, test = (index_labels(table.y.iloc[rows], model.classes_) for rows in split)
    guess = np.bincount(train).argmax()
    shares = {"accuracy": 100.0 * float((test == guess).mean()), "log_loss": shares_log_loss(train, test)}
    cases = len(test) if table.groups is None else table.groups.iloc[split[1]].nunique()
    return HoldoutScores(len(test), cases, score_table(predict_log_proba(model, table.X.iloc[split[1]]), test), shares)
