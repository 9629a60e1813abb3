"""Settings of syslog servers."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from ..common import SERVER_URL
from ..tls import TlsSettings
from .common import AlertSettings, TextTemplate

FACILITIES = {"user": 1, "daemon": 3, **{f"local{number}": 16 + number for number in range(8)}}


class SyslogSettings(TlsSettings, AlertSettings):
    """Syslog (RFC 5424): a message for each alert, over UDP, TCP (RFC 6587) or TLS (RFC 5425)."""

    url: str = Field(default="udp://127.0.0.1:514", pattern=SERVER_URL)
    """Address of the server, such as `udp://192.0.2.7:514`, `tcp://…:601` or `tls://…:6514`."""
    facility: Literal[
        "user", "daemon", "local0", "local1", "local2", "local3", "local4", "local5", "local6", "local7"
    ] = "local0"
    """Facility of the messages."""
    enterprise: int = Field(default=32473, ge=1, le=2**32 - 1)
    """Private enterprise number in the name of the structured data, `hopscope@32473`."""
    line: TextTemplate = "$kind: $summary"
    """Text of one alert."""
