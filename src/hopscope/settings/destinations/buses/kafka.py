"""Settings of Kafka."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from ...section import DottedNames
from .common import BusSettings

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
