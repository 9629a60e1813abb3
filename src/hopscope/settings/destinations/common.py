"""What the settings of all destinations of events have."""

from __future__ import annotations

from ipaddress import ip_network
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field

from ..section import Seconds, Section
from .shown import shown


def _prefix(text: str) -> str:
    """A network prefix, or an address."""
    try:
        return str(ip_network(text, strict=False))
    except ValueError:
        raise ValueError(f"found {text!r}, expected a prefix, such as 10.1.0.0/16 or 2001:db8::/32") from None


SERVER_URL = r"^(udp|tcp|tls)://(\[[0-9A-Fa-f:.]+\]|[^\s/@:\[\]]+):\d{1,5}$"
"""Pattern of the address of a server that is reached over UDP, TCP or TLS."""


class ExportSettings(Section):
    """One destination of events; every kind has more settings."""

    endings: ClassVar[tuple[str, ...]] = ()
    """Kinds of events that every filter but `kinds` lets pass: what they end had to pass it."""

    kind: str
    """Kind of the destination: one of those below, or that of an installed package."""
    kinds: tuple[str, ...] = ()
    """Kinds of events that it gets; empty: all."""
    metrics: tuple[str, ...] = ()
    """Metrics of events that it gets; empty: all."""
    nodes: tuple[Annotated[int, Field(ge=0, le=2**32 - 1)], ...] = ()
    """Node ids: only events at these, or with one of them in their path; empty: all."""
    prefixes: tuple[Annotated[str, AfterValidator(_prefix)], ...] = ()
    """Prefixes: only events of flows from or to one of them; empty: all. `::/0` is all IPv6, and no IPv4."""
    sample: int = Field(default=1, ge=1)
    """Sends events of one in this many flows, always the same flows, and all events without a flow."""
    begin: Literal["now", "oldest"] = "now"
    """Where a new destination begins: with events from now on, or with the oldest events in history."""
    batch_events: int = Field(default=5000, ge=1, le=65_536)
    """Most events per batch; events with the same time stay together."""
    batch_seconds: Seconds = Field(default=1.0, le=3600)
    """Longest time that an event waits for a batch to fill; 0: it does not wait."""
    timeout_seconds: Seconds = Field(default=10.0, gt=0)
    """Timeout of one request."""

    @property
    def read_kinds(self) -> tuple[str, ...]:
        """Kinds of events that are read for it; empty: all."""
        return self.kinds

    @property
    def place(self) -> str:
        """Where it is, as it may be shown: without passwords."""
        return shown(self.url) if hasattr(self, "url") else self.kind
