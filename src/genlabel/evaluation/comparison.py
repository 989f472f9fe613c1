"""Comparison of methods on one table: the default methods, and their fits on the same splits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from genlabel._progress import Callback, LambdaCallback, TrialResult, combine_callbacks
from genlabel.data.tables import Table, make_splits
from genlabel.estimators import GenerativeClassifier, GenLabelClassifier, MixupClassifier
from genlabel.evaluation.records import RecordSet, open_store
from genlabel.evaluation.records.schema import COMPARISON
from genlabel.evaluation.runner import CaughtWarnings, FitRunner
from genlabel.metrics import MIN_PROBABILITY, balanced_accuracy, roc_auc, score_log_proba
from genlabel.model_selection.options import TrainingOptions

SCORES = ("accuracy", "log_loss", "balanced_accuracy", "auc", "brier", "calibration_error")
"""Metrics of each fit."""
COLUMNS = ["method", "split", *SCORES, "seconds", "params", "held_out"]
"""Columns of a comparison."""
PRIOR_BASELINE = "class shares"
"""Name, in records, of the method that predicts the class priors; its accuracy is that of the most frequent class."""


def compare(
    table: Table,
    methods: Mapping[str, BaseEstimator] | None = None,
    repeats: int = 10,
    test_size: float = 0.3,
    seed: int = 0,
    callback: Callback | None = None,
) -> pd.DataFrame:
    """Fit every method on the same splits of a table, and measure it on the held-out rows.

    The splits are those of `genlabel.data.tables.make_splits`. The table is preprocessed by `table_pipeline`, fitted on
    the training rows of each split. Each fit has one thread.

    Parameters
    ----------
    table : Table
    methods : dict of name -> classifier, optional
        `default_methods()` if not given.
    repeats : int
        Number of splits.
    test_size : float
        Share of the rows held out in each split.
    seed : int
        Seed of the splits; a method whose `random_state` is None trains with `seed + split`.
    callback : Callback, optional
        It receives the start, the progress and the result of each fit.

    Returns
    -------
    DataFrame, one row for each split and method, with columns
        method, split, accuracy, balanced_accuracy, auc, calibration_error (test, 0 to 1), brier (test, 0 to 2),
        log_loss (test, in nats; probabilities clipped at 1e-15), seconds (of the fit), params (hyperparameters that the
        method chose by cross-validation, a dict), held_out (counts of the test predictions, a dict of
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

    def raise_error(result: TrialResult) -> None:
        if result.error is not None:
            raise RuntimeError(f"{result.trial.method} failed on split {result.trial.split}: {result.error}")

    callbacks = combine_callbacks(LambdaCallback(on_trial_end=raise_error), callback)
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
    """Do the fits of `compare` that have no record, and return the records and the failures of all of them.

    Records of another table of the same name, or of other settings, are replaced.

    Parameters
    ----------
    table, methods, repeats, test_size, seed
        See `compare`.
    records : path, optional
        File of records; without it they are in memory only.
    restart, n_jobs, dask, callback
        See `genlabel.evaluation.records.open_store` and `run_trials`.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from genlabel import GenerativeClassifier, LambdaCallback
    >>> from genlabel.data.datasets import load_table
    >>> printer = LambdaCallback(on_run_start=print)
    >>> table, methods = load_table("iris"), {"generative": GenerativeClassifier()}
    >>> with TemporaryDirectory() as folder:  # the second run has a record of the first fit
    ...     for repeats in (1, 2):
    ...         result = run_comparison(table, methods, repeats, records=f"{folder}/run.sqlite", callback=printer)
    RunPlan(todo=1, cached=0, stale=0)
    RunPlan(todo=1, cached=1, stale=0)
    >>> result.frame["split"].tolist(), result.failures
    ([0, 1], {})
    """
    splits = make_splits(table, repeats, test_size, seed)
    runner = FitRunner(
        default_methods() if methods is None else methods,
        len(splits),
        test_size,
        seed,
        load=lambda name: table,
        facts=lambda table, caught: {"warnings": count_warnings(caught)},
        score=score_table,
        splits=splits,
        count_predictions=True,
    )
    data = hash_table(table) + (f" {repeats}" if table.time is not None else "")
    with open_store(records, COMPARISON, restart=restart) as store:
        return runner.run([table.name], store, data=data, n_jobs=n_jobs, dask=dask, callback=callback)


def default_methods(
    network: Any = "mlp", density: str = "stacked", epochs: Any = "auto", paper: bool = False
) -> dict[str, Any]:
    """Return the methods of a comparison; those with a network have the same one.

    Parameters
    ----------
    network : "auto", "logistic", "mlp" or sequence of int
    density : "stacked", "gaussian", "kernel", "mixture", "forest", "flow", "vae", "gan" or "auto"
        "auto" lets GenLabel choose "gaussian" or "kernel" by cross-validation, and adds generative classifiers of both.
    epochs : "auto" or int
    paper : bool
        Add GenLabel and mixup with the setting of the paper, whose grids take about ten times as long.

    Examples
    --------
    >>> list(default_methods(density="auto"))
    ['vanilla', 'mixup', 'GenLabel', 'generative (gaussian)', 'generative (kernel)', 'logistic', 'boosting',
     'class shares']
    """
    common = {"network": network, "training": TrainingOptions(epochs=epochs)}
    methods: dict[str, Any] = {"vanilla": MixupClassifier(mixer=None, **common), "mixup": MixupClassifier(**common)}
    methods["GenLabel"] = GenLabelClassifier(density=density, **common)
    if paper:  # "auto" becomes the network and the epochs of the paper
        settings: dict[str, Any] = {
            "network": "mlp" if isinstance(network, str) and network == "auto" else network,
            "training__epochs": 100 if isinstance(epochs, str) and epochs == "auto" else epochs,
        }
        methods["mixup (paper)"] = MixupClassifier.from_paper(**settings)
        methods["GenLabel (paper)"] = GenLabelClassifier.from_paper(**settings)
    if density == "auto":
        methods |= {f"generative ({name})": GenerativeClassifier(density=name) for name in ("gaussian", "kernel")}
    else:
        methods["stacked" if density == "stacked" else "generative"] = GenerativeClassifier(density=density)
    methods["logistic"] = make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000))
    methods["boosting"] = HistGradientBoostingClassifier()
    methods[PRIOR_BASELINE] = DummyClassifier(strategy="prior")
    return methods


def as_results(records: pd.DataFrame) -> pd.DataFrame:
    """Return the records of a comparison with the columns of `compare`."""
    return records.rename(columns={"parameters": "params"}).reindex(columns=COLUMNS)


def score_table(log_proba: Any, y: Any) -> dict[str, float]:
    """Return the metrics of log-probabilities (m, k) for class indices y (m,); the AUC is NaN if `y` has one class."""
    clipped = np.maximum(log_proba, np.log(MIN_PROBABILITY))
    balanced = float(balanced_accuracy(clipped, y))
    return score_log_proba(log_proba, y) | {"balanced_accuracy": balanced, "auc": roc_auc(clipped, y)}


def count_warnings(caught: CaughtWarnings) -> dict[str, int]:
    """Return how often each warning was issued, without warnings for developers."""
    for_developers = (DeprecationWarning, PendingDeprecationWarning, FutureWarning)
    for_users = [warning for warning in caught if not issubclass(warning.category, for_developers)]
    return dict(Counter(" ".join(str(warning.message).split()) for warning in for_users))


def hash_table(table: Table) -> str:
    """Return a hash of the content of a table: names, types, values, labels, groups and times."""
    digest = sha256()
    columns = {"y": table.y, "groups": table.groups, "time": table.time}
    for part in (table.X, *(values.to_frame(name) for name, values in columns.items() if values is not None)):
        digest.update(repr([(str(name), str(kind)) for name, kind in part.dtypes.items()]).encode())
        digest.update(pd.util.hash_pandas_object(part, index=False).to_numpy().tobytes())
    return digest.hexdigest()[:16]
