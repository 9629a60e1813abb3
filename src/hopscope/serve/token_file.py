"""The token that changes need where no token is set: a file that only this user can read."""

from __future__ import annotations

from pathlib import Path

from ..memory.private_file import private_text

NAME = "token"


def change_token(folder: Path) -> str | None:
    """Contents of `folder`/token, made on first use; None if it cannot be made or others could read it."""
    return private_text(folder / NAME)
