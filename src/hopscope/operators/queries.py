"""Saved queries: named SQL, shared by all users who may read."""

from __future__ import annotations

import time
from dataclasses import dataclass

from ..base.errors import HopscopeError
from .audit import Audit, Author
from .database import Database, Tables

MAX_QUERIES = 1000
"""Largest number of saved queries; more are refused."""
_TABLES = Tables(
    "queries",
    (
        """
        CREATE TABLE queries (
            name TEXT PRIMARY KEY,
            text TEXT NOT NULL,
            who TEXT NOT NULL,
            time_ns INTEGER NOT NULL
        );
        """,
    ),
)


class TooManyQueriesError(HopscopeError):
    """There are MAX_QUERIES already."""


@dataclass(frozen=True, slots=True)
class Query:
    """A saved query."""

    name: str
    text: str
    who: str
    """The user who saved it last."""
    time_ns: int
    """When it was saved, ns since the epoch."""


class Queries:
    """The saved queries in a database; changes are audited. Raises OperatorsError."""

    def __init__(self, database: Database, audit: Audit) -> None:
        self._database, self._audit = database, audit
        database.declare(_TABLES)

    def all(self) -> list[Query]:
        """All queries, ordered by name."""
        rows = self._database.rows("SELECT name, text, who, time_ns FROM queries ORDER BY name")
        return [Query(*row) for row in rows]

    def get(self, name: str) -> Query | None:
        """The query with this name, or None."""
        rows = self._database.rows("SELECT name, text, who, time_ns FROM queries WHERE name = ?", (name,))
        return Query(*rows[0]) if rows else None

    def put(self, name: str, text: str, author: Author) -> Query:
        """Save a query; it replaces one with the same name. Raises TooManyQueriesError."""
        with self._database.transaction() as connection:
            before = self.get(name)
            ((many,),) = connection.execute("SELECT count(*) FROM queries").fetchall()
            if before is None and many >= MAX_QUERIES:
                raise TooManyQueriesError(f"there are {MAX_QUERIES:,} saved queries: delete some first")
            saved = Query(name, text, author.name, time.time_ns())
            connection.execute(
                "INSERT OR REPLACE INTO queries (name, text, who, time_ns) VALUES (?, ?, ?, ?)",
                (saved.name, saved.text, saved.who, saved.time_ns),
            )
            self._audit.add(author, "queries.save", name, before and before.text, text)
        return saved

    def delete(self, name: str, author: Author) -> bool:
        """Delete a query; returns whether there was one with this name."""
        with self._database.transaction() as connection:
            before = self.get(name)
            if before is not None:
                connection.execute("DELETE FROM queries WHERE name = ?", (name,))
                self._audit.add(author, "queries.delete", name, before.text)
        return before is not None
