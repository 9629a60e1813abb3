"""Who makes a request, as the guard found out."""

from __future__ import annotations

from collections.abc import MutableMapping
from dataclasses import dataclass
from typing import Any

from ...operators.audit import Author
from ...settings.access import Role

_KEY = "hopscope.identity"


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


def remember(scope: MutableMapping[str, Any], identity: Identity) -> None:
    """Note who makes a request."""
    scope[_KEY] = identity


def identity_of(scope: MutableMapping[str, Any]) -> Identity:
    """Who makes a request; a viewer without a name if it was not noted, as between members of a cluster."""
    client = scope.get("client")
    found: Identity = scope.get(_KEY) or Identity("", "viewer", "", client[0] if client else "")
    return found
