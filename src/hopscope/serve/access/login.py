"""A successful login, and the error of a refused one."""

from __future__ import annotations

from dataclasses import dataclass

from ...operators.sessions import How
from ...operators.users import User
from ...settings.serve import Role


class LoginError(Exception):
    """A login is refused; the message does not reveal whether the user exists."""

    def __init__(self, status: int, line: str, wait_seconds: int = 0) -> None:
        super().__init__(line)
        self.status, self.wait_seconds = status, wait_seconds


@dataclass(frozen=True)
class Login:
    """A successful login. `user`: the user, if by password."""

    name: str
    role: Role
    how: How
    user: User | None = None
