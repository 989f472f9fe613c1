"""The section on the two labels of blends: mixup's and the stacked density's, along lambda and blend by blend."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from genlabel.evaluation.diagnosis import Diagnosis, MixedSampleStats
from genlabel.evaluation.diagnosis.result import LEAST
from genlabel.reporting.blocks import data_table, figure
from genlabel.reporting.charts import Panel, Point, Series, panels
from genlabel.reporting.html import Cell
from genlabel.reporting.markup import Markup
from genlabel.reporting.report.given import ReportData, ReportSection, count, format_label, name_of, number_cell

BINS = 8
"""Of lambda."""
FEWEST, GROUP, MANY = 3, 4, 120
"""Blends in a bin at least; those of a group where there are few of a pair; and how many are not few."""
CURVES = 3
"""Pairs of classes whose labels are followed."""
TITLE, CELL = 13, 24
"""Letters of a class in the title of a picture, and in a cell with others."""
WORST = 20
"""Blends that are listed."""


def label_part(given: ReportData) -> ReportSection | None:
    """Return the section on the labels of blends: mixup's and the stacked density's."""
    diagnosis = given.diagnosis
    if diagnosis is None or diagnosis.blends is None:
        return None
    return ReportSection(
        "labels",
        "Two labels along lambda",
        [*_curves(diagnosis, diagnosis.blends), _worst(diagnosis, diagnosis.blends)],
    )


def _curves(diagnosis: Diagnosis, blends: MixedSampleStats) -> list[Markup]:
    apart = blends.pairs[blends.pairs["class_1"] != blends.pairs["class_2"]]
    worst = apart.sort_values("total_variation", ascending=False).head(CURVES)
    place = {name: number for number, name in enumerate(diagnosis.classes.tolist())}
    shown = [(place[pair["class_1"]], place[pair["class_2"]]) for pair in worst.to_dict("records")]
    if not shown:
        return []
    said = _said_of_labels(diagnosis, blends, *shown[0])
    entries = [
        ("first class", "s1"),
        ("second class", "s2"),
        *([("all other classes", "s3")] if len(diagnosis.classes) > 2 else []),
        ("dashed: mixup's label", "s8 dashed"),
    ]
    drawn = panels(
        "Labels of blends along lambda",
        said,
        [_panel(diagnosis, blends, *pair) for pair in shown],
        "lambda: weight of the first class",
        "probability",
        entries=entries,
    )
    return [figure(drawn, said)]


def _panel(diagnosis: Diagnosis, blends: MixedSampleStats, one: int, other: int) -> Panel:
    """The mean label of the stacked density in each part of lambda's range, and mixup's line."""
    lam, labels = _of_pair(blends, one, other)
    followed = [(name_of(diagnosis.classes[c]), labels[:, c]) for c in (one, other)]
    if labels.shape[1] > 2:
        followed.append(("all other classes", 1.0 - labels[:, one] - labels[:, other]))
    curves = [Series(name, _binned(lam, values, name), number) for number, (name, values) in enumerate(followed)]
    lines = [
        Series("mixup", [Point(0.0, 0.0), Point(1.0, 1.0)], 0, dashed=True),
        Series("mixup", [Point(0.0, 1.0), Point(1.0, 0.0)], 1, dashed=True),
    ]
    title = " with ".join(name_of(diagnosis.classes[c], TITLE) for c in (one, other))
    return Panel(title, [*lines, *curves])


def _of_pair(blends: MixedSampleStats, one: int, other: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Weights of the first class, and the stacked density's labels, of the blends of a pair."""
    first, second, lam = blends.seen.blends
    here = (blends.class_number[first] == one) & (blends.class_number[second] == other)
    return lam[here], blends.seen.model[here]


def _binned(lam: NDArray[np.float64], values: NDArray[np.float64], name: str) -> list[Point]:
    """Means over parts of lambda's range; of few blends, over some that are next to each other."""
    cell = np.minimum((lam * BINS).astype(np.intp), BINS - 1)
    groups = [np.flatnonzero(cell == number) for number in range(BINS)]
    if len(lam) < MANY:
        groups = np.array_split(np.argsort(lam, kind="stable"), max(1, len(lam) // GROUP))
    found = []
    for here in groups:
        if len(here) >= FEWEST:
            x, y = float(lam[here].mean()), float(values[here].mean())
            found.append(Point(x, y, f"{name}: {y:.2f} at lambda {x:.2f} (mean of {count(len(here), 'blend')})"))
    return found


def _said_of_labels(diagnosis: Diagnosis, blends: MixedSampleStats, one: int, other: int) -> str:
    """What both say of a blend of about half and half of the pair whose labels are furthest apart."""
    lam, labels = _of_pair(blends, one, other)
    middle = np.abs(lam - 0.5) <= 0.15
    names = [name_of(name) for name in diagnosis.classes]
    words = f"The labels are furthest apart for blends of {names[one]} with {names[other]}."
    if middle.sum() < FEWEST:
        return words
    mean, weight = labels[middle].mean(0), float(lam[middle].mean())
    words += (
        f" Near half and half mixup says {names[one]} {weight:.2f}, {names[other]} {1 - weight:.2f}; the stacked "
        f"density, "
        f"on average, {names[one]} {mean[one]:.2f}, {names[other]} {mean[other]:.2f}"
    )
    rest = mean.copy()
    rest[[one, other]] = 0.0
    third = int(rest.argmax())
    return words + (f", {names[third]} {rest[third]:.2f}." if rest[third] >= 0.005 else ".")


def _worst(diagnosis: Diagnosis, blends: MixedSampleStats) -> Markup:
    """The blends whose two labels are furthest apart, row by row."""
    lam = blends.seen.blends.lam
    mixed = np.minimum(lam, 1.0 - lam) >= LEAST
    order = np.argsort(-np.where(mixed, blends.seen.total_variation, -1.0), kind="stable")[:WORST]
    head = [
        "row 1",
        "row 2",
        "class 1",
        "class 2",
        "lambda",
        "mixup's label",
        "the stacked density's",
        "apart",
        "support",
    ]
    caption = (
        "Blends whose two labels are furthest apart, of those with a tenth of either row at least; rows are counted "
        "from 0, lambda weighs the first"
    )
    return data_table(caption, head, [_blend(diagnosis, blends, int(one)) for one in order], words=[2, 3, 5, 6])


def _blend(diagnosis: Diagnosis, blends: MixedSampleStats, number: int) -> list[str | Cell]:
    seen, names = blends.seen, [name_of(name, CELL) for name in diagnosis.classes]
    first, second, lam = (part[number] for part in seen.blends)
    parents = [int(blends.rows[row]) for row in (first, second)]
    return [
        *(Cell(str(row), row) for row in parents),
        *(str(diagnosis.classes[blends.class_number[row]]) for row in (first, second)),
        number_cell(lam, 2),
        *(format_label(label[number], names) for label in (seen.mixup, seen.model)),
        number_cell(float(seen.total_variation[number]), 2),
        number_cell(float(seen.support[number]), 3),
    ]
