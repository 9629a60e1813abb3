"""Ends the comparison of rows that an unusual report may have changed, or that are spoiled."""

from ...base.kernels.jit import U8, U32, U64, inlined, kernel
from ...detect.flows import hop_kernel
from ...detect.flows.event_kernel import FLOW_CARRIED, NOT_FOUND
from ...detect.flows.flow_cache_kernel import WAY
from ...detect.flows.slow_path_kernel import OWN_HOP, own_node
from ..layout import Mark, State
from . import rows_kernel
from .merge_kernel import keep_latest, keep_latest_of_port, merge_flow

_ABSENT = U32(State.ABSENT)
_UNUSUAL = U64(Mark.UNUSUAL)


@kernel
def forget(reports, hops, marks, tags, flows, ports, knobs, k_tags, k_flows, k_ports):
    """Stop the program from comparing rows that unusual reports may have changed."""
    for k in range(len(reports)):
        i = U64(k)
        r = reports[i]
        if not U64(marks[r.packet]) & _UNUSUAL or r.reason != 0:
            continue
        if U64(r.carried) & FLOW_CARRIED:
            row, way = rows_kernel.find_reported(tags, flows, reports, i, knobs)
            if way != NOT_FOUND:
                rows_kernel.remove_flow(row * WAY + way, k_tags, k_flows)
        own = own_node(reports, i, hops)
        last = U64(r.hop_count) + U64(U64(r.carried) & OWN_HOP != U64(0))
        for h in range(last):
            hop = hops[U64(r.first_hop) + U64(h)]
            have = U64(hop.present & ~hop.null)
            node = U64(hop.node_id) if have & U64(1) else own
            for which in range(4):
                key = rows_kernel.key_of_value(hop, have, node, which, knobs)
                at = rows_kernel.locate_port(ports, key, knobs) if key else NOT_FOUND
                if at != NOT_FOUND:
                    k_ports[at].state = _ABSENT


@inlined
def refresh_port(ports, at, k_ports):
    """Copy the program's latest value to a row of the detector; make the program's row ABSENT if it is
    spoiled or has another key now. Returns whether the program follows the row.
    """
    if k_ports[at].spoiled or k_ports[at].key != ports[at].key:
        k_ports[at].state = _ABSENT
    keep_latest_of_port(ports, at, k_ports)
    return k_ports[at].state != _ABSENT


@kernel
def drop_spoiled(
    reports, hops, tags, flows, states, ports, knobs, k_tags, k_flows, k_more, k_ports, seen, seen_hops,
    epoch_ns, wanting,
):  # fmt: skip
    """For the flows of these reports, make rows ABSENT that the program can no longer follow, and merge their
    counts. Other rows of the detector get the program's latest values back, since the detector has
    overwritten them with values of older reports. `wanting` (uint8 [n]) gets 1 for each report of which the
    program lacks rows; returns the number of these reports.
    """
    n = U64(0)
    for k in range(len(reports)):
        i = U64(k)
        r = reports[i]
        wanting[i] = U8(0)
        if r.reason != 0 or not U64(r.carried) & FLOW_CARRIED:
            continue
        row, way = rows_kernel.find_reported(tags, flows, reports, i, knobs)
        if way == NOT_FOUND:
            continue
        f = row * WAY + way
        if k_flows[f].state != _ABSENT:
            same = rows_kernel.same_flow(flows, f, k_flows)
            if same and k_flows[f].spoiled:
                merge_flow(row, way, tags, flows, states, k_flows, k_more, seen, seen_hops, epoch_ns)
            if not same or k_flows[f].spoiled:
                rows_kernel.remove_flow(f, k_tags, k_flows)
            else:
                keep_latest(flows, f, states, k_flows, k_more)
        lacks = k_flows[f].state == _ABSENT
        for h in range(min(U64(flows[f].hop_count), U64(r.hop_count))):
            s = rows_kernel.state_at(flows, f, U64(h))
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
