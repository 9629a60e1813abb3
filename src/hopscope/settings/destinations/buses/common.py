"""What the settings of all message buses have."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from ..common import ExportSettings


class BusSettings(ExportSettings):
    """A message bus."""

    format: Literal["binary", "json"] = "binary"
    """Records as they are in history, with an Avro schema, or JSON as in the API."""
    messages: Literal["blocks", "events"] = "blocks"
    """A message for each batch, or for each event; JSON in blocks is a line for each event."""
    message_bytes: int = Field(default=900_000, ge=4096, le=100_000_000)
    """Most bytes of a message; a larger batch becomes several messages."""

    @property
    def channel(self) -> str:
        """Where its messages are: ids tell copies among them, so no other destination may have it."""
        return f"{self.kind} {self.place} {getattr(self, 'prefix', '')}"
