"""Run the suite: every method on every split of every set, in parallel, each fit recorded once and for all."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from joblib import Parallel, delayed, parallel_config
from sklearn.base import BaseEstimator
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from genlabel import __version__
from genlabel.checks import check_count, check_interval
from genlabel.comparison import Split, cut_splits, drop_rare, measure, seeded
from genlabel.datasets import Table, load_openml
from genlabel.estimators import GenerativeClassifier, GenLabelClassifier, MixupClassifier
from genlabel.suite.records import CELL, open_records, read_records

__all__ = ["RECORDS", "default_suite", "run_suite"]

RECORDS = Path("build", "suite.jsonl")
LONGEST = 300
"""Letters of an error that are kept."""

Record = dict[str, Any]
Cell = tuple[int, int, str]


def default_suite(network: Any = "mlp", epochs: int = 100) -> dict[str, Any]:
    """Return the methods of the suite: GenLabel as it comes and as in the paper, and what it is held against.

    Parameters
    ----------
    network : "logistic", "mlp" or sequence of int
        Of "default", "paper", "vanilla" and "mixup".
    epochs : int

    Examples
    --------
    >>> list(default_suite())
    ['default', 'paper', 'vanilla', 'mixup', 'label model', 'logistic', 'boosting']
    """
    common = {"network": network, "epochs": epochs}
    return {
        "default": GenLabelClassifier(**common),
        "paper": GenLabelClassifier.from_paper(**common),
        "vanilla": MixupClassifier(mixer=None, **common),
        "mixup": MixupClassifier(**common),
        "label model": GenerativeClassifier(density="label-model"),
        "logistic": make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000)),
        "boosting": HistGradientBoostingClassifier(),
    }


def run_suite(
    ids: Iterable[int],
    methods: Mapping[str, BaseEstimator] | None = None,
    repeats: int = 2,
    test_size: float = 0.3,
    seed: int = 0,
    *,
    records: str | Path = RECORDS,
    settings: Mapping[str, Any] | None = None,
    fresh: bool = False,
    n_jobs: int = 1,
    load: Callable[[int], Table] = load_openml,
    on_start: Callable[[int, int], None] | None = None,
    on_record: Callable[[Record], None] | None = None,
) -> pd.DataFrame:
    """Fit the methods on repeated stratified splits of OpenML sets, and return the records of these fits.

    Each fit is a line of the file of records when it ends. A run that was stopped, however rudely, goes on where it
    was; a fit that failed is recorded with its error, and tried again in the next run. Classes of fewer than 4 rows
    are dropped. A method whose `random_state` is None trains with `seed + split`, as in `genlabel.comparison.compare`.

    Parameters
    ----------
    ids : iterable of int
        Of OpenML.
    methods : dict of name -> classifier, optional
        `default_suite()` if not given.
    repeats, test_size, seed
        Number of splits, share of the rows held out in each, and seed of the splits and the methods. More `repeats`
        may be asked for later: the first splits stay the same.
    records : path
        The file.
    settings : dict, optional
        What else changes results, such as the epochs: kept in the first line with `seed` and `test_size`, and a run
        that goes on must have the same.
    fresh : bool
        Begin again.
    n_jobs : int
        Fits at once, each in its own process with one thread; -1 is one for each processor.
    load : callable (id) -> Table
    on_start : callable (fits to do, fits done before), optional
    on_record : callable (record), optional
        Called after each fit.

    Returns
    -------
    DataFrame
        As of `read_records`, for these ids, methods and splits.
    """
    chosen = default_suite() if methods is None else methods
    numbers = list(dict.fromkeys(check_count("ids", number) for number in ids))
    plan = _Plan(
        chosen,
        check_count("repeats", repeats),
        check_interval("test_size", test_size, 0.01, 0.99, "0.3 holds out three rows in ten"),
        check_count("seed", seed, low=0),
        one_thread=n_jobs != 1,
    )
    cells = [(number, split, name) for number in numbers for split in range(plan.repeats) for name in chosen]
    fixed = {"seed": plan.seed, "test_size": plan.test_size, **(settings or {})}
    with open_records(records, fixed, fresh) as file:
        todo = [cell for cell in cells if cell not in file.done]
        if on_start is not None:
            on_start(len(todo), len(cells) - len(todo))
        for record in _results(plan, todo, load, n_jobs):
            file.write(record)
            if on_record is not None:
                on_record(record)
    found = read_records(records)
    asked = pd.MultiIndex.from_tuples(cells, names=CELL) if cells else pd.MultiIndex.from_arrays([[], [], []])
    return found[found.set_index(list(CELL)).index.isin(asked)].reset_index(drop=True)


@dataclass(frozen=True)
class _Plan:
    """What all fits of a run have in common."""

    methods: Mapping[str, BaseEstimator]
    repeats: int
    test_size: float
    seed: int
    one_thread: bool


def _results(plan: _Plan, todo: list[Cell], load: Callable[[int], Table], n_jobs: int) -> Iterator[Record]:
    """Do the fits, and give each record as soon as it is there; nothing but this process writes."""
    tasks = _tasks(plan, todo, load)
    if not plan.one_thread:
        yield from (_fit(*task) for task in tasks)
        return
    with parallel_config(backend="loky", n_jobs=n_jobs, inner_max_num_threads=1):
        pool = Parallel(return_as="generator_unordered", batch_size=1)
    yield from pool(delayed(_fit)(*task) for task in tasks)


_Task = tuple[_Plan, Cell, "Table | str", "Split | None"]


def _tasks(plan: _Plan, todo: list[Cell], load: Callable[[int], Table]) -> Iterator[_Task]:
    """Load each set once, when its turn comes; one that cannot be had is the error of its fits."""
    table: Table | str = ""
    splits: list[Split] = []
    current: int | None = None
    for cell in todo:
        if cell[0] != current:
            current = cell[0]
            try:
                table = drop_rare(load(current))
                splits = cut_splits(table, plan.repeats, plan.test_size, plan.seed)
            except Exception as error:
                table = _shorten(error)
        yield plan, cell, table, None if isinstance(table, str) else splits[cell[1]]


def _fit(plan: _Plan, cell: Cell, table: Table | str, parts: Split | None) -> Record:
    """Fit one method on one split; whatever goes wrong is its error."""
    number, split, name = cell
    asked: Record = {"id": number, "split": split, "method": name}
    if isinstance(table, str) or parts is None:
        return {**asked, "error": str(table)}
    n, d = table.X.shape
    known: Record = {"id": number, "name": table.name, "n": n, "d": d, "k": int(table.y.nunique())} | asked
    if plan.one_thread:
        torch.set_num_threads(1)
    try:
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            measured = measure(table, seeded(plan.methods[name], plan.seed + split), parts)
        if not np.isfinite(measured["log_loss"]):
            raise ValueError(f"{name} gives probabilities that are no numbers")
    except Exception as error:
        return {**known, "error": _shorten(error)}
    params = {key: _plain(value) for key, value in measured.pop("params").items()}
    return {**known, **measured, "params": params, "warnings": len(heard), "version": __version__, "device": _device()}


def _shorten(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:LONGEST]


def _plain(value: Any) -> Any:
    """A parameter as JSON has it: nothing, a truth, a finite number, a text, or a list of these."""
    value = value.tolist() if isinstance(value, np.generic | np.ndarray) else value
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    fits = value is None or isinstance(value, bool | int | str) or (isinstance(value, float) and np.isfinite(value))
    return value if fits else str(value)


def _device() -> str:
    """Where a network trains if its device is "auto"."""
    return "cuda" if torch.cuda.is_available() else "cpu"
