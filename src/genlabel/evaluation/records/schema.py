"""Keys and schemas of records: a run, which has one record, and the trial of the runs that are trained together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, NotRequired, Protocol, TypedDict, final


class RunKey(Protocol):
    """Protocol of the key of a run: a method on one split of one dataset. Equal keys have equal hashes."""

    @property
    def id(self) -> str:
        """Name of the run, the key of its record."""

    @property
    def trial(self) -> Any:
        """Named tuple of the fields that the runs of a trial share: they are trained together."""

    @property
    def fields(self) -> dict[str, Any]:
        """Fields by name, strings and numbers."""


class Record(TypedDict):
    """Result of a run; the functions of `run_trials` return records, and a store saves them."""

    key: RunKey
    parameters: dict[str, Any]
    """Hyperparameters that a search chose."""
    metrics: dict[str, float]
    """Finite values; metrics that do not apply are left out."""
    seconds: float
    """Seconds of the trial, divided by its number of runs."""
    versions: dict[str, str]
    """Versions of the software."""
    facts: NotRequired[dict[str, Any]]
    """Further facts, such as the size of the table."""


@final
@dataclass(frozen=True)
class RecordSchema:
    """Schema of the records of one kind: their fields, their metrics, and their export.

    >>> fields = {"dataset": "str", "method": "str", "split": "int64"}
    >>> RecordSchema("trees", "python trees.py", Fit, Fit, fields, ("accuracy",)).has_single_runs
    True
    """

    name: str
    """Name of the kind; a file has the records of one kind."""
    command: str
    """Command that makes such records."""
    key: Callable[..., RunKey]
    """Makes the key of a run from its fields."""
    trial: Any
    """Class of named tuples that makes a trial from its fields."""
    fields: Mapping[str, str]
    """Fields of a key -> dtypes in a frame."""
    metrics: tuple[str, ...]
    """Columns of every frame; further metrics follow them."""
    facts: Mapping[str, str] = field(default_factory=dict)
    """Facts of a record -> dtypes in a frame."""
    lists: tuple[str, ...] = ("split",)
    """Fields over which an export makes lists; the others identify its lines."""
    round_metric: Callable[[str, float], float] = lambda metric, value: value
    """Rounds a metric for an export, called with its name and value."""

    @property
    def has_single_runs(self) -> bool:
        """True if a trial is a single run, whose seconds are its own."""
        return set(self.trial._fields) == set(self.fields)


class Fit(NamedTuple):
    """Key of a single fit: one method on one split of one table.

    >>> Fit(61, "stacked density", 0).id
    '61/stacked density/split=0'
    """

    dataset: int | str
    """OpenML id, or the name of a table."""
    method: str
    split: int

    @property
    def id(self) -> str:
        """Name of the fit, the key of its record."""
        return f"{self.dataset}/{self.method}/split={self.split}"

    @property
    def trial(self) -> Fit:
        """The fit itself: no other is trained together with it."""
        return self

    @property
    def fields(self) -> dict[str, Any]:
        """Fields by name."""
        return self._asdict()


def round_to_seven_digits(metric: str, value: float) -> float:
    """Return a metric with seven significant digits, more than its accuracy."""
    return float(f"{value:.7g}")


COMPARISON = RecordSchema(
    "compare",
    "genlabel compare",
    Fit,
    Fit,
    {"dataset": "str", "method": "str", "split": "int64"},
    ("accuracy", "log_loss", "brier", "calibration_error", "balanced_accuracy", "auc"),
    facts={"warnings": "object", "held_out": "object"},
    round_metric=round_to_seven_digits,
)
"""Schema of a comparison; "warnings" counts each warning, "held_out" counts predictions."""


def group_by_trial(keys: Iterable[RunKey]) -> dict[Any, list[Any]]:
    """Group keys by trial, each key once, in their order.

    >>> groups = group_by_trial([Fit("iris", "a", 0), Fit("iris", "b", 0), Fit("iris", "a", 0)])
    >>> [len(keys) for keys in groups.values()]
    [1, 1]
    """
    groups: dict[Any, list[Any]] = {}
    for key in dict.fromkeys(keys):
        groups.setdefault(key.trial, []).append(key)
    return groups
