"""Tokens that programs send: those of the settings, and the one in a file that only this user can read."""

from __future__ import annotations

import hmac
from pathlib import Path
from typing import NamedTuple

from starlette.datastructures import Headers

from ...memory.private_file import private_text
from ...settings.configuration.errors import ConfigError
from ...settings.configuration.secrets import value_of
from ...settings.section import MIN_TOKEN
from ...settings.serve import Role, ServeSettings

NAME = "token"
"""File in the data folder, made on first use."""
OF_FOLDER = "data folder's token"
"""Its name in the audit and the log."""


class Token(NamedTuple):
    """A token with its name and role."""

    text: str
    name: str
    role: Role


class Tokens:
    """Every token that this server knows."""

    def __init__(self, *tokens: Token) -> None:
        self._tokens = tokens

    @classmethod
    def of(cls, settings: ServeSettings, folder: Path) -> Tokens:
        """The tokens of the settings and of the data folder. Raises ConfigError."""
        found: list[tuple[str | None, str, Role]] = [
            (token_of("serve.token", settings.token), "token", "operator"),
            (token_of("serve.viewer_token", settings.viewer_token), "viewer token", "viewer"),
            (private_text(folder / NAME), OF_FOLDER, "operator"),
        ]
        return cls(*(Token(text, name, role) for text, name, role in found if text))

    @property
    def has_file(self) -> bool:
        """Whether the data folder's token can be used."""
        return any(token.name == OF_FOLDER for token in self._tokens)

    def find(self, given: str) -> Token | None:
        """The token that equals this text; all tokens are compared, in constant time."""
        raw = given.strip().encode("utf-8", "replace")
        found = [token for token in self._tokens if hmac.compare_digest(raw, token.text.encode())]
        return found[0] if found else None


def bearer_token(headers: Headers) -> str | None:
    """The bearer token of an Authorization header; None: there is none."""
    scheme, _, given = headers.get("authorization", "").partition(" ")
    return given if scheme.lower() == "bearer" else None


def token_of(key: str, text: str | None) -> str | None:
    """The token of a setting, None if it is unset. Raises ConfigError if it is unreadable or too short."""
    token = value_of(key, text)
    if token is not None and len(token) < MIN_TOKEN:
        raise ConfigError(f"{key}: found {len(token)} characters, expected {MIN_TOKEN} or more")
    return token
