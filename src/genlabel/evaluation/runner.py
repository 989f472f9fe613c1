"""Runner of fits: methods fitted on repeated splits of tables, and measured on the held-out rows."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import product
from time import process_time
from typing import Any, final
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags
from sklearn.utils.validation import has_fit_parameter

from genlabel._progress import Callback
from genlabel.data.tables import Table, make_splits, table_pipeline
from genlabel.data.tables.splits import Split
from genlabel.data.tables.table import MIN_CLASS_ROWS
from genlabel.evaluation.prediction_counts import N_BINS, PredictionCounts
from genlabel.evaluation.records import Record, RecordStore, fingerprint, run_trials
from genlabel.evaluation.records.run import software_versions
from genlabel.evaluation.records.schema import Fit, RecordSet, plain_values
from genlabel.metrics import MIN_PROBABILITY, index_labels, predict_log_proba, prior_log_loss, score_log_proba

CaughtWarnings = Sequence[warnings.WarningMessage]


@final
@dataclass(frozen=True, eq=False)
class FitRunner:
    """Runner with the settings that all fits share; a picklable function of keys that returns their records."""

    methods: Mapping[str, BaseEstimator]
    """Classifiers by name; one whose `random_state` is None trains with `seed + split`. One whose tag
    `input_tags.categorical` is set gets the columns of the table, others numbers only."""
    n_splits: int
    """Number of splits. A larger number in a later run keeps the first splits."""
    test_size: float
    """Share of the rows held out in each split."""
    seed: int
    """Seed of the splits and of the methods."""
    load: Callable[[Any], Table]
    """Function that returns the table of a dataset, in any process; it is called once for several fits."""
    facts: Callable[[Table, CaughtWarnings], dict[str, Any]]
    """Function that returns the facts of a record from the table and the warnings of the fit."""
    score: Callable[[NDArray[np.float64], NDArray[np.int64]], dict[str, float]] = score_log_proba
    """Function that returns the metrics of log-probabilities (m, k) for class indices (m,); metrics that are not finite
    are left out."""
    splits: Sequence[Split] | None = None
    """Splits of the only table; None makes them with `make_splits`."""
    count_predictions: bool = False
    """True if a record also has the fact "held_out", see `genlabel.evaluation.prediction_counts`."""
    run_id: str = field(default_factory=lambda: uuid4().hex)
    """Identifier of a run: copies of its runner in other processes are equal, so each loads a table once."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FitRunner) and self.run_id == other.run_id

    def __hash__(self) -> int:
        return hash(self.run_id)

    def run(
        self,
        datasets: Iterable[Any],
        store: RecordStore,
        *,
        data: str = "",
        n_jobs: int = 1,
        dask: str | None = None,
        callback: Callback | None = None,
    ) -> RecordSet:
        """Do the fits that have no record, and return the records and failures of all requested fits.

        Datasets are arguments of `load`; `data` is a hash of the tables if their names alone do not identify their
        content. See `run_trials` for the other parameters.
        """
        combinations = product(datasets, range(self.n_splits), self.methods)
        fits = [Fit(dataset, method, split) for dataset, split, method in combinations]
        current = {name: self.fingerprint(name, data) for name in self.methods}
        try:
            options: dict[str, Any] = {"n_jobs": n_jobs, "dask": dask, "callback": callback}
            run_trials(fits, self, store=store, fingerprint=lambda fit: current[fit.method], **options)
        finally:
            _load_and_split.cache_clear()
        records, requested = store.read(), dict.fromkeys(fits)
        ids = [fit.id for fit in requested if store.done.get(fit.id) == current[fit.method]]
        frame = records.frame.set_index("id").loc[ids].reset_index()
        failures = {fit: records.failures[fit] for fit in requested if fit in records.failures}
        return records._replace(frame=frame, failures=failures)

    def fingerprint(self, method: str, data: str = "") -> str:
        """Return the fingerprint of an estimator with its parameters, the splits, the metrics, and the tables."""
        settings: dict[str, Any] = {"estimator": self.methods[method], "seed": self.seed, "test_size": self.test_size}
        settings |= {"fewest_rows": MIN_CLASS_ROWS, "least_probability": MIN_PROBABILITY, "data": data}
        return fingerprint(**settings, **({"bins": N_BINS} if self.count_predictions else {}))

    def __call__(self, fits: Sequence[Fit]) -> list[Record]:
        """Do fits, and return their records."""
        return [self._fit(fit) for fit in fits]

    def _fit(self, fit: Fit) -> Record:
        prepared = _load_and_split(self, fit.dataset)
        if isinstance(prepared, Exception):
            raise prepared
        table, splits = prepared
        train, test = splits[fit.split]
        estimator = with_random_state(self.methods[fit.method], self.seed + fit.split)
        if get_tags(estimator).input_tags.categorical:
            model = Pipeline([("estimator", estimator)])
        else:
            model = table_pipeline(table.X, estimator)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            start = process_time()
            model.fit(table.X.iloc[train], table.y.iloc[train], **groups_fit_param(model, table, train))
            fitted = process_time()
            log_proba = predict_log_proba(model, table.X.iloc[test])
            predict_seconds = process_time() - fitted
            y_train, y_test = (index_labels(table.y.iloc[rows], model.classes_) for rows in (train, test))
            metrics = self.score(log_proba, y_test)
        if not np.isfinite(metrics["log_loss"]):
            raise ValueError(f"{fit.method} predicts probabilities that are not finite")
        facts = dict(self.facts(table, caught))
        if self.count_predictions:  # over all classes of the table, also those that the model does not know
            classes = np.unique(table.y.to_numpy())
            padded = np.full((len(test), len(classes)), -np.inf)
            padded[:, index_labels(model.classes_, classes)] = log_proba
            counts = PredictionCounts.of(padded, index_labels(table.y.iloc[test], classes), classes.tolist())
            facts["held_out"] = counts.to_dict()
        return Record(
            key=fit,
            parameters=plain_values(getattr(model[-1], "best_params_", {}), nonfinite=str),
            metrics={name: value for name, value in metrics.items() if np.isfinite(value)}
            | {"predict_seconds": predict_seconds, "shares_log_loss": prior_log_loss(y_train, y_test)},
            seconds=fitted - start,
            versions=software_versions() | getattr(model[-1], "versions_", {}),
            facts=facts,
        )


def groups_fit_param(model: Pipeline, table: Table, rows: NDArray[np.int64] | slice = slice(None)) -> dict[str, Any]:
    """Return the groups of rows as a fit parameter of a pipeline, if its last step holds out rows by groups."""
    name, last = model.steps[-1]
    if table.groups is None or not has_fit_parameter(last, "groups"):
        return {}
    return {f"{name}__groups": table.groups.iloc[rows].to_numpy()}


def with_random_state(estimator: BaseEstimator, seed: int) -> BaseEstimator:
    """Return a copy of the estimator, with its random state set if it is None."""
    copy = clone(estimator)
    has_none = copy.get_params().get("random_state", seed) is None
    return copy.set_params(random_state=seed) if has_none else copy


@lru_cache(maxsize=8)
def _load_and_split(runner: FitRunner, dataset: Any) -> tuple[Table, Sequence[Split]] | Exception:
    """Load and split a table, once in a process for consecutive fits; return an exception, which each fit raises."""
    try:
        table = runner.load(dataset)
        return table, runner.splits or make_splits(table, runner.n_splits, runner.test_size, runner.seed)
    except Exception as error:
        return error
