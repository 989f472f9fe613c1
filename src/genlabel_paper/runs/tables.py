"""Settings of tables and points: classifiers that are fitted on the rows of a split, several methods by one search."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import pandas as pd

from genlabel.attacks import Attack, robust_accuracy
from genlabel.metrics import LEAST_PROBABILITY, score
from genlabel_paper.runs.cells import Cell
from genlabel_paper.runs.data import Parts, describe_parts, load_parts
from genlabel_paper.runs.manifest import ROUNDED, manifest
from genlabel_paper.runs.methods import METHODS, Candidate, Classifier
from genlabel_paper.runs.plane import LIMITS, MEASURED, describe_plane, keep_regions, measure_margins
from genlabel_paper.runs.setting import Result, Setting, Variant

DRAWN = 1000
"""Rows of a set that is not in the manifest."""
ANY = "61"
"""A set of OpenML that stands for all."""
TOLD = ("learning_rate", "gamma", "density")
"""What is kept of the choice of a search."""


@dataclass(frozen=True)
class Search:
    """One fit that serves several methods: each has the best of its own candidates."""

    make: Callable[[str, int], Classifier]
    """The classifier for a dataset and a seed."""
    variants: Mapping[Variant, Callable[[Candidate], bool]]
    """Which candidates belong to each method; a classifier without a search serves one."""


@final
@dataclass(frozen=True)
class TableSetting(Setting):
    """How the cells of a setting are trained and measured."""

    searches: tuple[Search, ...]
    attack: Attack | None = None
    """Under which accuracy is measured as well."""
    plane: bool = False
    """Whether margins are measured as well, and regions kept, see `genlabel_paper.runs.plane`."""
    margins: bool = False
    """Whether margins are measured, without a picture."""
    weight: float = 1.0
    """How much longer a trial takes than one of softmax regression."""

    def variants(self, dataset: str) -> Set[Variant]:
        """The methods of all searches, whatever the dataset."""
        return {variant for search in self.searches for variant in search.variants}

    def describe(self, dataset: str, variant: Variant) -> dict[str, Any]:
        """The classifier that is fitted, which of its candidates count, the attack, the cut, and what is measured."""
        (search,) = (search for search in self.searches if variant in search.variants)
        return {
            "classifier": search.make(dataset, 0),
            "candidates": search.variants[variant],
            "attack": self.attack,
            "data": describe_parts(dataset),
            "least_probability": LEAST_PROBABILITY,
            **(describe_plane(dataset) if self.plane else {}),
            **({"margins": MEASURED} if self.margins else {}),
        }

    def alike(self, dataset: str) -> str:
        """Sets of OpenML are cut and trained alike, but for those whose target is rounded."""
        return ANY if dataset.isdigit() and dataset not in ROUNDED else dataset

    def cost(self, dataset: str) -> float:
        """Kernels are quadratic in the rows."""
        rows = manifest()["n"].get(dataset)
        n = DRAWN if rows is None or pd.isna(rows) else int(rows)
        return n * (n + 1000.0) * self.weight

    def run(self, cells: Sequence[Cell], data_home: str | Path | None) -> list[Result]:
        """Fit the searches that serve the cells."""
        dataset, split, seed = cells[0].dataset, cells[0].split, cells[0].seed
        parts = load_parts(dataset, split, data_home)
        wanted = {(cell.method, cell.alpha): cell for cell in cells}
        found = []
        for method, model in _fit(self, set(wanted), parts, dataset, seed):
            found.append(Result(wanted[method], _choice(model), _measure(model, method, parts, self)))
            if self.margins:
                found[-1].metrics.update(measure_margins(model, parts.X, parts.y, split))
            if self.plane:
                _add_plane(*found[-1], model, parts)
        return found


def _fit(
    setting: TableSetting, wanted: set[Variant], parts: Parts, dataset: str, seed: int
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
    fitted = model.fit_subsets(parts.X, parts.y, {name: search.variants[method] for name, method in names.items()})
    return {names[name]: variant for name, variant in fitted.items()}


def _measure(model: Any, method: Variant, parts: Parts, setting: TableSetting) -> dict[str, float]:
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
