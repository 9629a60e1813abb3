"""Data that rooms exchange: frame batches in, report batches out, as blocks of fixed-width records."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt

Records = npt.NDArray[np.void]
"""A one-dimensional array of structured records."""

MAX_HOPS = 64
"""Most hops of one report; a report with more is rejected as `too_many_hops`."""
MAX_EMPTY_REPORTS = 8
"""Most reports of one datagram that may contain neither a packet nor metadata; a further one is rejected as
`empty_reports`, with the rest of the datagram.
"""
DAMAGED_PER_EMPTY = 8
"""Number of damaged reports that count as one empty report: 64 of a datagram are read."""


class Link(IntEnum):
    """First header of a frame: libpcap link types, and 255 for the payload of a UDP socket."""

    NULL = 0
    ETHERNET = 1
    RAW_IP = 101
    LINUX_SLL = 113
    LINUX_SLL2 = 20  # libpcap 276 does not fit 8 bits
    OTHER = 254  # any other link type of a capture file, in which reports are not searched
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
"""One captured frame: `offset` and `length` (bytes) in the arena; `wire_length` is its length before it was
cut.

`source_*` (address: IPv6, or IPv4 as ::ffff:a.b.c.d; port) and `port` (destination) are set if `link` is
UDP_PAYLOAD; the decoder finds them itself in every other frame. `time_ns` is ns since the Unix epoch.
"""


@dataclass(slots=True)
class FrameBatch:
    """Frames as passed on by capture, without an object per packet."""

    arena: npt.NDArray[np.uint8]
    """All bytes, uint8 [bytes]."""
    frames: Records
    """FRAME [frames]."""
    first_packet: int = 0
    """Number of the first frame, counted from 0 over the whole file or socket."""

    def __len__(self) -> int:
        return len(self.frames)


class Have(IntEnum):
    """Bits of `present` and `null` in HOP: which fields a hop carries (in INT 2.x order), and which of them
    are all ones.
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


def _column(width: int, have: Have, doc: str = "", json: str = "") -> Any:
    return field(default=0, metadata={"bits": width, "have": have, "doc": doc, "json": json})


@dataclass(slots=True)
class Hop:
    """One hop's metadata, or a report's own; the columns of HOP and their properties are derived from this
    class.
    """

    node_id: int = _column(32, Have.NODE_ID)
    ingress_port: int = _column(16, Have.PORTS)
    egress_port: int = _column(16, Have.PORTS)
    hop_latency: int = _column(32, Have.HOP_LATENCY, "raw, in the source's unit")
    queue_id: int = _column(8, Have.QUEUE_OCCUPANCY)
    queue_occupancy: int = _column(32, Have.QUEUE_OCCUPANCY)
    congestion_queue_id: int = _column(8, Have.QUEUE_CONGESTION, json="queue_id")
    queue_congestion: int = _column(32, Have.QUEUE_CONGESTION)
    ingress_time: int = _column(64, Have.INGRESS_TIME, "raw, in the source's unit")
    egress_time: int = _column(64, Have.EGRESS_TIME, "raw, in the source's unit")
    l2_ingress_port: int = _column(32, Have.L2_PORTS)
    l2_egress_port: int = _column(32, Have.L2_PORTS)
    tx_utilization: int = _column(32, Have.TX_UTILIZATION)
    buffer_id: int = _column(8, Have.BUFFER_OCCUPANCY)
    buffer_occupancy: int = _column(32, Have.BUFFER_OCCUPANCY)
    checksum_complement: int = _column(32, Have.CHECKSUM_COMPLEMENT)
    present: int = 0
    """Bits of Have: which values it has."""
    null: int = 0
    """Bits of Have: which of them are all ones."""
    reserved: int = 0


@dataclass(frozen=True, slots=True)
class HopColumn:
    """One value of a hop: a column of HOP."""

    name: str
    bits: int
    have: Have
    """The bit that states whether a hop has it."""
    doc: str = ""
    json: str = ""
    """Its key in JSON and CSV, if that is not its name."""

    @property
    def key(self) -> str:
        """Its key in JSON and CSV."""
        return self.json or self.name


HOP_COLUMNS = tuple(HopColumn(column.name, **column.metadata) for column in fields(Hop) if column.metadata)
"""Values that a hop can carry, in the order of JSON; if a hop has two queue ids, JSON has the first."""
HOP_KEYS = tuple(dict.fromkeys(column.key for column in HOP_COLUMNS))
"""Keys of a hop in JSON and CSV."""
HOP_MAX = {column.name: (1 << column.bits) - 1 for column in HOP_COLUMNS}
"""Maximum of each column; a wider value, which a dialect may have, saturates."""

_HOP_BITS = [(c.name, c.bits) for c in HOP_COLUMNS] + [("present", 16), ("null", 16), ("reserved", 8)]
HOP = np.dtype([(name, f"<u{bits // 8}") for name, bits in sorted(_HOP_BITS, key=lambda pair: -pair[1])])
"""One hop, 64 bytes (a cache line). A field is valid only if its `present` bit is set and `null`
is not.
"""


class Kind(IntEnum):
    """Subject of a report."""

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
    """A postcard whose hop is reported with its packet's path; detection uses only its sequence number and
    marks.
    """
    NUMBERED = 128
    """Its sequence number was checked before, in the kernel."""


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
    IFA = 7


class Carrier(IntEnum):
    """Header that carries the telemetry in the packet: `carrier` in REPORT."""

    NONE = 0
    TCP = 1
    UDP = 2
    GRE = 3
    VXLAN_GPE = 4
    GENEVE = 5
    IPV6_OPTION = 6
    UDP_INSERTED = 7
    """TCP after a UDP header that the source inserted (port 0x1000)."""
    IP_PROTOCOL = 8
    """An IP protocol of its own, before TCP or UDP (IFA)."""


class Layer(IntEnum):
    """Bits of `layers` in REPORT: layers around the packet's innermost IP header."""

    VLAN = 1
    QINQ = 2
    """Two or more VLAN tags."""
    MPLS = 4
    GRE = 8
    VXLAN = 16
    VXLAN_GPE = 32
    GENEVE = 64
    GTP_U = 128
    IP_IN_IP = 256
    ERSPAN = 512
    """A mirrored frame; its GRE header does not set GRE."""


class Carried(IntEnum):
    """Bits of `carried` in REPORT: which optional keys of its own the report has."""

    NODE_ID = 1
    DROP_REASON = 2
    QUEUE_ID = 4
    INGRESS_TIME = 8
    OWN_HOP = 16
    """`hops[first_hop + hop_count]` holds the report's metadata."""
    FLOW = 32
    PORTS = 64


class Spare(IntEnum):
    """`spare` in REPORT: properties of postcards beyond their contents."""

    ELSEWHERE = 1
    """Another member of the cluster received it, and has counted its sequence number and its marks
    (`postcards.share`).
    """
    COUNTED = 2
    """It arrived late: the path of its packet had been emitted."""


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
        ("reason_at", "<u4"),  # byte offset in the frame where a rejected report was being read
        ("inner_length", "<u4"),  # length in the inner IP header, bytes; IPFIX: data records, in row 0
        ("hop_count", "<u2"),
        ("index", "<u2"),  # within the group
        ("sport", "<u2"),
        ("dport", "<u2"),
        ("instructions", "<u2"),  # as on the wire
        ("domain_id", "<u2"),
        ("ds_instruction", "<u2"),
        ("ds_flags", "<u2"),
        # 5, 10, 20; 105 sFlow, 109 NetFlow 9, 110 IPFIX; 0: a packet that no report brought
        ("version", "u1"),
        ("kind", "u1"),
        ("hw_id", "u1"),
        ("flags", "u1"),
        ("drop_reason", "u1"),
        ("queue_id", "u1"),
        ("carried", "u1"),
        ("proto", "u1"),
        ("ip_version", "u1"),  # 0, 4, 6
        ("int_version", "u1"),  # 0 if the packet carries none; 1 (2015), 4, 5, 10, 20; 91 IOAM, 92 IFA
        ("int_mode", "u1"),  # Mode
        ("hop_words", "u1"),
        ("remaining_hops", "u1"),
        ("int_flags", "u1"),
        ("reason", "u1"),  # Reason; anything but 0 is a rejected report
        ("place", "u1"),  # Place
        # distinguishes packets of a flow, for postcards, 0 none; sample or flow record: number of its packets
        ("packet_id", "<u4"),
        # byte offset in the frame of the INT (after the shim), IOAM or IFA metadata header; 0 none
        ("int_at", "<u4"),
        ("own_at", "<u4"),  # byte offset in the frame of the report's metadata; 0 none
        ("tunnel_id", "<u4"),  # VNI, GRE key or TEID of the innermost tunnel
        ("vlan", "<u2"),  # VLAN id of the innermost tag
        ("layers", "<u2"),  # bits of Layer
        ("carrier", "u1"),  # Carrier
        ("npt", "u1"),  # 2.x over TCP and UDP: 0 DSCP, 1 port, 2 protocol is in the shim
        ("ttl", "u1"),  # of the innermost IP header
        ("spare", "u1"),  # Spare: 1 received by another member of the cluster, 2 a late postcard
    ]
)
"""One report, 144 bytes. A rejected report is a row, too, with `reason` and the values read until then."""


@dataclass(slots=True)
class ReportBatch:
    """Decoded reports, and their hops in path order (the source's side first)."""

    reports: Records
    """REPORT [reports]."""
    hops: Records
    """HOP [hops]; report r has `hops[first_hop : first_hop + hop_count]`."""
    first_packet: int = 0
    other: int = 0
    """Frames that are not reports: another protocol or port."""
    unknown_int: int = 0
    """Packets, including those inside reports, whose DSCP or port announces INT, but whose INT is of no known
    version: they are treated as ordinary traffic.
    """
    trails: npt.NDArray[np.uint64] = field(default_factory=lambda: np.zeros((1, 0), np.uint64))
    """Headers around the INT-MD, IFA or IOAM of captured packets, uint64 [numbers of a trail, frames]; no
    columns unless the decoder was asked for them (`decode/trail_kernel`).
    """
    postcards: bool | None = None
    """Whether there are postcards among the reports; None: not checked yet."""
    hop_packets: npt.NDArray[np.uint64] | None = None
    """For paths joined from postcards, uint64 [hops]: `first_packet` + `packet` of each hop's postcard."""

    def __len__(self) -> int:
        return len(self.reports)
