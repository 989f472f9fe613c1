"""What an experiment shows: grids of our values beside the printed ones, claims that hold or do not, pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import hypot

from matplotlib.figure import Figure

from genlabel_paper.paired import EXACT
from genlabel_paper.runs.cells import BUDGETS

__all__ = [
    "EXACT",
    "FULL",
    "NOTHING",
    "Claim",
    "Grid",
    "Measured",
    "Picture",
    "Printed",
    "Shown",
    "Value",
    "agreement",
    "computed",
]

FULL = BUDGETS["full"].splits * BUDGETS["full"].seeds
"""Splits times seeds of the full budget; what fewer say is said so far."""
NOTHING = "nothing measured"
"""What is found where there are no records."""
FLOOR = 0.5
"""Points of accuracy below which a difference says nothing, however small the spreads."""


@dataclass(frozen=True)
class Printed:
    """A number of the paper, with its spread where one is printed."""

    mean: float
    spread: float | None = None
    least: float = field(default=FLOOR, repr=False)
    """A smaller difference says nothing: half a point of accuracy, or half a unit of the last digit of a number."""


@dataclass(frozen=True)
class Measured:
    """A number of ours: mean and standard deviation over splits and seeds."""

    mean: float
    spread: float | None
    splits: int
    seeds: int


@dataclass(frozen=True)
class Value:
    """One cell of a table of the paper: ours, and what is printed; either may be missing."""

    ours: Measured | None
    paper: Printed | None
    why: str = ""
    """Why ours is missing."""

    @property
    def difference(self) -> float | None:
        """Ours minus the paper's."""
        return None if self.ours is None or self.paper is None else self.ours.mean - self.paper.mean


def computed(number: float, paper: Printed | None = None) -> Value:
    """Return a value that follows from others, without splits and seeds of its own.

    >>> computed(0.375, Printed(7 / 16, least=1e-3)).difference
    -0.0625
    """
    return Value(Measured(float(number), None, 0, 0), paper)


@dataclass(frozen=True)
class Grid:
    """A table: a row for each method (or share), a column for each dataset (or rival)."""

    title: str
    columns: Sequence[str]
    rows: Sequence[tuple[str, Sequence[Value]]]
    unit: str = "%"
    best: Sequence[str] = ()
    """The rows among which the largest of each column stands in bold."""
    corner: str = "OpenML id"
    """What the columns are."""
    digits: int = 2
    """Decimals that are shown."""
    about: Mapping[str, str] = field(default_factory=dict)
    """Words on a column, such as the name of a dataset."""

    @property
    def measured(self) -> bool:
        """Whether any value is ours."""
        return any(value.ours is not None for _, row in self.rows for value in row)


@dataclass(frozen=True)
class Claim:
    """A statement of the paper, and what came out here."""

    text: str
    printed: str
    """The paper's numbers."""
    found: str
    """Ours."""
    holds: bool | None
    """None where the records do not suffice to say."""
    trials: int = FULL
    """Splits times seeds behind it, at the least."""
    full: int = FULL
    """Those of the full budget; what fewer say is said so far."""
    brief: str = ""
    """A few words for a list of all statements."""

    @property
    def measured(self) -> bool:
        """Whether there is anything of ours to judge it by."""
        return self.found != NOTHING


@dataclass(frozen=True)
class Picture:
    """A figure and what it shows."""

    caption: str
    figure: Figure
    alt: str = ""
    """What the picture says, for readers who do not see it; the caption if empty."""


@dataclass(frozen=True)
class Shown:
    """All that an experiment shows of the records."""

    grids: Sequence[Grid] = ()
    claims: Sequence[Claim] = ()
    pictures: Sequence[Picture] = ()
    notes: Sequence[str] = field(default_factory=tuple)
    headline: str = ""
    """A sentence for the conclusion of the page, where an experiment decides on the paper's main statement."""

    @property
    def measured(self) -> bool:
        """Whether there is anything of ours in it."""
        return bool(self.pictures) or any(grid.measured for grid in self.grids) or any(c.measured for c in self.claims)


def agreement(value: Value) -> str:
    """Say how far ours is from the paper's: "agrees" within one joint spread, "near" within two, else "differs".

    The joint spread is the root of the sum of both squares, and no less than `least`. "missing" if either is.

    >>> agreement(Value(Measured(90.0, 2.0, 3, 5), Printed(92.0, 1.0)))
    'agrees'
    """
    gap = value.difference
    if gap is None or value.ours is None or value.paper is None:
        return "missing"
    joint = max(hypot(value.ours.spread or 0.0, value.paper.spread or 0.0), value.paper.least)
    return "agrees" if abs(gap) <= joint else "near" if abs(gap) <= 2 * joint else "differs"
