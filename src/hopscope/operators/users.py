"""Users with a password: their names, roles, and password hashes."""

from __future__ import annotations

import re
import secrets
import sqlite3
import time
from dataclasses import dataclass

from ..base.errors import HopscopeError
from ..settings.serve import Role
from .audit import Audit, Author
from .database import Database, Tables
from .passwords import hash_password, matches

_NAME = re.compile(r"[a-z0-9][a-z0-9._@-]{0,63}")
TABLES = Tables(
    "users",
    (
        """
        CREATE TABLE users (
            name TEXT PRIMARY KEY,
            role TEXT NOT NULL CHECK (role IN ('viewer', 'operator')),
            hash TEXT NOT NULL,
            generation TEXT NOT NULL,
            created_ns INTEGER NOT NULL,
            changed_ns INTEGER NOT NULL
        );
        """,
    ),
)


class UserError(HopscopeError):
    """There is no such user, the user exists already, or the name is invalid."""


@dataclass(frozen=True)
class User:
    """One user. `generation` is a random text; it changes with the password, which ends the sessions."""

    name: str
    role: Role
    generation: str
    created_ns: int
    changed_ns: int
    """When the password was set."""


class Users:
    """The users in a database; changes are audited."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._audit = Audit(database)
        database.declare(TABLES)

    def all(self) -> list[User]:
        """All users, ordered by name. Raises OperatorsError."""
        rows = self._database.rows(
            "SELECT name, role, generation, created_ns, changed_ns FROM users ORDER BY name"
        )
        return [User(*row) for row in rows]

    def exist(self) -> bool:
        """Whether there is any user. Raises OperatorsError."""
        return bool(self._database.rows("SELECT 1 FROM users LIMIT 1"))

    def add(self, name: str, role: Role, password: str, author: Author) -> None:
        """Add a user. Raises UserError, PasswordError, OperatorsError."""
        name, hashed, now = checked_name(name), hash_password(password), time.time_ns()
        with self._database.transaction() as connection:
            try:
                connection.execute(
                    "INSERT INTO users VALUES (?, ?, ?, ?, ?, ?)",
                    (name, role, hashed, secrets.token_hex(8), now, now),
                )
            except sqlite3.IntegrityError:
                raise UserError(f"there is a user {name!r} already") from None
            self._audit.add(author, "users.add", name, after={"role": role})

    def remove(self, name: str, author: Author) -> None:
        """Remove a user; the user's sessions end. Raises UserError, OperatorsError."""
        with self._database.transaction() as connection:
            user = self._known(name)
            connection.execute("DELETE FROM users WHERE name = ?", (user.name,))
            self._audit.add(author, "users.remove", user.name, before={"role": user.role})

    def set_role(self, name: str, role: Role, author: Author) -> None:
        """Give a user another role, also in open sessions. Raises UserError, OperatorsError."""
        with self._database.transaction() as connection:
            user = self._known(name)
            connection.execute("UPDATE users SET role = ? WHERE name = ?", (role, user.name))
            self._audit.add(author, "users.role", user.name, {"role": user.role}, {"role": role})

    def set_password(self, name: str, password: str, author: Author) -> None:
        """Set a user's password; the user's sessions end. Raises UserError, PasswordError, OperatorsError."""
        hashed = hash_password(password)
        with self._database.transaction() as connection:
            user = self._known(name)
            connection.execute(
                "UPDATE users SET hash = ?, generation = ?, changed_ns = ? WHERE name = ?",
                (hashed, secrets.token_hex(8), time.time_ns(), user.name),
            )
            self._audit.add(author, "users.password", user.name)

    def verified(self, name: str, password: str) -> User | None:
        """The user, if the password is right; an unknown name takes the same work. Raises OperatorsError."""
        rows = self._database.rows(
            "SELECT name, role, generation, created_ns, changed_ns, hash FROM users WHERE name = ?",
            (name.lower(),),
        )
        *fields, known = rows[0] if rows else (None,)
        return User(*fields) if matches(known, password) else None

    def _known(self, name: str) -> User:
        found = next((user for user in self.all() if user.name == name.lower()), None)
        if found is None:
            raise UserError(f"there is no user {name[:64]!r}: `hopscope users list` lists all")
        return found


def checked_name(name: str) -> str:
    """A name in lower case, as it is stored. Raises UserError if it is invalid."""
    if not _NAME.fullmatch(name.lower()):
        raise UserError(
            f"found name {name[:64]!r}, expected up to 64 letters, digits and . _ @ -, with a letter or a "
            "digit first"
        )
    return name.lower()
