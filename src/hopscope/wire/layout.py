"""Headers of packets, Telemetry Reports, INT, IOAM and IFA, and the meaning of bits in instruction bitmaps.

Metadata (of hops, and of reports) are tables of `Item`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from .fields import Header, Row, header
from .records import Have

# ------------------------------------------------------------------------------------- Ethernet, IP, UDP, TCP

ETHERNET = header(
    "Ethernet",
    "IEEE 802.3",
    ("destination", 48),
    ("source", 48),
    ("type", 16, "", "EtherType of what follows"),
)
VLAN = header(
    "VLAN tag",
    "IEEE 802.1Q",
    ("priority", 3),
    ("drop_eligible", 1),
    ("vlan", 12),
    ("type", 16, "", "EtherType of what follows"),
)
SLL = header(
    "Linux cooked capture", "LINKTYPE_LINUX_SLL",
    ("packet_type", 16), ("arp_type", 16), ("address_length", 16), ("address", 64), ("type", 16),
)  # fmt: skip
SLL2 = header(
    "Linux cooked capture 2", "LINKTYPE_LINUX_SLL2",
    ("type", 16), ("reserved", 16), ("interface", 32), ("arp_type", 16), ("packet_type", 8),
    ("address_length", 8),
    ("address", 64),
)  # fmt: skip
IPV4 = header(
    "IPv4", "RFC 791 3.1",
    ("version", 4), ("header_words", 4, "words"), ("dscp", 6), ("ecn", 2), ("total_length", 16, "bytes"),
    ("identification", 16), ("reserved", 1), ("dont_fragment", 1), ("more_fragments", 1),
    ("fragment_offset", 13, "8 bytes"),
    ("ttl", 8), ("protocol", 8), ("checksum", 16), ("source", 32), ("destination", 32),
)  # fmt: skip
IPV6 = header(
    "IPv6", "RFC 8200 3",
    ("version", 4), ("dscp", 6), ("ecn", 2), ("flow_label", 20), ("payload_length", 16, "bytes"),
    ("next_header", 8),
    ("hop_limit", 8), ("source", 128), ("destination", 128),
)  # fmt: skip
IPV6_EXTENSION = header(
    "IPv6 extension",
    "RFC 8200 4",
    ("next_header", 8),
    ("length", 8, "8 bytes", "without the first 8 bytes"),
    ("options", 48),
)
IPV6_FRAGMENT = header(
    "IPv6 fragment", "RFC 8200 4.5",
    ("next_header", 8), ("reserved", 8), ("fragment_offset", 13, "8 bytes"), ("reserved", 2),
    ("more_fragments", 1),
    ("identification", 32),
)  # fmt: skip
UDP = header(
    "UDP",
    "RFC 768",
    ("sport", 16),
    ("dport", 16),
    ("length", 16, "bytes", "with this header"),
    ("checksum", 16),
)
TCP = header(
    "TCP", "RFC 9293 3.1",
    ("sport", 16), ("dport", 16), ("sequence", 32), ("acknowledgment", 32), ("header_words", 4, "words"),
    ("reserved", 4),
    ("flags", 8), ("window", 16), ("checksum", 16), ("urgent", 16),
)  # fmt: skip
PORTS = header("ports", "RFC 768, RFC 9293", ("sport", 16), ("dport", 16))
MPLS = header(
    "MPLS label", "RFC 3032 2.1",
    ("label", 20), ("traffic_class", 3), ("bottom", 1), ("ttl", 8),
)  # fmt: skip
GRE = header(
    "GRE", "RFC 2784 2.1, RFC 2890 2",
    ("checksum_present", 1), ("routing_present", 1), ("key_present", 1), ("sequence_present", 1),
    ("reserved", 9), ("version", 3), ("type", 16, "", "EtherType of what follows"),
)  # fmt: skip
ERSPAN_2 = header(
    "ERSPAN type II", "draft-foschiano-erspan-03, 4.2",
    ("version", 4), ("vlan", 12), ("class", 3), ("encapsulation", 2), ("truncated", 1), ("session", 10),
    ("reserved", 12), ("index", 20),
)  # fmt: skip
ERSPAN_3 = header(
    "ERSPAN type III", "draft-foschiano-erspan-03, 4.3",
    ("version", 4), ("vlan", 12), ("class", 3), ("bad", 2), ("truncated", 1), ("session", 10),
    ("timestamp", 32), ("group_tag", 16), ("frame", 1), ("frame_type", 5), ("hardware_id", 6),
    ("direction", 1), ("granularity", 2), ("optional", 1, "", "8 more bytes follow"),
)  # fmt: skip
VXLAN = header("VXLAN", "RFC 7348 5", ("flags", 8), ("reserved", 24), ("vni", 24), ("reserved", 8))
VXLAN_GPE = header(
    "VXLAN-GPE", "draft-ietf-nvo3-vxlan-gpe-12, 3",
    ("flags", 8), ("reserved", 16), ("next_protocol", 8), ("vni", 24), ("reserved", 8),
)  # fmt: skip
GENEVE = header(
    "Geneve", "RFC 8926 3.4",
    ("version", 2), ("option_words", 6, "words"), ("control", 1), ("critical", 1), ("reserved", 6),
    ("type", 16, "", "EtherType of what follows"), ("vni", 24), ("reserved", 8),
)  # fmt: skip
GENEVE_OPTION = header(
    "Geneve option", "RFC 8926 3.5",
    ("class", 16), ("type", 8), ("reserved", 3), ("words", 5, "words", "without this word"),
)  # fmt: skip
GTP_U = header(
    "GTP-U", "3GPP TS 29.281 5.1",
    ("version", 3), ("protocol", 1), ("reserved", 1), ("extension", 1), ("sequence_present", 1),
    ("npdu_present", 1), ("message", 8, "", "255: a user's packet"),
    ("length", 16, "bytes", "without these 8"), ("teid", 32),
)  # fmt: skip
GTP_U_OPTIONAL = header(
    "GTP-U optional fields", "3GPP TS 29.281 5.1", ("sequence", 16), ("npdu", 8), ("next_extension", 8),
)  # fmt: skip

TARGET_MAC, SOURCE_MAC = 0x020000000002, 0x020000000001
"""Ethernet addresses of generated frames, locally administered."""
ETHERTYPE_IPV4 = 0x0800
ETHERTYPE_IPV6 = 0x86DD
ETHERTYPES_VLAN = (0x8100, 0x88A8, 0x9100)
MAX_TAGS = 4
"""VLAN tags that are parsed; a frame with more is not read as IP."""
ETHERTYPE_MPLS = (0x8847, 0x8848)
ETHERTYPE_TEB = 0x6558
ETHERTYPE_ERSPAN_2, ETHERTYPE_ERSPAN_3 = 0x88BE, 0x22EB
MAX_LABELS = 8
"""MPLS labels that are parsed."""
MAX_LAYERS = 6
"""Nested IP headers that are parsed; one more is rejected as `too_many_layers`."""
PROTOCOL_IPV4 = 4
PROTOCOL_TCP = 6
PROTOCOL_UDP = 17
PROTOCOL_IPV6 = 41
PROTOCOL_GRE = 47
PROTOCOL_MPLS = 137
GTP_U_USER_PACKET = 255
NEXT_FRAGMENT = 44
NEXT_AUTHENTICATION = 51
NEXT_EXTENSIONS = (0, 43, 60, 135, 139, 140)
"""Extension headers whose length is in units of 8 bytes: hop-by-hop, routing, destination, mobility, HIP,
shim6.
"""

# --------------------------------------------------------------------------------------------------- reports

REPORT_0_5 = header(
    "Telemetry Report 0.5", "Telemetry Report 0.5, 3.2",
    ("version", 4), ("next_protocol", 4, "", "0 Ethernet, 1 drop header, 2 switch-local header"),
    ("dropped", 1), ("congested", 1), ("tracked", 1), ("reserved", 15), ("hw_id", 6),
    ("sequence", 32), ("ingress_time", 32, "ns"),
)  # fmt: skip
DROP_0_5 = header(
    "drop header", "Telemetry Report 0.5, 3.3",
    ("node_id", 32), ("ingress_port", 16), ("egress_port", 16), ("queue_id", 8), ("drop_reason", 8),
    ("reserved", 16),
)  # fmt: skip
SWITCH_LOCAL_0_5 = header(
    "switch-local header", "Telemetry Report 0.5, 3.4",
    ("node_id", 32), ("ingress_port", 16), ("egress_port", 16), ("queue_id", 8), ("queue_occupancy", 24),
    ("egress_time", 32, "ns"),
)  # fmt: skip
REPORT_1_0 = header(
    "Telemetry Report 1.0", "Telemetry Report 1.0, 3.2",
    ("version", 4), ("length", 4, "words", "with optional metadata"),
    ("next_protocol", 3, "", "0 Ethernet, 1 IPv4, 2 IPv6"), ("metadata_bits", 6), ("reserved", 6),
    ("dropped", 1), ("congested", 1), ("tracked", 1), ("hw_id", 6),
    ("node_id", 32), ("sequence", 32), ("ingress_time", 32, "ns"),
)  # fmt: skip
GROUP_2_0 = header(
    "Telemetry Report 2.0 group",
    "Telemetry Report 2.0, 3.3",
    ("version", 4),
    ("hw_id", 6),
    ("sequence", 22),
    ("node_id", 32),
)
REPORT_2_0 = header(
    "Telemetry Report 2.0", "Telemetry Report 2.0, 3.4",
    ("report_type", 4, "", "0 inner only, 1 INT, 2 IOAM"),
    ("inner_type", 4, "", "0 none, 1 TLV, 2 domain specific, 3 Ethernet, 4 IPv4, 5 IPv6"),
    ("report_length", 8, "words", "without this word; 255: to the end of the datagram"),
    ("metadata_length", 8, "words", "optional metadata only"),
    ("dropped", 1), ("congested", 1), ("tracked", 1), ("intermediate", 1), ("reserved", 4),
)  # fmt: skip
MAIN_2_0 = header(
    "Telemetry Report 2.0 INT main contents", "Telemetry Report 2.0, 3.5",
    ("metadata_bits", 16), ("domain_id", 16), ("ds_metadata_bits", 16), ("ds_metadata_status", 16),
)  # fmt: skip
TLV_2_0 = header(
    "Telemetry Report 2.0 TLV", "Telemetry Report 2.0, 3.6",
    ("type", 4, "", "0 domain specific, 1 Ethernet, 2 IPv4, 3 IPv6"), ("reserved", 4),
    ("length", 8, "words", "without this word"), ("template", 16),
)  # fmt: skip

# ------------------------------------------------------------------------------------------------------- INT

SHIM_OLD = header(
    "INT shim 0.5 and 1.0", "INT 0.5, 4.5.1; INT 1.0, 4.6.1",
    ("type", 8, "", "1 hop-by-hop, 2 destination"), ("reserved", 8),
    ("length", 8, "words", "with this word; 0.5: with the tail too"), ("dscp", 6), ("reserved", 2),
)  # fmt: skip
SHIM_2_0 = header(
    "INT shim 2.x", "INT 2.1, 5.6.1",
    ("type", 4, "", "1 MD, 2 destination, 3 MX"), ("next_protocol_type", 2), ("reserved", 2),
    ("length", 8, "words", "without this word"),
    ("original", 16, "", "NPT 0: reserved 8, DSCP 6; 1: UDP destination port; 2: reserved 8, IP protocol 8"),
)  # fmt: skip
TAIL_0_5 = header("INT tail 0.5", "INT 0.5, 4.5.1", ("protocol", 8), ("dport", 16), ("dscp", 8))
SHIM_GRE_2_0 = header(
    "INT shim 2.x over GRE", "INT 2.1, 5.6.2",
    ("type", 4, "", "1 MD, 2 destination, 3 MX"), ("gre_added", 1, "", "G: the INT source added GRE"),
    ("reserved", 3), ("length", 8, "words", "without this word"), ("next_protocol", 16, "", "EtherType"),
)  # fmt: skip
SHIM_GPE_2_0 = header(
    "INT shim 2.x over VXLAN-GPE", "INT 2.1, 5.6.3",
    ("type", 4, "", "1 MD, 2 destination, 3 MX"), ("reserved", 4),
    ("length", 8, "words", "without this word"), ("gpe_added", 1, "", "G: the packet was plain VXLAN"),
    ("reserved", 7), ("next_protocol", 8),
)  # fmt: skip
SHIM_GPE_OLD = header(
    "INT shim 0.5 and 1.0 over VXLAN-GPE", "INT 0.5, 4.5.2; INT 1.0, 4.6.2",
    ("type", 8, "", "1 hop-by-hop, 2 destination"), ("reserved", 8), ("length", 8, "words", "with this word"),
    ("next_protocol", 8),
)  # fmt: skip
MD_0_4 = header(
    "INT-MD 0.4", "INT 0.4; also the form of 2015 with a bottom-of-stack bit",
    ("version", 2), ("replication", 2), ("copy", 1), ("hops_exceeded", 1), ("reserved", 5),
    ("hop_words", 5, "words", "instruction count"), ("max_hops", 8), ("total_hops", 8),
    ("instructions", 16), ("reserved", 16),
)  # fmt: skip
MD_0_5 = header(
    "INT-MD 0.5", "INT 0.5, 4.6",
    ("version", 4), ("replication", 2), ("copy", 1), ("hops_exceeded", 1), ("reserved", 3),
    ("hop_words", 5, "words", "instruction count"), ("max_hops", 8), ("total_hops", 8),
    ("instructions", 16), ("reserved", 16),
)  # fmt: skip
MD_1_0 = header(
    "INT-MD 1.0", "INT 1.0, 4.7",
    ("version", 4), ("replication", 2), ("copy", 1), ("hops_exceeded", 1), ("mtu_exceeded", 1), ("reserved",
    10),
    ("hop_words", 5, "words"), ("remaining_hops", 8), ("instructions", 16), ("reserved", 16),
)  # fmt: skip
MD_2_0 = header(
    "INT-MD 2.x", "INT 2.1, 5.7",
    ("version", 4), ("discard", 1), ("hops_exceeded", 1), ("mtu_exceeded", 1), ("reserved", 12),
    ("hop_words", 5, "words"), ("remaining_hops", 8), ("instructions", 16), ("domain_id", 16),
    ("ds_instruction", 16), ("ds_flags", 16),
)  # fmt: skip

MX_2_1 = header(
    "INT-MX 2.1", "INT 2.1, 5.8",
    ("version", 4), ("discard", 1), ("reserved", 27), ("instructions", 16), ("domain_id", 16),
    ("ds_instruction", 16), ("ds_flags", 16),
)  # fmt: skip

# ------------------------------------------------------------------------------------------------------ IOAM

IPV6_OPTION = header("IPv6 option", "RFC 8200 4.2", ("type", 8), ("length", 8, "bytes", "without these 2"))
IOAM_OPTION = header(
    "IOAM option", "RFC 9486 3",
    ("type", 8), ("length", 8, "bytes", "without these 2"), ("reserved", 8),
    ("ioam_type", 8, "", "0 pre-allocated trace, 1 incremental, 2 proof of transit, 3 edge to edge, 4 DEX"),
)  # fmt: skip
IOAM_TRACE = header(
    "IOAM trace", "RFC 9197 4.4.1",
    ("namespace", 16), ("node_words", 5, "words", "without opaque data"), ("overflow", 1), ("loopback", 1),
    ("active", 1), ("reserved", 1), ("remaining_words", 7, "words"), ("trace_type", 24), ("reserved", 8),
)  # fmt: skip
IOAM_DEX = header(
    "IOAM direct export", "RFC 9326 3.2",
    ("namespace", 16), ("flags", 8), ("extension_flags", 8, "", "0x80 flow id follows, 0x40 sequence number"),
    ("trace_type", 24), ("reserved", 8),
)  # fmt: skip
IOAM_OPTION_TYPES = (0x31, 0x11)

# ------------------------------------------------------------------------------------------------------- IFA

PROTOCOL_IFA = 253
"""IP protocol of IFA unless a dialect has another one: for experiments (RFC 3692)."""
IFA = header(
    "IFA header", "draft-kumar-ippm-ifa-08",
    ("version", 4), ("namespace", 4, "", "15 each node names its own"), ("next_header", 8), ("reserved", 3),
    ("fragmented", 1), ("tail_stamp", 1, "", "the stack is at the packet's end"),
    ("inband", 1, "", "0 a copy, 1 the packet itself"), ("turn_around", 1),
    ("checksum_present", 1), ("max_words", 8, "words", "of the stack"),
)  # fmt: skip
IFA_METADATA = header(
    "IFA metadata header", "draft-kumar-ippm-ifa-08",
    ("request", 8), ("action", 8), ("hop_limit", 8, "", "255 no limit"),
    ("words", 8, "words", "of the stack"),
)  # fmt: skip
IFA_HOP = header(
    "IFA hop", "AOS-CX 10.17 Monitoring Guide; Junos IFA 2.0 guide",
    ("namespace", 4), ("node_id", 20), ("ttl", 8),
    ("port_speed", 4, "", "0 10G, 1 25G, 2 40G, 3 50G, 4 100G, 5 200G, 6 400G"), ("congestion", 2),
    ("queue_id", 6), ("seconds", 20, "s"), ("egress_port", 16), ("ingress_port", 16),
    ("nanoseconds", 32, "ns"), ("residence_time", 32, "ns", "some switches add a second"),
    ("queue_bytes", 32, "bytes", "sent by the queue"), ("reserved", 16),
    ("queue_cells", 16, "cells", "in the queue"), ("pool_cells", 32, "cells", "free"),
)  # fmt: skip
"""What a node writes: 32 bytes, the newest node first. Broadcom's ASICs and those that follow them agree on
the first 20 bytes; some leave the others 0.
"""

# -------------------------------------------------------------------------------------------------- metadata


@dataclass(frozen=True, slots=True)
class Item:
    """The metadata for one bit of an instruction bitmap."""

    fields: Header
    have: int
    """Bit of `present` and `null` in HOP (`records.Have`); 0: not a hop value."""
    size: int = field(init=False)
    """Bytes: 4, or 8."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", self.fields.size)


def _item(have: int, *rows: Row) -> Item:
    return Item(
        header(" + ".join(row[0] for row in rows), "INT 2.1, 5.7; INT 1.0, 4.7; INT 0.5, 4.6", *rows),
        int(have),
    )


NODE = _item(Have.NODE_ID, ("node_id", 32))
PORT_PAIR = _item(Have.PORTS, ("ingress_port", 16), ("egress_port", 16))
LATENCY = _item(Have.HOP_LATENCY, ("hop_latency", 32, "the source's"))
QUEUE = _item(Have.QUEUE_OCCUPANCY, ("queue_id", 8), ("queue_occupancy", 24))
INGRESS_32 = _item(Have.INGRESS_TIME, ("ingress_time", 32, "the source's"))
INGRESS_64 = _item(Have.INGRESS_TIME, ("ingress_time", 64, "the source's"))
EGRESS_32 = _item(Have.EGRESS_TIME, ("egress_time", 32, "the source's"))
EGRESS_64 = _item(Have.EGRESS_TIME, ("egress_time", 64, "the source's"))
L2_PORTS = _item(Have.L2_PORTS, ("l2_ingress_port", 32), ("l2_egress_port", 32))
UTILIZATION = _item(Have.TX_UTILIZATION, ("tx_utilization", 32))
BUFFER = _item(Have.BUFFER_OCCUPANCY, ("buffer_id", 8), ("buffer_occupancy", 24))
CONGESTION = _item(Have.QUEUE_CONGESTION, ("congestion_queue_id", 8), ("queue_congestion", 24))
CHECKSUM = _item(Have.CHECKSUM_COMPLEMENT, ("checksum_complement", 32))
DROP = _item(0, ("queue_id", 8), ("drop_reason", 8), ("reserved", 16))
FILLER = _item(0, ("reserved", 32))
"""A reserved bit: 4 bytes that are skipped."""

INGRESS_PORT_31 = _item(Have.PORTS, ("reserved", 17), ("ingress_port", 15))
EGRESS_PORT_31 = _item(Have.PORTS, ("reserved", 17), ("egress_port", 15))
QUEUE_16_16 = _item(Have.QUEUE_OCCUPANCY, ("queue_id", 16), ("queue_occupancy", 16))
QUEUE_8_16 = _item(Have.QUEUE_OCCUPANCY, ("queue_id", 8), ("reserved", 8), ("queue_occupancy", 16))
QUEUE_8_19 = _item(Have.QUEUE_OCCUPANCY, ("queue_id", 8), ("reserved", 5), ("queue_occupancy", 19))
L2_PORTS_16 = _item(Have.L2_PORTS, ("l2_ingress_port", 16), ("l2_egress_port", 16))
CONGESTION_16_16 = _item(Have.QUEUE_CONGESTION, ("congestion_queue_id", 16), ("queue_congestion", 16))

_COMMON = (NODE, PORT_PAIR, LATENCY, QUEUE)
HOP_0_5 = (*_COMMON, INGRESS_32, EGRESS_32, CONGESTION, UTILIZATION, *[FILLER] * 8)
"""By bit of the instruction bitmap (bit 0 is the most significant)."""
HOP_1_0 = (*_COMMON, INGRESS_32, EGRESS_32, L2_PORTS, UTILIZATION, *[FILLER] * 7, CHECKSUM)
HOP_2_0 = (*_COMMON, INGRESS_64, EGRESS_64, L2_PORTS, UTILIZATION, BUFFER, *[FILLER] * 6, CHECKSUM)
OWN_1_0 = (PORT_PAIR, LATENCY, QUEUE, EGRESS_32, DROP, UTILIZATION, *[FILLER] * 10)
"""By bit of a Report 1.0's RepMdBits, shifted left by 10 to fill 16 bits."""
OWN_2_0 = (FILLER, *_COMMON[1:], INGRESS_64, EGRESS_64, L2_PORTS, UTILIZATION, BUFFER, *[FILLER] * 6, DROP)
"""By bit of a Report 2.0's RepMdBits."""

HOP_2015 = (
    _item(Have.NODE_ID, ("bottom", 1), ("node_id", 31)), INGRESS_PORT_31,
    _item(Have.HOP_LATENCY, ("bottom", 1), ("hop_latency", 31, "the source's")),
    _item(Have.QUEUE_OCCUPANCY, ("bottom", 1), ("queue_occupancy", 31)),
    _item(Have.INGRESS_TIME, ("bottom", 1), ("ingress_time", 31, "the source's")), EGRESS_PORT_31,
    _item(Have.QUEUE_CONGESTION, ("bottom", 1), ("queue_congestion", 31)),
    _item(Have.TX_UTILIZATION, ("bottom", 1), ("tx_utilization", 31)), *[FILLER] * 8,
)  # fmt: skip
"""INT of 2015: the most significant bit of each word states whether it is the last of the stack."""


def _node(have: int, *rows: Row) -> Item:
    return Item(header(" + ".join(row[0] for row in rows), "RFC 9197 4.4.2", *rows), have)


IOAM_NODE = (
    _node(NODE.have, ("hop_limit", 8), ("node_id", 24)), PORT_PAIR,
    _node(INGRESS_64.have, ("seconds", 32, "s")),
    _node(INGRESS_64.have, ("fraction", 32, "the namespace's")),
    _node(LATENCY.have, ("latency_overflow", 1), ("hop_latency", 31, "ns")),
    _node(0, ("namespace_data", 32)), _node(QUEUE.have, ("queue_occupancy", 32)), CHECKSUM,
    _node(NODE.have, ("wide_hop_limit", 8), ("wide_node_id", 56)), L2_PORTS,
    _node(0, ("wide_namespace_data", 64)), _node(BUFFER.have, ("buffer_occupancy", 32)),
    *(_node(0, (f"bit_{bit}", 32)) for bit in range(12, 22)),
)  # fmt: skip
"""Data that a node writes into an IOAM trace, by bit of the trace type (bit 0 is the most significant of 24).

Bits 12 to 21 are undefined, but each takes 4 bytes. Bit 22 adds a snapshot, bit 23 nothing.
"""
IOAM_SNAPSHOT = header(
    "IOAM opaque state snapshot", "RFC 9197 4.4.2.13",
    ("words", 8, "words", "without these 4 bytes"), ("schema", 24),
)  # fmt: skip
IOAM_SNAPSHOT_BIT = 2
"""Bit 22 of the trace type, as a mask."""

DROP_FORM = (FILLER, PORT_PAIR, DROP, *[FILLER] * 13)
LOCAL_FORM = (FILLER, PORT_PAIR, QUEUE, EGRESS_32, *[FILLER] * 12)
"""Drop header and switch-local header that follow a Report 0.5."""
INT_0_5, INT_1_0, INT_2_0, OWN_OF_1_0, OWN_OF_2_0, DROP_OF_0_5, LOCAL_OF_0_5, INT_0_4, INT_2015 = range(9)
"""Kinds of metadata: the table of items in which the bits of a bitmap are looked up."""
KIND_ITEMS: tuple[tuple[Item, ...], ...] = (
    HOP_0_5, HOP_1_0, HOP_2_0, OWN_1_0, OWN_2_0, DROP_FORM, LOCAL_FORM, HOP_0_5, HOP_2015,
)  # fmt: skip
"""Items of the specifications, by kind."""
KINDS = len(KIND_ITEMS)


def metadata_size(items: tuple[Item, ...], bitmap: int) -> int:
    """Bytes of metadata for a 16-bit instruction bitmap."""
    return sum(item.size for bit, item in enumerate(items) if bitmap >> (15 - bit) & 1)
