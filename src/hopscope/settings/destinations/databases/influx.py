"""Settings of InfluxDB and VictoriaMetrics."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from ..common import ExportSettings
from ..metrics.common import MetricsSettings
from ..tls import TlsSettings


class InfluxServerSettings(TlsSettings):
    """InfluxDB 1, 2 or 3, or VictoriaMetrics, as a server of line protocol."""

    url: str = Field(default="http://127.0.0.1:8086", pattern=r"^https?://[^\s?#]+$")
    """Address of the server."""
    api: int = Field(default=2, ge=1, le=3)
    """Version of its API; VictoriaMetrics takes 1 and 2."""
    database: str = Field(default="hopscope", min_length=1)
    """Database (1, 3) or bucket (2)."""
    organization: str = ""
    """Organization (2)."""
    user: str = ""
    """User (1)."""
    password: str = ""
    """Password (1); `env:NAME` or `file:PATH` says where to find it."""
    token: str = ""
    """Token (2, 3); `env:NAME` or `file:PATH` says where to find it."""
    create: bool = True
    """Create the database or bucket if it is missing; nothing is ever dropped."""
    gzip: bool = True
    """Compress requests."""


class InfluxSettings(InfluxServerSettings, ExportSettings):
    """InfluxDB 1, 2 or 3, or VictoriaMetrics, by line protocol."""

    naming: Literal["hopscope", "intcollector"] = "hopscope"
    """Measurements: `int_event`, or those that INTCollector writes, for a migration from it."""


class InfluxMetricsSettings(InfluxServerSettings, MetricsSettings):
    """InfluxDB 1, 2 or 3, or VictoriaMetrics, by line protocol."""
