"""Codes that log in a browser once. `hopscope open` makes one for a user who may write to the data folder."""

from __future__ import annotations

import secrets
import time

from .database import Database, Tables
from .passwords import hash_secret

CODE_SECONDS = 300
"""How long a code is valid."""
_TABLES = Tables(
    "codes",
    ("CREATE TABLE codes (hash BLOB PRIMARY KEY, name TEXT NOT NULL, until_ns INTEGER NOT NULL);",),
)


class Codes:
    """The codes in a database; only their hashes are kept."""

    def __init__(self, database: Database) -> None:
        self._database = database
        database.declare(_TABLES)

    def make(self, name: str) -> str:
        """Make a code for `name`, the user of this machine who asked for it. Raises OperatorsError."""
        code, now = secrets.token_urlsafe(24), time.time_ns()
        with self._database.transaction() as connection:
            connection.execute("DELETE FROM codes WHERE until_ns < ?", (now,))
            connection.execute(
                "INSERT INTO codes VALUES (?, ?, ?)", (hash_secret(code), name, now + CODE_SECONDS * 10**9)
            )
        return code

    def take(self, code: str) -> str | None:
        """Use up a code; returns the name for which it was made, or None if it is wrong, used, or too old.
        Raises OperatorsError.
        """
        known = "FROM codes WHERE hash = ? AND until_ns >= ?"
        values = hash_secret(code), time.time_ns()
        if not self._database.rows(f"SELECT 1 {known}", values):  # a wrong guess must not cost a write
            return None
        with self._database.transaction() as connection:
            found = connection.execute(f"DELETE {known} RETURNING name", values).fetchone()
        return found and str(found[0])
