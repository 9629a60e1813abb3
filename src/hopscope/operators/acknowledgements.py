"""Acknowledgements: a user is working on an alarm. Each is valid until the alarm ends."""

from __future__ import annotations

import time
from dataclasses import dataclass

from ..base.errors import HopscopeError
from .audit import Audit, Author
from .database import Database, Tables

MOST = 10_000
"""Acknowledgements that are kept; the oldest make room."""
_TABLES = Tables(
    "acknowledgements",
    (
        """
        CREATE TABLE acknowledgements (
            key TEXT PRIMARY KEY,
            who TEXT NOT NULL,
            time_ns INTEGER NOT NULL,
            note TEXT NOT NULL
        );
        """,
    ),
)


class NotAcknowledgedError(HopscopeError):
    """There is nothing to take back."""


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """Somebody looks after the alarm at a place."""

    key: str
    """What is alarmed, see `detect.alarms.place_key`."""
    who: str
    time_ns: int
    """When, ns since the epoch: it is about an alarm that was open then."""
    note: str

    def is_of(self, since_ns: int | None) -> bool:
        """Whether it is about the alarm that began then (None: before all that is known)."""
        return since_ns is None or self.time_ns >= since_ns


class Acknowledgements:
    """Those of a database; changes are audited. Raises OperatorsError."""

    def __init__(self, database: Database, audit: Audit) -> None:
        self._database, self._audit = database, audit
        database.declare(_TABLES)

    def by_key(self) -> dict[str, Acknowledgement]:
        """All of them; none before the first change."""
        if not self._database.path.exists():
            return {}
        rows = self._database.rows("SELECT key, who, time_ns, note FROM acknowledgements")
        return {row[0]: Acknowledgement(*row) for row in rows}

    def add(self, key: str, note: str, author: Author) -> Acknowledgement:
        """Acknowledge the alarm at a place, in place of who did before."""
        made = Acknowledgement(key, author.name, time.time_ns(), note)
        with self._database.transaction() as connection:
            connection.execute(
                "INSERT OR REPLACE INTO acknowledgements (key, who, time_ns, note) VALUES (?, ?, ?, ?)",
                (made.key, made.who, made.time_ns, made.note),
            )
            connection.execute(
                "DELETE FROM acknowledgements WHERE key NOT IN "
                "(SELECT key FROM acknowledgements ORDER BY time_ns DESC LIMIT ?)",
                (MOST,),
            )
            self._audit.add(author, "alarms.acknowledge", key, None, note)
        return made

    def remove(self, key: str, author: Author) -> None:
        """Take one back. Raises NotAcknowledgedError."""
        with self._database.transaction() as connection:
            if not connection.execute("DELETE FROM acknowledgements WHERE key = ?", (key,)).rowcount:
                raise NotAcknowledgedError(f"no alarm {key[:100]!r} is acknowledged")
            self._audit.add(author, "alarms.unacknowledge", key)
