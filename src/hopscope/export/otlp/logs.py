"""OTLP logs: events as log records, over HTTP."""

from __future__ import annotations

from ...settings.destinations.otlp import OtlpSettings
from ..block import EventBlock
from ..destination import Context, DeliveryError, Destination
from .client import OtlpClient
from .log_records import LogEncoder


class Otlp(Destination):
    """One receiver."""

    Settings = OtlpSettings
    settings: OtlpSettings
    _client: OtlpClient

    def __init__(self, settings: OtlpSettings, context: Context) -> None:
        super().__init__(settings, context)
        self._encoder = LogEncoder(context.names, context.member)

    def connect(self) -> None:
        """Check with an empty request whether the receiver accepts logs."""
        self.close()
        settings = self.settings
        self._client = OtlpClient(settings, "logs", self.context.member, settings.timeout_seconds)
        self._client.send(b"")

    def send(self, block: EventBlock) -> None:
        """Post the log records of a block; its id is an attribute of their scope."""
        records = self._encoder.encode(block)
        sent, rejected, reason = self._client.post(records, {"hopscope.block.id": block.id})
        self.context.count("bytes_total", sent)
        if rejected:
            raise DeliveryError(reason, again=False, rejected=rejected)
