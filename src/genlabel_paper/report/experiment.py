"""Base of the experiments: cells of a table or figure of the paper, printed values, and how to render records."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import final

import numpy as np
import pandas as pd

from genlabel._validation import check_choice
from genlabel_paper.report.results import Grid, Measured, PrintedValues, Rendering, Value
from genlabel_paper.runs.cells import BUDGETS, Cell
from genlabel_paper.runs.methods import TITLES
from genlabel_paper.runs.protocols import LAST, PROTOCOLS, depends_on_protocol, with_paper_cells

SECTIONS = {
    "tables": "tables of data",
    "images": "images",
    "toys": "toy examples and theory",
    "genmix": "GenMix",
    "ours": "questions of our own",
}
"""Sections of the report in their order: real data, then synthetic and computed results."""


def no_cells(budget: str) -> list[Cell]:
    """Return no cells, for a computed experiment.

    >>> no_cells("full")
    []
    """
    check_choice("budget", budget, BUDGETS)
    return []


@final
@dataclass(frozen=True)
class Experiment:
    """Table or figure of the paper."""

    id: str
    """Name in `genlabel reproduce`, such as "table4"."""
    title: str
    source: str
    """Place in the paper."""
    cells: Callable[[str], list[Cell]]
    """Function of a budget ("smoke", "quick" or "full") that returns its cells."""
    render: Callable[[pd.DataFrame], Rendering]
    """Function of records, a frame of `genlabel_paper.exports.load_records`."""
    paper: PrintedValues = field(default_factory=dict)
    further: Callable[[str], list[Cell]] = no_cells
    """Cells of a budget on datasets that are not in the paper, which run only on request."""
    section: str = "tables"
    """Key of `SECTIONS`."""

    @property
    def name(self) -> str:
        """Name in a sentence, such as "Table 4"."""
        return re.sub(r"(\d+)$", r" \1", self.id).capitalize()

    def render_protocols(self, records: Mapping[str, pd.DataFrame]) -> dict[str, Rendering]:
        """Return a rendering for each protocol by its key, the same one where the protocols do not differ.

        `records` has the records under each protocol, see `records_by_protocol`.
        """
        if not depends_on_protocol(self.cells("smoke")):
            return dict.fromkeys(records, self.render(records[LAST.key]))
        renderings = {}
        for protocol in PROTOCOLS:
            rendering = self.render(records[protocol.key])
            claims = [replace(claim, full=min(claim.full, protocol.trials)) for claim in rendering.claims]
            renderings[protocol.key] = replace(rendering, claims=claims)
        return renderings

    @property
    def trains(self) -> bool:
        """True if it trains anything; computed results need no records."""
        return bool(self.cells("smoke"))


def select_cells(
    experiments: Sequence[Experiment],
    budget: str,
    datasets: Sequence[str] = (),
    methods: Sequence[str] = (),
    seeds: Sequence[int] = (),
    settings: Sequence[str] = (),
) -> list[Cell]:
    """Return the cells of experiments in a budget under both protocols.

    All, or those of some datasets, methods, seeds and settings; raises ValueError if no cell has one of the values.

    >>> one = Experiment("t", "", "", lambda budget: [Cell("logistic", "61", "mixup", 0, 0)], lambda _: Rendering())
    >>> select_cells([one], "smoke", ["mnist"])
    Traceback (most recent call last):
    ValueError: dataset 'mnist' is not in t with the budget 'smoke'; choose from 61
    """
    cells = [cell for one in experiments for cell in one.cells(budget)]
    if datasets:
        cells += [cell for one in experiments for cell in one.further(budget)]
    cells = with_paper_cells(cells)
    chosen = {"dataset": datasets, "method": methods, "seed": seeds, "setting": settings}
    for field_name, values in chosen.items():
        known = dict.fromkeys(getattr(cell, field_name) for cell in cells)
        for value in values:
            if value not in known:
                where = f"in {', '.join(one.id for one in experiments)} with the budget {budget!r}"
                options = ", ".join(map(str, known))
                raise ValueError(f"{field_name} {value!r} is not {where}; choose from {options}")
    return [
        cell for cell in cells if all(not values or getattr(cell, name) in values for name, values in chosen.items())
    ]


def rerun_command(experiment: Experiment, records: pd.DataFrame) -> str:
    """Return a command that trains the first recorded cell of an experiment again, "" if none is recorded.

    >>> one = Experiment("t", "", "", lambda budget: [Cell("logistic", "61", "mixup", 0, 1)], lambda _: Rendering())
    >>> rerun_command(one, pd.DataFrame({"id": [one.cells("full")[0].id]}))
    'genlabel reproduce t --budget full --setting logistic --dataset 61 --method mixup --seed 1 --records 61.sqlite'
    """
    recorded = set(records.get("id", ()))
    cells = with_paper_cells([*experiment.cells("full"), *experiment.further("full")])
    for cell in cells:
        if cell.id in recorded:
            chosen = f"--setting {cell.setting} --dataset {cell.dataset} --method {cell.method} --seed {cell.seed}"
            return f"genlabel reproduce {experiment.id} --budget full {chosen} --records {cell.dataset}.sqlite"
    return ""


def select_records(records: pd.DataFrame, setting: str, alpha: float = 1.0) -> pd.DataFrame:
    """Return the records of one setting and alpha.

    >>> len(select_records(pd.DataFrame(), "logistic"))
    0
    """
    if "setting" not in records:
        records = records.reindex(columns=["setting", "dataset", "method", "alpha", "split", "seed"])
    return records[(records["setting"] == setting) & (records["alpha"] == alpha)]


def mean_score(records: pd.DataFrame, dataset: str, method: str, metric: str = "accuracy") -> Measured | None:
    """Return mean and standard deviation of a method on a dataset over all splits and seeds; None without records.

    The records have one setting and alpha.

    >>> records = pd.DataFrame({"dataset": "61", "method": "mixup", "split": 0, "seed": [0, 1], "accuracy": [90, 94]})
    >>> mean_score(records, "61", "mixup")
    Measured(mean=92.0, spread=2.8284271247461903, splits=1, seeds=2)
    """
    trials = records[(records["dataset"] == dataset) & (records["method"] == method)]
    trials = trials[trials[metric].notna()] if metric in trials else trials.iloc[:0]
    if not len(trials):
        return None
    values = trials[metric].to_numpy(dtype=np.float64)
    spread = float(values.std(ddof=1)) if len(values) > 1 else None
    return Measured(float(values.mean()), spread, trials["split"].nunique(), trials["seed"].nunique())


def methods_grid(
    title: str,
    records: pd.DataFrame,
    datasets: Sequence[str],
    methods: Sequence[str],
    paper: PrintedValues,
    metric: str = "accuracy",
    missing: Mapping[str, str] | None = None,
    about: Mapping[str, str] | None = None,
) -> Grid:
    """Return a table of methods and datasets, with our values and the printed ones.

    Parameters
    ----------
    title : str
    records : DataFrame
        Records of one setting and alpha, see `select_records`.
    datasets, methods : sequences of str
    paper : dict of (method, dataset) -> Printed
    metric : str
    missing : dict of dataset -> str, optional
        Reason why a dataset has no records.
    about : dict of dataset -> str, optional
        Description of a dataset, such as its name.
    """
    reasons = missing or {}
    rows = []
    for method in methods:
        values = []
        for name in datasets:
            ours = mean_score(records, name, method, metric)
            values.append(Value(ours, paper.get((method, name)), reasons.get(name, "not run")))
        rows.append((TITLES[method], values))
    return Grid(title, list(datasets), rows, best=[TITLES[method] for method in methods], about=about or {})
