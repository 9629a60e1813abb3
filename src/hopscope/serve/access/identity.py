"""Who makes a request, as the guard found out."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any

from ...operators.audit import Author
from ...settings.access import Role

_KEY = "hopscope.identity"
_LASTS = "hopscope.lasts"
LASTS_SECONDS = 5.0
"""How often it is asked again who a client is whose answer has no end."""


@dataclass(frozen=True)
class Identity:
    """Who asks. Without a login: no name, and the role of a viewer where no login is needed."""

    name: str
    """The user; of a token `token` or `viewer token`; empty without a login."""
    role: Role
    how: str
    """`password`, `token`, `code`, `proxy`, `oidc`; empty without a login."""
    address: str
    """The client's address, behind trusted proxies too."""
    csrf_token: str | None = None
    """What changes must carry as a header, since a browser sends the proof of who asks by itself."""
    session: str | None = None
    """Number of the session."""

    @property
    def may_change(self) -> bool:
        """Whether it is an operator."""
        return self.role == "operator"

    @property
    def author(self) -> Author:
        """For the audit and the log."""
        return Author(self.name or "HTTP client", self.address)


class _Lasts:
    """Whether a client may still read what it was let in for: its session may have ended since."""

    def __init__(self, ask: Callable[[], Awaitable[Identity | None]]) -> None:
        self._ask = ask
        self._asked = time.monotonic()

    async def __call__(self) -> bool:
        """Asks every LASTS_SECONDS."""
        if time.monotonic() - self._asked <= LASTS_SECONDS:
            return True
        self._asked = time.monotonic()
        return await self._ask() is not None


def remember(
    scope: MutableMapping[str, Any], identity: Identity, ask: Callable[[], Awaitable[Identity | None]]
) -> None:
    """Note who makes a request; `ask` says who it is later."""
    scope[_KEY], scope[_LASTS] = identity, _Lasts(ask)


def identity_of(scope: MutableMapping[str, Any]) -> Identity:
    """Who makes a request; a viewer without a name if it was not noted, as between members of a cluster."""
    client = scope.get("client")
    found: Identity = scope.get(_KEY) or Identity("", "viewer", "", client[0] if client else "")
    return found


async def lasts(scope: MutableMapping[str, Any]) -> bool:
    """Whether who makes a request may still read, for answers that go on."""
    noted: _Lasts | None = scope.get(_LASTS)
    return noted is None or await noted()
