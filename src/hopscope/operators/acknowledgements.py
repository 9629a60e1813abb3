"""Acknowledgements, which say that a user is working on an alarm. They are valid until the alarm ends."""

from __future__ import annotations

import time
from dataclasses import dataclass

from ..base.errors import HopscopeError
from .audit import Audit, Author
from .database import Database, Tables

MOST = 10_000
"""Largest number of acknowledgements that are kept; the oldest are deleted."""
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
    """There is no acknowledgement to remove."""


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """A user is working on the alarm at a place."""

    key: str
    """Key of the place, see `detect.alarms.place_key`."""
    who: str
    time_ns: int
    """When it was made, ns since the epoch. It refers to an alarm that was open then."""
    note: str

    def is_of(self, since_ns: int | None) -> bool:
        """Whether it refers to the alarm that began at `since_ns` (None: before all known events)."""
        return since_ns is None or self.time_ns >= since_ns


class Acknowledgements:
    """The acknowledgements in a database; changes are audited. Raises OperatorsError."""

    def __init__(self, database: Database, audit: Audit) -> None:
        self._database, self._audit = database, audit
        database.declare(_TABLES)

    def by_key(self) -> dict[str, Acknowledgement]:
        """All acknowledgements; empty if there is no file yet."""
        if not self._database.path.exists():
            return {}
        rows = self._database.rows("SELECT key, who, time_ns, note FROM acknowledgements")
        return {row[0]: Acknowledgement(*row) for row in rows}

    def add(self, key: str, note: str, author: Author) -> Acknowledgement:
        """Acknowledge the alarm at a place; this replaces an earlier acknowledgement."""
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
        """Remove an acknowledgement. Raises NotAcknowledgedError."""
        with self._database.transaction() as connection:
            if not connection.execute("DELETE FROM acknowledgements WHERE key = ?", (key,)).rowcount:
                raise NotAcknowledgedError(f"no alarm {key[:100]!r} is acknowledged")
            self._audit.add(author, "alarms.unacknowledge", key)
