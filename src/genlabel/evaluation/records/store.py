"""The store: a row of an SQLite file for each finished cell, the cells of a trial all or none, and one writer."""

from __future__ import annotations

import json
import os
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from datetime import UTC, datetime
from math import isfinite
from pathlib import Path
from typing import Any, NamedTuple, Self, final

import numpy as np
import pandas as pd

from genlabel.evaluation.records.schema import Record, RecordSchema, RunKey

FORMAT = "2"
"""Of the tables of a file."""
PATIENCE = 60.0
"""Seconds to wait for a reader or a writer to be done with the file."""
MEMORY = Path(":memory:")
"""The place of a store that has no file."""
TEXTS = ("parameters", "metrics", "versions", "facts")
"""Columns of JSON."""
COLUMNS = ("id", "fields", "seconds", "fingerprint", *TEXTS)

WAYS_OUT = {
    sqlite3.SQLITE_FULL: "make room on the disk and go on with the same command: what ended is on record",
    sqlite3.SQLITE_BUSY: "another program holds it: close that one, and go on with the same command",
    sqlite3.SQLITE_READONLY: "allow writing to it, or name another file",
    sqlite3.SQLITE_CANTOPEN: "allow writing to its folder, or name another file",
}
"""What to do about an error of SQLite."""
TABLES = (
    "CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL)",
    "CREATE TABLE asked (id TEXT PRIMARY KEY, fields TEXT NOT NULL)",
    "CREATE TABLE records (id TEXT PRIMARY KEY, fields TEXT NOT NULL, seconds REAL NOT NULL, fingerprint TEXT NOT NULL,"
    " parameters TEXT NOT NULL, metrics TEXT NOT NULL, versions TEXT NOT NULL, facts TEXT NOT NULL, "
    "written TEXT NOT NULL)",
    "CREATE TABLE failures (trial TEXT PRIMARY KEY, error TEXT NOT NULL, written TEXT NOT NULL)",
)
INSERT = (
    "INSERT OR REPLACE INTO records VALUES (:id, :fields, :seconds, :fingerprint, :parameters, :metrics, :versions, "
    ":facts, :written)"
)


class RecordSet(NamedTuple):
    """What a file of records holds.

    `load_records` and `run_comparison` return it.
    """

    frame: pd.DataFrame
    """The records, sorted by id: id, the fields, seconds, parameters and versions (each a dict), fingerprint, the
    facts, and a column for each metric, NaN where it does not apply."""
    failures: dict[Any, str]
    """The error of each trial that failed and has not succeeded since."""
    settings: dict[str, Any]
    """What all records of the file have in common."""
    asked: pd.DataFrame
    """The fields of the cells that were ever asked for, on record or not."""


def open_store(
    path: str | Path | None, kind: RecordSchema, *, settings: Mapping[str, Any] | None = None, restart: bool = False
) -> Store:
    """Open the store of a file to go on with it, or begin it; nobody else can until it is closed.

    Parameters
    ----------
    path : path or None
        Its folders are made. None keeps the records in memory.
    kind : RecordSchema
        The kind of its records; a file of another kind is left alone.
    settings : dict, optional
        What all its records have in common. Going on with others than those of the file is an error.
    restart : bool
        Begin again: what the store has is lost. A file that is no store is left alone.

    Examples
    --------
    >>> from genlabel.evaluation.records import COMPARISON, Fit
    >>> record = {"cell": Fit("iris", "mixup", 0), "parameters": {}, "metrics": {"accuracy": 96.0}, "seconds": 1.0,
    ...           "versions": {}}
    >>> with open_store(None, COMPARISON) as store:
    ...     store.write([record], {"iris/mixup/split=0": "as today"})
    ...     store.done
    {'iris/mixup/split=0': 'as today'}
    """
    path = MEMORY if path is None else Path(path)
    wanted = json.loads(json.dumps(dict(settings or {})))
    check_store(path, kind, restart)
    with ExitStack() as stack, _clear_errors(path):
        if path != MEMORY:
            _make_room(path)
            stack.enter_context(closing(_hold(path)))
        connection = stack.enter_context(closing(_connect(path, "rwc")))
        connection.execute("PRAGMA synchronous = FULL")
        if restart or not _tables(connection, path):
            _begin(connection, path, kind, wanted)
        _check_settings(path, _read_meta(connection, path, kind), wanted)
        return Store(path, kind, connection, stack.pop_all())


def check_store(path: str | Path, kind: RecordSchema, restart: bool = False) -> None:
    """Raise where `open_store` would, as far as can be told without opening it for writing.

    >>> from genlabel.evaluation.records import COMPARISON
    >>> check_store(".", COMPARISON)
    Traceback (most recent call last):
    ValueError: '.' is a folder; records are written to one file, such as run.sqlite
    """
    path = Path(path)
    if path.is_dir():
        raise ValueError(f"{str(path)!r} is a folder; records are written to one file, such as {path / 'run.sqlite'}")
    if path != MEMORY:
        _check_writable(path)
    if path.is_file() and path.stat().st_size:
        with _clear_errors(path), closing(_connect(path, "rw")) as connection:
            _tables(connection, path)
            if not restart or _meta(connection).get("format") == FORMAT:
                _read_meta(connection, path, kind)


def read_store(path: str | Path, kind: RecordSchema) -> RecordSet:
    """Return what a store holds, also while a run writes it.

    The file is not made, and mended only where a kill has left half a transaction.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"there is no file of records {str(path)!r}; run {kind.command} first, or name another")
    with _clear_errors(path), closing(_connect(path, "rw")) as connection:
        if not _tables(connection, path):
            raise ValueError(f"{str(path)!r} is empty; run {kind.command} first, or name another file of records")
        with _transaction(connection, "BEGIN"):
            return _read(connection, path, kind)


def make_frame(rows: Iterable[Mapping[str, Any]], kind: RecordSchema) -> pd.DataFrame:
    """Return rows, whose metrics and facts are dicts beside their fields, as the frame of `RecordSet`.

    >>> from genlabel.evaluation.records import COMPARISON
    >>> row = {"id": "iris/mixup/split=0", "dataset": "iris", "method": "mixup", "split": 0, "seconds": 1.5,
    ...        "parameters": {}, "versions": {}, "fingerprint": "f", "facts": {}, "metrics": {"accuracy": 96.0}}
    >>> make_frame([row], COMPARISON)[["dataset", "method", "split", "accuracy", "auc"]]
      dataset method  split  accuracy  auc
    0    iris  mixup      0      96.0  NaN
    """
    ordered = sorted(rows, key=lambda row: str(row["id"]))
    keys = {"id": "str"} | dict(kind.fields) | {"seconds": "float64"}
    frame = pd.DataFrame({name: [row[name] for row in ordered] for name in keys}).astype(keys)
    for name in ("parameters", "versions", "fingerprint"):
        frame[name] = pd.Series([row[name] for row in ordered], dtype=object)
    for name, dtype in kind.facts.items():
        frame[name] = pd.Series([row["facts"].get(name) for row in ordered], dtype=dtype)
    others = {name for row in ordered for name in row["metrics"]} - set(kind.metrics)
    for name in (*kind.metrics, *sorted(others)):
        frame[name] = pd.Series([row["metrics"].get(name, np.nan) for row in ordered], dtype="float64")
    return frame


def make_row(record: Record) -> dict[str, Any]:
    """Return a record as a row of the table, or raise if it cannot be kept.

    >>> from genlabel.evaluation.records import Fit
    >>> make_row({"cell": Fit("iris", "mixup", 0), "parameters": {}, "metrics": {"log_loss": float("nan")},
    ...           "seconds": 1.0, "versions": {}})
    Traceback (most recent call last):
    ValueError: log_loss=nan of 'iris/mixup/split=0' is no finite number; leave out what does not apply
    """
    cell = record["cell"]
    for name, value in {**record["metrics"], "seconds": record["seconds"]}.items():
        if not isfinite(value):
            raise ValueError(f"{name}={value!r} of {cell.id!r} is no finite number; leave out what does not apply")
    metrics = {name: float(value) for name, value in record["metrics"].items()}
    texts = {"fields": cell.fields, "parameters": record["parameters"], "metrics": metrics}
    texts |= {"versions": record["versions"], "facts": record.get("facts", {})}
    row = {"id": cell.id, "seconds": float(record["seconds"])}
    return row | {name: _as_json(f"{name} of {cell.id!r}", value) for name, value in texts.items()}


@final
class Store:
    """The records and the failures of one file, open for writing; `open_store` makes it."""

    def __init__(self, path: Path, kind: RecordSchema, connection: sqlite3.Connection, held: ExitStack) -> None:
        self.path, self.kind = path, kind
        self.done: dict[str, str] = dict(connection.execute("SELECT id, fingerprint FROM records"))
        """The cells on record: their ids, and the fingerprints of the settings that made them."""
        self._connection, self._held = connection, held

    def ask(self, cells: Iterable[RunKey]) -> None:
        """Note which cells are wanted, so that a reader can tell what is missing."""
        rows = [(cell.id, json.dumps(cell.fields)) for cell in cells]
        with _clear_errors(self.path), _transaction(self._connection) as connection:
            connection.executemany("INSERT OR IGNORE INTO asked VALUES (?, ?)", rows)

    def write(self, records: Sequence[Record], fingerprints: Mapping[str, str]) -> None:
        """Add the records of a trial, all or none, and forget its failure; they are on the disk on return.

        Parameters
        ----------
        records : sequence of Record
            One of a cell that is on record with another fingerprint takes its place.
        fingerprints : dict of id -> fingerprint
            Of the settings that made them.
        """
        rows = [make_row(record) | {"fingerprint": fingerprints[record["cell"].id]} for record in records]
        found = {row["id"]: row["fingerprint"] for row in rows}
        times = Counter(row["id"] for row in rows) + Counter(
            name for name in found if self.done.get(name) == found[name]
        )
        twice = [name for name, count in times.items() if count > 1]
        if twice:
            raise ValueError(
                f"{twice[0]!r} would be in {str(self.path)!r} twice; leave it out, or begin with --restart"
            )
        with _clear_errors(self.path), _transaction(self._connection) as connection:
            connection.executemany(INSERT, [row | {"written": _now()} for row in rows])
            gone = {json.dumps(record["cell"].trial) for record in records}
            connection.executemany("DELETE FROM failures WHERE trial = ?", [(trial,) for trial in gone])
        self.done.update(found)

    def write_failure(self, trial: Any, error: str) -> None:
        """Keep the error of a trial until it succeeds."""
        with _clear_errors(self.path), _transaction(self._connection) as connection:
            connection.execute("INSERT OR REPLACE INTO failures VALUES (?, ?, ?)", (json.dumps(trial), error, _now()))

    def forget_failures(self, fingerprints: Mapping[str, str]) -> None:
        """Forget the errors of trials that are wholly on record: every cell that was ever asked for, those named here
        with the fingerprints of today.

        Parameters
        ----------
        fingerprints : dict of id -> fingerprint
            Of the settings of today; a trial of which no cell is named is left alone.
        """
        if not _failures(self._connection, self.kind):
            return
        asked = [self.kind.cell(**fields) for fields in _asked(self._connection)]
        named = {cell.trial for cell in asked if cell.id in fingerprints}
        unfinished = {cell.trial for cell in asked if not self._is_done(cell.id, fingerprints)}
        with _clear_errors(self.path), _transaction(self._connection) as connection:
            gone = [(json.dumps(trial),) for trial in named - unfinished]
            connection.executemany("DELETE FROM failures WHERE trial = ?", gone)

    def _is_done(self, name: str, fingerprints: Mapping[str, str]) -> bool:
        """Whether a cell is on record, with the fingerprint of today if that is known."""
        return name in self.done and self.done[name] == fingerprints.get(name, self.done[name])

    def read(self) -> RecordSet:
        """Return what the store holds."""
        return _read(self._connection, self.path, self.kind)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._held.close()


def _lock_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.lock")


def _check_writable(path: Path) -> None:
    """Raise where SQLite would say so only of the first record: after the work, or, of its lock, not at all."""
    for place in (path, _lock_of(path), path.parent):
        if place.exists() and not os.access(place, os.W_OK):
            why = f"{str(place)!r} is read-only"
            raise OSError(f"{str(path)!r} cannot be used ({why}); allow writing to it, or name another file")


def _make_room(path: Path) -> None:
    """Make the folder of a store."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        why = f"its folder cannot be made: {error.strerror}"
        raise OSError(f"{str(path)!r} cannot be used ({why}); name another file") from error


def _hold(path: Path) -> sqlite3.Connection:
    """Lock a second, empty database for as long as it is open; the system unlocks it if the process dies."""
    lock = _connect(_lock_of(path), "rwc", patience=0.0)
    try:
        lock.execute("BEGIN EXCLUSIVE")
    except sqlite3.Error as error:
        lock.close()
        if error.sqlite_errorcode != sqlite3.SQLITE_BUSY:
            raise
        hint = "wait until it ends, stop it, or name another file"
        raise BlockingIOError(f"another run writes {str(path)!r}; {hint}") from error
    return lock


def _connect(path: Path, mode: str, patience: float | None = None) -> sqlite3.Connection:
    address = "file::memory:" if path == MEMORY else f"{path.resolve().as_uri()}?mode={mode}"
    return sqlite3.connect(address, uri=True, timeout=PATIENCE if patience is None else patience, isolation_level=None)


@contextmanager
def _clear_errors(path: Path) -> Iterator[None]:
    """Say what is wrong with a file, and the way out, where SQLite speaks of itself."""
    try:
        yield
    except sqlite3.OperationalError as error:
        hint = WAYS_OUT.get(getattr(error, "sqlite_errorcode", 0) & 0xFF, "see to it, or name another file")
        raise OSError(f"{str(path)!r} cannot be used ({error}); {hint}") from error
    except sqlite3.DatabaseError as error:
        raise ValueError(f"{str(path)!r} is no store of records ({error}); name another file") from error


def _tables(connection: sqlite3.Connection, path: Path) -> list[str]:
    """Return the tables of a store, none of an empty file; raise if they are those of something else."""
    tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    if tables and not {"meta", "records", "failures"} <= set(tables):
        raise ValueError(f"{str(path)!r} is no store of records but of {', '.join(tables)}; name another file")
    return tables


def _begin(connection: sqlite3.Connection, path: Path, kind: RecordSchema, settings: Mapping[str, Any]) -> None:
    """Make the tables anew, all or none."""
    tables = _tables(connection, path)
    meta = {"format": FORMAT, "study": kind.name, "settings": json.dumps(settings)}
    with _transaction(connection):
        for statement in [*(f'DROP TABLE "{name}"' for name in tables), *TABLES]:
            connection.execute(statement)
        connection.executemany("INSERT INTO meta VALUES (?, ?)", list(meta.items()))


def _meta(connection: sqlite3.Connection) -> dict[str, str]:
    return dict(connection.execute("SELECT name, value FROM meta"))


def _read_meta(connection: sqlite3.Connection, path: Path, kind: RecordSchema) -> dict[str, Any]:
    """Return the settings of a store, or raise unless it has records of the study."""
    meta = _meta(connection)
    if meta.get("format") != FORMAT:
        raise ValueError(
            f"the records of {str(path)!r} are of an older format; name another file, or begin again with --restart"
        )
    if meta["study"] != kind.name:
        raise ValueError(f"{str(path)!r} has records of {meta['study']}, not of {kind.name}; name another file")
    return dict(json.loads(meta["settings"]))


def _check_settings(path: Path, found: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    differ = [name for name in {**found, **wanted} if found.get(name) != wanted.get(name)]
    if differ:
        was, now = (", ".join(f"{name}={of.get(name)!r}" for name in differ) for of in (found, wanted))
        raise ValueError(
            f"the records of {str(path)!r} were made with {was}, not with {now}; use the same, name another file, or "
            "begin again with restart=True, on the command line --restart"
        )


def _read(connection: sqlite3.Connection, path: Path, kind: RecordSchema) -> RecordSet:
    settings = _read_meta(connection, path, kind)
    found = connection.execute(f"SELECT {', '.join(COLUMNS)} FROM records")  # names of this file  # nosec B608
    rows = [dict(zip(COLUMNS, row, strict=True)) for row in found]
    parsed = [row | {name: json.loads(row[name]) for name in ("fields", *TEXTS)} for row in rows]
    frame = make_frame(((row | row["fields"]) for row in parsed), kind)
    asked = pd.DataFrame(_asked(connection), columns=list(kind.fields))
    return RecordSet(frame, _failures(connection, kind), settings, asked)


def _asked(connection: sqlite3.Connection) -> list[dict[str, Any]]:
    """The fields of the cells that were ever asked for, in the order in which they were."""
    return [json.loads(fields) for (fields,) in connection.execute("SELECT fields FROM asked ORDER BY rowid")]


def _failures(connection: sqlite3.Connection, kind: RecordSchema) -> dict[Any, str]:
    found = connection.execute("SELECT trial, error FROM failures")
    return dict(sorted((kind.trial(*json.loads(trial)), error) for trial, error in found))


@contextmanager
def _transaction(connection: sqlite3.Connection, begin: str = "BEGIN IMMEDIATE") -> Iterator[sqlite3.Connection]:
    """All that is executed inside, or, after an error or a kill, nothing."""
    connection.execute(begin)
    with connection:
        yield connection


def _as_json(name: str, value: Any) -> str:
    """A dict as JSON; numpy's numbers and arrays are those of Python."""
    try:
        return json.dumps(value, allow_nan=False, default=lambda part: part.tolist())
    except (TypeError, ValueError, AttributeError) as error:
        raise ValueError(f"{name}, {value!r}, is no JSON ({error}); keep finite numbers, texts and lists") from error


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
