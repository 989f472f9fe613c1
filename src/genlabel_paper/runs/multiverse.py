"""Settings under other readings of the paper's text: one training per reading, evaluated by six selection rules."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias, final

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from genlabel import GenerativeClassifier
from genlabel.metrics import score
from genlabel_paper.runs.cells import Cell, join_reading
from genlabel_paper.runs.data import SplitData, load_split
from genlabel_paper.runs.learning_curves import LearningCurves, learning_curves
from genlabel_paper.runs.methods import Candidate
from genlabel_paper.runs.readings import BASES, READINGS, SELECTION_RULES, Reading, SelectionRule
from genlabel_paper.runs.setting import Result, Setting, Variant
from genlabel_paper.runs.table_setting import Search, TableSetting
from genlabel_paper.runs.table_settings import SETTINGS as TABLE_SETTINGS

DIVERGED = "NaN or infinity"
"""Part of the message of a density for features that are not finite."""
Outcome: TypeAlias = tuple[dict[str, Any], dict[str, float]]
"""Parameters selected by our rule, and the accuracy by selection rule."""


@final
@dataclass(frozen=True)
class ReadSetting(Setting):
    """Setting of the tables under a reading: every candidate is trained completely, then six rules select one."""

    base: TableSetting
    reading: Reading

    def variants(self, dataset: str) -> Set[Variant]:
        """Return the methods that the reading changes."""
        return {variant for variant in self.base.variants(dataset) if self.reading.changes(dataset, variant[0])}

    def describe(self, dataset: str, variant: Variant) -> dict[str, Any]:
        """Return the description of the base with the changed classifier, and the reading."""
        description = self.base.describe(dataset, variant)
        rules = {"looks": [rule.key for rule in SELECTION_RULES], "reading": self.reading.describe()}
        return {**description, "classifier": self.reading.apply(description["classifier"]), **rules}

    def representative(self, dataset: str) -> str:
        """Return that of the base."""
        return self.base.representative(dataset)

    def cost(self, dataset: str) -> float:
        """Return that of the base."""
        return self.base.cost(dataset)

    def run(self, cells: Sequence[Cell], data_home: str | Path | None, checkpoints: Path | None = None) -> list[Result]:
        """Train the searches that serve the cells."""
        dataset, split, seed = cells[0].dataset, cells[0].split, cells[0].seed
        data = load_split(dataset, split, data_home, **self.reading.data)
        cell_of = {(cell.method, cell.alpha): cell for cell in cells}
        results = []
        for search in self.base.searches:
            served = [variant for variant in search.variants if variant in cell_of]
            if served:
                outcomes = self._evaluate(search, served, data, dataset, seed)
                results += [Result(cell_of[variant], *outcomes[variant]) for variant in served]
        return results

    def _evaluate(
        self, search: Search, variants: Sequence[Variant], data: SplitData, dataset: str, seed: int
    ) -> dict[Variant, Outcome]:
        """Return the outcomes of methods that one search serves.

        A method whose twin network diverges, which happens with unscaled features, has no labels and accuracy 0.
        """
        model, filters = self.reading.apply(search.make(dataset, seed)), search.variants
        if len(filters) == 1:  # a classifier that serves one method
            filters = {variant: lambda params: True for variant in filters}
        if isinstance(model, GenerativeClassifier):
            value = score(model.fit(data.X, data.y), data.X_test, data.y_test)["accuracy"]
            metrics = {rule.key: value for rule in SELECTION_RULES}
            metrics["train_accuracy"] = score(model, data.X, data.y)["accuracy"]
            return {variant: ({}, metrics) for variant in variants}
        try:
            return self._train(model, {variant: filters[variant] for variant in variants}, data)
        except ValueError as error:
            if DIVERGED not in str(error):
                raise
        mixup = {variant: filters[variant] for variant in variants if variant[0] == "mixup"}
        without_labels = self._train(clone(model).set_params(gamma=0.0), mixup, data) if mixup else {}
        return {variant: ({}, {rule.key: 0.0 for rule in SELECTION_RULES}) for variant in variants} | without_labels

    def _train(
        self, model: Any, filters: Mapping[Variant, Callable[[Candidate], bool]], data: SplitData
    ) -> dict[Variant, Outcome]:
        """Return the outcomes of methods from the learning curves of their candidates."""
        curves = learning_curves(
            model,
            data.X,
            data.y,
            (data.X_test, data.y_test),
            selects=lambda params: any(has(params) for has in filters.values()),
            change=self.reading.apply_to_search_space,
            attack=self.base.attack,
        )
        return {
            variant: apply_selection_rules(curves, [has(params) for params in curves.params])
            for variant, has in filters.items()
        }


def read_settings(settings: Mapping[str, TableSetting]) -> dict[str, Setting]:
    """Return every base setting under every reading that changes it, by name."""
    read: dict[str, Setting] = {}
    for name in BASES:
        for reading in READINGS.values():
            if reading.sets in (("real", "text") if name == "synthetic" else ("drawn",)):
                continue
            base = settings[name]
            read[join_reading(name, reading.name)] = ReadSetting(f"{base.about}; {reading.title}", base, reading)
    return read


SETTINGS = read_settings(TABLE_SETTINGS)


def apply_selection_rules(curves: LearningCurves, mask: Sequence[bool]) -> Outcome:
    """Return the candidate that our rule selects under a mask, and the accuracy of each selection rule.

    Cross-validation selects a candidate by the mean accuracy over the folds, ties by log-loss, at the selected epoch.
    The best epoch of a network is the first with the highest accuracy, ties by log-loss, on the rows that select it.
    """
    candidates = np.flatnonzero(mask)
    valid = curves.valid[:, :, candidates]
    test_of_fold = curves.test_of_fold[:, candidates]
    test_of_all = curves.test_of_all[:, candidates]
    best_epoch = _best_epochs(valid)
    valid_at_best = np.take_along_axis(valid, best_epoch[None, ..., None], 0)[0]
    test_at_best = np.take_along_axis(test_of_fold[..., 0], best_epoch[None, 0], 0)[0]
    by_last_epoch, by_best_epoch = _best_candidate(valid[-1].mean(0)), _best_candidate(valid_at_best.mean(0))
    accuracies = {
        "last": (test_of_all[-1, :, 0], by_last_epoch),
        "validation": (test_at_best, by_best_epoch),
        "test": (test_of_all[..., 0].max(0), by_last_epoch),
    }
    selected = {rule.key: _select(rule, *accuracies[rule.epoch]) for rule in SELECTION_RULES}
    params = curves.params[candidates[by_last_epoch]]
    return {name: params[name] for name in ("learning_rate", "gamma") if name in params}, selected


def _select(rule: SelectionRule, accuracies: NDArray[np.float64], by_cv: int) -> float:
    """Return the accuracy of the cross-validated candidate or the highest of all (candidates,)."""
    return float(accuracies[by_cv] if rule.choice == "cv" else accuracies.max())


def _best_candidate(scores: NDArray[np.float64]) -> int:
    """Return the index of the best of scores (candidates, 2), accuracy and minus the log-loss."""
    return int(np.lexsort((-scores[:, 1], -scores[:, 0].round(12)))[0])


def _best_epochs(scores: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the index of the best epoch of each network, (folds, candidates), of (epochs, folds, candidates, 2)."""
    best: NDArray[np.int64] = np.lexsort((-scores[..., 1], -scores[..., 0].round(12)), axis=0)[0]
    return best
