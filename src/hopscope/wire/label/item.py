"""Labels of INT-label as they are read: one switch's item, and those of one packet."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

_MICROSECOND = 1000
_ONES_32 = (1 << 32) - 1


class Form(IntEnum):
    """How a packet carries labels."""

    PAPER = 1
    """Behind the IP header."""
    PUBLISHED = 2
    """Behind an Ethernet type, perhaps with a source route in front."""
    EXPORT = 3
    """In a last hop's datagram, without the packet."""


@dataclass(frozen=True, slots=True)
class LabelItem:
    """What a switch tells (LABEL_STATE): the paper's form, with Hopscope's own fields."""

    node_id: int
    ingress_port: int = 0
    egress_port: int = 0
    time_ns: int = 0
    """When the packet was labelled."""
    latency_ns: int = 0
    """Of the packet in the switch until then."""
    occupancy: int = 0
    """Of the egress queue, bytes; of an item of the published code, packets."""


@dataclass(frozen=True, slots=True)
class PublishedItem:
    """An item of the published code (LABEL_ITEM), with its fields; times in us, depths in packets."""

    device_id: int
    ingress_port: int = 0
    egress_port: int = 0
    ingress_time: int = 0
    egress_time: int = 0
    enqueue_time: int = 0
    enqueue_depth: int = 0
    dequeue_latency: int = 0
    dequeue_depth: int = 0

    def state(self) -> LabelItem:
        """The same as the paper's item: labelled at egress, so long after ingress (at most 4.29 s)."""
        inside = (self.egress_time - self.ingress_time) % (1 << 48) * _MICROSECOND
        return LabelItem(
            self.device_id, self.ingress_port, self.egress_port, self.egress_time * _MICROSECOND,
            min(inside, _ONES_32), self.dequeue_depth,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class LabelFlow:
    """The flow of a packet, as its last hop tells it (LABEL_FLOW)."""

    source: int
    """128 bits, IPv4 as ::ffff:a.b.c.d."""
    destination: int
    protocol: int
    """What stands behind the labels; in IPv6 it may be an extension header."""
    source_port: int = 0
    """0 where there is none, and of fragments."""
    destination_port: int = 0


@dataclass(frozen=True, slots=True)
class Labelled:
    """The labels of one packet."""

    form: Form
    next_header: int
    """The packet's own protocol; of the published form the option's first byte."""
    tracked: bool
    """Of a tracked flow: each of its switches labels it."""
    items: tuple[LabelItem | PublishedItem, ...]
    """As on the wire, the newest first."""
    at: int
    """Offset of the option."""
    end: int
    """Offset behind the items."""
    ip: int = 0
    """Offset of the IP header in front of the option."""
    flow: LabelFlow | None = None
    """What a last hop says of it, where it does."""

    def path(self) -> tuple[LabelItem, ...]:
        """The labels in path order: the source's side first."""
        return tuple(one.state() if isinstance(one, PublishedItem) else one for one in self.items[::-1])
