"""Settings under other readings of the paper's text: one training, looked at in six ways."""

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
from genlabel_paper.runs.cells import Cell
from genlabel_paper.runs.data import Parts, load_parts
from genlabel_paper.runs.learning_curves import Paths, learning_curves
from genlabel_paper.runs.methods import Candidate
from genlabel_paper.runs.readings import LOOKS, READINGS, Look, Reading
from genlabel_paper.runs.setting import Result, Setting, Variant
from genlabel_paper.runs.tables import Search, TableSetting

BASES = ("logistic", "logistic-robust", "mlp", "mlp-robust", "synthetic")
"""The settings that are read in other ways."""
DIVERGED = "NaN or infinity"
"""What a density says of features without numbers."""
Seen: TypeAlias = tuple[dict[str, Any], dict[str, float]]
"""What our look chooses, and the accuracy of each look, in percent."""
MARK = "@"
"""Between the name of a setting and that of a reading."""


def name_of(base: str, reading: str) -> str:
    """Return the name of a setting under a reading.

    >>> name_of("mlp", "raw"), base_of("mlp@raw")
    ('mlp@raw', ('mlp', 'raw'))
    """
    return f"{base}{MARK}{reading}"


def base_of(setting: str) -> tuple[str, str]:
    """Return the setting and the reading of a name; the reading is empty where it is a setting alone."""
    base, _, reading = setting.partition(MARK)
    return base, reading


def read_settings(settings: dict[str, Setting]) -> dict[str, Setting]:
    """Return every base under every reading that says anything of it, by name."""
    found: dict[str, Setting] = {}
    for base in BASES:
        of = settings[base]
        assert isinstance(of, TableSetting)
        for reading in READINGS.values():
            if (base == "synthetic" and reading.sets in ("real", "text")) or (
                base != "synthetic" and reading.sets == "drawn"
            ):
                continue
            found[name_of(base, reading.name)] = ReadSetting(f"{of.about}; {reading.title}", of, reading)
    return found


@final
@dataclass(frozen=True)
class ReadSetting(Setting):
    """A setting of the tables under a reading: every candidate is followed to the end, and looked at in six ways."""

    base: TableSetting
    reading: Reading

    def variants(self, dataset: str) -> Set[Variant]:
        """The methods that the reading changes."""
        return {v for v in self.base.variants(dataset) if v[1] == 1.0 and self.reading.touches(dataset, v[0])}

    def describe(self, dataset: str, variant: Variant) -> dict[str, Any]:
        """What the base depends on, with the classifier as it is read, and the reading."""
        found = self.base.describe(dataset, variant)
        looks = {"looks": [look.key for look in LOOKS], "reading": self.reading.describe()}
        return {**found, "classifier": self.reading.apply(found["classifier"]), **looks}

    def alike(self, dataset: str) -> str:
        """As of the base."""
        return self.base.alike(dataset)

    def cost(self, dataset: str) -> float:
        """As of the base."""
        return self.base.cost(dataset)

    def run(self, cells: Sequence[Cell], data_home: str | Path | None) -> list[Result]:
        """Follow the searches that serve the cells."""
        dataset, split, seed = cells[0].dataset, cells[0].split, cells[0].seed
        parts = load_parts(dataset, split, data_home, **self.reading.data)
        wanted = {(cell.method, cell.alpha): cell for cell in cells}
        found = []
        for search in self.base.searches:
            asked = [variant for variant in search.variants if variant in wanted]
            if asked:
                seen = self._see(search, asked, parts, dataset, seed)
                found += [Result(wanted[variant], *seen[variant]) for variant in asked]
        return found

    def _see(
        self, search: Search, asked: Sequence[Variant], parts: Parts, dataset: str, seed: int
    ) -> dict[Variant, Seen]:
        """What is chosen and measured of methods that one search serves.

        A method whose twin network diverges, which happens to features as they are, has no labels: it is never right.
        """
        model, rules = self.reading.apply(search.make(dataset, seed)), search.variants
        if len(rules) == 1:  # a classifier that serves one method
            rules = {variant: lambda params: True for variant in rules}
        if isinstance(model, GenerativeClassifier):
            value = score(model.fit(parts.X, parts.y), parts.X_test, parts.y_test)["accuracy"]
            return {variant: ({}, {look.key: value for look in LOOKS}) for variant in asked}
        try:
            return self._follow(model, {variant: rules[variant] for variant in asked}, parts)
        except ValueError as error:
            if DIVERGED not in str(error):
                raise
        plain = {variant: rules[variant] for variant in asked if variant[0] == "mixup"}
        left = self._follow(clone(model).set_params(gamma=0.0), plain, parts) if plain else {}
        return {variant: ({}, {look.key: 0.0 for look in LOOKS}) for variant in asked} | left

    def _follow(
        self, model: Any, rules: Mapping[Variant, Callable[[Candidate], bool]], parts: Parts
    ) -> dict[Variant, Seen]:
        """Follow the candidates of methods, and look at them."""
        paths = learning_curves(
            model,
            parts.X,
            parts.y,
            (parts.X_test, parts.y_test),
            wanted=lambda params: any(has(params) for has in rules.values()),
            changed=self.reading.apply_to_method,
            attack=self.base.attack,
        )
        return {variant: seen_so(paths, [has(params) for params in paths.params]) for variant, has in rules.items()}


def seen_so(paths: Paths, among: Sequence[bool]) -> Seen:
    """Return what our look chooses among candidates, and the accuracy, in percent, of each look of `LOOKS`.

    By folds a candidate is chosen by the mean of their accuracies, ties by their log-loss, at the epoch that is kept.
    The best epoch of a network is the first of the highest accuracy, ties by log-loss, on the rows that choose it.
    """
    places = np.flatnonzero(among)
    valid, apart, whole = paths.valid[:, :, places], paths.apart[:, places], paths.whole[:, places]
    best = _best_looks(valid)
    at_best = np.take_along_axis(valid, best[None, ..., None], 0)[0]
    by_folds = _first_best(valid[-1].mean(0)), _first_best(at_best.mean(0))
    kept = np.take_along_axis(apart[..., 0], best[None, 0], 0)[0]
    tests = {
        "last": (whole[-1, :, 0], by_folds[0]),
        "validation": (kept, by_folds[1]),
        "test": (whole[..., 0].max(0), by_folds[0]),
    }
    found = {look.key: _take(look, *tests[look.epoch]) for look in LOOKS}
    chosen = paths.params[places[by_folds[0]]]
    told = {name: chosen[name] for name in ("learning_rate", "gamma") if name in chosen}
    return told, found


def _take(look: Look, hits: NDArray[np.float64], by_folds: int) -> float:
    """The accuracy, in percent, of the candidate of the folds, or the highest, from hits (candidates,)."""
    return 100.0 * float(hits[by_folds] if look.choice == "cv" else hits.max())


def _first_best(scores: NDArray[np.float64]) -> int:
    """The place of the best of scores (candidates, 2), accuracy and minus the log-loss."""
    return int(np.lexsort((-scores[:, 1], -scores[:, 0].round(12)))[0])


def _best_looks(scores: NDArray[np.float64]) -> NDArray[np.int64]:
    """The first best look of each network, (folds, candidates), of scores (looks, folds, candidates, 2)."""
    order = np.lexsort((-scores[..., 1], -scores[..., 0].round(12)), axis=0)
    found: NDArray[np.int64] = order[0]
    return found
