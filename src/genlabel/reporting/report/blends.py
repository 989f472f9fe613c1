"""The section on where blends land: among another class or not, by pair of classes."""

from __future__ import annotations

from typing import Any

import pandas as pd

from genlabel.evaluation.diagnosis import Diagnosis, MixedSampleStats
from genlabel.evaluation.diagnosis.verdict import overall
from genlabel.reporting.blocks import data_table, figure
from genlabel.reporting.charts import HeatCell, Interval, heat_map, interval_plot
from genlabel.reporting.html import Cell
from genlabel.reporting.markup import Markup, shorten
from genlabel.reporting.report.given import ReportData, ReportSection, name_of, number_cell, percent

MOST_CLASSES = 26
"""Of a heat map; of more classes, the worst pairs are drawn with their intervals."""
SURE = 15
"""Pairs of classes that are drawn instead."""
ROWS = 200
"""Of a table of pairs, at most."""


def blend_part(given: ReportData) -> ReportSection | None:
    """Return the section on where blends land."""
    diagnosis = given.diagnosis
    if diagnosis is None or diagnosis.blends is None:
        return None
    pairs = diagnosis.to_frame("pairs", ROWS)
    few = len(diagnosis.classes) <= MOST_CLASSES
    drawn = _heat(diagnosis, diagnosis.blends) if few else _worst_pairs(diagnosis, diagnosis.blends)
    return ReportSection("blends", "Where blends land", [drawn, _pair_table(pairs)])


def _said_of_blends(blends: MixedSampleStats) -> str:
    whole, pairs = overall(blends), blends.pairs
    worst = pairs.iloc[int(pairs["low"].argmax())]
    words = f"{percent(whole['intrusion'])} of mixup's blends land among another class; "
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


def _heat(diagnosis: Diagnosis, blends: MixedSampleStats) -> Markup:
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
    title = "Share of blends that land among another class, by pair of classes"
    drawn = heat_map(title, said, names, names, cells, across="one parent", down="the other")
    return figure(drawn, said + how)


def _worst_pairs(diagnosis: Diagnosis, blends: MixedSampleStats) -> Markup:
    """The pairs that intrude most surely, with their intervals."""
    said = _said_of_blends(blends)
    worst = diagnosis.to_frame("pairs", SURE).to_dict("records")
    names = [" with ".join(shorten(pair[side], 12) for side in ("class_1", "class_2")) for pair in worst]
    rows = [
        Interval(name, pair["intrusion"], pair["low"], pair["high"], 1) for name, pair in zip(names, worst, strict=True)
    ]
    title, axis = "Pairs of classes whose blends intrude most surely", "share of blends among another class"
    return figure(interval_plot(title, said, rows, axis, digits=2), said)


def _pair_table(pairs: pd.DataFrame) -> Markup:
    rows: list[list[str | Cell]] = [
        [
            str(pair["class_1"]),
            str(pair["class_2"]),
            number_cell(100 * pair["weight"], 1),
            number_cell(pair["blends"], 0),
            number_cell(100 * pair["intrusion"], 1),
            Cell(f"{100 * pair['low']:.0f} to {100 * pair['high']:.0f}", pair["low"]),
            number_cell(100 * pair["permuted"], 1),
            number_cell(100 * pair["odd"], 0),
            number_cell(pair["total_variation"], 2),
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
