"""What passes between rooms: frame batches in, report batches out, as blocks of fixed-width records."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

Records = npt.NDArray[np.void]
"""A one-dimensional array of structured records."""

MAX_HOPS = 64
"""Hops of one report that are decoded; one more is refused as `too_many_hops`."""


class Link(IntEnum):
    """What a frame starts with: libpcap link types, and 255 for the payload of a UDP socket."""

    NULL = 0
    ETHERNET = 1
    RAW_IP = 101
    LINUX_SLL = 113
    LINUX_SLL2 = 20  # libpcap 276 does not fit 8 bits
    OTHER = 254  # any other link type of a capture file: no report is looked for
    UDP_PAYLOAD = 255


FRAME = np.dtype(
    {
        "names": [
            "offset", "time_ns", "source_hi", "source_lo", "length", "wire_length", "port", "link",
            "source_port",
        ],
        "formats": ["<u8", "<i8", "<u8", "<u8", "<u4", "<u4", "<u2", "u1", "<u2"],
        "offsets": [0, 8, 16, 24, 32, 36, 40, 42, 44],
        "itemsize": 48,
    }
)  # fmt: skip
"""One captured frame: `offset` and `length` (bytes) in the arena; `wire_length` before a snap length cut it.

`source_*` (address: IPv6, or IPv4 as ::ffff:a.b.c.d; port) and `port` (destination) are set where `link` is
UDP_PAYLOAD; the decoder finds them itself in every other frame.  `time_ns` is ns since the Unix epoch.
"""


@dataclass(slots=True)
class FrameBatch:
    """Frames as capture hands them over; no object per packet."""

    arena: npt.NDArray[np.uint8]
    """All bytes, uint8 [bytes]."""
    frames: Records
    """FRAME [frames]."""
    first_packet: int = 0
    """Number of the first frame, counted from 0 over the whole file or socket."""

    def __len__(self) -> int:
        return len(self.frames)


class Have(IntEnum):
    """Bits of `present` and `null` in HOP: which fields a hop carries (in INT 2.x order), which are all
    ones.
    """

    NODE_ID = 1 << 0
    PORTS = 1 << 1
    HOP_LATENCY = 1 << 2
    QUEUE_OCCUPANCY = 1 << 3
    INGRESS_TIME = 1 << 4
    EGRESS_TIME = 1 << 5
    L2_PORTS = 1 << 6
    TX_UTILIZATION = 1 << 7
    BUFFER_OCCUPANCY = 1 << 8
    QUEUE_CONGESTION = 1 << 9
    """INT 0.5 only, whose instruction bit 6 it is."""
    CHECKSUM_COMPLEMENT = 1 << 15


@dataclass(frozen=True, slots=True)
class HopColumn:
    """One value of a hop: a column of HOP."""

    name: str
    bits: int
    have: Have
    """The bit that says whether a hop has it."""
    doc: str = ""
    json: str = ""
    """Its key in JSON and CSV, if that is not its name."""

    @property
    def key(self) -> str:
        """Its key in JSON and CSV."""
        return self.json or self.name


HOP_COLUMNS = (
    HopColumn("node_id", 32, Have.NODE_ID),
    HopColumn("ingress_port", 16, Have.PORTS),
    HopColumn("egress_port", 16, Have.PORTS),
    HopColumn("hop_latency", 32, Have.HOP_LATENCY, "raw, in the source's unit"),
    HopColumn("queue_id", 8, Have.QUEUE_OCCUPANCY),
    HopColumn("queue_occupancy", 32, Have.QUEUE_OCCUPANCY),
    HopColumn("congestion_queue_id", 8, Have.QUEUE_CONGESTION, json="queue_id"),
    HopColumn("queue_congestion", 32, Have.QUEUE_CONGESTION),
    HopColumn("ingress_time", 64, Have.INGRESS_TIME, "raw, in the source's unit"),
    HopColumn("egress_time", 64, Have.EGRESS_TIME, "raw, in the source's unit"),
    HopColumn("l2_ingress_port", 32, Have.L2_PORTS),
    HopColumn("l2_egress_port", 32, Have.L2_PORTS),
    HopColumn("tx_utilization", 32, Have.TX_UTILIZATION),
    HopColumn("buffer_id", 8, Have.BUFFER_OCCUPANCY),
    HopColumn("buffer_occupancy", 32, Have.BUFFER_OCCUPANCY),
    HopColumn("checksum_complement", 32, Have.CHECKSUM_COMPLEMENT),
)
"""What a hop can carry, in the order of its JSON; if a hop has two queue ids, JSON has the first."""
HOP_KEYS = tuple(dict.fromkeys(column.key for column in HOP_COLUMNS))
"""Keys of a hop in JSON and CSV."""

_HOP_BITS = [(c.name, c.bits) for c in HOP_COLUMNS] + [("present", 16), ("null", 16), ("reserved", 8)]
HOP = np.dtype([(name, f"<u{bits // 8}") for name, bits in sorted(_HOP_BITS, key=lambda one: -one[1])])
"""One hop, 64 bytes (a cache line). A field means something only where its `present` bit is set and `null`
is not.
"""


class Kind(IntEnum):
    """What a report is about."""

    INT = 0
    DROP = 1
    QUEUE = 2
    INNER = 3


class Flag(IntEnum):
    """Bits of `flags` in REPORT."""

    DROPPED = 1
    CONGESTED = 2
    TRACKED = 4
    INTERMEDIATE = 8
    JOINED = 16
    """Its path was joined from the postcards of one packet."""
    INCOMPLETE = 32
    """Postcards of its path are missing."""
    HELD = 64
    """A postcard whose hop is told with its packet's path; detection takes only its sequence number and
    marks.
    """


class IntFlag(IntEnum):
    """Bits of `int_flags` in REPORT."""

    HOPS_EXCEEDED = 1
    MTU_EXCEEDED = 2
    DISCARD = 4
    COPY = 8


class Mode(IntEnum):
    """How a packet carries telemetry: `int_mode` in REPORT, and the type of a shim (1 to 3)."""

    NONE = 0
    MD = 1
    DESTINATION = 2
    MX = 3
    IOAM_PREALLOCATED = 4
    IOAM_INCREMENTAL = 5
    IOAM_DEX = 6


class Carrier(IntEnum):
    """What carries the telemetry in the packet: `carrier` in REPORT."""

    NONE = 0
    TCP = 1
    UDP = 2
    GRE = 3
    VXLAN_GPE = 4
    GENEVE = 5
    IPV6_OPTION = 6
    UDP_INSERTED = 7
    """TCP behind a UDP header that the source inserted (port 0x1000)."""


class Layer(IntEnum):
    """Bits of `layers` in REPORT: what lies around the packet's innermost IP header."""

    VLAN = 1
    QINQ = 2
    """Two VLAN tags or more."""
    MPLS = 4
    GRE = 8
    VXLAN = 16
    VXLAN_GPE = 32
    GENEVE = 64
    GTP_U = 128
    IP_IN_IP = 256
    ERSPAN = 512
    """A mirrored frame; its GRE is not told apart."""


class Carried(IntEnum):
    """Bits of `carried` in REPORT: which optional keys of its own the report has."""

    NODE_ID = 1
    DROP_REASON = 2
    QUEUE_ID = 4
    INGRESS_TIME = 8
    OWN_HOP = 16
    """`hops[first_hop + hop_count]` holds the report's own metadata."""
    FLOW = 32
    PORTS = 64


REPORT = np.dtype(
    [
        ("time_ns", "<i8"),
        ("source_hi", "<u8"),  # outer source address, IPv4 as ::ffff:a.b.c.d
        ("source_lo", "<u8"),
        ("src_hi", "<u8"),  # the flow of the inner packet
        ("src_lo", "<u8"),
        ("dst_hi", "<u8"),
        ("dst_lo", "<u8"),
        ("ingress_time", "<u8"),  # raw
        ("packet", "<u4"),  # row in the frame batch
        ("sequence", "<u4"),
        ("node_id", "<u4"),
        ("first_hop", "<u4"),  # row in the hop block
        ("reason_at", "<u4"),  # byte offset in the frame where a refused report was being read
        ("inner_length", "<u4"),  # length that the inner IP header states, bytes
        ("hop_count", "<u2"),
        ("index", "<u2"),  # within the group
        ("sport", "<u2"),
        ("dport", "<u2"),
        ("instructions", "<u2"),  # as on the wire
        ("domain_id", "<u2"),
        ("ds_instruction", "<u2"),
        ("ds_flags", "<u2"),
        ("version", "u1"),  # 5, 10, 20; 0 where a packet was read that no report brought
        ("kind", "u1"),
        ("hw_id", "u1"),
        ("flags", "u1"),
        ("drop_reason", "u1"),
        ("queue_id", "u1"),
        ("carried", "u1"),
        ("proto", "u1"),
        ("ip_version", "u1"),  # 0, 4, 6
        ("int_version", "u1"),  # 0 where the packet carries none; 1 (2015), 4, 5, 10, 20; 91 IOAM
        ("int_mode", "u1"),  # Mode
        ("hop_words", "u1"),
        ("remaining_hops", "u1"),
        ("int_flags", "u1"),
        ("reason", "u1"),  # Reason; anything but 0 is a refused report
        ("place", "u1"),  # Place
        (
            "packet_id",
            "<u4",
        ),  # tells a packet from others of its flow, for postcards; 0 none
        ("int_at", "<u4"),  # byte offset in the frame of the INT or IOAM header (behind the shim); 0 none
        ("own_at", "<u4"),  # byte offset in the frame of the report's own metadata; 0 none
        ("tunnel_id", "<u4"),  # VNI, GRE key or TEID of the innermost tunnel
        ("vlan", "<u2"),  # VLAN id of the innermost tag
        ("layers", "<u2"),  # bits of Layer
        ("carrier", "u1"),  # Carrier
        ("npt", "u1"),  # 2.x over TCP and UDP: 0 DSCP, 1 port, 2 protocol is in the shim
        ("ttl", "u1"),  # of the innermost IP header
        ("spare", "u1"),
    ]
)
"""One report, 144 bytes. A refused report is a row too, with `reason` and what had been read before it."""


@dataclass(slots=True)
class ReportBatch:
    """Decoded reports, and their hops in path order (the source's side first)."""

    reports: Records
    """REPORT [reports]."""
    hops: Records
    """HOP [hops]; those of report r are `hops[first_hop : first_hop + hop_count]`."""
    first_packet: int = 0
    other: int = 0
    """Frames that are no reports: another protocol or port."""

    def __len__(self) -> int:
        return len(self.reports)


class DtaFlag(IntEnum):
    """Bits of `flags` in DTA."""

    IMMEDIATE = 1
    RETRANSMIT = 2


DTA = np.dtype(
    [
        ("counter", "<u8"),  # Key-Increment
        ("key_at", "<u4"),  # index in the arena
        ("data_at", "<u4"),
        ("list", "<u4"),  # Append
        ("sequence", "<u4"),  # 0 in the form without
        ("opcode", "u1"),
        ("flags", "u1"),
        ("redundancy", "u1"),
        ("hop", "u1"),  # Postcarding; 1 is the first
        ("path_length", "u1"),
        ("key_bytes", "u1"),
        ("data_bytes", "u1"),
        ("reason", "u1"),
    ]
)
"""One DTA report, 32 bytes, row by row with the frames: a damaged one is a row with a `DtaReason`.

Of an Append `key_at` is where its list stands, of a Key-Increment `data_at` is where its counter does.  A row
that the parser refused has opcode, flags and sequence where its base header is whole, and zeros.
"""

DTA_ANSWER = np.dtype(
    [
        ("source_hi", "<u8"),  # the reporter that it is for; where it was received, the translator
        ("source_lo", "<u8"),
        ("sequence", "<u4"),  # ACK: the last report that needs no keeping; NACK: the first to send again
        ("count", "<u2"),  # NACK: so many in a row; 0: all from there on (the published form)
        ("source_port", "<u2"),
        ("nack", "u1"),
        ("reason", "u1"),  # NACK: a DtaReason; 0: it is missing
        ("reserved", "<u2"),
    ]
)
"""What a translator answers, 28 bytes."""


class Opcode(IntEnum):
    """Opcode of a Base Transport Header (InfiniBand, table 38): 3 bits of service, 5 of operation."""

    RC_SEND_FIRST = 0x00
    RC_SEND_MIDDLE = 0x01
    RC_SEND_LAST = 0x02
    RC_SEND_LAST_IMMEDIATE = 0x03
    RC_SEND_ONLY = 0x04
    RC_SEND_ONLY_IMMEDIATE = 0x05
    RC_WRITE_FIRST = 0x06
    RC_WRITE_MIDDLE = 0x07
    RC_WRITE_LAST = 0x08
    RC_WRITE_LAST_IMMEDIATE = 0x09
    RC_WRITE_ONLY = 0x0A
    RC_WRITE_ONLY_IMMEDIATE = 0x0B
    RC_READ_REQUEST = 0x0C
    RC_READ_RESPONSE_FIRST = 0x0D
    RC_READ_RESPONSE_MIDDLE = 0x0E
    RC_READ_RESPONSE_LAST = 0x0F
    RC_READ_RESPONSE_ONLY = 0x10
    RC_ACK = 0x11
    RC_ATOMIC_ACK = 0x12
    RC_CMP_SWAP = 0x13
    RC_FETCH_ADD = 0x14
    UC_SEND_FIRST = 0x20
    UC_SEND_MIDDLE = 0x21
    UC_SEND_LAST = 0x22
    UC_SEND_LAST_IMMEDIATE = 0x23
    UC_SEND_ONLY = 0x24
    UC_SEND_ONLY_IMMEDIATE = 0x25
    UC_WRITE_FIRST = 0x26
    UC_WRITE_MIDDLE = 0x27
    UC_WRITE_LAST = 0x28
    UC_WRITE_LAST_IMMEDIATE = 0x29
    UC_WRITE_ONLY = 0x2A
    UC_WRITE_ONLY_IMMEDIATE = 0x2B
    UD_SEND_ONLY = 0x64
    UD_SEND_ONLY_IMMEDIATE = 0x65
    CNP = 0x81
    """Congestion notification packet (RoCEv2 annex A17.9.3)."""


class RoceFlag(IntEnum):
    """Bits of `flags` in ROCE."""

    ACK_REQUEST = 1
    SOLICITED = 2
    BECN = 4
    FECN = 8
    MIGRATION = 16


ROCE = np.dtype(
    [
        ("address", "<u8"),  # RETH and AtomicETH
        ("value", "<u8"),  # to add, or to swap in; ATOMIC_ACK: what was there
        ("compare", "<u8"),
        ("source_hi", "<u8"),  # the peer: who sent it, or to whom it is to go; IPv4 as ::ffff:a.b.c.d
        ("source_lo", "<u8"),
        ("key", "<u4"),
        ("length", "<u4"),  # DMALen
        ("queue_pair", "<u4"),  # destination
        ("source_queue_pair", "<u4"),  # DETH
        ("queue_key", "<u4"),  # DETH
        ("psn", "<u4"),
        ("message", "<u4"),  # MSN
        ("immediate", "<u4"),
        ("payload_at", "<u4"),  # index in the arena
        ("payload_bytes", "<u4"),  # without pad
        ("source_port", "<u2"),  # UDP; where it is built it is the setup's
        ("partition", "<u2"),
        ("opcode", "u1"),  # Opcode
        ("syndrome", "u1"),  # AETH
        ("flags", "u1"),  # bits of RoceFlag
        ("reason", "u1"),  # RoceReason
    ]
)
"""One RoCEv2 packet, parsed or to be built, 88 bytes, row by row with the frames."""


class RoceSetup(IntEnum):
    """Places in the setup of `roce_kernel`'s `parse` and `build`, uint64 [8]."""

    OWN_HI = 0
    """Address to which the own socket is bound, IPv4 as ::ffff:a.b.c.d."""
    OWN_LO = 1
    OWN_PORT = 2
    """UDP port from which the own socket sends."""
    LINK = 3
    """`build`: Link.UDP_PAYLOAD, or Link.ETHERNET with IP and UDP headers."""
    ANY_IP_ID = 4
    """`parse`: 1 takes UDP payloads whose ICRC is right for any IPv4 identification: weaker by 17 bits."""


LABEL = np.dtype(
    [
        ("time_ns", "<i8"),  # when the switch labelled the packet, by its own clock
        ("node_id", "<u4"),
        ("latency_ns", "<u4"),  # of the packet in this switch until then
        ("occupancy", "<u4"),  # of the egress queue, bytes
        ("packet", "<u4"),  # number of its packet among those of the batch: its labels follow each other
        ("ingress_port", "<u2"),
        ("egress_port", "<u2"),
        ("position", "u1"),  # 0: its packet's first label, the nearest to the source
        ("count", "u1"),  # labels of its packet
        ("tracked", "u1"),  # 1: of a tracked flow (INT-label, 3.3)
        ("reserved", "u1"),
    ]
)
"""One label, 32 bytes: what one switch wrote into a packet (INT-label, section 2)."""

LABEL_FLOW = np.dtype(
    [
        ("src_hi", "<u8"),
        ("src_lo", "<u8"),
        ("dst_hi", "<u8"),
        ("dst_lo", "<u8"),
        ("packet", "<u4"),  # as in LABEL
        ("sport", "<u2"),  # 0 without ports, and of fragments
        ("dport", "<u2"),
        ("proto", "u1"),
        ("spare", "u1", (7,)),
    ]
)
"""The flow of a tracked packet, 48 bytes, as its last hop says it; IPv4 as ::ffff:a.b.c.d."""
