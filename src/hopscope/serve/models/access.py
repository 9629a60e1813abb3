"""What the routes about logins, sessions and the audit take and answer."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from ...settings.access import Role
from .common import Model


class SessionState(Model):
    """Who asks, and what they may."""

    user: str | None
    """Name; null without a login."""
    role: Role | None
    """null: a login is needed."""
    authenticated_by: str | None
    """`password`, `token`, `code`, `proxy` or `oidc`; null without a login."""
    csrf: str | None
    """What changes must carry in the header `X-Hopscope-CSRF`; null: nothing, as with a bearer token."""
    login_needed: bool
    """Whether reading needs a login."""
    logins: list[str]
    """How one can log in: `password`, `token`, `oidc`."""
    cluster: bool
    """Whether this collector is in a cluster, so that `scope=cluster` may be asked."""
    member: str | None
    """Its name there; null: it is in none, or a login is needed."""


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
    """Names it; it is not its secret."""
    user: str
    """Name."""
    role: Role
    """Role now."""
    authenticated_by: str
    """How."""
    address: str
    """From where it began."""
    agent: str
    """The browser, as it names itself."""
    created: str
    """When it began."""
    seen: str
    """Last use, within a minute."""
    current: bool
    """Whether it is that of this request."""


class SessionList(Model):
    """Sessions, that used last first."""

    items: list[BrowserSession]
    """All of them for an operator, else one's own."""


class AuditEntry(Model):
    """A change."""

    id: int
    """Number; later ones are higher."""
    time: str
    """When."""
    who: str
    """User, or how a program was authenticated."""
    address: str
    """From where; empty: by a command on the collector's machine."""
    kind: str
    """What was done, as `limits.change`."""
    subject: str
    """To what."""
    before: Any
    """JSON before; null: nothing, or not known. Of a value that is too long, `{"characters": N}`."""
    after: Any
    """JSON after."""


class AuditPage(Model):
    """Changes, newest first."""

    items: list[AuditEntry]
    """Changes of this page."""
    next: int | None
    """`before` of the next page; null: this is the last one."""
