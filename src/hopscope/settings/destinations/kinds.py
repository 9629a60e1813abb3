"""Destinations of events by name: the settings of each are those of its kind."""

from __future__ import annotations

import tomllib
from typing import Annotated, Any, get_origin

from pydantic import BeforeValidator, Field, SerializeAsAny

from ..section import kind_of, plain_type
from .alerts.alertmanager import AlertmanagerSettings
from .alerts.email import EmailSettings
from .alerts.slack import SlackSettings
from .alerts.syslog import SyslogSettings
from .alerts.webhook import WebhookSettings
from .buses.kafka import KafkaSettings
from .buses.mqtt import MqttSettings
from .buses.nats import NatsSettings
from .buses.redis_stream import RedisStreamSettings
from .common import ExportSettings
from .databases.clickhouse import ClickHouseSettings
from .databases.influx import InfluxSettings
from .databases.parquet import ParquetSettings
from .databases.postgres import PostgresSettings
from .ipfix import IpfixSettings
from .otlp import OtlpSettings
from .redis import RedisStateSettings

EXPORT_KINDS: dict[str, type[ExportSettings]] = {
    "clickhouse": ClickHouseSettings,
    "influxdb": InfluxSettings,
    "ipfix": IpfixSettings,
    "kafka": KafkaSettings,
    "mqtt": MqttSettings,
    "nats": NatsSettings,
    "otlp": OtlpSettings,
    "parquet": ParquetSettings,
    "postgres": PostgresSettings,
    "redis_state": RedisStateSettings,
    "redis_stream": RedisStreamSettings,
    "webhook": WebhookSettings,
    "alertmanager": AlertmanagerSettings,
    "slack": SlackSettings,
    "email": EmailSettings,
    "syslog": SyslogSettings,
}
"""Settings of the kinds that Hopscope has."""
ENTRY_POINTS = "hopscope.destinations"
"""Group of the entry points by which packages add kinds."""


def _settings_of(values: dict[str, Any]) -> type[ExportSettings]:
    """The settings of the kind that a table names. Raises ValueError if it names none, or an unknown one."""
    if (kind := str(values.get("kind"))) in EXPORT_KINDS:
        return EXPORT_KINDS[kind]
    from importlib.metadata import entry_points

    added = entry_points(group=ENTRY_POINTS)  # reads the metadata of all packages
    settings: type[ExportSettings] = added[kind_of(values, [*EXPORT_KINDS, *added.names])].load().Settings
    return settings


def _of_kind(values: Any) -> Any:
    """The settings of the kind that they name."""
    if not isinstance(values, dict):
        return values
    model = _settings_of(values)
    return model.model_validate({key: _parsed(model, key, value) for key, value in values.items()})


def _parsed(model: type[ExportSettings], key: str, value: Any) -> Any:
    """The value of a variable or a flag: lists and tables as in TOML, or a list of words without it."""
    if not isinstance(value, str) or key not in model.model_fields:
        return value
    kind = get_origin(plain_type(model.model_fields[key].annotation))
    if kind in (tuple, dict) and value.startswith(("[", "{")):
        try:
            return tomllib.loads(f"value = {value}")["value"]
        except tomllib.TOMLDecodeError as error:
            raise ValueError(f"expected a value as in TOML: {error}") from None
    return value.replace(",", " ").split() if kind is tuple else value


NamedExports = dict[
    Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,62}$")],
    Annotated[SerializeAsAny[ExportSettings], BeforeValidator(_of_kind)],
]
"""Destinations by name."""
