"""Settings of Redis servers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from ..section import Seconds, Section
from .shown import shown


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
        raise ValueError(f"found {shown(url)!r}, expected a database number after the port, as /0")
    return url


class RedisSettings(Section):
    """One Redis server."""

    url: Annotated[str, AfterValidator(redis_url)] = "redis://127.0.0.1:6379/0"
    """`redis://HOST:PORT/DB`, `rediss://…` (TLS) or `unix:///PATH`; `USER:PASSWORD@` may precede the host."""
    password: str | None = Field(default=None, min_length=1)
    """Password, instead of one in the URL; `env:NAME` or `file:PATH` names where it is."""
    password_env: str = Field(default="", pattern=r"^([A-Za-z_][A-Za-z0-9_]*)?$")
    """Name of an environment variable that holds the password; empty: none."""
    ca_file: Path | None = None
    """CA certificates (PEM) to verify a TLS server with; default: those of the system."""
    prefix: str = Field(default="hopscope", min_length=1, max_length=100, pattern=r"^[!-~]+$")
    """Prefix of every key, followed by a colon."""
    contents: tuple[Literal["flows", "events", "distributions"], ...] = Field(
        default=("flows", "events", "distributions"), min_length=1
    )
    """What to export."""
    flush_seconds: Seconds = Field(default=10.0, ge=0.1)
    """How often changed flows and all distributions are written."""
    stream_max: int = Field(default=100_000, ge=1)
    """Approximate length of an event stream; Redis removes entries in whole blocks."""
    ttl_seconds: int = Field(default=3600, ge=1, le=10**9)
    """How long a flow stays in Redis after it has left the flow table."""
    timeout_seconds: Seconds = Field(default=5.0, gt=0)
    """Timeout of a connection attempt, and of one reply."""
    queue_bytes: int = Field(default=64 * 1024**2, ge=1024**2)
    """Memory limit of the events that wait for a slow or unreachable server."""
