"""Settings of MQTT."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from .bus import BusSettings


class MqttSettings(BusSettings):
    """MQTT 5: topics `PREFIX/v1/events/MEMBER/SHARD`."""

    url: str = Field(default="mqtt://127.0.0.1:1883", pattern=r"^mqtts?://[^\s/?#@]+$")
    """`mqtt://HOST:PORT`, or `mqtts://HOST:PORT` (TLS); default ports: 1883 and 8883."""
    user: str = ""
    """User."""
    password: str = ""
    """Password; `env:NAME` or `file:PATH` names where it is."""
    client_id: str = Field(default="", max_length=128)
    """Name of the client; empty: `hopscope-MEMBER-NAME`."""
    ca_file: Path | None = None
    """CA certificates (PEM) to verify a TLS server with; default: those of the system."""
    cert_file: Path | None = None
    """Own certificate (PEM), if the server asks for one."""
    key_file: Path | None = None
    """Key of the certificate (PEM)."""
    prefix: str = Field(default="hopscope", pattern=r"^[A-Za-z0-9_.-]{1,64}(/[A-Za-z0-9_.-]{1,64}){0,5}$")
    """First part of every topic."""
