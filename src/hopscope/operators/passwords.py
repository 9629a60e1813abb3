"""Passwords: Argon2id hashes, and how many are computed at a time.

32 MiB, 3 passes, 1 lane: above the least that OWASP's Password Storage Cheat Sheet names (19 MiB, 2 passes),
and cheap enough for a collector. A hash took 80 ms of a processor (2 passes 64 ms; 64 MiB and 3 passes, RFC
9106's second choice with 1 lane, 198 ms), measured with argon2-cffi 25.1 on one core of a shared machine. One
hash is computed at a time: logins, however many, take one thread and 32 MiB.
"""

from __future__ import annotations

import secrets
import threading
from functools import cache
from typing import TYPE_CHECKING

from ..base.errors import HopscopeError

if TYPE_CHECKING:
    from argon2 import PasswordHasher

PASSES = 3
MEMORY_KIB = 32 * 1024
LEAST_CHARACTERS = 10
MOST_CHARACTERS = 256
_one_at_a_time = threading.Lock()


class PasswordError(HopscopeError):
    """The password is too short or too long."""


def hash_password(password: str) -> str:
    """Its Argon2id hash with a random salt, as PHC text. Raises PasswordError."""
    if not LEAST_CHARACTERS <= len(password) <= MOST_CHARACTERS:
        raise PasswordError(
            f"password: found {len(password)} characters, expected {LEAST_CHARACTERS} to {MOST_CHARACTERS}"
        )
    with _one_at_a_time:
        return _hasher().hash(password)


def matches(known: str | None, password: str) -> bool:
    """Whether a password is that of a hash; without one, False after the same work."""
    from argon2.exceptions import InvalidHashError, VerificationError

    with _one_at_a_time:
        try:
            return _hasher().verify(known or _of_no_one(), password[:MOST_CHARACTERS]) and known is not None
        except (InvalidHashError, VerificationError):
            return False


@cache
def _hasher() -> PasswordHasher:
    from argon2 import PasswordHasher

    return PasswordHasher(time_cost=PASSES, memory_cost=MEMORY_KIB, parallelism=1)


@cache
def _of_no_one() -> str:
    """Hash that an unknown user's password is compared with."""
    return _hasher().hash(secrets.token_urlsafe(24))
