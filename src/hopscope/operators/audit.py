"""The audit log: who changed what, when, and from where. Entries are added and read, never changed. Every
change by an operator is noted and counted here.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from ..base.process.control_client import UnansweredError
from ..memory.counter_region import CounterRegion
from .counters import ACCESS_COUNTERS
from .database import Database, OperatorsError, Tables

T = TypeVar("T")
_COUNTING = threading.Lock()

MAX_ENTRIES = 50_000
"""Largest number of entries that are kept; the oldest are deleted."""
_VALUE_CHARACTERS = 16_384
"""Longest JSON of a value before or after a change; of a longer value, only the length is kept."""
_TABLES = Tables(
    "audit",
    (
        """
        CREATE TABLE audit (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            time_ns INTEGER NOT NULL,
            who TEXT NOT NULL,
            address TEXT NOT NULL,
            kind TEXT NOT NULL,
            subject TEXT NOT NULL,
            before TEXT NOT NULL,
            after TEXT NOT NULL
        );
        CREATE TRIGGER audit_stays BEFORE UPDATE ON audit
            BEGIN SELECT RAISE(ABORT, 'entries of the audit do not change'); END;
        """,
    ),
)


@dataclass(frozen=True)
class Author:
    """The author of a change."""

    name: str
    """A user's name, or the method of authentication, such as `token`."""
    address: str = ""
    """Address of the client; empty for a command on this machine."""

    def __str__(self) -> str:
        return f"{self.name} from {self.address}" if self.address else self.name


@dataclass(frozen=True)
class Entry:
    """One change. `before` and `after` are JSON values, or None."""

    id: int
    time_ns: int
    who: str
    address: str
    kind: str
    subject: str
    before: Any
    after: Any


class Audit:
    """The log of changes in a database."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._counts: CounterRegion | None = None
        database.declare(_TABLES)

    def add(self, author: Author, kind: str, subject: str, before: Any = None, after: Any = None) -> None:
        """Note a change. `kind` is what was done, such as `limits.change`; `subject` is the thing that was
        changed.

        If this thread has an open transaction, the entry is part of it, so that it is written together with
        the change. Raises OperatorsError.
        """
        with self._database.transaction():
            self._note(author, kind, subject, before, after)
            self._database.after_commit(self._count)

    def ask(
        self,
        author: Author,
        kind: str,
        subject: str,
        before: Any,
        after: Any,
        change: Callable[[], T],
    ) -> T:
        """Note a change, and then call `change`, which lets another process make it; no lock is held
        meanwhile. If the process refuses or is not running, the entry is removed. If it does not answer
        (UnansweredError), the entry stays, since the change may still be made. Raises OperatorsError, and the
        errors of `change`.
        """
        number = self._note(author, kind, subject, before, after)
        try:
            made = change()
        except UnansweredError:
            self._count()
            raise
        except Exception:
            with suppress(OperatorsError), self._database.transaction() as connection:
                connection.execute("DELETE FROM audit WHERE id = ?", (number,))
            raise
        self._count()
        return made

    def _count(self) -> None:
        """Count a change in the counters of the collector, if one is running."""
        if self._counts is None:
            self._counts = ACCESS_COUNTERS.resume(self._database.path.parent / "regions")
        if self._counts is not None:
            with _COUNTING:
                self._counts.add("access_changes_total", 1)

    def _note(self, author: Author, kind: str, subject: str, before: Any, after: Any) -> int:
        values = (
            time.time_ns(), author.name, author.address, kind, subject, _as_json(before), _as_json(after),
        )  # fmt: skip
        with self._database.transaction() as connection:
            newest: int = (
                connection.execute(
                    "INSERT INTO audit (time_ns, who, address, kind, subject, before, after) "
                    "VALUES (?, ?, ?, ?, ?, ?, ?)",
                    values,
                ).lastrowid
                or 0
            )
            connection.execute("DELETE FROM audit WHERE id <= ?", (newest - MAX_ENTRIES,))
        return newest

    def page(
        self, limit: int = 100, before: int | None = None, kind: str | None = None, who: str | None = None
    ) -> list[Entry]:
        """Up to `limit` entries, newest first. Optional conditions: an id below `before`, a kind, an author.

        `kind` may also be the first part of kinds, such as `limits` for `limits.change`. Raises
        OperatorsError.
        """
        rows = self._database.rows(
            "SELECT * FROM audit WHERE (?1 IS NULL OR id < ?1) AND (?2 IS NULL OR kind = ?2 OR "
            "substr(kind, 1, length(?2) + 1) = ?2 || '.') AND (?3 IS NULL OR who = ?3) "
            "ORDER BY id DESC LIMIT ?4",
            (before, kind, who, limit),
        )
        return [Entry(*row[:6], *map(json.loads, row[6:])) for row in rows]


def _as_json(value: Any) -> str:
    text = json.dumps(value, separators=(",", ":"), default=str)
    return text if len(text) <= _VALUE_CHARACTERS else json.dumps({"characters": len(text)})
