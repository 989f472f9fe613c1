"""The records of the study: a row of an SQLite file for each finished cell, the cells of a trial all or none."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from datetime import UTC, datetime
from math import isfinite
from pathlib import Path
from typing import Any, Self, final

import numpy as np
import pandas as pd

from genlabel_paper.study.cells import Record, Trial

__all__ = ["METRICS", "PROTOCOL", "Store", "make_frame", "make_row", "open_store", "read_failures", "read_store"]

PROTOCOL = 1
"""How cells are measured and kept: a change of it parts new records from old ones."""
METRICS = ("accuracy", "log_loss", "robust_accuracy", "train_accuracy")
"""Columns of every frame of records; further metrics follow them."""
PATIENCE = 60.0
"""Seconds to wait for a reader or a writer to be done with the file."""

KEYS = dict.fromkeys(("id", "setting", "dataset", "method"), "str") | {"alpha": "float64", "split": "int64"}
KEYS |= {"seed": "int64", "seconds": "float64"}
"""First columns of a frame of records, and their types."""
TABLES = (
    "CREATE TABLE meta (name TEXT PRIMARY KEY, value INTEGER NOT NULL)",
    "CREATE TABLE records (id TEXT PRIMARY KEY, setting TEXT NOT NULL, dataset TEXT NOT NULL, method TEXT NOT NULL, "
    "alpha REAL NOT NULL, split INTEGER NOT NULL, seed INTEGER NOT NULL, parameters TEXT NOT NULL, metrics TEXT NOT "
    "NULL, seconds REAL NOT NULL, versions TEXT NOT NULL, written TEXT NOT NULL)",
    "CREATE TABLE failures (setting TEXT, dataset TEXT, split INTEGER, seed INTEGER, error TEXT NOT NULL, written TEXT "
    "NOT NULL, PRIMARY KEY (setting, dataset, split, seed))",
)
INSERT = (
    "INSERT INTO records VALUES (:id, :setting, :dataset, :method, :alpha, :split, :seed, :parameters, :metrics, "
    ":seconds, :versions, :written)"
)


def open_store(path: str | Path, fresh: bool = False) -> Store:
    """Open the store of a file to go on with it, or begin it; nobody else can until it is closed.

    Parameters
    ----------
    path : path
        Its folders are made.
    fresh : bool
        Begin again: what the store has is lost. A file that is no store is left alone.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from genlabel_paper.study.cells import Cell
    >>> record = {"cell": Cell("logistic", "61", "mixup", 0, 3), "parameters": {}, "metrics": {"accuracy": 93.8},
    ...           "seconds": 0.5, "versions": {"genlabel": "0"}}
    >>> with TemporaryDirectory() as folder, open_store(f"{folder}/study.sqlite") as store:
    ...     store.write([record])
    ...     store.done
    {'logistic/61/mixup/alpha=1/split=0/seed=3'}
    """
    path = Path(path)
    if path.is_dir():
        raise ValueError(f"{str(path)!r} is a folder; records are written to one file, such as {path / 'paper.sqlite'}")
    path.parent.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack, _clear_errors(path):
        if path.is_file() and path.stat().st_size:
            with closing(_connect(path, "rw")) as connection:
                _tables(connection, path)
        stack.enter_context(closing(_hold(path)))
        connection = stack.enter_context(closing(_connect(path, "rwc")))
        connection.execute("PRAGMA synchronous = FULL")
        if fresh or not _tables(connection, path):
            _begin(connection, path)
        _check_protocol(connection, path)
        return Store(path, connection, stack.pop_all())


def read_store(path: str | Path) -> pd.DataFrame:
    """Return the records of a store as a frame sorted by id, also while a run writes them.

    Parameters
    ----------
    path : path

    Returns
    -------
    DataFrame
        id, setting, dataset, method, alpha, split, seed, seconds, parameters and versions (each a dict), and a column
        for each metric, NaN where it does not apply.

    Examples
    --------
    >>> read_store("nowhere.sqlite")
    Traceback (most recent call last):
    FileNotFoundError: there is no file of records 'nowhere.sqlite'; run the study first, or name another
    """
    wanted = [*KEYS, "parameters", "versions", "metrics"]
    rows = (dict(zip(wanted, row, strict=True)) for row in _read(Path(path), "records", wanted))
    return make_frame(row | {name: json.loads(row[name]) for name in wanted[-3:]} for row in rows)


def read_failures(path: str | Path) -> dict[Trial, str]:
    """Return the error of each trial that failed and has not succeeded since."""
    return _as_failures(_read(Path(path), "failures", [*Trial._fields, "error"]))


def make_frame(rows: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """Return rows, whose metrics are a dict, as the frame of `read_store`.

    >>> make_frame([]).columns[-4:].to_list()
    ['accuracy', 'log_loss', 'robust_accuracy', 'train_accuracy']
    """
    ordered = sorted(rows, key=lambda row: str(row["id"]))
    frame = pd.DataFrame({name: [row[name] for row in ordered] for name in KEYS}).astype(KEYS)
    for name in ("parameters", "versions"):
        frame[name] = pd.Series([row[name] for row in ordered], dtype=object)
    others = {name for row in ordered for name in row["metrics"]} - set(METRICS)
    for name in (*METRICS, *sorted(others)):
        frame[name] = pd.Series([row["metrics"].get(name, np.nan) for row in ordered], dtype="float64")
    return frame


def make_row(record: Record) -> dict[str, Any]:
    """Return a record as a row of the table, or raise if it cannot be kept.

    >>> from genlabel_paper.study.cells import Cell
    >>> make_row({"cell": Cell("s", "61", "mixup", 0, 0), "parameters": {}, "metrics": {"log_loss": float("nan")},
    ...           "seconds": 1.0, "versions": {}})
    Traceback (most recent call last):
    ValueError: log_loss=nan of 's/61/mixup/alpha=1/split=0/seed=0' is no finite number; leave out what does not apply
    """
    cell = record["cell"]
    for name, value in {**record["metrics"], "seconds": record["seconds"]}.items():
        if not isfinite(value):
            raise ValueError(f"{name}={value!r} of {cell.id!r} is no finite number; leave out what does not apply")
    metrics = {name: float(value) for name, value in record["metrics"].items()}
    texts = {"parameters": record["parameters"], "metrics": metrics, "versions": record["versions"]}
    row = cell.fields | {"id": cell.id, "seconds": float(record["seconds"])}
    return row | {name: _as_json(f"{name} of {cell.id!r}", value) for name, value in texts.items()}


@final
class Store:
    """The records and the failures of one file, open for writing; `open_store` makes it."""

    def __init__(self, path: Path, connection: sqlite3.Connection, held: ExitStack) -> None:
        self.path = path
        self.done: set[str] = {name for (name,) in connection.execute("SELECT id FROM records")}
        """Ids of the cells on record."""
        self._connection, self._held = connection, held

    def write(self, records: Sequence[Record]) -> None:
        """Add the records of a trial, all or none, and forget its failure; they are on the disk on return."""
        rows = [make_row(record) | {"written": _now()} for record in records]
        times = Counter(row["id"] for row in rows) + Counter(self.done.intersection(row["id"] for row in rows))
        twice = [name for name, count in times.items() if count > 1]
        if twice:
            raise ValueError(f"{twice[0]!r} would be in {str(self.path)!r} twice; leave it out, or begin with --fresh")
        with _clear_errors(self.path), _transaction(self._connection) as connection:
            connection.executemany(INSERT, rows)
            gone = {record["cell"].trial for record in records}
            connection.executemany("DELETE FROM failures WHERE (setting, dataset, split, seed) = (?, ?, ?, ?)", gone)
        self.done.update(row["id"] for row in rows)

    def write_failure(self, trial: Trial, error: str) -> None:
        """Keep the error of a trial until it succeeds."""
        with _clear_errors(self.path), _transaction(self._connection) as connection:
            connection.execute("INSERT OR REPLACE INTO failures VALUES (?, ?, ?, ?, ?, ?)", (*trial, error, _now()))

    def failures(self) -> dict[Trial, str]:
        """Return the error of each trial that failed and has not succeeded since."""
        wanted = ", ".join([*Trial._fields, "error"])
        return _as_failures(self._connection.execute(f"SELECT {wanted} FROM failures ORDER BY 1, 2, 3, 4"))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._held.close()


def _hold(path: Path) -> sqlite3.Connection:
    """Lock a second, empty database for as long as it is open; the system unlocks it if the process dies."""
    lock = _connect(path.with_name(f"{path.name}.lock"), "rwc", patience=0.0)
    try:
        lock.execute("BEGIN EXCLUSIVE")
    except sqlite3.Error as error:
        lock.close()
        if error.sqlite_errorcode != sqlite3.SQLITE_BUSY:
            raise
        way_out = "wait until it ends, stop it, or name another file"
        raise BlockingIOError(f"another run writes {str(path)!r}; {way_out}") from error
    return lock


def _connect(path: Path, mode: str, patience: float = PATIENCE) -> sqlite3.Connection:
    address = f"{path.resolve().as_uri()}?mode={mode}"
    return sqlite3.connect(address, uri=True, timeout=patience, isolation_level=None)


@contextmanager
def _clear_errors(path: Path) -> Iterator[None]:
    """Say what is wrong with a file, and the way out, where SQLite speaks of itself."""
    try:
        yield
    except sqlite3.OperationalError as error:
        raise OSError(f"{str(path)!r} cannot be used ({error}); see to it, or name another file") from error
    except sqlite3.DatabaseError as error:
        raise ValueError(f"{str(path)!r} is no store of records ({error}); name another file") from error


def _tables(connection: sqlite3.Connection, path: Path) -> list[str]:
    """Return the tables of a store, none of an empty file; raise if they are those of something else."""
    tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    if tables and not {"meta", "records", "failures"} <= set(tables):
        raise ValueError(f"{str(path)!r} is no store of records but of {', '.join(tables)}; name another file")
    return tables


def _begin(connection: sqlite3.Connection, path: Path) -> None:
    """Make the tables anew, all or none."""
    tables = _tables(connection, path)
    with _transaction(connection):
        for statement in [*(f'DROP TABLE "{name}"' for name in tables), *TABLES]:
            connection.execute(statement)
        connection.execute("INSERT INTO meta VALUES ('protocol', ?)", (PROTOCOL,))


def _check_protocol(connection: sqlite3.Connection, path: Path) -> None:
    found = connection.execute("SELECT value FROM meta WHERE name = 'protocol'").fetchone()
    if found != (PROTOCOL,):
        raise ValueError(
            f"the records of {str(path)!r} are of protocol {found[0] if found else None}, not {PROTOCOL}; "
            "name another file, or begin again with --fresh"
        )


def _read(path: Path, table: str, columns: Sequence[str]) -> list[tuple[Any, ...]]:
    """Return the rows of a table; the file is not made, and mended only where a kill has left half a transaction."""
    if not path.is_file():
        raise FileNotFoundError(f"there is no file of records {str(path)!r}; run the study first, or name another")
    with _clear_errors(path), closing(_connect(path, "rw")) as connection:
        if not _tables(connection, path):
            raise ValueError(f"{str(path)!r} is empty; run the study first, or name another file of records")
        _check_protocol(connection, path)
        return connection.execute(f"SELECT {', '.join(columns)} FROM {table} ORDER BY 1, 2, 3, 4").fetchall()


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    """All that is executed inside, or, after an error or a kill, nothing."""
    connection.execute("BEGIN IMMEDIATE")
    with connection:
        yield connection


def _as_failures(rows: Iterable[tuple[Any, ...]]) -> dict[Trial, str]:
    return {Trial(*place): error for *place, error in rows}


def _as_json(name: str, value: Any) -> str:
    """A dict as JSON; numpy's numbers and arrays are those of Python."""
    try:
        return json.dumps(value, allow_nan=False, default=lambda part: part.tolist())
    except (TypeError, ValueError, AttributeError) as error:
        raise ValueError(f"{name}, {value!r}, is no JSON ({error}); keep finite numbers, texts and lists") from error


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
