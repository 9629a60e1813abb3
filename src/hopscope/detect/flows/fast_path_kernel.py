"""Kernels of the fast path: a report of a known flow, on its known path, that causes no event.

Most reports are of this kind. `is_steady` only reads: the path is the stored one, every row of the port
table is where the hop's hint says, every value is within T of the stored one and below its limit, no alarm is
raised. `commit` then only writes. All other reports take the slow path (`slow_path_kernel.take_report`),
which handles every case. With the slow path alone, a report of 3 hops and 8 fields takes 78 ns, since LLVM
keeps about sixty values alive and spills them; with the fast path it takes 51 ns.

===================== ==========================================================================
`reports`, `hops`     REPORT [n], HOP [m]; `first` is the index of a report's first hop, `count` their number
`flows`, `f`          FLOW [rows * WAYS], and the index of a flow
`states`              HOP_STATE: those of flow f from f * INLINE on; hops beyond INLINE are in the pool
`ports`               PORT [rows]
`bounds`              uint64 [METRICS * 3]: T, 2T and the limit of each metric, the lowest of any switch;
                      only those of latencies are used, since rows of `ports` have their own bounds
`knobs`               uint64 [event_kernel.KNOBS]: settings
`have`                bits of `Have` that a hop has
===================== ==========================================================================
"""

from ...base.kernels.jit import U16, U32, U64, inlined, kernel
from . import hop_kernel
from .event_kernel import NO_PORT, NOT_FOUND, PORT_QUEUES
from .flow_cache_kernel import FLOW_LATENCY, HAS_LATENCY, HOP_LATENCY, INLINE, hop_at
from .path_kernel import NODE_ID
from .port_table_kernel import port_key

SHAPE = (
    NODE_ID
    | hop_kernel.PORTS
    | hop_kernel.LATENCY
    | hop_kernel.OCCUPANCY
    | hop_kernel.CONGESTION
    | hop_kernel.UTILIZATION
    | hop_kernel.BUFFER
    | hop_kernel.L2_PORTS
)
COMMON = NODE_ID | hop_kernel.PORTS | hop_kernel.LATENCY | hop_kernel.OCCUPANCY | hop_kernel.UTILIZATION
FULL = COMMON | hop_kernel.BUFFER
"""Fields that most INT 2.x hops carry: with these as a constant, LLVM removes every test of a bit."""


@inlined
def within(bounds, metric, value, stored):
    """Whether a value is within T of the stored one and not above its limit."""
    k = metric * U64(3)
    return (value + bounds[k] - stored <= bounds[k + U64(1)]) & (value <= bounds[k + U64(2)])


@inlined
def row_is_steady(ports, at, key, slot, value):
    """Whether row `at` has this key, and the value of its slot causes no event."""
    row = ports[at]
    return (row.key == key) & (value - U64(row.low[slot]) < U64(row.width[slot]))


@inlined
def hop_is_steady(ports, hop, have, node, state, bounds, knobs):
    """Whether no value of a hop causes an event."""
    if have & hop_kernel.LATENCY and (
        (state.state == 0)
        | (state.alarm != 0)
        | (not within(bounds, HOP_LATENCY, U64(hop.hop_latency), U64(state.latency_stored)))
    ):
        return False
    if have & (hop_kernel.OCCUPANCY | hop_kernel.CONGESTION):
        queue = U64(hop.queue_id) if have & hop_kernel.OCCUPANCY else U64(hop.congestion_queue_id)
        if knobs[PORT_QUEUES]:
            queue |= (U64(hop.egress_port) if have & hop_kernel.PORTS else NO_PORT) << U64(8)
        key = port_key(hop_kernel.KIND_QUEUE, queue, node)
        at = U64(state.queue_slot)
        if have & hop_kernel.OCCUPANCY and not row_is_steady(
            ports, at, key, U64(0), U64(hop.queue_occupancy)
        ):
            return False
        if have & hop_kernel.CONGESTION and not (
            (not have & hop_kernel.OCCUPANCY or hop.queue_id == hop.congestion_queue_id)
            and row_is_steady(ports, at, key, U64(1), U64(hop.queue_congestion))
        ):
            return False
    if have & hop_kernel.UTILIZATION and have & (hop_kernel.PORTS | hop_kernel.L2_PORTS):
        link = U64(hop.egress_port) if have & hop_kernel.PORTS else U64(hop.l2_egress_port)
        key = port_key(hop_kernel.KIND_EGRESS, link, node)
        if not row_is_steady(ports, U64(state.port_slot), key, U64(0), U64(hop.tx_utilization)):
            return False
    if have & hop_kernel.BUFFER:
        key = port_key(hop_kernel.KIND_BUFFER, U64(hop.buffer_id), node)
        if not row_is_steady(ports, U64(state.buffer_slot), key, U64(0), U64(hop.buffer_occupancy)):
            return False
    return True


@inlined
def are_bare(states, at, hops, first, m):
    """Whether the `m` hops from `first` on are the stored ones from `at` on, and have a node id each and
    nothing else that detection compares or writes. Detection of a report of 3 such hops takes 34 ns instead
    of 46, of 6 hops 45 instead of 71.
    """
    for h in range(m):
        hop, state = hops[first + h], states[at + h]
        if (
            U64(hop.present) & SHAPE != NODE_ID
            or hop.null != 0
            or hop.node_id != state.node_id
            or U64(state.egress_port) != NO_PORT
        ):
            return False
    return True


@inlined
def hops_are_steady(states, at, ports, hops, first, m, last, own, bounds, knobs):
    """Whether the `m` hops from `first` on are the stored ones from `at` on, and cause no event.

    `own` is the node of the report itself, for hop `last`.

    Returns (steady, sum of their latencies, nonzero if a hop has no latency).
    """
    total = U64(0)
    missing = U64(0)
    for h in range(m):
        hop = hops[first + h]
        state = states[at + h]
        have = U64(hop.present & ~hop.null)
        node = U64(hop.node_id)
        if have & NODE_ID == U64(0):
            if first + h != last:
                return False, total, missing
            node = own
        if U64(state.node_id) != node:
            return False, total, missing
        shape = have & (SHAPE & ~hop_kernel.L2_PORTS)
        if shape == FULL:
            steady = hop_is_steady(ports, hop, FULL, node, state, bounds, knobs)
        elif shape == COMMON:
            steady = hop_is_steady(ports, hop, COMMON, node, state, bounds, knobs)
        else:
            steady = hop_is_steady(ports, hop, have, node, state, bounds, knobs)
        if not steady:
            return False, total, missing
        total += U64(hop.hop_latency)
        missing |= ~have & hop_kernel.LATENCY
    return True, total, missing


@kernel
def later_hops_are_steady(states, at, ports, hops, first, m, last, own, bounds, knobs):
    """`hops_are_steady` for the hops of a flow that are in the pool. As a separate function, it costs paths
    of at most 8 hops only one comparison. With decoding, a report of 12 hops and 8 fields takes 230-260 ns,
    and 480-570 on the slow path; with 1 field 140-150, and 330-380.
    """
    return hops_are_steady(states, at, ports, hops, first, m, last, own, bounds, knobs)


@inlined
def is_steady(flows, f, states, ports, hops, first, m, last, own, bounds, knobs):
    """Whether the `m` hops from `first` on are flow f's stored path, and cause no event.

    `own` is the node of the report itself, for hop `last`.
    """
    flow = flows[f]
    inline = min(m, INLINE)
    steady, total, missing = hops_are_steady(
        states, f * INLINE, ports, hops, first, inline, last, own, bounds, knobs
    )
    if steady and m > INLINE:
        at = hop_at(f, INLINE, U64(flow.pool_block), U64(len(flows)) * INLINE)
        if at == NOT_FOUND:
            return False
        steady, more, without = later_hops_are_steady(
            states, at, ports, hops, first + INLINE, m - INLINE, last, own, bounds, knobs
        )
        total += more
        missing |= without
    return steady and (
        missing != U64(0)
        or (
            U64(flow.state) & HAS_LATENCY != U64(0)
            and within(bounds, FLOW_LATENCY, total, flow.latency_stored)
        )
    )


@inlined
def put(ports, at, slot, value, now):
    """Write a value that causes no event into a row of the port table; `port` stays that of its last event.

    Each field is one word and is written whole, so the row's version need not change: a report of 3 hops
    takes 51 ns instead of 57, one of 6 hops 86 instead of 95.
    """
    row = ports[at]
    row.latest[slot] = U32(value)
    row.samples += U64(1)
    row.last_ns = now
    if value > U64(row.highest[slot]):
        row.highest[slot] = U32(value)


@inlined
def commit_hop(ports, hop, have, state, now):
    """Write the values of a hop; returns their number."""
    port = U64(hop.egress_port) if have & hop_kernel.PORTS else NO_PORT
    values = U64(0)
    state.egress_port = U16(port)
    if have & hop_kernel.LATENCY:
        state.latency_latest = hop.hop_latency
        state.latency_sum += U64(hop.hop_latency)
        state.samples += U32(1)
        values += U64(1)
    if have & hop_kernel.OCCUPANCY:
        state.queue_latest = hop.queue_occupancy
        put(ports, U64(state.queue_slot), U64(0), U64(hop.queue_occupancy), now)
        values += U64(1)
    if have & hop_kernel.CONGESTION:
        put(ports, U64(state.queue_slot), U64(1), U64(hop.queue_congestion), now)
        values += U64(1)
    if have & hop_kernel.UTILIZATION:
        state.utilization_latest = hop.tx_utilization
        if have & (hop_kernel.PORTS | hop_kernel.L2_PORTS):
            put(ports, U64(state.port_slot), U64(0), U64(hop.tx_utilization), now)
            values += U64(1)
    if have & hop_kernel.BUFFER:
        put(ports, U64(state.buffer_slot), U64(0), U64(hop.buffer_occupancy), now)
        values += U64(1)
    return values


@inlined
def commit_hops(states, at, ports, hops, first, m, now):
    """Write the values of the `m` hops from `first` on; `at` is the first one's state.

    Returns (values, sum of their latencies, nonzero if a hop has no latency).
    """
    values = U64(0)
    total = U64(0)
    missing = U64(0)
    for h in range(m):
        hop = hops[first + h]
        have = U64(hop.present & ~hop.null)
        shape = have & (SHAPE & ~hop_kernel.L2_PORTS)
        if shape == FULL:
            values += commit_hop(ports, hop, FULL, states[at + h], now)
        elif shape == COMMON:
            values += commit_hop(ports, hop, COMMON, states[at + h], now)
        else:
            values += commit_hop(ports, hop, have, states[at + h], now)
        total += U64(hop.hop_latency)
        missing |= ~have & hop_kernel.LATENCY
    return values, total, missing


@kernel
def commit_later_hops(states, at, ports, hops, first, m, now):
    """`commit_hops` for the hops of a flow that are in the pool."""
    return commit_hops(states, at, ports, hops, first, m, now)


@inlined
def commit(flows, f, states, ports, hops, first, m, now, bare):
    """Write a report's values; returns their number. The caller holds the row's version odd."""
    flow = flows[f]
    inline = U64(0) if bare else min(m, INLINE)
    values, total, missing = commit_hops(states, f * INLINE, ports, hops, first, inline, now)
    if m > INLINE:
        at = hop_at(f, INLINE, U64(flow.pool_block), U64(len(flows)) * INLINE)
        more, later, without = commit_later_hops(states, at, ports, hops, first + INLINE, m - INLINE, now)
        values += more
        total += later
        missing |= without
    values += U64(1)  # the path
    missing |= U64(bare)
    flow.packets += U64(1)
    flow.last_ns = now
    if missing == U64(0):
        flow.latency_latest = total
        flow.latency_sum += total
        flow.latency_samples += U64(1)
        values += U64(1)
    return values
