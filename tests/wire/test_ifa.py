"""IFA 2.0: packets that scapy makes from the layout of the vendors' guides, damage, and what is shown."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scapy.fields import BitField
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether
from scapy.packet import Packet, Raw

from hopscope.wire.craft.frames import craft
from hopscope.wire.craft.keys import CraftError
from hopscope.wire.decode.as_json import report_object
from hopscope.wire.decode.byte_fields import explained, leaves
from hopscope.wire.decode.plain import decode_plain
from hopscope.wire.dialect import DEFAULT, Clock, Dialect
from hopscope.wire.records import Link, ReportBatch
from hopscope.wire.timing import apply, link_latency_ns
from support.packets.wire_cases import frame_batch, frames_of

PACKETS = replace(DEFAULT, packets=True)


class Head(Packet):
    """The IFA header, in the order of draft-kumar-ippm-ifa-08."""

    name = "IFA"
    fields_desc = [  # noqa: RUF012
        BitField("version", 2, 4), BitField("gns", 15, 4), BitField("next", 17, 8), BitField("r", 0, 3),
        BitField("mf", 0, 1), BitField("ts", 0, 1), BitField("i", 0, 1), BitField("ta", 0, 1),
        BitField("c", 0, 1), BitField("max", 255, 8),
    ]  # fmt: skip


class Metadata(Packet):
    """The metadata header."""

    name = "IFA metadata"
    fields_desc = [BitField(name, 255, 8) for name in ("request", "action", "limit", "words")]  # noqa: RUF012


class Node(Packet):
    """What a node writes, in the order of the AOS-CX and Junos guides."""

    name = "IFA node"
    fields_desc = [  # noqa: RUF012
        BitField("lns", 1, 4), BitField("device", 0, 20), BitField("ttl", 64, 8), BitField("speed", 4, 4),
        BitField("congestion", 0, 2), BitField("queue", 0, 6), BitField("seconds", 0, 20),
        BitField("egress", 0, 16), BitField("ingress", 0, 16), BitField("nanoseconds", 0, 32),
        BitField("residence", 0, 32), BitField("opaque_1", 0, 32), BitField("high", 0, 16),
        BitField("depth", 0, 16), BitField("opaque_3", 0, 32),
    ]  # fmt: skip


NEW = Node(device=17151, ttl=61, speed=1, queue=46, seconds=2585, egress=64, ingress=1, nanoseconds=922645570,
           residence=1_000_000_726)  # fmt: skip
OLD = Node(device=46975, ttl=63, queue=5, seconds=3782, egress=1, ingress=63, nanoseconds=669396216,
           residence=668, opaque_1=9000, depth=77, opaque_3=4000)  # fmt: skip


def ifa(
    *nodes: Packet,
    l4: Any = None,
    ip: Any = None,
    words: int | None = None,
    payload: bytes = b"payload",
    **flags: int,
) -> bytes:
    """An Ethernet frame with these nodes, the newest first."""
    l4 = UDP(sport=1111, dport=2222) if l4 is None else l4
    ip = IP(src="10.0.0.1", dst="10.0.0.2", proto=253) if ip is None else ip
    stack = b"".join(bytes(node) for node in nodes)
    head = Head(**{"next": 6 if isinstance(l4, TCP) else 17, **flags})
    metadata = Metadata(limit=30, words=len(stack) // 4 if words is None else words)
    body = bytes(head) + bytes(l4) + bytes(metadata) + stack + payload
    return bytes(Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02") / ip / Raw(body))


def read(raw: bytes, dialect: Dialect = PACKETS) -> ReportBatch:
    """The rows of one frame."""
    return decode_plain(frame_batch([raw]), dialect)


def shown(raw: bytes, dialect: Dialect = PACKETS) -> dict[str, Any]:
    """The object that `decode` prints for one frame."""
    return report_object(read(raw, dialect), 0, frame_batch([raw]), dialect)


@pytest.mark.parametrize(
    ("l4", "ip"),
    [
        (UDP(sport=1111, dport=2222), IP(src="10.0.0.1", dst="10.0.0.2", proto=253)),
        (TCP(sport=1111, dport=2222), IP(src="10.0.0.1", dst="10.0.0.2", proto=253)),
        (TCP(sport=1111, dport=2222, options=[("NOP", None)] * 8), IPv6(src="2001:db8::1", nh=253)),
    ],
    ids=["udp", "tcp", "options, IPv6"],
)
def test_flow_and_hops_are_read(l4: Packet, ip: Packet) -> None:
    """The flow is that of the packet, the path begins with the oldest node; a second that an ASIC adds to the
    residence time is taken away; a queue is there if a node writes anything of queues.
    """
    one = shown(ifa(NEW, OLD, l4=l4, ip=ip))
    assert (one["flow"]["sport"], one["flow"]["dport"]) == (1111, 2222)
    assert one["flow"]["proto"] == (17 if isinstance(l4, UDP) else 6)
    assert one["int"] == {
        "version": "ifa", "mode": "ifa", "carrier": "ip_protocol", "inband": False, "hop_limit": 30,
    }  # fmt: skip
    assert one["hops"] == [
        {
            "node_id": 46975, "ingress_port": 63, "egress_port": 1, "hop_latency": 668, "queue_id": 5,
            "queue_occupancy": 77, "ingress_time": 3782_669396216,
            "extras": {"ttl": 63, "queue_bytes": 9000, "pool_cells": 4000},
        },
        {
            "node_id": 17151, "ingress_port": 1, "egress_port": 64, "hop_latency": 726,
            "ingress_time": 2585_922645570, "extras": {"ttl": 61, "queue_bytes": 0, "pool_cells": 0},
        },
    ]  # fmt: skip


def test_the_packet_itself_may_carry_it() -> None:
    """The flag tells a live packet from a copy; without nodes there are no hops."""
    one = shown(ifa(i=1))
    assert one["int"]["inband"]
    assert one["hops"] == []


def test_the_longest_stack() -> None:
    """The metadata header can state 31 nodes."""
    nodes = [Node(device=number) for number in range(31)]
    assert [hop["node_id"] for hop in shown(ifa(*nodes))["hops"]] == list(range(30, -1, -1))


def test_it_is_found_in_tunnels_and_before_them() -> None:
    """In a mirrored frame, and around the UDP header of VXLAN, whose inner flow is the packet's."""
    mirrored = Ether(ifa(OLD))
    erspan = IP(src="1.1.1.1", dst="2.2.2.2", proto=47) / Raw(bytes.fromhex("000088be") + bytes(mirrored))
    one = shown(bytes(Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02") / erspan))
    assert (one["flow"]["src"], one["hops"][0]["node_id"]) == ("10.0.0.1", 46975)
    inner = Ether() / IP(src="10.1.0.1", dst="10.1.0.2") / TCP(sport=5, dport=6)
    vxlan = bytes.fromhex("0800000000000700") + bytes(inner)
    one = shown(ifa(OLD, l4=UDP(sport=1, dport=4789), payload=vxlan))
    assert (one["flow"]["src"], one["flow"]["sport"], one["flow"]["layers"]) == ("10.1.0.1", 5, ["vxlan"])
    assert [hop["node_id"] for hop in one["hops"]] == [46975]


@pytest.mark.parametrize(
    ("raw", "reason", "detail"),
    [
        (ifa(OLD, gns=3), "unknown_type", "metadata of namespace 3, only that of 15 is known"),
        (ifa(OLD, mf=1), "unsupported", "metadata fragments are not read"),
        (ifa(OLD, ts=1), "unsupported", "a stack at the packet's end is not read"),
        (ifa(OLD, c=1), "unsupported", "the checksum header is not read"),
        (ifa(OLD, words=7), "bad_hop_size", "a stack of 28 bytes, a node takes 32"),
        (ifa(OLD, words=24), "truncated", "IFA stack needs 100 bytes"),
        (ifa(OLD) + bytes(99), "none", ""),
        (ifa(OLD, words=24) + bytes(99), "bad_length", "the IP length leaves less than the stack needs"),
        (ifa()[:40], "truncated", "ports needs 4 bytes, 2 are left"),
        (ifa(l4=TCP(dataofs=4)), "bad_length", "TCP header of 16 bytes, at least 20 are needed"),
    ],
    ids=str.split("namespace fragments tail checksum odd cut more long ports tcp"),
)
def test_damage_has_a_reason(raw: bytes, reason: str, detail: str) -> None:
    """What is not read, or contradicts itself, is rejected by name; bytes after the IP packet are not its."""
    one = shown(raw)
    if reason == "none":
        assert one["hops"]
        return
    assert (one["error"]["reason"], one["error"]["at"]) == (reason, "ifa")
    assert one["error"]["detail"].startswith(detail)


@pytest.mark.parametrize("raw", [ifa(OLD, version=1), ifa(OLD, next=50)], ids=["version", "esp"])
def test_other_experiments_are_ordinary_traffic(raw: bytes) -> None:
    """The protocol is one for experiments: what is not IFA 2.0 before TCP or UDP is no error."""
    assert len(read(raw).reports) == 0


def test_a_dialect_names_the_protocol() -> None:
    """Networks may choose another protocol, or none."""
    raw = ifa(OLD, ip=IP(src="10.0.0.1", dst="10.0.0.2", proto=200))
    assert len(read(raw).reports) == 0
    assert len(read(raw, replace(PACKETS, ifa_protocol=200)).hops) == 1
    assert len(read(ifa(OLD), replace(PACKETS, ifa_protocol=0)).reports) == 0


def test_what_is_shown_can_be_crafted() -> None:
    """An object makes a packet that is shown as the same object, with checksums that scapy confirms."""
    one = shown(ifa(NEW, OLD))
    raw = frames_of(craft([one], PACKETS))[0]
    again = shown(raw)
    assert {name: again[name] for name in ("flow", "int", "hops")} == {
        name: one[name] for name in ("flow", "int", "hops")
    }
    found = Ether(raw)
    assert (found[IP].proto, found[IP].len) == (253, len(raw) - 14)
    stated, found[IP].chksum = found[IP].chksum, None
    assert Ether(bytes(found))[IP].chksum == stated


def test_a_crafted_queue_is_shown() -> None:
    """Also if only the id of the queue is given."""
    one = {"int": {"version": "ifa"}, "hops": [{"queue_id": 5}, {"queue_occupancy": 0}, {}]}
    hops = shown(frames_of(craft([one], PACKETS))[0])["hops"]
    assert [hop.get("queue_id") for hop in hops] == [5, 0, None]


@pytest.mark.parametrize(
    ("flow", "dialect", "message"),
    [
        ({"proto": 1}, PACKETS, "flow.proto: IFA carries TCP or UDP, not a packet of protocol 1"),
        ({}, replace(PACKETS, ifa_protocol=0), "int.version: dialect spec has no IP protocol of IFA"),
    ],
)
def test_what_cannot_be_crafted(flow: dict[str, Any], dialect: Dialect, message: str) -> None:
    """A packet without ports, and IFA in a dialect that has none."""
    with pytest.raises(CraftError, match=message):
        craft([{"flow": flow, "int": {"version": "ifa"}}], dialect)


def test_each_byte_has_a_name() -> None:
    """The explanation of a frame has every field at its place."""
    raw = ifa(NEW, OLD)
    fields = explained(raw, Link.ETHERNET, read(raw).reports[0], PACKETS)
    assert [each.name for each in fields if each.fields][-5:] == [
        "IFA header", "UDP", "IFA metadata header", "hop 1 of the path", "hop 0 of the path",
    ]  # fmt: skip
    nodes = [each.value for each in leaves(fields) if each.name == "node id"]
    assert nodes == [17151, 46975]


def test_times_are_nanoseconds_in_any_clock() -> None:
    """Clocks of dialects do not change them, and a link is measured over the wrap of the seconds."""
    batch = read(ifa(Node(seconds=0, nanoseconds=500), Node(seconds=(1 << 20) - 1, nanoseconds=999_999_000,
                                                           residence=700)))  # fmt: skip
    clock = Clock(unit_ns=8, bits=32, latency="timestamps", comparable=True)
    before = batch.hops.copy()
    apply(batch, clock)
    assert np.array_equal(batch.hops, before)
    links = link_latency_ns(batch.hops, np.zeros(2, int), np.full(2, 92), clock)
    assert links.tolist() == [800, None]


def test_link_after_link_is_measured() -> None:
    """From the end of a node's residence to the arrival at the next."""
    batch = read(ifa(Node(seconds=7, nanoseconds=2000), Node(seconds=7, nanoseconds=0, residence=1500)))
    links = link_latency_ns(batch.hops, np.zeros(2, int), np.full(2, 92), Clock(comparable=True))
    assert links.tolist() == [500, None]
