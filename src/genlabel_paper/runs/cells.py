"""Cells of the reproduction (one method, split and seed on one dataset), and the budgets that choose them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

from genlabel._validation import check_choice
from genlabel.evaluation.records import RecordSchema
from genlabel_paper.runs.manifest import manifest

if TYPE_CHECKING:
    import pandas as pd

READING_MARK = "@"
"""Separator between the name of a setting and that of a reading."""


class Budget(NamedTuple):
    """Size of a run; a larger budget contains the cells of a smaller one."""

    name: str
    max_datasets: int | None
    """Largest number of datasets of an experiment, the smallest ones first; None is all."""
    splits: int
    seeds: int


BUDGETS = {
    "smoke": Budget("smoke", 2, 1, 1),
    "quick": Budget("quick", None, 1, 2),
    "full": Budget("full", None, 3, 5),
}


class TrialKey(NamedTuple):
    """Fields shared by cells that are trained together."""

    setting: str
    dataset: str
    split: int
    seed: int
    method: str = ""
    """Method of a setting whose methods are trained one by one."""


@dataclass(frozen=True, order=True)
class Cell:
    """One method on one split of one dataset with one seed.

    >>> Cell("logistic", "61", "mixup", split=0, seed=3).id
    'logistic/61/mixup/alpha=1/split=0/seed=3'
    """

    setting: str
    """Key of `genlabel_paper.runs.settings.SETTINGS`: network, optimizer, search and metrics."""
    dataset: str
    """OpenML id as a string, or the name of a synthetic or image dataset."""
    method: str
    """Key of `genlabel_paper.runs.methods.TITLES`."""
    split: int
    """Index of the train-test split; image datasets have one."""
    seed: int
    """Seed of the initial weights, the mixing and the folds of the search."""
    alpha: float = 1.0
    """Parameter of lam ~ Beta(alpha, alpha)."""

    @property
    def id(self) -> str:
        """Name of the cell, the key of its record."""
        return f"{self.setting}/{self.dataset}/{self.method}/alpha={self.alpha:g}/split={self.split}/seed={self.seed}"

    @property
    def trial(self) -> TrialKey:
        """Key shared with the cells that are trained together with this one."""
        method = self.method if _trains_methods_alone(self.setting) else ""
        return TrialKey(self.setting, self.dataset, self.split, self.seed, method)

    @property
    def fields(self) -> dict[str, Any]:
        """Fields by name."""
        return asdict(self)


def _trains_methods_alone(setting: str) -> bool:
    """Return whether methods share no training, or their cost is reported one by one."""
    return setting in ("genmix", "genmix-hidden", "densities") or setting.startswith("images-")


def is_share(metric: str) -> bool:
    """Return whether a metric is a share from 0 to 1 that the paper prints in percent.

    >>> is_share("robust_accuracy"), is_share("last/cv"), is_share("log_loss")
    (True, True, False)
    """
    return metric.endswith("accuracy") or "/" in metric or metric in ("equidistance_share", "judged_one", "judged_pair")


def in_percent(records: pd.DataFrame) -> pd.DataFrame:
    """Return records with all shares in percent, as the paper prints them and the report shows them.

    Rounding to 10 decimals recovers the digits of exported records: 100 * 0.57 is 56.99999999999999.

    >>> import pandas as pd
    >>> in_percent(pd.DataFrame({"accuracy": [0.57], "log_loss": [0.5]})).to_dict("records")
    [{'accuracy': 57.0, 'log_loss': 0.5}]
    """
    shares = [str(name) for name in records.columns if is_share(str(name))]
    return records.assign(**{name: (100.0 * records[name]).round(10) for name in shares})


def _round_metric(metric: str, value: float) -> float:
    """Round accuracies to 5 decimals, other shares to 6; the rest to 4 decimals or 4 digits, whichever is nearer."""
    if is_share(metric):
        return round(value, 5 if metric.endswith("accuracy") or "/" in metric else 6)
    return min(round(value, 4), float(f"{value:.4g}"), key=lambda near: abs(near - value))


PAPER_SCHEMA = RecordSchema(
    "paper",
    "genlabel reproduce",
    Cell,
    TrialKey,
    dict.fromkeys(("setting", "dataset", "method"), "str") | {"alpha": "float64", "split": "int64", "seed": "int64"},
    ("accuracy", "log_loss", "robust_accuracy", "train_accuracy"),
    lists=("split", "seed"),
    round_metric=_round_metric,
)
"""Records of the reproduction: accuracies from 0 to 1, log-loss in nats, and margins, as far as they apply.

The parameters of a record are the candidate that a search selected, the decision regions of a network that is plotted,
and the amount of training on images.
"""


def make_cells(
    setting: str, datasets: Sequence[str], methods: Sequence[str], budget: str, alphas: Sequence[float] = (1.0,)
) -> list[Cell]:
    """Return every method on every dataset, for the splits and seeds of a budget.

    >>> [cell.id for cell in make_cells("logistic", ["36", "61", "721"], ["mixup"], "smoke")]
    ['logistic/61/mixup/alpha=1/split=0/seed=0', 'logistic/721/mixup/alpha=1/split=0/seed=0']
    """
    check_choice("budget", budget, BUDGETS)
    _, max_datasets, splits, seeds = BUDGETS[budget]
    chosen = list(datasets) if max_datasets is None else _smallest(datasets, max_datasets)
    combinations = product(chosen, range(splits), range(seeds), alphas, methods)
    return [Cell(setting, dataset, method, split, seed, alpha) for dataset, split, seed, alpha, method in combinations]


def make_trials(setting: str, datasets: Sequence[str], methods: Sequence[tuple[str, float]], trials: int) -> list[Cell]:
    """Return methods with their alphas on datasets, for trials that each have their own split and seed.

    >>> [cell.id for cell in make_trials("genmix", ["v"], [("mixup", 1.0)], trials=2)]
    ['genmix/v/mixup/alpha=1/split=0/seed=0', 'genmix/v/mixup/alpha=1/split=1/seed=1']
    """
    combinations = product(datasets, range(trials), methods)
    return [Cell(setting, dataset, method, trial, trial, alpha) for dataset, trial, (method, alpha) in combinations]


def join_reading(setting: str, reading: str) -> str:
    """Return the name of a setting under a reading of the paper's text.

    >>> join_reading("mlp", "raw"), split_reading("mlp@raw")
    ('mlp@raw', ('mlp', 'raw'))
    """
    return f"{setting}{READING_MARK}{reading}"


def split_reading(name: str) -> tuple[str, str]:
    """Return the setting and the reading of a name; the reading is empty for a setting alone."""
    setting, _, reading = name.partition(READING_MARK)
    return setting, reading


def _smallest(datasets: Sequence[str], count: int) -> list[str]:
    """Return the datasets with the fewest rows, in their order; synthetic ones count as small."""
    sizes = manifest()["n"].dropna().to_dict()
    chosen = sorted(datasets, key=lambda name: sizes.get(name, 0))[:count]
    return [name for name in datasets if name in chosen]
