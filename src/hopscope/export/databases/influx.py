"""InfluxDB 1, 2 and 3, and VictoriaMetrics: events as line protocol."""

from __future__ import annotations

from ...settings.destinations.databases import InfluxSettings
from ..block import EventBlock
from ..destination import Context, Destination
from .duplicate_points import WINDOW
from .influx_client import InfluxClient
from .line_protocol import IntCollectorEncoder, LineEncoder


class Influx(Destination):
    """One server."""

    Settings = InfluxSettings
    _client: InfluxClient
    remembers = 2 * WINDOW

    def __init__(self, settings: InfluxSettings, context: Context) -> None:
        super().__init__(settings, context)
        naming = settings.naming == "intcollector"
        self._encoder = IntCollectorEncoder() if naming else LineEncoder(context.names, context.member)

    def connect(self) -> None:
        """Create the database or bucket if it is missing and `create` is set."""
        self.close()
        self._client = InfluxClient(self.settings, self.settings.timeout_seconds)

    def recall(self, block: EventBlock) -> None:
        """Note the points of earlier events."""
        if isinstance(self._encoder, LineEncoder):
            self._encoder.recall(block)

    def send(self, block: EventBlock) -> None:
        """Write the points of a block in one request."""
        if body := self._encoder.encode(block):
            self.context.count("bytes_total", self._client.write(body))
