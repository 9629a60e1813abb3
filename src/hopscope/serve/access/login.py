"""A login that was right, and one that was refused."""

from __future__ import annotations

from dataclasses import dataclass

from ...operators.sessions import How
from ...operators.users import User
from ...settings.access import Role


class LoginError(Exception):
    """A login is refused; the message does not say whether there is such a user."""

    def __init__(self, status: int, line: str, wait_seconds: int = 0) -> None:
        super().__init__(line)
        self.status, self.wait_seconds = status, wait_seconds


@dataclass(frozen=True)
class Login:
    """A login that was right. `user`: with a password."""

    name: str
    role: Role
    how: How
    user: User | None = None
