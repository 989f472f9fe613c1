"""The multiverse: tables 1, 4, 5, 6, 8 and 9 under every reading of the paper's text, and their nearness to print."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from math import isnan, nan
from typing import NamedTuple

import numpy as np
import pandas as pd

from genlabel_paper.report.experiment import Experiment
from genlabel_paper.report.pieces import Grid, Measured, Picture, Shown, Value
from genlabel_paper.report.selected import about_set
from genlabel_paper.report.world_picture import plot_worlds
from genlabel_paper.report.worlds import Mean, Means, Nearness, PrintedTable, Scores, World, holding, nearness, worlds
from genlabel_paper.runs.cells import BUDGETS, Cell
from genlabel_paper.runs.methods import TITLES, keys_of
from genlabel_paper.runs.multiverse import name_of
from genlabel_paper.runs.readings import LOOKS, READINGS

TABLES = {
    "table1": ("synthetic", "logistic"),
    "table4": ("logistic",),
    "table5": ("logistic",),
    "table6": ("logistic-robust",),
    "table8": ("mlp",),
    "table9": ("mlp-robust",),
}
"""The tables, and the settings of their cells."""
UNKNOWN = "not part of this study"
"""Why a number is missing: what a look gives to printed values, of which the paper has one only."""
SEES_ALL = World(look=LOOKS[-1])
"""The reading in which the test rows choose epoch and candidate."""
SEEDS = 3
"""Of each split, at most."""
KINDS = {"vanilla": ("vanilla",), "mixup": ("mixup",), "GenLabel": keys_of("genlabel")}
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


def agreements(scores: Scores) -> dict[World, dict[str, Nearness]]:
    """Return how near each world is to each table; worlds without records are left out.

    >>> agreements(Scores(pd.DataFrame()))
    {}
    """
    return {
        world: {table.id: nearness(scores.of(table, world), table) for table in printed_tables()}
        for world in worlds()
        if scores.has(world)
    }


def mean_share(found: dict[str, Nearness]) -> float:
    """Return the share of the printed cells within one spread, in percent, in the mean over the tables."""
    return float(np.nanmean([near.within for near in found.values()]))


def render(records: pd.DataFrame) -> Shown:
    """Show how near each reading comes to print, and what each choice is worth to each method.

    >>> render(pd.DataFrame()).measured
    False
    """
    scores = Scores(records)
    found = agreements(scores)
    if not found:
        return Shown(notes=NOTES)
    grids = [_grid(found, measure) for measure in MEASURES]
    gains = [
        _gain_grid(scores, table) for table in printed_tables() if table.id in ("table4", "table6", "table8", "table9")
    ]
    seen = [_whole_grid(scores, table) for table in printed_tables()]
    return Shown([*grids, *gains, *seen], [], [_picture(found)], [_told(found), _told_holding(scores), *NOTES])


class _Measure(NamedTuple):
    """A field of `Nearness`, and how it is shown."""

    name: str
    title: str
    unit: str
    digits: int
    whole: Callable[[list[float]], float] = np.nanmean
    """Over all tables."""


MEASURES = (
    _Measure("within", "Printed cells within one spread", "%", 0),
    _Measure("median", "Median absolute difference from print", "points", 1),
    _Measure("ranks", "Rank correlation of the methods with print", "", 2),
    _Measure("holds", "Statements of the paper that hold, of 19", "", 0, np.nansum),
)


def _grid(found: dict[World, dict[str, Nearness]], measure: _Measure) -> Grid:
    """A measure of every world, by table, and over all of them."""
    lines = {}
    for world, line in found.items():
        values = [getattr(near, measure.name) for near in line.values()]
        lines[world.title] = [*values, float(measure.whole(values))]
    return _turned(measure.title, lines, [*map(_short, TABLES), "all six"], measure.unit, measure.digits)


def _turned(title: str, lines: dict[str, list[float]], names: list[str], unit: str, digits: int) -> Grid:
    """A grid with a line for each reading, which is a column of a grid, and a column for each name."""
    rows = [
        (name, [_value(value, digits) for value in column])
        for name, column in zip(names, zip(*lines.values(), strict=True), strict=True)
    ]
    return Grid(title, list(lines), rows, unit, [], "reading", digits)


def _value(number: float, digits: int) -> Value:
    """A number as it is shown, rounded once; a zero has no sign."""
    return Value(None if isnan(number) else Measured(round(number, digits) + 0.0, None, 0, 0), None, UNKNOWN)


def _short(name: str) -> str:
    return name.replace("table", "table ")


def _gain_grid(scores: Scores, table: PrintedTable) -> Grid:
    """What every look gives to every method of a table over ours, and the advantage of GenLabel that it makes."""
    base = _best_means(scores.of(table, World()), table)
    lines = {}
    for world in [World(look=look) for look in LOOKS]:
        means = _best_means(scores.of(table, world), table)
        lines[world.title] = [*(means[kind] - base[kind] for kind in KINDS), *_leads(means)]
    printed = {(dataset, method): Mean(value.mean, 0.0) for (method, dataset), value in table.paper.items()}
    lines["as printed"] = [*(nan for _ in KINDS), *_leads(_best_means(printed, table))]
    names = [*(f"{kind}, gain on ours" for kind in KINDS), "GenLabel - vanilla", "GenLabel - mixup"]
    title = f"What each look gives, {_short(table.id)}: means over the sets at hand"
    return _turned(title, lines, names, "points", 1)


def _whole_grid(scores: Scores, table: PrintedTable) -> Grid:
    """A table with the best epoch and candidate on the test rows, which is an advantage that all methods have.

    Print stands in columns of its own: such a value of ours is no reproduction of it, and is not counted as one.
    """
    means, rows = scores.of(table, SEES_ALL), []
    for method in table.methods:
        printed = [table.paper[method, dataset] for dataset in table.at_hand]
        rows.append((TITLES[method], [_spread(means.get((dataset, method))) for dataset in table.at_hand]))
        rows.append((f"{TITLES[method]}, printed", [_spread(Mean(one.mean, one.spread or 0.0)) for one in printed]))
    about = {dataset: about_set(dataset) for dataset in table.at_hand}
    return Grid(f"{_short(table.id).capitalize()}, {SEES_ALL.title}", table.at_hand, rows, about=about)


def _spread(one: Mean | None) -> Value:
    return Value(None if one is None else Measured(one.mean, one.spread, BUDGETS["full"].splits, SEEDS), None, UNKNOWN)


def _told_holding(scores: Scores) -> str:
    """Which statements of the paper hold where the test rows choose all."""
    held = [
        f"{_short(table.id)}: {check.brief}"
        for table in printed_tables()
        for check in holding(scores.of(table, SEES_ALL), table)
    ]
    return f"What holds with the {SEES_ALL.title}: {'; '.join(held) or 'nothing'}."


def _leads(means: dict[str, float]) -> list[float]:
    return [means["GenLabel"] - means[kind] for kind in ("vanilla", "mixup")]


def _best_means(means: Means, table: PrintedTable) -> dict[str, float]:
    """The mean over the sets at hand of each kind of method, of the best of its methods on each."""
    found = {}
    for kind, methods in KINDS.items():
        known = [[means[d, m].mean for m in methods if (d, m) in means] for d in table.at_hand]
        found[kind] = float(np.mean([max(values) for values in known if values])) if any(known) else nan
    return found


def _picture(found: dict[World, dict[str, Nearness]]) -> Picture:
    best = max(found, key=lambda world: mean_share(found[world]))
    caption = "How near each reading comes to print: the share of the printed cells within one spread, by table."
    lines = [[near.within for near in line.values()] for line in found.values()]
    shares = pd.DataFrame(lines, index=[world.title for world in found], columns=[*map(_short, TABLES)])
    return Picture(caption, plot_worlds(shares), f"{caption} The nearest over all tables: {best.title}.")


def _told(found: dict[World, dict[str, Nearness]]) -> str:
    """What the numbers say, in sentences."""
    share = {world: mean_share(line) for world, line in found.items()}
    best = max(share, key=lambda world: share[world])
    blind = max((world for world in share if world.blind), key=lambda world: share[world])
    told = f"{blind.title}, {share[blind]:.0f} %"
    sees = "It chooses nothing on test rows." if best.blind else f"Where nothing is chosen on test rows: {told}."
    return (
        f"Ours: {share[World()]:.0f} % of the printed cells within one spread, in the mean over the tables. The "
        f"nearest: {best.title}, {share[best]:.0f} %. {sees}"
    )


def _cells(budget: str) -> list[Cell]:
    """Every method and dataset of the tables, under every reading that changes it."""
    from genlabel_paper.runs.settings import SETTINGS

    tables = [import_module(f"genlabel_paper.experiments.{name}").EXPERIMENT for name in TABLES]
    places = {(one.setting, one.dataset, one.method): None for table in tables for one in table.cells(budget)}
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
