"""An experiment: the cells of a table or figure of the paper, its printed values, and how to show the records."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import final

import numpy as np
import pandas as pd

from genlabel._validation import check_choice
from genlabel_paper.report.pieces import Grid, Measured, Printed, Shown, Value
from genlabel_paper.runs.cells import BUDGETS, Cell
from genlabel_paper.runs.methods import TITLES

PARTS = {
    "tables": "tables of data",
    "images": "images",
    "toys": "toy examples and theory",
    "genmix": "GenMix",
    "ours": "questions of our own",
}
"""The parts of the report, in their order: what is measured on real data apart from what is made up or computed."""
PrintedValues = Mapping[tuple[str, str], Printed]
"""What the paper prints, by row and column: by method and dataset, or by share and rival."""


def no_cells(budget: str) -> list[Cell]:
    """Return the cells of what is computed, not trained: none.

    >>> no_cells("full")
    []
    """
    check_choice("budget", budget, BUDGETS)
    return []


@final
@dataclass(frozen=True)
class Experiment:
    """One table or figure of the paper."""

    id: str
    """As in `genlabel reproduce table4`."""
    title: str
    source: str
    """Where it is in the paper."""
    cells: Callable[[str], list[Cell]]
    """The cells of a budget: "smoke", "quick" or "full"."""
    render: Callable[[pd.DataFrame], Shown]
    """Show what the records, a frame of `genlabel.evaluation.records.read_records`, say of it."""
    paper: PrintedValues = field(default_factory=dict)
    further: Callable[[str], list[Cell]] = no_cells
    """Cells of a budget on datasets that are not in the paper: they are run where their dataset is named."""
    part: str = "tables"
    """Which part of the report it is in, a key of `PARTS`."""

    @property
    def name(self) -> str:
        """What it is called in a sentence, such as Table 4."""
        return re.sub(r"(\d+)$", r" \1", self.id).capitalize()

    @property
    def trains(self) -> bool:
        """Whether there is anything to train; what follows from the mathematics alone is computed when it is shown."""
        return bool(self.cells("smoke"))


def choose_cells(experiments: Sequence[Experiment], budget: str, datasets: Sequence[str] = ()) -> list[Cell]:
    """Return the cells of experiments in a budget: all, or those of some datasets; raise if a dataset has none.

    >>> one = Experiment("t", "", "", lambda budget: [Cell("logistic", "61", "mixup", 0, 0)], lambda records: Shown())
    >>> choose_cells([one], "smoke", ["mnist"])
    Traceback (most recent call last):
    ValueError: dataset 'mnist' is not one of t in the budget 'smoke'; choose among 61
    """
    cells = [cell for one in experiments for cell in one.cells(budget)]
    if not datasets:
        return cells
    cells += [cell for one in experiments for cell in one.further(budget)]
    known = dict.fromkeys(cell.dataset for cell in cells)
    for name in datasets:
        if name not in known:
            where = f"one of {', '.join(one.id for one in experiments)} in the budget {budget!r}"
            raise ValueError(f"dataset {name!r} is not {where}; choose among {', '.join(known)}")
    return [cell for cell in cells if cell.dataset in datasets]


def of_cells(records: pd.DataFrame, setting: str, alpha: float = 1.0) -> pd.DataFrame:
    """Return the records of one setting and alpha.

    >>> len(of_cells(pd.DataFrame(), "logistic"))
    0
    """
    if "setting" not in records:
        records = records.reindex(columns=["setting", "dataset", "method", "alpha", "split", "seed"])
    return records[(records["setting"] == setting) & (records["alpha"] == alpha)]


def measured(records: pd.DataFrame, dataset: str, method: str, metric: str = "accuracy") -> Measured | None:
    """Return mean and standard deviation of a method on a dataset over all splits and seeds; None without records.

    The records are of one setting and alpha.

    >>> records = pd.DataFrame({"dataset": "61", "method": "mixup", "split": 0, "seed": [0, 1], "accuracy": [90, 94]})
    >>> measured(records, "61", "mixup")
    Measured(mean=92.0, spread=2.8284271247461903, splits=1, seeds=2)
    """
    trials = records[(records["dataset"] == dataset) & (records["method"] == method)]
    trials = trials[trials[metric].notna()] if metric in trials else trials.iloc[:0]
    if not len(trials):
        return None
    values = trials[metric].to_numpy(dtype=np.float64)
    spread = float(values.std(ddof=1)) if len(values) > 1 else None
    return Measured(float(values.mean()), spread, trials["split"].nunique(), trials["seed"].nunique())


def compare_grid(
    title: str,
    records: pd.DataFrame,
    datasets: Sequence[str],
    methods: Sequence[str],
    paper: PrintedValues,
    metric: str = "accuracy",
    missing: Mapping[str, str] | None = None,
    about: Mapping[str, str] | None = None,
) -> Grid:
    """Return a table of methods and datasets: ours beside the printed value in every place.

    Parameters
    ----------
    title : str
    records : DataFrame
        Of one setting and alpha, see `of_cells`.
    datasets, methods : sequences of str
    paper : dict of (method, dataset) -> Printed
    metric : str
    missing : dict of dataset -> str, optional
        Why there are no records of a dataset.
    about : dict of dataset -> str, optional
        Words on a dataset, such as its name.
    """
    why = missing or {}
    rows = [
        (
            TITLES[method],
            [
                Value(measured(records, name, method, metric), paper.get((method, name)), why.get(name, "not run"))
                for name in datasets
            ],
        )
        for method in methods
    ]
    return Grid(title, list(datasets), rows, best=[TITLES[method] for method in methods], about=about or {})
