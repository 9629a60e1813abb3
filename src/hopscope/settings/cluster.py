"""Settings of a cluster: several collectors that are joined over NATS."""

from __future__ import annotations

import re
from typing import Annotated, ClassVar, Literal
from urllib.parse import urlsplit

from pydantic import Field, model_validator

from .destinations.buses import NatsAccess, NatsSettings, Server
from .destinations.shown import shown
from .section import Seconds, is_loopback

Word = Annotated[str, Field(min_length=1, max_length=256)]

MEMBER = re.compile(r"(?=.{1,64}$)[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*")
"""Name of a member of a cluster: a key of NATS' buckets."""
STREAM = "cluster.events"
"""Name of the destination that the stream of the cluster's events is."""


class StreamSettings(NatsSettings):
    """The stream of a cluster's events: subjects `PREFIX.MEMBER.SHARD`."""

    branch: ClassVar[str] = ""


class ClusterSettings(NatsAccess):
    """A cluster of collectors. Each takes reports on its own; NATS has the list of members and their
    configuration, and carries queries to all of them. Without `nats` there is no cluster.
    """

    name: str = Field(default="hopscope", pattern=r"^[A-Za-z0-9_-]{1,32}$")
    """Name of the cluster, the same for all members. It is part of all names in NATS."""
    nats: tuple[Server, ...] = ()
    """NATS servers with JetStream, `nats://HOST:PORT`, or `tls://HOST:PORT`; any that answers is used. Beyond
    loopback they need a user, a token, credentials or a certificate."""
    replicas: int = Field(default=3, ge=1, le=5)
    """Number of NATS servers that keep each bucket and stream that `hopscope cluster init` makes."""
    address: str = Field(default="", max_length=256)
    """Address of this member's API that other members show; empty: the address on which it serves."""
    heartbeat_seconds: Seconds = Field(default=3.0, ge=0.1)
    """How often a member renews its record."""
    member_seconds: Seconds = Field(default=10.0, ge=1)
    """A member whose record is older than this is missing; at least twice `heartbeat_seconds`."""
    answer_seconds: Seconds = Field(default=2.0, ge=0.05, le=60)
    """How long a query waits for servers and members in total. The answer names members that did not
    reply.
    """
    events: Literal["none", "stream"] = "none"
    """`stream`: all events of this member also go to a stream of the cluster, replicated by NATS."""
    stream_bytes: int = Field(default=1024**3, ge=1024**2)
    """Size of that stream; when it is full, the oldest messages are deleted."""
    postcards: Literal["own", "exchange"] = "own"
    """`exchange`: postcards go to the member that owns their flow, through NATS, so that those of one packet
    are joined even if they reach several members. Not needed if switches choose the collector by flow."""
    announce: tuple[Word, ...] = ()
    """Command (program and arguments) that is run when this member is ready for reports, for example to
    announce its route; empty: none."""
    withdraw: tuple[Word, ...] = ()
    """Command that is run when this member should get no more reports, because it is drained, not ready, or
    stops.
    """

    @property
    def enabled(self) -> bool:
        """Whether this collector is in a cluster."""
        return bool(self.nats)

    @property
    def place(self) -> str:
        """The servers, without passwords."""
        return ", ".join(map(shown, self.nats))

    @property
    def exchanges(self) -> bool:
        """Whether postcards go to the owners of their flows."""
        return self.enabled and self.postcards == "exchange"

    @property
    def stream(self) -> StreamSettings | None:
        """The stream of events as a destination; None: events go to none."""
        if not self.enabled or self.events != "stream":
            return None
        access = {name: getattr(self, name) for name in NatsAccess.model_fields}
        return StreamSettings(
            **access,
            kind="nats",
            servers=self.nats,
            prefix=f"hopscope.{self.name}.events",
            stream=f"hopscope-{self.name}-events",
            replicas=self.replicas,
            stream_bytes=self.stream_bytes,
            begin="oldest",
        )

    @model_validator(mode="after")
    def _safe(self) -> ClusterSettings:
        if self.member_seconds < 2 * self.heartbeat_seconds:
            raise ValueError(
                f"found member_seconds {self.member_seconds:g}, expected at least twice heartbeat_seconds, "
                f"{2 * self.heartbeat_seconds:g}"
            )
        open_to = [url for url in self.nats if not is_loopback(urlsplit(url).hostname or "")]
        if open_to and not self.identified:
            raise ValueError(
                f"found nats {shown(open_to[0])} without an identity, expected user, token, credentials or "
                "cert_file: who reaches NATS can change the configuration of all members"
            )
        return self
