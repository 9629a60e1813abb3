"""Finds the rows of the detector and of the program that correspond, and the rows that a report is about."""

from ...base.kernels.jit import U32, U64, inlined, kernel
from ...base.keyed_kernel import spread, weigh
from ...detect.flows import hop_kernel
from ...detect.flows.event_kernel import NO_PORT, NOT_FOUND, hash_report, pack_l4
from ...detect.flows.flow_cache_kernel import INLINE, POOL, ROW_WORDS, WAY, find_flow, hop_at, tag_of
from ...detect.flows.port_table_kernel import port_key
from ..layout import State

_ABSENT = U32(State.ABSENT)
_MANY = 128


@inlined
def state_at(flows, f, h):
    """Index of the state of hop h of flow f, or NOT_FOUND."""
    return hop_at(f, h, U64(flows[f].pool_block), U64(len(flows)) * INLINE)


@inlined
def kept_hop(kept, k_more, h):
    """Hop h of a flow in the program's tables."""
    if h < INLINE:
        return kept.hops[h]
    return k_more[U64(kept.block) * POOL + (h - INLINE)]


@inlined
def common_hops(flow, kept):
    """Number of hops at the same places in a flow of the detector and in that of the program."""
    count = min(U64(flow.hop_count), U64(kept.hop_count))
    if count > INLINE and U64(flow.pool_block) != U64(kept.block) + U64(1):
        return INLINE
    return count


@inlined
def same_flow(flows, f, k_flows):
    """Whether the program has flow f in the same row."""
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
def find_reported(tags, flows, reports, i, knobs):
    """(row, way) of the flow of report i in the detector's table; way NOT_FOUND if the table does not have
    it.
    """
    hashed = hash_report(reports, i, knobs)
    row = hashed & (U64(len(tags)) // ROW_WORDS - U64(1))
    return row, find_flow(tags, flows, row, tag_of(hashed), reports, i)


@inlined
def remove_flow(f, k_tags, k_flows):
    """Stop the program from comparing this flow."""
    k_flows[f].state = _ABSENT
    row = f // WAY
    k_tags[row].ways[f - row * WAY] = U32(0)


@kernel
def locate_port(ports, key, knobs):
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
def key_of_value(hop, have, node, which, knobs):
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
