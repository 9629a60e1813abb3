"""Kernel of one hop: its latency in the flow's state, its queue, buffer and link in the port table.

===================== ==========================================================================
`ports`, `shares`     PORT [rows], uint32 [OWNERS + 1], see `port_table_kernel`
`states`, `s`         HOP_STATE, and the index of the hop's state; NOT_FOUND: it has none
`hops`, `at`          HOP [m], and the index of the hop; it is hop `h` of `m` in the path
`have`                bits of `Have` that the hop has
`own`                 node of a hop that carries no id
`reports`, `i`        REPORT [n], and the index of the current one
`limits`, `base`      THRESHOLD [rows * METRICS], and where those of the hop's switch begin
`overrides`           uint64 [power of two]: switches with limits of their own, see `limits_of`
`events`, `n`         EVENT [n], and their number so far
`tally`, `knobs`      uint64 [TALLY], uint64 [KNOBS], see `event_kernel`
===================== ==========================================================================
"""

from ...base.kernels.jit import U8, U16, U32, U64, inlined
from ...wire.records import Have
from ..records import METRICS, Metric, PortKind
from .event_kernel import NO_NODE, NO_PORT, NOT_FOUND, NOTHING, PORT_QUEUES, check_limits, limits_of
from .fair_kernel import owner_of
from .flow_cache_kernel import HOP_LATENCY
from .port_table_kernel import find_port, port_key, store_value

PORTS = U64(Have.PORTS)
LATENCY = U64(Have.HOP_LATENCY)
OCCUPANCY = U64(Have.QUEUE_OCCUPANCY)
CONGESTION = U64(Have.QUEUE_CONGESTION)
UTILIZATION = U64(Have.TX_UTILIZATION)
BUFFER = U64(Have.BUFFER_OCCUPANCY)
L2_PORTS = U64(Have.L2_PORTS)

QUEUE_OCCUPANCY = U64(Metric.QUEUE_OCCUPANCY)
QUEUE_CONGESTION = U64(Metric.QUEUE_CONGESTION)
LINK_UTILIZATION = U64(Metric.LINK_UTILIZATION)
BUFFER_OCCUPANCY = U64(Metric.BUFFER_OCCUPANCY)
LIMITS = U64(METRICS)
KIND_EGRESS = U64(PortKind.EGRESS)
KIND_QUEUE = U64(PortKind.QUEUE)
KIND_BUFFER = U64(PortKind.BUFFER)


@inlined
def find_row(ports, shares, hint, key, reports, i, events, n, tally, knobs):
    """Row of a key: the row `hint` if it has the key, else found or created; NOT_FOUND: the table is full.

    Returns (events so far, row).
    """
    if ports[hint].key == key:
        return n, hint
    owner = owner_of(reports[i], knobs)
    return find_port(ports, shares, key, owner, reports[i].time_ns, events, n, tally, knobs)


@inlined
def queue_place(knobs, port, queue):
    """Place of a queue in its key: egress port << 8 | queue id, or the queue id alone."""
    return (port << U64(8)) | queue if knobs[PORT_QUEUES] else queue


@inlined
def update_ports(
    ports, shares, hops, at, have, node, port, slots, h, m, events, n, tally, knobs, reports, i, limits, base
):
    """Queue, link and buffer of a hop of switch `node`; `slots` are the hints (link, queue, buffer).

    Returns (events so far, values, the three rows).
    """
    hop = hops[at]
    link, queue, buffer = slots
    values = U64(0)
    if have & (OCCUPANCY | CONGESTION):
        if have & OCCUPANCY:
            key = port_key(KIND_QUEUE, queue_place(knobs, port, U64(hop.queue_id)), node)
            n, row = find_row(ports, shares, queue, key, reports, i, events, n, tally, knobs)
            values += U64(1)
            if row != NOT_FOUND:
                queue = row
                limit = limits[base + QUEUE_OCCUPANCY]
                n = store_value(
                    ports, row, U64(0), U64(hop.queue_occupancy), port, limit.change, limit.raise_above,
                    events, n, tally, knobs, reports, i, limits, base, QUEUE_OCCUPANCY, node, h, m,
                )  # fmt: skip
        if have & CONGESTION:
            key = port_key(KIND_QUEUE, queue_place(knobs, port, U64(hop.congestion_queue_id)), node)
            n, row = find_row(ports, shares, queue, key, reports, i, events, n, tally, knobs)
            values += U64(1)
            if row != NOT_FOUND:
                limit = limits[base + QUEUE_CONGESTION]
                n = store_value(
                    ports, row, U64(1), U64(hop.queue_congestion), port, limit.change, limit.raise_above,
                    events, n, tally, knobs, reports, i, limits, base, QUEUE_CONGESTION, node, h, m,
                )  # fmt: skip
    if have & UTILIZATION and have & (PORTS | L2_PORTS):
        ident = U64(hop.egress_port) if have & PORTS else U64(hop.l2_egress_port)
        key = port_key(KIND_EGRESS, ident, node)
        n, row = find_row(ports, shares, link, key, reports, i, events, n, tally, knobs)
        values += U64(1)
        if row != NOT_FOUND:
            link = row
            limit = limits[base + LINK_UTILIZATION]
            n = store_value(
                ports, row, U64(0), U64(hop.tx_utilization), port, limit.change, limit.raise_above,
                events, n, tally, knobs, reports, i, limits, base, LINK_UTILIZATION, node, h, m,
            )  # fmt: skip
    if have & BUFFER:
        key = port_key(KIND_BUFFER, U64(hop.buffer_id), node)
        n, row = find_row(ports, shares, buffer, key, reports, i, events, n, tally, knobs)
        values += U64(1)
        if row != NOT_FOUND:
            buffer = row
            limit = limits[base + BUFFER_OCCUPANCY]
            n = store_value(
                ports, row, U64(0), U64(hop.buffer_occupancy), port, limit.change, limit.raise_above,
                events, n, tally, knobs, reports, i, limits, base, BUFFER_OCCUPANCY, node, h, m,
            )  # fmt: skip
    return n, values, (link, queue, buffer)


@inlined
def update_latency(states, s, value, node, port, h, m, events, n, tally, knobs, reports, i, limits, base):
    """Store the latency of a flow's hop. Returns events so far."""
    state = states[s]
    limit = limits[base + HOP_LATENCY]
    stored = U64(state.latency_stored)
    gap = value - stored if value > stored else stored - value
    state.latency_latest = U32(value)
    state.latency_sum += value
    state.samples += U32(1)
    if (gap >= limit.change) | (value > limit.raise_above) | (state.state == 0) | (state.alarm != 0):
        n, stored, alarm = check_limits(
            events, n, tally, knobs, reports, i, limits, base, HOP_LATENCY, value, stored,
            U64(state.state), U64(state.alarm), node, NOTHING, port, h, m,
        )  # fmt: skip
        state.latency_stored = U32(stored)
        state.state = U8(1)
        state.alarm = U8(alarm)
    return n


@inlined
def update_hop(
    ports, shares, states, s, hops, at, own, h, m, events, n, tally, knobs, reports, i, limits, overrides
):
    """Process one hop of report i.

    Returns (events so far, values in it, latency, 1 if it has a latency, 1 if its node is unknown).
    """
    hop = hops[at]
    have = U64(hop.present & ~hop.null)
    node = U64(hop.node_id) if have & U64(1) else own
    port = U64(hop.egress_port) if have & PORTS else NO_PORT
    base = limits_of(overrides, node) * LIMITS
    values = U64(0)
    slots = (U64(0), U64(0), U64(0))
    if s != NOT_FOUND:
        slots = (U64(states[s].port_slot), U64(states[s].queue_slot), U64(states[s].buffer_slot))
    if node != NO_NODE:
        n, values, slots = update_ports(
            ports, shares, hops, at, have, node, port, slots, h, m,
            events, n, tally, knobs, reports, i, limits, base,
        )  # fmt: skip
    if s != NOT_FOUND:
        state = states[s]
        state.egress_port = U16(port)
        state.port_slot = U32(slots[0])
        state.queue_slot = U32(slots[1])
        state.buffer_slot = U32(slots[2])
        if have & OCCUPANCY:
            state.queue_latest = hop.queue_occupancy
        if have & UTILIZATION:
            state.utilization_latest = hop.tx_utilization
        if have & LATENCY:
            n = update_latency(
                states, s, U64(hop.hop_latency), node, port, h, m,
                events, n, tally, knobs, reports, i, limits, base,
            )  # fmt: skip
            values += U64(1)
    has = U64((have & LATENCY) != U64(0))
    return n, values, U64(hop.hop_latency) * has, has, U64(node == NO_NODE)
