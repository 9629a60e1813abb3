"""Destinations of events and of metrics by name: the settings of each are those of its kind."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, SerializeAsAny

from ..section import TableName, kind_of, of_kind, parsed
from .alerts import AlertmanagerSettings, EmailSettings, SlackSettings, SyslogSettings, WebhookSettings
from .buses import KafkaSettings, MqttSettings, NatsSettings, RedisStreamSettings
from .common import ExportSettings
from .databases import (
    ClickHouseSettings,
    InfluxMetricsSettings,
    InfluxSettings,
    ParquetSettings,
    PostgresSettings,
)
from .ipfix import IpfixSettings
from .metrics import MetricsSettings, RemoteWriteSettings
from .otlp import OtlpMetricsSettings, OtlpSettings
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
    return added[kind_of(values, [*EXPORT_KINDS, *added.names])].load().Settings


def _of_kind(values: Any) -> Any:
    """The settings of the kind that they name."""
    if not isinstance(values, dict):
        return values
    model = _settings_of(values)
    fields = model.model_fields
    return model.model_validate({
        key: parsed(fields[key].annotation, value) if isinstance(value, str) and key in fields else value
        for key, value in values.items()
    })  # fmt: skip


NamedExports = dict[
    TableName,
    Annotated[SerializeAsAny[ExportSettings], BeforeValidator(_of_kind)],
]
"""Destinations by name."""


METRICS_KINDS: dict[str, type[MetricsSettings]] = {
    "remote_write": RemoteWriteSettings,
    "influxdb": InfluxMetricsSettings,
    "otlp": OtlpMetricsSettings,
}
"""Settings of the kinds."""

NamedMetrics = dict[
    TableName,
    Annotated[SerializeAsAny[MetricsSettings], of_kind(METRICS_KINDS)],
]
"""Destinations of metrics by name."""
