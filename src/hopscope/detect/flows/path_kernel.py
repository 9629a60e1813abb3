"""Kernels of paths on the slow path: a new one, a changed one, an incomplete one.

===================== ==========================================================================
`hops`                HOP [m]; a report's hops are `first` … `first + count - 1`
`last`, `own`         index of the report's own hop, and its node if the hop carries no id
`path`                uint32 [64]: node ids, `count` of them
`flows`, `f`          FLOW [rows * WAYS], and the index of a flow
`states`, `pool`      HOP_STATE and uint32 [blocks + 1], see `flow_cache_kernel`
`old_hops`            HOP_STATE [64]: copies of the hops of the previous path
`where`               uint64 [64]: index of each hop's state, or NOT_FOUND
`reports`, `i`        REPORT [n], and the index of the current one
`events`, `tally`     EVENT [n], uint64 [TALLY], see `event_kernel`; `n`: events so far
===================== ==========================================================================
"""

from ...base.kernels.jit import U8, U16, U32, U64, inlined, kernel
from ...wire.records import Have
from ..records import NO_VALUE, ClearReason, FlowState, Kind
from .event_kernel import (
    ENABLED,
    NEW_KEY,
    NO_NODE,
    NO_PORT,
    NOT_FOUND,
    POOL_FULL,
    VALUE,
    emit,
    put_path,
    put_report_flow,
)
from .flow_cache_kernel import FLOW_PATH, INLINE, clear_hop, hop_at

NODE_ID = U64(Have.NODE_ID)
PATH_CHANGE = U64(Kind.PATH_CHANGE)
LOOP = U64(Kind.LOOP)
LEFT_PATH = U64(ClearReason.PATH_CHANGE)
HAS_PATH = U64(FlowState.HAS_PATH)
HAS_LOOP = U64(FlowState.HAS_LOOP)
NO_NODE_32 = U32(NO_NODE)
NO_VALUE_32 = U32(NO_VALUE)

# What a report says about its flow's path.
SILENT = U64(0)
"""Too little for an event."""
PROVISIONAL = U64(1)
"""The first known path of the flow, but an incomplete one."""
WHOLE = U64(2)


@inlined
def node_of(hops, at, fallback):
    """Node id of a hop as uint64; `fallback` if it has none."""
    hop = hops[at]
    return U64(hop.node_id) if U64(hop.present & ~hop.null) & NODE_ID else fallback


@kernel
def hash_path(path, count):
    """Hash of a path's nodes, in order; never 0."""
    h = count * U64(0x9E3779B97F4A7C15)
    for k in range(count):
        h = (h ^ U64(path[U64(k)])) * U64(0xFF51AFD7ED558CCD)
        h ^= h >> U64(32)
    return h | U64(h == U64(0))


@kernel
def emit_path(events, n, tally, reports, i, kind, path, count, old, new, knobs):
    """Event of a path, one record per 8 nodes. Returns records so far."""
    for first in range(U64(0), count, INLINE):
        emit(events, n, tally, kind, FLOW_PATH, reports[i].time_ns, new, old)
        put_report_flow(events, n, reports, i, knobs)
        put_path(events, n, path, U64(first), count)
        if first:
            tally[kind] -= U64(1)  # another record of the same event
        n += U64(1)
    return n


@kernel
def find_loop(path, count):
    """First index in the path at which a node occurs for the second time; 0 without a loop."""
    for k in range(U64(1), count):
        for j in range(k):
            if path[U64(k)] == path[U64(j)]:
                return U64(k)
    return U64(0)


@kernel
def set_path(flows, f, states, pool, path, count, old_hops, tally):
    """Make `path` the path of flow f; a node of the previous path keeps its state.

    Returns the length of the previous path; `old_hops` has an alarm where one was lost.
    """
    flow = flows[f]
    pool_base = U64(len(flows)) * INLINE
    old = U64(flow.hop_count)
    for k in range(old):
        at = hop_at(f, U64(k), U64(flow.pool_block), pool_base)
        if at != NOT_FOUND:
            old_hops[U64(k)] = states[at]
        else:
            old_hops[U64(k)].node_id = NO_NODE_32
            old_hops[U64(k)].alarm = U8(0)
    if count > INLINE and not flow.pool_block:
        if pool[U64(0)]:
            flow.pool_block = pool[U64(pool[U64(0)])]
            pool[U64(0)] -= U32(1)
        else:
            tally[POOL_FULL] += U64(1)
    elif count <= INLINE and flow.pool_block:
        pool[U64(0)] += U32(1)
        pool[U64(pool[U64(0)])] = flow.pool_block
        flow.pool_block = U32(0)
    for k in range(count):
        at = hop_at(f, U64(k), U64(flow.pool_block), pool_base)
        if at == NOT_FOUND:
            break
        state = states[at]
        found = False
        for j in range(old):
            if old_hops[U64(j)].node_id == path[U64(k)] and path[U64(k)] != NO_NODE_32:
                states[at] = old_hops[U64(j)]
                old_hops[U64(j)].node_id = NO_NODE_32
                old_hops[U64(j)].alarm = U8(0)
                found = True
                break
        if not found:
            state.node_id = path[U64(k)]
            state.latency_latest = U32(0)
            state.latency_stored = U32(0)
            state.egress_port = U16(NO_PORT)
            state.alarm = U8(0)
            state.state = U8(0)
            state.latency_sum = U64(0)
            state.samples = U32(0)
            state.queue_latest = NO_VALUE_32
            state.utilization_latest = NO_VALUE_32
    flow.hop_count = U8(count)
    flow.path_hash = hash_path(path, count)
    return old


@kernel
def new_path(flows, f, states, pool, path, count, old_hops, events, n, tally, knobs, reports, i, status):
    """Store a path that differs from flow f's, and report it by its `status`. Returns events so far.

    An incomplete path of a flow without a path is NEW_KEY once, and stays PROVISIONAL. The first WHOLE path
    is NEW_KEY again; each later one is PATH_CHANGE.
    """
    flow = flows[f]
    before = flow.path_hash
    had = U64(flow.state) & HAS_PATH
    old = set_path(flows, f, states, pool, path, count, old_hops, tally)
    for k in range(old):
        n = clear_hop(
            events, n, tally, flows, f, old_hops, U64(k), U64(k), old, reports[i].time_ns, LEFT_PATH
        )
    state = U64(flow.state) & ~(HAS_PATH | HAS_LOOP)
    if had or status == WHOLE:
        state |= HAS_PATH
    if status and knobs[ENABLED]:
        kind = PATH_CHANGE if had else NEW_KEY
        n = emit_path(
            events, n, tally, reports, i, kind, path, count, before if had else U64(0), flow.path_hash, knobs
        )
    again = find_loop(path, count) if status else U64(0)
    if again:
        state |= HAS_LOOP
        if knobs[ENABLED]:
            begin = n
            n = emit_path(events, n, tally, reports, i, LOOP, path, count, before, flow.path_hash, knobs)
            for k in range(begin, n):
                events[U64(k)].node_id = path[again]
                events[U64(k)].ident = U32(again)
    flow.state = U8(state)
    return n


@kernel
def match_path(flows, f, states, path, count, where):
    """Find the nodes of an incomplete path in flow f's, in order; `where[h]` gets the state of hop h.

    Returns how many were found.
    """
    flow = flows[f]
    pool_base = U64(len(flows)) * INLINE
    total = U64(flow.hop_count)
    at = U64(0)
    found = U64(0)
    for h in range(count):
        where[U64(h)] = NOT_FOUND
        for k in range(at, total):
            state = hop_at(f, U64(k), U64(flow.pool_block), pool_base)
            if state != NOT_FOUND and states[state].node_id == path[U64(h)]:
                where[U64(h)] = state
                at = U64(k) + U64(1)
                found += U64(1)
                break
    return found


@inlined
def same_path(flows, f, states, hops, first, count, last, own, pool_base):
    """Whether the hops have the nodes of flow f's stored path."""
    flow = flows[f]
    if U64(flow.hop_count) != count:
        return False
    block = U64(flow.pool_block)
    if count > INLINE and block == U64(0):
        return False
    different = U64(0)
    for h in range(count):
        at = hop_at(f, U64(h), block, pool_base)
        different |= U64(states[at].node_id) ^ node_of(hops, first + h, own if first + h == last else NO_NODE)
    return different == U64(0)


@kernel
def gather_path(hops, first, count, last, own, path):
    """Write the nodes of a report's hops to `path`; returns how many have no id."""
    without_id = U64(0)
    for h in range(count):
        node = node_of(hops, first + h, own if first + h == last else NO_NODE)
        path[U64(h)] = U32(node)
        without_id += U64(node == NO_NODE)
    return without_id


@kernel
def emit_value_path(events, n, tally, reports, i, path, count, knobs):
    """The path as a VALUE event, if detection is off."""
    hashed = hash_path(path, count)
    return emit_path(events, n, tally, reports, i, VALUE, path, count, hashed, hashed, knobs)
