"""A grid as it is shown on the page and in the terminal: a line for each dataset, a place for each method."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from genlabel_paper.report.pieces import Grid, Value, agreement

__all__ = ["AGREEMENTS", "SYMBOLS", "Line", "Place", "count_agreements", "has_printed", "lines_of", "reasons"]

SYMBOLS = {"agrees": "=", "near": "≈", "differs": "≠", "missing": "–"}  # noqa: RUF001
"""How far ours is from the paper's, in one sign."""
AGREEMENTS = {
    "agrees": "within one joint spread of the paper's value: at least half a point, or half a unit of the last printed "
    "digit of a number that is computed",
    "near": "within two",
    "differs": "further away",
    "missing": "ours is missing",
}
"""What the signs mean."""


@dataclass(frozen=True)
class Place:
    """A value in its line: whether ours and the printed one are the best there."""

    value: Value
    best_ours: bool
    best_paper: bool


@dataclass(frozen=True)
class Line:
    """What is shown of one column of a grid, such as a dataset."""

    name: str
    about: str
    places: Sequence[Place]


def lines_of(grid: Grid) -> list[Line]:
    """Turn a grid: a line for each of its columns, and the best of each line marked.

    >>> from genlabel_paper.report.pieces import Measured
    >>> rows = [("A", [Value(Measured(90.0, None, 1, 1), None)]), ("B", [Value(Measured(91.0, None, 1, 1), None)])]
    >>> [place.best_ours for place in lines_of(Grid("t", ["61"], rows, best=["A", "B"]))[0].places]
    [False, True]
    """
    lines = []
    for number, name in enumerate(grid.columns):
        values = [row[number] for _, row in grid.rows]
        chosen = [title in grid.best for title, _ in grid.rows]
        ours = _best([value.ours.mean if value.ours else None for value in values], chosen)
        paper = _best([value.paper.mean if value.paper else None for value in values], chosen)
        places = [
            Place(value, our_best, paper_best) for value, our_best, paper_best in zip(values, ours, paper, strict=True)
        ]
        lines.append(Line(name, grid.about.get(name, ""), places))
    return lines


def has_printed(grid: Grid) -> bool:
    """Does the paper print any value of it?

    >>> has_printed(Grid("t", ["61"], [("A", [Value(None, None)])]))
    False
    """
    return any(value.paper is not None for _, row in grid.rows for value in row)


def count_agreements(grid: Grid) -> dict[str, int]:
    """Count how many printed values of a grid agree with ours, are near, differ, or have none of ours.

    >>> from genlabel_paper.report.pieces import Printed
    >>> count_agreements(Grid("t", ["61"], [("A", [Value(None, Printed(90.0))])]))
    {'agrees': 0, 'near': 0, 'differs': 0, 'missing': 1}
    """
    found = Counter(agreement(value) for _, row in grid.rows for value in row if value.paper is not None)
    return {name: found[name] for name in SYMBOLS}


def reasons(grid: Grid) -> list[str]:
    """Say why values of ours are missing, with their number for each reason.

    >>> from genlabel_paper.report.pieces import Printed
    >>> reasons(Grid("t", ["61"], [("A", [Value(None, Printed(90.0), "not run")])]))
    ['1 missing: not run']
    """
    found = Counter(value.why for _, row in grid.rows for value in row if value.ours is None)
    return [f"{count} missing: {why or 'no records'}" for why, count in found.items()]


def _best(means: Sequence[float | None], chosen: Sequence[bool]) -> list[bool]:
    """Which of the chosen are the largest, to two decimals."""
    known = [round(mean, 2) for mean, taken in zip(means, chosen, strict=True) if taken and mean is not None]
    if len(known) < 2:
        return [False] * len(means)
    return [
        taken and mean is not None and round(mean, 2) == max(known) for mean, taken in zip(means, chosen, strict=True)
    ]
