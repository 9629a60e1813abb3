"""Settings of Redis streams."""

from __future__ import annotations

from pydantic import Field

from ..redis import RedisServerSettings
from .common import BusSettings


class RedisStreamSettings(RedisServerSettings, BusSettings):
    """Redis streams, with the key `PREFIX:v1:events:MEMBER:SHARD`."""

    prefix: str = Field(default="hopscope", min_length=1, max_length=100, pattern=r"^[!-~]+$")
    """First part of every key."""
    entries: int = Field(default=1000, ge=1)
    """Most entries of a stream, each a message; when it is full, the oldest are deleted."""
