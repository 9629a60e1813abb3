"""Heads of the INT packets that an XDP program forwards, for the sink to decode."""

from __future__ import annotations

from ..wire.records import FrameBatch, Link
from .ring import BpfRing


class WireHeads:
    """Frames (Link.ETHERNET), each up to its INT and a little more; `wire_length` is the whole frame's."""

    def __init__(self) -> None:
        self._ring = BpfRing(link=Link.ETHERNET)

    def map(self, descriptor: int, nbytes: int) -> None:
        """Use the ring with this descriptor and a size of `nbytes`. Raises OSError."""
        self._ring.map(descriptor, nbytes)

    def receive(self) -> FrameBatch | None:
        """Up to 4096 heads; None if there are none. Valid until the next call."""
        batch = self._ring.receive()
        if batch is not None:
            batch.frames["wire_length"] = self._ring.received[: len(batch)]
        return batch
