"""What passes through the kernels of INT-label's simulation: sources, routes, packets, ports, labels.

Times are ps and sizes bytes, as in `fabric.records`.
"""

from __future__ import annotations

from enum import IntEnum, IntFlag
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ....wire.records import Records

NONE = -1
"""No row: the end of a list, the end of a route."""
NEVER = -(1 << 61)
"""Last label of a port that has labelled nothing yet, ps."""

IP_HEADER = 20
"""Bytes of the IP header that a packet and each of its fragments has."""


class SourceFlag(IntFlag):
    """What a source sends, and what of it goes with each packet."""

    RANDOM = 1
    """Exponential gaps between packets; otherwise equal ones."""
    PROBE = 2
    """Its packets are probes: counted apart from traffic."""
    ALWAYS = 4
    """Every switch writes its item into them, as into a probe of HULA or INT-path."""
    NEVER = 8
    """No switch labels them, as a ping of Pingmesh."""
    TRACKED = 16
    """Packet: labelled at every switch (INT-label, 3.3)."""
    FRAGMENT = 32
    """Packet: the later part of one that labels made too long."""


SOURCE = np.dtype(
    [
        ("next", "<i8"),  # when it sends its next packet
        ("gap", "<i8"),  # mean time between packets
        ("remaining", "<i8"),  # packets still to send
        ("serial", "<u4"),  # number of the source: seeds its randomness, so the order of rows is of no effect
        ("sent", "<u4"),  # packets
        ("size", "<u4"),  # of its packets, IP length
        ("tracked", "<u4"),  # every so many packets one is tracked; 0: none
        ("routes_first", "<i4"),  # row in the starts: the routes that it draws from
        ("routes_count", "<i4"),
        ("flags", "<u4"),  # SourceFlag: RANDOM, PROBE, ALWAYS, NEVER
        ("reserved", "<u4"),
    ]
)
"""One sender, open loop: it sends at its own rate whatever the network does."""

ROUTE = np.dtype(
    [
        ("port", "<i4"),  # row in the topology's ports
        ("next", "<i4"),  # row of the node behind this port's link; NONE: the packet has arrived
        ("copies", "<u2"),  # nodes from `next` on, each of which gets a copy
        ("ingress", "<u2"),  # number of the port by which packets come in; 0: from a host
    ]
)
"""One port on a route; routes are chains, or trees where packets are copied."""

PACKET = np.dtype(
    [
        ("time", "<i8"),  # arrival at the port of its node
        ("number", "<u8"),  # source's serial << 32 | packet of the source: orders packets of the same ps
        ("node", "<i4"),  # row of ROUTE: where it is
        ("labels", "<i4"),  # row of its newest LABEL_NODE; NONE: it carries none
        ("size", "<u2"),  # IP length without labels
        ("flags", "u1"),  # SourceFlag
        ("hops", "u1"),  # switches that it has passed; stops at 255
        ("count", "<u4"),  # labels that it carries
    ]
)
"""One packet in the network, 32 bytes: two share a cache line."""

LABEL_NODE = np.dtype(
    [
        ("time", "<i8"),  # its first bit leaves the port that labels it
        ("next", "<i4"),  # the label before it
        ("port", "<i4"),
        ("latency", "<u4"),  # in this switch until then, ns
        ("occupancy", "<u4"),  # of the egress queue, bytes
        ("ingress", "<u2"),  # port number
        ("reserved", "<u2"),
        ("reserved2", "<u4"),
    ]
)
"""One label in a packet: a list, the newest first."""

LABEL_PORT = np.dtype(
    [
        ("free", "<i8"),  # when the last bit of all that is queued has left
        ("ready", "<i8"),  # when the last packet left the pipeline
        ("last", "<i8"),  # Reg1: when it labelled last
        ("interval_end", "<i8"),  # of the telemetry interval in which it sent traffic last
        ("packets", "<u8"),  # sent
        ("labels", "<u4"),  # written
        ("ps_per_byte", "<u4"),
        ("buffer", "<u4"),  # bytes that the queue holds
        ("loss", "<u4"),  # chance that its link loses a packet · 2^32, at most 2^32 - 1
        ("shift", "u1"),  # Reg2: S, or the flag of the one-bit form
        ("flags", "u1"),  # PortFlag
        ("reserved", "u1", (6,)),
    ]
)
"""One port: FIFO queue, link, and the registers of INT-label; 64 bytes, a cache line."""


class PortFlag(IntFlag):
    """What a port is."""

    SWITCH = 1
    """A switch's; otherwise a host's card, which labels nothing."""
    LAST = 2
    """It leads to a host: labels are taken off here."""
    DOWN = 4
    """Its link has failed."""
    LOSE_ALL = 8
    """Its link loses every packet."""


LABELLED = np.dtype(
    [
        ("labelled", "<i8"),  # the packet's first bit left the port that wrote the label
        ("exported", "<i8"),  # the last switch took it off
        ("received", "<i8"),  # the controller has it
        ("port", "<i4"),  # row in the topology's ports
        ("latency", "<u4"),  # of the packet in that switch until then, ns
        ("occupancy", "<u4"),  # of the egress queue, bytes
        ("source", "<u4"),  # serial of the packet's source
        ("packet", "<u8"),  # number of the packet
        ("ingress", "<u2"),  # port number
        ("position", "<u2"),  # 0: its packet's first label, the nearest to the source
        ("count", "<u2"),  # labels of its packet
        ("flags", "<u2"),  # SourceFlag of its packet
    ]
)
"""One label that reached the controller."""


class TooLong(IntEnum):
    """What happens to packets that a label would push over the MTU."""

    SKIP = 0
    FRAGMENT = 1


SETUP = np.dtype(
    [
        ("seed", "<u8"),
        ("interval", "<i8"),  # T
        ("rest", "<i8"),  # T1
        ("telemetry", "<i8"),
        ("pipeline", "<i8"),
        ("jitter", "<i8"),  # most that is added to the pipeline's delay
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
"""What does not change while a simulation runs; one row."""


class State(IntEnum):
    """Places in the engine's state, int64."""

    BUCKET = 0
    """Bucket that is being served."""
    FAR = 1
    """First event beyond the ring."""
    FREE_PACKET = 2
    """First free row; the others follow by their links."""
    FREE_PACKETS = 3
    """How many rows are free."""
    FREE_LABEL = 4
    FREE_LABELS = 5
    LOGGED = 6
    """Labels in the log."""
    PLACES = 8


class Count(IntEnum):
    """Places in the counts, int64; those of traffic, then from PROBES on the same of probes."""

    EMITTED = 0
    DELIVERED = 1
    TAIL_DROP = 2
    """The queue was full."""
    LOST = 3
    """By the link's chance."""
    LINK_DOWN = 4
    """Sent into a link that has failed."""
    COPIES = 5
    """Further packets where a route branches."""
    FRAGMENTS = 6
    """Further packets where a labelled one was too long."""
    LABELLED = 7
    """Packets that arrived and had labels."""
    LABELS = 8
    """Written."""
    LABELS_LOST = 9
    """In packets that were dropped."""
    SKIPPED = 10
    """Labels that were not written: the packet would have been too long."""
    HOPS = 11
    """Times that a packet was sent by a port."""
    BYTES = 12
    """On links, IP length without labels."""
    LABEL_BYTES = 13
    """On links, labels with their options."""
    PROBES = 16


HISTOGRAM = 16
"""Rows and columns of the histogram of packets by switches passed and labels; the last are `or more`."""


class Net(NamedTuple):
    """All that the kernels work on."""

    setup: Records
    """SETUP [1]"""
    state: npt.NDArray[np.int64]
    """By State."""
    counts: npt.NDArray[np.int64]
    """By Count."""
    histogram: npt.NDArray[np.int64]
    active: npt.NDArray[np.uint8]
    """[intervals, ports]: 1 where a port sent traffic in a telemetry interval."""
    sources: Records
    starts: npt.NDArray[np.int32]
    """First node of each route."""
    routes: Records
    packets: Records
    """PACKET pool; free rows are a list by `link`."""
    link: npt.NDArray[np.int32]
    """The next event in its bucket, of sources, then of packets."""
    heads: npt.NDArray[np.int32]
    """First event of each bucket of the ring."""
    ports: Records
    labels: Records
    """LABEL_NODE pool; free rows are a list by `next`."""
    log: Records
    """LABELLED: what last hops have exported."""


class Stop(IntEnum):
    """Why the engine returned."""

    DONE = 0
    PACKETS = 1
    """The packet pool is full; it is called again with a larger one."""
    LABELS = 2
    LOG = 3
    KEYS = 4
