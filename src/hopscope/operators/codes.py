"""Codes that log a browser in once: whoever may write the data folder gets one by `hopscope open`."""

from __future__ import annotations

import hashlib
import secrets
import time

from .database import Database, Tables

CODE_SECONDS = 300
"""How long a code can be used."""
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
        """A code for `name`, the user of this machine who asked for it. Raises OperatorsError."""
        code, now = secrets.token_urlsafe(24), time.time_ns()
        with self._database.transaction() as connection:
            connection.execute("DELETE FROM codes WHERE until_ns < ?", (now,))
            connection.execute(
                "INSERT INTO codes VALUES (?, ?, ?)", (_hash(code), name, now + CODE_SECONDS * 10**9)
            )
        return code

    def take(self, code: str) -> str | None:
        """For whom a code is; it cannot be used again. None: it is wrong, used, or too old. Raises
        OperatorsError.
        """
        known = "FROM codes WHERE hash = ? AND until_ns >= ?"
        values = _hash(code), time.time_ns()
        if not self._database.rows(f"SELECT 1 {known}", values):  # guesses take no write
            return None
        with self._database.transaction() as connection:
            found = connection.execute(f"DELETE {known} RETURNING name", values).fetchone()
        return found and str(found[0])


def _hash(code: str) -> bytes:
    return hashlib.sha256(code.encode("utf-8", "replace")).digest()
