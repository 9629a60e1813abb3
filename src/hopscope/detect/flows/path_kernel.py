"""Kernels of the slow path of paths: a new one, a changed one, one that is not whole."""

from __future__ import annotations

from typing import Any

from ...base.jit import U8, U16, U32, U64, inlined, kernel
from ...wire.records import Have
from ..records import FlowState, Kind
from .event_kernel import ENABLED, NEW_KEY, NOBODY, POOL_FULL, VALUE, emit, of_report, put_path
from .flow_cache_kernel import FLOW_PATH, INLINE, NONE, hop_at

NODE_ID = U64(Have.NODE_ID)
PATH_CHANGE = U64(Kind.PATH_CHANGE)
LOOP = U64(Kind.LOOP)
HAS_PATH = U64(FlowState.HAS_PATH)
HAS_LOOP = U64(FlowState.HAS_LOOP)
GONE = U32(0xFFFFFFFF)


@inlined
def node_of(hops: Any, at: Any, fallback: Any) -> Any:
    """Node id of a hop as uint64, or `fallback` where it has none."""
    hop = hops[at]
    return U64(hop.node_id) if U64(hop.present & ~hop.null) & NODE_ID else fallback


@kernel
def hash_path(path: Any, count: Any) -> Any:
    """Hash of a path's nodes, in order; never 0."""
    h = count * U64(0x9E3779B97F4A7C15)
    for k in range(count):
        h = (h ^ U64(path[U64(k)])) * U64(0xFF51AFD7ED558CCD)
        h ^= h >> U64(32)
    return h | U64(h == U64(0))


@kernel
def tell_path(
    events: Any,
    n: Any,
    tally: Any,
    knobs: Any,
    reports: Any,
    i: Any,
    kind: Any,
    path: Any,
    count: Any,
    old: Any,
    new: Any,
) -> Any:
    """Events of a path: one for each 8 nodes."""
    for first in range(U64(0), count, INLINE):
        emit(events, n, tally, knobs, kind, FLOW_PATH, reports[i].time_ns, new, old)
        of_report(events, n, reports, i)
        put_path(events, n, path, U64(first), count)
        n += U64(1)
    return n


@kernel
def second_visit(path: Any, count: Any) -> Any:
    """Place in the path where a node comes for the second time; 0 without a loop."""
    for k in range(U64(1), count):
        for j in range(k):
            if path[U64(k)] == path[U64(j)]:
                return U64(k)
    return U64(0)


@kernel
def lay_hops(
    flows: Any, f: Any, states: Any, pool: Any, path: Any, count: Any, spare: Any, tally: Any
) -> Any:
    """Give flow f the hops of `path`; a node that was in its path before keeps its state."""
    flow = flows[f]
    pool_base = U64(len(flows)) * INLINE
    old = U64(flow.hop_count)
    for k in range(old):
        at = hop_at(f, U64(k), U64(flow.pool_block), pool_base)
        if at != NONE:
            spare[U64(k)] = states[at]
        else:
            spare[U64(k)].node_id = GONE
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
        if at == NONE:
            break
        state = states[at]
        found = False
        for j in range(old):
            if spare[U64(j)].node_id == path[U64(k)] and path[U64(k)] != GONE:
                states[at] = spare[U64(j)]
                spare[U64(j)].node_id = GONE
                found = True
                break
        if not found:
            state.node_id = path[U64(k)]
            state.latency_latest = U32(0)
            state.latency_stored = U32(0)
            state.egress_port = U16(0xFFFF)
            state.alarm = U8(0)
            state.state = U8(0)
            state.latency_sum = U64(0)
            state.samples = U32(0)
            state.queue_latest = U32(0)
            state.utilization_latest = U32(0)
    flow.hop_count = U8(count)
    flow.path_hash = hash_path(path, count)


@kernel
def new_path(
    flows: Any,
    f: Any,
    states: Any,
    pool: Any,
    path: Any,
    count: Any,
    spare: Any,
    events: Any,
    n: Any,
    tally: Any,
    knobs: Any,
    reports: Any,
    i: Any,
    told: Any,
) -> Any:
    """Store a path that differs from flow f's, and tell of it; `told` is 0 for one not worth an event.

    A path that is not whole, of a flow that has none, is told once, as new, and stays provisional (`told`
    1); the first whole one (`told` 2) is told as new again, and any later one as a change.
    """
    flow = flows[f]
    before = flow.path_hash
    had = U64(flow.state) & HAS_PATH
    lay_hops(flows, f, states, pool, path, count, spare, tally)
    state = U64(flow.state) & ~(HAS_PATH | HAS_LOOP)
    if had or told == U64(2):
        state |= HAS_PATH
    if told and knobs[ENABLED]:
        kind = PATH_CHANGE if had else NEW_KEY
        n = tell_path(
            events, n, tally, knobs, reports, i, kind, path, count, before if had else U64(0), flow.path_hash
        )
    again = second_visit(path, count) if told else U64(0)
    if again:
        state |= HAS_LOOP
        if knobs[ENABLED]:
            begin = n
            n = tell_path(events, n, tally, knobs, reports, i, LOOP, path, count, before, flow.path_hash)
            for k in range(begin, n):
                events[U64(k)].node_id = path[again]
                events[U64(k)].ident = U32(again)
    flow.state = U8(state)
    return n


@kernel
def thread(flows: Any, f: Any, states: Any, path: Any, count: Any, where: Any) -> Any:
    """Find the nodes of an incomplete path in flow f's, in order: `where[h]` is the state of hop h, or NONE.

    Returns how many were found.
    """
    flow = flows[f]
    pool_base = U64(len(flows)) * INLINE
    total = U64(flow.hop_count)
    at = U64(0)
    found = U64(0)
    for h in range(count):
        where[U64(h)] = NONE
        for k in range(at, total):
            state = hop_at(f, U64(k), U64(flow.pool_block), pool_base)
            if state != NONE and states[state].node_id == path[U64(h)]:
                where[U64(h)] = state
                at = U64(k) + U64(1)
                found += U64(1)
                break
    return found


@inlined
def same_path(
    flows: Any, f: Any, states: Any, hops: Any, first: Any, count: Any, last: Any, own: Any, pool_base: Any
) -> Any:
    """Whether hops `first …` name the nodes of flow f's stored path; hop `last` is of node `own`."""
    flow = flows[f]
    if U64(flow.hop_count) != count:
        return False
    block = U64(flow.pool_block)
    if count > INLINE and block == U64(0):
        return False
    different = U64(0)
    for h in range(count):
        at = hop_at(f, U64(h), block, pool_base)
        different |= U64(states[at].node_id) ^ node_of(hops, first + h, own if first + h == last else NOBODY)
    return different == U64(0)


@kernel
def gather(hops: Any, first: Any, count: Any, last: Any, own: Any, path: Any) -> Any:
    """Write the nodes of a report's hops to `path`, `own` for hop `last`; returns how many lack an id."""
    nameless = U64(0)
    for h in range(count):
        node = node_of(hops, first + h, own if first + h == last else NOBODY)
        path[U64(h)] = U32(node)
        nameless += U64(node == NOBODY)
    return nameless


@kernel
def tell_value_path(
    events: Any, n: Any, tally: Any, knobs: Any, reports: Any, i: Any, path: Any, count: Any
) -> Any:
    """The path as a VALUE, where detection is off."""
    hashed = hash_path(path, count)
    return tell_path(events, n, tally, knobs, reports, i, VALUE, path, count, hashed, hashed)
