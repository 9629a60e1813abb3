"""Kernels that tell: records of the event ring, events of the journal, and what quotas hold back of both."""

from __future__ import annotations

from typing import Any

from ...base.jit import U8, U16, U32, U64, inlined, kernel
from ..flows.event_kernel import CHANGE, KNOBS, SHARD, TALLY, at_hop, emit, hash_flow, of_report, pack_l4
from ..flows.flow_cache_kernel import FLOW_LATENCY, HOP_LATENCY, INLINE
from ..flows.hop_kernel import LINK_UTILIZATION, OCCUPANCY, PORTS, QUEUE_OCCUPANCY, UNKNOWN
from ..flows.path_kernel import gather, tell_path
from ..records import NO_NODE, PATH_PART, Kind
from .records import MEASURES, Measure, Type

THRESHOLD = U64(Kind.THRESHOLD)
NEW_KEY = U64(Kind.NEW_KEY)
PATH_KIND = U64(Kind.PATH_CHANGE)
NOBODY = U64(NO_NODE)
PATH_CHANGE = U64(Type.PATH_CHANGE)
END_TO_END = U64(Measure.END_TO_END)
TYPES = len(Type)

# Slots of `knobs` behind those of the collector's kernels.
TOLD = U64(KNOBS)
"""Sequence number of the next record of the event ring."""
GONE = TOLD + U64(1)
"""The same of the eviction ring."""
MARKED = TOLD + U64(2)
"""Rows of the batch that caused events so far."""
COUNTED = TOLD + U64(3)
"""Whether there are distributions."""
LIMITED = TOLD + U64(4)
"""Whether there is a quota."""
JOURNAL = TOLD + U64(5)
"""Events that the journal still takes."""
QUOTA = TOLD + U64(6)
"""Events that the quota still allows, by type."""
SINK_KNOBS = int(QUOTA) + TYPES

# Slots of `tally` behind those of the collector's kernels.
PACKETS = U64(TALLY)
OF_TYPE = PACKETS + U64(1)
HELD_TYPE = OF_TYPE + U64(TYPES)
HELD_JOURNAL = HELD_TYPE + U64(TYPES)
QUEUES_FULL = HELD_JOURNAL + U64(1)
SINK_TALLY = int(QUEUES_FULL) + 1

STEP = U64(3)
"""Limits of one measure: T, 2T, above."""
ROW = U64(MEASURES * 3)


@inlined
def judge(limits: Any, at: Any, value: Any, before: Any, known: Any) -> Any:
    """Bits of one value by its limits at `at`: 1 if it is off `before` by more than T, 2 if it is above.

    `known` is 0 where there is no value before.
    """
    changed = U64(value + limits[at] - before > limits[at + U64(1)]) & known
    return changed | U64(value > limits[at + U64(2)]) << U64(1)


@kernel
def allowed(types: Any, knobs: Any, tally: Any) -> Any:
    """Bits that the quotas leave of `types`; both are counted."""
    for k in range(TYPES):
        bit = U64(1) << U64(k)
        if types & bit:
            if knobs[LIMITED] != U64(0):
                if knobs[QUOTA + U64(k)] == U64(0):
                    types ^= bit
                    tally[HELD_TYPE + U64(k)] += U64(1)
                    continue
                knobs[QUOTA + U64(k)] -= U64(1)
            tally[OF_TYPE + U64(k)] += U64(1)
    return types


@inlined
def journal_takes(knobs: Any, tally: Any, count: Any) -> Any:
    """Whether the journal takes `count` more events; those that it does not are counted."""
    if knobs[JOURNAL] < count:
        tally[HELD_JOURNAL] += count
        return False
    knobs[JOURNAL] -= count
    return True


@inlined
def begin(told: Any, n: Any, knobs: Any, reports: Any, i: Any, types: Any) -> None:
    """Begin record n of the event ring with what is the packet's."""
    r = reports[i]
    e = told[n]
    e.sequence = knobs[TOLD] + n
    e.time_ns = r.time_ns
    e.flow_id = hash_flow(
        r.src_hi, r.src_lo, r.dst_hi, r.dst_lo, pack_l4(r.sport, r.dport, r.proto, r.ip_version)
    )
    e.src_hi = r.src_hi
    e.src_lo = r.src_lo
    e.dst_hi = r.dst_hi
    e.dst_lo = r.dst_lo
    e.sport = r.sport
    e.dport = r.dport
    e.proto = r.proto
    e.ip_version = r.ip_version
    e.types = U16(types)
    e.shard = U8(knobs[SHARD])


@kernel
def tell_hop(
    told: Any, n: Any, journal: Any, j: Any, tally: Any, knobs: Any, limits: Any, base: Any,
    reports: Any, i: Any, hops: Any, at: Any, types: Any, measures: Any, h: Any, m: Any,
    latency: Any, occupancy: Any, utilization: Any,
) -> Any:  # fmt: skip
    """Event of hop `at`, the h-th of m; the three values are those before. (records, journal events so far).

    `measures` are those that the hop has; what it has not is 0 in the record.
    """
    types = allowed(types, knobs, tally)
    if types == U64(0):
        return n, j
    hop = hops[at]
    have = U64(hop.present & ~hop.null)
    port = U64(hop.egress_port) if have & PORTS else UNKNOWN
    queue = U64(hop.queue_id) if have & OCCUPANCY else U64(0)
    begin(told, n, knobs, reports, i, types)
    e = told[n]
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
        if (types >> bit) & U64(1) and journal_takes(knobs, tally, U64(1)):
            measure = bit >> U64(1)
            metric, value, before, ident = HOP_LATENCY, e.latency, latency, U64(0)
            if measure == U64(1):
                metric, value, before, ident = QUEUE_OCCUPANCY, U64(e.occupancy), occupancy, queue
            elif measure == U64(2):
                metric, value, before, ident = LINK_UTILIZATION, U64(e.utilization), utilization, port
            kind = CHANGE
            if bit & U64(1):
                kind, before = THRESHOLD, limits[base + measure * STEP + U64(2)]
            emit(journal, j, tally, knobs, kind, metric, e.time_ns, value, before)
            of_report(journal, j, reports, i)
            at_hop(journal, j, U64(e.node_id), ident, port, h, m)
            j += U64(1)
    return n + U64(1), j


@kernel
def tell_packet(
    told: Any, n: Any, journal: Any, j: Any, tally: Any, knobs: Any, limits: Any,
    reports: Any, i: Any, hops: Any, first: Any, count: Any, types: Any,
    latency: Any, before: Any, path: Any, new: Any, old: Any,
) -> Any:  # fmt: skip
    """Event of a whole packet: its latency, its path. (records, journal events so far).

    `latency` and `before` are end to end, 0 where it has none; `new` and `old` are the hashes of the paths.
    """
    types = allowed(types, knobs, tally)
    if types == U64(0):
        return n, j
    gather(hops, first, count, NOBODY, NOBODY, path)
    begin(told, n, knobs, reports, i, types)
    e = told[n]
    e.latency = latency
    e.latency_previous = before
    e.occupancy = U32(0)
    e.occupancy_previous = U32(0)
    e.utilization = U32(0)
    e.utilization_previous = U32(0)
    e.node_id = U32(NOBODY)
    for k in range(PATH_PART):
        e.path[U64(k)] = path[U64(k)] if U64(k) < count else U32(0)
    e.port = U16(UNKNOWN)
    e.queue_id = U8(0)
    e.hop = U8(0)
    e.hop_count = U8(count)
    base = END_TO_END * STEP
    for k in range(2):
        bit = END_TO_END * U64(2) + U64(k)
        if (types >> bit) & U64(1) and journal_takes(knobs, tally, U64(1)):
            above = k == 1
            compared = limits[base + U64(2)] if above else before
            kind = THRESHOLD if above else CHANGE
            emit(journal, j, tally, knobs, kind, FLOW_LATENCY, e.time_ns, latency, compared)
            of_report(journal, j, reports, i)
            journal[j].hop_count = U8(count)
            j += U64(1)
    if types & PATH_CHANGE:
        j = journal_path(journal, j, tally, knobs, reports, i, PATH_KIND, path, count, old, new)
    return n + U64(1), j


@kernel
def journal_path(
    journal: Any, j: Any, tally: Any, knobs: Any, reports: Any, i: Any, kind: Any,
    path: Any, count: Any, old: Any, new: Any,
) -> Any:  # fmt: skip
    """A path for the journal: NEW_KEY or PATH_CHANGE. Returns journal events so far."""
    if journal_takes(knobs, tally, (count + INLINE - U64(1)) // INLINE):
        j = tell_path(journal, j, tally, knobs, reports, i, kind, path, count, old, new)
    return j
