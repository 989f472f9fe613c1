"""A trial: the cells of one dataset, split and seed, trained together and measured on the test rows."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from time import perf_counter

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from genlabel.evaluation.records import Record, fingerprint, software_versions
from genlabel_paper.runs.cells import Cell, Trial
from genlabel_paper.runs.setting import Setting, Variant
from genlabel_paper.runs.settings import SETTINGS


def run_trial(cells: Sequence[Cell], data_home: str | Path | None = None) -> list[Record]:
    """Train and measure cells of one trial, which share setting, dataset, split and seed, and return their records.

    On images a trial is one method. A search that serves several methods is done whole, whichever of them are asked
    for: a record does not depend on the company in which it was made.

    Parameters
    ----------
    cells : sequence of Cell
    data_home : path, optional
        As of `genlabel.data.datasets.load_openml` and `load_images`.

    Examples
    --------
    >>> record, = run_trial([Cell("synthetic", "cube-2d", "vanilla", split=0, seed=0)])
    >>> record["metrics"]["accuracy"] > 90
    True
    """
    setting = _common(cells)
    begin = perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = setting.run(cells, data_home)
    seconds = (perf_counter() - begin) / len(cells)
    return [
        Record(cell=cell, parameters=chosen, metrics=metrics, seconds=seconds, versions=software_versions())
        for cell, chosen, metrics in found
    ]


def fingerprint_cell(cell: Cell) -> str:
    """Return the fingerprint of the settings that make the record of a cell; its split and its seed are none of them.

    >>> one, other = (Cell("logistic", "61", "mixup", split, 0) for split in (0, 1))
    >>> fingerprint_cell(one) == fingerprint_cell(other)
    True
    """
    alike = SETTINGS[cell.setting].alike(cell.dataset)
    return _fingerprint(cell.setting, alike, (cell.method, cell.alpha))


def is_current(records: pd.DataFrame) -> NDArray[np.bool_]:
    """Return which records (n,) were made with the settings of today; those of a cell that is gone were not.

    >>> cell = Cell("logistic", "61", "mixup", split=0, seed=0)
    >>> rows = pd.DataFrame([cell.fields | {"fingerprint": name} for name in (fingerprint_cell(cell), "of old")])
    >>> is_current(rows).tolist()
    [True, False]
    """
    columns = (records[name] for name in ("setting", "dataset", "method", "alpha", "fingerprint"))
    rows = zip(*columns, strict=True)
    same = [_today(name, dataset, (method, alpha)) == made for name, dataset, method, alpha, made in rows]
    return np.array(same, dtype=np.bool_)


def _today(name: str, dataset: str, variant: Variant) -> str | None:
    """The fingerprint of today, or None where there is no such setting, or it has no such method or dataset."""
    if name not in SETTINGS or variant not in SETTINGS[name].variants(dataset):
        return None
    try:
        return _fingerprint(name, SETTINGS[name].alike(dataset), variant)
    except KeyError:  # a synthetic set of which the settings say nothing
        return None


@cache
def _fingerprint(name: str, dataset: str, variant: Variant) -> str:
    """Of all that the setting says of a method on a dataset."""
    return fingerprint(setting=name, method=variant, **SETTINGS[name].describe(dataset, variant))


def order(trial: Trial) -> tuple[int, int, float]:
    """Return a key for sorting trials: split by split and seed by seed, those that take longest first.

    >>> sizes = [Trial("logistic", "61", 0, 0), Trial("logistic", "36", 0, 0), Trial("mlp", "36", 0, 0)]
    >>> [trial.setting for trial in sorted(sizes, key=order)]
    ['mlp', 'logistic', 'logistic']
    """
    return trial.split, trial.seed, -SETTINGS[trial.setting].cost(trial.dataset)


def _common(cells: Sequence[Cell]) -> Setting:
    """The setting of all cells."""
    shared = {cell.trial for cell in cells}
    if len(shared) != 1:
        raise ValueError(f"the cells are of {len(shared)} trials; pass those of one")
    name, dataset = cells[0].setting, cells[0].dataset
    if name not in SETTINGS:
        raise ValueError(f"setting={name!r} is not known; choose among {', '.join(map(repr, SETTINGS))}")
    known = SETTINGS[name].variants(dataset)
    for cell in cells:
        if (cell.method, cell.alpha) not in known:
            raise ValueError(f"{cell.id!r}: setting {name!r} has no method {cell.method!r} at alpha={cell.alpha:g}")
    return SETTINGS[name]
