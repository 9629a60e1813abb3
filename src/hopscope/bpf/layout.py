"""What the program and Python share: `shared.h` in NumPy's words."""

from __future__ import annotations

from enum import IntEnum

import numpy as np

from ..detect.records import INLINE_HOPS, KEYS

MAX_PAYLOAD = 9216
"""Longest UDP payload that goes up, bytes."""
MAX_PROCESSORS = 256
PROBES = 8
"""Places after its hash where the program looks for a port or source."""
NOWHERE = 0xFFFFFFFF
"""Row of a source that the program does not follow."""

RECORD_BYTES = 8
"""Header of each record of a BPF ring: length with two flags, page offset (kernel/bpf/ringbuf.c)."""
BUSY, DISCARDED = 1 << 31, 1 << 30
"""Flags of a record's length: it is being written; it is to be skipped."""


class Count(IntEnum):
    """What happened to a datagram (enum count)."""

    FILTERED = 0
    """Nothing in it would change the detector's state: it ended there."""
    UNUSUAL = 1
    """Went up: a form that the program does not compare."""
    UNKNOWN = 2
    """Went up: a flow, path, queue, buffer, port or source that is not compared yet."""
    CHANGED = 3
    """Went up: a value that is beyond its limits."""
    SEQUENCE = 4
    """Went up: not the next number of its source."""
    BUSY = 5
    """Went up: another processor had the tables for too long."""
    UNFILTERED = 6
    """Went up: the filter is off."""
    RING_FULL = 7
    """Lost: no room in the ring."""
    OVERSIZED = 8
    """Lost: longer than MAX_PAYLOAD."""
    FRAGMENT = 9
    """Left to the network stack: an IP fragment."""
    BAD_LENGTH = 10
    """Left to the network stack: lengths that contradict each other."""

    @property
    def label(self) -> str:
        """Lower-case name, as counted."""
        return self.name.lower()


COUNTERS = np.dtype(
    [
        ("datagrams", "<u8", (len(Count),)),
        ("reports", "<u8"),  # filtered
        ("hops", "<u8"),  # of these
        ("values", "<u8"),  # of these, as the detector counts them
        ("bytes", "<u8"),  # of the payloads of filtered datagrams
        ("reserved", "<u8"),
    ]
)
"""Counters of one processor (struct counters)."""


class Mark(IntEnum):
    """Bits of `marks` of a datagram that goes up (enum mark)."""

    NUMBERED = 1
    """Its sequence number was the next one: the detector does not look at it."""
    MERGE = 2
    """`received` of its source is to be merged before its number is looked at."""
    UNUSUAL = 4
    """What the detector changes by it is not known to the program."""


REPORT_HEAD = np.dtype(
    [
        ("time_ns", "<u8"),  # CLOCK_MONOTONIC
        ("source_high", "<u8"),  # IPv6, or IPv4 as ::ffff:a.b.c.d
        ("source_low", "<u8"),
        ("length", "<u4"),  # of the payload that follows, bytes
        ("source_port", "<u2"),
        ("port", "<u2"),
        ("received", "<u8"),  # reports in sequence of its source until then
        ("source", "<u4"),  # row of its source, or NOWHERE
        ("marks", "<u4"),  # Mark
    ]
)
"""What precedes the payload of a datagram in the ring (struct report_head)."""


class State(IntEnum):
    """State of a row (enum state). Python writes all of a row that is ABSENT, and of others the state."""

    ABSENT = 0
    """Not compared."""
    WATCHED = 1
    """Followed, but its reports go up: those on their way may still change it."""
    ACTIVE = 2
    """Compared."""


HOP = np.dtype(
    [
        ("node", "<u4"),
        ("latency_stored", "<u4"),
        ("latency_change", "<u4"),  # the largest difference that is no change
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
        ("reserved", "<u8"),
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
        ("packets", "<u8"),  # filtered, as all below
        ("last_ns", "<u8"),
        ("latency_latest", "<u8"),
        ("latency_sum", "<u8"),
        ("latency_samples", "<u8"),
        ("has_latency", "<u4"),
        ("spoiled", "<u4"),  # the program cannot follow it any longer
        ("touched", "<u4"),  # a report came since it is followed: the latest values are the program's
        ("reserved", "<u4"),
        ("hops", HOP, (INLINE_HOPS,)),
    ]
)
"""One flow, at the place of its row in the detector's FLOW (struct flow)."""

PORT = np.dtype(
    [
        ("key", "<u8"),
        ("state", "<u4"),
        ("has", "<u4"),  # bit per slot: has a value
        ("stored", "<u4", (2,)),
        ("change", "<u4", (2,)),
        ("above", "<u4", (2,)),
        ("latest", "<u4", (2,)),
        ("highest", "<u4", (2,)),
        ("samples", "<u4"),
        ("spoiled", "<u4"),  # the program cannot follow it any longer
        ("last_ns", "<u8"),
        ("touched", "<u4"),  # as of a flow
        ("reserved", "<u4"),
        ("padding", "<u8", (6,)),
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
        ("state", "<u4"),  # WATCHED: the next report gives the number to go on from
        ("highest", "<u4"),
        ("reserved", "<u4"),
        ("received", "<u8"),  # reports in sequence, filtered or NUMBERED
        ("last_ns", "<u8"),
        ("padding", "<u8"),
    ]
)
"""One sequence space, at the place of its row in the detector's SOURCE (struct source)."""

TAGS = np.dtype([("ways", "<u4", (16,))])
"""Tags of a row of flows, 0: not here (struct tags)."""

CONTROL = np.dtype(
    [
        ("lock", "<u8"),  # odd: a processor is in the tables
        ("dscp", "<u8"),  # bit per DSCP that announces INT
        ("keys", "<u8", (KEYS,)),
        ("filter", "<u4"),
        ("queues_by_port", "<u4"),
        ("flow_mask", "<u4"),
        ("port_mask", "<u4"),
        ("source_mask", "<u4"),
        ("reserved", "<u4"),
    ]
)
"""What Python sets while the program runs (struct control)."""
