"""Kernels of the general way: everything that one report can cause."""

from __future__ import annotations

from typing import Any

from ...base.jit import U8, U32, U64, inlined, kernel, order
from ...wire.records import Carried, Flag, IntFlag, Mode
from ..records import FlowState, Kind
from . import flow_cache_kernel as flow_cache
from .event_kernel import ENABLED, FLOW_CARRIED, NAMELESS, NOBODY, at_hop, emit, judged, of_report
from .hop_kernel import OCCUPANCY, PORTS, QUEUE_OCCUPANCY, UNKNOWN, queue_ident, take_hop
from .path_kernel import HAS_PATH, gather, hash_path, new_path, node_of, same_path, tell_value_path, thread

DROP = U64(Kind.DROP)
QUEUE_REPORT = U64(Kind.QUEUE_REPORT)
DROPPED = U64(Flag.DROPPED)
CONGESTED = U64(Flag.CONGESTED)
INTERMEDIATE = U64(Flag.INTERMEDIATE)
JOINED = U64(Flag.JOINED)
PARTIAL = U64(Flag.INCOMPLETE)
HELD = U64(Flag.HELD)
MX = U64(Mode.MX)
CUT_SHORT = U64(IntFlag.HOPS_EXCEEDED | IntFlag.MTU_EXCEEDED)
OWN_HOP = U64(Carried.OWN_HOP)
NODE_CARRIED = U64(Carried.NODE_ID)
QUEUE_CARRIED = U64(Carried.QUEUE_ID)
INCOMPLETE = U64(FlowState.INCOMPLETE)
ALARM = U64(1) << flow_cache.FLOW_LATENCY
MOST_HOPS = U64(64)


@inlined
def own_node(reports: Any, i: Any, hops: Any) -> Any:
    """Node of the report itself, or NOBODY."""
    r = reports[i]
    fallback = U64(r.node_id) if U64(r.carried) & NODE_CARRIED else NOBODY
    if U64(r.carried) & OWN_HOP:
        return node_of(hops, U64(r.first_hop) + U64(r.hop_count), fallback)
    return fallback


@kernel
def mark(reports: Any, i: Any, hops: Any, events: Any, n: Any, tally: Any, knobs: Any) -> Any:
    """DROP and QUEUE_REPORT events of report i. Returns events so far."""
    r = reports[i]
    node = own_node(reports, i, hops)
    port, queue, occupancy, metric = UNKNOWN, U64(0), U64(0), U64(0)
    if U64(r.carried) & OWN_HOP:
        own = hops[U64(r.first_hop) + U64(r.hop_count)]
        have = U64(own.present & ~own.null)
        if have & PORTS:
            port = U64(own.egress_port)
        if have & OCCUPANCY:
            queue, occupancy, metric = U64(own.queue_id), U64(own.queue_occupancy), QUEUE_OCCUPANCY
    if U64(r.carried) & QUEUE_CARRIED:
        queue = U64(r.queue_id)
    ident = queue_ident(knobs, port, queue)
    if U64(r.flags) & DROPPED:
        emit(events, n, tally, knobs, DROP, U64(0), r.time_ns, U64(r.drop_reason), U64(0))
        of_report(events, n, reports, i)
        at_hop(events, n, node, ident, port, U64(0), U64(r.hop_count))
        n += U64(1)
    if U64(r.flags) & CONGESTED:
        emit(events, n, tally, knobs, QUEUE_REPORT, metric, r.time_ns, occupancy, U64(0))
        of_report(events, n, reports, i)
        at_hop(events, n, node, ident, port, U64(0), U64(r.hop_count))
        n += U64(1)
    return n


@kernel
def settle_path(
    flows: Any, f: Any, states: Any, pool: Any,
    hops: Any, first: Any, count: Any, last: Any, own: Any, whole: Any,
    path: Any, where: Any, spare: Any, events: Any, n: Any, tally: Any, knobs: Any, reports: Any, i: Any,
) -> Any:  # fmt: skip
    """A report's path that is not simply the stored one: change it, or find its hops in it (`where`).

    Returns (events so far, whether hop h is state h of the flow rather than `where[h]`).
    """
    flow = flows[f]
    nameless = gather(hops, first, count, last, own, path)
    had = U64(flow.state) & HAS_PATH
    if whole and nameless == U64(0):
        if not had or U64(flow.hop_count) != count or hash_path(path, count) != flow.path_hash:
            n = new_path(
                flows, f, states, pool, path, count, spare, events, n, tally, knobs, reports, i, U64(2)
            )
        flow.state &= U8(~INCOMPLETE)
        return n, True
    flow.state |= U8(INCOMPLETE)
    if thread(flows, f, states, path, count, where) < count and not had:
        told = U64(flow.packets == U64(0) and nameless == U64(0))
        n = new_path(flows, f, states, pool, path, count, spare, events, n, tally, knobs, reports, i, told)
        return n, True
    return n, False


@kernel
def node_in_flow(flows: Any, f: Any, states: Any, node: Any) -> Any:
    """State of the hop of flow f that is at a node, or NONE."""
    pool_base = U64(len(flows)) * flow_cache.INLINE
    for k in range(flows[f].hop_count):
        at = flow_cache.hop_at(f, U64(k), U64(flows[f].pool_block), pool_base)
        if at != flow_cache.NONE and U64(states[at].node_id) == node and node != NOBODY:
            return at
    return flow_cache.NONE


@inlined
def take_flow_latency(
    flows: Any, f: Any, value: Any, m: Any,
    events: Any, n: Any, tally: Any, knobs: Any, reports: Any, i: Any, limits: Any,
) -> Any:  # fmt: skip
    """The sum of the hop latencies of flow f. Returns events so far."""
    flow = flows[f]
    limit = limits[flow_cache.FLOW_LATENCY]
    stored = flow.latency_stored
    gap = value - stored if value > stored else stored - value
    flow.latency_latest = value
    flow.latency_sum += value
    flow.latency_samples += U64(1)
    has = U64(flow.state) & flow_cache.HAS_LATENCY
    alarm = U64(flow.alarm) & ALARM
    if (gap >= limit.change) | (value > limit.raise_above) | (has == U64(0)) | (alarm != U64(0)):
        n, stored, alarm = judged(
            events, n, tally, knobs, reports, i, limits, flow_cache.FLOW_LATENCY, value, stored, has, alarm,
            NOBODY, U64(0), UNKNOWN, U64(0), m,
        )  # fmt: skip
        flow.latency_stored = stored
        flow.state |= U8(flow_cache.HAS_LATENCY)
        flow.alarm = U8((U64(flow.alarm) & ~ALARM) | (ALARM if alarm else U64(0)))
    return n


@kernel
def take_report(
    reports: Any, i: Any, hops: Any, hashed: Any, guess: Any,
    tags: Any, flows: Any, states: Any, pool: Any, ports: Any,
    limits: Any, knobs: Any, events: Any, n: Any, tally: Any, path: Any, where: Any, spare: Any,
) -> Any:  # fmt: skip
    """Everything of report i but its sequence number. Returns (events so far, values in it)."""
    r = reports[i]
    first = U64(r.first_hop)
    count = U64(r.hop_count)
    carried = U64(r.carried)
    last = first + U64(r.hop_count)  # the report's own hop
    own = own_node(reports, i, hops)
    # the record behind an MX header is of one node: no path
    stack = r.int_version != 0 and U64(r.int_mode) != MX
    stacked = (stack or U64(r.flags) & JOINED != U64(0)) and count != U64(0)
    if stacked:
        if carried & OWN_HOP and own != NOBODY and count < MOST_HOPS:
            count += U64(node_of(hops, first + count - U64(1), NOBODY) != own)
    elif count:
        own = node_of(hops, first, NOBODY)
        count = U64(1)
    elif carried & OWN_HOP:
        first = last
        count = U64(1)
    else:
        count = U64(0)
    marked = U64(r.flags) & (DROPPED | CONGESTED)
    dropped = U64(r.flags) & DROPPED

    f = flow_cache.NONE
    row = U64(0)
    version = U32(0)
    if carried & FLOW_CARRIED:
        row = hashed & (U64(len(tags)) // flow_cache.ROW_WORDS - U64(1))
        way = guess
        if way != flow_cache.NONE and not flow_cache.is_flow(flows, row * flow_cache.WAY + way, reports, i):
            way = flow_cache.NONE
        if way == flow_cache.NONE:
            way = flow_cache.find_flow(tags, flows, row, flow_cache.tag_of(hashed), reports, i)
        if way != flow_cache.NONE or (stacked and not dropped):
            version = tags[row * flow_cache.ROW_WORDS + flow_cache.VERSION]
            tags[row * flow_cache.ROW_WORDS + flow_cache.VERSION] = version | U32(1)
            order()
            if way == flow_cache.NONE:
                n, way = flow_cache.add_flow(
                    tags, flows, states, pool, row, hashed, reports, i, events, n, tally, knobs, path
                )
            flow_cache.use_way(tags, row, way)
            f = row * flow_cache.WAY + way

    values = U64(0)
    straight = f != flow_cache.NONE and stacked
    cut = U64(r.int_flags) & CUT_SHORT | U64(r.flags) & (INTERMEDIATE | DROPPED | PARTIAL)
    whole = stacked and not cut
    pool_base = U64(len(flows)) * flow_cache.INLINE
    if straight:
        flow = flows[f]
        quick = U64(whole) & U64((U64(flow.state) & (HAS_PATH | INCOMPLETE)) == HAS_PATH)
        if not (quick and same_path(flows, f, states, hops, first, count, last, own, pool_base)):
            n, straight = settle_path(
                flows, f, states, pool, hops, first, count, last, own, whole,
                path, where, spare, events, n, tally, knobs, reports, i,
            )  # fmt: skip
        if U64(flow.state) & HAS_PATH and whole and not U64(flow.state) & INCOMPLETE:
            values += U64(1)
            if knobs[ENABLED] == U64(0):
                gather(hops, first, count, last, own, path)
                n = tell_value_path(events, n, tally, knobs, reports, i, path, count)
    elif f != flow_cache.NONE and count:
        where[U64(0)] = node_in_flow(flows, f, states, own)

    sum_latency = U64(0)
    with_latency = U64(0)
    block = U64(flows[f].pool_block) if f != flow_cache.NONE else U64(0)
    for h in range(count):
        s = flow_cache.NONE
        if straight:
            s = flow_cache.hop_at(f, h, block, pool_base)
        elif f != flow_cache.NONE:
            s = where[h]
        named = own if first + h == last else NOBODY
        n, more, latency, has, nameless = take_hop(
            ports, states, s, hops, first + h, named, h, count, events, n, tally, knobs, reports, i, limits
        )
        values += more
        sum_latency += latency
        with_latency += has
        if nameless:
            tally[NAMELESS] += U64(1)

    if f != flow_cache.NONE:
        flow = flows[f]
        flow.packets += U64(1)
        flow.last_ns = r.time_ns
        if whole and with_latency == count:
            n = take_flow_latency(flows, f, sum_latency, count, events, n, tally, knobs, reports, i, limits)
            values += U64(1)
        order()
        tags[row * flow_cache.ROW_WORDS + flow_cache.VERSION] = (version | U32(1)) + U32(1)
    if marked:
        n = mark(reports, i, hops, events, n, tally, knobs)
    return n, values
