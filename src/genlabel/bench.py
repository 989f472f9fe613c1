"""The bench: methods fitted on repeated stratified splits of tables, and measured on the rows held out."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from time import process_time
from typing import Any, final
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.model_selection import StratifiedShuffleSplit

from genlabel.checks import check_count, check_interval
from genlabel.datasets import Table, table_pipeline
from genlabel.metrics import LEAST_PROBABILITY, index_labels, predict_log_proba, score_log_proba, shares_log_loss
from genlabel.progress import listen
from genlabel.records import Counts, Fit, Kept, Outcome, Record, Store, fingerprint, run_cells, software_versions

__all__ = ["FEWEST_ROWS", "Bench", "Heard", "Split", "cut_splits", "drop_rare", "seeded"]

FEWEST_ROWS = 4
"""Rows that a class needs: two to train on, and two more so that a cut of about a third leaves them there."""

Split = tuple[NDArray[np.int64], NDArray[np.int64]]
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
    on_epoch: Callable[[str, int, int], None] | None = None
    """Called with method, split, and the epochs done since the last call."""
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
        on_start: Callable[[Counts], None] | None = None,
        on_trial: Callable[[Outcome], None] | None = None,
    ) -> Kept:
        """Do the fits that are not on record, and return the records and failures of all that are asked for.

        Parameters
        ----------
        datasets : iterable
            What `load` takes.
        store : Store
            Open.
        data : str
            Tells the content of the tables, where their names alone do not.
        n_jobs, dask, on_start, on_trial
            As of `genlabel.records.run_cells`.
        """
        fits = [Fit(one, name, split) for one in datasets for split in range(self.repeats) for name in self.methods]
        made = {name: self.fingerprint(name, data) for name in self.methods}
        try:
            run_cells(
                fits,
                self,
                store=store,
                fingerprint=lambda fit: made[fit.method],
                n_jobs=n_jobs,
                dask=dask,
                on_start=on_start,
                on_trial=on_trial,
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
            fewest_rows=FEWEST_ROWS,
            least_probability=LEAST_PROBABILITY,
            data=data,
        )

    def __call__(self, fits: Sequence[Fit]) -> list[Record]:
        """Do fits, and return their records."""
        return [self._fit(fit) for fit in fits]

    def _fit(self, fit: Fit) -> Record:
        table, splits = _prepare(_Source(self.run_id, fit.dataset, self)).parts()
        train, test = splits[fit.split]
        model = table_pipeline(table.X, seeded(self.methods[fit.method], self.seed + fit.split))
        tell = partial(self.on_epoch, fit.method, fit.split) if self.on_epoch is not None else _ignore
        with warnings.catch_warnings(record=True) as heard, listen(tell):
            warnings.simplefilter("always")
            start = process_time()
            model.fit(table.X.iloc[train], table.y.iloc[train])
            seconds = process_time() - start
            metrics = _measure(model, table, train, test)
        if not np.isfinite(metrics["log_loss"]):
            raise ValueError(f"{fit.method} gives probabilities that are no numbers")
        chosen = getattr(model[-1], "best_params_", {})
        return Record(
            cell=fit,
            parameters={name: _plain(value) for name, value in chosen.items()},
            metrics=metrics,
            seconds=seconds,
            versions=software_versions() | getattr(model[-1], "versions_", {}),
            facts=self.facts(table, heard),
        )


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
        return _Prepared(table, cut_splits(table, bench.repeats, bench.test_size, bench.seed))
    except Exception as error:
        return _Prepared(error=error)


def drop_rare(table: Table, fewest: int = FEWEST_ROWS) -> Table:
    """Return the table without the classes of fewer than `fewest` rows; a note names them.

    >>> import pandas as pd
    >>> table = Table("t", pd.DataFrame({"x": range(9)}), pd.Series(list("aaaabbbbc")))
    >>> drop_rare(table).notes
    ["class dropped for having fewer than 4 rows: 'c' (1)"]
    """
    counts = table.y.value_counts(sort=False)
    rare = {name: count for name, count in counts.items() if count < fewest}
    keep = ~table.y.isin(list(rare))
    notes = [f"class dropped for having fewer than {fewest} rows: {name!r} ({count})" for name, count in rare.items()]
    X, y = table.X[keep].reset_index(drop=True), table.y[keep].reset_index(drop=True)
    return replace(table, X=X, y=y, notes=[*table.notes, *notes])


def cut_splits(table: Table, repeats: int, test_size: float, seed: int) -> list[Split]:
    """Cut all splits before the first fit, so that a class that is too small is told at once.

    The first splits of many are those of few.

    >>> import pandas as pd
    >>> table = Table("t", pd.DataFrame({"x": range(20)}), pd.Series(list("ab" * 10)))
    >>> [len(test) for train, test in cut_splits(table, repeats=2, test_size=0.3, seed=0)]
    [6, 6]
    """
    check_count("repeats", repeats)
    check_count("seed", seed, low=0)
    share = check_interval("test_size", test_size, 0.01, 0.99, "0.3 holds out three rows in ten")
    counts = table.y.value_counts()
    if len(counts) < 2:
        raise ValueError(f"{table.name!r} has one class only, {counts.index[0]!r}; two are needed to compare methods")
    rare = counts[counts < FEWEST_ROWS]
    if len(rare):
        named = ", ".join(f"{name!r} ({count})" for name, count in rare.iloc[:5].items())
        raise ValueError(
            f"{named}{', ...' * (len(rare) > 5)}: each class needs {FEWEST_ROWS} rows, and {len(rare)} of "
            f"{len(counts)} have fewer; merge them, or drop them with drop_rare(table), on the command line --drop-rare"
        )
    cutter = StratifiedShuffleSplit(repeats, test_size=share, random_state=seed)
    try:
        splits = [(train, test) for train, test in cutter.split(table.X, table.y)]
    except ValueError as error:
        raise ValueError(f"test_size={test_size!r} does not suit {len(table.y)} rows: {error}") from error
    fewest = min(int(table.y.iloc[train].value_counts().reindex(counts.index).fillna(0).min()) for train, _ in splits)
    if fewest < 2:
        raise ValueError(
            f"test_size={test_size!r} leaves {fewest} rows of a class to train on, and 2 are needed; the smallest "
            f"class, {counts.index[-1]!r}, has {counts.iloc[-1]} rows: lower test_size"
        )
    return splits


def seeded(estimator: BaseEstimator, seed: int) -> BaseEstimator:
    """Return a copy of the estimator, with its random state set unless it has one.

    >>> from genlabel import MixupClassifier
    >>> seeded(MixupClassifier(), 3).random_state
    3
    """
    copy = clone(estimator)
    if "random_state" in copy.get_params() and copy.get_params()["random_state"] is None:
        copy.set_params(random_state=seed)
    return copy


def _measure(model: Any, table: Table, train: NDArray[np.int64], test: NDArray[np.int64]) -> dict[str, float]:
    """The scores on the held-out rows, the processor's seconds for them, and the log-loss of the class shares."""
    start = process_time()
    log_proba = predict_log_proba(model, table.X.iloc[test])
    seconds = process_time() - start
    known, seen = (index_labels(table.y.iloc[rows], model.classes_) for rows in (train, test))
    beside = {"predict_seconds": seconds, "shares_log_loss": shares_log_loss(known, seen)}
    return score_log_proba(log_proba, seen) | beside


def _ignore(epochs: int) -> None:
    """Nobody listens."""


def _plain(value: Any) -> Any:
    """A parameter as JSON has it: nothing, a truth, a finite number, a text, or a list of these."""
    value = value.tolist() if isinstance(value, np.generic | np.ndarray) else value
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    fits = value is None or isinstance(value, bool | int | str) or (isinstance(value, float) and np.isfinite(value))
    return value if fits else str(value)
