"""The tables over chosen datasets (4, 5, 6, 8, 9): their grid, the paper's statements about them, and notes."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from genlabel_paper.report.claims import Check, Trials
from genlabel_paper.report.experiment import Experiment, PrintedValues, compare_grid, of_cells
from genlabel_paper.report.pieces import Shown
from genlabel_paper.report.printed import columns_of, printed_means, rows_of
from genlabel_paper.runs.cells import Cell, make_cells
from genlabel_paper.runs.manifest import manifest, name_set
from genlabel_paper.runs.methods import TITLES

MISSING = dict.fromkeys(("1038", "1130", "1138", "1166"), "not at hand, and not part of this study")
"""Why there are no records of a dataset of the paper."""
SPREADS = (
    "Ours: mean ± standard deviation over all splits and seeds, of the network of the last epoch; the paper keeps the "
    "best epoch on validation data, and does not say what its ± is over."
)


def at_hand(paper: PrintedValues) -> list[str]:
    """Return the datasets of a printed table that we could have.

    >>> from genlabel_paper.report.pieces import Printed
    >>> at_hand({("mixup", "61"): Printed(88.0), ("mixup", "1038"): Printed(14.45)})
    ['61']
    """
    return [name for name in columns_of(paper) if name not in MISSING]


def selected_table(
    name: str,
    title: str,
    source: str,
    *,
    setting: str,
    caption: str,
    paper: PrintedValues,
    checks: Sequence[Check],
    notes: Sequence[str] = (),
    metric: str = "accuracy",
) -> Experiment:
    """Return the experiment of a printed table: its methods on its datasets, as far as we have them.

    Parameters
    ----------
    name, title, source : str
        As of `Experiment`.
    setting : str
        Under which all methods are trained.
    caption : str
        Of the table.
    paper : dict of (method, dataset) -> Printed
    checks : sequence of Check
        The paper's statements about it.
    notes : sequence of str
    metric : str

    Examples
    --------
    >>> from genlabel_paper.report.pieces import Printed
    >>> paper = {("mixup", "61"): Printed(88.0)}
    >>> table = selected_table("t", "One", "", setting="logistic", caption="Iris", paper=paper, checks=[])
    >>> [cell.id for cell in table.cells("smoke")]
    ['logistic/61/mixup/alpha=1/split=0/seed=0']
    >>> table.render(pd.DataFrame()).grids[0].columns
    ['61']
    """

    def cells(budget: str) -> list[Cell]:
        return make_cells(setting, at_hand(paper), rows_of(paper), budget)

    def render(records: pd.DataFrame) -> Shown:
        chosen = of_cells(records, setting)
        chosen = chosen[chosen["dataset"].isin(columns_of(paper))]
        return _show(chosen, caption, paper, checks, metric, notes)

    return Experiment(name, title, source, cells, render, paper)


def _show(
    records: pd.DataFrame,
    caption: str,
    paper: PrintedValues,
    checks: Sequence[Check],
    metric: str,
    notes: Sequence[str],
) -> Shown:
    """The table of methods and datasets, the paper's statements about it, and notes."""
    sets, methods, means = columns_of(paper), rows_of(paper), printed_means(paper)
    about = {name: about_set(name) for name in sets}
    grid = compare_grid(caption, records, sets, methods, paper, metric, MISSING, about)
    ours = Trials(records, at_hand(paper), metric)
    claims = [check.claim(ours, means) for check in checks]
    ends = (methods[0], methods[-1])
    largest = [largest_class(means[key], ours.means([key])[key], TITLES[key]) for key in ends]
    return Shown([grid], claims, notes=[extent(records, sets, methods), SPREADS, *notes, *largest])


def extent(records: pd.DataFrame, datasets: Sequence[str], methods: Sequence[str]) -> str:
    """Say how many datasets, splits and seeds there are of the methods of a table, at the least and at the most.

    >>> records = pd.DataFrame({"dataset": "61", "method": "mixup", "split": 0, "seed": [0, 1]})
    >>> extent(records, ["61", "36"], ["mixup"])
    'Records of 1 of 2 datasets; splits of each method: 1; seeds: 2.'
    """
    chosen = records[records["dataset"].isin(list(datasets)) & records["method"].isin(list(methods))]
    if not len(chosen):
        return f"No records of these {len(datasets)} datasets yet."
    counts = chosen.groupby(["dataset", "method"])[["split", "seed"]].nunique()
    splits, seeds = (_range(counts[name]) for name in ("split", "seed"))
    sets = chosen["dataset"].nunique()
    return f"Records of {sets} of {len(datasets)} datasets; splits of each method: {splits}; seeds: {seeds}."


def _range(counts: pd.Series[int]) -> str:
    low, high = int(counts.min()), int(counts.max())
    return str(low) if low == high else f"{low} to {high}"


def largest_class(paper: pd.Series[float], ours: pd.Series[float], name: str) -> str:
    """Say on which sets always predicting the largest class is at least as good as a method: it cannot be attacked.

    >>> means = pd.Series([88.0, 10.0], index=["61", "36"])
    >>> largest_class(means, means + 60.0, "Mixup")
    'The largest class alone scores as much as Mixup: as printed on 1 of 2 sets: 36 (segment); ours on 0 of 2 sets.'
    """
    return f"The largest class alone scores as much as {name}: as printed {_beaten(paper)}; ours {_beaten(ours)}."


def _beaten(means: pd.Series[float]) -> str:
    known = means[[name in manifest().index for name in means.index]].dropna()
    share = manifest()["largest"].reindex(known.index).astype(float)
    known, share = known[share.notna()], share.dropna()
    sets = known.index[known <= share + 0.005]
    return f"on {len(sets)} of {len(known)} sets" + (f": {', '.join(map(name_set, sets))}" if len(sets) else "")


def about_set(name: str) -> str:
    """Say what an OpenML set is: its name, rows, features and classes; nothing of other sets.

    >>> about_set("61")
    'iris, 150 × 4, 3 classes'
    """
    if name not in manifest().index:
        return ""
    line = manifest().loc[name]
    if pd.isna(line["n"]):
        return "not at hand"
    classes = "regression" if pd.isna(line["k"]) else f"{line['k']} classes"
    return f"{line['name']}, {line['n']} × {line['d']}, {classes}"  # noqa: RUF001
