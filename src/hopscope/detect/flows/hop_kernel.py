"""Kernel of one hop: its latency in the flow's state, its queue, buffer and link in the port table."""

from __future__ import annotations

from typing import Any

from ...base.jit import U8, U16, U32, U64, inlined
from ...wire.records import Have
from ..records import NO_PORT, Metric, PortKind
from .event_kernel import NOBODY, PORT_QUEUES, judged
from .flow_cache_kernel import HOP_LATENCY, NONE
from .port_table_kernel import find_port, keep, port_key

PORTS = U64(Have.PORTS)
LATENCY = U64(Have.HOP_LATENCY)
OCCUPANCY = U64(Have.QUEUE_OCCUPANCY)
CONGESTION = U64(Have.QUEUE_CONGESTION)
UTILIZATION = U64(Have.TX_UTILIZATION)
BUFFER = U64(Have.BUFFER_OCCUPANCY)
L2_PORTS = U64(Have.L2_PORTS)
UNKNOWN = U64(NO_PORT)

QUEUE_OCCUPANCY = U64(Metric.QUEUE_OCCUPANCY)
QUEUE_CONGESTION = U64(Metric.QUEUE_CONGESTION)
LINK_UTILIZATION = U64(Metric.LINK_UTILIZATION)
BUFFER_OCCUPANCY = U64(Metric.BUFFER_OCCUPANCY)
KIND_EGRESS = U64(PortKind.EGRESS)
KIND_QUEUE = U64(PortKind.QUEUE)
KIND_BUFFER = U64(PortKind.BUFFER)


@inlined
def row_of(ports: Any, hint: Any, key: Any, now: Any, tally: Any) -> Any:
    """Row of a key: the hinted one, when its key says so."""
    if ports[hint].key == key:
        return hint
    return find_port(ports, key, now, tally)


@inlined
def queue_ident(knobs: Any, port: Any, queue: Any) -> Any:
    """Ident of a queue: unique in its switch, or (`switch-port-queue`) in its port."""
    return (port << U64(8)) | queue if knobs[PORT_QUEUES] else queue


@inlined
def take_ports(
    ports: Any, hops: Any, at: Any, have: Any, node: Any, port: Any, slots: Any, h: Any, m: Any,
    events: Any, n: Any, tally: Any, knobs: Any, reports: Any, i: Any, limits: Any,
) -> Any:  # fmt: skip
    """Everything of a named hop that belongs to its switch; `slots` are hints.

    (events, values, three rows).
    """
    hop = hops[at]
    now = reports[i].time_ns
    link, queue, buffer = slots
    values = U64(0)
    if have & (OCCUPANCY | CONGESTION):
        if have & OCCUPANCY:
            key = port_key(KIND_QUEUE, queue_ident(knobs, port, U64(hop.queue_id)), node)
            row = row_of(ports, queue, key, now, tally)
            values += U64(1)
            if row != NONE:
                queue = row
                limit = limits[QUEUE_OCCUPANCY]
                n = keep(
                    ports, row, U64(0), U64(hop.queue_occupancy), port, limit.change, limit.raise_above,
                    events, n, tally, knobs, reports, i, limits, QUEUE_OCCUPANCY, node, h, m,
                )  # fmt: skip
        if have & CONGESTION:
            key = port_key(KIND_QUEUE, queue_ident(knobs, port, U64(hop.congestion_queue_id)), node)
            row = row_of(ports, queue, key, now, tally)
            values += U64(1)
            if row != NONE:
                limit = limits[QUEUE_CONGESTION]
                n = keep(
                    ports, row, U64(1), U64(hop.queue_congestion), port, limit.change, limit.raise_above,
                    events, n, tally, knobs, reports, i, limits, QUEUE_CONGESTION, node, h, m,
                )  # fmt: skip
    if have & UTILIZATION and have & (PORTS | L2_PORTS):
        ident = U64(hop.egress_port) if have & PORTS else U64(hop.l2_egress_port)
        row = row_of(ports, link, port_key(KIND_EGRESS, ident, node), now, tally)
        values += U64(1)
        if row != NONE:
            link = row
            limit = limits[LINK_UTILIZATION]
            n = keep(
                ports, row, U64(0), U64(hop.tx_utilization), port, limit.change, limit.raise_above,
                events, n, tally, knobs, reports, i, limits, LINK_UTILIZATION, node, h, m,
            )  # fmt: skip
    if have & BUFFER:
        row = row_of(ports, buffer, port_key(KIND_BUFFER, U64(hop.buffer_id), node), now, tally)
        values += U64(1)
        if row != NONE:
            buffer = row
            limit = limits[BUFFER_OCCUPANCY]
            n = keep(
                ports, row, U64(0), U64(hop.buffer_occupancy), port, limit.change, limit.raise_above,
                events, n, tally, knobs, reports, i, limits, BUFFER_OCCUPANCY, node, h, m,
            )  # fmt: skip
    return n, values, (link, queue, buffer)


@inlined
def take_latency(
    states: Any, s: Any, value: Any, node: Any, port: Any, h: Any, m: Any,
    events: Any, n: Any, tally: Any, knobs: Any, reports: Any, i: Any, limits: Any,
) -> Any:  # fmt: skip
    """The latency of a hop of a flow, whose state is row s. Returns events so far."""
    state = states[s]
    limit = limits[HOP_LATENCY]
    stored = U64(state.latency_stored)
    gap = value - stored if value > stored else stored - value
    state.latency_latest = U32(value)
    state.latency_sum += value
    state.samples += U32(1)
    if (gap >= limit.change) | (value > limit.raise_above) | (state.state == 0) | (state.alarm != 0):
        n, stored, alarm = judged(
            events, n, tally, knobs, reports, i, limits, HOP_LATENCY, value, stored,
            U64(state.state), U64(state.alarm), node, U64(0), port, h, m,
        )  # fmt: skip
        state.latency_stored = U32(stored)
        state.state = U8(1)
        state.alarm = U8(alarm)
    return n


@inlined
def take_hop(
    ports: Any, states: Any, s: Any, hops: Any, at: Any, own: Any, h: Any, m: Any,
    events: Any, n: Any, tally: Any, knobs: Any, reports: Any, i: Any, limits: Any,
) -> Any:  # fmt: skip
    """One hop of report i.

    Returns (events so far, values in it, latency, 1 if it has a latency, 1 if nameless).
    """
    hop = hops[at]
    have = U64(hop.present & ~hop.null)
    node = U64(hop.node_id) if have & U64(1) else own
    port = U64(hop.egress_port) if have & PORTS else UNKNOWN
    values = U64(0)
    slots = (U64(0), U64(0), U64(0))
    if s != NONE:
        slots = (U64(states[s].port_slot), U64(states[s].queue_slot), U64(states[s].buffer_slot))
    if node != NOBODY:
        n, values, slots = take_ports(
            ports, hops, at, have, node, port, slots, h, m, events, n, tally, knobs, reports, i, limits
        )
    if s != NONE:
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
            n = take_latency(
                states, s, U64(hop.hop_latency), node, port, h, m, events, n, tally, knobs, reports, i, limits
            )
            values += U64(1)
    has = U64((have & LATENCY) != U64(0))
    return n, values, U64(hop.hop_latency) * has, has, U64(node == NOBODY)
