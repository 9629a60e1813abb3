"""Models of logins, sessions and the audit."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from ...settings.serve import Role
from .common import Model


class SessionState(Model):
    """The client and its rights."""

    user: str | None
    """Name; null without a login."""
    role: Role | None
    """null: a login is needed."""
    authenticated_by: str | None
    """`password`, `token`, `code`, `proxy` or `oidc`; null without a login."""
    csrf: str | None
    """Required in the header `X-Hopscope-CSRF` of changes; null: not needed, as with a bearer token."""
    login_needed: bool
    """Whether reading needs a login."""
    logins: list[str]
    """Available ways to log in: `password`, `token`, `oidc`."""
    cluster: bool
    """Whether this collector is in a cluster, so that `scope=cluster` is possible."""
    member: str | None
    """This collector's name in the cluster; null: it is in none, or a login is needed."""


class Credentials(Model):
    """A user and a password, or a token, or the code of `hopscope open`."""

    user: str | None = Field(default=None, max_length=200)
    """Name."""
    password: str | None = Field(default=None, max_length=1000)
    """Password."""
    token: str | None = Field(default=None, max_length=1000)
    """Token of the settings, or of the file `token` in the data folder."""
    code: str | None = Field(default=None, max_length=200)
    """Code of `hopscope open`."""


class LoggedOut(Model):
    """A logout."""

    ended: bool
    """Whether there was a session."""


class BrowserSession(Model):
    """A login of a browser."""

    number: str
    """Identifies the session; it is not its secret."""
    user: str
    """Name."""
    role: Role
    """Present role of the user."""
    authenticated_by: str
    """How the user logged in."""
    address: str
    """Address from which it began."""
    agent: str
    """The browser, as it names itself."""
    created: str
    """When it began."""
    seen: str
    """Last use, accurate to a minute."""
    current: bool
    """Whether this request belongs to it."""


class SessionList(Model):
    """Sessions, the most recently used first."""

    items: list[BrowserSession]
    """All sessions for an operator; for other users their own."""


class AuditEntry(Model):
    """A change."""

    id: int
    """Number; later ones are higher."""
    time: str
    """Time of the change."""
    who: str
    """User, or the way in which a program authenticated."""
    address: str
    """Address of the client; empty: a command on the collector's machine."""
    kind: str
    """Kind of change, such as `limits.change`."""
    subject: str
    """The object that was changed."""
    before: Any
    """JSON before; null: nothing, or unknown; `{"characters": N}` in place of a value that is too long."""
    after: Any
    """JSON after."""


class AuditPage(Model):
    """Changes, newest first."""

    items: list[AuditEntry]
    """The changes on this page."""
    next: int | None
    """`before` of the next page; null: this is the last one."""
