"""Records of events and state, which `detect` writes and other rooms read. All fields are little-endian."""

from __future__ import annotations

from enum import IntEnum

import numpy as np


class Kind(IntEnum):
    """Kind of an event."""

    NEW_KEY = 1
    """The first value of a key: a flow, a flow at a switch, a queue, a buffer or an egress port."""
    CHANGE = 2
    """|value - stored| > T. `previous` is the stored value; `value` replaces it."""
    THRESHOLD = 3
    """A value above its limit, on every report (no hysteresis); `previous` is the limit."""
    RAISED = 4
    """A value rose above `raise`; not repeated before CLEARED, or before its key expired and returned.
    `previous` is the limit. `label_coverage` is raised below its limit.
    """
    CLEARED = 5
    """An alarm ended; `reason` says why: the value fell below `clear`, and `previous` is that limit; or
    hysteresis was switched off; or the key left the table, and `value` is its last value.
    """
    PATH_CHANGE = 6
    """The flow takes another path than before; `value` and `previous` are the hashes of the two paths."""
    LOOP = 7
    """A path that contains a node twice, reported once per path: `node_id` is the node, `ident` the index of
    its second occurrence.
    """
    DROP = 8
    """A drop report; `value` is the drop reason, `ident` the queue that the drop word names, else the queue
    of the occupancy.
    """
    QUEUE_REPORT = 9
    """A report with the congested-queue flag; `value` is the queue occupancy, if reported, and `ident` its
    queue.
    """
    SILENT = 10
    """A source has stopped sending reports; `previous` is the time since its last one, ns."""
    RETURNED = 11
    """A silent source sends again; `previous` is the time since its last report, ns."""
    PUSH = 12
    """The current value of a key, periodically; it replaces the stored value."""
    VALUE = 13
    """Any value, if detection is off."""
    FLOW_RECORD = 14
    """A flow left the table (evicted, expired, or at the end), at the time of its last report. For
    `flow_path`: value = packets, without drop reports before its first path, previous = first time (ns).
    For `flow_latency`, and by hop for `hop_latency`, in a sink also for `queue_occupancy` and
    `link_utilization`: value = mean, previous = latest."""
    GAP = 15
    """Reports lost by sequence number; `value` is their number, `previous` the first one's sequence
    number.
    """
    ADAPTED = 16
    """The sink's thresholds were raised or lowered because of the rate of events; `value` and `previous` are
    the new and old factors, in thousandths.
    """
    LABEL_RECORD = 17
    """Summary of the labels of a period, at its end. For each port's `label_latency` and `label_occupancy`:
    value = mean, previous = highest, ident = number of labels. For `label_coverage`: value = mean, previous =
    lowest, ident = telemetry intervals with traffic.
    """
    MOVED = 18
    """A flow whose reports another member of the cluster received before arrives here now; `value` is the
    time since its last report there (ns), `previous` the hash of that member's name.
    """
    SOURCE_MOVED = 19
    """Like MOVED, for a source: it sends reports here, and has sent some to another member since its last one
    here.
    """

    @property
    def label(self) -> str:
        """Lower-case name, as printed, counted and queried."""
        return self.name.lower()


ROUTINE = (Kind.PUSH, Kind.VALUE, Kind.CHANGE, Kind.NEW_KEY, Kind.FLOW_RECORD, Kind.LABEL_RECORD)
"""Kinds of routine events: they are shown on demand, and their reports are not kept."""
OF_SOURCE = (Kind.SILENT, Kind.RETURNED, Kind.GAP, Kind.SOURCE_MOVED)
"""Kinds of events about a source of reports, whose address is in `src`."""


class ClearReason(IntEnum):
    """Why an alarm was cleared."""

    VALUE = 0
    """The value fell below its limit."""
    EXPIRED = 1
    """Its key had no reports for `detect.idle_seconds`; a port that labels had no more traffic."""
    EVICTED = 2
    """Another flow, or another port that labels, took its place in the table."""
    PATH_CHANGE = 3
    """Its switch left the path of the flow."""
    STOPPED = 4
    """The collector stopped, or was killed: then its next start writes the event."""
    LIMITS = 5
    """Its hysteresis was switched off."""

    @property
    def label(self) -> str:
        """Lower-case name, as printed and queried."""
        return self.name.lower()


MEASURED = (ClearReason.VALUE.label, ClearReason.LIMITS.label)
"""Reasons of clearing for which the event has a value that was measured at that time."""


class Metric(IntEnum):
    """Metric of an event (INTCollector Table I, and the buffer occupancy of INT 2.x)."""

    NONE = 0
    """For events without a metric: drops, silent sources, gaps."""
    FLOW_PATH = 1
    """By flow."""
    FLOW_LATENCY = 2
    """By flow: the sum of the hop latencies."""
    HOP_LATENCY = 3
    """By (flow, switch)."""
    QUEUE_OCCUPANCY = 4
    """By (switch, egress port, queue); by (switch, queue) with `detect.queue_key`."""
    QUEUE_CONGESTION = 5
    """By key of QUEUE_OCCUPANCY."""
    LINK_UTILIZATION = 6
    """By (switch, egress port)."""
    BUFFER_OCCUPANCY = 7
    """By (switch, buffer)."""
    LABEL_LATENCY = 8
    """By (switch, egress port), from labels (INT-label)."""
    LABEL_OCCUPANCY = 9
    """By (switch, egress port), from labels: bytes in the egress queue."""
    LABEL_AGE = 10
    """By (switch, egress port): time without a label, ns."""
    LABEL_COVERAGE = 11
    """Share of the ports with traffic whose labels arrived, in parts per million."""

    @property
    def label(self) -> str:
        """Lower-case name, as printed, counted and queried."""
        return self.name.lower()


METRICS = 8
"""Number of metrics of reports, which have limits by metric; metrics of labels follow."""
PATH_PART = 8
"""Node ids in one event; a longer path takes several events with `hop` 0, 8, 16 …"""
NO_PORT = 0xFFFF
NO_NODE = 0xFFFFFFFF
NOT_FOUND = 0xFFFFFFFFFFFFFFFF
"""Index of a row that is not in a table."""

EVENT = np.dtype(
    [
        ("sequence", "<u8"),  # within its shard, from 0; history lacks the numbers of lost events
        ("time_ns", "<i8"),  # when the collector received the report
        ("switch_ns", "<u8"),  # time at the switch, by its clock; 0: not carried
        ("flow_id", "<u8"),  # keyed hash of the 5-tuple; 0 without a flow
        ("value", "<u8"),  # by kind: the metric's value, or a count
        ("previous", "<u8"),  # by kind: the value with which `value` is compared
        ("src_hi", "<u8"),  # the flow; for SILENT, RETURNED, GAP and SOURCE_MOVED the source's address
        ("src_lo", "<u8"),  # its low half
        ("dst_hi", "<u8"),  # the flow's destination
        ("dst_lo", "<u8"),  # its low half
        ("node_id", "<u4"),  # NO_NODE if unknown
        ("ident", "<u4"),  # queue, buffer or port id by metric; hw id of a source
        ("path", "<u4", (PATH_PART,)),  # node ids in path order, for events of flow_path and LOOP
        ("sport", "<u2"),  # the flow's ports; 0 without ports
        ("dport", "<u2"),  # see sport
        ("port", "<u2"),  # egress port of the hop that caused it; NO_PORT if unknown
        ("shard", "<u2"),  # number of the worker
        ("kind", "u1"),  # Kind
        ("metric", "u1"),  # Metric
        ("hop", "u1"),  # index in the path
        ("hop_count", "u1"),  # hops of the path
        ("proto", "u1"),  # the flow's IP protocol
        ("ip_version", "u1"),  # 4, 6; 0 without a flow
        ("reason", "u1"),  # ClearReason of CLEARED; else 0
        ("reserved", "u1"),  # 0
    ]
)
"""One event, 136 bytes: the record of rings, journals and segments. The version of its layout is
EVENT_VERSION.

`switch_ns` of an event about a hop is the hop's egress time, else its ingress time. For any other event it is
the time in the report's header, else that of the last hop.
"""
EVENT_VERSION = 2

THRESHOLD = np.dtype(
    [
        ("change", "<u8"),  # T of |v - stored| > T; NEVER disables the comparison
        ("raise_above", "<u8"),  # upper limit; NEVER disables it
        ("clear_below", "<u8"),  # NEVER: no hysteresis, a THRESHOLD event on every report above the limit
    ]
)
"""Limits of one metric; the table has one row per Metric."""
NEVER = 0xFFFFFFFFFFFFFFFF
INHERITED = 0xFFFFFFFFFFFFFFFE
SWITCH_METRICS = (
    Metric.HOP_LATENCY,
    Metric.QUEUE_OCCUPANCY,
    Metric.QUEUE_CONGESTION,
    Metric.LINK_UTILIZATION,
    Metric.BUFFER_OCCUPANCY,
)
"""Metrics with limits by switch."""
SWITCH_THRESHOLDS = np.dtype(
    [
        ("node_id", "<u4"),  # NO_NODE: the row is empty
        ("reserved", "<u4"),  # 0
        ("limits", THRESHOLD, (len(SWITCH_METRICS),)),  # by SWITCH_METRICS; INHERITED: that of all switches
    ]
)
"""Limits of one switch, 128 bytes."""

# ------------------------------------------------------------------------------------------------ state

WAYS = 12
"""Ways of a FlowCache row (SmartNIC INT sink, section III-B)."""
INLINE_HOPS = 8
"""Inline hops of a flow; longer paths take a block of the hop pool."""
POOL_HOPS = 56

FLOW_ROW = np.dtype(
    [
        ("tag", "<u4", (WAYS,)),  # 0: the way is empty
        ("rank", "u1", (WAYS,)),  # 0 is the most recently used
        ("version", "<u4"),  # odd while the row is being written
    ]
)
"""One row's tags, LRU order and sequence counter, in one cache line."""

FLOW = np.dtype(
    [
        ("src_hi", "<u8"),
        ("src_lo", "<u8"),
        ("dst_hi", "<u8"),
        ("dst_lo", "<u8"),
        ("sport", "<u2"),
        ("dport", "<u2"),
        ("proto", "u1"),
        ("ip_version", "u1"),
        ("hop_count", "u1"),
        ("alarm", "u1"),  # bit per Metric: raised and not cleared
        ("state", "u1"),  # FlowState
        ("reserved", "u1", (3,)),
        ("pool_block", "<u4"),  # 0: none, else block + 1
        ("last_ns", "<i8"),
        ("packets", "<u8"),
        ("latency_latest", "<u8"),
        ("latency_stored", "<u8"),
        ("latency_sum", "<u8"),
        ("latency_samples", "<u8"),
        ("first_ns", "<i8"),
        ("pushed_ns", "<i8"),
        ("flow_id", "<u8"),
        ("path_hash", "<u8"),
    ]
)
"""One flow, 128 bytes, two cache lines; way w of row r is at r * WAYS + w."""


class FlowState(IntEnum):
    """Bits of `state` in FLOW."""

    HAS_PATH = 1
    """A complete path is known; without it, the hops are those of an incomplete one."""
    HAS_LATENCY = 2
    HAS_LOOP = 4
    INCOMPLETE = 8
    """The latest report did not have the whole path: hops or MTU exceeded, intermediate, drop, or a hop
    without node id.
    """


HOP_STATE = np.dtype(
    [
        ("node_id", "<u4"),
        ("latency_latest", "<u4"),
        ("latency_stored", "<u4"),
        ("egress_port", "<u2"),
        ("alarm", "u1"),
        ("state", "u1"),  # bit per sink.records.Measure: values in the sums; the collector only has bit 0
        ("latency_sum", "<u8"),
        ("samples", "<u4"),  # packets in the sums; halved together with the sums before it overflows
        ("port_slot", "<u4"),  # row of (switch, egress port) in the port table; a hint, verified by key
        ("queue_slot", "<u4"),  # the same of its queue; in the sink, row of its distributions
        ("buffer_slot", "<u4"),
        ("queue_latest", "<u4"),  # NO_VALUE: none yet
        ("utilization_latest", "<u4"),  # the same
        ("queue_sum", "<u8"),  # sink only
        ("utilization_sum", "<u8"),
    ]
)
"""One hop of one flow, 64 bytes, a cache line. Hop h < 8 of flow f is at f * INLINE_HOPS + h; the others are
at flows * INLINE_HOPS + block * POOL_HOPS + (h - 8)."""


class PortKind(IntEnum):
    """Kind of a row of the port table."""

    EMPTY = 0
    EGRESS = 1
    QUEUE = 2
    BUFFER = 3


KIND_AT = 62
"""Lowest bit of the kind in a port's key."""
PLACE = (1 << 30) - 1
"""Mask of the place in a port's key."""
PORT = np.dtype(
    [
        ("key", "<u8"),  # kind << 62 | place << 32 | node_id, place in 30 bits; 0: empty, 1: expired
        ("last_ns", "<i8"),
        ("samples", "<u8"),
        ("latest", "<u4", (2,)),  # EGRESS: utilisation, -; QUEUE: occupancy, congestion; BUFFER: occupancy, -
        ("highest", "<u4", (2,)),  # since the last push
        ("low", "<u4", (2,)),  # a value from `low` to below `low + width` causes no event
        ("width", "<u4", (2,)),  # 0: not known, so every value is compared with `stored` and the limits
        ("version", "<u4"),  # odd while fields except latest, highest, samples and last_ns are written
        ("port", "<u2"),  # egress port of the hop of its last event; NO_PORT if unknown
        ("state", "u1"),  # bit per metric slot: has a value
        ("alarm", "u1"),  # bit per metric slot
        ("stored", "<u4", (2,)),
        ("pushed_ns", "<i8"),
        ("first_ns", "<i8"),
        ("node_id", "<u4"),
        ("ident", "<u4"),  # port, buffer id or queue id
        ("kind", "u1"),
        ("reserved_1", "u1"),
        ("owner", "<u2"),  # owner of the row: hash of the address of the source that created it
        ("reserved_2", "u1", (4,)),
        ("drops", "<u8"),  # EGRESS: drop reports
        ("reserved", "u1", (16,)),
    ]
)
"""One switch's queue, buffer or egress port, 128 bytes, in an open-addressing table.

The place in the key is a port, a buffer id, or a queue: egress port << 8 | queue id, without the port if
queues are keyed by (switch, queue).  30 bits have room for an ifIndex of sFlow.

Fields that every report reads or writes are in the first cache line.
"""

SOURCE = np.dtype(
    [
        ("source_hi", "<u8"),
        ("source_lo", "<u8"),
        ("node_id", "<u4"),
        ("hw_id", "<u4"),
        ("last_ns", "<i8"),
        ("first_ns", "<i8"),
        ("window", "<u8"),  # bit i: sequence `highest - i` has been seen
        ("received", "<u8"),
        ("lost", "<u8"),
        ("duplicate", "<u8"),
        ("reordered", "<u8"),
        ("highest", "<u4"),
        ("bits", "<u4"),  # width of the sequence number: 22 or 32; 0: the row is empty
        ("silent", "<u4"),
        ("version", "<u4"),  # odd while the row is being written
        ("restarts", "<u8"),  # restarts of the numbering
        ("moved", "<u8"),  # missing here, but accounted for by other members of the cluster; not in `lost`
        ("suspect", "<u4"),  # a number far from `highest`: the numbering may have restarted there
        ("depth", "<u4"),  # numbers from the first one to `highest`, at most 64; 0: none yet
        ("first", "<u4"),  # number of the first report, or of the first after a restart of the numbering
        ("owner", "<u2"),  # owner of the row: hash of `source`
        ("suspected", "<u2"),  # 1: `suspect` waits to be confirmed
    ]
)
"""One sequence space: (source address, node id, hw id), 128 bytes."""

DISTRIBUTED = 3
"""Metrics with a distribution at every queue: hop latency, queue occupancy, link utilisation."""
BINS = 128
"""Bins of one distribution."""
DISTRIBUTION = np.dtype(
    [
        ("key", "<u8"),  # 1 << 63 | queue id << 48 | egress port << 32 | node id; 0 is empty, 1 is row 0
        ("last_ns", "<i8"),
        ("sum", "<u8", (DISTRIBUTED,)),  # by metric, as bins; mean = sum / (sum of the bins)
        ("latest", "<u4", (DISTRIBUTED,)),  # NO_VALUE: none yet
        ("highest", "<u4", (DISTRIBUTED,)),
        ("first_ns", "<i8"),  # time since which the row has had this key
        ("node_id", "<u4"),
        ("port", "<u2"),  # egress port; NO_PORT if unknown
        ("owner", "<u2"),  # sender whose report or packet created the row, by a keyed hash
        ("queue_id", "u1"),
        ("reserved", "u1", (47,)),
    ]
)
"""Sums and latest values of one (switch, egress port, queue), 128 bytes, in an open-addressing table.

Fields written by every packet are in the first cache line. Its bins are uint64 [rows][DISTRIBUTED][BINS]. Row
0 is not in the table: its metric 0 is the end-to-end latency of all packets, with `latest` and `highest`
limited to MAX_LATENCY. A switch's distribution is the sum of its rows. In a full table a row may be reused
for another key (`distribution_kernel`): its counts restart at 0, and `first_ns` changes.
"""
NO_VALUE = 0xFFFFFFFF
MAX_LATENCY = 0xFFFFFFFE
DISTRIBUTION_VERSION = 2
"""Schema version of the regions `distributions`."""
SILENT_NS = 60_000_000_000
"""A row of the distributions without a value for this time may be replaced with any other."""

OWNERS = 1024
"""Number of owners of rows in PORT and SOURCE; a hash of a report's source gives the owner."""

KEYS = 10
"""Number of hash keys: one for each 32 bits of a 5-tuple."""

STATE_VERSION = 7
"""Schema version of the regions that hold FLOW_ROW, FLOW, HOP_STATE, PORT and SOURCE."""
