"""Kernels that compare a value with its limits and write event records.

===================== ==========================================================================
`events`              EVENT [n]: records of this call; `n` is the number written so far
`tally`               uint64 [TALLY]: counts of this call
`knobs`               uint64 [KNOBS]: hash keys, then settings
`limits`              THRESHOLD [rows * METRICS], see `detect_kernel.update_kernel`
`base`                index of a switch's first limit, see `limits_of`
`reports`, `i`        REPORT [n], and the index of the current one
`flows`, `f`          FLOW [rows * WAYS], and the index of a flow
`path`                uint32 [64]: node ids
===================== ==========================================================================

The owner of an event stream (journal or pipeline) writes `sequence` and `shard`, not the kernels.
"""

from ...base.kernels.jit import U8, U16, U32, U64, inlined, kernel
from ...base.keyed_kernel import spread, weigh
from ...wire.records import Carried
from .. import records
from ..records import KEYS, METRICS, NEVER, PATH_PART, ClearReason, Kind

NEW_KEY = U64(Kind.NEW_KEY)
CHANGE = U64(Kind.CHANGE)
THRESHOLD = U64(Kind.THRESHOLD)
RAISED = U64(Kind.RAISED)
CLEARED = U64(Kind.CLEARED)
VALUE = U64(Kind.VALUE)
CHANGED_LIMITS = U64(ClearReason.LIMITS)
NO_NODE = U64(records.NO_NODE)
NO_PORT = U64(records.NO_PORT)
NOT_FOUND = U64(records.NOT_FOUND)
NOTHING = U64(0)
"""Stands for a field without a value. All arguments of these kernels are uint64, so each is compiled once."""
OFF = U64(NEVER)
FLOW_CARRIED = U64(Carried.FLOW)

# Slots of `tally`.
EVENTS = U64(0)
"""Events by kind."""
VALUES = U64(len(Kind) + 1)
EVICTIONS = VALUES + U64(1)
EXPIRIES = VALUES + U64(2)
PORTS_FULL = VALUES + U64(3)
SOURCES_FULL = VALUES + U64(4)
POOL_FULL = VALUES + U64(5)
WITHOUT_NODE_ID = VALUES + U64(6)
LOST = VALUES + U64(7)
DUPLICATE = VALUES + U64(8)
REORDERED = VALUES + U64(9)
ALARMS = VALUES + U64(10)
"""Alarms raised minus alarms cleared, by metric."""
PORT_EVICTIONS = ALARMS + U64(METRICS)
SOURCE_EVICTIONS = PORT_EVICTIONS + U64(1)
TALLY = int(SOURCE_EVICTIONS) + 1

# Slots of `knobs`, after the keys of hashes.
ENABLED = U64(KEYS)
PORT_QUEUES = ENABLED + U64(1)
KNOBS = KEYS + 2


@inlined
def pack_l4(sport, dport, proto, ip_version):
    """Ports, protocol and IP version of a 5-tuple in one word."""
    return U64(sport) | (U64(dport) << U64(16)) | (U64(proto) << U64(32)) | (U64(ip_version) << U64(40))


@inlined
def hash_flow(src_hi, src_lo, dst_hi, dst_lo, l4, keys):
    """64-bit keyed hash of a 5-tuple, never 0: gives the row, the tag and the flow id."""
    h = spread(
        weigh(keys, 0, src_lo)
        + weigh(keys, 2, src_hi)
        + weigh(keys, 4, dst_lo)
        + weigh(keys, 6, dst_hi)
        + weigh(keys, 8, l4)
    )
    return h | (U64(h == U64(0)))


@inlined
def hash_report(reports, i, keys):
    """`hash_flow` of the flow of report i."""
    r = reports[i]
    l4 = pack_l4(r.sport, r.dport, r.proto, r.ip_version)
    if r.src_hi | r.dst_hi == 0:  # IPv4: saves four multiplications
        return hash_flow(U64(0), r.src_lo, U64(0), r.dst_lo, l4, keys)
    return hash_flow(r.src_hi, r.src_lo, r.dst_hi, r.dst_lo, l4, keys)


@kernel
def emit(events, n, tally, kind, metric, time_ns, value, previous):
    """Begin event n with kind, metric, time and values; all other fields are empty. Until the writer numbers
    the event, `sequence` is the row of the report that caused it; NOT_FOUND: no report did.
    """
    e = events[n]
    e.sequence = NOT_FOUND
    e.time_ns = time_ns
    e.switch_ns = U64(0)
    e.flow_id = U64(0)
    e.value = value
    e.previous = previous
    e.src_hi = U64(0)
    e.src_lo = U64(0)
    e.dst_hi = U64(0)
    e.dst_lo = U64(0)
    e.sport = U16(0)
    e.dport = U16(0)
    e.node_id = U32(NO_NODE)
    e.ident = U32(0)
    for i in range(PATH_PART):
        e.path[U64(i)] = U32(0)
    e.port = U16(NO_PORT)
    e.kind = U8(kind)
    e.metric = U8(metric)
    e.hop = U8(0)
    e.hop_count = U8(0)
    e.proto = U8(0)
    e.ip_version = U8(0)
    e.reason = U8(0)
    e.reserved = U8(0)
    tally[kind] += U64(1)


@kernel
def put_report_flow(events, n, reports, i, keys):
    """Write report i, the cause of event n, and its flow, if it has one, into event n."""
    r = reports[i]
    events[n].sequence = i
    if U64(r.carried) & FLOW_CARRIED:
        e = events[n]
        e.src_hi = r.src_hi
        e.src_lo = r.src_lo
        e.dst_hi = r.dst_hi
        e.dst_lo = r.dst_lo
        e.sport = r.sport
        e.dport = r.dport
        e.proto = r.proto
        e.ip_version = r.ip_version
        e.flow_id = hash_report(reports, i, keys)


@kernel
def put_table_flow(events, n, flows, f):
    """Write flow f of the table, or of the ring of evicted flows, into event n."""
    e = events[n]
    flow = flows[f]
    e.src_hi = flow.src_hi
    e.src_lo = flow.src_lo
    e.dst_hi = flow.dst_hi
    e.dst_lo = flow.dst_lo
    e.sport = flow.sport
    e.dport = flow.dport
    e.proto = flow.proto
    e.ip_version = flow.ip_version
    e.flow_id = flow.flow_id
    e.hop_count = flow.hop_count


@kernel
def put_hop(events, n, node, ident, port, hop, hop_count):
    """Write a hop (node, queue or port, index in the path) into event n."""
    e = events[n]
    e.node_id = U32(node)
    e.ident = U32(ident)
    e.port = U16(port)
    e.hop = U8(hop)
    e.hop_count = U8(hop_count)


@kernel
def put_path(events, n, path, first, count):
    """Write the nodes `path[first : first + 8]` of a path of `count` nodes into event n."""
    e = events[n]
    e.hop = U8(first)
    e.hop_count = U8(count)
    for k in range(PATH_PART):
        h = first + U64(k)
        if h < count:
            e.path[U64(k)] = path[h]


@inlined
def limits_of(overrides, node):
    """Row of the limits of a switch: its own, or 0, the limits of all switches.

    `overrides` is an open-addressing table of row << 32 | node; length 1: no switch has its own limits.
    """
    mask = U64(len(overrides)) - U64(1)
    if mask == U64(0):
        return U64(0)
    at = (node * U64(0x9E3779B97F4A7C15)) >> U64(32) & mask
    while overrides[at]:
        if overrides[at] & U64(0xFFFFFFFF) == node:
            return overrides[at] >> U64(32)
        at = (at + U64(1)) & mask
    return U64(0)


@kernel
def check_limits(
    events, n, tally, knobs, reports, i, limits, base, metric, value, stored, has, alarm, node, ident, port,
    hop, hop_count,
):  # fmt: skip
    """Events of a value that is new, differs from its stored value by more than T, or crosses a limit.

    `has` is 0 without a stored value, `alarm` 0 unless it is raised. Returns (events so far, stored value,
    alarm). Not inlined: the fast path does not call this.
    """
    limit = limits[base + metric]
    time_ns = reports[i].time_ns
    begin = n
    if knobs[ENABLED] == U64(0):
        emit(events, n, tally, VALUE, metric, time_ns, value, stored)
        n += U64(1)
        stored = value
        if alarm != U64(0):
            tally[ALARMS + metric] -= U64(1)
        alarm = U64(0)
    else:
        gap = value - stored if value > stored else stored - value
        if has == U64(0):
            emit(events, n, tally, NEW_KEY, metric, time_ns, value, U64(0))
            n += U64(1)
            stored = value
        elif gap >= limit.change:
            emit(events, n, tally, CHANGE, metric, time_ns, value, stored)
            n += U64(1)
            stored = value
        above = value > limit.raise_above
        if limit.clear_below == OFF:
            if alarm != U64(0):  # hysteresis was switched off while it was raised
                emit(events, n, tally, CLEARED, metric, time_ns, value, NOTHING)
                events[n].reason = U8(CHANGED_LIMITS)
                tally[ALARMS + metric] -= U64(1)
                n += U64(1)
            alarm = U64(0)
            if above:
                emit(events, n, tally, THRESHOLD, metric, time_ns, value, limit.raise_above)
                n += U64(1)
        elif alarm == U64(0) and above:
            emit(events, n, tally, RAISED, metric, time_ns, value, limit.raise_above)
            tally[ALARMS + metric] += U64(1)
            n += U64(1)
            alarm = U64(1)
        elif alarm != U64(0) and value < limit.clear_below:
            emit(events, n, tally, CLEARED, metric, time_ns, value, limit.clear_below)
            tally[ALARMS + metric] -= U64(1)
            n += U64(1)
            alarm = U64(0)
    for k in range(begin, n):
        put_report_flow(events, U64(k), reports, i, knobs)
        put_hop(events, U64(k), node, ident, port, hop, hop_count)
    return n, stored, alarm
