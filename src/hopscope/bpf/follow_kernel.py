"""Kernels that keep the tables of the XDP program equal to the detector's, and add what it counted.

===================== ==========================================================================
`reports`, `hops`     REPORT [n], HOP [m]: a batch that the detector has seen
`marks`               uint8 [frames]: Mark of each datagram of the batch
`tags`, `flows`       uint32 [rows * 16], FLOW [rows * WAYS]: the detector's, see `flow_cache_kernel`
`states`              HOP_STATE: those of flow f from f * INLINE on
`ports`, `sources`    PORT and SOURCE [power of two]: the detector's
`limits`, `overrides` THRESHOLD and uint64, see `detect_kernel.update_kernel`
`knobs`               uint64 [event_kernel.KNOBS]
`k_…`                 the program's tables: TAGS, FLOW, PORT, SOURCE of `layout`, row by row the same
`k_more`              HOP: of the blocks of the pool
`watched`             uint64 [n, 2]: what was installed last, and its decisive state then
`seen`, `seen_hops`   what the program had counted when it was merged last: uint64 [flows, 4] packets, sum and
                      number of latencies, time of the last push; uint64 [as `states`, 2] sum and number
`seen_ports`          uint64 [ports, 2]: samples merged, time of the last push
===================== ==========================================================================
"""

from __future__ import annotations

from typing import Any

from ..base.jit import U8, U16, U32, U64, inlined, kernel, order
from ..base.keyed_kernel import spread, weigh
from ..detect.flows import hop_kernel
from ..detect.flows.event_kernel import (
    FLOW_CARRIED,
    NO_NODE,
    NO_PORT,
    NOT_FOUND,
    hash_report,
    limits_of,
    pack_l4,
)
from ..detect.flows.flow_cache_kernel import (
    FLOW_LATENCY,
    HAS_LATENCY,
    HOP_LATENCY,
    INLINE,
    POOL,
    ROW_WORDS,
    VERSION,
    WAY,
    find_flow,
    hop_at,
    tag_of,
    use_way,
)
from ..detect.flows.path_kernel import HAS_PATH, node_of
from ..detect.flows.port_table_kernel import port_key
from ..detect.flows.slow_path_kernel import INCOMPLETE, OWN_HOP, own_node
from ..detect.flows.source_table_kernel import NODE_CARRIED, WINDOW, hash_source
from ..wire.records import Flag
from .layout import NOWHERE, PROBES, Mark, State

_ABSENT, _WATCHED, _ACTIVE = U32(State.ABSENT), U32(State.WATCHED), U32(State.ACTIVE)
_UNUSUAL = U64(Mark.UNUSUAL)
_NUMBERED = U8(Flag.NUMBERED)
_PROBES, _MANY, _NOWHERE = U64(PROBES), 128, U64(NOWHERE)
_FULL = U64(0xFFFFFFFF)
_PORT = U64(1 << 63)
"""What makes the number of a port row one of `watched`."""
_MIX = U64(0xFF51AFD7ED558CCD)


@inlined
def most(limit: Any) -> Any:
    """The largest difference, of 32 bits, that is no change: `change` is T + 1."""
    return min(limit - U64(1), _FULL)


@inlined
def state_at(flows: Any, f: Any, h: Any) -> Any:
    """Index of the state of hop h of flow f, or NOT_FOUND."""
    return hop_at(f, h, U64(flows[f].pool_block), U64(len(flows)) * INLINE)


@inlined
def kept_hop(kept: Any, k_more: Any, h: Any) -> Any:
    """Hop h of a flow in the program's tables."""
    if h < INLINE:
        return kept.hops[h]
    return k_more[U64(kept.block) * POOL + (h - INLINE)]


@inlined
def common_hops(flow: Any, kept: Any) -> Any:
    """How many hops a flow of the detector and the program's have at the same places."""
    count = min(U64(flow.hop_count), U64(kept.hop_count))
    if count > INLINE and U64(flow.pool_block) != U64(kept.block) + U64(1):
        return INLINE
    return count


@inlined
def state_of_flow(flows: Any, f: Any, states: Any) -> Any:
    """Hash of all of flow f that decides about events."""
    flow = flows[f]
    h = flow.path_hash ^ U64(flow.hop_count) ^ (U64(flow.state) << U64(8)) ^ (U64(flow.alarm) << U64(16))
    h = (h ^ flow.latency_stored) * _MIX
    for k in range(flow.hop_count):
        state = states[state_at(flows, f, U64(k))]
        h = (
            h ^ U64(state.latency_stored) ^ (U64(state.state) << U64(32)) ^ (U64(state.alarm) << U64(40))
        ) * _MIX
        h ^= h >> U64(29)
    return h


@inlined
def state_of_port(ports: Any, at: Any) -> Any:
    """Hash of all of a port row that decides about events."""
    row = ports[at]
    stored = U64(row.stored[U64(0)]) ^ (U64(row.stored[U64(1)]) << U64(32))
    return ((row.key ^ U64(row.state)) * _MIX ^ stored) * _MIX ^ U64(row.alarm)


@inlined
def same_flow(flows: Any, f: Any, k_flows: Any) -> Any:
    """Whether flow f is the one that the program has there."""
    flow = flows[f]
    row = k_flows[f]
    l4 = pack_l4(flow.sport, flow.dport, flow.proto, flow.ip_version)
    return (
        (row.addresses[U64(0)] ^ flow.src_hi)
        | (row.addresses[U64(1)] ^ flow.src_lo)
        | (row.addresses[U64(2)] ^ flow.dst_hi)
        | (row.addresses[U64(3)] ^ flow.dst_lo)
        | (row.transport ^ l4)
    ) == U64(0)


@inlined
def find_reported(tags: Any, flows: Any, reports: Any, i: Any, knobs: Any) -> Any:
    """(row, way) of the flow of report i in the detector's table; way NOT_FOUND if it is not there."""
    hashed = hash_report(reports, i, knobs)
    row = hashed & (U64(len(tags)) // ROW_WORDS - U64(1))
    return row, find_flow(tags, flows, row, tag_of(hashed), reports, i)


@inlined
def remove_flow(f: Any, k_tags: Any, k_flows: Any) -> None:
    """Have the program compare this flow no longer."""
    k_flows[f].state = _ABSENT
    row = f // WAY
    k_tags[row].ways[f - row * WAY] = U32(0)


@kernel
def locate_port(ports: Any, key: Any, knobs: Any) -> Any:
    """Row of a key in the detector's table, or NOT_FOUND."""
    mask = U64(len(ports)) - U64(1)
    at = spread(weigh(knobs, 0, key)) & mask
    for _ in range(min(_MANY, len(ports))):
        if ports[at].key == key:
            return at
        if ports[at].key == U64(0):
            return NOT_FOUND
        at = (at + U64(1)) & mask
    return NOT_FOUND


@inlined
def key_of_value(hop: Any, have: Any, node: Any, which: Any, knobs: Any) -> Any:
    """Key of a hop's queue (0), egress port (1), buffer (2) or congested queue (3); 0: it has none."""
    port = U64(hop.egress_port) if have & hop_kernel.PORTS else NO_PORT
    if which == 0 and have & hop_kernel.OCCUPANCY:
        return port_key(hop_kernel.KIND_QUEUE, hop_kernel.queue_place(knobs, port, U64(hop.queue_id)), node)
    if which == 1 and have & hop_kernel.UTILIZATION and have & hop_kernel.PORTS:
        return port_key(hop_kernel.KIND_EGRESS, port, node)
    if which == 2 and have & hop_kernel.BUFFER:
        return port_key(hop_kernel.KIND_BUFFER, U64(hop.buffer_id), node)
    if which == 3 and have & hop_kernel.CONGESTION:
        queue = hop_kernel.queue_place(knobs, port, U64(hop.congestion_queue_id))
        return port_key(hop_kernel.KIND_QUEUE, queue, node)
    return U64(0)


@kernel
def forget(
    reports: Any, hops: Any, marks: Any, tags: Any, flows: Any, ports: Any, knobs: Any,
    k_tags: Any, k_flows: Any, k_ports: Any,
) -> None:  # fmt: skip
    """Have the program no longer compare what unusual reports may have changed."""
    for k in range(len(reports)):
        i = U64(k)
        r = reports[i]
        if not U64(marks[r.packet]) & _UNUSUAL or r.reason != 0:
            continue
        if U64(r.carried) & FLOW_CARRIED:
            row, way = find_reported(tags, flows, reports, i, knobs)
            if way != NOT_FOUND:
                remove_flow(row * WAY + way, k_tags, k_flows)
        own = own_node(reports, i, hops)
        last = U64(r.hop_count) + U64(U64(r.carried) & OWN_HOP != U64(0))
        for h in range(last):
            hop = hops[U64(r.first_hop) + U64(h)]
            have = U64(hop.present & ~hop.null)
            node = U64(hop.node_id) if have & U64(1) else own
            for which in range(4):
                key = key_of_value(hop, have, node, which, knobs)
                at = locate_port(ports, key, knobs) if key else NOT_FOUND
                if at != NOT_FOUND:
                    k_ports[at].state = _ABSENT


@inlined
def keep_latest(flows: Any, f: Any, states: Any, k_flows: Any, k_more: Any) -> None:
    """Give a flow of the detector the latest values, which the program has unless the row is spoiled: the
    detector may not have seen them yet, or only now what came before them.
    """
    kept, flow = k_flows[f], flows[f]
    if kept.spoiled or not kept.touched:
        return
    flow.latency_latest = kept.latency_latest
    for h in range(common_hops(flow, kept)):
        state, hop = states[state_at(flows, f, U64(h))], kept_hop(kept, k_more, U64(h))
        if state.node_id == hop.node:
            state.egress_port = hop.egress_port
            state.latency_latest = hop.latency_latest
            state.queue_latest = hop.queue_latest
            state.utilization_latest = hop.utilization_latest


@inlined
def keep_latest_of_port(ports: Any, at: Any, k_ports: Any) -> None:
    """The same of a queue, buffer or port."""
    kept, row = k_ports[at], ports[at]
    if kept.touched and not kept.spoiled and kept.state != _ABSENT and kept.key == row.key:
        for slot in range(U64(2)):
            if U64(row.state) >> slot & U64(1):
                row.latest[slot] = kept.metrics[slot].latest


@kernel
def merge_flow(
    row: Any, way: Any, tags: Any, flows: Any, states: Any, k_flows: Any, k_more: Any, seen: Any,
    seen_hops: Any, epoch_ns: Any,
) -> None:  # fmt: skip
    """Add what the program counted to a flow of the detector, which is the one that the program has there.

    What spoiled a row went up: the detector has its values, or will have them.
    """
    f = row * WAY + way
    kept = k_flows[f]
    if kept.packets == seen[f, 0]:
        return
    flow = flows[f]
    version = tags[row * ROW_WORDS + VERSION]
    tags[row * ROW_WORDS + VERSION] = version | U32(1)
    order()
    use_way(tags, row, way)
    flow.packets += kept.packets - seen[f, 0]
    flow.last_ns = max(flow.last_ns, kept.last_ns + epoch_ns)
    if kept.latency_samples != seen[f, 2]:
        flow.latency_sum += kept.latency_sum - seen[f, 1]
        flow.latency_samples += kept.latency_samples - seen[f, 2]
    seen[f, 0], seen[f, 1], seen[f, 2] = kept.packets, kept.latency_sum, kept.latency_samples
    for h in range(common_hops(flow, kept)):
        s = state_at(flows, f, U64(h))
        state = states[s]
        hop = kept_hop(kept, k_more, U64(h))
        if state.node_id == hop.node:
            if U64(hop.samples) != seen_hops[s, 1]:
                state.latency_sum += hop.latency_sum - seen_hops[s, 0]
                state.samples += U32(U64(hop.samples) - seen_hops[s, 1])
        seen_hops[s, 0], seen_hops[s, 1] = hop.latency_sum, U64(hop.samples)
    keep_latest(flows, f, states, k_flows, k_more)
    order()
    tags[row * ROW_WORDS + VERSION] = (version | U32(1)) + U32(1)


@inlined
def install_port(
    ports: Any, at: Any, limits: Any, base: Any, knobs: Any, k_ports: Any, seen_ports: Any
) -> Any:
    """Have the program watch a row; whether it can."""
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
    flows: Any, f: Any, states: Any, limits: Any, overrides: Any, k_tags: Any, k_flows: Any, k_more: Any,
    tags: Any, seen: Any, seen_hops: Any, epoch_ns: Any,
) -> Any:  # fmt: skip
    """Have the program watch a flow; whether it can."""
    flow = flows[f]
    count = U64(flow.hop_count)
    if U64(flow.state) & (HAS_PATH | INCOMPLETE) != HAS_PATH or flow.alarm:
        return False
    if count > INLINE and not flow.pool_block:
        return False
    for h in range(count):
        if states[state_at(flows, f, U64(h))].alarm:
            return False
    k = k_flows[f]
    same = same_flow(flows, f, k_flows)
    if same:
        k.spoiled = U32(1)
        merge_flow(
            f // WAY, f - f // WAY * WAY, tags, flows, states, k_flows, k_more, seen, seen_hops, epoch_ns
        )
    else:
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
        s = state_at(flows, f, U64(h))
        state = states[s]
        hop = kept_hop(k, k_more, U64(h))
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
    reports: Any, hops: Any, marks: Any, tags: Any, flows: Any, states: Any, ports: Any, limits: Any,
    overrides: Any, knobs: Any, k_tags: Any, k_flows: Any, k_more: Any, k_ports: Any, seen: Any,
    seen_hops: Any, seen_ports: Any, watched: Any, epoch_ns: Any, wanting: Any,
) -> Any:  # fmt: skip
    """Have the program watch the flows of `wanting` reports that went up, and their queues, buffers and
    ports; returns how many rows of `watched` there are now.
    """
    n = 0
    for k in range(len(reports)):
        i = U64(k)
        r = reports[i]
        if not wanting[i] or U64(marks[r.packet]) & _UNUSUAL:
            continue
        row, way = find_reported(tags, flows, reports, i, knobs)
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
            state = states[state_at(flows, f, U64(h))]
            base = limits_of(overrides, node) * hop_kernel.LIMITS
            for which in range(3):
                key = key_of_value(hop, have, node, which, knobs)
                if key == U64(0):
                    continue
                at = U64(state.buffer_slot)
                if which == 0:
                    at = U64(state.queue_slot)
                elif which == 1:
                    at = U64(state.port_slot)
                if ports[at].key != key:
                    continue
                if k_ports[at].state != _ABSENT:
                    if k_ports[at].key != key:
                        k_ports[at].state = _ABSENT
                elif install_port(ports, at, limits, base, knobs, k_ports, seen_ports):
                    watched[n, 0] = at | _PORT
                    watched[n, 1] = state_of_port(ports, at)
                    n += 1
        if k_flows[f].state == _ABSENT and install_flow(
            flows, f, states, limits, overrides, k_tags, k_flows, k_more, tags, seen, seen_hops, epoch_ns
        ):
            watched[n, 0] = f
            watched[n, 1] = state_of_flow(flows, f, states)
            n += 1
    return n


@kernel
def confirm(
    watched: Any, count: Any, flows: Any, states: Any, ports: Any, k_tags: Any, k_flows: Any, k_ports: Any
) -> None:
    """Have the program compare what it watches, unless a report that was on its way has changed it."""
    for n in range(count):
        at = watched[n, 0]
        if at & _PORT:
            at ^= _PORT
            if k_ports[at].state == _WATCHED:
                same = ports[at].key == k_ports[at].key and state_of_port(ports, at) == watched[n, 1]
                k_ports[at].state = _ACTIVE if same else _ABSENT
        elif k_flows[at].state == _WATCHED:
            if same_flow(flows, at, k_flows) and state_of_flow(flows, at, states) == watched[n, 1]:
                k_flows[at].state = _ACTIVE
            else:
                remove_flow(at, k_tags, k_flows)


@kernel
def set_numbered(reports: Any, marks: Any) -> None:
    """Mark the reports whose numbers the program has checked."""
    for k in range(len(reports)):
        r = reports[U64(k)]
        if U64(marks[r.packet]) & U64(Mark.NUMBERED):
            r.flags |= _NUMBERED


# ------------------------------------------------------------------------------------------------ sources


@inlined
def is_source(sources: Any, at: Any, k_sources: Any) -> Any:
    """Whether the detector's row is the source that the program has there."""
    s = sources[at]
    k = k_sources[at]
    return (
        s.source_lo == k.low
        and s.source_hi == k.high
        and s.node_id == k.node
        and s.hw_id == k.hardware
        and s.bits == k.bits
    )


@kernel
def merge_source(sources: Any, at: Any, k_sources: Any, merged: Any, received: Any, epoch_ns: Any) -> None:
    """Add the reports in sequence up to `received` to a source of the detector."""
    more = received - merged[at]
    merged[at] = received
    if more == U64(0) or not is_source(sources, at, k_sources):
        return
    s = sources[at]
    mask = (U64(1) << U64(s.bits)) - U64(1)
    version = s.version
    s.version = version | U32(1)
    order()
    s.received += more
    s.highest = U32((U64(s.highest) + more) & mask)
    s.window = (s.window << more) | ((U64(1) << more) - U64(1)) if more < WINDOW else ~U64(0)
    s.last_ns = max(s.last_ns, k_sources[at].last_ns + epoch_ns)
    order()
    s.version = (version | U32(1)) + U32(1)


@kernel
def merge_marked(
    marks: Any, rows: Any, received: Any, count: Any, sources: Any, k_sources: Any, merged: Any, epoch_ns: Any
) -> None:
    """Merge the sources of the datagrams of a batch whose numbers the detector is to look at."""
    for k in range(count):
        if U64(marks[k]) & U64(Mark.MERGE):
            merge_source(sources, U64(rows[k]), k_sources, merged, received[k], epoch_ns)


@kernel
def install_sources(
    reports: Any, at_source: Any, sources: Any, knobs: Any, k_sources: Any, merged: Any
) -> None:  # fmt: skip
    """Have the program follow the sequence numbers of these reports' sources; `at_source` is uint32 [frames]:
    the row of those that it follows, NOWHERE of others.
    """
    mask = U64(len(sources)) - U64(1)
    for k in range(len(reports)):
        r = reports[U64(k)]
        if r.index != 0 or r.reason != 0 or r.version < 5 or r.version > 20:
            continue
        if U64(at_source[r.packet]) != _NOWHERE:
            continue
        node = U64(r.node_id) if U64(r.carried) & NODE_CARRIED else U64(0)
        home = hash_source(r.source_hi, r.source_lo, node, U64(r.hw_id), knobs) & mask
        bits = U32(22) if r.version == 20 else U32(32)
        for step in range(_PROBES):
            at = (home + U64(step)) & mask
            s = sources[at]
            if (
                s.source_lo == r.source_lo
                and s.source_hi == r.source_hi
                and U64(s.node_id) == node
                and U64(s.hw_id) == U64(r.hw_id)
                and s.bits == bits
            ):
                row = k_sources[at]
                if row.state == _ABSENT and U64(s.depth) == WINDOW and not s.suspected and not s.silent:
                    row.high = s.source_hi
                    row.low = s.source_lo
                    row.node = s.node_id
                    row.hardware = s.hw_id
                    row.bits = s.bits
                    row.received = U64(0)
                    merged[at] = U64(0)
                    order()
                    row.state = _WATCHED
                break


@kernel
def merge_sources(sources: Any, k_sources: Any, merged: Any, epoch_ns: Any) -> None:
    """Merge all sources, and let go those that are silent or others now."""
    for k in range(len(sources)):
        at = U64(k)
        if k_sources[at].state == _ABSENT:
            continue
        if not is_source(sources, at, k_sources):
            k_sources[at].state = _ABSENT
        elif sources[at].silent:
            k_sources[at].state = _WATCHED
        else:
            merge_source(sources, at, k_sources, merged, k_sources[at].received, epoch_ns)


# ------------------------------------------------------------------------------------------------- counts


@kernel
def merge_changing(
    reports: Any, marks: Any, tags: Any, flows: Any, states: Any, knobs: Any, k_flows: Any, k_more: Any,
    seen: Any, seen_hops: Any, epoch_ns: Any,
) -> None:  # fmt: skip
    """Merge the flows of a batch that the detector may change in ways that the program does not follow."""
    for k in range(len(reports)):
        i = U64(k)
        r = reports[i]
        if r.reason != 0 or not U64(r.carried) & FLOW_CARRIED:
            continue
        row, way = find_reported(tags, flows, reports, i, knobs)
        if way != NOT_FOUND:
            f = row * WAY + way
            if (k_flows[f].spoiled or U64(marks[r.packet]) & _UNUSUAL) and same_flow(flows, f, k_flows):
                merge_flow(row, way, tags, flows, states, k_flows, k_more, seen, seen_hops, epoch_ns)


@inlined
def refresh_port(ports: Any, at: Any, k_ports: Any) -> Any:
    """Give a row of the detector the latest value, which the program has, or make a spoiled one ABSENT;
    whether the program follows it.
    """
    if k_ports[at].spoiled:
        k_ports[at].state = _ABSENT
    keep_latest_of_port(ports, at, k_ports)
    return k_ports[at].state != _ABSENT


@kernel
def drop_spoiled(
    reports: Any, hops: Any, tags: Any, flows: Any, states: Any, ports: Any, knobs: Any, k_tags: Any,
    k_flows: Any, k_more: Any, k_ports: Any, seen: Any, seen_hops: Any, epoch_ns: Any, wanting: Any,
) -> Any:  # fmt: skip
    """Make rows ABSENT that the program no longer follows, of the flows of these reports; what it counted
    before is merged.  The others get the program's latest values back, which the detector has overwritten
    with those of reports that came before.  `wanting` (uint8 [n]) gets 1 for the reports of which it has not
    all rows; returns their number.
    """
    n = U64(0)
    for k in range(len(reports)):
        i = U64(k)
        r = reports[i]
        wanting[i] = U8(0)
        if r.reason != 0 or not U64(r.carried) & FLOW_CARRIED:
            continue
        row, way = find_reported(tags, flows, reports, i, knobs)
        if way == NOT_FOUND:
            continue
        f = row * WAY + way
        if k_flows[f].state != _ABSENT:
            same = same_flow(flows, f, k_flows)
            if same and k_flows[f].spoiled:
                merge_flow(row, way, tags, flows, states, k_flows, k_more, seen, seen_hops, epoch_ns)
            if not same or k_flows[f].spoiled:
                remove_flow(f, k_tags, k_flows)
            else:
                keep_latest(flows, f, states, k_flows, k_more)
        lacks = k_flows[f].state == _ABSENT
        for h in range(min(U64(flows[f].hop_count), U64(r.hop_count))):
            s = state_at(flows, f, U64(h))
            if s == NOT_FOUND:
                break
            state, hop = states[s], hops[U64(r.first_hop) + U64(h)]
            have = U64(hop.present & ~hop.null)
            if have & hop_kernel.UTILIZATION:
                lacks |= not refresh_port(ports, U64(state.port_slot), k_ports)
            if have & (hop_kernel.OCCUPANCY | hop_kernel.CONGESTION):
                lacks |= not refresh_port(ports, U64(state.queue_slot), k_ports)
            if have & hop_kernel.BUFFER:
                lacks |= not refresh_port(ports, U64(state.buffer_slot), k_ports)
        if lacks:
            wanting[i] = U8(1)
            n += U64(1)
    return n


@kernel
def merge_flows(
    start: Any, end: Any, tags: Any, flows: Any, states: Any, k_tags: Any, k_flows: Any, k_more: Any,
    seen: Any, seen_hops: Any, epoch_ns: Any,
) -> Any:  # fmt: skip
    """Add what the program counted to the flows of rows `start` to `end`, and let go those that are others
    now or whose stored values were pushed.  Returns the packets of flows that had left the detector's table.
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
            if not known or not same_flow(flows, f, k_flows):
                if here:
                    remove_flow(f, k_tags, k_flows)
                    lost += kept.packets - seen[f, 0]
                    seen[f, 0] = kept.packets
                continue
            merge_flow(row, way, tags, flows, states, k_flows, k_more, seen, seen_hops, epoch_ns)
            if U64(flows[f].pushed_ns) != seen[f, 3]:
                seen[f, 3] = flows[f].pushed_ns
                if here:
                    remove_flow(f, k_tags, k_flows)
    return lost


@kernel
def merge_ports(start: Any, end: Any, ports: Any, k_ports: Any, seen_ports: Any, epoch_ns: Any) -> None:
    """Add what the program counted to rows `start` to `end` of queues, buffers and ports, and let go those
    that are others now or whose stored values were pushed.
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
            keep_latest_of_port(ports, at, k_ports)
            row.last_ns = max(row.last_ns, kept.last_ns + epoch_ns)
            for slot in range(U64(2)):
                metric = kept.metrics[slot]
                if metric.highest > row.highest[slot]:
                    row.highest[slot] = metric.highest
                metric.highest = U32(0)
        if U64(row.pushed_ns) != seen_ports[at, 1]:
            seen_ports[at, 1] = row.pushed_ns
            kept.state = _ABSENT
