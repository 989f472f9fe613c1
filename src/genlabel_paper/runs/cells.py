"""A cell of the study: one method, on one split of one dataset, with one seed; and the budgets that choose cells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import product
from typing import Any, NamedTuple

from genlabel._validation import check_choice
from genlabel.evaluation.records import RecordSchema
from genlabel_paper.runs.manifest import manifest
from genlabel_paper.runs.schedules import SCHEDULES

ALONE = frozenset({*SCHEDULES, "genmix", "genmix-hidden", "densities"})
"""Settings whose methods are trained one by one: they share nothing, or what each costs is told."""


class Budget(NamedTuple):
    """How much of an experiment is run; a larger budget contains the cells of a smaller one."""

    name: str
    datasets: int | None
    """At most so many, the smallest ones of the experiment; None is all."""
    splits: int
    seeds: int


BUDGETS = {
    "smoke": Budget("smoke", 2, 1, 1),
    "quick": Budget("quick", None, 1, 2),
    "full": Budget("full", None, 3, 5),
}


class Trial(NamedTuple):
    """What the cells that are trained together have in common."""

    setting: str
    dataset: str
    split: int
    seed: int
    method: str = ""
    """Of a setting whose methods are trained one by one."""


@dataclass(frozen=True, order=True)
class Cell:
    """One method on one split of one dataset with one seed.

    >>> Cell("logistic", "61", "mixup", split=0, seed=3).id
    'logistic/61/mixup/alpha=1/split=0/seed=3'
    """

    setting: str
    """A key of `genlabel_paper.runs.settings.SETTINGS`: network, optimiser, search and measure."""
    dataset: str
    """The OpenML id as text, or the name of a synthetic set or of a set of images."""
    method: str
    """A key of `genlabel_paper.runs.methods.TITLES`."""
    split: int
    """Which cut into training and test rows; images have one."""
    seed: int
    """Of the initial weights, the mixing and the folds of the search."""
    alpha: float = 1.0
    """Of lam ~ Beta(alpha, alpha)."""

    @property
    def id(self) -> str:
        """The name of the cell, which is the key of its record."""
        place = f"alpha={self.alpha:g}/split={self.split}/seed={self.seed}"
        return f"{self.setting}/{self.dataset}/{self.method}/{place}"

    @property
    def trial(self) -> Trial:
        """What it shares with the cells that are trained together with it."""
        return Trial(self.setting, self.dataset, self.split, self.seed, self.method if self.setting in ALONE else "")

    @property
    def fields(self) -> dict[str, Any]:
        """Its fields, by name."""
        return asdict(self)


def _round(metric: str, value: float) -> float:
    """Percent with 3 decimals; the rest with 4 decimals or 4 digits, whichever is nearer."""
    if metric.endswith("accuracy") or "/" in metric:
        return round(value, 3)
    return min(round(value, 4), float(f"{value:.4g}"), key=lambda near: abs(near - value))


STUDY = RecordSchema(
    "paper",
    "genlabel reproduce",
    Cell,
    Trial,
    dict.fromkeys(("setting", "dataset", "method"), "str") | {"alpha": "float64", "split": "int64", "seed": "int64"},
    ("accuracy", "log_loss", "robust_accuracy", "train_accuracy"),
    lists=("split", "seed"),
    rounded=_round,
)
"""The records of the paper's tables: accuracies in percent, log_loss in nats, margins, those that apply.

The parameters are what a search chose, the regions of a network that is drawn, and how much was trained on images.
"""


def make_cells(
    setting: str, datasets: Sequence[str], methods: Sequence[str], budget: str, alphas: Sequence[float] = (1.0,)
) -> list[Cell]:
    """Return every method on every dataset, for the splits and seeds of a budget.

    >>> [cell.id for cell in make_cells("logistic", ["36", "61", "721"], ["mixup"], "smoke")]
    ['logistic/61/mixup/alpha=1/split=0/seed=0', 'logistic/721/mixup/alpha=1/split=0/seed=0']
    """
    check_choice("budget", budget, BUDGETS)
    _, most, splits, seeds = BUDGETS[budget]
    chosen = list(datasets) if most is None else _smallest(datasets, most)
    places = product(chosen, range(splits), range(seeds), alphas, methods)
    return [Cell(setting, dataset, method, split, seed, alpha) for dataset, split, seed, alpha, method in places]


def make_trials(setting: str, datasets: Sequence[str], methods: Sequence[tuple[str, float]], trials: int) -> list[Cell]:
    """Return methods with their alphas on datasets, in some trials, of which each has a split and a seed of its own.

    >>> [cell.id for cell in make_trials("genmix", ["v"], [("mixup", 1.0)], trials=2)]
    ['genmix/v/mixup/alpha=1/split=0/seed=0', 'genmix/v/mixup/alpha=1/split=1/seed=1']
    """
    places = product(datasets, range(trials), methods)
    return [Cell(setting, dataset, method, trial, trial, alpha) for dataset, trial, (method, alpha) in places]


def _smallest(datasets: Sequence[str], most: int) -> list[str]:
    """The sets of fewest rows, in their order; one that is not in the manifest is drawn, and small."""
    sizes = manifest()["n"].dropna().to_dict()
    few = sorted(datasets, key=lambda name: sizes.get(name, 0))[:most]
    return [name for name in datasets if name in few]
