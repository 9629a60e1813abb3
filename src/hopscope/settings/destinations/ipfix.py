"""Settings of IPFIX collectors."""

from __future__ import annotations

from pydantic import Field

from ..section import Seconds
from .common import SERVER_URL, ExportSettings
from .tls import TlsSettings


class IpfixSettings(TlsSettings, ExportSettings):
    """An IPFIX collector (RFC 7011), such as nfdump or pmacct, over UDP, TCP or TLS."""

    url: str = Field(default="udp://127.0.0.1:4739", pattern=SERVER_URL)
    """Address of the collector, such as `udp://192.0.2.7:4739`, `tcp://…:4739` or `tls://…:4740`."""
    kinds: tuple[str, ...] = ("flow_record",)
    """Kinds of events that it gets; empty: all. Tools for flows take every other event for a flow."""
    metrics: tuple[str, ...] = ("flow_path", "flow_latency")
    """Metrics of events that it gets; empty: all."""
    observation_domain: int = Field(default=1, ge=1, le=2**31)
    """Observation domain of the first shard; those of further shards follow it."""
    enterprise: int = Field(default=32473, ge=1, le=2**32 - 1)
    """Private enterprise number of the elements that IANA does not have."""
    template_seconds: Seconds = Field(default=60.0, ge=1, le=3600)
    """UDP: interval at which templates are sent again."""
    message_bytes: int = Field(default=1400, ge=512, le=65_507)
    """Most bytes of a message; over UDP, no more than the path's MTU minus 28 bytes (IPv4) or 48 (IPv6)."""
    messages_per_second: int = Field(default=2000, ge=1)
    """UDP: most messages per second, since a collector that cannot keep up loses them unnoticed."""
