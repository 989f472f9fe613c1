"""Tables over selected datasets (4, 5, 6, 8, 9): values, statements of the paper about them, and notes."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from genlabel_paper.report.experiment import Experiment, methods_grid, select_records
from genlabel_paper.report.results import PrintedValues, Rendering, columns_of, printed_means, rows_of
from genlabel_paper.report.statements import Check, PairedMeans
from genlabel_paper.runs.cells import Cell, make_cells
from genlabel_paper.runs.manifest import dataset_title, manifest
from genlabel_paper.runs.methods import TITLES

UNAVAILABLE = dict.fromkeys(("1038", "1130", "1138", "1166"), "not in the cache; run it with --dataset")
"""Datasets of table 9 that the cache of the records lacks; they run on request, where they can be downloaded."""
SPREADS_NOTE = "Ours: mean ± standard deviation over all splits and seeds; the paper does not say what its ± is over."


def available_datasets(paper: PrintedValues) -> list[str]:
    """Return the datasets of a printed table that are available.

    >>> from genlabel_paper.report.results import Printed
    >>> available_datasets({("mixup", "61"): Printed(88.0), ("mixup", "1038"): Printed(14.45)})
    ['61']
    """
    return [name for name in columns_of(paper) if name not in UNAVAILABLE]


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
    """Return the experiment of a printed table: its methods on its available datasets.

    Parameters
    ----------
    name, title, source : str
        See `Experiment`.
    setting : str
        Setting of all methods.
    caption : str
        Title of the table.
    paper : dict of (method, dataset) -> Printed
    checks : sequence of Check
        Statements of the paper about it.
    notes : sequence of str
    metric : str

    Examples
    --------
    >>> from genlabel_paper.report.results import Printed
    >>> paper = {("mixup", "61"): Printed(88.0)}
    >>> table = selected_table("t", "One", "", setting="logistic", caption="Iris", paper=paper, checks=[])
    >>> [cell.id for cell in table.cells("smoke")]
    ['logistic/61/mixup/alpha=1/split=0/seed=0']
    >>> table.render(pd.DataFrame()).grids[0].columns
    ['61']
    """

    def cells(budget: str) -> list[Cell]:
        return make_cells(setting, available_datasets(paper), rows_of(paper), budget)

    def further(budget: str) -> list[Cell]:
        return make_cells(setting, [name for name in columns_of(paper) if name in UNAVAILABLE], rows_of(paper), budget)

    def render(records: pd.DataFrame) -> Rendering:
        chosen = select_records(records, setting)
        chosen = chosen[chosen["dataset"].isin(columns_of(paper))]
        return _render(chosen, caption, paper, checks, metric, notes)

    return Experiment(name, title, source, cells, render, paper, further)


def _render(
    records: pd.DataFrame,
    caption: str,
    paper: PrintedValues,
    checks: Sequence[Check],
    metric: str,
    notes: Sequence[str],
) -> Rendering:
    """Return the table of methods and datasets, the statements of the paper about it, and notes."""
    datasets, methods, means = columns_of(paper), rows_of(paper), printed_means(paper)
    about = {name: describe_dataset(name) for name in datasets}
    grid = methods_grid(caption, records, datasets, methods, paper, metric, UNAVAILABLE, about)
    measured = set(records["dataset"])
    ours = PairedMeans(records, [d for d in datasets if d not in UNAVAILABLE or d in measured], metric)
    claims = [check.claim(ours, means) for check in checks]
    majority = [
        majority_class_note(means[key], ours.means([key])[key], TITLES[key]) for key in (methods[0], methods[-1])
    ]
    return Rendering([grid], claims, notes=[coverage(records, datasets, methods), SPREADS_NOTE, *notes, *majority])


def coverage(records: pd.DataFrame, datasets: Sequence[str], methods: Sequence[str]) -> str:
    """Return how many datasets, splits and seeds the records of a table have.

    >>> records = pd.DataFrame({"dataset": "61", "method": "mixup", "split": 0, "seed": [0, 1]})
    >>> coverage(records, ["61", "36"], ["mixup"])
    'Records of 1 of 2 datasets; splits of each method: 1; seeds: 2.'
    """
    chosen = records[records["dataset"].isin(list(datasets)) & records["method"].isin(list(methods))]
    if not len(chosen):
        return f"No records of these {len(datasets)} datasets yet."
    counts = chosen.groupby(["dataset", "method"])[["split", "seed"]].nunique()
    splits, seeds = (_range(counts[name]) for name in ("split", "seed"))
    count = chosen["dataset"].nunique()
    return f"Records of {count} of {len(datasets)} datasets; splits of each method: {splits}; seeds: {seeds}."


def _range(counts: pd.Series[int]) -> str:
    low, high = int(counts.min()), int(counts.max())
    return str(low) if low == high else f"{low} to {high}"


def majority_class_note(paper: pd.Series[float], ours: pd.Series[float], name: str) -> str:
    """Return on which datasets the majority-class baseline is at least as good as a method; it cannot be attacked.

    >>> means = pd.Series([88.0, 10.0], index=["61", "36"])
    >>> majority_class_note(means, means + 60.0, "Mixup")
    'The majority class alone scores as high as Mixup: as printed on 1 of 2 datasets: 36 (segment); ours on 0 of 2
    datasets.'
    """
    return f"The majority class alone scores as high as {name}: as printed {_matched(paper)}; ours {_matched(ours)}."


def _matched(means: pd.Series[float]) -> str:
    known = means[[name in manifest().index for name in means.index]].dropna()
    share = manifest()["largest"].reindex(known.index).astype(float)
    known, share = known[share.notna()], share.dropna()
    names = known.index[known <= share + 0.005]
    listed = f": {', '.join(map(dataset_title, names))}" if len(names) else ""
    return f"on {len(names)} of {len(known)} datasets{listed}"


def describe_dataset(name: str) -> str:
    """Return name, rows, features and classes of an OpenML dataset; nothing for others.

    >>> describe_dataset("61")
    'iris, 150 × 4, 3 classes'
    """
    if name not in manifest().index:
        return ""
    line = manifest().loc[name]
    if pd.isna(line["n"]):
        return "not available"
    classes = "regression" if pd.isna(line["k"]) else f"{line['k']} classes"
    return f"{line['name']}, {line['n']} × {line['d']}, {classes}"  # noqa: RUF001
