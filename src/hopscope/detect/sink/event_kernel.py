"""Kernels that write records of the event ring and events of the journal, within the quotas.

===================== ==========================================================================
`out`, `n`            SINK_EVENT [n], and their number so far
`journal`, `j`        EVENT [n], and their number so far
`tally`               uint64 [SINK_TALLY]: counts of this call
`knobs`               uint64 [SINK_KNOBS]: settings, and the tokens of the quotas
`limits`, `base`      uint64 [rows * ROW]: T, 2T, above, below by Measure; `base`: a switch's first
`reports`, `i`        REPORT [n], and the index of the current packet
`hops`                HOP [m]; a packet's hops are `first` … `first + count - 1`
`types`               bits of Type
`path`                uint32 [64]: node ids
===================== ==========================================================================

The owners of the streams (rings and journal) write `sequence` and `shard`, not the kernels.
"""

from ...base.kernels.jit import U8, U16, U32, U64, inlined, kernel
from ..flows.event_kernel import (
    CHANGE,
    KNOBS,
    NO_NODE,
    NO_PORT,
    NOTHING,
    OFF,
    TALLY,
    THRESHOLD,
    emit,
    hash_report,
    put_hop,
    put_report_flow,
)
from ..flows.flow_cache_kernel import FLOW_LATENCY, HOP_LATENCY, INLINE
from ..flows.hop_kernel import LINK_UTILIZATION, OCCUPANCY, PORTS, QUEUE_OCCUPANCY
from ..flows.path_kernel import emit_path, find_loop, gather_path
from ..flows.switch_time_kernel import hop_time, put_time, whole_time
from ..records import PATH_PART, Kind
from .records import MEASURES, Measure, Type

PATH_KIND = U64(Kind.PATH_CHANGE)
LOOP = U64(Kind.LOOP)
PATH_CHANGE = U64(Type.PATH_CHANGE)
END_TO_END = U64(Measure.END_TO_END)
TYPES = len(Type)

# Slots of `knobs` after those of `flows.event_kernel`.
EVENT_ROWS = U64(KNOBS)
"""Number of rows of the batch that have caused events so far."""
COUNTED = EVENT_ROWS + U64(1)
"""Whether there are distributions."""
LIMITED = EVENT_ROWS + U64(2)
"""Whether there is a quota."""
ALARMED = EVENT_ROWS + U64(3)
"""Bit per Measure: an alarm may be raised, so every value is compared with the limit that clears it."""
JOURNAL = EVENT_ROWS + U64(4)
"""Events that the journal still accepts."""
QUOTA = EVENT_ROWS + U64(5)
"""Events that the quota still allows, by type."""
SINK_KNOBS = int(QUOTA) + TYPES

# Slots of `tally` after those of `flows.event_kernel`.
PACKETS = U64(TALLY)
OF_TYPE = PACKETS + U64(1)
"""Events by type."""
HELD_BACK_TYPE = OF_TYPE + U64(TYPES)
HELD_BACK_JOURNAL = HELD_BACK_TYPE + U64(TYPES)
DISTRIBUTIONS_FULL = HELD_BACK_JOURNAL + U64(1)
DISTRIBUTION_EVICTIONS = DISTRIBUTIONS_FULL + U64(1)
SINK_TALLY = int(DISTRIBUTION_EVICTIONS) + 1

STEP = U64(4)
"""Limits of one measure: T, 2T, above, below (OFF: no hysteresis)."""
ROW = U64(MEASURES) * STEP


@inlined
def compare(limits, at, value, before, known):
    """Compare a value with its limits at `at`: bit 1 if it differs from `before` by more than T, 2 if it is
    above.

    `known` is 0 if there is no previous value.
    """
    changed = U64(value + limits[at] - before > limits[at + U64(1)]) & known
    return changed | U64(value > limits[at + U64(2)]) << U64(1)


@kernel
def allowed(types, knobs, tally):
    """Bits of `types` that the quotas allow; allowed and suppressed ones are counted."""
    for k in range(TYPES):
        bit = U64(1) << U64(k)
        if types & bit:
            if knobs[LIMITED] != U64(0):
                if knobs[QUOTA + U64(k)] == U64(0):
                    types ^= bit
                    tally[HELD_BACK_TYPE + U64(k)] += U64(1)
                    continue
                knobs[QUOTA + U64(k)] -= U64(1)
            tally[OF_TYPE + U64(k)] += U64(1)
    return types


@inlined
def journal_accepts(knobs, tally, count):
    """Whether the journal accepts `count` more events; rejected ones are counted."""
    if knobs[JOURNAL] < count:
        tally[HELD_BACK_JOURNAL] += count
        return False
    knobs[JOURNAL] -= count
    return True


@inlined
def settled(limits, at, bit):
    """1 if `bit` is a T event with hysteresis, for which history has RAISED and CLEARED (`alarm_kernel`)."""
    return bit & U64(limits[at + U64(3)] != OFF)


@inlined
def begin(out, n, reports, i, types, knobs):
    """Begin record n of the event ring: time, flow and types of packet i."""
    r = reports[i]
    e = out[n]
    e.time_ns = r.time_ns
    e.flow_id = hash_report(reports, i, knobs)
    e.src_hi = r.src_hi
    e.src_lo = r.src_lo
    e.dst_hi = r.dst_hi
    e.dst_lo = r.dst_lo
    e.sport = r.sport
    e.dport = r.dport
    e.proto = r.proto
    e.ip_version = r.ip_version
    e.types = U16(types)


@kernel
def emit_hop(
    out, n, journal, j, tally, knobs, limits, base, reports, i, hops, at, types, measures, h, m, latency,
    occupancy, utilization,
):  # fmt: skip
    """Event of hop `at`, the h-th of m; the three values are the previous ones.

    `measures` are those that the hop has; all others are 0 in the record.
    Returns (records, journal events so far).
    """
    types = allowed(types, knobs, tally)
    if types == U64(0):
        return n, j
    hop = hops[at]
    have = U64(hop.present & ~hop.null)
    port = U64(hop.egress_port) if have & PORTS else NO_PORT
    queue = U64(hop.queue_id) if have & OCCUPANCY else U64(0)
    begin(out, n, reports, i, types, knobs)
    e = out[n]
    e.latency = U64(hop.hop_latency) * (measures & U64(1))
    e.latency_previous = latency
    e.occupancy = U32(U64(hop.queue_occupancy) * ((measures >> U64(1)) & U64(1)))
    e.occupancy_previous = U32(occupancy)
    e.utilization = U32(U64(hop.tx_utilization) * ((measures >> U64(2)) & U64(1)))
    e.utilization_previous = U32(utilization)
    e.node_id = hop.node_id
    for k in range(PATH_PART):
        e.path[U64(k)] = U32(0)
    e.port = U16(port)
    e.queue_id = U8(queue)
    e.hop = U8(h)
    e.hop_count = U8(m)
    for k in range(6):
        bit = U64(k)
        measure = bit >> U64(1)
        if (types >> bit) & ~settled(limits, base + measure * STEP, bit) & U64(1) and journal_accepts(
            knobs, tally, U64(1)
        ):
            metric, value, before, ident = HOP_LATENCY, e.latency, latency, NOTHING
            if measure == U64(1):
                metric, value, before, ident = QUEUE_OCCUPANCY, U64(e.occupancy), occupancy, queue
            elif measure == U64(2):
                metric, value, before, ident = LINK_UTILIZATION, U64(e.utilization), utilization, port
            kind = CHANGE
            if bit & U64(1):
                kind, before = THRESHOLD, limits[base + measure * STEP + U64(2)]
            emit(journal, j, tally, kind, metric, e.time_ns, value, before)
            put_report_flow(journal, j, reports, i, knobs)
            put_hop(journal, j, U64(e.node_id), ident, port, h, m)
            journal[j].switch_ns = hop_time(hops, at)
            j += U64(1)
    return n + U64(1), j


@kernel
def emit_packet(
    out, n, journal, j, tally, knobs, limits, reports, i, hops, first, count, types, latency, before, path,
    new, old,
):  # fmt: skip
    """Event of a whole packet: its latency, its path. Returns (records, journal events so far).

    `latency` and `before` are end to end, 0 without one; `new` and `old` are the hashes of the paths.
    """
    types = allowed(types, knobs, tally)
    if types == U64(0):
        return n, j
    gather_path(hops, first, count, NO_NODE, NO_NODE, path)
    begin(out, n, reports, i, types, knobs)
    e = out[n]
    e.latency = latency
    e.latency_previous = before
    e.occupancy = U32(0)
    e.occupancy_previous = U32(0)
    e.utilization = U32(0)
    e.utilization_previous = U32(0)
    e.node_id = U32(NO_NODE)
    for k in range(PATH_PART):
        e.path[U64(k)] = path[U64(k)] if U64(k) < count else U32(0)
    e.port = U16(NO_PORT)
    e.queue_id = U8(0)
    e.hop = U8(0)
    e.hop_count = U8(count)
    base = END_TO_END * STEP
    first_j = j
    for k in range(2):
        bit = END_TO_END * U64(2) + U64(k)
        if (types >> bit) & ~settled(limits, base, bit) & U64(1) and journal_accepts(knobs, tally, U64(1)):
            above = k == 1
            compared = limits[base + U64(2)] if above else before
            kind = THRESHOLD if above else CHANGE
            emit(journal, j, tally, kind, FLOW_LATENCY, e.time_ns, latency, compared)
            put_report_flow(journal, j, reports, i, knobs)
            journal[j].hop_count = U8(count)
            j += U64(1)
    if types & PATH_CHANGE:
        j = journal_path(journal, j, tally, knobs, reports, i, PATH_KIND, path, count, old, new)
    put_time(journal, first_j, j, whole_time(reports, i, hops, first, count))
    return n + U64(1), j


@kernel
def journal_path(journal, j, tally, knobs, reports, i, kind, path, count, old, new):
    """A path in the journal: NEW_KEY, PATH_CHANGE or LOOP. Returns journal events so far."""
    if journal_accepts(knobs, tally, (count + INLINE - U64(1)) // INLINE):
        j = emit_path(journal, j, tally, reports, i, kind, path, count, old, new, knobs)
    return j


@kernel
def journal_loop(journal, j, tally, knobs, reports, i, path, count, old, new):
    """LOOP in the journal if a node is twice in a path. Returns journal events so far."""
    again = find_loop(path, count)
    if again:
        begin = j
        j = journal_path(journal, j, tally, knobs, reports, i, LOOP, path, count, old, new)
        for k in range(begin, j):
            journal[U64(k)].node_id = path[again]
            journal[U64(k)].ident = U32(again)
    return j
