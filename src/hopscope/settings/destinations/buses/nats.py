"""Settings of NATS JetStream."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import Field

from ...section import Seconds
from ..shown import shown
from ..tls import TlsSettings
from .common import BusSettings

Server = Annotated[str, Field(pattern=r"^(nats|tls)://[^\s?#]+$")]


class NatsAccess(TlsSettings):
    """Who this is to NATS."""

    user: str = ""
    """User."""
    password: str = ""
    """Password; `env:NAME` or `file:PATH` says where to find it."""
    token: str = ""
    """Token, instead of user and password; `env:NAME` or `file:PATH` says where to find it."""
    credentials: Path | None = None
    """File with a JWT and its seed, instead of user and password."""

    @property
    def identified(self) -> bool:
        """Whether a server can know who this is."""
        return bool(self.user or self.token or self.credentials or self.cert_file)


class NatsSettings(NatsAccess, BusSettings):
    """NATS JetStream: subjects `PREFIX.v1.events.MEMBER.SHARD`."""

    branch: ClassVar[str] = ".v1.events"
    """What follows the prefix in subjects, before the member: version and kind of the messages."""
    servers: tuple[Server, ...] = Field(default=("nats://127.0.0.1:4222",), min_length=1)
    """Servers of one cluster, `nats://HOST:PORT`, or `tls://HOST:PORT`; any that answers is used."""
    prefix: str = Field(default="hopscope", pattern=r"^[A-Za-z0-9_-]{1,64}(\.[A-Za-z0-9_-]{1,64}){0,3}$")
    """First part of every subject."""
    stream: str = Field(default="hopscope", pattern=r"^[A-Za-z0-9_-]{1,200}$")
    """Stream that keeps the subjects."""
    create: bool = True
    """Create the stream if it is missing; it is never changed or deleted."""
    replicas: int = Field(default=1, ge=1, le=5)
    """Servers that keep a created stream."""
    stream_bytes: int = Field(default=1024**3, ge=0)
    """Size of a created stream; when it is full, the oldest messages are deleted. 0: no limit."""
    duplicate_seconds: Seconds = Field(default=120.0, gt=0)
    """How long a created stream recognizes a message that it already has."""

    @property
    def place(self) -> str:
        """The servers, without passwords."""
        return ", ".join(map(shown, self.servers))
