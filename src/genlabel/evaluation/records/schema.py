"""Records of runs: their keys and schemas, and the rows and frames that stores and exports make of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, NamedTuple, NotRequired, Protocol, TypedDict, final

import numpy as np
import pandas as pd


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


class RecordSet(NamedTuple):
    """Content of a file of records; `run_comparison` returns it."""

    frame: pd.DataFrame
    """Records, sorted by id: id, the fields, seconds, parameters and versions (each a dict), fingerprint, the facts,
    and a column for each metric, NaN where it does not apply."""
    failures: dict[Any, str]
    """Error of each trial that failed and has not succeeded since."""
    settings: dict[str, Any]
    """Settings that all records of the file share."""
    requested: pd.DataFrame
    """Fields of the runs that were ever requested, with or without a record."""


@final
@dataclass(frozen=True)
class RecordSchema:
    """Schema of the records of one kind: their fields, their metrics, and their export.

    >>> fields = {"dataset": "str", "method": "str", "split": "int64"}
    >>> RecordSchema("trees", "python trees.py", Fit, Fit, fields, ("accuracy",)).lists
    ('split',)
    """

    name: str
    """Name of the kind; all records of a file are of one kind."""
    command: str
    """Command that makes such records."""
    key: Callable[..., RunKey]
    """Function that returns the key of a run from its fields."""
    trial: Any
    """Named tuple class of the trials."""
    fields: Mapping[str, str]
    """Fields of a key -> dtypes in a frame."""
    metrics: tuple[str, ...]
    """Columns of every frame; further metrics follow them."""
    facts: Mapping[str, str] = field(default_factory=dict)
    """Facts of a record -> dtypes in a frame."""
    lists: tuple[str, ...] = ("split",)
    """Fields whose values share a line of an export, as lists; the other fields identify the line."""
    round_metric: Callable[[str, float], float] = lambda metric, value: value
    """Function of the name and value of a metric that returns the rounded value for an export."""


class Fit(NamedTuple):
    """Key of a single fit: one method on one split of one table, which is named by its OpenML id or its name.

    >>> Fit(61, "stacked density", 0).id
    '61/stacked density/split=0'
    """

    dataset: int | str
    method: str
    split: int

    @property
    def id(self) -> str:
        """Name of the fit, the key of its record."""
        return f"{self.dataset}/{self.method}/split={self.split}"

    @property
    def trial(self) -> Fit:
        """The fit itself: no other one is trained together with it."""
        return self

    @property
    def fields(self) -> dict[str, Any]:
        """Fields by name."""
        return self._asdict()


COMPARISON = RecordSchema(
    "compare",
    "genlabel compare",
    Fit,
    Fit,
    {"dataset": "str", "method": "str", "split": "int64"},
    ("accuracy", "log_loss", "brier", "calibration_error", "balanced_accuracy", "auc"),
    facts={"warnings": "object", "held_out": "object"},
    round_metric=lambda metric, value: float(f"{value:.7g}"),  # no value has more accurate digits
)
"""Schema of a comparison; "warnings" counts each warning, "held_out" counts predictions."""


def make_frame(rows: Iterable[Mapping[str, Any]], schema: RecordSchema) -> pd.DataFrame:
    """Return rows, whose metrics and facts are dicts, as the frame of `RecordSet`."""
    ordered = sorted(rows, key=lambda row: str(row["id"]))
    dtypes = {"id": "str"} | dict(schema.fields) | {"seconds": "float64"}
    frame = pd.DataFrame({name: [row[name] for row in ordered] for name in dtypes}).astype(dtypes)
    for name in ("parameters", "versions", "fingerprint"):
        frame[name] = pd.Series([row[name] for row in ordered], dtype=object)
    for name, dtype in schema.facts.items():
        frame[name] = pd.Series([row["facts"].get(name) for row in ordered], dtype=dtype)
    others = {name for row in ordered for name in row["metrics"]} - set(schema.metrics)
    for name in (*schema.metrics, *sorted(others)):
        frame[name] = pd.Series([row["metrics"].get(name, np.nan) for row in ordered], dtype="float64")
    return frame


def make_row(record: Record) -> dict[str, Any]:
    """Return a record as a row of a store, its dicts as JSON; raise if it cannot be saved."""
    key = record["key"]
    metrics = {name: float(value) for name, value in record["metrics"].items()}
    row: dict[str, Any] = {"id": key.id, "seconds": float(record["seconds"])}
    for name, number in {**metrics, "seconds": row["seconds"]}.items():
        if not isfinite(number):
            hint = "leave out metrics that do not apply"
            raise ValueError(f"{name}={number} of {key.id!r} is not a finite number; {hint}")
    dicts: dict[str, Any] = {"facts": {}, **record, "fields": key.fields, "metrics": metrics}
    for name in ("fields", "parameters", "metrics", "versions", "facts"):
        try:  # NumPy scalars and arrays become plain numbers and lists
            row[name] = json.dumps(dicts[name], allow_nan=False, default=lambda part: part.tolist())
        except (TypeError, ValueError, AttributeError) as error:
            hint = "use finite numbers, strings and lists"
            raise ValueError(f"{name} of {key.id!r} cannot be saved as JSON ({error}); {hint}") from error
    return row


def plain_values(value: Any, nonfinite: Callable[[float], Any] = lambda value: None) -> Any:
    """Return a value, and what a dict or list contains, as plain values for JSON; NaN and infinity become None."""
    value = value.tolist() if isinstance(value, np.generic | np.ndarray) else value
    if isinstance(value, Mapping):
        return {str(key): plain_values(part, nonfinite) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain_values(part, nonfinite) for part in value]
    if isinstance(value, float):
        return value if isfinite(value) else nonfinite(value)
    return value if isinstance(value, bool | int | str) or value is None else str(value)
