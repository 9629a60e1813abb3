"""The walk through a packet's encapsulations to its INT, IOAM or IFA.

`inner_kernel` reads most packets itself; all others are read here.
"""

from ...base.kernels.jit import U64, be16, be32, inlined, kernel, mix64
from .. import layout, rules
from ..headers import packet_kernel as packet
from ..headers import tunnel_kernel as tunnel
from ..reasons import Place, Reason
from ..records import Carried, Flag, Layer, Mode
from ..telemetry import variant_kernel as variant
from ..telemetry.ifa_kernel import is_ifa, read_ifa
from ..telemetry.int_kernel import ROLE_INSERTED, find_shim, read_int, udp_carrier
from ..telemetry.ioam_kernel import is_in, read_extensions
from . import trail_kernel as trail

INNER_ETHERNET, INNER_IP, INNER_L4 = U64(Place.INNER_ETHERNET), U64(Place.INNER_IP), U64(Place.INNER_L4)
INNER_FRAGMENT = packet.code(Reason.FRAGMENT, Place.INNER_IP)
CUT_INT = packet.code(Reason.TRUNCATED, Place.INT_HEADER)
TOO_MANY_LAYERS = packet.code(Reason.TOO_MANY_LAYERS, Place.TUNNEL)
INT_SHIM, TUNNEL, IOAM_DATA = U64(Place.INT_SHIM), U64(Place.TUNNEL), U64(Place.IOAM_DATA)
IFA = U64(Place.IFA)
DROPPED, TRACKED = U64(Flag.DROPPED), U64(Flag.TRACKED)
HAS_FLOW, HAS_PORTS, HAS_OWN = U64(Carried.FLOW), U64(Carried.PORTS), U64(Carried.OWN_HOP)
VLAN, QINQ, IP_IN_IP = U64(Layer.VLAN), U64(Layer.QINQ), U64(Layer.IP_IN_IP)
MPLS, GRE, ERSPAN, VXLAN = U64(Layer.MPLS), U64(Layer.GRE), U64(Layer.ERSPAN), U64(Layer.VXLAN)
VXLAN_GPE, GENEVE, GTP_U = U64(Layer.VXLAN_GPE), U64(Layer.GENEVE), U64(Layer.GTP_U)
MAX_LAYERS = U64(layout.MAX_LAYERS)
INT_DSCP, ASSUME_INT, TCP_PORTS = U64(rules.INT_DSCP), U64(rules.ASSUME_INT), U64(rules.TCP_PORTS)
MARKER, ANY_IP_LENGTH = U64(rules.MARKER), U64(rules.ANY_IP_LENGTH)
ROLE_INT, MD, IOAM_OR_IFA = U64(rules.ROLE_INT), U64(Mode.MD), U64(Mode.IOAM_PREALLOCATED)
IFA_PROTOCOL = U64(rules.IFA_PROTOCOL)
ROLES_OF_INT = ROLE_INT | ROLE_INSERTED
GRE_NEXT, GPE_SHIM_NEXT = (
    packet.word(layout.SHIM_GRE_2_0, "next_protocol"),
    packet.word(layout.SHIM_GPE_2_0, "next_protocol"),
)
assert layout.SHIM_GPE_OLD.word("next_protocol") == layout.SHIM_GPE_2_0.word("next_protocol")
IDENTIFICATION, FLOW_LABEL = (
    packet.word(layout.IPV4, "identification"),
    packet.word(layout.IPV6, "flow_label"),
)
ID_BYTES = U64(12)
FAR = U64(1 << 62)


# ------------------------------------------------------------------------------------------------------- flow


@inlined
def set_flow(buf, start, version, protocol, length, row):
    """Write the flow of an IP header into the report's row."""
    row.src_hi, row.src_lo = packet.address(buf, start, version, packet.IPV4_SOURCE, packet.IPV6_SOURCE)
    row.dst_hi, row.dst_lo = packet.address(
        buf, start, version, packet.IPV4_DESTINATION, packet.IPV6_DESTINATION
    )
    row.proto = protocol
    row.ip_version = version
    row.inner_length = length
    row.ttl = buf[start + (packet.IPV4_TTL if version == U64(4) else packet.IPV6_TTL)]


@inlined
def layers_of(tags):
    """The layer for this number of VLAN tags."""
    if tags == packet.NONE:
        return packet.NONE
    return VLAN if tags == U64(1) else QINQ


@kernel
def layer_of(here):
    """The layer of a tunnel."""
    if here == tunnel.LABELS:
        return MPLS
    if here == tunnel.IN_GRE:
        return GRE
    if here == tunnel.IN_VXLAN:
        return VXLAN
    if here == tunnel.IN_GPE:
        return VXLAN_GPE
    return GTP_U if here == tunnel.IN_GTP_U else ERSPAN


@kernel
def packet_id(buf, at, version, length, after_ports, limit):
    """A number, never 0, that distinguishes a packet from others of its flow, computed from the IP header at
    `at` and up to 12 bytes at `after_ports` (0: no ports were read).
    """
    number = packet.get(buf, at, FLOW_LABEL) if version == U64(6) else packet.get(buf, at, IDENTIFICATION)
    mixed = mix64((number << U64(32)) | length)
    if after_ports:
        where = after_ports
        while where < after_ports + ID_BYTES and where + U64(4) <= limit:
            mixed = mix64(mixed ^ be32(buf, where))
            where += U64(4)
    mixed &= U64(0xFFFFFFFF)
    return mixed if mixed else U64(1)


@inlined
def wants_id(row):
    """Whether the row may be a postcard; postcards are joined by the id of their packet."""
    if row.packet_id:
        return False
    own = U64(row.carried) & HAS_OWN != packet.NONE and row.int_mode == 0
    mode = U64(row.int_mode)
    return own or (row.version == 0 and mode != MD) or mode == variant.MX


# ----------------------------------------------------------------------------------------- INT in TCP and UDP


@inlined
def names_int(protocol, dport, table):
    """Whether a TCP or UDP port is used only for INT."""
    return U64(table[tunnel.UDP_ROLE + dport]) & ROLE_INT != packet.NONE and (
        protocol == variant.UDP or table[TCP_PORTS] != 0
    )


@inlined
def announced_by_port(protocol, dport, table):
    """Whether a TCP or UDP port announces INT."""
    role = U64(table[tunnel.UDP_ROLE + dport])
    if protocol == variant.UDP:
        return role & ROLES_OF_INT != packet.NONE
    return table[TCP_PORTS] != 0 and role & ROLE_INT != packet.NONE


@kernel
def marker_size(buf, at, limit, table):
    """Size of the probe marker at `at` in bytes; 0: there is none."""
    size = U64(table[MARKER])
    if at + size > limit:
        return packet.NONE
    for i in range(size):
        if buf[at + U64(i)] != table[MARKER + U64(1) + U64(i)]:
            return packet.NONE
    return size


@inlined
def is_assumed(row, table):
    """Whether, in this dialect, all packets in such reports have INT."""
    return table[ASSUME_INT] and row.version and U64(row.flags) & DROPPED == packet.NONE


@kernel
def is_int(buf, at, end, limit, protocol, announced, row, table):
    """Whether INT follows the TCP or UDP header at `at`. If it is not `announced`, only the dialect or a
    probe marker may indicate it.
    """
    if announced or is_assumed(row, table):
        return True
    why, shim = find_shim(buf, at, end, limit, protocol, table)
    return not why and after_marker(buf, shim, limit, table) != shim


@kernel
def after_marker(buf, at, limit, table):
    """Offset of the shim: at `at`, or after the probe marker at `at`."""
    return at + marker_size(buf, at, limit, table)


@kernel
def over_l4(buf, origin, at, end, limit, protocol, dscp, dport, tentative, row, table, plans, hops, first):
    """(code, offset, hops, whether there is INT) after the TCP or UDP header at `at`.

    `tentative`: if there is no INT, a tunnel follows.
    """
    announced = table[INT_DSCP + dscp] != 0 or announced_by_port(protocol, dport, table)
    if not is_int(buf, at, end, limit, protocol, announced, row, table):
        return packet.NONE, at, packet.NONE, False
    why, where = find_shim(buf, at, end, limit, protocol, table)
    if not why:
        where = after_marker(buf, where, limit, table)
        carrier = variant.OVER_TCP
        if protocol == variant.UDP:
            carrier = udp_carrier(buf, where, limit, U64(table[tunnel.UDP_ROLE + dport]), table)
        why, where, count = read_int(
            buf, origin, where, end, limit, protocol, carrier, row, table, plans, hops, first
        )
        if not why:
            return packet.NONE, where, count, True
    if not row.int_version and tentative:
        return packet.NONE, at, packet.NONE, False
    return why, where, packet.NONE, False


@kernel
def original_l4(buf, origin, at, end, limit, row, table):
    """(code, protocol) of the packet after the UDP header that was inserted with INT."""
    protocol = variant.TCP
    if U64(row.npt) == U64(2):
        shim = origin + U64(row.int_at) - U64(4)
        protocol = (be16(buf, shim + U64(2)) >> U64(table[variant.NPT_SHIFTS + U64(2)])) & U64(0xFF)
    return variant.restore_l4(buf, at, protocol, end, limit, row), protocol


@kernel
def after_shim(buf, shim, carrier, table):
    """The header that a shim over GRE or VXLAN-GPE announces."""
    if carrier == variant.OVER_GRE:
        return tunnel.by_ethertype(packet.get(buf, shim, GRE_NEXT))
    return U64(table[tunnel.GPE_NEXT + packet.get(buf, shim, GPE_SHIM_NEXT)])


@kernel
def leads_on(row, table):
    """Whether a tunnel follows INT over TCP or UDP, according to the packet's own port and protocol."""
    protocol = U64(row.proto)
    following = tunnel.by_protocol(protocol)
    if following == tunnel.L4 and protocol == variant.UDP:
        return tunnel.by_port(U64(row.dport), table) != tunnel.NOTHING
    return following != tunnel.L4 and following != tunnel.NOTHING


# ------------------------------------------------------------------------------------------------------- walk


@kernel
def is_of_int(why):
    """Whether a code, or a place, is one of INT, IOAM or IFA."""
    place = why & U64(0xFF)
    return (place >= INT_SHIM and place <= IOAM_DATA and place != TUNNEL) or place == IFA


@kernel
def matters(why, complete, traced, inside, announced, certain, row):
    """Whether damage makes the report rejected; `announced`: the damage is before INT that the packet
    announces; `certain`: INT is announced by a port or a tunnel, which is more than a DSCP.
    """
    if complete or (traced and not row.int_version):
        return False
    if row.int_version or why == TOO_MANY_LAYERS or not inside:
        return True
    if certain and row.version == 0 and is_of_int(why):
        return True
    announced = announced or is_of_int(why)
    return why == CUT_INT or (announced and U64(row.flags) & TRACKED != packet.NONE)


@kernel
def walk(buf, origin, at, end, here, layers, vlan, row, table, plans, hops, first):
    """Read the packet at `at`, where `here` begins (`rules.Next`), into the row; returns how many hops were
    written from `first`. `layers` and `vlan`: layers and VLAN id around it. The trail of a captured packet
    is written to the working memory.
    """
    limit, depth, tunnel_id, carrier = end, packet.NONE, packet.NONE, packet.NONE
    packet_end, headers = FAR, packet.NONE
    noting = plans[U64(trail.KEEPS)] != packet.NONE and row.version == 0
    ip_at, version, protocol, dscp, length, after_ports = (
        packet.NONE,
        packet.NONE,
        packet.NONE,
        packet.NONE,
        packet.NONE,
        packet.NONE,
    )
    trace_at, trace_end = packet.NONE, packet.NONE
    inside, complete, announced, certain = False, False, False, False
    why, count = packet.NONE, packet.NONE
    while here != tunnel.NOTHING and not why:
        if noting and not complete and here != tunnel.FRAME and here != tunnel.SHIM:
            if headers < U64(trail.MAX_HEADERS):
                left = packet_end - at if at < packet_end else packet.NONE
                one = trail.header(here, protocol, at - origin, left)
                plans[U64(trail.FIRST) + headers] = one
            headers += U64(1)
        if here == tunnel.FOUR or here == tunnel.SIX:
            if depth == MAX_LAYERS:
                why = TOO_MANY_LAYERS
                continue
            start = at
            if here == tunnel.FOUR:
                why, at, number, code_point, size, part = packet.ipv4(
                    buf, at, end, limit, table[ANY_IP_LENGTH]
                )
            else:
                why, at, number, code_point, size, part = packet.ipv6(buf, at, end, limit)
            if why:
                why |= INNER_IP
                continue
            version = U64(4) if here == tunnel.FOUR else U64(6)
            ip_at, protocol, dscp, length, after_ports = start, number, code_point, size, packet.NONE
            depth += U64(1)
            packet_end = min(packet_end, start + length)
            limit = min(end, packet_end)
            set_flow(buf, start, version, protocol, length, row)
            row.sport = packet.NONE
            row.dport = packet.NONE
            row.layers = layers
            row.vlan = vlan
            row.tunnel_id = tunnel_id
            row.carried = (U64(row.carried) & variant.NO_PORTS) | HAS_FLOW
            if here == tunnel.SIX and trace_end == packet.NONE and is_in(buf, start, at):
                trace_at, trace_end = start, at
            if part != packet.NONE:
                why, at = INNER_FRAGMENT, start
                continue
            here = tunnel.by_protocol(protocol)
            if protocol and protocol == U64(table[IFA_PROTOCOL]) and not complete:
                here = tunnel.IN_IFA if is_ifa(buf, at, limit) else tunnel.NOTHING
            if here == tunnel.FOUR or here == tunnel.SIX:
                layers |= IP_IN_IP
            inside = inside or here != tunnel.L4
        elif here == tunnel.L4:
            why = packet.lacks(at, U64(4), end, limit)
            if why:
                why |= INNER_L4
                continue
            dport = be16(buf, at + U64(2))
            row.sport = be16(buf, at)
            row.dport = dport
            row.carried = U64(row.carried) | HAS_PORTS
            after_ports = at + U64(4)
            inside = True
            here = tunnel.by_port(dport, table) if protocol == variant.UDP else tunnel.NOTHING
            found = False
            if not complete:
                why, at, count, found = over_l4(
                    buf, origin, at, end, limit, protocol, dscp, dport, here != tunnel.NOTHING, row, table,
                    plans, hops, first,
                )  # fmt: skip
                announced = why != packet.NONE
                certain = announced and names_int(protocol, dport, table)
            if found:
                if U64(row.carrier) == variant.OVER_INSERTED or U64(row.npt) == U64(2):
                    why, protocol = original_l4(buf, origin, at, end, limit, row, table)
                    if why:
                        count = packet.NONE
                        continue
                    here = tunnel.by_protocol(protocol)
                    if here == tunnel.FOUR or here == tunnel.SIX:
                        layers |= IP_IN_IP
                else:
                    here = (
                        tunnel.by_port(U64(row.dport), table) if protocol == variant.UDP else tunnel.NOTHING
                    )
                complete = True
            elif here != tunnel.NOTHING and not why:
                why = packet.lacks(at, U64(8), end, limit)
                if why:
                    why |= INNER_L4
                    continue
                at += U64(8)
        elif here == tunnel.FRAME:
            why, at, type_, tags, last = packet.ethernet(buf, at, end, limit)
            if why:
                why |= INNER_ETHERNET
                continue
            if tags:
                layers |= layers_of(tags)
                vlan = last
            here = tunnel.by_ethertype(type_)
        elif here == tunnel.SHIM:
            here = tunnel.NOTHING
            if complete:
                continue
            shim = at
            why, at, count = read_int(
                buf, origin, shim, end, limit, protocol, carrier, row, table, plans, hops, first
            )
            certain = why != packet.NONE
            if not why:
                complete = True
                here = after_shim(buf, shim, carrier, table)
        elif here == tunnel.IN_GENEVE:
            why, at, here, number, has_id, option, option_end = tunnel.geneve(buf, at, end, limit, table)
            if why:
                continue
            layers |= GENEVE
            tunnel_id = number if has_id else tunnel_id
            if option_end and not complete:
                problem, where, count = read_int(
                    buf, origin, option, end, min(limit, option_end), protocol, variant.OVER_GENEVE, row,
                    table, plans, hops, first,
                )  # fmt: skip
                if not problem:
                    complete = True
                elif row.version == 0 or row.int_version or U64(row.flags) & TRACKED:
                    why, at, certain = problem, where, True
        elif here == tunnel.IN_IFA:
            why, at, count = read_ifa(buf, origin, at, end, limit, row, hops, first)
            certain = why != packet.NONE
            if not why:
                complete = True
                protocol = U64(row.proto)
                here = tunnel.by_port(U64(row.dport), table) if protocol == variant.UDP else tunnel.NOTHING
        else:
            layer = layer_of(here)
            carrier = variant.OVER_GRE if here == tunnel.IN_GRE else variant.OVER_GPE
            why, at, here, number, has_id = tunnel.read_tunnel(buf, at, end, limit, here, table)
            if not why:
                mirrors = here == tunnel.MIRROR_1 or here == tunnel.MIRROR_2 or here == tunnel.MIRROR_3
                layers |= ERSPAN if mirrors else layer
                tunnel_id = number if has_id else tunnel_id
    if why:
        if matters(why, complete, trace_end != packet.NONE, inside, announced, certain, row):
            packet.refuse(row, why, at, origin)
            return packet.NONE
        if not complete:
            count = packet.NONE
            if announced and is_of_int(why):
                plans[U64(trail.UNKNOWN)] += U64(1)
    if trace_end and not row.int_version:
        why, count = read_extensions(buf, origin, trace_at, trace_end, row, hops, first)
        if why:
            return packet.NONE
    if row.int_mode == MD or row.int_mode >= IOAM_OR_IFA:
        plans[U64(trail.COUNT)] = headers
    if depth and wants_id(row):
        row.packet_id = packet_id(buf, ip_at, version, length, after_ports, limit)
    return count
