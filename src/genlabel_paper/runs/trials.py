"""Trials: cells of one dataset, split and seed, trained together and measured on the test rows."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from time import perf_counter

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from genlabel.evaluation.records import Record, fingerprint
from genlabel.evaluation.records.run import software_versions
from genlabel_paper.runs.cells import Cell, TrialKey
from genlabel_paper.runs.setting import Setting, Variant
from genlabel_paper.runs.settings import SETTINGS


def run_trial(
    cells: Sequence[Cell], data_home: str | Path | None = None, checkpoints: Path | None = None
) -> list[Record]:
    """Train and measure the cells of one trial, and return their records.

    The cells share setting, dataset, split and seed; on images also the method. A search that serves several methods is
    always run completely, so that a record does not depend on the other cells of the trial.

    Parameters
    ----------
    cells : sequence of Cell
    data_home : path, optional
        Folder of the datasets, see `genlabel.data.datasets.load_openml` and `load_images`.
    checkpoints : path, optional
        Folder in which the training of a network on images saves its state, so that the next call continues it.

    Examples
    --------
    >>> record, = run_trial([Cell("synthetic", "cube-2d", "vanilla", split=0, seed=0)])
    >>> record["metrics"]["accuracy"] > 0.9
    True
    """
    setting = _shared_setting(cells)
    start = perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = setting.run(cells, data_home, checkpoints)
    seconds = (perf_counter() - start) / len(cells)
    return [
        Record(key=cell, parameters=parameters, metrics=metrics, seconds=seconds, versions=software_versions())
        for cell, parameters, metrics in results
    ]


def fingerprint_cell(cell: Cell) -> str:
    """Return the fingerprint of the settings of a cell; its split and its seed are not part of it.

    >>> one, other = (Cell("logistic", "61", "mixup", split, 0) for split in (0, 1))
    >>> fingerprint_cell(one) == fingerprint_cell(other)
    True
    """
    dataset = SETTINGS[cell.setting].representative(cell.dataset)
    return _fingerprint(cell.setting, dataset, (cell.method, cell.alpha))


def is_current(records: pd.DataFrame) -> NDArray[np.bool_]:
    """Return a mask (n,) of the records made with the current settings; records of removed cells are False.

    >>> cell = Cell("logistic", "61", "mixup", split=0, seed=0)
    >>> rows = pd.DataFrame([cell.fields | {"fingerprint": name} for name in (fingerprint_cell(cell), "old")])
    >>> is_current(rows).tolist()
    [True, False]
    """
    columns = (records[name] for name in ("setting", "dataset", "method", "alpha", "fingerprint"))
    rows = zip(*columns, strict=True)
    current = [
        _current_fingerprint(name, dataset, (method, alpha)) == made for name, dataset, method, alpha, made in rows
    ]
    return np.array(current, dtype=np.bool_)


def _current_fingerprint(name: str, dataset: str, variant: Variant) -> str | None:
    """Return the current fingerprint, or None for an unknown setting, method or dataset."""
    if name not in SETTINGS or variant not in SETTINGS[name].variants(dataset):
        return None
    try:
        return _fingerprint(name, SETTINGS[name].representative(dataset), variant)
    except KeyError:  # an unknown synthetic dataset
        return None


@cache
def _fingerprint(name: str, dataset: str, variant: Variant) -> str:
    """Return the fingerprint of the description of a method on a dataset."""
    return fingerprint(setting=name, method=variant, **SETTINGS[name].describe(dataset, variant))


def order(trial: TrialKey) -> tuple[int, int, float]:
    """Return a sort key of trials: by split, then by seed, then the longest first.

    >>> sizes = [TrialKey("logistic", "61", 0, 0), TrialKey("logistic", "36", 0, 0), TrialKey("mlp", "36", 0, 0)]
    >>> [trial.setting for trial in sorted(sizes, key=order)]
    ['mlp', 'logistic', 'logistic']
    """
    return trial.split, trial.seed, -SETTINGS[trial.setting].cost(trial.dataset)


def _shared_setting(cells: Sequence[Cell]) -> Setting:
    """Return the setting of all cells; raise if they are of several trials or unknown."""
    shared = {cell.trial for cell in cells}
    if len(shared) != 1:
        raise ValueError(f"the cells belong to {len(shared)} trials; pass the cells of one")
    name, dataset = cells[0].setting, cells[0].dataset
    if name not in SETTINGS:
        raise ValueError(f"setting={name!r} is unknown; choose from {', '.join(map(repr, SETTINGS))}")
    known = SETTINGS[name].variants(dataset)
    for cell in cells:
        if (cell.method, cell.alpha) not in known:
            raise ValueError(f"{cell.id!r}: setting {name!r} has no method {cell.method!r} at alpha={cell.alpha:g}")
    return SETTINGS[name]
