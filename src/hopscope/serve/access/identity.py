"""The identity of a client, as the guard determined it."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any

from ...operators.audit import Author
from ...settings.serve import Role

_KEY = "hopscope.identity"
_CHECK = "hopscope.session_check"
CHECK_SECONDS = 5.0
"""How often a client with an endless answer is identified again."""


@dataclass(frozen=True)
class Identity:
    """A client. Where no login is needed, a client without one has no name and the role of a viewer."""

    name: str
    """The user; `token` or `viewer token` for a token; empty without a login."""
    role: Role
    how: str
    """`password`, `token`, `code`, `proxy`, `oidc`; empty without a login."""
    address: str
    """The client's address, even behind trusted proxies."""
    csrf_token: str | None = None
    """Required as a header in requests for changes, since a browser sends cookies on its own."""
    session: str | None = None
    """Number of the session."""

    @property
    def may_change(self) -> bool:
        """Whether the client is an operator."""
        return self.role == "operator"

    @property
    def author(self) -> Author:
        """The author to record in the audit and the log."""
        return Author(self.name or "HTTP client", self.address)


class _SessionCheck:
    """Checks that a client may still read an endless answer: its session may have ended."""

    def __init__(self, ask: Callable[[], Awaitable[Identity | None]]) -> None:
        self._ask = ask
        self._asked = time.monotonic()

    async def __call__(self) -> bool:
        """Whether the client may still read, checked every CHECK_SECONDS."""
        if time.monotonic() - self._asked <= CHECK_SECONDS:
            return True
        self._asked = time.monotonic()
        return await self._ask() is not None


def remember(
    scope: MutableMapping[str, Any], identity: Identity, ask: Callable[[], Awaitable[Identity | None]]
) -> None:
    """Store the identity in a request's scope; `ask` identifies the client again later."""
    scope[_KEY], scope[_CHECK] = identity, _SessionCheck(ask)


def identity_of(scope: MutableMapping[str, Any]) -> Identity:
    """The identity in a request's scope; if there is none, as between members, a viewer without a name."""
    client = scope.get("client")
    return scope.get(_KEY) or Identity("", "viewer", "", client[0] if client else "")


async def still_authorized(scope: MutableMapping[str, Any]) -> bool:
    """Whether the client of a request may still read; for endless answers."""
    noted: _SessionCheck | None = scope.get(_CHECK)
    return noted is None or await noted()
