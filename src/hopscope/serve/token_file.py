"""The token that changes need where no token is set: a file that only this user can read."""

from __future__ import annotations

import os
import secrets
import stat
from pathlib import Path

NAME = "token"


def change_token(folder: Path) -> str | None:
    """Contents of `folder`/token, made on first use; None if it cannot be made or others could read it."""
    path = folder / NAME
    try:
        return _read(path)
    except FileNotFoundError:
        pass
    except (OSError, ValueError):
        return None
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(secrets.token_urlsafe(24) + "\n")
        return _read(path)
    except (OSError, ValueError):
        return None


def _read(path: Path) -> str:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    with os.fdopen(descriptor) as file:
        state = os.fstat(file.fileno())
        token = file.read(1024).strip()
    own = stat.S_ISREG(state.st_mode) and state.st_uid == os.geteuid() and not state.st_mode & 0o077
    if not own or len(token) < 16:
        raise ValueError(path)
    return token
