"""The comparison: vanilla training, mixup, GenLabel and the generative classifier on the same splits of a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import pandas as pd
from sklearn.base import BaseEstimator

from genlabel.bench import Bench, Heard, cut_splits
from genlabel.datasets import Table
from genlabel.estimators import GenerativeClassifier, GenLabelClassifier, MixupClassifier
from genlabel.records import COMPARISON, Counts, Kept, Outcome, open_store

__all__ = ["as_results", "compare", "count_warnings", "default_methods", "hash_table", "run_comparison", "summarize"]

REPORTED = ["method", "split", "accuracy", "log_loss", "seconds", "params"]
"""The columns of a comparison."""


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
    `random_state` is None trains with `seed + split`. Each fit has one thread.

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

    def step(outcome: Outcome) -> None:
        if outcome.error is not None:
            raise RuntimeError(f"{outcome.trial.method} failed on split {outcome.trial.split}: {outcome.error}")
        if on_step is not None:
            on_step(outcome.trial.method, outcome.trial.split)

    return as_results(run_comparison(table, methods, repeats, test_size, seed, on_trial=step, on_epoch=on_epoch).frame)


def run_comparison(
    table: Table,
    methods: Mapping[str, BaseEstimator] | None = None,
    repeats: int = 10,
    test_size: float = 0.3,
    seed: int = 0,
    *,
    records: str | Path | None = None,
    fresh: bool = False,
    n_jobs: int = 1,
    dask: str | None = None,
    on_start: Callable[[Counts], None] | None = None,
    on_trial: Callable[[Outcome], None] | None = None,
    on_epoch: Callable[[str, int, int], None] | None = None,
) -> Kept:
    """Do the fits of `compare` that are not on record, and return the records and the failures of all of them.

    Records of another table of the same name, or of other settings, count as missing.

    Parameters
    ----------
    table, methods, repeats, test_size, seed
        As of `compare`.
    records : path, optional
        The file; in memory, and gone afterwards, if not given.
    fresh, n_jobs, dask, on_start, on_trial
        As of `genlabel.records.open_store` and `run_cells`.
    on_epoch : callable (method, split, epochs), optional
        Heard of fits in this process only.
    """
    chosen = default_methods() if methods is None else methods
    cut_splits(table, repeats, test_size, seed)
    here = n_jobs == 1 and dask is None
    bench = Bench(chosen, repeats, test_size, seed, _Given(table), _tell_warnings, on_epoch if here else None)
    with open_store(records, COMPARISON, fresh=fresh) as store:
        return bench.run(
            [table.name],
            store,
            data=hash_table(table),
            n_jobs=n_jobs,
            dask=dask,
            on_start=on_start,
            on_trial=on_trial,
        )


def as_results(records: pd.DataFrame) -> pd.DataFrame:
    """Return records of a comparison as `compare` does."""
    return records.rename(columns={"parameters": "params"})[REPORTED]


def default_methods(network: Any = "mlp", density: str = "label-model", epochs: Any = "auto") -> dict[str, Any]:
    """Return the four methods of a comparison, all with the same network.

    Parameters
    ----------
    network : "auto", "logistic", "mlp" or sequence of int
    density : "label-model", "gaussian", "kernel", "mixture", "forest", "flow", "vae", "gan" or "auto"
        "auto" lets GenLabel choose by cross-validation, and lists a generative classifier for each of the two.
    epochs : "auto" or int

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


def count_warnings(heard: Heard) -> dict[str, int]:
    """Return how often each warning was heard; those about code are for its authors, and left out."""
    about_code = (DeprecationWarning, PendingDeprecationWarning, FutureWarning)
    texts = [" ".join(str(one.message).split()) for one in heard if not issubclass(one.category, about_code)]
    return dict(Counter(texts))


def hash_table(table: Table) -> str:
    """Return a hash of the content of a table: names, types, values and labels.

    >>> table = Table("t", pd.DataFrame({"x": [1.0, 2.0]}), pd.Series(["a", "b"]))
    >>> from dataclasses import replace
    >>> hash_table(table) == hash_table(replace(table, y=pd.Series(["a", "c"])))
    False
    """
    digest = sha256()
    for part in (table.X, table.y.to_frame("y")):
        digest.update(repr([(str(name), str(kind)) for name, kind in part.dtypes.items()]).encode())
        digest.update(pd.util.hash_pandas_object(part, index=False).to_numpy().tobytes())
    return digest.hexdigest()[:16]


@dataclass(frozen=True)
class _Given:
    """Gives the one table that there is."""

    table: Table

    def __call__(self, dataset: Any) -> Table:
        return self.table


def _tell_warnings(table: Table, heard: Heard) -> dict[str, Any]:
    return {"warnings": count_warnings(heard)}
