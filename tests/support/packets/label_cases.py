"""Labelled packets and items, for the tests of INT-label."""

from __future__ import annotations

from hypothesis import strategies as st

from hopscope.wire.buffer import push
from hopscope.wire.label import layout
from hopscope.wire.label.layout import LabelItem, PublishedItem

states = st.builds(
    LabelItem,
    node_id=st.integers(0, 2**32 - 1),
    ingress_port=st.integers(0, 2**16 - 1),
    egress_port=st.integers(0, 2**16 - 1),
    time_ns=st.integers(0, 2**64 - 1),
    latency_ns=st.integers(0, 2**32 - 1),
    occupancy=st.integers(0, 2**32 - 1),
)
published_items = st.builds(
    PublishedItem,
    device_id=st.integers(0, 255),
    ingress_port=st.integers(0, 255),
    egress_port=st.integers(0, 255),
    ingress_time=st.integers(0, 2**48 - 1),
    egress_time=st.integers(0, 2**48 - 1),
    enqueue_time=st.integers(0, 2**32 - 1),
    enqueue_depth=st.integers(0, 2**24 - 1),
    dequeue_latency=st.integers(0, 2**32 - 1),
    dequeue_depth=st.integers(0, 2**24 - 1),
)


def probe(route: tuple[int, ...] = (), *, specific: bool = False, payload: bytes = b"\x77" * 20) -> bytes:
    """A packet of the published code before its first label: along a source route, or at its last hop."""
    out = bytearray(b"\2" * 6 + b"\4" * 6)
    if route:
        out += layout.ETHERTYPE_LABEL_ROUTE.to_bytes(2, "big")
        push(out, layout.LABEL_ROUTE, {"next_header": 1, "length": len(route)})
        for number, port in enumerate(route, 1):
            push(out, layout.LABEL_ROUTE_ENTRY, {"last": number == len(route), "port": port})
    out += layout.ETHERTYPE_LABEL.to_bytes(2, "big")
    push(out, layout.LABEL_OPTION, {"next_header": specific << 7})
    return bytes(out) + payload
