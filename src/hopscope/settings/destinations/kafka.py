"""Settings of Kafka."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field

from .bus import BusSettings

RESERVED = (
    *("acks", "request.required.acks", "bootstrap.servers", "metadata.broker.list", "enable.idempotence"),
    *("transactional.id", "message.timeout.ms", "delivery.timeout.ms"),
)
"""Options that are the destination's own: deliveries depend on them."""


def _options(options: Any) -> Any:
    """Options by name; in TOML, a name with dots is a table in a table."""
    if not isinstance(options, dict):
        return options
    found: dict[str, Any] = {}
    for name, value in options.items():
        if isinstance(value, dict):
            found |= {f"{name}.{rest}": each for rest, each in _options(value).items()}
        else:
            found[name] = str(value).lower() if isinstance(value, bool | int) else value
    return found


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
    """Brokers to start with, `HOST:PORT`; they name the others."""
    topic: str = Field(default="hopscope.v1.events", pattern=r"^[A-Za-z0-9._-]{1,249}$")
    """Topic; brokers create it if they are set to, else create it before."""
    options: Annotated[
        dict[str, str],
        BeforeValidator(_options, json_schema_input_type=dict[str, Any]),
        AfterValidator(_allowed),
    ] = Field(default_factory=dict)
    """Options of librdkafka, as `security.protocol = "SASL_SSL"`; `env:NAME` or `file:PATH` names where a
    password is.
    """

    @property
    def place(self) -> str:
        """The brokers and the topic."""
        return f"{','.join(self.brokers)}/{self.topic}"
