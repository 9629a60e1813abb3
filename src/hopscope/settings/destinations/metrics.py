"""Settings of destinations of metrics; those of InfluxDB and OTLP are beside their settings for events."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from ..section import Seconds, Section
from .shown import shown
from .tls import TlsSettings


class MetricsSettings(Section):
    """One destination of metrics; every kind has more settings."""

    kind: str
    """Kind of the server: `remote_write`, `influxdb` or `otlp`."""
    every_seconds: Seconds = Field(default=15.0, ge=1, le=3600)
    """How often metrics are taken and sent."""
    queue_rounds: int = Field(default=240, ge=1, le=10_000)
    """How many rounds of metrics wait in memory while the destination is unreachable; older rounds are
    counted as lost.
    """
    timeout_seconds: Seconds = Field(default=10.0, gt=0)
    """Timeout of one request."""

    @property
    def place(self) -> str:
        """Where it is, as it may be shown: without passwords."""
        return shown(getattr(self, "url", "")) or self.kind


class RemoteWriteSettings(TlsSettings, MetricsSettings):
    """Prometheus, VictoriaMetrics, Mimir, Thanos and others, by Prometheus remote write 1.0 or 2.0."""

    url: str = Field(default="http://127.0.0.1:9090/api/v1/write", pattern=r"^https?://[^\s?#]+$")
    """Address to which samples are posted."""
    version: int = Field(default=1, ge=1, le=2)
    """Version of the protocol. With version 2, which the server must know, names and help texts are not
    repeated.
    """
    labels: dict[Annotated[str, Field(pattern=r"^[a-zA-Z_][a-zA-Z0-9_]*$")], str] = Field(default={})
    """Labels of all series; `job` is `hopscope` and `instance` the name of the collector unless set here."""
    user: str = ""
    """User, with `password`."""
    password: str = ""
    """Password; `env:NAME` or `file:PATH` says where to find it."""
    token: str = ""
    """Bearer token; `env:NAME` or `file:PATH` says where to find it."""
