"""Brings the program's counts and latest values into the detector's flows, queues, buffers and ports."""

from ...base.kernels.jit import U32, U64, fence, inlined, kernel, order
from ...detect.flows.event_kernel import FLOW_CARRIED, NOT_FOUND
from ...detect.flows.flow_cache_kernel import ROW_WORDS, VERSION, WAY, use_way
from ..layout import NOWHERE, Mark, State
from . import rows_kernel

_ABSENT = U32(State.ABSENT)
_UNUSUAL = U64(Mark.UNUSUAL)
_FULL = U64(0xFFFFFFFF)
_NOWHERE = U64(NOWHERE)


@inlined
def keep_latest(flows, f, states, k_flows, k_more):
    """Copy the program's latest values to a flow of the detector, unless the row is spoiled: the detector may
    not have seen them yet, or may just have processed older reports.
    """
    kept, flow = k_flows[f], flows[f]
    if kept.spoiled or not kept.touched:
        return
    flow.latency_latest = kept.latency_latest
    for h in range(rows_kernel.common_hops(flow, kept)):
        state, hop = (
            states[rows_kernel.state_at(flows, f, U64(h))],
            rows_kernel.kept_hop(kept, k_more, U64(h)),
        )
        if state.node_id == hop.node:
            state.egress_port = hop.egress_port
            state.latency_latest = hop.latency_latest
            state.queue_latest = hop.queue_latest
            state.utilization_latest = hop.utilization_latest
            if U64(hop.port_slot) != _NOWHERE:
                state.port_slot = hop.port_slot
            if U64(hop.queue_slot) != _NOWHERE:
                state.queue_slot = hop.queue_slot
            if U64(hop.buffer_slot) != _NOWHERE:
                state.buffer_slot = hop.buffer_slot


@inlined
def keep_latest_of_port(ports, at, k_ports):
    """`keep_latest` for a queue, buffer or port."""
    kept, row = k_ports[at], ports[at]
    if kept.touched and not kept.spoiled and kept.state != _ABSENT and kept.key == row.key:
        for slot in range(U64(2)):
            if U64(row.state) >> slot & U64(1):
                row.latest[slot] = kept.metrics[slot].latest


@kernel
def merge_flow(row, way, tags, flows, states, k_flows, k_more, seen, seen_hops, epoch_ns):
    """Add the program's counts to a flow of the detector; the program must have the same flow in this row.

    A report that spoiled a row was passed up, so the detector has its values, or will have them. The program
    keeps counting meanwhile, so each count is read once: the same number is added and recorded as seen.
    """
    f = row * WAY + way
    kept = k_flows[f]
    packets, latency_sum, latency_samples = kept.packets, kept.latency_sum, kept.latency_samples
    if packets == seen[f, 0] and latency_sum == seen[f, 1] and latency_samples == seen[f, 2]:
        return
    flow = flows[f]
    version = tags[row * ROW_WORDS + VERSION]
    tags[row * ROW_WORDS + VERSION] = version | U32(1)
    order()
    use_way(tags, row, way)
    flow.packets += packets - seen[f, 0]
    flow.last_ns = max(flow.last_ns, kept.last_ns + epoch_ns)
    flow.latency_sum += latency_sum - seen[f, 1]
    if latency_samples != seen[f, 2]:
        flow.latency_samples += latency_samples - seen[f, 2]
        flow.latency_latest = kept.latency_latest
    seen[f, 0], seen[f, 1], seen[f, 2] = packets, latency_sum, latency_samples
    for h in range(rows_kernel.common_hops(flow, kept)):
        s = rows_kernel.state_at(flows, f, U64(h))
        state = states[s]
        hop = rows_kernel.kept_hop(kept, k_more, U64(h))
        total, samples = hop.latency_sum, U64(hop.samples)
        if state.node_id == hop.node:
            state.latency_sum += total - seen_hops[s, 0]
            if samples != seen_hops[s, 1]:
                state.samples += U32(samples - seen_hops[s, 1])
                state.latency_latest = hop.latency_latest
        seen_hops[s, 0], seen_hops[s, 1] = total, samples
    keep_latest(flows, f, states, k_flows, k_more)
    order()
    tags[row * ROW_WORDS + VERSION] = (version | U32(1)) + U32(1)


@kernel
def merge_changing(reports, marks, tags, flows, states, knobs, k_flows, k_more, seen, seen_hops, epoch_ns):
    """Merge the flows of a batch that the detector may change in ways that the program cannot follow."""
    for k in range(len(reports)):
        i = U64(k)
        r = reports[i]
        if r.reason != 0 or not U64(r.carried) & FLOW_CARRIED:
            continue
        row, way = rows_kernel.find_reported(tags, flows, reports, i, knobs)
        if way != NOT_FOUND:
            f = row * WAY + way
            if (k_flows[f].spoiled or U64(marks[r.packet]) & _UNUSUAL) and rows_kernel.same_flow(
                flows, f, k_flows
            ):
                merge_flow(row, way, tags, flows, states, k_flows, k_more, seen, seen_hops, epoch_ns)


@kernel
def merge_flows(start, end, tags, flows, states, k_tags, k_flows, k_more, seen, seen_hops, epoch_ns):
    """Add the program's counts to the flows of rows `start` to `end`. Stop following rows that have a
    different flow now, or whose stored values were pushed. Returns the packets of flows that had left the
    detector's table.
    """
    lost = U64(0)
    for k in range(start, end):
        row = U64(k)
        for w in range(WAY):
            way = U64(w)
            here = k_tags[row].ways[way] != U32(0)
            known = tags[row * ROW_WORDS + way] != U32(0)
            if not here and not known:
                continue
            f = row * WAY + way
            kept = k_flows[f]
            if not known or not rows_kernel.same_flow(flows, f, k_flows):
                if here:
                    rows_kernel.remove_flow(f, k_tags, k_flows)
                    packets = kept.packets
                    lost += packets - seen[f, 0]
                    seen[f, 0] = packets
                continue
            merge_flow(row, way, tags, flows, states, k_flows, k_more, seen, seen_hops, epoch_ns)
            if U64(flows[f].pushed_ns) != seen[f, 3]:
                seen[f, 3] = flows[f].pushed_ns
                if here:
                    rows_kernel.remove_flow(f, k_tags, k_flows)
    return lost


@kernel
def merge_ports(start, end, ports, k_ports, seen_ports, epoch_ns):
    """Add the program's counts to rows `start` to `end` of queues, buffers and ports. Stop following rows
    that have a different key now, or whose stored values were pushed.
    """
    for k in range(start, end):
        at = U64(k)
        kept = k_ports[at]
        if kept.state == _ABSENT and U64(kept.samples) == seen_ports[at, 0]:
            continue
        row = ports[at]
        if row.key != kept.key:
            kept.state = _ABSENT
            seen_ports[at, 0] = U64(kept.samples)
            continue
        samples = U64(kept.samples)
        if samples != seen_ports[at, 0]:
            row.samples += (samples - seen_ports[at, 0]) & _FULL
            seen_ports[at, 0] = samples
            row.last_ns = max(row.last_ns, kept.last_ns + epoch_ns)
            for slot in range(U64(2)):
                row.highest[slot] = max(row.highest[slot], kept.metrics[slot].highest)
                kept.metrics[slot].highest = U32(0)
            fence()
            for slot in range(U64(2)):
                if U64(row.state) >> slot & U64(1):  # a value that arrived between both steps is the latest
                    row.highest[slot] = max(row.highest[slot], kept.metrics[slot].latest)
            keep_latest_of_port(ports, at, k_ports)
        if U64(row.pushed_ns) != seen_ports[at, 1]:
            seen_ports[at, 1] = row.pushed_ns
            kept.state = _ABSENT
