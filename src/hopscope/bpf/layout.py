"""Structures that the XDP program (`shared.h`) and Python share, as NumPy types."""

from __future__ import annotations

from enum import IntEnum

import numpy as np

from ..detect.records import INLINE_HOPS, KEYS

MAX_PAYLOAD = 9216
"""Longest UDP payload that is passed up, bytes."""
MAX_PROCESSORS = 256
PROBES = 8
"""Number of places, from its hash on, where the program looks for a port or source."""
NOWHERE = 0xFFFFFFFF
"""Row of a source that the program does not follow."""

RECORD_BYTES = 8
"""Header of each record of a BPF ring: length with two flags, page offset (kernel/bpf/ringbuf.c)."""
BUSY, DISCARDED = 1 << 31, 1 << 30
"""Flags in a record's length: the record is being written; the record must be skipped."""


class Count(IntEnum):
    """What happened to a datagram (enum count). *Passed up*: passed to the collector in user space."""

    FILTERED = 0
    """Ended in the program: nothing in it would change the detector's state."""
    UNUSUAL = 1
    """Passed up: a form that the program does not compare."""
    UNKNOWN = 2
    """Passed up: a flow, path, queue, buffer, port or source that is not compared yet."""
    CHANGED = 3
    """Passed up: a value beyond its limits."""
    FLAGGED = 4
    """Passed up: a report about a drop or a congested queue."""
    SEQUENCE = 5
    """Passed up: not the next sequence number of its source."""
    BUSY = 6
    """Passed up: another CPU held the lock of the tables for too long."""
    UNFILTERED = 7
    """Passed up: the filter is off."""
    RING_FULL = 8
    """Lost: no room in the ring."""
    OVERSIZED = 9
    """Lost: longer than MAX_PAYLOAD."""
    FRAGMENT = 10
    """Left to the network stack: an IP fragment."""
    BAD_LENGTH = 11
    """Left to the network stack: lengths that contradict each other."""

    @property
    def label(self) -> str:
        """Lower-case name, as counted."""
        return self.name.lower()


COUNTERS = np.dtype(
    [
        ("datagrams", "<u8", (len(Count),)),
        ("reports", "<u8"),  # filtered reports
        ("hops", "<u8"),  # their hops
        ("values", "<u8"),  # their values, as the detector counts them
        ("bytes", "<u8"),  # bytes in the payloads of filtered datagrams
    ]
)
"""Counters of one CPU (struct counters)."""


class Mark(IntEnum):
    """Bits of `marks` of a datagram that is passed up (enum mark)."""

    NUMBERED = 1
    """Its sequence number was the next one: the detector does not check it."""
    MERGE = 2
    """`received` of its source must be merged before its number is checked."""
    UNUSUAL = 4
    """The program does not know what the detector changes because of it."""


REPORT_HEAD = np.dtype(
    [
        ("time_ns", "<u8"),  # CLOCK_MONOTONIC
        ("source_high", "<u8"),  # IPv6, or IPv4 as ::ffff:a.b.c.d
        ("source_low", "<u8"),
        ("length", "<u4"),  # of the payload that follows, bytes
        ("source_port", "<u2"),
        ("port", "<u2"),
        ("received", "<u8"),  # its source's reports in sequence so far
        ("source", "<u4"),  # row of its source, or NOWHERE
        ("marks", "<u4"),  # Mark
    ]
)
"""Header before the payload of a datagram in the ring (struct report_head)."""


class State(IntEnum):
    """State of a row (enum state). Python writes all of an ABSENT row, and only the state of other rows."""

    ABSENT = 0
    """Not compared."""
    WATCHED = 1
    """Followed, but its reports are passed up, since reports on their way may still change it."""
    ACTIVE = 2
    """Compared."""
    SETTLING = 3
    """Of a source: earlier reports may have higher numbers."""


HOP = np.dtype(
    [
        ("node", "<u4"),
        ("latency_stored", "<u4"),
        ("latency_change", "<u4"),  # the largest difference that is not a change
        ("latency_above", "<u4"),  # limit
        ("port_slot", "<u4"),  # rows of PORT
        ("queue_slot", "<u4"),
        ("buffer_slot", "<u4"),
        ("samples", "<u4"),
        ("latency_sum", "<u8"),
        ("latency_latest", "<u4"),
        ("queue_latest", "<u4"),
        ("utilization_latest", "<u4"),
        ("egress_port", "<u2"),
        ("has_latency", "<u2"),
        ("low", "<u4"),  # bounds of latencies that cause no event, kept by the program as for a port
        ("high", "<u4"),
    ]
)
"""One hop of a flow (struct hop)."""

FLOW = np.dtype(
    [
        ("addresses", "<u8", (4,)),  # source high, low, destination high, low
        ("transport", "<u8"),  # ports, protocol and IP version, as `pack_l4`
        ("state", "<u4"),
        ("hop_count", "<u4"),
        ("latency_stored", "<u8"),
        ("latency_change", "<u8"),
        ("latency_above", "<u8"),
        ("packets", "<u8"),  # filtered packets; the fields below count only filtered ones, too
        ("last_ns", "<u8"),
        ("latency_latest", "<u8"),
        ("latency_sum", "<u8"),
        ("latency_samples", "<u8"),
        ("has_latency", "<u4"),
        ("spoiled", "<u4"),  # the program can no longer follow it
        ("touched", "<u4"),  # a report came since it has been followed: the program has the latest values
        ("block", "<u4"),  # block of the pool, from 0, if it has more than INLINE_HOPS
        ("hops", HOP, (INLINE_HOPS,)),
    ]
)
"""One flow, at the place of its row in the detector's FLOW (struct flow)."""

METRIC = np.dtype(
    [
        # bounds of values that cause no event: the program sets them when it first compares the row, and when
        # `stored` changes; until then, no value is within them
        ("low", "<u4"),
        ("high", "<u4"),
        ("latest", "<u4"),
        ("highest", "<u4"),  # since Python set it to 0
        ("stored", "<u4"),
        ("change", "<u4"),  # the largest difference that is not a change
        ("above", "<u4"),  # limit
        ("reserved", "<u4"),
    ]
)
"""Values and limits of one metric of a port (struct metric)."""

PORT = np.dtype(
    [
        ("key", "<u8"),
        ("last_ns", "<u8"),
        ("state", "<u4"),
        ("samples", "<u4"),
        ("touched", "<u4"),  # as for a flow
        ("spoiled", "<u4"),  # the program cannot follow it any longer
        ("metrics", METRIC, (2,)),
        ("has", "<u4"),  # bit per metric: has a value
        ("reserved", "<u4"),
        ("padding", "<u8", (3,)),
    ]
)
"""One queue, buffer or egress port, at the place of its row in the detector's PORT (struct port)."""

SOURCE = np.dtype(
    [
        ("high", "<u8"),
        ("low", "<u8"),
        ("node", "<u4"),
        ("hardware", "<u4"),
        ("bits", "<u4"),  # 22 or 32
        ("state", "<u4"),  # WATCHED: the next report gives the number to continue from
        ("highest", "<u4"),  # while SETTLING: the first number that arrived
        ("reserved", "<u4"),
        ("received", "<u8"),  # reports in sequence, filtered or NUMBERED
        ("last_ns", "<u8"),
        ("padding", "<u8"),
    ]
)
"""One sequence space, at the place of its row in the detector's SOURCE (struct source)."""

TAGS = np.dtype([("ways", "<u4", (16,))])
"""Tags of a row of flows; 0: the flow is not in the program's table (struct tags)."""

CONSTANTS = np.dtype(
    [
        ("report_port", ">u2"),
        ("stores_in_order", "<u2"),  # CPUs see each other's stores in order, as on x86
        ("queues_by_port", "<u2"),
        ("promiscuous", "<u2"),  # frames for other machines are taken, too
    ]
)
"""Values that Python sets before the program is loaded (struct constants)."""

CONTROL = np.dtype(
    [
        ("lock", "<u8"),  # odd: a CPU uses the tables
        ("dscp", "<u8"),  # bit per DSCP that announces INT
        ("keys", "<u8", (KEYS,)),
        ("filter", "<u4"),
        ("near_mask", "<u4"),  # rows - 1, as below
        ("flow_mask", "<u4"),
        ("port_mask", "<u4"),
        ("source_mask", "<u4"),
        ("reserved", "<u4"),
        ("jiffies", "<u8"),  # of `now_ns`
        ("now_ns", "<u8"),  # the coarse clock, read once a tick
        ("spoiled", "<u8"),  # number of flows so far that it could no longer follow
        ("address", "<u8"),  # address of the interface, as in a frame
        ("padding", "<u8", (5,)),
    ]
)
"""Values that Python sets while the program runs (struct control)."""


def near_flows(rows: int) -> int:
    """Number of places of flows that the program remembers, for a table of `rows` rows: a power of two."""
    return 4 * rows
