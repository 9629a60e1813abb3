"""Records of the sink's rings, documented for other programs. All fields are little-endian."""

from __future__ import annotations

from enum import IntEnum

import numpy as np

from ..records import PATH_PART


class Measure(IntEnum):
    """Measures with limits and distributions in the sink: the paper's three metrics, and the end-to-end
    latency.
    """

    HOP_LATENCY = 0
    QUEUE_OCCUPANCY = 1
    LINK_UTILIZATION = 2
    END_TO_END = 3
    """The sum of the hop latencies of a packet."""

    @property
    def label(self) -> str:
        """Lower-case name, as in settings and queries."""
        return self.name.lower()


MEASURES = 4


class Type(IntEnum):
    """Bits of `types` in SINK_EVENT: C and T events of section III-C; bits 2k and 2k + 1 are of Measure k."""

    LATENCY_CHANGE = 1 << 0
    """Hop latency differs from that of the flow's previous packet by more than `change`."""
    LATENCY_ABOVE = 1 << 1
    """Hop latency is above `raise_above`."""
    OCCUPANCY_CHANGE = 1 << 2
    """Queue occupancy differs by more than `change`."""
    OCCUPANCY_ABOVE = 1 << 3
    """Queue occupancy is above `raise_above`."""
    UTILIZATION_CHANGE = 1 << 4
    """Link utilisation differs by more than `change`."""
    UTILIZATION_ABOVE = 1 << 5
    """Link utilisation is above `raise_above`."""
    END_TO_END_CHANGE = 1 << 6
    """The sum of the hop latencies differs by more than `change`."""
    END_TO_END_ABOVE = 1 << 7
    """The sum of the hop latencies is above `raise_above`."""
    PATH_CHANGE = 1 << 8
    """The packet took another path than the flow's previous one."""

    @property
    def label(self) -> str:
        """Lower-case name, as printed, counted and queried."""
        return self.name.lower()


SINK_EVENT = np.dtype(
    [
        ("sequence", "<u8"),  # within its shard, from 0, without gaps
        ("time_ns", "<i8"),  # of the packet
        ("flow_id", "<u8"),  # hash of the 5-tuple
        ("src_hi", "<u8"),  # the flow, IPv4 as ::ffff:a.b.c.d
        ("src_lo", "<u8"),  # its low half
        ("dst_hi", "<u8"),  # the flow's destination
        ("dst_lo", "<u8"),  # its low half
        ("sport", "<u2"),  # the flow's ports; 0 without ports
        ("dport", "<u2"),  # see sport
        ("proto", "u1"),  # the flow's IP protocol
        ("ip_version", "u1"),  # 4 or 6
        ("types", "<u2"),  # bits of Type caused by this packet at this switch, or end to end
        ("latency", "<u8"),  # ns: of the hop, or of the whole path
        ("latency_previous", "<u8"),  # that of the flow's previous packet
        ("occupancy", "<u4"),  # of the hop's queue
        ("occupancy_previous", "<u4"),  # see latency_previous
        ("utilization", "<u4"),  # of the hop's egress link
        ("utilization_previous", "<u4"),  # see latency_previous
        ("node_id", "<u4"),  # NO_NODE: end to end
        ("path", "<u4", (PATH_PART,)),  # end to end: the first 8 node ids; else 0
        ("port", "<u2"),  # egress port; NO_PORT if unknown
        ("queue_id", "u1"),  # the hop's queue
        ("hop", "u1"),  # index in the path
        ("hop_count", "u1"),  # hops of the path
        ("shard", "u1"),  # number of the worker
        ("reserved", "<u2"),  # 0
        ("reserved_2", "<u4"),  # 0
    ]
)
"""One event of the sink, 144 bytes: the record of `worker-N.sink-events`, of SINK_EVENT_VERSION."""
SINK_EVENT_VERSION = 1

EVICTED_HOP = np.dtype(
    [
        ("latency_sum", "<u8"),  # ns
        ("occupancy_sum", "<u8"),  # in the switch's unit
        ("utilization_sum", "<u8"),  # see occupancy_sum
        ("node_id", "<u4"),  # the switch
        ("latency_latest", "<u4"),  # ns, of the last packet
        ("occupancy_latest", "<u4"),  # of the last packet
        ("utilization_latest", "<u4"),  # of the last packet
        ("samples", "<u4"),  # packets in the sums; mean = sum / samples
        ("port", "<u2"),  # egress port; NO_PORT if unknown
        ("queue_id", "u1"),  # its queue
        ("have", "u1"),  # bit per Measure: present sums and latest values
    ]
)
"""One hop of an evicted flow, 48 bytes."""


class EvictionReason(IntEnum):
    """Reason for which a flow left the table: `reason` in EVICTED."""

    EVICTED = 1
    """Its row was full, and it was the least recently used."""
    EXPIRED = 2
    """It was idle longer than `detect.idle_seconds`."""
    ENDED = 3
    """The sink stopped."""

    @property
    def label(self) -> str:
        """Lower-case name."""
        return self.name.lower()


EVICTED = np.dtype(
    [
        ("sequence", "<u8"),  # within its shard, from 0, without gaps
        ("flow_id", "<u8"),  # hash of the 5-tuple
        ("src_hi", "<u8"),  # the flow, IPv4 as ::ffff:a.b.c.d
        ("src_lo", "<u8"),  # its low half
        ("dst_hi", "<u8"),  # the flow's destination
        ("dst_lo", "<u8"),  # its low half
        ("first_ns", "<i8"),  # time of its first packet
        ("last_ns", "<i8"),  # time of its last packet
        ("packets", "<u8"),  # 0 in the second and later parts of a flow
        ("latency_latest", "<u8"),  # end to end
        ("latency_sum", "<u8"),  # end to end
        ("latency_samples", "<u8"),  # packets in the sum
        ("path_hash", "<u8"),  # of its node ids
        ("sport", "<u2"),  # the flow's ports; 0 without ports
        ("dport", "<u2"),  # see sport
        ("proto", "u1"),  # the flow's IP protocol
        ("ip_version", "u1"),  # 4 or 6
        ("hop_count", "u1"),  # of the path
        ("first_hop", "u1"),  # of this part: 0, 8, 16 …
        ("reason", "u1"),  # EvictionReason
        ("shard", "u1"),  # number of the worker
        ("reserved", "u1", (14,)),  # 0
        ("hops", EVICTED_HOP, (PATH_PART,)),  # EVICTED_HOP, in path order
    ]
)
"""An evicted flow, 512 bytes: the record of `worker-N.evictions`; a path of more than 8 hops takes several
consecutive ones. Its layout is EVICTED_VERSION.
"""
EVICTED_VERSION = 1
