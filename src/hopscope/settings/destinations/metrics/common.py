"""What the settings of all destinations of metrics have."""

from __future__ import annotations

from pydantic import Field

from ...section import Seconds, Section
from ..shown import shown


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
