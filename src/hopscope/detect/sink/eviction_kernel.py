"""Kernels for flows that leave the table (evicted, expired, ended) as records of the eviction ring.

===================== ==========================================================================
`evicted`, `g`        EVICTED [n], and their number so far
`tags`, `flows`       uint32 [rows * 16], FLOW [rows * WAYS], see `flow_cache_kernel`; `f`: a flow
`states`, `pool`      HOP_STATE, uint32 [blocks + 1], see `flow_cache_kernel`
`reports`, `i`        REPORT [n], and the index of the current packet
`journal`, `j`        EVENT [n], and their number so far
`tally`, `knobs`      uint64 [SINK_TALLY], uint64 [SINK_KNOBS], see `event_kernel`
===================== ==========================================================================
"""

from ...base.kernels.jit import U8, U16, U32, U64, kernel, order
from ..flows import flow_cache_kernel as flow_cache
from ..flows.event_kernel import EVICTIONS, EXPIRIES, NO_NODE, NO_PORT, NOT_FOUND
from ..records import PATH_PART, WAYS, ClearReason
from .event_kernel import ALARMED
from .records import EvictionReason

EVICTED = U64(EvictionReason.EVICTED)
EXPIRED = U64(EvictionReason.EXPIRED)
CLEARED_EVICTED = U64(ClearReason.EVICTED)
CLEARED_EXPIRED = U64(ClearReason.EXPIRED)
STOPPED = U64(ClearReason.STOPPED)
ROW_PARTS = WAYS * 8
"""Most records of one row: a path of 64 hops takes eight."""
ROW_ALARMS = WAYS * 65
"""Most alarms of one row: of 64 hops, and of the flow."""


@kernel
def put_evicted_hop(evicted, g, k, states, at):
    """Write hop k of record g from its state at `at`; NOT_FOUND: its state is unknown."""
    hop = evicted[g].hops[k]
    if at == NOT_FOUND:
        hop.latency_sum = U64(0)
        hop.occupancy_sum = U64(0)
        hop.utilization_sum = U64(0)
        hop.node_id = U32(NO_NODE)
        hop.latency_latest = U32(0)
        hop.occupancy_latest = U32(0)
        hop.utilization_latest = U32(0)
        hop.samples = U32(0)
        hop.port = U16(NO_PORT)
        hop.queue_id = U8(0)
        hop.have = U8(0)
        return
    state = states[at]
    have = U64(state.state)
    latency, occupancy, utilization = have & U64(1), (have >> U64(1)) & U64(1), (have >> U64(2)) & U64(1)
    hop.latency_sum = state.latency_sum * latency
    hop.occupancy_sum = state.queue_sum * occupancy
    hop.utilization_sum = state.utilization_sum * utilization
    hop.node_id = state.node_id
    hop.latency_latest = U32(U64(state.latency_latest) * latency)
    hop.occupancy_latest = U32(U64(state.queue_latest) * occupancy)
    hop.utilization_latest = U32(U64(state.utilization_latest) * utilization)
    hop.samples = state.samples if have else U32(0)
    hop.port = state.egress_port
    hop.queue_id = U8(state.buffer_slot)
    hop.have = state.state


@kernel
def put_evicted_flow(evicted, g, flows, f, states, reason):
    """Records of flow f, one for each 8 hops of its path. Returns records so far."""
    flow = flows[f]
    count = U64(flow.hop_count)
    pool_base = U64(len(flows)) * flow_cache.INLINE
    block = U64(flow.pool_block)
    for first in range(U64(0), max(count, U64(1)), flow_cache.INLINE):
        e = evicted[g]
        e.flow_id = flow.flow_id
        e.src_hi = flow.src_hi
        e.src_lo = flow.src_lo
        e.dst_hi = flow.dst_hi
        e.dst_lo = flow.dst_lo
        e.first_ns = flow.first_ns
        e.last_ns = flow.last_ns
        e.packets = flow.packets if first == U64(0) else U64(0)
        e.latency_latest = flow.latency_latest
        e.latency_sum = flow.latency_sum
        e.latency_samples = flow.latency_samples
        e.path_hash = flow.path_hash
        e.sport = flow.sport
        e.dport = flow.dport
        e.proto = flow.proto
        e.ip_version = flow.ip_version
        e.hop_count = flow.hop_count
        e.first_hop = U8(first)
        e.reason = U8(reason)
        for k in range(PATH_PART):
            h = U64(first) + U64(k)
            put_evicted_hop(
                evicted,
                g,
                U64(k),
                states,
                flow_cache.hop_at(f, h, block, pool_base) if h < count else NOT_FOUND,
            )
        g += U64(1)
    return g


@kernel
def add_flow(tags, flows, states, pool, row, hashed, reports, i, evicted, g, journal, j, tally, knobs):
    """Make room for the flow of packet i in its row; the caller holds the row's version odd.

    Returns (records so far, journal events so far, way).
    """
    way = flow_cache.free_way(tags, row, (hashed >> U64(40)) % flow_cache.WAY)
    f = row * flow_cache.WAY + way
    if tags[row * flow_cache.ROW_WORDS + way]:
        tally[EVICTIONS] += U64(1)
        if knobs[ALARMED]:
            now = reports[i].time_ns
            j = flow_cache.clear_flow(journal, j, tally, flows, f, states, now, CLEARED_EVICTED)
        g = put_evicted_flow(evicted, g, flows, f, states, EVICTED)
        flow_cache.forget_flow(tags, flows, f, pool)
    flow_cache.start_flow(tags, flows, row, way, hashed, reports, i)
    return g, j, way


@kernel
def sweep_idle(tags, flows, states, pool, start, end, now, idle_ns, reason, evicted, journal, tally, knobs):
    """Remove the flows of the rows `start` to `end` without a packet for `idle_ns`; below 0: all flows.

    Their alarms are cleared. Returns (first row not swept, records, journal events).
    """
    g = U64(0)
    j = U64(0)
    for k in range(U64(start), U64(end)):
        row = U64(k)
        if (U64(len(evicted)) - g < U64(ROW_PARTS)) | (U64(len(journal)) - j < U64(ROW_ALARMS)):
            return row, g, j
        for w in range(WAYS):
            way = U64(w)
            if tags[row * flow_cache.ROW_WORDS + way] == U32(0):
                continue
            f = row * flow_cache.WAY + way
            flow = flows[f]
            in_future = flow.last_ns > now and idle_ns >= 0
            if not in_future and idle_ns >= 0 and now - flow.last_ns < idle_ns:
                continue
            version = tags[row * flow_cache.ROW_WORDS + flow_cache.VERSION]
            tags[row * flow_cache.ROW_WORDS + flow_cache.VERSION] = version | U32(1)
            order()
            if in_future:  # the clock was set back
                flow.last_ns = now
            else:
                if knobs[ALARMED]:
                    why = CLEARED_EXPIRED if reason == EXPIRED else STOPPED
                    j = flow_cache.clear_flow(journal, j, tally, flows, f, states, now, why)
                g = put_evicted_flow(evicted, g, flows, f, states, U64(reason))
                flow_cache.forget_flow(tags, flows, f, pool)
                if reason == EXPIRED:
                    tally[EXPIRIES] += U64(1)
            order()
            tags[row * flow_cache.ROW_WORDS + flow_cache.VERSION] = (version | U32(1)) + U32(1)
    return U64(end), g, j
