"""Secrets in a data folder, in files that only their user can read."""

from __future__ import annotations

import os
import secrets
import stat
from pathlib import Path

from ..base.errors import HopscopeError

HASH_SECRET = "hash.secret"
MEMBER_ID = "member.id"
_LENGTH = 16
"""Length of the shortest secret that is accepted, in characters."""


def private_text(path: Path) -> str | None:
    """The text in a file, which is created with 24 random bytes at the first use. None if it cannot be
    created, or other users could read it. If the disk is full, no file is left, so that a later call creates
    it.
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
    """Create the file that `hash_secret` reads, if there is none. A collector calls this before it starts its
    processes; if one of them created the file later, the others would compute different hashes.
    """
    private_text(folder / HASH_SECRET)


def hash_secret(folder: Path | None) -> bytes:
    """The secret for hash tables and flow ids of a data folder; empty without a folder or a secret.

    It is kept in the folder, so that flow ids in history equal those of a running collector.
    """
    try:
        return b"" if folder is None else _read(folder / HASH_SECRET).encode()
    except (OSError, ValueError):
        return b""


def incarnation(folder: Path) -> str:
    """The incarnation of a data folder, which differs between all folders of a cluster: 32 random characters,
    made at the first use.

    Raises HopscopeError if the file cannot be created, or other users can read it.
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
