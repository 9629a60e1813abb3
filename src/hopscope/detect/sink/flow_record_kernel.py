"""Kernel of flow records: evicted flows as events for history, in the form that the collector writes.

===================== ==========================================================================
`evicted`, `at`       EVICTED [n], all parts of a flow adjacent, and the index of one
`events`, `n`         EVENT [m], and their number so far
`tally`               uint64 [TALLY], see `flows.event_kernel`
===================== ==========================================================================
"""

from ...base.kernels.jit import U32, U64, kernel
from ..flows.event_kernel import NOTHING, emit, put_hop, put_table_flow
from ..flows.flow_cache_kernel import FLOW_LATENCY, FLOW_PATH, FLOW_RECORD, HOP_LATENCY, INLINE
from ..flows.hop_kernel import LINK_UTILIZATION, QUEUE_OCCUPANCY
from .records import MEASURES

ROOM = U64(64 * (MEASURES - 1) + 9)
"""Most events of one flow: 64 hops with all measures, 8 parts of a path, a latency."""


@kernel
def record_hop(evicted, at, k, events, n, tally):
    """Events of hop k of record `at`: mean and latest value of each measure. Returns events so far."""
    flow = evicted[at]
    hop = flow.hops[k]
    samples = U64(hop.samples)
    for m in range(MEASURES - 1):
        if samples == U64(0) or not (U64(hop.have) >> U64(m)) & U64(1):
            continue
        metric, total, latest, ident = HOP_LATENCY, hop.latency_sum, U64(hop.latency_latest), NOTHING
        if m == 1:
            metric, total, latest = QUEUE_OCCUPANCY, hop.occupancy_sum, U64(hop.occupancy_latest)
            ident = U64(hop.queue_id)
        elif m == 2:
            metric, total, latest = LINK_UTILIZATION, hop.utilization_sum, U64(hop.utilization_latest)
            ident = U64(hop.port)
        emit(events, n, tally, FLOW_RECORD, metric, flow.last_ns, total // samples, latest)
        put_table_flow(events, n, evicted, at)
        place = U64(flow.first_hop) + U64(k)
        put_hop(events, n, U64(hop.node_id), ident, U64(hop.port), place, U64(flow.hop_count))
        n += U64(1)
    return n


@kernel
def record_flows(evicted, start, events, tally):
    """FLOW_RECORD events of the flows from record `start` on: path with packets, latency, values of hops.

    It stops before a flow whose events might not fit. Returns (record to continue with, events written).
    """
    n = U64(0)
    at = U64(start)
    while at < U64(len(evicted)):
        if U64(len(events)) - n < ROOM:
            break
        flow = evicted[at]
        count = U64(flow.hop_count)
        parts = max((count + INLINE - U64(1)) // INLINE, U64(1))
        for p in range(parts):
            emit(events, n, tally, FLOW_RECORD, FLOW_PATH, flow.last_ns, flow.packets, U64(flow.first_ns))
            put_table_flow(events, n, evicted, at)
            events[n].hop = evicted[at + U64(p)].first_hop
            for k in range(min(count - U64(p) * INLINE, INLINE)):
                events[n].path[U64(k)] = U32(evicted[at + U64(p)].hops[U64(k)].node_id)
            if p:
                tally[FLOW_RECORD] -= U64(1)  # another record of the same event
            n += U64(1)
        if flow.latency_samples:
            mean = flow.latency_sum // flow.latency_samples
            emit(events, n, tally, FLOW_RECORD, FLOW_LATENCY, flow.last_ns, mean, flow.latency_latest)
            put_table_flow(events, n, evicted, at)
            n += U64(1)
        for h in range(count):
            n = record_hop(evicted, at + U64(h) // INLINE, U64(h) % INLINE, events, n, tally)
        at += parts
    return at, n
