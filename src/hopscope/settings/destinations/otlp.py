"""Settings of receivers of OTLP."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from ..section import DottedNames
from .common import ExportSettings
from .metrics import MetricsSettings
from .tls import TlsSettings


class OtlpServerSettings(TlsSettings):
    """An OpenTelemetry Collector, or another receiver of OTLP over HTTP."""

    url: str = Field(default="http://127.0.0.1:4318", pattern=r"^https?://[^\s?#]+$")
    """Address of the receiver; `/v1/logs` or `/v1/metrics` follows it."""
    headers: dict[Annotated[str, Field(pattern=r"^[A-Za-z0-9-]+$")], str] = Field(default={})
    """Headers of all requests; values may be `env:NAME` or `file:PATH`, and are shown nowhere."""
    token: str = ""
    """Bearer token; `env:NAME` or `file:PATH` says where to find it."""
    resource: Annotated[dict[str, str], DottedNames] = Field(default={})
    """Attributes of the resource, in addition to `service.name` (`hopscope`), `.version` and `.instance.id`.
    """
    gzip: bool = True
    """Compress requests."""


class OtlpSettings(OtlpServerSettings, ExportSettings):
    """OpenTelemetry logs, by OTLP over HTTP."""

    batch_events: int = Field(default=5000, ge=1, le=20_000)
    """Most events per request; events with the same time stay together. Receivers limit its size."""


class OtlpMetricsSettings(OtlpServerSettings, MetricsSettings):
    """OpenTelemetry metrics, by OTLP over HTTP."""
