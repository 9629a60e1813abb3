"""Settings of message buses: Kafka, MQTT, NATS JetStream, Redis streams."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field

from ..section import DottedNames, Seconds
from .common import ExportSettings
from .redis import RedisServerSettings
from .shown import shown
from .tls import TlsSettings


class BusSettings(ExportSettings):
    """A message bus."""

    format: Literal["binary", "json"] = "binary"
    """Records as they are in history, with an Avro schema, or JSON as in the API."""
    messages: Literal["blocks", "events"] = "blocks"
    """A message for each batch, or for each event; JSON in blocks is a line for each event."""
    message_bytes: int = Field(default=900_000, ge=4096, le=100_000_000)
    """Most bytes of a message; a larger batch becomes several messages."""

    @property
    def channel(self) -> str:
        """Where its messages are: ids tell copies among them, so no other destination may have it."""
        return f"{self.kind} {self.place} {getattr(self, 'prefix', '')}"


RESERVED = (
    *("acks", "request.required.acks", "bootstrap.servers", "metadata.broker.list", "enable.idempotence"),
    *("transactional.id", "message.timeout.ms", "delivery.timeout.ms"),
)
"""Options that are the destination's own: deliveries depend on them."""


def _allowed(options: dict[str, str]) -> dict[str, str]:
    for name in options:
        if name in RESERVED:
            raise ValueError(f"found the option {name!r}, which cannot be set")
    return options


class KafkaSettings(BusSettings):
    """Kafka."""

    brokers: tuple[Annotated[str, Field(pattern=r"^[^\s,/@]+$")], ...] = Field(
        default=("127.0.0.1:9092",), min_length=1
    )
    """Brokers to contact first, `HOST:PORT`; they name the other brokers."""
    topic: str = Field(default="hopscope.v1.events", pattern=r"^[A-Za-z0-9._-]{1,249}$")
    """Topic; create it first, unless the brokers create topics themselves."""
    options: Annotated[
        dict[str, str],
        DottedNames,
        AfterValidator(_allowed),
    ] = Field(default_factory=dict)
    """Options of librdkafka, such as `security.protocol = "SASL_SSL"`; `env:NAME` or `file:PATH` says where
    to find a password.
    """

    @property
    def place(self) -> str:
        """The brokers and the topic."""
        return f"{','.join(self.brokers)}/{self.topic}"


class MqttSettings(TlsSettings, BusSettings):
    """MQTT 5: topics `PREFIX/v1/events/MEMBER/SHARD`."""

    url: str = Field(default="mqtt://127.0.0.1:1883", pattern=r"^mqtts?://[^\s/?#@]+$")
    """`mqtt://HOST:PORT`, or `mqtts://HOST:PORT` (TLS); default ports: 1883 and 8883."""
    user: str = ""
    """User."""
    password: str = ""
    """Password; `env:NAME` or `file:PATH` says where to find it."""
    client_id: str = Field(default="", max_length=128)
    """Name of the client; empty: `hopscope-MEMBER-NAME`."""
    prefix: str = Field(default="hopscope", pattern=r"^[A-Za-z0-9_.-]{1,64}(/[A-Za-z0-9_.-]{1,64}){0,5}$")
    """First part of every topic."""


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


class RedisStreamSettings(RedisServerSettings, BusSettings):
    """Redis streams, with the key `PREFIX:v1:events:MEMBER:SHARD`."""

    prefix: str = Field(default="hopscope", min_length=1, max_length=100, pattern=r"^[!-~]+$")
    """First part of every key."""
    entries: int = Field(default=1000, ge=1)
    """Most entries of a stream, each a message; when it is full, the oldest are deleted."""
