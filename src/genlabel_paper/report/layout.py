"""A grid as it is shown on the page and in the terminal: a line for each dataset, a place for each method."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from genlabel_paper.report.pieces import Grid, Value, agreement

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


PLAIN = ("", "not run")
"""Reasons that need not be told of what was not run."""


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


def measured_part(grid: Grid) -> Grid:
    """Leave out the columns and rows of a grid in which nothing is ours.

    >>> from genlabel_paper.report.pieces import Measured
    >>> rows = [("A", [Value(None, None), Value(Measured(90.0, None, 1, 1), None)]), ("B", [Value(None, None)] * 2)]
    >>> measured_part(Grid("t", ["61", "36"], rows)).columns
    ['36']
    """
    kept = [place for place in range(len(grid.columns)) if any(row[place].ours for _, row in grid.rows)]
    rows = [(title, [row[place] for place in kept]) for title, row in grid.rows]
    rows = [(title, row) for title, row in rows if any(value.ours for value in row)]
    return replace(grid, columns=[grid.columns[place] for place in kept], rows=rows)


def tell_missing(grid: Grid) -> list[str]:
    """Say in a few words what of a grid was not run: all of it, whole columns and rows, and single values.

    >>> from genlabel_paper.report.pieces import Measured
    >>> row = [Value(None, None, "lost"), Value(Measured(90.0, None, 1, 1), None)]
    >>> tell_missing(Grid("t", ["1038", "36"], [("A", row)]))
    ['1038 (lost)']
    """
    if not grid.measured:
        return [*grid.columns]
    part = measured_part(grid)
    gone = {name: grid.rows[0][1][place].why for place, name in enumerate(grid.columns) if name not in part.columns}
    gone |= {title: row[0].why for title, row in grid.rows if title not in dict(part.rows)}
    why = {reason: [name for name, other in gone.items() if other == reason] for reason in gone.values()}
    single = Counter(value.why for _, row in part.rows for value in row if value.ours is None)
    found = {reason: ", ".join(names) for reason, names in why.items()}
    words = [*found.items(), *((reason, f"{count} value{'s' * (count > 1)}") for reason, count in single.items())]
    return [said + (f" ({reason})" if reason not in PLAIN else "") for reason, said in words]


def _best(means: Sequence[float | None], chosen: Sequence[bool]) -> list[bool]:
    """Which of the chosen are the largest, to two decimals."""
    known = [round(mean, 2) for mean, taken in zip(means, chosen, strict=True) if taken and mean is not None]
    if len(known) < 2:
        return [False] * len(means)
    return [
        taken and mean is not None and round(mean, 2) == max(known) for mean, taken in zip(means, chosen, strict=True)
    ]
