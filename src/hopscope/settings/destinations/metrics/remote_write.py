"""Settings of Prometheus remote write."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from ..tls import TlsSettings
from .common import MetricsSettings


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
