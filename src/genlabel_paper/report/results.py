"""Results of an experiment: our values next to the printed ones, statements with a verdict, and figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import hypot
from typing import TypeAlias

import pandas as pd
from matplotlib.figure import Figure

from genlabel_paper.runs.cells import BUDGETS

FULL_TRIALS = BUDGETS["full"].splits * BUDGETS["full"].seeds
"""Splits times seeds of the full budget; verdicts from fewer trials are preliminary."""
NOTHING_MEASURED = "not measured, or on too few datasets"
"""Our side of a claim without records, or with those of too few datasets."""
MIN_DIFFERENCE = 0.5
"""Points of accuracy; smaller differences are not meaningful, however small the spreads."""


@dataclass(frozen=True)
class Printed:
    """Value of the paper, with its spread if one is printed."""

    mean: float
    spread: float | None = None
    min_difference: float = field(default=MIN_DIFFERENCE, repr=False)
    """Smallest meaningful difference: half a point of accuracy, or half a unit of the last printed digit."""


@dataclass(frozen=True)
class Measured:
    """Our value: mean and standard deviation over splits and seeds."""

    mean: float
    spread: float | None
    splits: int
    seeds: int


@dataclass(frozen=True)
class Value:
    """Cell of a table: our value and the printed one, either of which may be missing."""

    ours: Measured | None
    paper: Printed | None
    why: str = ""
    """Reason why ours is missing."""

    @property
    def difference(self) -> float | None:
        """Ours minus the paper's."""
        return None if self.ours is None or self.paper is None else self.ours.mean - self.paper.mean


PrintedValues: TypeAlias = Mapping[tuple[str, str], Printed]
"""Printed values by row and column: by method and dataset, or by outcome and compared method."""


def computed(number: float, paper: Printed | None = None) -> Value:
    """Return a computed value, without splits and seeds.

    >>> computed(0.375, Printed(7 / 16, min_difference=1e-3)).difference
    -0.0625
    """
    return Value(Measured(float(number), None, 0, 0), paper)


def agreement(value: Value) -> str:
    """Return "agrees" (within one joint spread of the printed value), "near" (within two), "differs" or "missing".

    The joint spread is the root of the sum of both squares, and at least `min_difference`.

    >>> agreement(Value(Measured(90.0, 2.0, 3, 5), Printed(92.0, 1.0)))
    'agrees'
    """
    difference = value.difference
    if difference is None or value.ours is None or value.paper is None:
        return "missing"
    joint = max(hypot(value.ours.spread or 0.0, value.paper.spread or 0.0), value.paper.min_difference)
    if abs(difference) <= joint:
        return "agrees"
    return "near" if abs(difference) <= 2 * joint else "differs"


@dataclass(frozen=True)
class Grid:
    """Table of values: a row for each method (or outcome), a column for each dataset (or compared method).

    It is displayed transposed, one line per column.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[tuple[str, Sequence[Value]]]
    unit: str = "%"
    best: Sequence[str] = ()
    """Rows whose largest value of each column is bold."""
    corner: str = "OpenML id"
    """Title of the columns."""
    digits: int = 2
    """Displayed decimals."""
    about: Mapping[str, str] = field(default_factory=dict)
    """Description of a column, such as the name of a dataset."""

    @property
    def measured(self) -> bool:
        """True if any value is ours."""
        return any(value.ours is not None for _, row in self.rows for value in row)


@dataclass(frozen=True)
class Claim:
    """Statement with our verdict."""

    text: str
    printed: str
    """The paper's words or numbers."""
    ours: str
    """Our numbers."""
    holds: bool | None
    """None if the noise of the records allows either verdict."""
    trials: int = FULL_TRIALS
    """Smallest number of splits times seeds behind the verdict."""
    full: int = FULL_TRIALS
    """Splits times seeds of the full budget; verdicts from fewer trials are preliminary."""
    brief: str = ""
    """Short version for a list of all statements."""
    short: str = ""
    """Our numbers in a few characters, for that list."""
    complete: bool = True
    """False if datasets of the statement are not measured yet."""
    of_paper: bool = True
    """False for a statement of ours, or one of the paper's about another schedule; it is not counted."""

    @property
    def measured(self) -> bool:
        """True if there are records to judge it by."""
        return self.ours != NOTHING_MEASURED


@dataclass(frozen=True)
class CaptionedFigure:
    """Matplotlib figure with its caption."""

    caption: str
    figure: Figure
    alt: str = ""
    """Content of the figure for readers who do not see it; the caption if empty."""


@dataclass(frozen=True)
class Rendering:
    """Content of an experiment, made from records."""

    grids: Sequence[Grid] = ()
    claims: Sequence[Claim] = ()
    figures: Sequence[CaptionedFigure] = ()
    notes: Sequence[str] = field(default_factory=tuple)
    headline: str = ""
    """Sentence for the conclusion of the page, if the experiment decides on the paper's main statement."""

    @property
    def measured(self) -> bool:
        """True if any of it is ours."""
        return bool(self.figures) or any(grid.measured for grid in self.grids) or any(c.measured for c in self.claims)


def read_printed(text: str) -> dict[tuple[str, str], Printed]:
    """Return the values of a printed table by (column, line), which are method and dataset; "-" is no value.

    >>> read_printed('''
    ... dataset  mixup
    ... 61       88.00±1.09
    ... ''')
    {('mixup', '61'): Printed(mean=88.0, spread=1.09)}
    """
    head, *lines = [line.split() for line in text.strip().splitlines()]
    values = {}
    for line in lines:
        for column, word in zip(head[1:], line[1:], strict=True):
            if word != "-":
                mean, _, spread = word.partition("±")
                values[column, line[0]] = Printed(float(mean), float(spread) if spread else None)
    return values


def rows_of(paper: PrintedValues) -> list[str]:
    """Return the rows of a printed table, its methods.

    >>> rows_of({("mixup", "61"): Printed(88.0), ("mixup", "36"): Printed(88.98)})
    ['mixup']
    """
    return list(dict.fromkeys(row for row, _ in paper))


def columns_of(paper: PrintedValues) -> list[str]:
    """Return the columns of a printed table, its datasets.

    >>> columns_of({("mixup", "61"): Printed(88.0), ("mixup", "36"): Printed(88.98)})
    ['61', '36']
    """
    return list(dict.fromkeys(column for _, column in paper))


def printed_means(paper: PrintedValues) -> pd.DataFrame:
    """Return the printed means, one line per dataset and one column per method.

    >>> printed_means({("mixup", "61"): Printed(88.0)}).loc["61", "mixup"]
    np.float64(88.0)
    """
    datasets = columns_of(paper)
    columns = {
        row: {name: paper[row, name].mean for name in datasets if (row, name) in paper} for row in rows_of(paper)
    }
    return pd.DataFrame(columns, index=datasets, dtype=float)
