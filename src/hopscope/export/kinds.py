"""Kinds of destinations of events: Hopscope's own, and those of other packages (`settings.export`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.metadata import entry_points
from importlib.util import find_spec
from typing import Any

from ..base.errors import HopscopeError
from ..base.extras import install_command
from ..settings.cluster import STREAM
from ..settings.collector import Settings
from ..settings.destinations.buses import BusSettings
from ..settings.destinations.kinds import ENTRY_POINTS
from .block import EventFilter
from .counters import DestinationLabel
from .destination import Context, Destination
from .metrics.destination import MetricsDestination
from .metrics.influx import InfluxMetrics
from .metrics.otlp import OtlpMetrics
from .metrics.remote_write import RemoteWrite

BUILT_IN = {
    "clickhouse": "databases.clickhouse:ClickHouse",
    "influxdb": "databases.influx:Influx",
    "ipfix": "ipfix.destination:Ipfix",
    "kafka": "buses.kafka:Kafka",
    "mqtt": "buses.mqtt:Mqtt",
    "nats": "buses.nats:Nats",
    "otlp": "otlp.logs:Otlp",
    "parquet": "databases.parquet:Parquet",
    "postgres": "databases.postgres:Postgres",
    "redis_state": "redis.live_state:RedisState",
    "redis_stream": "buses.redis_stream:RedisStream",
    "webhook": "alerts.webhook:Webhook",
    "alertmanager": "alerts.alertmanager:Alertmanager",
    "slack": "alerts.slack:Slack",
    "email": "alerts.email:Email",
    "syslog": "alerts.syslog:Syslog",
}
"""Module below `export`, and class, by kind."""
CLIENTS = {
    "kafka": ("confluent_kafka", "kafka"),
    "mqtt": ("paho", "mqtt"),
    "nats": ("nats", "nats"),
    "postgres": ("pg8000", "postgres"),
    "redis_state": ("redis", "redis"),
    "redis_stream": ("redis", "redis"),
    "label.redis": ("redis", "redis"),
    "snmp": ("pysnmp", "snmp"),
    "gnmi": ("finsy", "gnmi"),
    "p4runtime": ("finsy", "p4runtime"),
    "remote_write": ("cramjam", "remote-write"),
}
"""Package that a kind or a setting needs, and the extra that installs it."""


def destination_class(kind: str) -> type[Destination]:
    """The class of a kind. Raises HopscopeError if a package that it needs is missing."""
    if kind in BUILT_IN:
        require_client(kind)
        module, _, name = BUILT_IN[kind].partition(":")
        return getattr(import_module(f".{module}", __package__), name)
    for point in entry_points(group=ENTRY_POINTS):
        if point.name == kind:
            return point.load()
    raise HopscopeError(f"there is no kind of destination {kind!r}")


def require_client(kind: str) -> None:
    """Raises HopscopeError if a package that a kind, or a setting, needs is missing."""
    client, extra = CLIENTS.get(kind, ("", ""))
    if client and find_spec(client) is None:
        raise HopscopeError(f"{kind}: a package is missing; install it with: {install_command(extra)}")


def check_exports(settings: Settings) -> None:
    """Raises HopscopeError if a destination lacks a package, or its settings cannot work."""
    for metrics in settings.metrics.values():
        require_client(metrics.kind)
    channels: dict[str, str] = {}
    for name, export in settings.destinations.items():
        try:
            destination_class(export.kind).check(export)
            EventFilter(export)
        except HopscopeError as error:
            raise HopscopeError(f"{name if name == STREAM else f'export.{name}'}: {error}") from error
        if isinstance(export, BusSettings) and name != STREAM:
            other = channels.setdefault(export.channel, name)
            if other != name:
                part = {"kafka": "topic", "nats": "prefix and stream"}.get(export.kind, "prefix")
                raise HopscopeError(
                    f"export.{name}: its messages would be taken for copies of those of export.{other}; "
                    f"expected another {part}"
                )


METRICS: dict[str, Callable[[Any, Context], MetricsDestination]] = {
    "remote_write": RemoteWrite,
    "influxdb": InfluxMetrics,
    "otlp": OtlpMetrics,
}
"""Classes of destinations of metrics, by kind."""


def places(settings: Settings) -> Iterator[DestinationLabel]:
    """The destinations of events and of metrics, by name. A destination of metrics with the same name as one
    of events appears as `metrics.NAME`.
    """
    for name, export in settings.destinations.items():
        yield DestinationLabel(export.kind, export.place, name)
    for name, metrics in settings.metrics.items():
        shown = f"metrics.{name}" if name in settings.destinations else name
        yield DestinationLabel(metrics.kind, metrics.place, shown)
