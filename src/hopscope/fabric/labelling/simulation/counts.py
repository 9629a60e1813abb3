"""What happened to the packets of a simulation, as numbers with names."""

from __future__ import annotations

from dataclasses import dataclass

from ...ports import Ints
from .records import Count


@dataclass(frozen=True, slots=True)
class Counts:
    """Packets, labels and bytes of traffic, or of probes.

    emitted + copies + fragments = delivered + dropped + underway
    """

    emitted: int
    delivered: int
    tail_drops: int
    """The queue was full."""
    lost: int
    """By the chance of a link."""
    link_down: int
    """Sent into a link that had failed."""
    copies: int
    """Further packets where a route branches."""
    fragments: int
    """Further packets where a label made one too long."""
    labelled: int
    """Packets that arrived with labels."""
    labels: int
    """Written."""
    labels_lost: int
    """In packets that were dropped."""
    skipped: int
    """Labels that were not written, since the packet would have been too long."""
    hops: int
    """Times that a packet was sent by a port."""
    bytes: int
    """On all links, IP length without labels."""
    label_bytes: int
    """On all links, labels and their options."""

    @classmethod
    def of(cls, counts: Ints) -> Counts:
        """From the kernel's counts."""
        return cls(*(int(counts[place]) for place in Count if place < Count.PROBES))

    @property
    def dropped(self) -> int:
        """For any reason."""
        return self.tail_drops + self.lost + self.link_down
