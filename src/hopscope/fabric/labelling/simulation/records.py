"""Records of INT-label's simulation kernels: sources, routes, packets, ports, labels.

Times are ps and sizes bytes, as in `fabric.records`.
"""

from __future__ import annotations

from enum import IntEnum, IntFlag
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ....wire.records import Records

NO_ROW = -1
"""No row; marks the end of a list or route."""
NEVER_LABELLED = -(1 << 61)
"""Time of the last label of a port without one, ps."""

IP_HEADER = 20
"""Bytes of the IP header that a packet and each of its fragments has."""


class SourceFlag(IntFlag):
    """Properties of a source, and of its packets."""

    RANDOM = 1
    """Exponential gaps between packets instead of equal ones."""
    PROBE = 2
    """Its packets are probes, counted separately."""
    LABEL_ALWAYS = 4
    """Every switch writes its item into them, as in HULA or INT-path."""
    LABEL_NEVER = 8
    """No switch labels them, as in Pingmesh."""
    TRACKED = 16
    """Packet only: labelled at every switch (INT-label, 3.3)."""
    FRAGMENT = 32
    """Packet only: the second fragment of one that labels made too long."""


SOURCE = np.dtype(
    [
        ("next", "<i8"),  # time of its next packet
        ("gap", "<i8"),  # mean time between packets
        ("remaining", "<i8"),  # packets still to send
        ("serial", "<u4"),  # number of the source; seeds its random numbers, so row order has no effect
        ("sent", "<u4"),  # packets
        ("size", "<u4"),  # IP length of its packets
        ("tracked", "<u4"),  # one packet in this many is tracked; 0: none
        ("routes_first", "<i4"),  # first row of its routes in `starts`
        ("routes_count", "<i4"),
        ("flags", "<u4"),  # SourceFlag: RANDOM, PROBE, LABEL_ALWAYS, LABEL_NEVER
        ("reserved", "<u4"),
    ]
)
"""One open-loop sender: its rate does not depend on the network."""

ROUTE = np.dtype(
    [
        ("port", "<i4"),  # row in the topology's ports
        ("next", "<i4"),  # row of the node after this port's link; NO_ROW: delivered
        ("copies", "<u2"),  # nodes from `next` on that get a copy each
        ("ingress", "<u2"),  # ingress port number; 0: from a host
    ]
)
"""One port on a route; routes are chains, or trees if packets are copied."""

PACKET = np.dtype(
    [
        ("time", "<i8"),  # of its arrival at the port of its node
        ("number", "<u8"),  # source's serial << 32 | packet of the source: orders packets of the same ps
        ("node", "<i4"),  # its current row of ROUTE
        ("labels", "<i4"),  # row of its newest LABEL_NODE; NONE: it carries none
        ("size", "<u2"),  # IP length without labels
        ("flags", "u1"),  # SourceFlag
        ("hops", "u1"),  # switches passed, at most 255
        ("count", "<u4"),  # labels carried
    ]
)
"""One packet in the network, 32 bytes: two share a cache line."""

LABEL_NODE = np.dtype(
    [
        ("time", "<i8"),  # when its first bit left the labelling port
        ("next", "<i4"),  # the previous label
        ("port", "<i4"),
        ("latency", "<u4"),  # in this switch until then, ns
        ("occupancy", "<u4"),  # of the egress queue, bytes
        ("ingress", "<u2"),  # port number
        ("reserved", "<u2"),
        ("reserved2", "<u4"),
    ]
)
"""One label in a packet: a linked list, newest first."""

LABELLING_PORT = np.dtype(
    [
        ("free", "<i8"),  # when the last bit of the queue will have left
        ("ready", "<i8"),  # when the last packet left the pipeline
        ("last", "<i8"),  # Reg1: time of its last label
        ("interval_end", "<i8"),  # end of the telemetry interval in which it last sent traffic
        ("packets", "<u8"),  # sent
        ("labels", "<u4"),  # written
        ("ps_per_byte", "<u4"),
        ("buffer", "<u4"),  # queue capacity, bytes
        ("loss", "<u4"),  # loss probability of its link · 2^32, at most 2^32 - 1
        ("shift", "u1"),  # Reg2: S, or the flag of the one-bit form
        ("flags", "u1"),  # PortFlag
        ("reserved", "u1", (6,)),
    ]
)
"""One port: FIFO queue, link, and the registers of INT-label; 64 bytes, a cache line."""


class PortFlag(IntFlag):
    """Kind and state of a port."""

    SWITCH = 1
    """Port of a switch; otherwise a host interface, which never labels."""
    LAST_HOP = 2
    """It leads to a host: labels are removed here."""
    DOWN = 4
    """Its link is down."""
    LOSE_ALL = 8
    """Its link loses every packet."""


RECEIVED_LABEL = np.dtype(
    [
        ("labelled", "<i8"),  # when the packet's first bit left the labelling port
        ("exported", "<i8"),  # when the last switch removed it
        ("received", "<i8"),  # when the controller received it
        ("port", "<i4"),  # row in the topology's ports
        ("latency", "<u4"),  # of the packet in that switch until then, ns
        ("occupancy", "<u4"),  # of the egress queue, bytes
        ("source", "<u4"),  # serial of the packet's source
        ("packet", "<u8"),  # number of the packet
        ("ingress", "<u2"),  # port number
        ("position", "<u2"),  # in its packet; 0: the first label, nearest to the source
        ("count", "<u2"),  # labels of its packet
        ("flags", "<u2"),  # SourceFlag of its packet
    ]
)
"""One label that reached the controller."""


class TooLong(IntEnum):
    """Handling of packets that a label would push over the MTU."""

    SKIP = 0
    FRAGMENT = 1


SETUP = np.dtype(
    [
        ("seed", "<u8"),
        ("interval", "<i8"),  # T
        ("rest", "<i8"),  # T1
        ("telemetry", "<i8"),
        ("pipeline", "<i8"),
        ("jitter", "<i8"),  # maximum added to the pipeline's delay
        ("propagation", "<i8"),
        ("export", "<i8"),  # T_u: last hop to controller
        ("bucket_shift", "<i8"),  # a bucket lasts 2^this ps
        ("item_bytes", "<i8"),
        ("option_bytes", "<i8"),
        ("mtu", "<i8"),  # IP bytes
        ("chance", "<i8"),  # Chance
        ("max_hop", "<i8"),
        ("too_long", "<i8"),  # TooLong
    ]
)
"""Constant parameters of a simulation; one row."""


class EngineSlot(IntEnum):
    """Slots of the engine's state, int64."""

    BUCKET = 0
    """Current bucket."""
    OVERFLOW = 1
    """First event of the list beyond the ring."""
    FREE_PACKET = 2
    """First free row; the others are linked."""
    FREE_PACKETS = 3
    """Number of free rows."""
    FREE_LABEL = 4
    FREE_LABELS = 5
    LOGGED = 6
    """Labels in the log."""
    SLOTS = 8


class Count(IntEnum):
    """Slots of the counts, int64: those of traffic, then from PROBES on those of probes."""

    EMITTED = 0
    DELIVERED = 1
    TAIL_DROP = 2
    """Dropped because the queue was full."""
    LOST = 3
    """Lost by the link at random."""
    LINK_DOWN = 4
    """Sent into a failed link."""
    COPIES = 5
    """Additional packets at branches of a route."""
    FRAGMENTS = 6
    """Additional packets because a labelled one was too long."""
    LABELLED_PACKETS = 7
    """Packets delivered with labels."""
    LABELS = 8
    """Labels written."""
    LABELS_LOST = 9
    """Labels in dropped packets."""
    SKIPPED = 10
    """Labels not written because the packet would have been too long."""
    HOPS = 11
    """Packets sent by ports, counted at every hop."""
    BYTES = 12
    """IP bytes on links, without labels."""
    LABEL_BYTES = 13
    """Bytes of labels and options on links."""
    PROBES = 16


HISTOGRAM = 16
"""Rows and columns of the histogram of packets by switches passed and labels; the
last ones mean `or more`.
"""


class Net(NamedTuple):
    """All arrays of the kernels."""

    setup: Records
    """SETUP [1]"""
    table: npt.NDArray[np.float64]
    """Probabilities of Chance.TABLE [labels, parts of the interval]."""
    state: npt.NDArray[np.int64]
    """By EngineSlot."""
    counts: npt.NDArray[np.int64]
    """By Count."""
    histogram: npt.NDArray[np.int64]
    active: npt.NDArray[np.uint8]
    """[intervals, ports]: 1 if a port sent traffic in a telemetry interval."""
    sources: Records
    starts: npt.NDArray[np.int32]
    """First node of each route."""
    routes: Records
    packets: Records
    """PACKET pool; free rows are linked by `link`."""
    link: npt.NDArray[np.int32]
    """Next event in the same bucket, by source, then by packet."""
    heads: npt.NDArray[np.int32]
    """First event of each bucket of the ring."""
    ports: Records
    labels: Records
    """LABEL_NODE pool; free rows are linked by `next`."""
    log: Records
    """RECEIVED_LABEL: labels exported by last hops."""


class StopReason(IntEnum):
    """Reason why the engine returned."""

    DONE = 0
    PACKETS = 1
    """The packet pool is full; the engine is called again with a larger one."""
    LABELS = 2
    LOG = 3
    KEYS = 4
