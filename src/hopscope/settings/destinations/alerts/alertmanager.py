"""Settings of Alertmanager."""

from __future__ import annotations

from pydantic import Field

from ...section import Seconds
from ..tls import TlsSettings
from .common import AlertSettings, TextTemplate


class AlertmanagerSettings(TlsSettings, AlertSettings):
    """Prometheus Alertmanager, or a compatible server, by API v2."""

    url: str = Field(default="http://127.0.0.1:9093", pattern=r"^https?://[^\s?#]+$")
    """Address of the server, without `/api/v2`."""
    user: str = ""
    """User."""
    password: str = ""
    """Password; `env:NAME` or `file:PATH` says where to find it."""
    token: str = ""
    """Bearer token, instead of user and password; `env:NAME` or `file:PATH` says where to find it."""
    resend_seconds: Seconds = Field(default=60.0, ge=1, le=3600)
    """How often alerts are sent again while they last. Alertmanager resolves alerts that it has not received
    for four times as long.
    """
    event_seconds: Seconds = Field(default=300.0, ge=1)
    """How long an alert without an end of its own lasts, such as a changed path."""
    line: TextTemplate = "$summary"
    """Text of one alert: its annotation `summary`."""
