"""Counts of a simulation by name."""

from __future__ import annotations

from dataclasses import dataclass

from ...ports import Ints
from .records import Count


@dataclass(frozen=True, slots=True)
class TrafficCounts:
    """Packets, labels and bytes of traffic, or of probes.

    emitted + copies + fragments = delivered + dropped + in flight
    """

    emitted: int
    delivered: int
    tail_drops: int
    """Dropped because the queue was full."""
    lost: int
    """Lost by a link at random."""
    link_down: int
    """Sent into a failed link."""
    copies: int
    """Additional packets at branches of a route."""
    fragments: int
    """Additional packets because a label made one too long."""
    labelled: int
    """Packets delivered with labels."""
    labels: int
    """Labels written."""
    labels_lost: int
    """Labels in dropped packets."""
    skipped: int
    """Labels not written because the packet would have been too long."""
    hops: int
    """Packets sent by ports, counted at every hop."""
    bytes: int
    """IP bytes on all links, without labels."""
    label_bytes: int
    """Bytes of labels and their options on all links."""

    @classmethod
    def from_array(cls, counts: Ints) -> TrafficCounts:
        """The counts of traffic in the kernel's array."""
        return cls(*(int(counts[place]) for place in Count if place < Count.PROBES))

    @property
    def dropped(self) -> int:
        """Packets dropped for any reason."""
        return self.tail_drops + self.lost + self.link_down
