"""Store of records in an SQLite file."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self, final

import pandas as pd

from genlabel.evaluation.records.schema import RecordSchema
from genlabel.evaluation.records.store import (
    JSON_COLUMNS,
    MEMORY,
    STORES,
    RecordSet,
    RecordStore,
    make_frame,
    parse_rows,
)

FORMAT = "3"
"""Version of the tables of a file."""
TIMEOUT_SECONDS = 60.0
"""Seconds to wait for another reader or writer of the file."""
COLUMNS = ("id", "fields", "seconds", "fingerprint", *JSON_COLUMNS)
HINTS = {
    sqlite3.SQLITE_FULL: "free space on the disk and run the same command again: what is finished is saved",
    sqlite3.SQLITE_BUSY: "another program holds it: close that one, and run the same command again",
    sqlite3.SQLITE_READONLY: "allow writing to it, or name another file",
    sqlite3.SQLITE_CANTOPEN: "allow writing to its folder, or name another file",
}
"""Advice by the error code of SQLite."""
TABLES = (
    "CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL)",
    "CREATE TABLE requested (id TEXT PRIMARY KEY, fields TEXT NOT NULL)",
    "CREATE TABLE records (id TEXT PRIMARY KEY, fields TEXT NOT NULL, seconds REAL NOT NULL, fingerprint TEXT NOT NULL,"
    " parameters TEXT NOT NULL, metrics TEXT NOT NULL, versions TEXT NOT NULL, facts TEXT NOT NULL, "
    "written TEXT NOT NULL)",
    "CREATE TABLE failures (trial TEXT PRIMARY KEY, error TEXT NOT NULL, written TEXT NOT NULL)",
)
INSERT = (
    "INSERT OR REPLACE INTO records VALUES (:id, :fields, :seconds, :fingerprint, :parameters, :metrics, :versions, "
    ":facts, :written)"
)


@final
@STORES.register("sqlite")
class SQLiteStore(RecordStore):
    """Records in an SQLite file; a second, empty database beside it is locked while the store is open.

    >>> SQLiteStore.suffixes
    ('.sqlite', '.sqlite3', '.db')
    """

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
                _make_folder(path)
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
            _check_settings(path, _read_settings(connection, path, schema), settings)
            return cls(path, schema, connection, stack.pop_all())

    @classmethod
    def check(cls, path: Path, schema: RecordSchema, restart: bool) -> None:
        """Raise if a file cannot be written, or has other records."""
        if path == MEMORY:
            return
        for part in (path, _lock_path(path), path.parent):  # SQLite reports it late, or for the lock not at all
            if part.exists() and not os.access(part, os.W_OK):
                reason = f"{str(part)!r} is read-only"
                raise OSError(f"{str(path)!r} cannot be used ({reason}); allow writing to it, or name another file")
        if path.is_file() and path.stat().st_size:
            with _clear_errors(path), closing(_connect(path, "rw")) as connection:
                _read_tables(connection, path)
                if not restart or _read_meta(connection).get("format") == FORMAT:
                    _read_settings(connection, path, schema)

    @classmethod
    def load(cls, path: Path, schema: RecordSchema) -> RecordSet:
        """Return what a store holds; the file is changed only to roll back a transaction that a kill interrupted."""
        with _clear_errors(path), closing(_connect(path, "rw")) as connection:
            if not _read_tables(connection, path):
                raise ValueError(f"{str(path)!r} is empty; run {schema.command} first, or name another file of records")
            with _transaction(connection, "BEGIN"):
                return _read_all(connection, path, schema)

    def read(self) -> RecordSet:
        """Return what the store holds."""
        return _read_all(self._connection, self.path, self.schema)

    def close(self) -> None:
        """Close the file and release its lock."""
        self._resources.close()

    def write_failure(self, trial: Any, error: str) -> None:
        """Save the error of a trial until it succeeds."""
        with self._writing() as connection:
            connection.execute("INSERT OR REPLACE INTO failures VALUES (?, ?, ?)", (json.dumps(trial), error, _now()))

    def _write_requests(self, rows: Sequence[tuple[str, str]]) -> None:
        with self._writing() as connection:
            connection.executemany("INSERT OR IGNORE INTO requested VALUES (?, ?)", rows)

    def _write_rows(self, rows: Sequence[Mapping[str, Any]], trials: Iterable[Any]) -> None:
        with self._writing() as connection:
            connection.executemany(INSERT, [{**row, "written": _now()} for row in rows])
            connection.executemany("DELETE FROM failures WHERE trial = ?", [(json.dumps(trial),) for trial in trials])

    def _read_requests(self) -> list[dict[str, Any]]:
        return _read_requests(self._connection)

    def _read_failures(self) -> dict[Any, str]:
        return _read_failures(self._connection, self.schema)

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        with _clear_errors(self.path), _transaction(self._connection) as connection:
            yield connection


def _connect(path: Path, mode: str, timeout: float | None = None) -> sqlite3.Connection:
    uri = "file::memory:" if path == MEMORY else f"{path.resolve().as_uri()}?mode={mode}"
    return sqlite3.connect(uri, uri=True, timeout=TIMEOUT_SECONDS if timeout is None else timeout, isolation_level=None)


def _lock_path(path: Path) -> Path:
    return path.with_name(f"{path.name}.lock")


def _lock(path: Path) -> sqlite3.Connection:
    """Lock a second, empty database for as long as it is open; the system unlocks it if the process dies."""
    lock = _connect(_lock_path(path), "rwc", timeout=0.0)
    try:
        lock.execute("BEGIN EXCLUSIVE")
    except sqlite3.Error as error:
        lock.close()
        if error.sqlite_errorcode != sqlite3.SQLITE_BUSY:
            raise
        hint = "wait until it ends, stop it, or name another file"
        raise BlockingIOError(f"another run writes {str(path)!r}; {hint}") from error
    return lock


def _make_folder(path: Path) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = f"its folder cannot be made: {error.strerror}"
        raise OSError(f"{str(path)!r} cannot be used ({reason}); name another file") from error


@contextmanager
def _transaction(connection: sqlite3.Connection, begin: str = "BEGIN IMMEDIATE") -> Iterator[sqlite3.Connection]:
    """Execute everything inside, or, after an error or a kill, nothing."""
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
        raise ValueError(f"{str(path)!r} is no store of records ({error}); name another file") from error


def _read_tables(connection: sqlite3.Connection, path: Path) -> list[str]:
    """Return the tables of a store, none of an empty file; raise if the file is no store."""
    tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    if tables and not {"meta", "records", "failures"} <= set(tables):
        raise ValueError(f"{str(path)!r} is no store of records but of {', '.join(tables)}; name another file")
    return tables


def _read_meta(connection: sqlite3.Connection) -> dict[str, str]:
    return dict(connection.execute("SELECT name, value FROM meta"))


def _read_settings(connection: sqlite3.Connection, path: Path, schema: RecordSchema) -> dict[str, Any]:
    """Return the settings of a store; raise if it has records of another schema."""
    meta = _read_meta(connection)
    if meta.get("format") != FORMAT:
        raise ValueError(
            f"the records of {str(path)!r} have an older format; name another file, or start over with --restart"
        )
    if meta["study"] != schema.name:
        raise ValueError(f"{str(path)!r} has records of {meta['study']}, not of {schema.name}; name another file")
    return dict(json.loads(meta["settings"]))


def _check_settings(path: Path, saved: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    differ = [name for name in {**saved, **wanted} if saved.get(name) != wanted.get(name)]
    if differ:
        was, now = (", ".join(f"{name}={settings.get(name)!r}" for name in differ) for settings in (saved, wanted))
        raise ValueError(
            f"the records of {str(path)!r} were made with {was}, not with {now}; use the same, name another file, or "
            "start over with restart=True, on the command line --restart"
        )


def _read_all(connection: sqlite3.Connection, path: Path, schema: RecordSchema) -> RecordSet:
    settings = _read_settings(connection, path, schema)
    rows = connection.execute(f"SELECT {', '.join(COLUMNS)} FROM records")  # names of this file  # nosec B608
    frame = make_frame(parse_rows(dict(zip(COLUMNS, row, strict=True)) for row in rows), schema)
    requested = pd.DataFrame(_read_requests(connection), columns=list(schema.fields))
    return RecordSet(frame, _read_failures(connection, schema), settings, requested)


def _read_requests(connection: sqlite3.Connection) -> list[dict[str, Any]]:
    return [json.loads(fields) for (fields,) in connection.execute("SELECT fields FROM requested ORDER BY rowid")]


def _read_failures(connection: sqlite3.Connection, schema: RecordSchema) -> dict[Any, str]:
    rows = connection.execute("SELECT trial, error FROM failures")
    return dict(sorted((schema.trial(*json.loads(trial)), error) for trial, error in rows))


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
