"""The bench: methods fitted on repeated splits of tables, and measured on the rows held out."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from time import process_time
from typing import Any, final
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import has_fit_parameter

from genlabel._progress import Callback
from genlabel.data.tables import Split, Table, make_splits, table_pipeline
from genlabel.data.tables.table import MIN_CLASS_ROWS
from genlabel.evaluation.prediction_counts import BINS, PredictionCounts
from genlabel.evaluation.records import (
    Fit,
    Record,
    RecordSet,
    Store,
    fingerprint,
    run_trials,
    software_versions,
)
from genlabel.metrics import LEAST_PROBABILITY, index_labels, predict_log_proba, score_log_proba, shares_log_loss

Heard = Sequence[warnings.WarningMessage]


@final
@dataclass(frozen=True)
class Bench:
    """What the fits of a run have in common; called with some of them, it does them."""

    methods: Mapping[str, BaseEstimator]
    """By name; one whose `random_state` is None trains with `seed + split`."""
    repeats: int
    """Number of splits. More may be asked for later: the first splits stay the same."""
    test_size: float
    """Share of the rows held out in each split."""
    seed: int
    """Of the splits and of the methods."""
    load: Callable[[Any], Table]
    """Gives the table of a dataset, in any process; it is asked once for several fits."""
    facts: Callable[[Table, Heard], dict[str, Any]]
    """What a record tells of the table, and of the warnings that were heard."""
    score: Callable[[NDArray[np.float64], NDArray[np.int64]], dict[str, float]] = score_log_proba
    """Measures log-probabilities (m, k) against class indices (m,); what is no number is left out."""
    cut: Callable[[Table, int, float, int], Sequence[Split]] = make_splits
    """Cuts the splits of a table, `repeats` of them."""
    tally: bool = False
    """Whether a record also counts its held-out predictions, as the fact "held_out"
    (`genlabel.evaluation.prediction_counts`)."""
    run_id: str = field(default_factory=lambda: uuid4().hex)
    """Tells a run from another, so that each loads its tables anew."""

    def run(
        self,
        datasets: Iterable[Any],
        store: Store,
        *,
        data: str = "",
        n_jobs: int = 1,
        dask: str | None = None,
        callback: Callback | None = None,
    ) -> RecordSet:
        """Do the fits that are not on record, and return the records and failures of all that are asked for.

        Parameters
        ----------
        datasets : iterable
            What `load` takes.
        store : Store
            Open.
        data : str
            Tells the content of the tables, where their names alone do not.
        n_jobs, dask, callback
            As of `genlabel.evaluation.records.run_trials`.
        """
        fits = [Fit(one, name, split) for one in datasets for split in range(self.repeats) for name in self.methods]
        made = {name: self.fingerprint(name, data) for name in self.methods}
        try:
            run_trials(
                fits,
                self,
                store=store,
                fingerprint=lambda fit: made[fit.method],
                n_jobs=n_jobs,
                dask=dask,
                callback=callback,
            )
        finally:
            _prepare.cache_clear()
        kept, asked = store.read(), dict.fromkeys(fits)
        ids = [fit.id for fit in asked if store.done.get(fit.id) == made[fit.method]]
        frame = kept.frame.set_index("id").loc[ids].reset_index()
        return kept._replace(frame=frame, failures={fit: kept.failures[fit] for fit in asked if fit in kept.failures})

    def fingerprint(self, method: str, data: str = "") -> str:
        """Of the estimator with all its parameters, the splits, the measure, and the content of the tables."""
        return fingerprint(
            estimator=self.methods[method],
            seed=self.seed,
            test_size=self.test_size,
            fewest_rows=MIN_CLASS_ROWS,
            least_probability=LEAST_PROBABILITY,
            data=data,
            **({"bins": BINS} if self.tally else {}),
        )

    def __call__(self, fits: Sequence[Fit]) -> list[Record]:
        """Do fits, and return their records."""
        return [self._fit(fit) for fit in fits]

    def _fit(self, fit: Fit) -> Record:
        table, splits = _prepare(_Source(self.run_id, fit.dataset, self)).parts()
        train, test = splits[fit.split]
        model = table_pipeline(table.X, with_random_state(self.methods[fit.method], self.seed + fit.split))
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            start = process_time()
            model.fit(table.X.iloc[train], table.y.iloc[train], **groups_fit_param(model, table, train))
            seconds = process_time() - start
            log_proba, metrics = _measure(model, table, train, test, self.score)
        if not np.isfinite(metrics["log_loss"]):
            raise ValueError(f"{fit.method} gives probabilities that are no numbers")
        counted = {"held_out": _tally(log_proba, model.classes_, table, test)} if self.tally else {}
        chosen = getattr(model[-1], "best_params_", {})
        return Record(
            cell=fit,
            parameters={name: _plain(value) for name, value in chosen.items()},
            metrics=metrics,
            seconds=seconds,
            versions=software_versions() | getattr(model[-1], "versions_", {}),
            facts=self.facts(table, heard) | counted,
        )


def groups_fit_param(model: Pipeline, table: Table, rows: NDArray[np.int64] | slice = slice(None)) -> dict[str, Any]:
    """Return what a pipeline is told of the groups of rows: those whose last step holds out rows keep groups together.

    >>> import pandas as pd
    >>> from genlabel import MixupClassifier
    >>> table = Table("t", pd.DataFrame({"x": [1.0, 2.0]}), pd.Series(["a", "b"]), groups=pd.Series([0, 1]))
    >>> groups_fit_param(table_pipeline(table.X, MixupClassifier()), table)
    {'estimator__groups': array([0, 1])}
    """
    name, last = model.steps[-1]
    if table.groups is None or not has_fit_parameter(last, "groups"):
        return {}
    return {f"{name}__groups": table.groups.iloc[rows].to_numpy()}


@dataclass(frozen=True)
class _Source:
    """A dataset of a run."""

    run_id: str
    dataset: Any
    bench: Bench = field(compare=False)


@dataclass(frozen=True)
class _Prepared:
    """A table and its splits, or the error of the attempt to have them."""

    table: Table | None = None
    splits: Sequence[Split] = ()
    error: Exception | None = None

    def parts(self) -> tuple[Table, Sequence[Split]]:
        if self.table is None:
            raise self.error or ValueError("there is no table")
        return self.table, self.splits


@lru_cache(maxsize=8)
def _prepare(source: _Source) -> _Prepared:
    """Load a table and cut it, once in a process for the fits that follow one another; an error is told to each."""
    bench = source.bench
    try:
        table = bench.load(source.dataset)
        return _Prepared(table, bench.cut(table, bench.repeats, bench.test_size, bench.seed))
    except Exception as error:
        return _Prepared(error=error)


def with_random_state(estimator: BaseEstimator, seed: int) -> BaseEstimator:
    """Return a copy of the estimator, with its random state set unless it has one.

    >>> from genlabel import MixupClassifier
    >>> with_random_state(MixupClassifier(), 3).random_state
    3
    """
    copy = clone(estimator)
    if "random_state" in copy.get_params() and copy.get_params()["random_state"] is None:
        copy.set_params(random_state=seed)
    return copy


def _measure(
    model: Any,
    table: Table,
    train: NDArray[np.int64],
    test: NDArray[np.int64],
    score: Callable[[NDArray[np.float64], NDArray[np.int64]], dict[str, float]],
) -> tuple[NDArray[np.float64], dict[str, float]]:
    """What is said of the held-out rows; its scores, the processor's seconds, and the log-loss of the class shares."""
    start = process_time()
    log_proba = predict_log_proba(model, table.X.iloc[test])
    seconds = process_time() - start
    known, seen = (index_labels(table.y.iloc[rows], model.classes_) for rows in (train, test))
    beside = {"predict_seconds": seconds, "shares_log_loss": shares_log_loss(known, seen)}
    scores = score(log_proba, seen)
    finite = {name: value for name, value in scores.items() if name == "log_loss" or np.isfinite(value)}
    return log_proba, finite | beside


def _tally(
    log_proba: NDArray[np.float64], known: NDArray[Any], table: Table, test: NDArray[np.int64]
) -> dict[str, Any]:
    """Counts over all classes of the table, also those that the model does not know."""
    classes = np.unique(table.y.to_numpy())
    logs = np.full((len(test), len(classes)), -np.inf)
    logs[:, index_labels(known, classes)] = log_proba
    return PredictionCounts.of(logs, index_labels(table.y.iloc[test], classes), classes.tolist()).to_dict()


def _plain(value: Any) -> Any:
    """A parameter as JSON has it: nothing, a truth, a finite number, a text, or a list of these."""
    value = value.tolist() if isinstance(value, np.generic | np.ndarray) else value
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    fits = value is None or isinstance(value, bool | int | str) or (isinstance(value, float) and np.isfinite(value))
    return value if fits else str(value)
