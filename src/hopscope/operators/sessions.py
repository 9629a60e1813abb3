"""Sessions of browsers: the hash of each session's secret id, its user, and its last use."""

from __future__ import annotations

import secrets
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

from ..settings.serve import Role
from .database import Database, OperatorsError, Tables
from .passwords import hash_secret
from .users import TABLES as USERS
from .users import User

How = Literal["password", "token", "code", "proxy", "oidc"]
"""How a user was authenticated."""
MAX_SESSIONS = 1000
MAX_OF_ONE = 20
"""Largest number of sessions with one name; a further login ends the one that was unused for longest."""
_SEEN_EVERY_NS = 60 * 10**9
"""Precision of the last use, since not every use is worth a write."""
_TABLES = Tables(
    "sessions",
    (
        """
        CREATE TABLE sessions (
            hash BLOB PRIMARY KEY,
            number TEXT NOT NULL UNIQUE,
            name TEXT NOT NULL,
            role TEXT NOT NULL,
            how TEXT NOT NULL,
            generation TEXT,
            address TEXT NOT NULL,
            agent TEXT NOT NULL,
            created_ns INTEGER NOT NULL,
            seen_ns INTEGER NOT NULL
        );
        CREATE INDEX sessions_of ON sessions (name);
        """,
    ),
)
_ALIVE = (
    "FROM sessions AS s LEFT JOIN users AS u ON s.how = 'password' AND u.name = s.name "
    "WHERE s.seen_ns > ? AND s.created_ns > ? AND (s.how <> 'password' OR u.generation = s.generation)"
)
_FIELDS = "s.number, s.name, coalesce(u.role, s.role), s.how, s.address, s.agent, s.created_ns, s.seen_ns"


@dataclass(frozen=True)
class Session:
    """One session. `number` identifies it in lists; it is not the secret id."""

    number: str
    name: str
    role: Role
    how: How
    address: str
    agent: str
    created_ns: int
    seen_ns: int


class Sessions:
    """The sessions in a database. They end after `idle_seconds` without use, or `seconds` after the login.

    A session of a user with a password ends when the password changes or the user is removed, and always has
    the user's present role.
    """

    def __init__(self, database: Database, idle_seconds: float, seconds: float) -> None:
        self._database = database
        self._idle_ns, self._most_ns = int(idle_seconds * 1e9), int(seconds * 1e9)
        database.declare(USERS)
        database.declare(_TABLES)

    def start(
        self, name: str, role: Role, how: How, address: str, agent: str = "", user: User | None = None
    ) -> str:
        """Start a session; returns its secret id of 256 random bits, of which only the hash is kept. Raises
        OperatorsError.
        """
        secret, now = secrets.token_urlsafe(32), time.time_ns()
        with self._database.transaction() as connection:
            connection.execute(
                f"DELETE FROM sessions WHERE hash NOT IN (SELECT s.hash {_ALIVE})", self._since(now)
            )
            for rows, most, whose in (
                ("name = ?", MAX_OF_ONE, (name,)),
                ("TRUE", MAX_SESSIONS, ()),
            ):
                connection.execute(
                    f"DELETE FROM sessions WHERE hash IN (SELECT hash FROM sessions WHERE {rows} "
                    "ORDER BY seen_ns DESC LIMIT -1 OFFSET ?)",
                    (*whose, most - 1),
                )
            connection.execute(
                "INSERT INTO sessions VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    hash_secret(secret), secrets.token_hex(8), name, role, how, user and user.generation,
                    address, agent[:200], now, now,
                ),
            )  # fmt: skip
        return secret

    def find(self, secret: str) -> Session | None:
        """The session with this secret id, or None if it has ended; this counts as a use. Raises
        OperatorsError.
        """
        now, hashed = time.time_ns(), hash_secret(secret)
        rows = self._database.rows(f"SELECT {_FIELDS} {_ALIVE} AND s.hash = ?", (*self._since(now), hashed))
        if not rows:
            return None
        session = Session(*rows[0])
        if now - session.seen_ns > _SEEN_EVERY_NS:
            with suppress(OperatorsError), self._database.transaction() as connection:  # the disk may be full
                connection.execute("UPDATE sessions SET seen_ns = ? WHERE hash = ?", (now, hashed))
        return session

    def all(self, name: str | None = None) -> list[Session]:
        """All sessions (with this name), the last used first. Raises OperatorsError."""
        rows = self._database.rows(
            f"SELECT {_FIELDS} {_ALIVE} AND (? IS NULL OR s.name = ?) ORDER BY s.seen_ns DESC",
            (*self._since(time.time_ns()), name, name),
        )
        return [Session(*row) for row in rows]

    def end(self, number: str, name: str | None = None) -> bool:
        """End a session (if it has this name); returns whether there was one. Raises OperatorsError."""
        with self._database.transaction() as connection:
            ended = connection.execute(
                "DELETE FROM sessions WHERE number = ? AND (? IS NULL OR name = ?)", (number, name, name)
            )
            return ended.rowcount > 0

    def _since(self, now: int) -> tuple[int, int]:
        return now - self._idle_ns, now - self._most_ns
