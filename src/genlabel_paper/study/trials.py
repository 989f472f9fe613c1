"""A trial: the cells of one dataset, split and seed, trained together and measured on the test rows."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from genlabel.attacks import robust_accuracy
from genlabel.metrics import LEAST_PROBABILITY, score
from genlabel.records import Record, fingerprint, software_versions
from genlabel_paper.study.cells import Cell, Trial
from genlabel_paper.study.data import Parts, describe_parts, load_parts
from genlabel_paper.study.manifest import manifest
from genlabel_paper.study.methods import METHODS
from genlabel_paper.study.plane import LIMITS, describe_plane, keep_regions, measure_margins
from genlabel_paper.study.settings import SETTINGS, Search, Setting, Variant

__all__ = ["fingerprint_cell", "is_current", "order", "run_trial"]

DRAWN = 1000
"""Rows of a set that is not in the manifest."""
TOLD = ("learning_rate", "gamma", "density")
"""What is kept of the choice of a search."""


def run_trial(cells: Sequence[Cell], data_home: str | Path | None = None) -> list[Record]:
    """Train and measure cells that share setting, dataset, split and seed, and return their records.

    A search that serves several methods is done whole, whichever of them are asked for: a record does not depend on
    the company in which it was made.

    Parameters
    ----------
    cells : sequence of Cell
    data_home : path, optional
        As of `genlabel.datasets.load_openml`.

    Examples
    --------
    >>> record, = run_trial([Cell("synthetic", "cube-2d", "vanilla", split=0, seed=0)])
    >>> record["metrics"]["accuracy"] > 90
    True
    """
    setting, dataset, split, seed = _common(cells)
    begin = perf_counter()
    parts = load_parts(dataset, split, data_home)
    wanted = {(cell.method, cell.alpha): cell for cell in cells}
    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for method, model in _fit(setting, set(wanted), parts, dataset, seed):
            found.append((wanted[method], _choice(model), _measure(model, method, parts, setting)))
            if setting.plane:
                _add_plane(*found[-1], model, parts)
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
    return _fingerprint(cell.setting, cell.dataset, (cell.method, cell.alpha))


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


def _today(name: str, dataset: str, method: Variant) -> str | None:
    """The fingerprint of today, or None where there is no such setting, or it has no such method or dataset."""
    if name not in SETTINGS or not any(method in search.variants for search in SETTINGS[name].searches):
        return None
    try:
        return _fingerprint(name, dataset, method)
    except KeyError:  # a synthetic set of which the settings say nothing
        return None


@cache
def _fingerprint(name: str, dataset: str, method: Variant) -> str:
    """Of the classifier that is fitted, which of its candidates count, the attack, the cut, and what is measured."""
    setting = SETTINGS[name]
    (search,) = (search for search in setting.searches if method in search.variants)
    return fingerprint(
        setting=name,
        method=method,
        classifier=search.make(dataset, 0),
        candidates=search.variants[method],
        attack=setting.attack,
        data=describe_parts(dataset),
        least_probability=LEAST_PROBABILITY,
        **(describe_plane(dataset) if setting.plane else {}),
    )


def order(trial: Trial) -> tuple[int, int, float]:
    """Return a key for sorting trials: split by split and seed by seed, those that take longest first.

    >>> sizes = [Trial("logistic", "61", 0, 0), Trial("logistic", "36", 0, 0), Trial("mlp", "36", 0, 0)]
    >>> [trial.setting for trial in sorted(sizes, key=order)]
    ['mlp', 'logistic', 'logistic']
    """
    rows = manifest()["n"].get(trial.dataset)
    n = DRAWN if rows is None or pd.isna(rows) else int(rows)
    cost = n * (n + 1000.0) * (10.0 if trial.setting.startswith("mlp") else 1.0)
    return trial.split, trial.seed, -cost


def _common(cells: Sequence[Cell]) -> tuple[Setting, str, int, int]:
    """Setting, dataset, split and seed of all cells."""
    shared = {cell.trial for cell in cells}
    if len(shared) != 1:
        raise ValueError(f"the cells are of {len(shared)} trials; pass those of one")
    name, dataset, split, seed = shared.pop()
    if name not in SETTINGS:
        raise ValueError(f"setting={name!r} is not known; choose among {', '.join(map(repr, SETTINGS))}")
    known = {method for search in SETTINGS[name].searches for method in search.variants}
    for cell in cells:
        if (cell.method, cell.alpha) not in known:
            raise ValueError(f"{cell.id!r}: setting {name!r} has no method {cell.method!r} at alpha={cell.alpha:g}")
    return SETTINGS[name], dataset, split, seed


def _fit(
    setting: Setting, wanted: set[Variant], parts: Parts, dataset: str, seed: int
) -> Iterator[tuple[Variant, Any]]:
    """Each method that is wanted, fitted."""
    for search in setting.searches:
        asked = wanted & set(search.variants)
        if asked:
            fitted = _fit_search(search, parts, dataset, seed)
            yield from ((method, fitted[method]) for method in search.variants if method in asked)


def _fit_search(search: Search, parts: Parts, dataset: str, seed: int) -> dict[Variant, Any]:
    model = search.make(dataset, seed)
    if len(search.variants) == 1:
        return {next(iter(search.variants)): model.fit(parts.X, parts.y)}
    names = {str(method): method for method in search.variants}
    fitted = model.fit_variants(parts.X, parts.y, {name: search.variants[method] for name, method in names.items()})
    return {names[name]: variant for name, variant in fitted.items()}


def _measure(model: Any, method: Variant, parts: Parts, setting: Setting) -> dict[str, float]:
    """Accuracy and log-loss on the test rows; under attack where the setting has one; on the training rows."""
    scores = score(model, parts.X_test, parts.y_test)
    metrics = {name: scores[name] for name in ("accuracy", "log_loss")}
    if setting.attack is not None:
        metrics["robust_accuracy"] = robust_accuracy(model, parts.X_test, parts.y_test, setting.attack).accuracy
    if METHODS[method[0]].kind == "generative":
        metrics["train_accuracy"] = score(model, parts.X, parts.y)["accuracy"]
    return metrics


def _add_plane(cell: Cell, chosen: dict[str, Any], metrics: dict[str, float], model: Any, parts: Parts) -> None:
    """Add the margins, and, of the first split and seed, the regions: they are drawn."""
    metrics |= measure_margins(model, parts.X, parts.y, cell.split)
    if cell.split == cell.seed == 0:
        chosen["regions"] = keep_regions(model.predict, LIMITS[cell.dataset]).text


def _choice(model: Any) -> dict[str, Any]:
    """What the search chose, as numbers and names."""
    chosen = getattr(model, "best_params_", {})
    plain = {name: chosen[name] for name in TOLD if name in chosen}
    return {
        name: value if isinstance(value, int | float | str) else type(value).__name__ for name, value in plain.items()
    }
