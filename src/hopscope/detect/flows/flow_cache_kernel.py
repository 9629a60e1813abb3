"""Kernels of the flow table: set-associative rows of 12 ways, least recently used evicted.

A row's tags, LRU ranks and version are one cache line, passed as 16 words of 32 bits: 12 tags, 3 words of
four ranks each (0: most recently used), the version. An empty tag is 0.

===================== ==========================================================================
`tags`                uint32 [rows * 16]: the rows
`flows`, `f`          FLOW [rows * WAYS], and an index in it: row * WAYS + way
`states`              HOP_STATE: 8 of every flow, then the blocks of `pool`
`pool`                uint32 [blocks + 1]: number of free blocks of hops, then a stack of their numbers
`reports`, `i`        REPORT [n], and the index of the current one
`events`, `tally`     EVENT [n], uint64 [TALLY], see `event_kernel`; `n`: events so far
`path`                uint32 [64]: node ids
===================== ==========================================================================
"""

from ...base.kernels.jit import U8, U32, U64, equal_words, inlined, kernel, lowest_bit, matcher
from ..records import INLINE_HOPS, POOL_HOPS, WAYS, ClearReason, FlowState, Kind, Metric
from .event_kernel import (
    ALARMS,
    CLEARED,
    EVICTIONS,
    NO_NODE,
    NO_PORT,
    NOT_FOUND,
    NOTHING,
    emit,
    put_hop,
    put_path,
    put_table_flow,
)

ROW_WORDS = U64(16)
RANKS = U64(12)
VERSION = U64(15)
WAY = U64(WAYS)
INLINE = U64(INLINE_HOPS)
POOL = U64(POOL_HOPS)
FLOW_RECORD = U64(Kind.FLOW_RECORD)
FLOW_PATH = U64(Metric.FLOW_PATH)
FLOW_LATENCY = U64(Metric.FLOW_LATENCY)
HOP_LATENCY = U64(Metric.HOP_LATENCY)
HAS_LATENCY = U64(FlowState.HAS_LATENCY)
EVICTED = U64(ClearReason.EVICTED)


@inlined
def tag_of(hashed):
    """Tag of a flow: the upper half of its hash, never 0."""
    tag = U32(hashed >> U64(32))
    return tag | U32(tag == U32(0))


@inlined
def match(tags, row, tag):
    """First way of a row with this tag, or NOT_FOUND: one vector comparison."""
    found = equal_words(tags, row * ROW_WORDS, tag) & U64((1 << WAYS) - 1)
    return lowest_bit(found) if found else NOT_FOUND


same_key = matcher(("src_hi", "src_lo", "dst_hi", "dst_lo", "sport", "dport", "proto", "ip_version"))


@inlined
def is_flow(flows, f, reports, i):
    """Whether flow f is the flow of report i: compares the whole key."""
    return same_key(flows[f], reports[i])


@kernel
def find_flow(tags, flows, row, tag, reports, i):
    """Way of the flow of report i in its row, or NOT_FOUND."""
    for w in range(WAYS):
        way = U64(w)
        if tags[row * ROW_WORDS + way] == tag and is_flow(flows, row * WAY + way, reports, i):
            return way
    return NOT_FOUND


@inlined
def rank_of(tags, row, way):
    """LRU rank of a way."""
    return (U64(tags[row * ROW_WORDS + RANKS + (way >> U64(2))]) >> ((way & U64(3)) << U64(3))) & U64(0xFF)


@inlined
def use_way(tags, row, way):
    """Make a way the most recently used: ways used more recently move back by one rank, four at a time."""
    rank = rank_of(tags, row, way)
    if rank:
        base = row * ROW_WORDS + RANKS
        each = U64(0x01010101)
        for k in range(3):
            ranks = U64(tags[base + U64(k)])
            later = ((ranks | (each << U64(7))) - each * rank) & (
                each << U64(7)
            )  # high bit: rank not smaller
            tags[base + U64(k)] = U32(ranks + ((later ^ (each << U64(7))) >> U64(7)))
        at = base + (way >> U64(2))
        tags[at] = U32(U64(tags[at]) & ~(U64(0xFF) << ((way & U64(3)) << U64(3))))


@kernel
def free_way(tags, row, start):
    """An empty way of a row, or else the least recently used one; sets up the ranks of an unused row.

    The search begins at way `start`, which differs from row to row: if it were always 0, a few flows would
    share an eighth of the sets of the first-level cache.
    """
    base = row * ROW_WORDS
    if tags[base + RANKS] == U32(0):  # no order of 12 ranks has four zeros
        tags[base + RANKS] = U32(0x03020100)
        tags[base + RANKS + U64(1)] = U32(0x07060504)
        tags[base + RANKS + U64(2)] = U32(0x0B0A0908)
    last = U64(0)
    for w in range(WAYS):
        way = (start + U64(w)) % WAY
        if tags[base + way] == U32(0):
            return way
        if rank_of(tags, row, way) == WAY - U64(1):
            last = way
    return last


@inlined
def hop_at(f, h, block, pool_base):
    """Index of the state of hop h of flow f; NOT_FOUND: h is 8 or more, and the flow has no block of the
    pool.
    """
    if h < INLINE:
        return f * INLINE + h
    if block == U64(0):
        return NOT_FOUND
    return pool_base + (block - U64(1)) * POOL + (h - INLINE)


@kernel
def nodes_of(flows, f, states, path):
    """Write the nodes of flow f's path to `path`, NO_NODE if the pool had no room; returns their number."""
    pool_base = U64(len(flows)) * INLINE
    count = U64(flows[f].hop_count)
    for k in range(count):
        at = hop_at(f, U64(k), U64(flows[f].pool_block), pool_base)
        path[U64(k)] = states[at].node_id if at != NOT_FOUND else U32(NO_NODE)
    return count


@kernel
def emit_flow(events, n, tally, flows, f, states, path, kind, now):
    """Events with all values of flow f: FLOW_RECORD (the flow leaves) or PUSH (stored values are renewed)."""
    flow = flows[f]
    count = nodes_of(flows, f, states, path)
    leaving = kind == FLOW_RECORD
    for first in range(U64(0), max(count, U64(1)), INLINE):
        value = flow.packets if leaving else flow.path_hash
        emit(
            events,
            n,
            tally,
            kind,
            FLOW_PATH,
            now,
            value,
            U64(flow.first_ns) if leaving else flow.path_hash,
        )
        put_table_flow(events, n, flows, f)
        put_path(events, n, path, U64(first), count)
        if first:
            tally[kind] -= U64(1)  # another record of the same event
        n += U64(1)
    if U64(flow.state) & HAS_LATENCY:
        value = flow.latency_sum // flow.latency_samples if leaving else flow.latency_latest
        emit(
            events,
            n,
            tally,
            kind,
            FLOW_LATENCY,
            now,
            value,
            flow.latency_latest if leaving else flow.latency_stored,
        )
        put_table_flow(events, n, flows, f)
        flow.latency_stored = flow.latency_latest
        n += U64(1)
    pool_base = U64(len(flows)) * INLINE
    for k in range(count):
        at = hop_at(f, U64(k), U64(flow.pool_block), pool_base)
        if at != NOT_FOUND and states[at].state:
            hop = states[at]
            latest = U64(hop.latency_latest)
            value = hop.latency_sum // U64(hop.samples) if leaving else latest
            emit(
                events,
                n,
                tally,
                kind,
                HOP_LATENCY,
                now,
                value,
                latest if leaving else U64(hop.latency_stored),
            )
            put_table_flow(events, n, flows, f)
            put_hop(events, n, U64(hop.node_id), NOTHING, U64(hop.egress_port), U64(k), count)
            hop.latency_stored = hop.latency_latest
            n += U64(1)
    return n


@kernel
def clear_hop(events, n, tally, flows, f, states, at, h, count, now, reason):
    """CLEARED of the alarm of hop h (of `count`) of flow f; its state, at `at`, is removed. Returns events so
    far.
    """
    state = states[at]
    if state.alarm:
        emit(events, n, tally, CLEARED, HOP_LATENCY, now, U64(state.latency_latest), NOTHING)
        tally[ALARMS + HOP_LATENCY] -= U64(1)
        put_table_flow(events, n, flows, f)
        put_hop(events, n, U64(state.node_id), NOTHING, U64(state.egress_port), h, count)
        events[n].reason = U8(reason)
        n += U64(1)
    return n


@kernel
def clear_flow(events, n, tally, flows, f, states, now, reason):
    """CLEARED of each alarm of flow f, which leaves the table. Returns events so far."""
    flow = flows[f]
    count = U64(flow.hop_count)
    if flow.alarm:
        emit(events, n, tally, CLEARED, FLOW_LATENCY, now, flow.latency_latest, NOTHING)
        tally[ALARMS + FLOW_LATENCY] -= U64(1)
        put_table_flow(events, n, flows, f)
        put_hop(events, n, NO_NODE, NOTHING, NO_PORT, NOTHING, count)
        events[n].reason = U8(reason)
        n += U64(1)
    pool_base = U64(len(flows)) * INLINE
    for k in range(count):
        at = hop_at(f, U64(k), U64(flow.pool_block), pool_base)
        if at != NOT_FOUND:
            n = clear_hop(events, n, tally, flows, f, states, at, U64(k), count, now, reason)
    return n


@kernel
def forget_flow(tags, flows, f, pool):
    """Empty the way of flow f and free its block of the pool; the caller holds the row's version odd."""
    block = flows[f].pool_block
    if block:
        pool[U64(0)] += U32(1)
        pool[U64(pool[U64(0)])] = block
        flows[f].pool_block = U32(0)
    row = f // WAY
    tags[row * ROW_WORDS + (f - row * WAY)] = U32(0)


@kernel
def add_flow(tags, flows, states, pool, row, hashed, reports, i, events, n, tally, path):
    """Make room for the flow of report i in its row; the caller holds the row's version odd.

    Returns (events so far, way).
    """
    way = free_way(tags, row, (hashed >> U64(40)) % WAY)
    f = row * WAY + way
    if tags[row * ROW_WORDS + way]:
        tally[EVICTIONS] += U64(1)
        n = clear_flow(events, n, tally, flows, f, states, reports[i].time_ns, EVICTED)
        n = emit_flow(events, n, tally, flows, f, states, path, FLOW_RECORD, flows[f].last_ns)
        forget_flow(tags, flows, f, pool)
    start_flow(tags, flows, row, way, hashed, reports, i)
    return n, way


@kernel
def start_flow(tags, flows, row, way, hashed, reports, i):
    """Put the flow of report i into an empty way; the caller holds the row's version odd."""
    r = reports[i]
    flow = flows[row * WAY + way]
    flow.src_hi = r.src_hi
    flow.src_lo = r.src_lo
    flow.dst_hi = r.dst_hi
    flow.dst_lo = r.dst_lo
    flow.sport = r.sport
    flow.dport = r.dport
    flow.proto = r.proto
    flow.ip_version = r.ip_version
    flow.hop_count = U8(0)
    flow.alarm = U8(0)
    flow.state = U8(0)
    flow.pool_block = U32(0)  # may be left from a flow that was dropped with a torn row
    flow.packets = U64(0)
    flow.latency_latest = U64(0)
    flow.latency_stored = U64(0)
    flow.latency_sum = U64(0)
    flow.latency_samples = U64(0)
    flow.first_ns = r.time_ns
    flow.last_ns = r.time_ns
    flow.pushed_ns = r.time_ns
    flow.flow_id = hashed
    flow.path_hash = U64(0)
    tags[row * ROW_WORDS + way] = tag_of(hashed)
