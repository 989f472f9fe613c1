"""Stores of records: the base class, and the functions that open and read a store of any registered kind.

A new kind of store is a subclass of `RecordStore` with `@STORES.register("name")` above it, in a module that this
package imports, or in another package that has an entry point of the group `genlabel.evaluation.records`.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import pandas as pd

from genlabel.evaluation.records.schema import Record, RecordSchema, RunKey
from genlabel.registry import Registry

STORES: Registry[RecordStore] = Registry("store", "genlabel.evaluation.records")
"""Stores of records by name."""
MEMORY = Path(":memory:")
"""Path of a store that has no file."""
JSON_COLUMNS = ("parameters", "metrics", "versions", "facts")


class RecordSet(NamedTuple):
    """Content of a file of records; `load_records` and `run_comparison` return it."""

    frame: pd.DataFrame
    """Records, sorted by id: id, the fields, seconds, parameters and versions (each a dict), fingerprint, the facts,
    and a column for each metric, NaN where it does not apply."""
    failures: dict[Any, str]
    """Error of each trial that failed and has not succeeded since."""
    settings: dict[str, Any]
    """Settings that all records of the file share."""
    requested: pd.DataFrame
    """Fields of the runs that were ever requested, with or without a record."""


class RecordStore(ABC):
    """Base class of stores: the records and the failures of one file, open for writing.

    `open_store` returns one. A store has one writer. The records of a trial are written all or none, and are on the
    disk when `write` returns.

    Attributes
    ----------
    done : dict of id -> fingerprint
        Runs that have a record, with the fingerprints of the settings that made them.
    """

    suffixes: ClassVar[tuple[str, ...]]
    """File endings of such stores."""
    signature: ClassVar[bytes]
    """First bytes of such files."""

    def __init__(self, path: Path, schema: RecordSchema, done: dict[str, str]) -> None:
        self.path, self.schema, self.done = path, schema, done

    @classmethod
    @abstractmethod
    def open(cls, path: Path, schema: RecordSchema, settings: Mapping[str, Any], restart: bool) -> Self:
        """Open or create a store, see `open_store`."""

    @classmethod
    @abstractmethod
    def check(cls, path: Path, schema: RecordSchema, restart: bool) -> None:
        """Raise where `open` would, without writing."""

    @classmethod
    @abstractmethod
    def load(cls, path: Path, schema: RecordSchema) -> RecordSet:
        """Return what a store holds, also while another process writes it."""

    @abstractmethod
    def read(self) -> RecordSet:
        """Return what the store holds."""

    @abstractmethod
    def close(self) -> None:
        """Close the store, and let others write it."""

    @abstractmethod
    def write_failure(self, trial: Any, error: str) -> None:
        """Save the error of a trial until it succeeds."""

    @abstractmethod
    def _write_requests(self, rows: Sequence[tuple[str, str]]) -> None:
        """Save ids and fields (JSON) that are not saved yet."""

    @abstractmethod
    def _write_rows(self, rows: Sequence[Mapping[str, Any]], trials: Iterable[Any]) -> None:
        """Save rows, in the place of those of their ids, and delete the failures of trials: all or nothing."""

    @abstractmethod
    def _read_requests(self) -> list[dict[str, Any]]:
        """Return the fields of the runs that were requested, in the order of the requests."""

    @abstractmethod
    def _read_failures(self) -> dict[Any, str]:
        """Return the errors of trials."""

    def request(self, keys: Iterable[RunKey]) -> None:
        """Note which runs are wanted, so that a reader can tell what is missing."""
        self._write_requests([(key.id, json.dumps(key.fields)) for key in keys])

    def write(self, records: Sequence[Record], fingerprints: Mapping[str, str]) -> None:
        """Add the records of a trial, all or none, and delete its failure.

        Parameters
        ----------
        records : sequence of Record
            Each replaces a record of the same run with another fingerprint.
        fingerprints : dict of id -> fingerprint
            Fingerprints of the settings that made the records.
        """
        rows = [make_row(record) | {"fingerprint": fingerprints[record["key"].id]} for record in records]
        written = {row["id"]: row["fingerprint"] for row in rows}
        counts = Counter(row["id"] for row in rows)
        counts.update(name for name in written if self.done.get(name) == written[name])
        duplicates = [name for name, count in counts.items() if count > 1]
        if duplicates:
            raise ValueError(
                f"{duplicates[0]!r} would be in {str(self.path)!r} twice; leave it out, or start over with --restart"
            )
        self._write_rows(rows, {record["key"].trial for record in records})
        self.done.update(written)

    def delete_old_failures(self, fingerprints: Mapping[str, str]) -> None:
        """Delete the errors of trials that are complete: every run that was ever requested has a record.

        Parameters
        ----------
        fingerprints : dict of id -> fingerprint
            Current fingerprints of the runs that are requested now; trials without any of them are left alone.
        """
        if not self._read_failures():
            return
        keys = [self.schema.key(**fields) for fields in self._read_requests()]
        current = {key.trial for key in keys if key.id in fingerprints}
        incomplete = {
            key.trial
            for key in keys
            if key.id not in self.done or self.done[key.id] != fingerprints.get(key.id, self.done[key.id])
        }
        self._write_rows([], current - incomplete)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open_store(
    path: str | Path | None, schema: RecordSchema, *, settings: Mapping[str, Any] | None = None, restart: bool = False
) -> RecordStore:
    """Open the store of a file, or create it; no other process can write it until it is closed.

    Parameters
    ----------
    path : path or None
        Its folders are made. None keeps the records in memory.
    schema : RecordSchema
        A file with records of another schema is left alone.
    settings : dict, optional
        Settings that all records share. Continuing a file with other settings is an error.
    restart : bool
        Delete all records first. A file that is no store is left alone.

    Examples
    --------
    >>> from genlabel.evaluation.records.schema import COMPARISON, Fit
    >>> record = {"key": Fit("iris", "mixup", 0), "parameters": {}, "metrics": {"accuracy": 0.96}, "seconds": 1.0,
    ...           "versions": {}}
    >>> with open_store(None, COMPARISON) as store:
    ...     store.write([record], {"iris/mixup/split=0": "fingerprint"})
    ...     store.done
    {'iris/mixup/split=0': 'fingerprint'}
    """
    path = MEMORY if path is None else Path(path)
    check_store(path, schema, restart)
    return _store_class(path).open(path, schema, json.loads(json.dumps(dict(settings or {}))), restart)


def check_store(path: str | Path, schema: RecordSchema, restart: bool = False) -> None:
    """Raise where `open_store` would, as far as possible without writing.

    >>> from genlabel.evaluation.records.schema import COMPARISON
    >>> check_store(".", COMPARISON)
    Traceback (most recent call last):
    ValueError: '.' is a folder; records are written to one file, such as run.sqlite
    """
    path = Path(path)
    if path.is_dir():
        raise ValueError(f"{str(path)!r} is a folder; records are written to one file, such as {path / 'run.sqlite'}")
    _store_class(path).check(path, schema, restart)


def read_store(path: str | Path, schema: RecordSchema) -> RecordSet:
    """Return what the store of a file holds, also while another process writes it."""
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(
            f"there is no file of records {str(path)!r}; run {schema.command} first, or name another"
        )
    return _store_class(path).load(path, schema)


def is_store(path: Path) -> bool:
    """Return whether a file is a store, by its ending or its first bytes."""
    stores = STORES.classes().values()
    return any(path.suffix in store.suffixes for store in stores) or _by_signature(path) is not None


def _store_class(path: Path) -> type[RecordStore]:
    """Return the kind of store of a file: by its first bytes, else by its ending, else the first kind."""
    stores = STORES.classes().values()
    by_suffix = [store for store in stores if path.suffix in store.suffixes]
    return _by_signature(path) or next(iter([*by_suffix, *stores]))


def _by_signature(path: Path) -> type[RecordStore] | None:
    if not path.is_file():
        return None
    with path.open("rb") as file:
        start = file.read(32)
    return next((store for store in STORES.classes().values() if start.startswith(store.signature)), None)


def make_frame(rows: Iterable[Mapping[str, Any]], schema: RecordSchema) -> pd.DataFrame:
    """Return rows, whose metrics and facts are dicts, as the frame of `RecordSet`.

    >>> from genlabel.evaluation.records.schema import COMPARISON
    >>> row = {"id": "iris/mixup/split=0", "dataset": "iris", "method": "mixup", "split": 0, "seconds": 1.5,
    ...        "parameters": {}, "versions": {}, "fingerprint": "f", "facts": {}, "metrics": {"accuracy": 0.96}}
    >>> make_frame([row], COMPARISON)[["dataset", "method", "split", "accuracy", "auc"]]
      dataset method  split  accuracy  auc
    0    iris  mixup      0      0.96  NaN
    """
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
    """Return a record as a row of a store, its dicts as JSON; raise if it cannot be saved.

    >>> from genlabel.evaluation.records.schema import Fit
    >>> make_row({"key": Fit("iris", "mixup", 0), "parameters": {}, "metrics": {"log_loss": float("nan")},
    ...           "seconds": 1.0, "versions": {}})
    Traceback (most recent call last):
    ValueError: log_loss=nan of 'iris/mixup/split=0' is not a finite number; leave out metrics that do not apply
    """
    key = record["key"]
    for name, value in {**record["metrics"], "seconds": record["seconds"]}.items():
        if not isfinite(value):
            hint = "leave out metrics that do not apply"
            raise ValueError(f"{name}={value!r} of {key.id!r} is not a finite number; {hint}")
    dicts: dict[str, Any] = {"fields": key.fields, "parameters": record["parameters"]}
    dicts |= {"metrics": {name: float(value) for name, value in record["metrics"].items()}}
    dicts |= {"versions": record["versions"], "facts": record.get("facts", {})}
    row: dict[str, Any] = {"id": key.id, "seconds": float(record["seconds"])}
    for name, value in dicts.items():
        try:  # numpy scalars and arrays become those of Python
            row[name] = json.dumps(value, allow_nan=False, default=lambda part: part.tolist())
        except (TypeError, ValueError, AttributeError) as error:
            raise ValueError(
                f"{name} of {key.id!r}, {value!r}, cannot be saved as JSON ({error}); use finite numbers, strings and "
                "lists"
            ) from error
    return row


def parse_rows(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return rows of `make_row` for `make_frame`: JSON parsed, and the fields as entries."""
    parsed = [{**row, **{name: json.loads(row[name]) for name in ("fields", *JSON_COLUMNS)}} for row in rows]
    return [row | row["fields"] for row in parsed]
