"""Secrets in a data folder: files that only their user can read."""

from __future__ import annotations

import os
import secrets
import stat
from pathlib import Path

from ..base.errors import HopscopeError

HASH_SECRET = "hash.secret"
MEMBER_ID = "member.id"
_LENGTH = 16
"""Characters of the shortest secret that is accepted."""


def private_text(path: Path) -> str | None:
    """Contents of a file, made with 24 random bytes on first use; None if it cannot be made or others could
    read it. A full disk leaves none, so that it is made later.
    """
    try:
        return _read(path)
    except FileNotFoundError:
        pass
    except (OSError, ValueError):
        return None
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    except OSError:
        return None
    text = secrets.token_urlsafe(24)
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(text + "\n")
            file.flush()
            os.fsync(descriptor)
    except OSError:
        path.unlink(missing_ok=True)
        return None
    return text


def make_hash_secret(folder: Path) -> None:
    """Make what `hash_secret` reads, if there is none: when a collector starts, before its processes read it.
    If one of them made it later, others would have other hashes.
    """
    private_text(folder / HASH_SECRET)


def hash_secret(folder: Path | None) -> bytes:
    """Secret of the hash tables and flow ids of a data folder; empty without a folder, or if there is none.

    It stays with the folder: flow ids in history are those of a collector that runs.
    """
    try:
        return b"" if folder is None else _read(folder / HASH_SECRET).encode()
    except (OSError, ValueError):
        return b""


def incarnation(folder: Path) -> str:
    """What distinguishes a data folder from all others in a cluster: 32 random characters, made on first use.

    Raises HopscopeError if the file cannot be made, or others can read it.
    """
    text = private_text(folder / MEMBER_ID)
    if text is None:
        raise HopscopeError(f"{folder / MEMBER_ID}: it cannot be made, or others can read it; remove it")
    return text


def _read(path: Path) -> str:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    with os.fdopen(descriptor) as file:
        state = os.fstat(file.fileno())
        text = file.read(1024).strip()
    own = stat.S_ISREG(state.st_mode) and state.st_uid == os.geteuid() and not state.st_mode & 0o077
    if not own or len(text) < _LENGTH:
        raise ValueError(path)
    return text
