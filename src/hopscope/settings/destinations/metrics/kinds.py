"""Destinations of metrics by name: the settings of each are those of its kind."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field, SerializeAsAny

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


def _of_kind(values: Any) -> Any:
    """The settings of the kind that they name. Raises ValueError for an unknown one."""
    if not isinstance(values, dict) or "kind" not in values:
        return values
    kind = str(values["kind"])
    if kind not in METRICS_KINDS:
        raise ValueError(f"found kind {kind!r}, expected one of {', '.join(METRICS_KINDS)}")
    return METRICS_KINDS[kind].model_validate(values)


NamedMetrics = dict[
    Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,62}$")],
    Annotated[SerializeAsAny[MetricsSettings], BeforeValidator(_of_kind)],
]
"""Destinations of metrics by name."""
