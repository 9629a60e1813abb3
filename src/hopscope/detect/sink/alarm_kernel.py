"""Kernels of alarms with hysteresis in the sink: RAISED above one limit, CLEARED below another.

The state is kept as in the collector: a hop's latency in HOP_STATE, a flow's in FLOW, queues and links in the
port table. A packet without an event is handled here only while an alarm is raised (`knobs[ALARMED]`), so
that hysteresis costs the fast path one test.

===================== ==========================================================================
`journal`, `j`        EVENT [n], and their number so far
`tally`, `knobs`      uint64 [SINK_TALLY], uint64 [SINK_KNOBS], see `event_kernel`
`limits`, `at`        uint64 [rows * ROW], and where the four limits of a measure begin
`reports`, `i`        REPORT [n], and the index of the current packet
`states`, `s`         HOP_STATE, and the index of a hop's state; NOT_FOUND: it has none
`ports`, `shares`     PORT [rows], uint32 [OWNERS + 1]; packets have no source: owner 0 has all
`hops`, `at`          HOP [m], and the index of a hop; a packet has `count` hops from `first` on
`types`               bits of Type
===================== ==========================================================================
"""

from ...base.kernels.jit import U8, U16, U32, U64, kernel, order
from ..flows.event_kernel import (
    ALARMS,
    CHANGED_LIMITS,
    CLEARED,
    NO_NODE,
    NO_PORT,
    NOT_FOUND,
    NOTHING,
    OFF,
    RAISED,
    emit,
    put_hop,
    put_report_flow,
)
from ..flows.flow_cache_kernel import FLOW_LATENCY, HOP_LATENCY
from ..flows.hop_kernel import (
    KIND_EGRESS,
    KIND_QUEUE,
    LINK_UTILIZATION,
    OCCUPANCY,
    PORTS,
    QUEUE_OCCUPANCY,
    queue_place,
)
from ..flows.port_table_kernel import find_port, port_key
from ..flows.switch_time_kernel import hop_time, put_time, whole_time
from .event_kernel import ALARMED, END_TO_END, JOURNAL, STEP

FLOW_ALARM = U64(1) << FLOW_LATENCY


@kernel
def settle(
    journal, j, tally, knobs, limits, at, measure, metric, value, alarm, reports, i, node, ident, port, h, m
):
    """RAISED or CLEARED of a value. Returns (journal events so far, alarm: not 0 while it is raised).

    While the journal accepts no events, nothing changes: a later packet then raises or clears the alarm.
    """
    above = limits[at + U64(2)]
    below = limits[at + U64(3)]
    kind, limit, reason = U64(0), above, U64(0)
    if alarm == U64(0):
        if (below != OFF) & (value > above):
            kind = RAISED
    elif below == OFF:
        kind, limit, reason = CLEARED, NOTHING, CHANGED_LIMITS
    elif value < below:
        kind, limit = CLEARED, below
    if (kind == U64(0)) | (knobs[JOURNAL] == U64(0)):
        return j, alarm
    knobs[JOURNAL] -= U64(1)
    emit(journal, j, tally, kind, metric, reports[i].time_ns, value, limit)
    put_report_flow(journal, j, reports, i, knobs)
    put_hop(journal, j, node, ident, port, h, m)
    journal[j].reason = U8(reason)
    if kind == RAISED:
        tally[ALARMS + metric] += U64(1)
        knobs[ALARMED] |= U64(1) << measure
        return j + U64(1), U64(1)
    tally[ALARMS + metric] -= U64(1)
    return j + U64(1), U64(0)


@kernel
def settle_port(
    journal, j, tally, knobs, limits, at, measure, metric, value, ports, shares, key, reports, i, node, ident,
    port, h, m,
):  # fmt: skip
    """`settle` for a queue or link in the port table. Returns journal events so far."""
    now = reports[i].time_ns
    j, to = find_port(ports, shares, key, U64(0), now, journal, j, tally, knobs)
    if to == NOT_FOUND:
        return j
    row = ports[to]
    before = U64(row.alarm) & U64(1)
    j, after = settle(
        journal,
        j,
        tally,
        knobs,
        limits,
        at,
        measure,
        metric,
        value,
        before,
        reports,
        i,
        node,
        ident,
        port,
        h,
        m,
    )
    row.latest[U64(0)] = U32(value)
    row.last_ns = now
    if after != before:
        version = row.version
        row.version = version | U32(1)
        order()
        row.port = U16(port)
        row.alarm = U8((U64(row.alarm) & ~U64(1)) | after)
        order()
        row.version = (version | U32(1)) + U32(1)
    return j


@kernel
def settle_hop(
    journal, j, tally, knobs, limits, base, ports, shares, states, s, reports, i, hops, at, h, m, types,
    measures,
):  # fmt: skip
    """Alarms of hop `at` of `hops`, the h-th of m, with `measures`. Returns journal events so far.

    A measure is checked if its value is above a limit with hysteresis, or if it may have a raised alarm.
    """
    hop = hops[at]
    have = U64(hop.present & ~hop.null)
    node = U64(hop.node_id)
    port = U64(hop.egress_port) if have & PORTS else NO_PORT
    queue = U64(hop.queue_id) if have & OCCUPANCY else U64(0)
    alarmed = knobs[ALARMED]
    begin = j
    for k in range(3):
        measure = U64(k)
        of = base + measure * STEP
        above = (types >> (U64(2) * measure + U64(1))) & U64(limits[of + U64(3)] != OFF)
        if measures >> measure & (above | alarmed >> measure) & U64(1) == U64(0):
            continue
        if measure == U64(0):
            if s != NOT_FOUND:
                j, alarm = settle(
                    journal, j, tally, knobs, limits, of, measure, HOP_LATENCY, U64(hop.hop_latency),
                    U64(states[s].alarm), reports, i, node, NOTHING, port, h, m,
                )  # fmt: skip
                states[s].alarm = U8(alarm)
        elif measure == U64(1):
            key = port_key(KIND_QUEUE, queue_place(knobs, port, queue), node)
            j = settle_port(
                journal, j, tally, knobs, limits, of, measure, QUEUE_OCCUPANCY, U64(hop.queue_occupancy),
                ports, shares, key, reports, i, node, queue, port, h, m,
            )  # fmt: skip
        elif port != NO_PORT:
            j = settle_port(
                journal, j, tally, knobs, limits, of, measure, LINK_UTILIZATION, U64(hop.tx_utilization),
                ports, shares, port_key(KIND_EGRESS, port, node), reports, i, node, port, port, h, m,
            )  # fmt: skip
    put_time(journal, begin, j, hop_time(hops, at))
    return j


@kernel
def settle_flow(journal, j, tally, knobs, limits, flows, f, latency, reports, i, hops, first, count):
    """Alarm of the end-to-end latency of flow f. Returns journal events so far."""
    flow = flows[f]
    begin = j
    before = U64(flow.alarm) & FLOW_ALARM
    j, after = settle(
        journal, j, tally, knobs, limits, END_TO_END * STEP, END_TO_END, FLOW_LATENCY, latency, before,
        reports, i, NO_NODE, NOTHING, NO_PORT, NOTHING, count,
    )  # fmt: skip
    put_time(journal, begin, j, whole_time(reports, i, hops, first, count))
    flow.alarm = U8(FLOW_ALARM if after else U64(0))
    return j
