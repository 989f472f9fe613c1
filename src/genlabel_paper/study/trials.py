"""A trial: the cells of one dataset, split and seed, trained together and measured on the test rows."""

from __future__ import annotations

import platform
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pandas as pd
import sklearn
import torch

import genlabel
from genlabel.attacks import robust_accuracy
from genlabel.metrics import LEAST_PROBABILITY as SMALLEST
from genlabel.metrics import accuracy, log_loss
from genlabel_paper.study.cells import Cell, Record, Trial
from genlabel_paper.study.data import Parts, load_parts
from genlabel_paper.study.manifest import manifest
from genlabel_paper.study.methods import METHODS
from genlabel_paper.study.settings import SETTINGS, Search, Setting, Variant

__all__ = ["cost", "run_trial"]

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
    seconds = (perf_counter() - begin) / len(cells)
    return [
        Record(cell=cell, parameters=chosen, metrics=metrics, seconds=seconds, versions=_versions())
        for cell, chosen, metrics in found
    ]


def cost(trial: Trial) -> float:
    """Return about how long a trial takes, in no unit: those that take longest are begun first.

    >>> cost(Trial("mlp", "36", 0, 0)) > cost(Trial("logistic", "36", 0, 0)) > cost(Trial("logistic", "61", 0, 0))
    True
    """
    rows = manifest()["n"].get(trial.dataset)
    n = DRAWN if rows is None or pd.isna(rows) else int(rows)
    return n * (n + 1000.0) * (10.0 if trial.setting.startswith("mlp") else 1.0)


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
    return {names[name]: own for name, own in fitted.items()}


def _measure(model: Any, method: Variant, parts: Parts, setting: Setting) -> dict[str, float]:
    """Accuracy and log-loss on the test rows; under attack where the setting has one; on the training rows."""
    metrics = {
        "accuracy": _accuracy(model, parts.X_test, parts.y_test),
        "log_loss": float(log_loss(*_scores(model, parts.X_test, parts.y_test))),
    }
    if setting.attack is not None:
        metrics["robust_accuracy"] = robust_accuracy(model, parts.X_test, parts.y_test, setting.attack).accuracy
    if METHODS[method[0]].kind == "generative":
        metrics["train_accuracy"] = _accuracy(model, parts.X, parts.y)
    return metrics


def _scores(model: Any, X: Any, y: Any) -> tuple[Any, Any]:
    log_proba = np.maximum(model.predict_log_proba(X), np.log(SMALLEST))
    return log_proba, np.searchsorted(model.classes_, y)


def _accuracy(model: Any, X: Any, y: Any) -> float:
    return 100.0 * float(accuracy(*_scores(model, X, y)))


def _choice(model: Any) -> dict[str, Any]:
    """What the search chose, as numbers and names."""
    chosen = getattr(model, "best_params_", {})
    plain = {name: chosen[name] for name in TOLD if name in chosen}
    return {
        name: value if isinstance(value, int | float | str) else type(value).__name__ for name, value in plain.items()
    }


def _versions() -> dict[str, str]:
    return {
        "genlabel": genlabel.__version__,
        "torch": torch.__version__,
        "scikit-learn": sklearn.__version__,
        "python": platform.python_version(),
    }
