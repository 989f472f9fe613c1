"""Multiverse: tables 1, 4, 5, 6, 8 and 9 under every reading of the paper's text, and their nearness to print."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from math import isnan, nan
from typing import NamedTuple

import numpy as np
import pandas as pd

from genlabel_paper.report.dataset_tables import describe_dataset
from genlabel_paper.report.experiment import Experiment
from genlabel_paper.report.figures import plot_agreement
from genlabel_paper.report.results import CaptionedFigure, Grid, Measured, Rendering, Value
from genlabel_paper.report.universes import (
    Means,
    MeanSpread,
    Nearness,
    PrintedTable,
    ReadingScores,
    Universe,
    nearness,
    true_statements,
    universes,
)
from genlabel_paper.runs.cells import BUDGETS, Cell, join_reading
from genlabel_paper.runs.methods import TITLES, keys_of
from genlabel_paper.runs.readings import BASES, MAX_SEEDS, READINGS, SELECTION_RULES

TABLES = {
    "table1": ("synthetic", "logistic"),
    "table4": ("logistic",),
    "table5": ("logistic",),
    "table6": ("logistic-robust",),
    "table8": ("mlp",),
    "table9": ("mlp-robust",),
}
"""Tables with the settings of their cells."""
GAIN_TABLES = ("table4", "table6", "table8", "table9")
UNKNOWN = "not part of this comparison"
"""Reason why a value is missing, such as the gain of a selection rule on printed values."""
TEST_SELECTED = Universe(rule=SELECTION_RULES[-1])
"""Universe in which the test rows select epoch and candidate."""
METHOD_GROUPS = {"vanilla": ("vanilla",), "mixup": ("mixup",), "GenLabel": keys_of("genlabel")}
"""Methods whose accuracy depends on the selection rule; of GenLabel the best of GM, KDE and CV on each dataset."""
NOTES = (
    "Not a table of the paper. Each line is our protocol except for what it says; methods and datasets that it does "
    "not change are ours. Where a choice uses the test rows, it is for this comparison alone: no such number is an "
    "estimate of anything.",
    "A value agrees within one joint spread, the root of the sum of both squares, and at least half a point. The rank "
    "correlation is that of the methods within a dataset, averaged over the datasets; table 1 has two methods, so "
    "there it says whether the same one is ahead.",
    "The best epoch on validation rows: a sixth of the training rows is held out, the network is trained on the rest, "
    "and of its epochs the one of the highest accuracy there is selected (under attack in tables 6 and 9, every fifth "
    "epoch), ties by log-loss. The best epoch on test rows is that of the network trained on all training rows. A "
    "candidate is a learning rate, a gamma and a density; the test rows select it in every trial anew.",
)


@cache
def printed_tables() -> tuple[PrintedTable, ...]:
    """Return the tables with the values and statements of the paper.

    >>> [table.id for table in printed_tables()]
    ['table1', 'table4', 'table5', 'table6', 'table8', 'table9']
    """
    modules = {name: import_module(f"genlabel_paper.experiments.{name}") for name in TABLES}
    return tuple(PrintedTable(name, one.PAPER, one.CHECKS, TABLES[name]) for name, one in modules.items())


def agreements(scores: ReadingScores) -> dict[Universe, dict[str, Nearness]]:
    """Return the nearness of each universe to each table, without universes that have no records.

    >>> agreements(ReadingScores(pd.DataFrame()))
    {}
    """
    return {
        universe: {table.id: nearness(scores.of(table, universe), table) for table in printed_tables()}
        for universe in universes()
        if scores.has(universe)
    }


def mean_agreement(by_table: dict[str, Nearness]) -> float:
    """Return the percentage of printed values within one spread, averaged over the tables."""
    return float(np.nanmean([near.within for near in by_table.values()]))


def render(records: pd.DataFrame) -> Rendering:
    """Show the nearness of each reading to print, and the gain of each method by each selection rule.

    >>> render(pd.DataFrame()).measured
    False
    """
    scores = ReadingScores(records)
    results = agreements(scores)
    if not results:
        return Rendering(notes=NOTES)
    grids = [_nearness_grid(results, measure) for measure in MEASURES]
    grids += [_gain_grid(scores, table) for table in printed_tables() if table.id in GAIN_TABLES]
    grids += [_test_selected_grid(scores, table) for table in printed_tables()]
    return Rendering(grids, [], [_figure(results)], [_summary(results), _test_selected_note(scores), *NOTES])


class _Measure(NamedTuple):
    """Field of `Nearness` with its display."""

    name: str
    title: str
    unit: str
    digits: int
    total: Callable[[list[float]], float] = np.nanmean
    """Aggregate over all tables."""


MEASURES = (
    _Measure("within", "Printed values within one spread", "%", 0),
    _Measure("median", "Median absolute difference from print", "points", 1),
    _Measure("ranks", "Rank correlation of the methods with print", "", 2),
    _Measure("holds", "Statements of the paper that hold, of 19", "", 0, np.nansum),
)


def _nearness_grid(results: dict[Universe, dict[str, Nearness]], measure: _Measure) -> Grid:
    """Return a measure of every universe, by table and in total."""
    lines = {}
    for universe, by_table in results.items():
        values = [getattr(near, measure.name) for near in by_table.values()]
        lines[universe.title] = [*values, float(measure.total(values))]
    return _grid_of_lines(measure.title, lines, [*map(_short, TABLES), "all six"], measure.unit, measure.digits)


def _grid_of_lines(title: str, lines: dict[str, list[float]], names: list[str], unit: str, digits: int) -> Grid:
    """Return a grid that is displayed with these lines (its columns), one per reading."""
    rows = [
        (name, [_value(value, digits) for value in column])
        for name, column in zip(names, zip(*lines.values(), strict=True), strict=True)
    ]
    return Grid(title, list(lines), rows, unit, [], "reading", digits)


def _value(number: float, digits: int) -> Value:
    """Return a value rounded as displayed, without negative zero."""
    return Value(None if isnan(number) else Measured(round(number, digits) + 0.0, None, 0, 0), None, UNKNOWN)


def _short(name: str) -> str:
    return name.replace("table", "table ")


def _gain_grid(scores: ReadingScores, table: PrintedTable) -> Grid:
    """Return the gain of each method over ours by each selection rule, and the resulting advantage of GenLabel."""
    base = _group_means(scores.of(table, Universe()), table)
    lines = {}
    for universe in [Universe(rule=rule) for rule in SELECTION_RULES]:
        means = _group_means(scores.of(table, universe), table)
        lines[universe.title] = [*(means[group] - base[group] for group in METHOD_GROUPS), *_advantages(means)]
    printed = {(dataset, method): MeanSpread(value.mean, 0.0) for (method, dataset), value in table.paper.items()}
    lines["as printed"] = [*(nan for _ in METHOD_GROUPS), *_advantages(_group_means(printed, table))]
    names = [*(f"{group}, gain on ours" for group in METHOD_GROUPS), "GenLabel - vanilla", "GenLabel - mixup"]
    title = f"Gain by each selection rule, {_short(table.id)}: means over the available datasets"
    return _grid_of_lines(title, lines, names, "points", 1)


def _test_selected_grid(scores: ReadingScores, table: PrintedTable) -> Grid:
    """Return a table with epoch and candidate selected on the test rows, an advantage for all methods.

    Printed values are in columns of their own, because such a value of ours is not a reproduction of them.
    """
    means, rows = scores.of(table, TEST_SELECTED), []
    for method in table.methods:
        printed = [table.paper[method, dataset] for dataset in table.datasets]
        rows.append((TITLES[method], [_mean_value(means.get((dataset, method))) for dataset in table.datasets]))
        columns = [_mean_value(MeanSpread(one.mean, one.spread or 0.0)) for one in printed]
        rows.append((f"{TITLES[method]}, printed", columns))
    about = {dataset: describe_dataset(dataset) for dataset in table.datasets}
    return Grid(f"{_short(table.id).capitalize()}, {TEST_SELECTED.title}", table.datasets, rows, about=about)


def _mean_value(mean: MeanSpread | None) -> Value:
    if mean is None:
        return Value(None, None, UNKNOWN)
    return Value(Measured(mean.mean, mean.spread, BUDGETS["full"].splits, MAX_SEEDS), None, UNKNOWN)


def _test_selected_note(scores: ReadingScores) -> str:
    """Return which statements of the paper hold if the test rows select everything."""
    statements = [
        f"{_short(table.id)}: {check.brief}"
        for table in printed_tables()
        for check in true_statements(scores.of(table, TEST_SELECTED), table)
    ]
    return f"What holds with the {TEST_SELECTED.title}: {'; '.join(statements) or 'nothing'}."


def _advantages(means: dict[str, float]) -> list[float]:
    return [means["GenLabel"] - means[group] for group in ("vanilla", "mixup")]


def _group_means(means: Means, table: PrintedTable) -> dict[str, float]:
    """Return the mean over the datasets of each method group, whose best method counts on each dataset."""
    group_means = {}
    for group, methods in METHOD_GROUPS.items():
        known = [[means[d, m].mean for m in methods if (d, m) in means] for d in table.datasets]
        group_means[group] = float(np.mean([max(values) for values in known if values])) if any(known) else nan
    return group_means


def _figure(results: dict[Universe, dict[str, Nearness]]) -> CaptionedFigure:
    best = max(results, key=lambda universe: mean_agreement(results[universe]))
    caption = "Nearness of each reading to print: the percentage of the printed values within one spread, by table."
    lines = [[near.within for near in by_table.values()] for by_table in results.values()]
    percent = pd.DataFrame(lines, index=[universe.title for universe in results], columns=[*map(_short, TABLES)])
    return CaptionedFigure(caption, plot_agreement(percent), f"{caption} The nearest over all tables: {best.title}.")


def _summary(results: dict[Universe, dict[str, Nearness]]) -> str:
    """Return our agreement, that of the nearest universe, and that of the nearest one without test rows."""
    percent = {universe: mean_agreement(by_table) for universe, by_table in results.items()}
    best = max(percent, key=lambda universe: percent[universe])
    fair = max((one for one in percent if one.without_test_rows), key=lambda universe: percent[universe])
    without_test = (
        "It selects nothing on test rows."
        if best.without_test_rows
        else f"Where nothing is selected on test rows: {fair.title}, {percent[fair]:.0f} %."
    )
    return (
        f"Ours: {percent[Universe()]:.0f} % of the printed values within one spread, averaged over the tables. The "
        f"nearest: {best.title}, {percent[best]:.0f} %. {without_test}"
    )


def _cells(budget: str) -> list[Cell]:
    """Return every method and dataset of the tables, under every reading that changes it."""
    from genlabel_paper.runs.settings import SETTINGS

    tables = [import_module(f"genlabel_paper.experiments.{name}").EXPERIMENT for name in TABLES]
    combinations = dict.fromkeys(
        (one.setting, one.dataset, one.method)
        for table in tables
        for one in table.cells(budget)
        if one.setting in BASES and (one.method, one.dataset) in table.paper
    )
    _, _, splits, seeds = BUDGETS[budget]
    return [
        Cell(join_reading(setting, reading.name), dataset, method, split, seed)
        for reading in READINGS.values()
        for setting, dataset, method in combinations
        if join_reading(setting, reading.name) in SETTINGS and reading.changes(dataset, method)
        for split in range(splits)
        for seed in range(min(seeds, MAX_SEEDS))
    ]


EXPERIMENT = Experiment(
    "multiverse",
    "Which protocol gives the printed numbers?",
    "not in the paper",
    _cells,
    render,
    section="ours",
)
