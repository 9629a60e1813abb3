"""Settings of Redis servers, and of the state that is written to one."""

from __future__ import annotations

from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, model_validator

from ..section import Seconds
from .common import ExportSettings
from .shown import shown
from .tls import TlsSettings


def redis_url(url: str) -> str:
    """The URL of a Redis server; ValueError says what is wrong with it."""
    expected = "expected redis://HOST:PORT/DB, rediss://… (TLS) or unix:///PATH"
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise ValueError(f"found an invalid URL, {expected}") from None
    local = parts.scheme == "unix"
    if (
        parts.scheme not in ("redis", "rediss", "unix")
        or port == 0
        or not (parts.path if local else parts.hostname)
    ):
        raise ValueError(f"found {shown(url)!r}, {expected}")
    if parts.query or parts.fragment:
        raise ValueError(f"found {shown(url)!r} with a query, expected none: settings have their own keys")
    if not local and parts.path.strip("/") and not parts.path.strip("/").isdecimal():
        raise ValueError(f"found {shown(url)!r}, expected a database number after the port, such as /0")
    return url


class RedisServerSettings(TlsSettings):
    """A Redis server."""

    url: Annotated[str, AfterValidator(redis_url)] = "redis://127.0.0.1:6379/0"
    """`redis://HOST:PORT/DB`, `rediss://…` (TLS) or `unix:///PATH`; `USER:PASSWORD@` may precede the host."""
    user: str = ""
    """User, instead of one in the URL."""
    password: str = ""
    """Password, instead of one in the URL; `env:NAME` or `file:PATH` says where to find it."""


class RedisStateSettings(RedisServerSettings, ExportSettings):
    """Redis: the latest state of flows and distributions."""

    prefix: str = Field(default="hopscope", min_length=1, max_length=100, pattern=r"^[!-~]+$")
    """Prefix of every key, followed by a colon."""
    contents: tuple[Literal["flows", "distributions"], ...] = Field(
        default=("flows", "distributions"), min_length=1
    )
    """What is written."""
    flush_seconds: Seconds = Field(default=10.0, ge=0.1)
    """How often changed flows and all distributions are written."""
    ttl_seconds: int = Field(default=3600, ge=1, le=10**9)
    """How long a flow stays in Redis after it has left the flow table."""

    @property
    def read_kinds(self) -> tuple[str, ...]:
        """Flow records: they end flows."""
        return ("flow_record",)

    @model_validator(mode="after")
    def _no_events(self) -> RedisStateSettings:
        for name in ("kinds", "metrics"):
            if found := getattr(self, name):
                raise ValueError(f"{name}: found {list(found)}, expected none: it gets state, no events")
        return self
