"""Runner of the benchmark: every method on every split of every dataset, one record per fit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from sklearn.base import BaseEstimator

from genlabel._progress import Callback
from genlabel._validation import check_count, check_interval
from genlabel.data.datasets import load_openml
from genlabel.data.tables import Table
from genlabel.data.tables.table import drop_rare_classes
from genlabel.evaluation.records import open_store
from genlabel.evaluation.records.schema import RecordSet
from genlabel.evaluation.runner import CaughtWarnings, FitRunner
from genlabel_paper.benchmark.methods import default_methods
from genlabel_paper.benchmark.schema import BENCHMARK


def run_benchmark(
    ids: Iterable[int],
    methods: Mapping[str, BaseEstimator] | None = None,
    n_splits: int = 2,
    test_size: float = 0.3,
    seed: int = 0,
    *,
    records: str | Path | None,
    settings: Mapping[str, Any] | None = None,
    restart: bool = False,
    n_jobs: int = 1,
    dask: str | None = None,
    load: Callable[[int], Table] = load_openml,
    callback: Callback | None = None,
) -> RecordSet:
    """Fit the methods on repeated stratified splits of OpenML datasets, and return the records and failures.

    Each record is written when its fit ends, so that an interrupted run continues where it stopped. A failed fit is
    recorded with its error and tried again in the next run; a fit with other settings than before is repeated.
    Classes of fewer than 4 rows are dropped. A method whose `random_state` is None trains with `seed + split`, as in
    `genlabel.evaluation.comparison.compare`.

    Parameters
    ----------
    ids : iterable of int
        OpenML ids.
    methods : dict of str -> classifier, optional
        `default_methods()` by default.
    n_splits, test_size, seed
        Number of splits, fraction of rows held out in each, and seed of the splits and the methods. A larger `n_splits`
        in a later run keeps the first splits.
    records : path or None
        SQLite file; None keeps the records in memory.
    settings : dict, optional
        Further settings shared by all records, such as the epochs. They are saved in the file with `seed` and
        `test_size`; a run that continues a file must have the same.
    restart : bool
        Delete the records of the file first.
    n_jobs : int
        Number of fits at the same time, one process each; -1 is one for each processor.
    dask : str, optional
        Address of a Dask scheduler whose workers do the fits, see `genlabel.evaluation.records.run_trials`.
    load : callable (id) -> Table
    callback : Callback, optional
        It receives the plan of the run, and the progress and result of each fit.

    Returns
    -------
    RecordSet
        `frame` has the records of these ids, methods and splits, with columns dataset, method, split, seconds,
        parameters, name, n, d, k, accuracy, log_loss, brier, calibration_error, ...

    Examples
    --------
    >>> from genlabel import GenerativeClassifier
    >>> from genlabel.data.datasets import load_table
    >>> methods = {"generative": GenerativeClassifier()}
    >>> result = run_benchmark([61], methods, n_splits=2, records=None, load=lambda number: load_table("iris"))
    >>> result.frame[["dataset", "method", "split", "n", "k"]]
       dataset      method  split    n  k
    0       61  generative      0  150  3
    1       61  generative      1  150  3
    """
    numbers = list(dict.fromkeys(check_count("ids", number) for number in ids))
    bench = FitRunner(
        default_methods() if methods is None else methods,
        check_count("n_splits", n_splits),
        check_interval("test_size", test_size, 0.01, 0.99, "0.3 holds out three rows in ten"),
        check_count("seed", seed, low=0),
        _LoadCommonClasses(load),
        describe_table,
    )
    fixed = {"seed": bench.seed, "test_size": bench.test_size, **(settings or {})}
    with open_store(records, BENCHMARK, settings=fixed, restart=restart) as store:
        return bench.run(numbers, store, n_jobs=n_jobs, dask=dask, callback=callback)


@dataclass(frozen=True)
class _LoadCommonClasses:
    """Picklable function that loads a dataset and drops its rare classes."""

    load: Callable[[int], Table]

    def __call__(self, number: int) -> Table:
        return drop_rare_classes(self.load(number))


def describe_table(table: Table, warnings: CaughtWarnings) -> dict[str, Any]:
    """Return the facts of a record: name and size of the dataset, number of warnings, and the device of "auto"."""
    n, d = table.X.shape
    device = "cuda" if torch.cuda.is_available() else "cpu"
    size = {"n": n, "d": d, "k": int(table.y.nunique())}
    return {"name": table.name, **size, "warnings": len(warnings), "device": device}
