"""The comparison: vanilla training, mixup, GenLabel and the generative classifier on the same splits of a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.model_selection import StratifiedShuffleSplit

from genlabel.checks import check_count, check_interval
from genlabel.datasets import Table, table_pipeline
from genlabel.estimators import GenerativeClassifier, GenLabelClassifier, MixupClassifier
from genlabel.metrics import accuracy, brier_score, calibration_error, log_loss
from genlabel.progress import listen

__all__ = ["FEWEST_ROWS", "compare", "cut_splits", "default_methods", "drop_rare", "measure", "seeded", "summarize"]

FEWEST_ROWS = 4
"""Rows that a class needs: two to train on, and two more so that a cut of about a third leaves them there."""
SMALLEST = 1e-15
"""Probabilities are clipped here, so that a log-loss is finite."""
REPORTED = ("accuracy", "log_loss", "seconds", "params")

Split = tuple[NDArray[np.int64], NDArray[np.int64]]


def compare(
    table: Table,
    methods: Mapping[str, BaseEstimator] | None = None,
    repeats: int = 10,
    test_size: float = 0.3,
    seed: int = 0,
    on_step: Callable[[str, int], None] | None = None,
    on_epoch: Callable[[str, int, int], None] | None = None,
) -> pd.DataFrame:
    """Fit every method on the same repeated stratified splits of a table, and measure it on the rows held out.

    The table is prepared by `table_pipeline`, fitted on the training rows of each split. A method whose
    `random_state` is None trains with `seed + split`.

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
    on_step : callable (method, split), optional
        Called after each fit.
    on_epoch : callable (method, split, epochs), optional
        Called within each fit of a network, with the epochs done since the last call.

    Returns
    -------
    DataFrame, one row for each split and method, with columns
        method, split, accuracy (test, in percent), log_loss (test, in nats; probabilities clipped at 1e-15),
        seconds (of the fit), params (what the method chose by its own cross-validation, a dict).

    Examples
    --------
    >>> from genlabel.datasets import load_table
    >>> compare(load_table("iris"), {"generative": GenerativeClassifier()}, repeats=2)[["method", "split"]]
           method  split
    0  generative      0
    1  generative      1
    """
    chosen = default_methods() if methods is None else methods
    splits = cut_splits(table, repeats, test_size, seed)
    rows = []
    for split, parts in enumerate(splits):
        for name, estimator in chosen.items():
            with listen(partial(on_epoch, name, split) if on_epoch is not None else _ignore):
                measured = measure(table, seeded(estimator, seed + split), parts)
            rows.append({"method": name, "split": split} | {column: measured[column] for column in REPORTED})
            if on_step is not None:
                on_step(name, split)
    return pd.DataFrame(rows)


def default_methods(network: Any = "logistic", density: str = "label-model", epochs: int = 100) -> dict[str, Any]:
    """Return the four methods of a comparison, all with the same network.

    Parameters
    ----------
    network : "logistic", "mlp" or sequence of int
    density : "label-model", "gaussian", "kernel" or "auto"
        "auto" lets GenLabel choose by cross-validation, and lists a generative classifier for each of the two.
    epochs : int

    Examples
    --------
    >>> list(default_methods(density="auto"))
    ['vanilla', 'mixup', 'GenLabel', 'generative (gaussian)', 'generative (kernel)']
    """
    common = {"network": network, "epochs": epochs}
    names = ("gaussian", "kernel") if density == "auto" else (density,)
    alone = density if density == "label-model" else "generative"
    generative = {
        alone if len(names) == 1 else f"{alone} ({name})": GenerativeClassifier(density=name) for name in names
    }
    return {
        "vanilla": MixupClassifier(mixer=None, **common),
        "mixup": MixupClassifier(**common),
        "GenLabel": GenLabelClassifier(density=density, **common),
        **generative,
    }


def drop_rare(table: Table, fewest: int = FEWEST_ROWS) -> Table:
    """Return the table without the classes of fewer than `fewest` rows; a note names them.

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


def summarize(results: pd.DataFrame) -> pd.DataFrame:
    """Mean and standard deviation over the splits, a row for each method in the order of the results.

    >>> results = pd.DataFrame({"method": ["m", "m"], "accuracy": [80.0, 90.0], "log_loss": 0.5, "seconds": 1.0})
    >>> summarize(results)["accuracy"].round(2)
            mean   std
    method
    m       85.0  7.07
    """
    groups = results.groupby("method", sort=False)
    return groups[["accuracy", "log_loss", "seconds"]].agg(["mean", "std"])


def cut_splits(table: Table, repeats: int, test_size: float, seed: int) -> list[Split]:
    """Cut all splits before the first fit, so that a class that is too small is told at once.

    The first splits of many are those of few.

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

    >>> seeded(MixupClassifier(), 3).random_state
    3
    """
    own = clone(estimator)
    if "random_state" in own.get_params() and own.get_params()["random_state"] is None:
        own.set_params(random_state=seed)
    return own


def measure(table: Table, estimator: BaseEstimator, parts: Split) -> dict[str, Any]:
    """Fit an estimator on the training rows of a split, and return what it scores on the others.

    Returns
    -------
    dict
        accuracy (in percent), log_loss (in nats), brier, calibration_error, seconds (of the fit), params.

    Examples
    --------
    >>> from genlabel.datasets import load_table
    >>> iris = load_table("iris")
    >>> measure(iris, GenerativeClassifier("gaussian"), cut_splits(iris, 1, 0.3, 0)[0])["accuracy"]
    100.0
    """
    train, test = parts
    model = table_pipeline(table.X, estimator)
    start = perf_counter()
    model.fit(table.X.iloc[train], table.y.iloc[train])
    seconds = perf_counter() - start
    log_proba = np.log(np.clip(model.predict_proba(table.X.iloc[test]), SMALLEST, None))
    y = np.searchsorted(model.classes_, table.y.iloc[test].to_numpy())
    return {
        "accuracy": 100.0 * float(accuracy(log_proba, y)),
        "log_loss": float(log_loss(log_proba, y)),
        "brier": float(brier_score(log_proba, y)),
        "calibration_error": float(calibration_error(log_proba, y)),
        "seconds": seconds,
        "params": dict(getattr(model[-1], "best_params_", {})),
    }


def _ignore(epochs: int) -> None:
    """Nobody listens."""
