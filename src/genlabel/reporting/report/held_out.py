"""The section of trust: whether probabilities come true, which classes are taken for which, each class by itself."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from genlabel.evaluation.diagnosis.intervals import share_interval
from genlabel.evaluation.prediction_counts import PredictionCounts
from genlabel.reporting.blocks import data_table, figure
from genlabel.reporting.charts import HeatCell, Panel, Point, Series, heat_map, panels
from genlabel.reporting.html import Cell
from genlabel.reporting.markup import Markup, element
from genlabel.reporting.report.given import ARMS, ReportData, ReportSection, count, name_of, percent
from genlabel.reporting.report.methods import method_color

MOST_CLASSES = 26
FEW = 8
"""Classes of which every pair has a cell, with its unit."""
CONFUSIONS = 12
"""Pairs of classes that are taken for each other, in a table."""
FEWEST = 5
"""Predictions below which a tenth of the probabilities is not drawn."""


def trust_part(given: ReportData) -> ReportSection | None:
    """Return the section; None where no held-out predictions were counted."""
    if not given.tallies:
        return None
    source = f"{count(given.splits, 'split')} of the comparison" if given.compared else "folds of the paired run"
    intro = f"Predictions of rows that were held out, in the {source}."
    if given.times > 1:
        intro += f" A row is held out {given.times:.0f} times on average, and counted as often."
    return ReportSection(
        "trust", "How far to trust it", [element("p", intro), _reliability(given), *_confusion(given), _classes(given)]
    )


def calibration(tally: PredictionCounts) -> float:
    """Return the mean distance of probability from frequency over the tenths, each with its rows.

    >>> calibration(PredictionCounts.of(np.log([[0.75, 0.25]] * 4), [0, 0, 0, 1], ["a", "b"]))
    0.0
    """
    rows, mass, hits = tally.reliability.T
    return float(np.abs(mass - hits).sum() / max(rows.sum(), 1.0))


def _reliability(given: ReportData) -> Markup:
    names = [name for name in (*ARMS, given.counted) if name in given.tallies]
    names = list(dict.fromkeys(names))
    best = given.tallies[given.counted]
    rare = _rarer(best)
    shown = [_panel(name, given.tallies[name], rare, given.times) for name in names]
    said = _said_of_reliability(given)
    x = "probability given" if rare is None else f"probability of {name_of(best.classes[rare])}"
    drawn = panels(
        "Do probabilities come true",
        said,
        shown,
        x,
        "how often it was so",
        diagonal=True,
        size=200 if len(shown) > 3 else 230,
    )
    return figure(drawn, said)


def _panel(name: str, tally: PredictionCounts, rare: int | None, times: float) -> Panel:
    points = []
    most = max(float(tally.reliability[:, 0].max()), 1.0)
    for rows, mass, hits in _turned(tally, rare):
        if rows >= FEWEST:
            x, y = mass / rows, hits / rows
            low, high = share_interval(float(y), float(rows) / times)
            said = f"{name}: given {percent(x)}, it was so for {percent(y)} of {count(int(rows), 'prediction')}"
            points.append(Point(float(x), float(y), said, low, high, 3.0 + 4.0 * float(np.sqrt(rows / most))))
    return Panel(f"{name}, off by {calibration(tally):.3f}", [Series(name, points, method_color(name))])


def _rarer(tally: PredictionCounts) -> int | None:
    """The rarer of two classes, of which probabilities are told; None of more."""
    return int(tally.support.argmin()) if len(tally.classes) == 2 else None


def _turned(tally: PredictionCounts, rare: int | None) -> NDArray[np.float64]:
    """The reliability (10, 3), of two classes that of the rarer."""
    if rare != 0:
        return tally.reliability
    rows, mass, hits = tally.reliability[::-1].T
    return np.stack([rows, rows - mass, rows - hits], axis=1)


def _said_of_reliability(given: ReportData) -> str:
    """How far the best method is off, and the tenth in which the most rows are misled."""
    tally = given.tallies[given.counted]
    rows, mass, hits = _turned(tally, _rarer(tally)).T
    worst = int(np.abs(mass - hits).argmax())
    gave, came = mass[worst] / max(rows[worst], 1), hits[worst] / max(rows[worst], 1)
    tilt = "too high" if gave > came else "too low"
    return (
        f"On the dashed line probabilities come true. {given.counted} is off by {calibration(tally):.3f} on average, "
        f"most where it gives {percent(gave)} and it is so {percent(came)} of the time ({tilt}). Lines are 95 % "
        f"intervals, dots are larger where there are more rows; tenths with fewer than {FEWEST} are left out."
    )


def _confusion(given: ReportData) -> list[Markup]:
    tally = given.tallies[given.counted]
    said = _said_of_confusion(given.counted, tally)
    if len(tally.classes) > MOST_CLASSES:
        return [element("p", said), _confused(given.counted, tally)]
    names = list(tally.classes)
    share = tally.confusion / np.maximum(tally.support, 1)[:, None]
    cells: list[list[HeatCell | None]] = [
        [_cell(names, i, j, tally, float(share[i, j])) for j in range(len(names))] for i in range(len(names))
    ]
    title = f"Confusion matrix of {given.counted}"
    drawn = heat_map(title, said, names, names, cells, across="taken for", down="truly")
    return [
        figure(drawn, f"{said} Cells are percents of a row."),
        *([_confused(given.counted, tally)] if len(names) > FEW else []),
    ]


def _cell(names: list[str], i: int, j: int, tally: PredictionCounts, share: float) -> HeatCell | None:
    """A cell; of many classes, those that are never taken for each other have none."""
    times = int(tally.confusion[i, j])
    few = len(names) <= FEW
    if not times and not few:
        return None
    text = "" if not times else f"{100 * share:.0f} %" if few else f"{100 * share:.0f}"
    said = f"{name_of(names[i])} taken for {name_of(names[j])}: {times} of {tally.support[i]} ({percent(share)})"
    return HeatCell(share, text, said, "cool" if i == j else "heat")


def _said_of_confusion(method: str, tally: PredictionCounts) -> str:
    wrong = tally.confusion.copy()
    np.fill_diagonal(wrong, 0)
    total = int(wrong.sum())
    words = f"{method}: {count(total, 'error')} in {count(tally.rows, 'prediction')}."
    if not total:
        return words
    i, j = np.unravel_index(int(wrong.argmax()), wrong.shape)
    shares = [percent(int(wrong[i, j]) / whole, 0) for whole in (total, max(int(tally.support[i]), 1))]
    return words + (
        f" The most frequent: {name_of(tally.classes[i])} taken for {name_of(tally.classes[j])}, {shares[0]} of the "
        f"errors and {shares[1]} of that class."
    )


def _confused(method: str, tally: PredictionCounts) -> Markup:
    wrong = tally.confusion.copy()
    np.fill_diagonal(wrong, 0)
    order = np.argsort(-wrong, axis=None, kind="stable")[:CONFUSIONS]
    rows = []
    for i, j in zip(*np.unravel_index(order, wrong.shape), strict=True):
        if wrong[i, j]:
            share = wrong[i, j] / tally.support[i]
            rows.append(
                [tally.classes[i], tally.classes[j], Cell(str(wrong[i, j]), wrong[i, j]), Cell(percent(share), share)]
            )
    return data_table(
        f"The most frequent errors of {method}", ["truly", "taken for", "times", "of its class"], rows, words=[1]
    )


def _classes(given: ReportData) -> Markup:
    tally = given.tallies[given.counted]
    counts = {str(name): int(number) for name, number in given.table.y.value_counts().items()}
    others = [name for name in ARMS if name in given.tallies and name != given.counted]
    rows: list[list[str | Cell]] = []
    for place, name in enumerate(tally.classes):
        f1 = _harmonic(tally.precision[place], tally.recall[place])
        recalls = [_share(given.tallies[other].recall[place]) for other in others]
        rows.append(
            [
                name,
                Cell(f"{counts.get(name, 0):,}", counts.get(name, 0)),
                Cell(f"{tally.support[place]:,}", tally.support[place]),
                _share(tally.precision[place]),
                _share(tally.recall[place]),
                _share(f1),
                *recalls,
            ]
        )
    head = ["class", "rows", "held out", "precision", "recall", "F1", *(f"recall, {name}" for name in others)]
    caption = (
        f"Each class by {given.counted}: precision is how often it is so when it says so, recall how many it finds"
    )
    return data_table(caption, head, rows)


def _harmonic(one: float, other: float) -> float:
    return float("nan") if not one + other > 0 else 2 * one * other / (one + other)


def _share(value: float) -> Cell:
    return Cell("" if np.isnan(value) else percent(value), float(value))
