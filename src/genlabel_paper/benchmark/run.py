"""Run the suite: every method on every split of every set, each fit recorded once and for all."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from sklearn.base import BaseEstimator

from genlabel._validation import check_count, check_interval
from genlabel.data.datasets import Table, load_openml
from genlabel.data.tables import drop_rare
from genlabel.evaluation.records import SUITE, RecordSet, RunPlan, TrialResult, open_store
from genlabel.evaluation.runner import Bench, Heard
from genlabel_paper.benchmark.methods import default_suite


def run_suite(
    ids: Iterable[int],
    methods: Mapping[str, BaseEstimator] | None = None,
    repeats: int = 2,
    test_size: float = 0.3,
    seed: int = 0,
    *,
    records: str | Path | None,
    settings: Mapping[str, Any] | None = None,
    fresh: bool = False,
    n_jobs: int = 1,
    dask: str | None = None,
    load: Callable[[int], Table] = load_openml,
    on_start: Callable[[RunPlan], None] | None = None,
    on_trial: Callable[[TrialResult], None] | None = None,
) -> RecordSet:
    """Fit the methods on repeated stratified splits of OpenML sets, and return the records and failures of these fits.

    Each fit is on record when it ends. A run that was stopped, however rudely, goes on where it was; a fit that failed
    is recorded with its error, and tried again in the next run; one that was made with other settings is done again.
    Classes of fewer than 4 rows are dropped. A method whose `random_state` is None trains with `seed + split`, as in
    `genlabel.evaluation.comparison.compare`.

    Parameters
    ----------
    ids : iterable of int
        Of OpenML.
    methods : dict of name -> classifier, optional
        `default_suite()` if not given.
    repeats, test_size, seed
        Number of splits, share of the rows held out in each, and seed of the splits and the methods. More `repeats`
        may be asked for later: the first splits stay the same.
    records : path or None
        The file; None keeps the records in memory.
    settings : dict, optional
        What else all records have in common, such as the epochs: kept in the file with `seed` and `test_size`, and a
        run that goes on must have the same.
    fresh : bool
        Begin again.
    n_jobs : int
        Fits at once, each in its own process; -1 is one for each processor.
    dask : str, optional
        Address of a scheduler whose workers do the fits, see `genlabel.evaluation.records.run_trials`.
    load : callable (id) -> Table
    on_start : callable (Counts), optional
    on_trial : callable (Outcome), optional
        Called after each fit.

    Returns
    -------
    Kept
        Its frame has the records of these ids, methods and splits: dataset, method, split, seconds, parameters, name,
        n, d, k, accuracy, log_loss, brier, calibration_error, ...

    Examples
    --------
    >>> from genlabel import GenerativeClassifier
    >>> from genlabel.data.datasets import load_table
    >>> methods = {"generative": GenerativeClassifier()}
    >>> kept = run_suite([61], methods, repeats=2, records=None, load=lambda number: load_table("iris"))
    >>> kept.frame[["dataset", "method", "split", "n", "k"]]
       dataset      method  split    n  k
    0       61  generative      0  150  3
    1       61  generative      1  150  3
    """
    numbers = list(dict.fromkeys(check_count("ids", number) for number in ids))
    bench = Bench(
        default_suite() if methods is None else methods,
        check_count("repeats", repeats),
        check_interval("test_size", test_size, 0.01, 0.99, "0.3 holds out three rows in ten"),
        check_count("seed", seed, low=0),
        _Common(load),
        describe_set,
    )
    fixed = {"seed": bench.seed, "test_size": bench.test_size, **(settings or {})}
    with open_store(records, SUITE, settings=fixed, fresh=fresh) as store:
        return bench.run(numbers, store, n_jobs=n_jobs, dask=dask, on_start=on_start, on_trial=on_trial)


@dataclass(frozen=True)
class _Common:
    """Loads a set, and drops its rare classes."""

    load: Callable[[int], Table]

    def __call__(self, number: int) -> Table:
        return drop_rare(self.load(number))


def describe_set(table: Table, heard: Heard) -> dict[str, Any]:
    """Return name and size of a set, the number of warnings, and where a network trains if its device is "auto"."""
    n, d = table.X.shape
    device = "cuda" if torch.cuda.is_available() else "cpu"
    size = {"n": n, "d": d, "k": int(table.y.nunique())}
    return {"name": table.name, **size, "warnings": len(heard), "device": device}
