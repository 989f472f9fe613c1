"""The sections of the diagnosis: the paired run, where blends land, and what the two labels say along lambda."""

from __future__ import annotations

from math import isnan
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from genlabel.diagnosis import Blended, Diagnosis, Trial
from genlabel.diagnosis.result import LEAST
from genlabel.diagnosis.verdict import overall
from genlabel.pages.blocks import Cell, data_table, figure, item_list
from genlabel.pages.charts import (
    Bar,
    HeatCell,
    Interval,
    Panel,
    Point,
    Series,
    bar_chart,
    heat_map,
    interval_plot,
    panels,
)
from genlabel.pages.markup import Markup, element, shorten
from genlabel.pages.report.given import ARMS, Given, Part, count, listed, name_of, percent, written

__all__ = ["blend_part", "label_part", "mixing_part"]

MOST_CLASSES = 26
"""Of a heat map; of more classes, the worst pairs are drawn with their intervals."""
SURE = 15
"""Pairs of classes that are drawn instead."""
BINS = 8
"""Of lambda."""
FEWEST, GROUP, MANY = 3, 4, 120
"""Blends in a bin at least; those of a group where there are few of a pair; and how many are not few."""
CURVES = 3
"""Pairs of classes whose labels are followed."""
PAIRED = (
    "Three networks that differ in what they are trained on: rows; rows and blends with mixup's labels; the same with "
    "the label model's labels. All choose among the same settings, on the same folds."
)
TITLE, CELL = 13, 24
"""Letters of a class in the title of a picture, and in a cell with others."""
WORST = 20
"""Blends that are listed."""
ROWS = 200
"""Of a table of pairs, at most."""


def mixing_part(given: Given) -> Part | None:
    """Return the section of the verdict on mixing and its reasons; None without a diagnosis."""
    diagnosis = given.diagnosis
    if diagnosis is None:
        return None
    if diagnosis.trial is None:
        return Part("mixing", "Would mixing help", [item_list(diagnosis.verdict.reasons), _trust(diagnosis)])
    inside = [element("p", PAIRED), _trial_figure(diagnosis.trial), _trial_table(diagnosis.trial), _trust(diagnosis)]
    return Part("mixing", "Would mixing help: a paired run", inside)


def blend_part(given: Given) -> Part | None:
    """Return the section on where blends land."""
    diagnosis = given.diagnosis
    if diagnosis is None or diagnosis.blends is None:
        return None
    pairs = diagnosis.to_frame("pairs", ROWS)
    few = len(diagnosis.classes) <= MOST_CLASSES
    drawn = _heat(diagnosis, diagnosis.blends) if few else _worst_pairs(diagnosis, diagnosis.blends)
    return Part("blends", "Where blends land", [drawn, _pair_table(pairs)])


def label_part(given: Given) -> Part | None:
    """Return the section on the labels of blends: mixup's and the label model's."""
    diagnosis = given.diagnosis
    if diagnosis is None or diagnosis.blends is None:
        return None
    return Part(
        "labels",
        "Two labels along lambda",
        [*_curves(diagnosis, diagnosis.blends), _worst(diagnosis, diagnosis.blends)],
    )


# The paired run


def _trial_figure(trial: Trial) -> Markup:
    rows = [
        Interval(name, gap.mean, gap.low, gap.high, ARMS.index(name.split(" over ")[0]))
        for name, gap in trial.gains.items()
    ]
    clear = [name for name, gap in trial.gains.items() if gap.low > 0 or gap.high < 0]
    said = (
        f"Right of zero is better: {listed(clear)} {'is' if len(clear) == 1 else 'are'} clear of the noise. "
        if clear
        else "All intervals hold zero: nothing differs beyond the noise. "
    )
    said += f"{count(trial.rows, 'row')} were held out once each, in {trial.folds} folds; "
    said += f"vanilla has log-loss {trial.log_loss['vanilla']:.3f}."
    drawn = interval_plot("Gains of the paired run", said, rows, "gain in held-out log-loss, nats", zero=True)
    return figure(drawn, said)


def _trial_table(trial: Trial) -> Markup:
    rows: list[list[str | Cell]] = []
    for name in ARMS:
        more = [trial.affinity.get(name, float("nan")), trial.diversity.get(name, float("nan"))]
        numbers = [(trial.log_loss[name], 4), (100 * trial.accuracy[name], 1), *((value, 2) for value in more)]
        rows.append([name, *(_number(value, digits) for value, digits in numbers)])
    caption = (
        "Networks alone. Affinity: accuracy of vanilla on blends over that on rows; diversity: training loss on blends "
        "over that on rows. Neither alone tells the gain."
    )
    return data_table(caption, ["arm", "log-loss", "accuracy %", "affinity", "diversity"], rows)


def _trust(diagnosis: Diagnosis) -> Markup:
    trust = diagnosis.trust
    if isnan(trust.label_model):
        return element("p", f"{'; '.join(trust.reasons)}.")
    bars = [
        Bar("label model", trust.label_model, f"{trust.label_model:.3f}", 2),
        Bar("logistic regression", trust.plain, f"{trust.plain:.3f}", 7),
        Bar("class shares", trust.shares, f"{trust.shares:.3f}", 7),
    ]
    word = "can be trusted" if trust.trusted else "cannot be trusted"
    said = (
        f"The label model {word} here: its held-out log-loss is {trust.label_model:.3f} on {count(trust.rows, 'row')}, "
        f"that of logistic regression {trust.plain:.3f}, that of the class shares {trust.shares:.3f}."
    )
    return figure(
        bar_chart("Can the label model be trusted", said, bars, "held-out log-loss in nats, lower is better"), said
    )


# Where blends land


def _said_of_blends(blends: Blended) -> str:
    whole, pairs = overall(blends), blends.pairs
    worst = pairs.iloc[int(pairs["low"].argmax())]
    words = f"{percent(whole['intrusion'])} of mixup's blends land among a third class; "
    words += f"with permuted labels it would be {percent(blends.chance)}. "
    if worst["intrusion"] > 0:
        words += (
            f"The surest pair is {name_of(worst['class_1'])} with {name_of(worst['class_2'])}: "
            f"{percent(worst['intrusion'], 0)} ({percent(worst['low'], 0)} to {percent(worst['high'], 0)}). "
        )
    if len(blends.pairs["class_1"].unique()) <= 2:
        words += "Of two classes, only blends of a class with itself can intrude. "
    return words + f"{percent(whole['odd'], 0)} of the blends are unlike any row."


def _said_of_pair(pair: Any) -> str:
    return (
        f"{name_of(pair['class_1'])} with {name_of(pair['class_2'])}: {percent(pair['intrusion'])} of {pair['blends']} "
        f"blends (95 % interval {percent(pair['low'], 0)} to {percent(pair['high'], 0)})\n"
        f"with permuted labels {percent(pair['permuted'], 0)}, unlike any row {percent(pair['odd'], 0)}"
    )


def _heat(diagnosis: Diagnosis, blends: Blended) -> Markup:
    """A cell for each pair of classes: below the diagonal, which has the classes with themselves."""
    names = [str(name) for name in diagnosis.classes]
    place = {name: number for number, name in enumerate(diagnosis.classes.tolist())}
    cells: list[list[HeatCell | None]] = [[None] * len(names) for _ in names]
    top = max(0.3, float(blends.pairs["intrusion"].max()))
    for pair in blends.pairs.to_dict("records"):
        share = float(pair["intrusion"])
        cells[place[pair["class_2"]]][place[pair["class_1"]]] = HeatCell(
            share / top, f"{100 * share:.0f} %" if len(names) <= 8 else f"{100 * share:.0f}", _said_of_pair(pair)
        )
    said = _said_of_blends(blends)
    how = "" if len(names) <= 8 else " Numbers are percents."
    title = "Share of blends that land among a third class, by pair of classes"
    drawn = heat_map(title, said, names, names, cells, across="one parent", down="the other")
    return figure(drawn, said + how)


def _worst_pairs(diagnosis: Diagnosis, blends: Blended) -> Markup:
    """The pairs that intrude most surely, with their intervals."""
    said = _said_of_blends(blends)
    worst = diagnosis.to_frame("pairs", SURE).to_dict("records")
    names = [" with ".join(shorten(pair[side], 12) for side in ("class_1", "class_2")) for pair in worst]
    rows = [
        Interval(name, pair["intrusion"], pair["low"], pair["high"], 1) for name, pair in zip(names, worst, strict=True)
    ]
    title, axis = "Pairs of classes whose blends intrude most surely", "share of blends among a third class"
    return figure(interval_plot(title, said, rows, axis, digits=2), said)


def _pair_table(pairs: pd.DataFrame) -> Markup:
    rows: list[list[str | Cell]] = [
        [
            str(pair["class_1"]),
            str(pair["class_2"]),
            _number(100 * pair["weight"], 1),
            _number(pair["blends"], 0),
            _number(100 * pair["intrusion"], 1),
            Cell(f"{100 * pair['low']:.0f} to {100 * pair['high']:.0f}", pair["low"]),
            _number(100 * pair["permuted"], 1),
            _number(100 * pair["odd"], 0),
            _number(pair["total_variation"], 2),
        ]
        for pair in pairs.to_dict("records")
    ]
    head = [
        "class 1",
        "class 2",
        "% of blends",
        "looked at",
        "intrude %",
        "95 % interval",
        "permuted %",
        "unlike any row %",
        "labels apart",
    ]
    caption = "Pairs of classes, the surest intrusion first; labels apart: total variation of the two labels, 0 to 1"
    return data_table(caption, head, rows, words=[1])


# The labels


def _curves(diagnosis: Diagnosis, blends: Blended) -> list[Markup]:
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


def _panel(diagnosis: Diagnosis, blends: Blended, one: int, other: int) -> Panel:
    """The mean label of the label model in each part of lambda's range, and mixup's line."""
    lam, labels = _of_pair(blends, one, other)
    groups = [("", labels[:, one]), ("", labels[:, other])]
    if labels.shape[1] > 2:
        groups.append(("all other classes", 1.0 - labels[:, one] - labels[:, other]))
    names = [name_of(diagnosis.classes[one]), name_of(diagnosis.classes[other]), "all other classes"]
    curves = [
        Series(name, _binned(lam, values, name), number)
        for number, (name, (_, values)) in enumerate(zip(names, groups, strict=False))
    ]
    lines = [
        Series("mixup", [Point(0.0, 0.0), Point(1.0, 1.0)], 0, dashed=True),
        Series("mixup", [Point(0.0, 1.0), Point(1.0, 0.0)], 1, dashed=True),
    ]
    title = " with ".join(name_of(diagnosis.classes[c], TITLE) for c in (one, other))
    return Panel(title, [*lines, *curves])


def _of_pair(blends: Blended, one: int, other: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Weights of the first class, and the label model's labels, of the blends of a pair."""
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


def _said_of_labels(diagnosis: Diagnosis, blends: Blended, one: int, other: int) -> str:
    """What both say of a blend of about half and half of the pair whose labels are furthest apart."""
    lam, labels = _of_pair(blends, one, other)
    middle = np.abs(lam - 0.5) <= 0.15
    names = [name_of(name) for name in diagnosis.classes]
    words = f"The labels are furthest apart for blends of {names[one]} with {names[other]}."
    if middle.sum() < FEWEST:
        return words
    mean, weight = labels[middle].mean(0), float(lam[middle].mean())
    words += (
        f" Near half and half mixup says {names[one]} {weight:.2f}, {names[other]} {1 - weight:.2f}; the label model, "
        f"on average, {names[one]} {mean[one]:.2f}, {names[other]} {mean[other]:.2f}"
    )
    rest = mean.copy()
    rest[[one, other]] = 0.0
    third = int(rest.argmax())
    return words + (f", {names[third]} {rest[third]:.2f}." if rest[third] >= 0.005 else ".")


def _worst(diagnosis: Diagnosis, blends: Blended) -> Markup:
    """The blends whose two labels are furthest apart, row by row."""
    lam = blends.seen.blends.lam
    mixed = np.minimum(lam, 1.0 - lam) >= LEAST
    order = np.argsort(-np.where(mixed, blends.seen.total_variation, -1.0), kind="stable")[:WORST]
    head = ["row 1", "row 2", "class 1", "class 2", "lambda", "mixup's label", "the label model's", "apart", "support"]
    caption = (
        "Blends whose two labels are furthest apart, of those with a tenth of either row at least; rows are counted "
        "from 0, lambda weighs the first"
    )
    return data_table(caption, head, [_blend(diagnosis, blends, int(one)) for one in order], words=[2, 3, 5, 6])


def _blend(diagnosis: Diagnosis, blends: Blended, number: int) -> list[str | Cell]:
    seen, names = blends.seen, [name_of(name, CELL) for name in diagnosis.classes]
    first, second, lam = (part[number] for part in seen.blends)
    parents = [int(blends.rows[row]) for row in (first, second)]
    return [
        *(Cell(str(row), row) for row in parents),
        *(str(diagnosis.classes[blends.class_number[row]]) for row in (first, second)),
        _number(lam, 2),
        *(written(label[number], names) for label in (seen.mixup, seen.model)),
        _number(float(seen.total_variation[number]), 2),
        _number(float(seen.support[number]), 3),
    ]


def _number(value: float, digits: int) -> Cell:
    return Cell("" if isnan(value) else f"{value:.{digits}f}", float(value))
