"""The multiverse: tables 1, 4, 5, 6, 8 and 9 under every reading of the paper's text: which one is nearest to print?"""

from __future__ import annotations

from functools import cache
from importlib import import_module

import pandas as pd

from genlabel_paper.registry import find
from genlabel_paper.report.experiment import Experiment
from genlabel_paper.report.pieces import Grid, Measured, Picture, Shown, Value
from genlabel_paper.report.world_picture import plot_worlds
from genlabel_paper.report.worlds import PrintedTable, Scores, World, count_holding, nearness, worlds
from genlabel_paper.study.cells import BUDGETS, Cell
from genlabel_paper.study.multiverse import name_of
from genlabel_paper.study.readings import LOOKS, READINGS

__all__ = ["EXPERIMENT", "TABLES", "agreement_table", "printed_tables", "render"]

TABLES = {
    "table1": ("synthetic", "logistic"),
    "table4": ("logistic",),
    "table5": ("logistic",),
    "table6": ("logistic-robust",),
    "table8": ("mlp",),
    "table9": ("mlp-robust",),
}
"""The tables, and the settings of their cells."""
SEEDS = 3
"""Of each split, at most."""
GENLABEL = ("genlabel-gm", "genlabel-kde", "genlabel-cv")
GAINS = {"vanilla": ("vanilla",), "mixup": ("mixup",), "GenLabel": GENLABEL}
"""Whose accuracy a look changes; of GenLabel the best of GM, KDE and CV on each set, as in the paper's text."""
NOTES = (
    "Not a table of the paper. Each line is our protocol but for what it says; methods and sets that it does not "
    "change are ours. Where a choice sees the test rows, it is for this comparison alone: no such number is an "
    "estimate of anything.",
    "A cell agrees within one joint spread, the root of the sum of both squares, and no less than half a point. The "
    "rank correlation is that of the methods within a set, in the mean over the sets; table 1 has two methods, so "
    "there it says whether the same one is ahead.",
    "The best epoch on validation rows: a sixth of the training rows is held out, the network is trained on the rest, "
    "and of its epochs the one of the highest accuracy there is kept (under attack in tables 6 and 9, every fifth "
    "epoch), ties by log-loss. The best epoch on test rows is that of the network trained on all training rows. A "
    "candidate is a learning rate, a gamma and a density; the test rows choose it in every trial anew.",
)


@cache
def printed_tables() -> tuple[PrintedTable, ...]:
    """Return the tables with what the paper prints and says.

    >>> [table.id for table in printed_tables()]
    ['table1', 'table4', 'table5', 'table6', 'table8', 'table9']
    """
    modules = {name: import_module(f"genlabel_paper.experiments.{name}") for name in TABLES}
    return tuple(PrintedTable(name, one.PAPER, one.CHECKS, TABLES[name]) for name, one in modules.items())


def agreement_table(records: pd.DataFrame) -> pd.DataFrame:
    """Return the nearness to print and the statements that hold, a line for each world, columns (measure, table).

    >>> agreement_table(pd.DataFrame()).empty
    True
    """
    scores, lines = Scores(records), {}
    for world in worlds():
        found = {}
        for table in printed_tables():
            means = scores.of(table, world)
            near = nearness(means, table.paper)
            if near is not None and scores.has(world):
                said = {"holds": count_holding(means, table)[0], **near._asdict()}
                found |= {(measure, table.id): value for measure, value in said.items()}
        if found:
            lines[world] = found
    return pd.DataFrame.from_dict(lines, orient="index")


def render(records: pd.DataFrame) -> Shown:
    """Show how near each reading comes to print, and what each choice is worth to each method.

    >>> render(pd.DataFrame()).measured
    False
    """
    table = agreement_table(records)
    if table.empty:
        return Shown(notes=NOTES)
    scores = Scores(records)
    grids = [_grid(table, *about) for about in MEASURES]
    pictures = [Picture(*_picture(table))]
    return Shown(
        [*grids, _gain_grid(scores, "table4"), _gain_grid(scores, "table9")], [], pictures, [*_told(table), *NOTES]
    )


MEASURES = (
    ("within", "Printed cells within one spread", "%", 0),
    ("median", "Median absolute difference from print", "points", 1),
    ("ranks", "Rank correlation of the methods with print", "", 2),
    ("holds", "Statements of the paper that hold", "", 0),
)


def _grid(table: pd.DataFrame, measure: str, title: str, unit: str, digits: int) -> Grid:
    """A measure of every world, by table, and over all of them."""
    whole = table[measure].sum(axis=1) if measure == "holds" else table[measure].mean(axis=1)
    columns = {name: table[measure].get(name) for name in TABLES} | {"all six": whole}
    rows = [
        (world.title, [_value(None if column is None else column.get(world)) for column in columns.values()])
        for world in table.index
    ]
    best = [] if measure == "median" else [name for name, _ in rows]
    return Grid(title, [_short(name) for name in columns], rows, unit, best, "table", digits)


def _value(number: float | None) -> Value:
    missing = number is None or pd.isna(number)
    return Value(None if missing else Measured(float(number), None, 0, 0), None, "not run")


def _short(name: str) -> str:
    return name.replace("table", "table ")


def _gain_grid(scores: Scores, name: str) -> Grid:
    """What every look gives to every method of a table over ours, and the advantage of GenLabel that it makes."""
    (table,) = (one for one in printed_tables() if one.id == name)
    base = _means(scores, table, World())
    rows = []
    for world in [World(look=look) for look in LOOKS]:
        means = _means(scores, table, world)
        gain = [means[method] - base[method] for method in GAINS]
        lead = [means["GenLabel"] - means[method] for method in ("vanilla", "mixup")]
        rows.append((world.title, [_value(value) for value in (*gain, *lead)]))
    printed = _best_means(pd.Series({(d, m): value.mean for (m, d), value in table.paper.items()}), table)
    lead = [printed["GenLabel"] - printed[method] for method in ("vanilla", "mixup")]
    rows.append(("as printed", [_value(None)] * 3 + [_value(value) for value in lead]))
    columns = [*(f"{method}, gain on ours" for method in GAINS), "GenLabel - vanilla", "GenLabel - mixup"]
    return Grid(f"What each look gives, {_short(name)}: means over the sets", columns, rows, "points", [], "what", 1)


def _means(scores: Scores, table: PrintedTable, world: World) -> dict[str, float]:
    return _best_means(scores.of(table, world)["mean"], table)


def _best_means(means: pd.Series[float], table: PrintedTable) -> dict[str, float]:
    """The mean over the sets at hand of each kind of method, of the best of its methods on each."""
    frame = means.unstack()
    frame = frame[[name in table.at_hand for name in frame.index]]
    return {kind: float(frame[[m for m in names if m in frame]].max(axis=1).mean()) for kind, names in GAINS.items()}


def _picture(table: pd.DataFrame) -> tuple[str, object, str]:
    shares = table["within"].rename(index=lambda world: world.title, columns=_short)
    best = table["within"].mean(axis=1).idxmax()
    caption = "How near each reading comes to print: the share of the printed cells within one spread, by table."
    alt = f"{caption} The nearest over all tables: {best.title}."
    return caption, plot_worlds(shares), alt


def _told(table: pd.DataFrame) -> list[str]:
    """What the numbers say, in sentences."""
    share = table["within"].mean(axis=1)
    ours, best = World(), share.idxmax()
    clean = share[[world.look.epoch != "test" and world.look.choice == "cv" for world in share.index]].idxmax()
    return [
        f"Ours: {share[ours]:.0f} % of the printed cells within one spread, in the mean over the tables. The nearest: "
        f"{best.title}, {share[best]:.0f} %. The nearest in which nothing is chosen on test rows: {clean.title}, "
        f"{share[clean]:.0f} %."
    ]


def _cells(budget: str) -> list[Cell]:
    """Every method and dataset of the tables, under every reading that changes it."""
    from genlabel_paper.study.settings import SETTINGS

    places = {(one.setting, one.dataset, one.method): None for table in find(TABLES) for one in table.cells(budget)}
    _, _, splits, seeds = BUDGETS[budget]
    return [
        Cell(name_of(setting, reading.name), dataset, method, split, seed)
        for reading in READINGS.values()
        for setting, dataset, method in places
        if name_of(setting, reading.name) in SETTINGS and reading.touches(dataset, method)
        for split in range(splits)
        for seed in range(min(seeds, SEEDS))
    ]


EXPERIMENT = Experiment(
    "multiverse",
    "Which protocol gives the printed numbers?",
    "not in the paper",
    _cells,
    render,
    part="ours",
)
