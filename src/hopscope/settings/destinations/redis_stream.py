"""Settings of Redis streams."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field

from .bus import BusSettings
from .redis import redis_url


class RedisStreamSettings(BusSettings):
    """Redis streams, with the key `PREFIX:v1:events:MEMBER:SHARD`."""

    url: Annotated[str, AfterValidator(redis_url)] = "redis://127.0.0.1:6379/0"
    """`redis://HOST:PORT/DB`, `rediss://…` (TLS) or `unix:///PATH`; `USER:PASSWORD@` may precede the host."""
    user: str = ""
    """User, instead of one in the URL."""
    password: str = ""
    """Password, instead of one in the URL; `env:NAME` or `file:PATH` names where it is."""
    ca_file: Path | None = None
    """CA certificates (PEM) to verify a TLS server with; default: those of the system."""
    prefix: str = Field(default="hopscope", min_length=1, max_length=100, pattern=r"^[!-~]+$")
    """First part of every key."""
    entries: int = Field(default=1000, ge=1)
    """Most entries of a stream, in which the oldest make room: an entry is a message."""
