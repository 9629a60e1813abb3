"""Copies rows of the detector for the program to watch, and confirms them after all reports on their way."""

from ...base.kernels.jit import U16, U32, U64, inlined, kernel, order
from ...base.keyed_kernel import spread, weigh
from ...detect.flows import hop_kernel
from ...detect.flows.event_kernel import NO_NODE, NOT_FOUND, limits_of, pack_l4
from ...detect.flows.flow_cache_kernel import FLOW_LATENCY, HAS_LATENCY, HOP_LATENCY, INLINE, WAY, tag_of
from ...detect.flows.path_kernel import HAS_PATH, node_of
from ...detect.flows.port_table_kernel import most
from ...detect.flows.slow_path_kernel import INCOMPLETE
from ..layout import PROBES, Mark, State
from . import rows_kernel
from .merge_kernel import merge_flow

_ABSENT = U32(State.ABSENT)
_WATCHED = U32(State.WATCHED)
_ACTIVE = U32(State.ACTIVE)
_UNUSUAL = U64(Mark.UNUSUAL)
_PROBES = U64(PROBES)
_FULL = U64(0xFFFFFFFF)
_PORT = U64(1 << 63)
"""Bit in `watched` that marks the number of a port row."""
_MIX = U64(0xFF51AFD7ED558CCD)


@inlined
def state_of_flow(flows, f, states):
    """Hash of the state of flow f that decides about events."""
    flow = flows[f]
    h = flow.path_hash ^ U64(flow.hop_count) ^ (U64(flow.state) << U64(8)) ^ (U64(flow.alarm) << U64(16))
    h = (h ^ flow.latency_stored) * _MIX
    for k in range(flow.hop_count):
        state = states[rows_kernel.state_at(flows, f, U64(k))]
        h = (
            h ^ U64(state.latency_stored) ^ (U64(state.state) << U64(32)) ^ (U64(state.alarm) << U64(40))
        ) * _MIX
        h ^= h >> U64(29)
    return h


@inlined
def state_of_port(ports, at):
    """Hash of the state of a port row that decides about events."""
    row = ports[at]
    stored = U64(row.stored[U64(0)]) ^ (U64(row.stored[U64(1)]) << U64(32))
    return ((row.key ^ U64(row.state)) * _MIX ^ stored) * _MIX ^ U64(row.alarm)


@inlined
def install_port(ports, at, limits, base, knobs, k_ports, seen_ports):
    """Let the program watch a port row; returns whether it can."""
    row = ports[at]
    mask = U64(len(ports)) - U64(1)
    home = spread(weigh(knobs, 0, row.key)) & mask
    if (at - home) & mask >= _PROBES or row.state == 0 or row.alarm:
        return False
    metric = hop_kernel.BUFFER_OCCUPANCY
    if U64(row.kind) == hop_kernel.KIND_QUEUE:
        metric = hop_kernel.QUEUE_OCCUPANCY
    elif U64(row.kind) == hop_kernel.KIND_EGRESS:
        metric = hop_kernel.LINK_UTILIZATION
    k = k_ports[at]
    for slot in range(U64(2)):
        if (
            U64(row.state) >> slot & U64(1)
            and U64(row.latest[slot]) > limits[base + metric + slot].raise_above
        ):
            return False
    if k.key == row.key:
        row.samples += (U64(k.samples) - seen_ports[at, 0]) & _FULL
        for slot in range(U64(2)):
            row.highest[slot] = max(row.highest[slot], k.metrics[slot].highest)
    k.key = row.key
    seen_ports[at, 0], seen_ports[at, 1] = U64(k.samples), row.pushed_ns
    k.has = U32(row.state)
    for slot in range(U64(2)):
        kept = k.metrics[slot]
        kept.highest = U32(0)
        kept.low, kept.high = U32(1), U32(0)
        if not U64(row.state) >> slot & U64(1):  # only queues have two
            continue
        limit = limits[base + metric + slot]
        kept.stored = row.stored[slot]
        kept.change = U32(most(limit.change))
        kept.above = U32(min(limit.raise_above, _FULL))
        kept.latest = row.latest[slot]
    k.spoiled = k.touched = U32(0)
    order()
    k.state = _WATCHED
    return True


@inlined
def install_flow(
    flows, f, states, limits, overrides, k_tags, k_flows, k_more, tags, seen, seen_hops, epoch_ns, lost
):
    """Let the program watch a flow; returns whether it can. Packets of the row's previous flow that are not
    merged are added to `lost`.
    """
    flow = flows[f]
    count = U64(flow.hop_count)
    if U64(flow.state) & (HAS_PATH | INCOMPLETE) != HAS_PATH or flow.alarm:
        return False
    if count > INLINE and not flow.pool_block:
        return False
    for h in range(count):
        if states[rows_kernel.state_at(flows, f, U64(h))].alarm:
            return False
    k = k_flows[f]
    same = rows_kernel.same_flow(flows, f, k_flows)
    if same:
        k.spoiled = U32(1)
        merge_flow(
            f // WAY, f - f // WAY * WAY, tags, flows, states, k_flows, k_more, seen, seen_hops, epoch_ns
        )
    else:
        lost[U64(0)] += k.packets - seen[f, 0]
        seen[f, 0], seen[f, 1], seen[f, 2] = k.packets, k.latency_sum, k.latency_samples
    seen[f, 3] = flow.pushed_ns
    k.addresses[U64(0)] = flow.src_hi
    k.addresses[U64(1)] = flow.src_lo
    k.addresses[U64(2)] = flow.dst_hi
    k.addresses[U64(3)] = flow.dst_lo
    k.transport = pack_l4(flow.sport, flow.dport, flow.proto, flow.ip_version)
    moved = count > INLINE and U64(k.block) + U64(1) != U64(flow.pool_block)
    if count > INLINE:
        k.block = U32(flow.pool_block - U32(1))
    k.hop_count = U32(count)
    limit = limits[FLOW_LATENCY]
    k.latency_stored = flow.latency_stored
    k.latency_change = limit.change - U64(1)
    k.latency_above = limit.raise_above
    k.has_latency = U32(U64(flow.state) & HAS_LATENCY != U64(0))
    k.latency_latest = flow.latency_latest
    k.spoiled = k.touched = U32(0)
    for h in range(count):
        s = rows_kernel.state_at(flows, f, U64(h))
        state = states[s]
        hop = rows_kernel.kept_hop(k, k_more, U64(h))
        if not same or hop.node != state.node_id or (moved and U64(h) >= INLINE):
            seen_hops[s, 0] = hop.latency_sum
            seen_hops[s, 1] = U64(hop.samples)
        limit = limits[limits_of(overrides, U64(state.node_id)) * hop_kernel.LIMITS + HOP_LATENCY]
        hop.node = state.node_id
        hop.latency_stored = state.latency_stored
        hop.latency_change = U32(most(limit.change))
        hop.latency_above = U32(min(limit.raise_above, _FULL))
        hop.has_latency = U16(state.state != 0)
        hop.egress_port = state.egress_port
        hop.low, hop.high = U32(1), U32(0)
        hop.latency_latest = state.latency_latest
        hop.queue_latest = state.queue_latest
        hop.utilization_latest = state.utilization_latest
        hop.port_slot = state.port_slot
        hop.queue_slot = state.queue_slot
        hop.buffer_slot = state.buffer_slot
    order()
    k.state = _WATCHED
    row = f // WAY
    k_tags[row].ways[f - row * WAY] = tag_of(flow.flow_id)
    return True


@kernel
def install(
    reports, hops, marks, tags, flows, states, ports, limits, overrides, knobs, k_tags, k_flows, k_more,
    k_ports, seen, seen_hops, seen_ports, watched, epoch_ns, wanting, lost,
):  # fmt: skip
    """Let the program watch the flows of the reports marked in `wanting`, and their queues, buffers and
    ports; returns the number of rows in `watched`. `lost` is uint64 [1], see `install_flow`.
    """
    n = 0
    for k in range(len(reports)):
        i = U64(k)
        r = reports[i]
        if not wanting[i] or U64(marks[r.packet]) & _UNUSUAL:
            continue
        row, way = rows_kernel.find_reported(tags, flows, reports, i, knobs)
        if way == NOT_FOUND:
            continue
        f = row * WAY + way
        count = U64(r.hop_count)
        if n + 3 * 64 + 1 > len(watched) or count != U64(flows[f].hop_count):
            continue
        if count > INLINE and not flows[f].pool_block:
            continue
        for h in range(count):
            hop = hops[U64(r.first_hop) + U64(h)]
            have = U64(hop.present & ~hop.null)
            node = node_of(hops, U64(r.first_hop) + U64(h), NO_NODE)
            state = states[rows_kernel.state_at(flows, f, U64(h))]
            base = limits_of(overrides, node) * hop_kernel.LIMITS
            for which in range(3):
                key = rows_kernel.key_of_value(hop, have, node, which, knobs)
                if key == U64(0):
                    continue
                at = U64(state.buffer_slot)
                if which == 0:
                    at = U64(state.queue_slot)
                elif which == 1:
                    at = U64(state.port_slot)
                if ports[at].key != key or k_ports[at].state != _ABSENT:
                    continue
                if install_port(ports, at, limits, base, knobs, k_ports, seen_ports):
                    watched[n, 0] = at | _PORT
                    watched[n, 1] = state_of_port(ports, at)
                    n += 1
        if k_flows[f].state == _ABSENT and install_flow(
            flows, f, states, limits, overrides, k_tags, k_flows, k_more, tags, seen, seen_hops, epoch_ns,
            lost,
        ):  # fmt: skip
            watched[n, 0] = f
            watched[n, 1] = state_of_flow(flows, f, states)
            n += 1
    return n


@kernel
def confirm(watched, count, flows, states, ports, k_tags, k_flows, k_ports):
    """Let the program compare the rows that it watches, except those that a report on its way has changed."""
    for n in range(count):
        at = watched[n, 0]
        if at & _PORT:
            at ^= _PORT
            if k_ports[at].state == _WATCHED:
                same = ports[at].key == k_ports[at].key and state_of_port(ports, at) == watched[n, 1]
                k_ports[at].state = _ACTIVE if same else _ABSENT
        elif k_flows[at].state == _WATCHED:
            if (
                rows_kernel.same_flow(flows, at, k_flows)
                and state_of_flow(flows, at, states) == watched[n, 1]
            ):
                k_flows[at].state = _ACTIVE
            else:
                rows_kernel.remove_flow(at, k_tags, k_flows)
