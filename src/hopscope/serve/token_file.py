"""The token of the settings; without it, changes need that of a file that only this user can read."""

from __future__ import annotations

from pathlib import Path

from ..memory.private_file import private_text
from ..settings.collector import ServeSettings
from ..settings.errors import ConfigError
from ..settings.secrets import value_of
from ..settings.section import LEAST_TOKEN

NAME = "token"


def change_token(folder: Path) -> str | None:
    """Contents of `folder`/token, made on first use; None if it cannot be made or others could read it."""
    return private_text(folder / NAME)


def token_of(settings: ServeSettings) -> str | None:
    """The token that requests must carry; None: none. Raises ConfigError for one that cannot be
    read, or is too short.
    """
    token = value_of("serve.token", settings.token)
    if token is not None and len(token) < LEAST_TOKEN:
        raise ConfigError(f"serve.token: found {len(token)} characters, expected {LEAST_TOKEN} or more")
    return token
