"""Addresses from which users have logged in. Failed logins from elsewhere do not lock a user out there."""

from __future__ import annotations

import time

from .database import Database, Tables

KNOWN_DAYS = 60
_MOST = 20
"""How many addresses of a user are kept: the newest."""
_TABLES = Tables(
    "known_addresses",
    (
        """
        CREATE TABLE known_addresses (
            name TEXT NOT NULL, address TEXT NOT NULL, seen_ns INTEGER NOT NULL, PRIMARY KEY (name, address)
        );
        """,
    ),
)


class KnownAddresses:
    """The known addresses in a database, by user."""

    def __init__(self, database: Database) -> None:
        self._database = database
        database.declare(_TABLES)

    def has(self, name: str, address: str) -> bool:
        """Whether the user has logged in from this address in the last KNOWN_DAYS. Raises OperatorsError."""
        since = time.time_ns() - KNOWN_DAYS * 86_400 * 10**9
        found = self._database.rows(
            "SELECT 1 FROM known_addresses WHERE name = ? AND address = ? AND seen_ns > ?",
            (name, address, since),
        )
        return bool(found)

    def add(self, name: str, address: str) -> None:
        """Note that the user has logged in from this address. Raises OperatorsError."""
        with self._database.transaction() as connection:
            connection.execute(
                "INSERT OR REPLACE INTO known_addresses VALUES (?, ?, ?)", (name, address, time.time_ns())
            )
            connection.execute(
                "DELETE FROM known_addresses WHERE name = ? AND address IN (SELECT address FROM "
                "known_addresses WHERE name = ? ORDER BY seen_ns DESC LIMIT -1 OFFSET ?)",
                (name, name, _MOST),
            )
