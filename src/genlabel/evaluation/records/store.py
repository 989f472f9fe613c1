"""Stores of records: the base class, the functions that open a store of any registered kind, and the SQLite store.

Another kind of store is one file: a subclass of `RecordStore` with `@STORES.register("name")` above it, in a package
that has an entry point of the group `genlabel.evaluation.records`.
"""

from __future__ import annotations

import json
import os
import sqlite3
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar, Self, final

import pandas as pd

from genlabel.evaluation.records.schema import Record, RecordSchema, RecordSet, RunKey, make_frame, make_row
from genlabel.registry import Registry

STORES: Registry[RecordStore] = Registry("store", "genlabel.evaluation.records")
"""Stores of records by name."""
MEMORY = Path(":memory:")
"""Path of a store that has no file."""


class RecordStore(ABC):
    """Base class of stores: the records and the failures of one file, open for writing.

    `open_store` returns one. A store has one writer. The records of a trial are written atomically, and are on the disk
    when `write` returns. `done` has the fingerprints of the runs that have a record, by id.
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
        """Raise what `open` would raise, without writing."""

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
    def request(self, keys: Iterable[RunKey]) -> None:
        """Save the fields of the requested runs, in order and each once, so that a reader knows what is missing."""

    @abstractmethod
    def write_failure(self, trial: Any, error: str) -> None:
        """Save the error of a trial until it succeeds."""

    @abstractmethod
    def write_rows(self, rows: Sequence[Mapping[str, Any]], trials: Iterable[Any]) -> None:
        """Save rows, replacing those with the same ids, and delete the failures of trials, in one transaction."""

    def write(self, records: Sequence[Record], fingerprints: Mapping[str, str]) -> None:
        """Add the records of a trial atomically, and delete its failure.

        `fingerprints` are those of the settings that made the records, by id. A record replaces one of the same run
        with another fingerprint.
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
        self.write_rows(rows, {record["key"].trial for record in records})
        self.done.update(written)

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
        Missing folders are created. None keeps the records in memory.
    schema : RecordSchema
        A file with records of another schema is an error, and is not changed.
    settings : dict, optional
        Settings that all records share. Continuing a file with other settings is an error.
    restart : bool
        Delete all records first. A file that is not a store is an error, and is not changed.

    Examples
    --------
    >>> from genlabel.evaluation.records.schema import COMPARISON
    >>> with open_store(None, COMPARISON, settings={"seed": 0}) as store:
    ...     store.read().settings
    {'seed': 0}
    """
    path = MEMORY if path is None else Path(path)
    check_store(path, schema, restart)
    settings = json.loads(json.dumps(dict(settings or {})))
    return (find_store_class(path) or SQLiteStore).open(path, schema, settings, restart)


def check_store(path: str | Path, schema: RecordSchema, restart: bool = False) -> None:
    """Raise what `open_store` would raise, as far as that is possible without writing."""
    path = Path(path)
    if path.is_dir():
        raise ValueError(f"{str(path)!r} is a folder; records are written to one file, such as {path / 'run.sqlite'}")
    (find_store_class(path) or SQLiteStore).check(path, schema, restart)


def find_store_class(path: Path) -> type[RecordStore] | None:
    """Return the class of store of a file, by its first bytes or else by its ending; None if there is none."""
    start = b""
    if path.is_file():
        with path.open("rb") as file:
            start = file.read(32)
    stores = STORES.classes().values()
    by_signature = [store for store in stores if start.startswith(store.signature)]
    by_suffix = [store for store in stores if path.suffix in store.suffixes]
    return next(iter([*by_signature, *by_suffix]), None)


# SQLite

FORMAT = "3"
"""Version of the tables of a file."""
TIMEOUT_SECONDS = 60.0
"""Seconds to wait for another reader or writer of the file."""
HINTS = {
    sqlite3.SQLITE_FULL: "free space on the disk and run the same command again: what is finished is saved",
    sqlite3.SQLITE_BUSY: "another program holds it: close that one, and run the same command again",
    sqlite3.SQLITE_READONLY: "allow writing to it, or name another file",
    sqlite3.SQLITE_CANTOPEN: "allow writing to its folder, or name another file",
}
"""Advice by the error code of SQLite."""
JSON_COLUMNS = ("fields", "parameters", "metrics", "versions", "facts")
COLUMNS = ("id", "fields", "seconds", "fingerprint", "parameters", "metrics", "versions", "facts", "written")
TABLES = (
    "CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL)",
    "CREATE TABLE requested (id TEXT PRIMARY KEY, fields TEXT NOT NULL)",
    "CREATE TABLE records (id TEXT PRIMARY KEY, fields TEXT NOT NULL, seconds REAL NOT NULL, fingerprint TEXT NOT NULL,"
    " parameters TEXT NOT NULL, metrics TEXT NOT NULL, versions TEXT NOT NULL, facts TEXT NOT NULL, "
    "written TEXT NOT NULL)",
    "CREATE TABLE failures (trial TEXT PRIMARY KEY, error TEXT NOT NULL, written TEXT NOT NULL)",
)


@final
@STORES.register("sqlite")
class SQLiteStore(RecordStore):
    """Records in an SQLite file; a second, empty database in its folder is locked while the store is open."""

    suffixes = (".sqlite", ".sqlite3", ".db")
    signature = b"SQLite format 3"

    def __init__(self, path: Path, schema: RecordSchema, connection: sqlite3.Connection, resources: ExitStack) -> None:
        super().__init__(path, schema, dict(connection.execute("SELECT id, fingerprint FROM records")))
        self._connection, self._resources = connection, resources

    @classmethod
    def open(cls, path: Path, schema: RecordSchema, settings: Mapping[str, Any], restart: bool) -> Self:
        """Open or create a store."""
        with ExitStack() as stack, _clear_errors(path):
            if path != MEMORY:
                stack.enter_context(closing(_lock(path)))
            connection = stack.enter_context(closing(_connect(path, "rwc")))
            connection.execute("PRAGMA synchronous = FULL")
            tables = _read_tables(connection, path)
            if restart or not tables:
                meta = {"format": FORMAT, "study": schema.name, "settings": json.dumps(settings)}
                with _transaction(connection):
                    for statement in [*(f'DROP TABLE "{name}"' for name in tables), *TABLES]:
                        connection.execute(statement)
                    connection.executemany("INSERT INTO meta VALUES (?, ?)", list(meta.items()))
            saved = _read_settings(connection, path, schema)
            differ = [name for name in {**saved, **settings} if saved.get(name) != settings.get(name)]
            if differ:
                was = ", ".join(f"{name}={saved.get(name)!r}" for name in differ)
                now = ", ".join(f"{name}={settings.get(name)!r}" for name in differ)
                raise ValueError(
                    f"the records of {str(path)!r} were made with {was}, not with {now}; use the same, name another "
                    "file, or start over with restart=True"
                )
            return cls(path, schema, connection, stack.pop_all())

    @classmethod
    def check(cls, path: Path, schema: RecordSchema, restart: bool) -> None:
        """Raise if a file cannot be written, or has other records."""
        if path == MEMORY:
            return
        # SQLite itself reports a read-only file late, and a read-only lock not at all.
        for needed in (path, _lock_path(path), path.parent):
            if needed.exists() and not os.access(needed, os.W_OK):
                reason = f"{str(needed)!r} is read-only"
                raise OSError(f"{str(path)!r} cannot be used ({reason}); allow writing to it, or name another file")
        if path.is_file() and path.stat().st_size:
            with _clear_errors(path), closing(_connect(path, "rw")) as connection:
                _read_tables(connection, path)
                _read_settings(connection, path, schema, restart)

    @classmethod
    def load(cls, path: Path, schema: RecordSchema) -> RecordSet:
        """Return what a store holds; the file is changed only to roll back a transaction that a kill interrupted."""
        with _clear_errors(path), closing(_connect(path, "rw")) as connection:
            if not _read_tables(connection, path):
                raise ValueError(f"{str(path)!r} is empty; run {schema.command} first, or name another file of records")
            with _transaction(connection, "BEGIN"):
                return _read(connection, path, schema)

    def read(self) -> RecordSet:
        """Return what the store holds."""
        return _read(self._connection, self.path, self.schema)

    def close(self) -> None:
        """Close the file and release its lock."""
        self._resources.close()

    def request(self, keys: Iterable[RunKey]) -> None:
        """Save the fields of the requested runs."""
        rows = [(key.id, json.dumps(key.fields)) for key in keys]
        self._execute(("INSERT OR IGNORE INTO requested VALUES (?, ?)", rows))

    def write_failure(self, trial: Any, error: str) -> None:
        """Save the error of a trial."""
        self._execute(("INSERT OR REPLACE INTO failures VALUES (?, ?, ?)", [(json.dumps(trial), error, _now())]))

    def write_rows(self, rows: Sequence[Mapping[str, Any]], trials: Iterable[Any]) -> None:
        """Save rows and delete failures."""
        insert = f"INSERT OR REPLACE INTO records VALUES ({', '.join(f':{name}' for name in COLUMNS)})"
        delete = "DELETE FROM failures WHERE trial = ?"
        dated = [{**row, "written": _now()} for row in rows]
        self._execute((insert, dated), (delete, [(json.dumps(trial),) for trial in trials]))

    def _execute(self, *statements: tuple[str, Sequence[Any]]) -> None:
        """Execute statements, each for several rows, in one transaction."""
        with _clear_errors(self.path), _transaction(self._connection) as connection:
            for statement, rows in statements:
                connection.executemany(statement, rows)


def _connect(path: Path, mode: str, timeout: float | None = None) -> sqlite3.Connection:
    uri = "file::memory:" if path == MEMORY else f"{path.resolve().as_uri()}?mode={mode}"
    return sqlite3.connect(uri, uri=True, timeout=TIMEOUT_SECONDS if timeout is None else timeout, isolation_level=None)


def _lock_path(path: Path) -> Path:
    return path.with_name(f"{path.name}.lock")


def _lock(path: Path) -> sqlite3.Connection:
    """Lock a second, empty database for as long as it is open; the system unlocks it if the process dies."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = f"its folder cannot be made: {error.strerror}"
        raise OSError(f"{str(path)!r} cannot be used ({reason}); name another file") from error
    lock = _connect(_lock_path(path), "rwc", timeout=0.0)
    try:
        lock.execute("BEGIN EXCLUSIVE")
    except sqlite3.Error as error:
        lock.close()
        if error.sqlite_errorcode != sqlite3.SQLITE_BUSY:
            raise
        hint = "wait until it ends, stop it, or name another file"
        raise BlockingIOError(f"another run is writing {str(path)!r}; {hint}") from error
    return lock


@contextmanager
def _transaction(connection: sqlite3.Connection, begin: str = "BEGIN IMMEDIATE") -> Iterator[sqlite3.Connection]:
    """Execute the statements inside atomically: after an error or a kill, none of them has an effect."""
    connection.execute(begin)
    with connection:
        yield connection


@contextmanager
def _clear_errors(path: Path) -> Iterator[None]:
    """Turn errors of SQLite into errors that name the file and say what to do."""
    try:
        yield
    except sqlite3.OperationalError as error:
        hint = HINTS.get(getattr(error, "sqlite_errorcode", 0) & 0xFF, "check it, or name another file")
        raise OSError(f"{str(path)!r} cannot be used ({error}); {hint}") from error
    except sqlite3.DatabaseError as error:
        raise ValueError(f"{str(path)!r} is not a store of records ({error}); name another file") from error


def _read_tables(connection: sqlite3.Connection, path: Path) -> list[str]:
    """Return the tables of a store, none for an empty file; raise if the file is not a store."""
    tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    if tables and not {"meta", "records", "failures"} <= set(tables):
        raise ValueError(f"{str(path)!r} is not a store of records; it has {', '.join(tables)}: name another file")
    return tables


def _read_settings(
    connection: sqlite3.Connection, path: Path, schema: RecordSchema, restart: bool = False
) -> dict[str, Any]:
    """Return the settings of a store; raise for another schema, and for an older format unless it is a restart."""
    meta = dict(connection.execute("SELECT name, value FROM meta"))
    if meta.get("format") != FORMAT:
        if restart:
            return {}
        raise ValueError(
            f"the records of {str(path)!r} have an older format; name another file, or start over with --restart"
        )
    if meta["study"] != schema.name:
        raise ValueError(f"{str(path)!r} has records of {meta['study']}, not of {schema.name}; name another file")
    return dict(json.loads(meta["settings"]))


def _read(connection: sqlite3.Connection, path: Path, schema: RecordSchema) -> RecordSet:
    settings = _read_settings(connection, path, schema)
    rows = []
    for values in connection.execute(f"SELECT {', '.join(COLUMNS)} FROM records"):  # names of this file  # nosec B608
        row = dict(zip(COLUMNS, values, strict=True))
        row |= {name: json.loads(row[name]) for name in JSON_COLUMNS}
        rows.append(row | row["fields"])
    errors = connection.execute("SELECT trial, error FROM failures")
    failures = dict(sorted((schema.trial(*json.loads(trial)), error) for trial, error in errors))
    requests = [json.loads(text) for (text,) in connection.execute("SELECT fields FROM requested ORDER BY rowid")]
    requested = pd.DataFrame(requests, columns=list(schema.fields))
    return RecordSet(make_frame(rows, schema), failures, settings, requested)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
