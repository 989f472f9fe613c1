"""Settings of tables and synthetic points: classifiers fitted on the rows of a split, several methods by one search."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import pandas as pd

from genlabel.attacks import Attack, robust_accuracy
from genlabel.metrics import MIN_PROBABILITY, score
from genlabel_paper.runs.cells import Cell
from genlabel_paper.runs.data import SplitData, describe_split, load_split
from genlabel_paper.runs.manifest import ROUNDED, manifest
from genlabel_paper.runs.methods import METHODS, Candidate, Classifier
from genlabel_paper.runs.plane import MAX_MARGINS, PLOT_LIMITS, describe_plane, measure_margins, predict_regions
from genlabel_paper.runs.setting import Result, Setting, Variant

SYNTHETIC_ROWS = 1000
"""Assumed number of rows of a dataset that is not in the manifest."""
RECORDED_PARAMETERS = ("learning_rate", "gamma", "density")


@dataclass(frozen=True)
class Search:
    """Fit that serves several methods: each gets the best of its own candidates."""

    make: Callable[[str, int], Classifier]
    """Function that returns the classifier for a dataset and a seed."""
    variants: Mapping[Variant, Callable[[Candidate], bool]]
    """Filter of the candidates of each method; a classifier without a search serves one method."""
    datasets: Collection[str] | None = None
    """Datasets of the search; None is any."""


@final
@dataclass(frozen=True)
class TableSetting(Setting):
    """Setting of classifiers on tables and synthetic points."""

    searches: tuple[Search, ...]
    attack: Attack | None = None
    """Attack of the robust accuracy."""
    plane: bool = False
    """Measure margins and record decision regions, see `genlabel_paper.runs.plane`."""
    margins: bool = False
    """Measure margins, without decision regions."""
    weight: float = 1.0
    """Time of a trial relative to softmax regression."""

    def variants(self, dataset: str) -> Set[Variant]:
        """Return the methods of all searches for a dataset."""
        searches = [one for one in self.searches if one.datasets is None or dataset in one.datasets]
        return {variant for search in searches for variant in search.variants}

    def describe(self, dataset: str, variant: Variant) -> dict[str, Any]:
        """Return the classifier, the attack, the split, and what is measured."""
        (search,) = (search for search in self.searches if variant in search.variants)
        return {
            "classifier": search.make(dataset, 0),
            "attack": self.attack,
            "data": describe_split(dataset),
            "least_probability": MIN_PROBABILITY,
            **(describe_plane(dataset) if self.plane else {}),
            **({"margins": MAX_MARGINS} if self.margins else {}),
        }

    def representative(self, dataset: str) -> str:
        """Return "61" for all OpenML datasets without a rounded target: they are split and trained alike."""
        return "61" if dataset.isdigit() and dataset not in ROUNDED else dataset

    def cost(self, dataset: str) -> float:
        """Return the time by the square of the rows, for the kernels."""
        rows = manifest()["n"].get(dataset)
        n = SYNTHETIC_ROWS if rows is None or pd.isna(rows) else int(rows)
        return n * (n + 1000.0) * self.weight

    def run(self, cells: Sequence[Cell], data_home: str | Path | None, checkpoints: Path | None = None) -> list[Result]:
        """Fit the searches that serve the cells."""
        dataset, split, seed = cells[0].dataset, cells[0].split, cells[0].seed
        data = load_split(dataset, split, data_home)
        cell_of = {(cell.method, cell.alpha): cell for cell in cells}
        results = []
        for variant, model in _fit_variants(self, set(cell_of), data, dataset, seed):
            result = Result(cell_of[variant], _selected_parameters(model), _measure(model, variant, data, self))
            if self.margins or self.plane:
                result.metrics.update(measure_margins(model, data.X, data.y, split))
            if self.plane and split == seed == 0:
                result.parameters["regions"] = predict_regions(model.predict, PLOT_LIMITS[dataset]).encode()
            results.append(result)
        return results


def _fit_variants(
    setting: TableSetting, requested: set[Variant], data: SplitData, dataset: str, seed: int
) -> Iterator[tuple[Variant, Any]]:
    """Yield each requested method with its fitted classifier."""
    for search in setting.searches:
        served = requested & set(search.variants)
        if served:
            fitted = _fit_search(search, data, dataset, seed)
            yield from ((variant, fitted[variant]) for variant in search.variants if variant in served)


def _fit_search(search: Search, data: SplitData, dataset: str, seed: int) -> dict[Variant, Any]:
    model = search.make(dataset, seed)
    if len(search.variants) == 1:
        return {next(iter(search.variants)): model.fit(data.X, data.y)}
    names = {str(variant): variant for variant in search.variants}
    fitted = model.fit_subsets(data.X, data.y, {name: search.variants[variant] for name, variant in names.items()})
    return {names[name]: classifier for name, classifier in fitted.items()}


def _measure(model: Any, variant: Variant, data: SplitData, setting: TableSetting) -> dict[str, float]:
    """Return accuracy and log-loss on the test rows, under attack if the setting has one, and on the training rows."""
    scores = score(model, data.X_test, data.y_test)
    metrics = {name: scores[name] for name in ("accuracy", "log_loss")}
    if setting.attack is not None:
        metrics["robust_accuracy"] = robust_accuracy(model, data.X_test, data.y_test, setting.attack).accuracy
    if METHODS[variant[0]].kind == "generative":
        metrics["train_accuracy"] = score(model, data.X, data.y)["accuracy"]
    return metrics


def _selected_parameters(model: Any) -> dict[str, Any]:
    """Return the selected candidate as numbers and names."""
    selected = getattr(model, "best_params_", {})
    recorded = {name: selected[name] for name in RECORDED_PARAMETERS if name in selected}
    return {
        name: value if isinstance(value, int | float | str) else type(value).__name__
        for name, value in recorded.items()
    }
