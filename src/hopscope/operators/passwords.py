"""Hashes of passwords, and of random secrets. Those of passwords are Argon2id, computed one at a time.

The parameters are 32 MiB, 3 passes and 1 lane. This is above the minimum of OWASP's Password Storage Cheat
Sheet (19 MiB, 2 passes), and cheap enough for a collector. A hash took 80 ms of CPU time (64 ms with 2
passes; 198 ms with 64 MiB and 3 passes, RFC 9106's second choice but with 1 lane), measured with argon2-cffi
25.1 on one core of a shared machine. Since one hash is computed at a time, any number of logins takes one
thread and 32 MiB.
"""

from __future__ import annotations

import hashlib
import secrets
import threading
from functools import cache
from typing import TYPE_CHECKING

from ..base.errors import HopscopeError

if TYPE_CHECKING:
    from argon2 import PasswordHasher

PASSES = 3
MEMORY_KIB = 32 * 1024
MIN_CHARACTERS = 10
MAX_CHARACTERS = 256
_one_at_a_time = threading.Lock()


class PasswordError(HopscopeError):
    """The password is too short or too long."""


def hash_password(password: str) -> str:
    """The Argon2id hash of a password, with a random salt, as PHC text. Raises PasswordError."""
    if not MIN_CHARACTERS <= len(password) <= MAX_CHARACTERS:
        raise PasswordError(
            f"password: found {len(password)} characters, expected {MIN_CHARACTERS} to {MAX_CHARACTERS}"
        )
    with _one_at_a_time:
        return _hasher().hash(password)


def matches(known: str | None, password: str) -> bool:
    """Whether a password matches a hash; without a hash, False after the same work."""
    from argon2.exceptions import InvalidHashError, VerificationError

    with _one_at_a_time:
        try:
            return _hasher().verify(known or _of_no_one(), password[:MAX_CHARACTERS]) and known is not None
        except (InvalidHashError, VerificationError):
            return False


def hash_secret(secret: str) -> bytes:
    """The SHA-256 of a random secret of at least 192 bits, which needs no slow hash: nobody can guess it."""
    return hashlib.sha256(secret.encode("utf-8", "replace")).digest()


@cache
def _hasher() -> PasswordHasher:
    from argon2 import PasswordHasher

    return PasswordHasher(time_cost=PASSES, memory_cost=MEMORY_KIB, parallelism=1)


@cache
def _of_no_one() -> str:
    """A hash with which the password of an unknown user is compared."""
    return _hasher().hash(secrets.token_urlsafe(24))
