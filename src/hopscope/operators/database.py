"""The SQLite file with operators' accounts and decisions. It is opened at the first use; there is one
connection, protected by a lock.

Each module declares its own tables, with a version and the migrations between versions (`Tables`).
"""

from __future__ import annotations

import os
import sqlite3
import stat
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..base.errors import HopscopeError
from ..memory.data_folder import OPERATORS_FILE

BUSY_SECONDS = 5.0
"""How long a change waits for another process, such as `hopscope users`."""
_DAMAGED = {"SQLITE_CORRUPT", "SQLITE_NOTADB"}
_WHY = {
    "SQLITE_FULL": "the disk is full",
    "SQLITE_IOERR": "it cannot be read or written; is the disk full?",
    "SQLITE_READONLY": "it cannot be written",
    "SQLITE_CANTOPEN": "it cannot be opened",
    "SQLITE_BUSY": "another process has locked it; try again",
}


class OperatorsError(HopscopeError):
    """The file cannot be used; the message states the file, the reason and the remedy."""


@dataclass(frozen=True)
class Tables:
    """The tables of one module. To change a table, add a migration; existing migrations must never change."""

    owner: str
    """The module's name."""
    migrations: tuple[str, ...]
    """SQL scripts; the version is the number of scripts that were run."""


class Database:
    """`console.sqlite` of a data folder, mode 0600. Threads may share it; each call may wait for the disk.

    The file is opened (or created) at the first use, and if that fails, at the next use. Everything that does
    not need it works without it.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / OPERATORS_FILE
        self._lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        self._declared: dict[str, Tables] = {}
        self._prepared: set[str] = set()
        self._after: list[Callable[[], None]] = []

    def declare(self, tables: Tables) -> None:
        """Declare tables, which are created or migrated to their newest version at the next use."""
        self._declared[tables.owner] = tables

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """A transaction; inside another transaction of this thread, it is part of that one.

        Raises OperatorsError; sqlite3.IntegrityError if a row violates a constraint.
        """
        with self._opened() as connection:
            if connection.in_transaction:
                yield connection
                return
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
                for work in self._after:
                    work()
            finally:
                self._after.clear()
                connection.rollback()  # does nothing after a COMMIT

    def after_commit(self, work: Callable[[], None]) -> None:
        """Call `work` once the transaction of this thread is on disk; not if it is rolled back."""
        self._after.append(work)

    def rows(self, sql: str, parameters: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        """All rows of a query. Raises OperatorsError."""
        with self._opened() as connection:
            return connection.execute(sql, parameters).fetchall()

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
            self._connection = None
            self._prepared.clear()

    def __del__(self) -> None:
        """Close the file, since Python 3.13 warns about files that are not closed."""
        self.close()

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        """The connection, for this thread only; SQLite's errors become one line for the user."""
        with self._lock:
            try:
                if self._connection is None:
                    self._connection = _open(self.path)
                if self._prepared != self._declared.keys():
                    self._prepare(self._connection)
                yield self._connection
            except sqlite3.IntegrityError:
                raise
            except sqlite3.Error as error:
                raise OperatorsError(f"{self.path}: {_reason(error)}") from error
            except OSError as error:
                raise OperatorsError(f"{self.path}: {error.strerror}") from error

    def _prepare(self, connection: sqlite3.Connection) -> None:
        """Run the migrations that were not run on this file yet."""
        connection.execute("BEGIN IMMEDIATE")
        try:
            connection.execute(
                "CREATE TABLE IF NOT EXISTS versions (owner TEXT PRIMARY KEY, version INTEGER NOT NULL)"
            )
            found = dict(connection.execute("SELECT owner, version FROM versions").fetchall())
            for owner, tables in self._declared.items():
                version, newest = found.get(owner, 0), len(tables.migrations)
                if version > newest:
                    raise OperatorsError(
                        f"{self.path}: {owner} has version {version}, and this version of Hopscope knows "
                        f"{newest}: use the one that wrote it"
                    )
                for script in tables.migrations[version:]:
                    for statement in _statements(script):
                        connection.execute(statement)
                connection.execute("INSERT OR REPLACE INTO versions VALUES (?, ?)", (owner, newest))
            connection.execute("COMMIT")
        finally:
            connection.rollback()
        self._prepared = set(self._declared)


def _open(path: Path) -> sqlite3.Connection:
    """Open or create the file, which only its user may read, whatever the umask. That is the user of the
    collector, who must not be locked out: root creates the file for this user, other users do not create it.
    """
    user = _collector(path.parent)
    if os.geteuid() not in (0, user.st_uid) and not path.exists():
        raise OperatorsError(f"{path}: the data folder is another user's: run this as that user, or as root")
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        state = os.fstat(descriptor)
        if os.geteuid() == 0 and state.st_uid == 0 and not state.st_size:
            os.fchown(descriptor, user.st_uid, user.st_gid)
        elif not stat.S_ISREG(state.st_mode) or state.st_uid not in (os.geteuid(), user.st_uid):
            raise OperatorsError(f"{path}: it is not a file of this user; remove it")
        os.fchmod(descriptor, 0o600)
    finally:
        os.close(descriptor)
    connection = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    try:
        _use_wal(connection)
        connection.execute("PRAGMA synchronous = FULL")  # audited changes survive a power failure
        connection.execute("PRAGMA foreign_keys = ON")
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def _collector(folder: Path) -> os.stat_result:
    """The status of the file that the collector locks, or else of the folder; its owner is the collector's
    user.
    """
    lock = folder / "owner.lock"
    return (lock if lock.exists() else folder).stat()


def _use_wal(connection: sqlite3.Connection) -> None:
    """Use a write-ahead log, so that readers do not wait for changes. SQLite itself does not wait if another
    process is just creating the file or its log, so this function does.
    """
    until = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                raise
        time.sleep(0.01)


def _statements(script: str) -> Iterator[str]:
    """The statements of a script. They must be run one by one, because `executescript` would end the
    transaction.
    """
    waiting = ""
    for part in script.split(";"):
        waiting += part + ";"
        if sqlite3.complete_statement(waiting):
            if waiting.strip(" \n;"):
                yield waiting
            waiting = ""


def _reason(error: sqlite3.Error) -> str:
    """Why SQLite failed, and what to do."""
    name = "_".join(getattr(error, "sqlite_errorname", "").split("_")[:2])  # extended codes have a third part
    if name in _DAMAGED:
        return (
            "it is damaged: put a copy of it in its place, or move it away, which forgets users and what "
            "operators have noted"
        )
    return _WHY.get(name, str(error))
