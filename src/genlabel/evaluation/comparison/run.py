"""The comparison: methods on the same splits of a table, measured in ways that suit it, each fit on record."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator

from genlabel._progress import Callback, CallbackList, TrialResult
from genlabel.data.tables import Split, Table, make_splits
from genlabel.evaluation.comparison.methods import default_methods
from genlabel.evaluation.records import COMPARISON, RecordSet, open_store
from genlabel.evaluation.runner import Bench, Heard
from genlabel.metrics import LEAST_PROBABILITY, balanced_accuracy, roc_auc, score_log_proba

SCORES = ("accuracy", "log_loss", "balanced_accuracy", "auc", "brier", "calibration_error")
"""What is measured of each fit."""
REPORTED = ["method", "split", *SCORES, "seconds", "params", "held_out"]
"""The columns of a comparison."""


def compare(
    table: Table,
    methods: Mapping[str, BaseEstimator] | None = None,
    repeats: int = 10,
    test_size: float = 0.3,
    seed: int = 0,
    callback: Callback | None = None,
) -> pd.DataFrame:
    """Fit every method on the same splits of a table, and measure it on the rows held out.

    The splits are those of `genlabel.data.tables.make_splits`. The table is prepared by `table_pipeline`, fitted on the
    training rows of each split. A method whose `random_state` is None trains with `seed + split`. Each fit has one
    thread.

    Parameters
    ----------
    table : Table
    methods : dict of name -> classifier, optional
        `default_methods()` if not given.
    repeats : int
        Number of splits.
    test_size : float
        Share of the rows held out in each.
    seed : int
        Of the splits and of the methods.
    callback : Callback, optional
        It receives the begin, the progress and the result of each fit.

    Returns
    -------
    DataFrame, one row for each split and method, with columns
        method, split, accuracy and balanced_accuracy (test, in percent), log_loss (test, in nats; probabilities clipped
        at 1e-15), auc, brier and calibration_error (test, 0 to 1; Brier to 2), seconds (of the fit), params (what the
        method chose by its own cross-validation, a dict), held_out (counts of the test predictions, a dict as of
        `genlabel.evaluation.prediction_counts.PredictionCounts.to_dict`).

    Examples
    --------
    >>> from genlabel import GenerativeClassifier
    >>> from genlabel.data.datasets import load_table
    >>> compare(load_table("iris"), {"generative": GenerativeClassifier()}, repeats=2)[["method", "split"]]
           method  split
    0  generative      0
    1  generative      1
    """
    callbacks = CallbackList([_RaiseOnFailure(), callback])
    return as_results(run_comparison(table, methods, repeats, test_size, seed, callback=callbacks).frame)


def run_comparison(
    table: Table,
    methods: Mapping[str, BaseEstimator] | None = None,
    repeats: int = 10,
    test_size: float = 0.3,
    seed: int = 0,
    *,
    records: str | Path | None = None,
    restart: bool = False,
    n_jobs: int = 1,
    dask: str | None = None,
    callback: Callback | None = None,
) -> RecordSet:
    """Do the fits of `compare` that are not on record, and return the records and the failures of all of them.

    Records of another table of the same name, or of other settings, count as missing.

    Parameters
    ----------
    table, methods, repeats, test_size, seed
        As of `compare`.
    records : path, optional
        The file; in memory, and gone afterwards, if not given.
    restart, n_jobs, dask, callback
        As of `genlabel.evaluation.records.open_store` and `run_trials`.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from genlabel import GenerativeClassifier, LambdaCallback
    >>> from genlabel.data.datasets import load_table
    >>> table, methods = load_table("iris"), {"generative": GenerativeClassifier()}
    >>> printer = LambdaCallback(on_run_start=print)
    >>> with TemporaryDirectory() as folder:  # the second run finds the first fit on record
    ...     for repeats in (1, 2):
    ...         kept = run_comparison(table, methods, repeats, records=f"{folder}/run.sqlite", callback=printer)
    RunPlan(todo=1, done=0, stale=0)
    RunPlan(todo=1, done=1, stale=0)
    >>> kept.frame["split"].tolist(), kept.failures
    ([0, 1], {})
    """
    chosen = default_methods() if methods is None else methods
    splits = make_splits(table, repeats, test_size, seed)
    bench = Bench(
        chosen,
        len(splits),
        test_size,
        seed,
        _Given(table),
        _tell_warnings,
        score=score_table,
        cut=_Cut(splits),
        tally=True,
    )
    with open_store(records, COMPARISON, restart=restart) as store:
        return bench.run(
            [table.name],
            store,
            data=hash_table(table) + (f" {repeats}" if table.time is not None else ""),
            n_jobs=n_jobs,
            dask=dask,
            callback=callback,
        )


class _RaiseOnFailure(Callback):
    """Callback that raises the error of a trial."""

    def on_trial_end(self, result: TrialResult) -> None:
        if result.error is not None:
            raise RuntimeError(f"{result.trial.method} failed on split {result.trial.split}: {result.error}")


def as_results(records: pd.DataFrame) -> pd.DataFrame:
    """Return records of a comparison as `compare` does.

    >>> kept = pd.DataFrame({"method": ["mixup"], "split": [0], "accuracy": [90.0], "parameters": [{"alpha": 1.0}]})
    >>> as_results(kept)[["method", "accuracy", "params"]].to_dict("records")
    [{'method': 'mixup', 'accuracy': 90.0, 'params': {'alpha': 1.0}}]
    """
    return records.rename(columns={"parameters": "params"}).reindex(columns=REPORTED)


def score_table(log_proba: Any, y: Any) -> dict[str, float]:
    """Return the scores of log-probabilities (m, k) for class indices y (m,); the AUC is NaN if there is one class.

    >>> import numpy as np
    >>> score_table(np.log([[0.9, 0.1], [0.2, 0.8]]), [0, 1])["auc"]
    1.0
    """
    clipped = np.maximum(log_proba, np.log(LEAST_PROBABILITY))
    balanced = 100.0 * float(balanced_accuracy(clipped, y))
    return score_log_proba(log_proba, y) | {"balanced_accuracy": balanced, "auc": roc_auc(clipped, y)}


def count_warnings(heard: Heard) -> dict[str, int]:
    """Return how often each warning was heard; those about code are for its authors, and left out.

    >>> import warnings
    >>> with warnings.catch_warnings(record=True) as heard:
    ...     warnings.simplefilter("always")
    ...     warnings.warn("a class has one row", UserWarning)
    ...     warnings.warn("a class has one row", UserWarning)
    ...     warnings.warn("use another argument", DeprecationWarning)
    >>> count_warnings(heard)
    {'a class has one row': 2}
    """
    about_code = (DeprecationWarning, PendingDeprecationWarning, FutureWarning)
    texts = [" ".join(str(one.message).split()) for one in heard if not issubclass(one.category, about_code)]
    return dict(Counter(texts))


def hash_table(table: Table) -> str:
    """Return a hash of the content of a table: names, types, values, labels, groups and times.

    >>> table = Table("t", pd.DataFrame({"x": [1.0, 2.0]}), pd.Series(["a", "b"]))
    >>> from dataclasses import replace
    >>> hash_table(table) == hash_table(replace(table, y=pd.Series(["a", "c"])))
    False
    """
    digest = sha256()
    beside = {"groups": table.groups, "time": table.time}
    more = [part.to_frame(name) for name, part in beside.items() if part is not None]
    for part in (table.X, table.y.to_frame("y"), *more):
        digest.update(repr([(str(name), str(kind)) for name, kind in part.dtypes.items()]).encode())
        digest.update(pd.util.hash_pandas_object(part, index=False).to_numpy().tobytes())
    return digest.hexdigest()[:16]


@dataclass(frozen=True)
class _Given:
    """Gives the one table that there is."""

    table: Table

    def __call__(self, dataset: Any) -> Table:
        return self.table


@dataclass(frozen=True)
class _Cut:
    """Gives the splits that were cut already."""

    splits: Sequence[Split]

    def __call__(self, table: Table, repeats: int, test_size: float, seed: int) -> Sequence[Split]:
        return self.splits


def _tell_warnings(table: Table, heard: Heard) -> dict[str, Any]:
    return {"warnings": count_warnings(heard)}
