"""Settings of MQTT."""

from __future__ import annotations

from pydantic import Field

from ..tls import TlsSettings
from .common import BusSettings


class MqttSettings(TlsSettings, BusSettings):
    """MQTT 5: topics `PREFIX/v1/events/MEMBER/SHARD`."""

    url: str = Field(default="mqtt://127.0.0.1:1883", pattern=r"^mqtts?://[^\s/?#@]+$")
    """`mqtt://HOST:PORT`, or `mqtts://HOST:PORT` (TLS); default ports: 1883 and 8883."""
    user: str = ""
    """User."""
    password: str = ""
    """Password; `env:NAME` or `file:PATH` says where to find it."""
    client_id: str = Field(default="", max_length=128)
    """Name of the client; empty: `hopscope-MEMBER-NAME`."""
    prefix: str = Field(default="hopscope", pattern=r"^[A-Za-z0-9_.-]{1,64}(/[A-Za-z0-9_.-]{1,64}){0,5}$")
    """First part of every topic."""
