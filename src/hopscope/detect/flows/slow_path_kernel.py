"""Kernels of the slow path, which handles everything that a report can cause.

===================== ==========================================================================
`reports`, `i`        REPORT [n], and the index of the current one
`hops`                HOP [m]; a report's own hop (report metadata) follows its stack, at `last`
`own`                 node of the report itself, or NO_NODE
`tags`, `flows`       uint32 [rows * 16], FLOW [rows * WAYS], see `flow_cache_kernel`; `f`: a flow
`states`, `pool`      HOP_STATE, uint32 [blocks + 1], see `flow_cache_kernel`
`ports`, `shares`     PORT [rows], uint32 [OWNERS + 1], see `port_table_kernel`
`limits`              THRESHOLD [rows * METRICS], see `detect_kernel.update_kernel`
`overrides`           uint64 [power of two]: switches with limits of their own, see `limits_of`
`path`, `where`       uint32 [64]: node ids; uint64 [64]: index of each hop's state, or NOT_FOUND
`old_hops`            HOP_STATE [64]: copies
`events`, `n`         EVENT [n], and their number so far
`tally`, `knobs`      uint64 [TALLY], uint64 [KNOBS], see `event_kernel`
===================== ==========================================================================
"""

from ...base.kernels.jit import U8, U32, U64, inlined, kernel, order
from ...wire.records import Carried, Flag, IntFlag, Mode, Spare
from ...wire.versions import FIRST_SAMPLE
from ..records import FlowState, Kind
from . import flow_cache_kernel as flow_cache
from .event_kernel import (
    ENABLED,
    FLOW_CARRIED,
    NO_NODE,
    NO_PORT,
    NOT_FOUND,
    NOTHING,
    WITHOUT_NODE_ID,
    check_limits,
    emit,
    put_hop,
    put_report_flow,
)
from .hop_kernel import OCCUPANCY, PORTS, QUEUE_OCCUPANCY, update_hop
from .path_kernel import (
    HAS_PATH,
    PROVISIONAL,
    SILENT,
    WHOLE,
    emit_value_path,
    gather_path,
    hash_path,
    match_path,
    new_path,
    node_of,
    same_path,
)
from .port_table_kernel import count_drop
from .switch_time_kernel import hop_time, put_time, whole_time

DROP = U64(Kind.DROP)
QUEUE_REPORT = U64(Kind.QUEUE_REPORT)
DROPPED = U64(Flag.DROPPED)
CONGESTED = U64(Flag.CONGESTED)
INTERMEDIATE = U64(Flag.INTERMEDIATE)
JOINED = U64(Flag.JOINED)
PARTIAL = U64(Flag.INCOMPLETE)
HELD = U64(Flag.HELD)
MX = U64(Mode.MX)
SAMPLE = U64(FIRST_SAMPLE)
CUT_SHORT = U64(IntFlag.HOPS_EXCEEDED | IntFlag.MTU_EXCEEDED)
OWN_HOP = U64(Carried.OWN_HOP)
NODE_CARRIED = U64(Carried.NODE_ID)
QUEUE_CARRIED = U64(Carried.QUEUE_ID)
INCOMPLETE = U64(FlowState.INCOMPLETE)
ALARM = U64(1) << flow_cache.FLOW_LATENCY
MAX_HOPS = U64(64)
COUNTED = Spare.COUNTED.value


@inlined
def own_node(reports, i, hops):
    """Node of the report itself, or NO_NODE."""
    r = reports[i]
    fallback = U64(r.node_id) if U64(r.carried) & NODE_CARRIED else NO_NODE
    if U64(r.carried) & OWN_HOP:
        return node_of(hops, U64(r.first_hop) + U64(r.hop_count), fallback)
    return fallback


@kernel
def emit_flags(reports, i, hops, ports, shares, events, n, tally, knobs):
    """DROP and QUEUE_REPORT events of report i, by its flags; counts the drop. Returns events so far."""
    r = reports[i]
    begin = n
    node = own_node(reports, i, hops)
    port, queue, occupancy, metric = NO_PORT, U64(0), U64(0), U64(0)
    if U64(r.carried) & OWN_HOP:
        own = hops[U64(r.first_hop) + U64(r.hop_count)]
        have = U64(own.present & ~own.null)
        if have & PORTS:
            port = U64(own.egress_port)
        if have & OCCUPANCY:
            queue, occupancy, metric = U64(own.queue_id), U64(own.queue_occupancy), QUEUE_OCCUPANCY
    stated = U64(r.queue_id) if U64(r.carried) & QUEUE_CARRIED else queue  # the drop word's, if present
    if metric == U64(0):
        queue = stated
    if U64(r.flags) & DROPPED:
        if node != NO_NODE:
            n = count_drop(ports, shares, node, port, reports, i, events, n, tally, knobs)
        emit(events, n, tally, DROP, U64(0), r.time_ns, U64(r.drop_reason), U64(0))
        put_report_flow(events, n, reports, i, knobs)
        put_hop(events, n, node, stated, port, NOTHING, U64(r.hop_count))
        n += U64(1)
    if U64(r.flags) & CONGESTED:
        emit(events, n, tally, QUEUE_REPORT, metric, r.time_ns, occupancy, U64(0))
        put_report_flow(events, n, reports, i, knobs)
        put_hop(events, n, node, queue, port, NOTHING, U64(r.hop_count))
        n += U64(1)
    count = U64(r.hop_count) + U64(U64(r.carried) & OWN_HOP != U64(0))
    put_time(events, begin, n, whole_time(reports, i, hops, U64(r.first_hop), count))
    return n


@kernel
def update_path(
    flows, f, states, pool, hops, first, count, last, own, whole, path, where, old_hops, events, n, tally,
    knobs, reports, i,
):  # fmt: skip
    """Process a path that is not the stored one: store it, or find its hops in the stored one (`where`).

    Returns (events so far, whether the state of hop h is the flow's h-th state rather than `where[h]`).
    """
    flow = flows[f]
    without_id = gather_path(hops, first, count, last, own, path)
    had = U64(flow.state) & HAS_PATH
    if whole and without_id == U64(0):
        if not had or U64(flow.hop_count) != count or hash_path(path, count) != flow.path_hash:
            n = new_path(
                flows, f, states, pool, path, count, old_hops, events, n, tally, knobs, reports, i, WHOLE
            )
        flow.state &= U8(~INCOMPLETE)
        return n, True
    flow.state |= U8(INCOMPLETE)
    if match_path(flows, f, states, path, count, where) < count and not had:
        status = PROVISIONAL if flow.packets == U64(0) and without_id == U64(0) else SILENT
        n = new_path(
            flows, f, states, pool, path, count, old_hops, events, n, tally, knobs, reports, i, status
        )
        return n, True
    return n, False


@kernel
def add_sampling_node(
    flows, f, states, pool, node, path, where, old_hops, events, n, tally, knobs, reports, i
):
    """Find the node of a sample or flow record in flow f's path (`where`); such reports never change an INT
    path.

    Until an INT report gives the path, it is the list of nodes that saw the flow, in the order of their first
    samples. Returns events so far.
    """
    flow = flows[f]
    path[U64(0)] = U32(node)
    found = match_path(flows, f, states, path, U64(1), where)
    count = U64(flow.hop_count)
    if found or U64(flow.state) & HAS_PATH or count >= MAX_HOPS:
        return n
    flow.state |= U8(INCOMPLETE)
    pool_base = U64(len(flows)) * flow_cache.INLINE
    for k in range(count):
        at = flow_cache.hop_at(f, U64(k), U64(flow.pool_block), pool_base)
        path[U64(k)] = states[at].node_id if at != NOT_FOUND else U32(NO_NODE)
    path[count] = U32(node)
    status = PROVISIONAL if flow.packets == U64(0) else SILENT
    count += U64(1)
    n = new_path(flows, f, states, pool, path, count, old_hops, events, n, tally, knobs, reports, i, status)
    where[U64(0)] = flow_cache.hop_at(f, count - U64(1), U64(flow.pool_block), pool_base)
    return n


@kernel
def node_in_flow(flows, f, states, node):
    """Index of the state of flow f's hop at a node, or NOT_FOUND."""
    pool_base = U64(len(flows)) * flow_cache.INLINE
    for k in range(flows[f].hop_count):
        at = flow_cache.hop_at(f, U64(k), U64(flows[f].pool_block), pool_base)
        if at != NOT_FOUND and U64(states[at].node_id) == node and node != NO_NODE:
            return at
    return NOT_FOUND


@inlined
def update_flow_latency(flows, f, value, m, events, n, tally, knobs, reports, i, limits):
    """Store the sum of the hop latencies of flow f. Returns events so far."""
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
        n, stored, alarm = check_limits(
            events, n, tally, knobs, reports, i, limits, NOTHING, flow_cache.FLOW_LATENCY, value, stored,
            has, alarm, NO_NODE, NOTHING, NO_PORT, NOTHING, m,
        )  # fmt: skip
        flow.latency_stored = stored
        flow.state |= U8(flow_cache.HAS_LATENCY)
        flow.alarm = U8((U64(flow.alarm) & ~ALARM) | (ALARM if alarm else U64(0)))
    return n


@kernel
def take_report(
    reports, i, hops, hashed, guess, tags, flows, states, pool, ports, shares, limits, overrides, knobs,
    events, n, tally, path, where, old_hops,
):  # fmt: skip
    """Process report i, except for its sequence number. Returns (events so far, values in it).

    `hashed` is the hash of its flow, `guess` its way by the tag alone, or NOT_FOUND.
    """
    r = reports[i]
    first = U64(r.first_hop)
    count = U64(r.hop_count)
    carried = U64(r.carried)
    last = first + U64(r.hop_count)  # the report's own hop
    own = own_node(reports, i, hops)
    # the record after an MX header is that of one node: no path
    has_stack = r.int_version != 0 and U64(r.int_mode) != MX
    sample = U64(r.version) >= SAMPLE
    stacked = (has_stack or sample or U64(r.flags) & JOINED != U64(0)) and count != U64(0)
    if stacked:
        if carried & OWN_HOP and own != NO_NODE and count < MAX_HOPS:
            count += U64(node_of(hops, first + count - U64(1), NO_NODE) != own)
    elif count:
        own = node_of(hops, first, NO_NODE)
        count = U64(1)
    elif carried & OWN_HOP:
        first = last
        count = U64(1)
    else:
        count = U64(0)
    flagged = U64(r.flags) & (DROPPED | CONGESTED)
    dropped = U64(r.flags) & DROPPED

    f = NOT_FOUND
    row = U64(0)
    version = U32(0)
    if carried & FLOW_CARRIED:
        row = hashed & (U64(len(tags)) // flow_cache.ROW_WORDS - U64(1))
        way = guess
        if way != NOT_FOUND and not flow_cache.is_flow(flows, row * flow_cache.WAY + way, reports, i):
            way = NOT_FOUND
        if way == NOT_FOUND:
            way = flow_cache.find_flow(tags, flows, row, flow_cache.tag_of(hashed), reports, i)
        if way != NOT_FOUND or (stacked and not dropped):
            version = tags[row * flow_cache.ROW_WORDS + flow_cache.VERSION]
            tags[row * flow_cache.ROW_WORDS + flow_cache.VERSION] = version | U32(1)
            order()
            if way == NOT_FOUND:
                n, way = flow_cache.add_flow(
                    tags, flows, states, pool, row, hashed, reports, i, events, n, tally, path
                )
            flow_cache.use_way(tags, row, way)
            f = row * flow_cache.WAY + way

    values = U64(0)
    begin = n
    whole_ns = whole_time(reports, i, hops, first, count)
    in_order = f != NOT_FOUND and stacked
    cut = U64(r.int_flags) & CUT_SHORT | U64(r.flags) & (INTERMEDIATE | DROPPED | PARTIAL)
    whole = stacked and not cut and not sample
    pool_base = U64(len(flows)) * flow_cache.INLINE
    if in_order and sample:
        in_order = False
        node = node_of(hops, first, own)
        n = add_sampling_node(
            flows, f, states, pool, node, path, where, old_hops, events, n, tally, knobs, reports, i
        )
    elif in_order:
        flow = flows[f]
        known = U64(whole) & U64((U64(flow.state) & (HAS_PATH | INCOMPLETE)) == HAS_PATH)
        if not (known and same_path(flows, f, states, hops, first, count, last, own, pool_base)):
            n, in_order = update_path(
                flows, f, states, pool, hops, first, count, last, own, whole,
                path, where, old_hops, events, n, tally, knobs, reports, i,
            )  # fmt: skip
        if U64(flow.state) & HAS_PATH and whole and not U64(flow.state) & INCOMPLETE:
            values += U64(1)
            if knobs[ENABLED] == U64(0):
                gather_path(hops, first, count, last, own, path)
                n = emit_value_path(events, n, tally, reports, i, path, count, knobs)
    elif f != NOT_FOUND and count:
        where[U64(0)] = node_in_flow(flows, f, states, own)
    put_time(events, begin, n, whole_ns)

    sum_latency = U64(0)
    with_latency = U64(0)
    block = U64(flows[f].pool_block) if f != NOT_FOUND else U64(0)
    for h in range(count):
        s = NOT_FOUND
        if in_order:
            s = flow_cache.hop_at(f, h, block, pool_base)
        elif f != NOT_FOUND:
            s = where[h]
        named = own if first + h == last else NO_NODE
        begin = n
        n, more, latency, has, without_id = update_hop(
            ports, shares, states, s, hops, first + h, named, h, count,
            events, n, tally, knobs, reports, i, limits, overrides,
        )  # fmt: skip
        if n != begin:
            put_time(events, begin, n, hop_time(hops, first + h))
        values += more
        sum_latency += latency
        with_latency += has
        if without_id:
            tally[WITHOUT_NODE_ID] += U64(1)

    if f != NOT_FOUND:
        flow = flows[f]
        flow.packets += U64(r.packet_id) if sample else U64(r.spare != COUNTED)
        flow.last_ns = r.time_ns
        if whole and with_latency == count:
            begin = n
            n = update_flow_latency(flows, f, sum_latency, count, events, n, tally, knobs, reports, i, limits)
            values += U64(1)
            put_time(events, begin, n, whole_ns)
        order()
        tags[row * flow_cache.ROW_WORDS + flow_cache.VERSION] = (version | U32(1)) + U32(1)
    if flagged:
        n = emit_flags(reports, i, hops, ports, shares, events, n, tally, knobs)
    return n, values
