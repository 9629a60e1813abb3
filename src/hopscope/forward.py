"""What a sink does with frames after it has read them: strip their INT, send them on."""

from __future__ import annotations

from typing import Protocol

from .wire.records import FrameBatch, ReportBatch


class Forward(Protocol):
    """Where frames go on."""

    def __call__(self, frames: FrameBatch, reports: ReportBatch) -> None:
        """Send a batch on; `reports` are what the decoder said of it, raw."""
