"""Kernels of the quick lane: a report of a known flow, on its known path, whose every value is quiet.

Most reports are such.  `is_quiet` only looks: path as stored, every row of the port table where the hop's
hint says, every value within T of what is stored, below its limit, and no alarm raised.  `commit` then only
writes. Whatever is not so takes the general way (`report_kernel.take_report`), which does everything.  With
that one alone, a report of 3 hops and 8 fields takes 78 ns, since LLVM keeps some sixty values alive and
spills them; with the lane 51 ns.
"""

from __future__ import annotations

from typing import Any

from ...base.jit import U16, U32, U64, inlined
from . import hop_kernel
from .event_kernel import PORT_QUEUES
from .flow_cache_kernel import FLOW_LATENCY, HAS_LATENCY, HOP_LATENCY, INLINE
from .path_kernel import NODE_ID

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
USUAL = NODE_ID | hop_kernel.PORTS | hop_kernel.LATENCY | hop_kernel.OCCUPANCY | hop_kernel.UTILIZATION
FULL = USUAL | hop_kernel.BUFFER
"""What INT 2.x hops carry mostly: with these as constants, LLVM leaves out every test of a bit."""


@inlined
def within(quiet: Any, metric: Any, value: Any, stored: Any) -> Any:
    """Whether a value is within T of the stored one and not above its limit."""
    k = metric * U64(3)
    return (value + quiet[k] - stored <= quiet[k + U64(1)]) & (value <= quiet[k + U64(2)])


@inlined
def row_is_quiet(ports: Any, at: Any, key: Any, slot: Any, value: Any, quiet: Any, metric: Any) -> Any:
    """Whether row `at` has this key, and the value of its slot is quiet."""
    row = ports[at]
    bit = U64(1) << slot
    return (
        (row.key == key)
        & (U64(row.state) & ~U64(row.alarm) & bit != U64(0))
        & within(quiet, metric, value, U64(row.stored[slot]))
    )


@inlined
def hop_is_quiet(ports: Any, hop: Any, have: Any, node: Any, state: Any, quiet: Any, knobs: Any) -> Any:
    """Whether all that a hop says is quiet."""
    if have & hop_kernel.LATENCY and (
        (state.state == 0)
        | (state.alarm != 0)
        | (not within(quiet, HOP_LATENCY, U64(hop.hop_latency), U64(state.latency_stored)))
    ):
        return False
    if have & (hop_kernel.OCCUPANCY | hop_kernel.CONGESTION):
        queue = U64(hop.queue_id) if have & hop_kernel.OCCUPANCY else U64(hop.congestion_queue_id)
        if knobs[PORT_QUEUES]:
            queue |= (U64(hop.egress_port) if have & hop_kernel.PORTS else hop_kernel.UNKNOWN) << U64(8)
        key = hop_kernel.KIND_QUEUE << U64(56) | queue << U64(32) | node
        at = U64(state.queue_slot)
        if have & hop_kernel.OCCUPANCY and not row_is_quiet(
            ports, at, key, U64(0), U64(hop.queue_occupancy), quiet, hop_kernel.QUEUE_OCCUPANCY
        ):
            return False
        if have & hop_kernel.CONGESTION and not (
            (not have & hop_kernel.OCCUPANCY or hop.queue_id == hop.congestion_queue_id)
            and row_is_quiet(
                ports, at, key, U64(1), U64(hop.queue_congestion), quiet, hop_kernel.QUEUE_CONGESTION
            )
        ):
            return False
    if have & hop_kernel.UTILIZATION and have & (hop_kernel.PORTS | hop_kernel.L2_PORTS):
        link = U64(hop.egress_port) if have & hop_kernel.PORTS else U64(hop.l2_egress_port & U32(0xFFFFFF))
        key = hop_kernel.KIND_EGRESS << U64(56) | link << U64(32) | node
        if not row_is_quiet(
            ports,
            U64(state.port_slot),
            key,
            U64(0),
            U64(hop.tx_utilization),
            quiet,
            hop_kernel.LINK_UTILIZATION,
        ):
            return False
    if have & hop_kernel.BUFFER:
        key = hop_kernel.KIND_BUFFER << U64(56) | U64(hop.buffer_id) << U64(32) | node
        if not row_is_quiet(
            ports,
            U64(state.buffer_slot),
            key,
            U64(0),
            U64(hop.buffer_occupancy),
            quiet,
            hop_kernel.BUFFER_OCCUPANCY,
        ):
            return False
    return True


@inlined
def is_quiet(
    flows: Any,
    f: Any,
    states: Any,
    ports: Any,
    hops: Any,
    first: Any,
    m: Any,
    last: Any,
    own: Any,
    quiet: Any,
    knobs: Any,
) -> Any:
    """Whether the hops `first …` are flow f's stored path, with nothing to tell of them."""
    total = U64(0)
    lacking = U64(0)
    for h in range(m):
        hop = hops[first + h]
        state = states[f * INLINE + h]
        have = U64(hop.present & ~hop.null)
        node = U64(hop.node_id)
        if have & NODE_ID == U64(0):
            if first + h != last:
                return False
            node = own
        if U64(state.node_id) != node:
            return False
        shape = have & (SHAPE & ~hop_kernel.L2_PORTS)
        if shape == FULL:
            still = hop_is_quiet(ports, hop, FULL, node, state, quiet, knobs)
        elif shape == USUAL:
            still = hop_is_quiet(ports, hop, USUAL, node, state, quiet, knobs)
        else:
            still = hop_is_quiet(ports, hop, have, node, state, quiet, knobs)
        if not still:
            return False
        total += U64(hop.hop_latency)
        lacking |= ~have & hop_kernel.LATENCY
    flow = flows[f]
    return lacking != U64(0) or (
        U64(flow.state) & HAS_LATENCY != U64(0) and within(quiet, FLOW_LATENCY, total, flow.latency_stored)
    )


@inlined
def put(ports: Any, at: Any, slot: Any, value: Any, now: Any) -> Any:
    """A quiet value of a row of the port table; its `port` is as old as its last value that was not quiet.

    These fields are words that are each written whole and say nothing of each other, so the row's version
    stays: 51 ns instead of 57 for a report of 3 hops, 86 instead of 95 for 6.
    """
    row = ports[at]
    row.latest[slot] = U32(value)
    row.samples += U64(1)
    row.last_ns = now
    if value > U64(row.highest[slot]):
        row.highest[slot] = U32(value)


@inlined
def commit_hop(ports: Any, hop: Any, have: Any, state: Any, now: Any) -> Any:
    """Write the values of a quiet hop; returns how many there are."""
    port = U64(hop.egress_port) if have & hop_kernel.PORTS else hop_kernel.UNKNOWN
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
def commit(flows: Any, f: Any, states: Any, ports: Any, hops: Any, first: Any, m: Any, now: Any) -> Any:
    """Write a quiet report; returns how many values it has. The caller holds the row's version odd."""
    values = U64(1)  # the path
    total = U64(0)
    lacking = U64(0)
    for h in range(m):
        hop = hops[first + h]
        have = U64(hop.present & ~hop.null)
        shape = have & (SHAPE & ~hop_kernel.L2_PORTS)
        if shape == FULL:
            values += commit_hop(ports, hop, FULL, states[f * INLINE + h], now)
        elif shape == USUAL:
            values += commit_hop(ports, hop, USUAL, states[f * INLINE + h], now)
        else:
            values += commit_hop(ports, hop, have, states[f * INLINE + h], now)
        total += U64(hop.hop_latency)
        lacking |= ~have & hop_kernel.LATENCY
    flow = flows[f]
    flow.packets += U64(1)
    flow.last_ns = now
    if lacking == U64(0):
        flow.latency_latest = total
        flow.latency_sum += total
        flow.latency_samples += U64(1)
        values += U64(1)
    return values
