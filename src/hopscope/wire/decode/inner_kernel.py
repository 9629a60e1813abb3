"""The inner packet of a report, or a captured packet: its flow and its INT."""

from ...base.kernels.jit import U64, be16, inlined, kernel
from .. import layout, rules
from ..headers import packet_kernel
from ..headers.tunnel_kernel import FOUR, FRAME, NOTHING, SIX, TUNNEL_ROLES, by_ethertype
from ..reasons import Place, Reason
from ..records import Carried, Flag, Kind
from ..telemetry.int_kernel import find_shim, read_int, udp_carrier
from ..telemetry.metadata_kernel import NODE, ONES_32, OWN_2_0
from ..telemetry.stack_kernel import read_report_metadata
from ..telemetry.variant_kernel import OVER_INSERTED, OVER_TCP, TCP, UDP
from . import trail_kernel as trail
from . import walk_kernel
from .usual_kernel import OTHER_FORM, read_six, read_usual

FIRST_BYTE, UDP_ROLE = U64(rules.FIRST_BYTE), U64(rules.UDP_ROLE)
TCP_PORTS, UNMARKED = U64(rules.TCP_PORTS), U64(rules.UNMARKED)
CUT_HEADER, CUT_METADATA = (
    packet_kernel.code(Reason.TRUNCATED, Place.REPORT_HEADER),
    packet_kernel.code(Reason.TRUNCATED, Place.REPORT_METADATA),
)
DROPPED, CONGESTED, TRACKED, INTERMEDIATE = (U64(flag) for flag in tuple(Flag)[:4])
KIND_INT, KIND_DROP, KIND_QUEUE, KIND_INNER = (U64(kind) for kind in Kind)
HAS_FLOW, HAS_PORTS = U64(Carried.FLOW), U64(Carried.PORTS)
TLV_TYPE, TLV_LENGTH = (
    packet_kernel.word(layout.TLV_2_0, "type"),
    packet_kernel.word(layout.TLV_2_0, "length"),
)


@kernel
def reject_int(row, why, at, origin, certain, plans):
    """Reject the report, unless the supposed INT may be ordinary traffic with this DSCP, which is counted;
    returns whether it was rejected. `certain`: a port announces INT.
    """
    if (
        U64(row.flags) & TRACKED
        or row.int_version
        or why == walk_kernel.CUT_INT
        or (certain and row.version == 0 and walk_kernel.is_of_int(why))
    ):
        packet_kernel.refuse(row, why, at, origin)
        return True
    if walk_kernel.is_of_int(why):
        plans[U64(trail.UNKNOWN)] += U64(1)
    return False


@inlined
def plain(buf, origin, begin, end, type_, row, table, plans, hops, first, unmarked):
    """Read a packet of the usual form: IPv4, or IPv6 without extension headers, TCP or UDP, and INT that is
    announced by DSCP or port, or (`unmarked`) by the dialect. Returns how many hops were written from
    `first`; OTHER_FORM: `walk` must read it.
    """
    tags, vlan = packet_kernel.NONE, packet_kernel.NONE
    at, version = begin, packet_kernel.NONE
    if type_ == FRAME:
        why, at, ethertype, tags, vlan = packet_kernel.ethernet(buf, begin, end, end)
        if why:
            packet_kernel.refuse(row, why | walk_kernel.INNER_ETHERNET, at, origin)
            return packet_kernel.NONE
        version = packet_kernel.ip_version(ethertype)
        if version == packet_kernel.NONE:
            if by_ethertype(ethertype) != NOTHING:
                return OTHER_FORM
            return packet_kernel.NONE
    elif type_ == FOUR:
        version = U64(4)
    elif type_ == SIX:
        version = U64(6)
    else:
        return packet_kernel.NONE
    start = at
    if version == U64(4):
        why, at, protocol, dscp, length, part = packet_kernel.ipv4(
            buf, at, end, end, table[walk_kernel.ANY_IP_LENGTH]
        )
    else:
        why, at, protocol, dscp, length, part = packet_kernel.ipv6(buf, at, end, end)
        if not why and packet_kernel.get(buf, start, packet_kernel.IPV6_NEXT) != protocol:
            return OTHER_FORM
    if why:
        packet_kernel.refuse(row, why | walk_kernel.INNER_IP, at, origin)
        return packet_kernel.NONE
    if protocol != TCP and protocol != UDP:
        return OTHER_FORM
    walk_kernel.set_flow(buf, start, version, protocol, length, row)
    row.carried = U64(row.carried) | HAS_FLOW
    if tags:
        row.layers = walk_kernel.layers_of(tags)
        row.vlan = vlan
    if part != packet_kernel.NONE:
        packet_kernel.refuse(row, walk_kernel.INNER_FRAGMENT, start, origin)
        return packet_kernel.NONE
    limit = min(end, start + length)
    why = packet_kernel.lacks(at, U64(4), end, limit)
    if why:
        packet_kernel.refuse(row, why | walk_kernel.INNER_L4, at, origin)
        return packet_kernel.NONE
    ports = at
    dport = be16(buf, at + U64(2))
    row.sport = be16(buf, at)
    row.dport = dport
    row.carried = U64(row.carried) | HAS_PORTS
    role = U64(table[UDP_ROLE + dport]) if protocol == UDP else packet_kernel.NONE
    if unmarked and protocol == TCP and table[TCP_PORTS]:
        role = U64(table[UDP_ROLE + dport]) & walk_kernel.ROLE_INT
    if role & TUNNEL_ROLES:
        return OTHER_FORM
    count, rejected = packet_kernel.NONE, False
    announced = (
        table[walk_kernel.INT_DSCP + dscp] != 0 or role & walk_kernel.ROLES_OF_INT != packet_kernel.NONE
    )
    if unmarked:
        announced = walk_kernel.is_int(buf, at, end, limit, protocol, announced, row, table)
    if announced:
        why, at = find_shim(buf, at, end, limit, protocol, table)
        if unmarked and not why:
            at = walk_kernel.after_marker(buf, at, limit, table)
        restored = False
        if not why:
            carrier = OVER_TCP
            if protocol == UDP:
                carrier = udp_carrier(buf, at, limit, role, table)
            why, at, count = read_int(
                buf, origin, at, end, limit, protocol, carrier, row, table, plans, hops, first
            )
            if not why:
                if U64(row.int_mode) != walk_kernel.MD:
                    return OTHER_FORM
                restored = U64(row.npt) == U64(2) or carrier == OVER_INSERTED
                if carrier == OVER_INSERTED:
                    why, _ = walk_kernel.original_l4(buf, origin, at, end, limit, row, table)
        if not why:
            if restored or U64(row.dport) != dport:
                if walk_kernel.leads_on(row, table):
                    return OTHER_FORM
            return count
        certain = role & walk_kernel.ROLE_INT != packet_kernel.NONE
        rejected = reject_int(row, why, at, origin, certain, plans)
    if not rejected and walk_kernel.wants_id(row):
        row.packet_id = walk_kernel.packet_id(buf, start, version, length, ports + U64(4), limit)
    return packet_kernel.NONE


@kernel
def plain_unmarked(buf, origin, begin, end, type_, row, table, plans, hops, first):
    """`plain` for a dialect whose INT has other marks; separate, since checking these makes usual packets 4 %
    slower.
    """
    return plain(buf, origin, begin, end, type_, row, table, plans, hops, first, True)


@inlined
def inner(buf, origin, at, end, type_, row, table, plans, hops, first):
    """Read the inner packet (InType 0, 2-5) into the row; returns how many hops were written from `first`."""
    count = read_usual(buf, origin, at, end, type_, row, table, plans, hops, first)
    if count == OTHER_FORM:
        count = read_six(buf, origin, at, end, type_, row, table, plans, hops, first)
    if count != OTHER_FORM:
        return count
    if table[UNMARKED]:
        count = plain_unmarked(buf, origin, at, end, type_, row, table, plans, hops, first)
    else:
        count = plain(buf, origin, at, end, type_, row, table, plans, hops, first, False)
    if count == OTHER_FORM:
        count = walk_kernel.walk(
            buf,
            origin,
            at,
            end,
            type_,
            packet_kernel.NONE,
            packet_kernel.NONE,
            row,
            table,
            plans,
            hops,
            first,
        )
    return count


@inlined
def packet(buf, origin, end, link, row, table, plans, hops, first, trails, column):
    """Read a captured packet into a row of zeros: (whether it has INT, IOAM or IFA, next free row of `hops`).
    Its trail goes into a column of `trails`, if there are columns.
    """
    plans[U64(trail.COUNT)] = U64(0)  # `walk` counts the headers around telemetry, if trails are kept
    if link == packet_kernel.ETHERNET:
        count = inner(buf, origin, origin, end, FRAME, row, table, plans, hops, first)
    else:
        cut, at, type_, tags, vlan = packet_kernel.other_link(buf, origin, end, link)
        if cut:
            return False, first
        here = by_ethertype(type_)
        count = walk_kernel.walk(
            buf, origin, at, end, here, walk_kernel.layers_of(tags), vlan, row, table, plans, hops, first
        )
    row.first_hop = first
    row.hop_count = count
    if plans[U64(trail.COUNT)]:
        trail.keep(row, plans, trails, column)
    place = U64(row.place)
    damaged = walk_kernel.is_of_int(place)
    if row.int_version or damaged or U64(row.reason) == walk_kernel.TOO_MANY_LAYERS >> U64(8):
        return True, first + count
    return False, first


@kernel
def find_tlv(buf, at, end):
    """(code, offset, InType, end) of the first packet among the TLVs of a report."""
    type_, start, stop = packet_kernel.NONE, at, end
    while at < end:
        if at + U64(4) > end:
            return CUT_METADATA, at, packet_kernel.NONE, end
        size = packet_kernel.get(buf, at, TLV_LENGTH) << U64(2)
        if at + U64(4) + size > end:
            return CUT_METADATA, at, packet_kernel.NONE, end
        kind = packet_kernel.get(buf, at, TLV_TYPE)
        if type_ == packet_kernel.NONE and kind >= U64(1) and kind <= U64(3):
            type_, start, stop = kind + U64(2), at + U64(4), at + U64(4) + size
        at += U64(4) + size
    return packet_kernel.NONE, start, type_, stop


@inlined
def finish(buf, origin, at, end, type_, own, kind, row, table, plans, hops, first):
    """Read the inner packet, then the report's metadata (at `own`; 0: none) into the row after its hops.

    Returns the next free row of `hops`.
    """
    count = inner(buf, origin, at, end, type_, row, table, plans, hops, first)
    row.first_hop = first
    row.hop_count = count
    if own == packet_kernel.NONE:
        return first + count
    hop = hops[first + count]
    read_report_metadata(buf, own, plans, kind, table, kind == U64(OWN_2_0), hop)
    node = U64(row.node_id)
    hop.node_id = node
    hop.present = U64(hop.present) | NODE
    hop.null = U64(hop.null) | (NODE if node == ONES_32 else packet_kernel.NONE)
    return first + count + U64(1)
