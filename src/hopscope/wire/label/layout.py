"""Headers of INT-label: its option, items, source routes, and the blocks that last hops send."""

from __future__ import annotations

from dataclasses import dataclass

from ..fields import bits, declare, header

_MICROSECOND = 1000
_ONES_32 = (1 << 32) - 1

LABEL_OPTION = header(
    "INT-label option", "INT-label 3.1", ("next_header", 8, "", "the packet's own protocol"), ("count", 8),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class LabelItem:
    """A switch's item: the size is the paper's, the fields are Hopscope's own."""

    node_id: int = bits(32)
    ingress_port: int = bits(16)
    egress_port: int = bits(16)
    time_ns: int = bits(64, "ns", "when the packet was labelled")
    latency_ns: int = bits(32, "ns", "of the packet in the switch until then")
    occupancy: int = bits(32, "bytes", "of the egress queue")
    """Packets, if it was made from an item of the published code."""


LABEL_STATE = declare(LabelItem, "INT-label state", "Hopscope's own item of INT-label 2", skip=64)


@dataclass(frozen=True, slots=True)
class PublishedItem:
    """A switch's item in the published code."""

    device_id: int = bits(8)
    ingress_port: int = bits(8)
    egress_port: int = bits(8)
    ingress_time: int = bits(48, "us", skip=8)
    egress_time: int = bits(48, "us")
    enqueue_time: int = bits(32, "us")
    enqueue_depth: int = bits(24, "packets", skip=8)
    dequeue_latency: int = bits(32, "us")
    dequeue_depth: int = bits(24, "packets", skip=8)

    def state(self) -> LabelItem:
        """The same as the paper's item: labelled at egress, with the time since ingress (at most 4.29 s)."""
        inside = (self.egress_time - self.ingress_time) % (1 << 48) * _MICROSECOND
        return LabelItem(
            self.device_id, self.ingress_port, self.egress_port, self.egress_time * _MICROSECOND,
            min(inside, _ONES_32), self.dequeue_depth,
        )  # fmt: skip


LABEL_ITEM = declare(PublishedItem, "INT-label item", "INT-label, published code")
LABEL_FLOW = header(
    "INT-label flow", "Hopscope's own, of a last hop's datagram",
    ("version", 8, "", "of this header: 1"), ("no_items", 8, "", "0 in place of an option's count"),
    ("source", 128, "", "IPv4 as ::ffff:a.b.c.d"), ("destination", 128),
    ("source_port", 16, "", "0: none, or a fragment's"), ("destination_port", 16),
)  # fmt: skip
"""Precedes the option of a packet whose flow is tracked; the flow's protocol is in the option."""
LABEL_FLOW_VERSION = 1
LABEL_ROUTE = header("INT-label source route", "INT-label, published code",
    ("next_header", 1), ("reserved", 7), ("length", 8),
)  # fmt: skip
LABEL_ROUTE_ENTRY = header("INT-label source route entry", "INT-label, published code",
    ("last", 1), ("reserved", 7), ("port", 8),
)  # fmt: skip
ETHERTYPE_LABEL_ROUTE, ETHERTYPE_LABEL = 0x0700, 0x0701
PROTOCOL_LABEL = 253
"""RFC 3692 experimental; the paper gives no number."""
LABEL_PORT = 7254
"""UDP port to which last hops send labels; Hopscope's choice."""
