"""Destinations of metrics by name: the settings of each are those of its kind."""

from __future__ import annotations

from typing import Annotated

from pydantic import SerializeAsAny

from ...section import TableName, of_kind
from ..databases.influx import InfluxMetricsSettings
from ..otlp import OtlpMetricsSettings
from .common import MetricsSettings
from .remote_write import RemoteWriteSettings

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
