"""Kernels of the slow path, which handles everything that a packet can cause in the sink.

===================== ==========================================================================
`reports`, `i`        REPORT [n], and the index of the current packet
`hops`, `at`          HOP [m], and the index of a hop; it is hop `h` of `m` in the path
`tags`, `flows`       uint32 [rows * 16], FLOW [rows * WAYS], see `flow_cache_kernel`; `f`: a flow
`states`, `pool`      HOP_STATE, uint32 [blocks + 1], see `flow_cache_kernel`; `s`: a hop's state
`rows`, `bins`        DISTRIBUTION [rows], uint64 [rows * DISTRIBUTED * BINS]
`edges`               uint64 [EDGES], see `distribution_kernel`
`limits`, `base`      uint64 [rows * ROW]: T, 2T, above, below by Measure; `base`: a switch's first
`overrides`           uint64 [power of two]: switches with limits of their own, see `limits_of`
`ports`, `shares`     PORT [rows], uint32 [OWNERS + 1]
`knobs`, `tally`      uint64 [SINK_KNOBS], uint64 [SINK_TALLY], see `event_kernel`
`out`, `journal`      SINK_EVENT [n], EVENT [n], with `n` and `j`: their numbers so far
`evicted`, `g`        EVICTED [n], and their number so far
`path`, `where`       uint32 [64]: node ids; uint64 [64]: index of each hop's state, or NOT_FOUND
`old_hops`            HOP_STATE [64]: copies
===================== ==========================================================================
"""

from ...base.kernels.jit import U8, U16, U32, U64, inlined, kernel, order
from ...wire.records import Flag, IntFlag
from ..distributions.distribution_kernel import count_hop, count_path, home_of, queue_key, slot_of
from ..flows import event_kernel as flow_events
from ..flows import flow_cache_kernel as flow_cache
from ..flows.event_kernel import NEW_KEY, NO_NODE, NO_PORT, NOT_FOUND, WITHOUT_NODE_ID
from ..flows.hop_kernel import LATENCY, OCCUPANCY, PORTS, UTILIZATION
from ..flows.path_kernel import (
    HAS_LOOP,
    HAS_PATH,
    LEFT_PATH,
    NO_VALUE_32,
    NODE_ID,
    find_loop,
    gather_path,
    hash_path,
    match_path,
    set_path,
)
from ..flows.switch_time_kernel import put_time, whole_time
from ..records import FlowState
from . import event_kernel as event
from .alarm_kernel import settle_flow, settle_hop
from .eviction_kernel import add_flow

CUT_SHORT = U64(IntFlag.HOPS_EXCEEDED | IntFlag.MTU_EXCEEDED)
PARTIAL = U64(Flag.INTERMEDIATE | Flag.DROPPED | Flag.INCOMPLETE)
INCOMPLETE = U64(FlowState.INCOMPLETE)
MAX_SAMPLES = U32(0xFFFFFFFF)
END_TO_END_SHIFT = U64(2) * event.END_TO_END
"""Position of the end-to-end latency's bits in Type."""


@inlined
def measured(have):
    """Bits of Measure that a hop has, from its fields."""
    return (
        U64(have & LATENCY != U64(0))
        | U64(have & OCCUPANCY != U64(0)) << U64(1)
        | U64(have & UTILIZATION != U64(0)) << U64(2)
    )


@inlined
def limits_of(overrides, node):
    """Index of the limits of a switch: its own, or 0, the limits of all switches."""
    return flow_events.limits_of(overrides, node) * event.ROW


@inlined
def store_values(state, measures, latency, occupancy, utilization):
    """Put a packet's values into a hop's state; if its measures changed, the sums restart."""
    if (U64(state.state) != measures) | (state.samples == MAX_SAMPLES):
        state.state = U8(measures)
        state.samples = U32(0)
        state.latency_sum = U64(0)
        state.queue_sum = U64(0)
        state.utilization_sum = U64(0)
        state.queue_latest = NO_VALUE_32
        state.utilization_latest = NO_VALUE_32
    if measures & U64(1):
        state.latency_latest = U32(latency)
        state.latency_sum += latency
    if measures & U64(2):
        state.queue_latest = U32(occupancy)
        state.queue_sum += occupancy
    if measures & U64(4):
        state.utilization_latest = U32(utilization)
        state.utilization_sum += utilization
    state.samples += U32(measures != U64(0))


@inlined
def types_of(
    limits, base, measures, known, latency, before, occupancy, occupancy_before, utilization,
    utilization_before,
):  # fmt: skip
    """Bits of Type of a hop's values; `known` has a bit for each previous value that exists."""
    types = U64(0)
    if measures & U64(1):
        types |= event.compare(limits, base, latency, before, known & U64(1))
    if measures & U64(2):
        at = base + event.STEP
        types |= event.compare(limits, at, occupancy, occupancy_before, (known >> U64(1)) & U64(1)) << U64(2)
    if measures & U64(4):
        at = base + event.STEP * U64(2)
        bits = event.compare(limits, at, utilization, utilization_before, (known >> U64(2)) & U64(1))
        types |= bits << U64(4)
    return types


@inlined
def update_hop(
    states, s, hops, at, h, m, rows, bins, edges, ports, shares, limits, overrides, out, n, journal, j, tally,
    knobs, reports, i, measures,
):  # fmt: skip
    """Process a hop whose state is row s (NOT_FOUND: none). Returns (records, journal events so far)."""
    hop = hops[at]
    have = U64(hop.present & ~hop.null)
    node = U64(hop.node_id) if have & NODE_ID else NO_NODE
    latency = U64(hop.hop_latency)
    occupancy = U64(hop.queue_occupancy)
    utilization = U64(hop.tx_utilization)
    port = U64(hop.egress_port) if have & PORTS else NO_PORT
    queue = U64(hop.queue_id) if have & OCCUPANCY else U64(0)
    known, latency_before, occupancy_before, utilization_before = U64(0), U64(0), U64(0), U64(0)
    if s != NOT_FOUND:
        state = states[s]
        known = U64(state.state) & measures
        latency_before = U64(state.latency_latest)
        occupancy_before = U64(state.queue_latest)
        utilization_before = U64(state.utilization_latest)
        state.egress_port = U16(port)
        state.buffer_slot = U32(queue)
        store_values(state, measures, latency, occupancy, utilization)
    if node != NO_NODE:
        if measures != U64(0) and knobs[event.COUNTED] != U64(0):
            key = queue_key(node, port, queue)
            hint = U64(states[s].queue_slot) if s != NOT_FOUND else home_of(rows, key, knobs)
            r = reports[i]
            slot = slot_of(
                rows, bins, key, hint & (U64(len(rows)) - U64(1)), r.src_hi if r.src_hi else r.src_lo,
                r.time_ns, knobs, tally, event.DISTRIBUTION_EVICTIONS,
            )  # fmt: skip
            if slot == NOT_FOUND:
                tally[event.DISTRIBUTIONS_FULL] += U64(1)
            else:
                if s != NOT_FOUND:
                    states[s].queue_slot = U32(slot)
                count_hop(
                    rows, bins, edges, slot, measures, latency, occupancy, utilization, reports[i].time_ns
                )
        base = limits_of(overrides, node)
        types = types_of(
            limits, base, measures, known, latency, latency_before,
            occupancy, occupancy_before, utilization, utilization_before,
        )  # fmt: skip
        if types | knobs[event.ALARMED]:
            j = settle_hop(
                journal, j, tally, knobs, limits, base, ports, shares, states, s, reports, i, hops, at, h, m,
                types, measures,
            )  # fmt: skip
        if types:
            n, j = event.emit_hop(
                out, n, journal, j, tally, knobs, limits, base, reports, i, hops, at, types, measures, h, m,
                latency_before if known & U64(1) else U64(0),
                occupancy_before if known & U64(2) else U64(0),
                utilization_before if known & U64(4) else U64(0),
            )  # fmt: skip
    return n, j


@inlined
def update_end_to_end(flow, total, limits):
    """Store the sum of a packet's hop latencies in its flow. Returns (bits of Type, previous value)."""
    has = U64((U64(flow.state) & flow_cache.HAS_LATENCY) != U64(0))
    before = flow.latency_latest * has
    types = event.compare(limits, event.END_TO_END * event.STEP, total, before, has) << END_TO_END_SHIFT
    flow.latency_latest = total
    flow.latency_sum += total
    flow.latency_samples += U64(1)
    flow.state |= U8(flow_cache.HAS_LATENCY)
    return types, before


@kernel
def update_path(
    flows, f, states, pool, hops, first, count, cut, path, where, old_hops, journal, j, tally, knobs, reports,
    i,
):  # fmt: skip
    """Store a packet's path if it is new, or find its hops in the known one (`where`).

    Returns (journal events so far, whether the state of hop h is the flow's h-th state, PATH_CHANGE or 0).
    """
    flow = flows[f]
    without_id = gather_path(hops, first, count, NO_NODE, NO_NODE, path)
    tally[WITHOUT_NODE_ID] += without_id
    had = U64(flow.state) & HAS_PATH
    whole = count != U64(0) and not cut and without_id == U64(0)
    if whole:
        flow.state &= U8(~INCOMPLETE)
        if had and U64(flow.hop_count) == count and hash_path(path, count) == flow.path_hash:
            return j, True, U64(0)
    else:
        flow.state |= U8(INCOMPLETE)
        if match_path(flows, f, states, path, count, where) == count or had:
            return j, False, U64(0)
    before = flow.path_hash
    old = set_path(flows, f, states, pool, path, count, old_hops, tally)
    if knobs[event.ALARMED]:
        for k in range(old):
            now = reports[i].time_ns
            j = flow_cache.clear_hop(
                journal, j, tally, flows, f, old_hops, U64(k), U64(k), old, now, LEFT_PATH
            )
    looped = without_id == U64(0) and find_loop(path, count) != U64(0)
    state = U64(flow.state) & ~HAS_LOOP
    flow.state = U8(state | (HAS_LOOP if looped else U64(0)) | (HAS_PATH if whole else U64(0)))
    if not had and not whole and (flow.packets != U64(0) or without_id != U64(0)):
        return j, True, U64(0)
    begin = j
    if not had:
        j = event.journal_path(
            journal, j, tally, knobs, reports, i, NEW_KEY, path, count, U64(0), flow.path_hash
        )
    if looped:
        j = event.journal_loop(journal, j, tally, knobs, reports, i, path, count, before, flow.path_hash)
    put_time(journal, begin, j, whole_time(reports, i, hops, first, count))
    return j, True, event.PATH_CHANGE if had else U64(0)


@kernel
def take_packet(
    reports, i, hops, hashed, guess, tags, flows, states, pool, rows, bins, edges, ports, shares, limits,
    overrides, knobs, out, n, journal, j, evicted, g, tally, path, where, old_hops,
):  # fmt: skip
    """Process packet i. Returns (records, journal events, evictions so far).

    `hashed` is the hash of its flow, `guess` its way by the tag alone, or NOT_FOUND.
    """
    r = reports[i]
    first = U64(r.first_hop)
    count = U64(r.hop_count)
    row = hashed & (U64(len(tags)) // flow_cache.ROW_WORDS - U64(1))
    way = guess
    if way != NOT_FOUND and not flow_cache.is_flow(flows, row * flow_cache.WAY + way, reports, i):
        way = NOT_FOUND
    if way == NOT_FOUND:
        way = flow_cache.find_flow(tags, flows, row, flow_cache.tag_of(hashed), reports, i)
    version = tags[row * flow_cache.ROW_WORDS + flow_cache.VERSION]
    tags[row * flow_cache.ROW_WORDS + flow_cache.VERSION] = version | U32(1)
    order()
    if way == NOT_FOUND:
        g, j, way = add_flow(
            tags, flows, states, pool, row, hashed, reports, i, evicted, g, journal, j, tally, knobs
        )
    flow_cache.use_way(tags, row, way)
    f = row * flow_cache.WAY + way
    flow = flows[f]
    cut = U64(r.int_flags) & CUT_SHORT != U64(0) or U64(r.flags) & PARTIAL != U64(0)
    old = flow.path_hash
    j, in_order, types = update_path(
        flows, f, states, pool, hops, first, count, cut,
        path, where, old_hops, journal, j, tally, knobs, reports, i,
    )  # fmt: skip
    pool_base = U64(len(flows)) * flow_cache.INLINE
    block = U64(flow.pool_block)
    total = U64(0)
    with_latency = U64(0)
    for h in range(count):
        at = first + U64(h)
        s = flow_cache.hop_at(f, U64(h), block, pool_base) if in_order else where[U64(h)]
        have = U64(hops[at].present & ~hops[at].null)
        n, j = update_hop(
            states, s, hops, at, U64(h), count, rows, bins, edges, ports, shares, limits, overrides,
            out, n, journal, j, tally, knobs, reports, i, measured(have),
        )  # fmt: skip
        has = measured(have) & U64(1)
        total += U64(hops[at].hop_latency) * has
        with_latency += has
    before = U64(0)
    if count != U64(0) and with_latency == count and not cut:
        more, before = update_end_to_end(flow, total, limits)
        if more | knobs[event.ALARMED]:
            j = settle_flow(journal, j, tally, knobs, limits, flows, f, total, reports, i, hops, first, count)
        if knobs[event.COUNTED]:
            count_path(rows, bins, edges, total, r.time_ns)
        types |= more
    else:
        total = U64(0)
    if types:
        n, j = event.emit_packet(
            out, n, journal, j, tally, knobs, limits, reports, i, hops, first, count, types,
            total, before, path, flow.path_hash, old,
        )  # fmt: skip
    flow.packets += U64(1)
    flow.last_ns = r.time_ns
    order()
    tags[row * flow_cache.ROW_WORDS + flow_cache.VERSION] = (version | U32(1)) + U32(1)
    return n, j, g
