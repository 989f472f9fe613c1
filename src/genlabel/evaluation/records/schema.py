"""A cell is what has one record: a method on one split of one dataset; cells that are trained together are a trial."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NotRequired, Protocol, TypedDict, final


class RunKey(Protocol):
    """What a runner and a store know of a cell; equal cells have equal hashes."""

    @property
    def id(self) -> str:
        """The name of the cell, which is the key of its record."""

    @property
    def trial(self) -> Any:
        """A named tuple of the fields that it shares with the cells that are trained together with it."""

    @property
    def fields(self) -> dict[str, Any]:
        """Its fields, texts and numbers, by name."""


class Record(TypedDict):
    """What is kept of a finished cell.

    The work of `run_trials` returns them, `Store.write` keeps them.
    """

    cell: RunKey
    parameters: dict[str, Any]
    """What a search chose."""
    metrics: dict[str, float]
    """Those that apply; finite."""
    seconds: float
    """Of the trial, shared equally among its cells."""
    versions: dict[str, str]
    """Of the software."""
    facts: NotRequired[dict[str, Any]]
    """What else is known, such as the size of the table."""


def identity(metric: str, value: float) -> float:
    """Return the value of a metric, not rounded."""
    return value


@final
@dataclass(frozen=True)
class RecordSchema:
    """What the records of one kind look like: their fields, their metrics, and how they are written down.

    >>> from genlabel.evaluation.records import Fit
    >>> fields = {"dataset": "str", "method": "str", "split": "int64"}
    >>> RecordSchema("trees", "python trees.py", Fit, Fit, fields, ("accuracy",)).trains_alone
    True
    """

    name: str
    """A file has the records of one kind, and says of which."""
    command: str
    """What makes such records, as it is typed."""
    cell: Callable[..., RunKey]
    """Makes a cell of its fields."""
    trial: Any
    """A class of named tuples: makes a trial of the fields that it names."""
    fields: Mapping[str, str]
    """The fields of a cell, and their types in a frame."""
    metrics: tuple[str, ...]
    """Columns of every frame; further metrics follow them."""
    facts: Mapping[str, str] = field(default_factory=dict)
    """The facts of a record, and their types in a frame."""
    lists: tuple[str, ...] = ("split",)
    """Fields over which an export makes lists; the others make its lines."""
    rounded: Callable[[str, float], float] = identity
    """How an export rounds a metric of a name."""

    @property
    def trains_alone(self) -> bool:
        """Whether a trial is one cell, whose seconds are its own and not a share."""
        return set(self.trial._fields) == set(self.fields)


def trials(cells: Iterable[RunKey]) -> dict[Any, list[Any]]:
    """Group cells by trial, each cell once, in the order in which they come.

    >>> from typing import NamedTuple
    >>> class Run(NamedTuple):  # two methods that are trained together
    ...     split: int
    ...     method: str
    ...     @property
    ...     def trial(self):
    ...         return self.split
    >>> {split: [run.method for run in runs] for split, runs in trials([Run(0, "a"), Run(1, "a"), Run(0, "b")]).items()}
    {0: ['a', 'b'], 1: ['a']}
    """
    found: dict[Any, list[Any]] = {}
    for cell in dict.fromkeys(cells):
        found.setdefault(cell.trial, []).append(cell)
    return found
