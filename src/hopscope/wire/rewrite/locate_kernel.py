"""The way into a packet with where its headers are, for kernels that take INT out of packets or put it in."""

from __future__ import annotations

from typing import Any

from ...base.jit import U64, be16, inlined, kernel
from ..decode.walk_kernel import ANY_IP_LENGTH, marker_size
from ..headers import packet_kernel as packet
from ..headers import tunnel_kernel as tunnel
from ..headers.checksum_kernel import addresses, folded, pseudo, total_of
from ..headers.put_kernel import fold
from ..telemetry.int_kernel import FIXED_TCP, TCP_WORDS
from ..telemetry.variant_kernel import OVER_GENEVE, TCP, UDP, is_l4

FAR = U64(1 << 62)
WORDS = 5
"""Numbers that are kept of a header: kind (`rules.Next`), offset, where its packet ends by its IP header
(perhaps behind the frame), offset of the IP header that is this one or around it, IP protocol.
"""
MOST = 24
TRAIL = WORDS * MOST
"""Numbers that are kept of a way: an IP header, L4 and a tunnel behind it, six times at most, and room."""


@inlined
def note(trail: Any, count: Any, kind: Any, at: Any, far: Any, ip: Any, protocol: Any) -> Any:
    """Remember a header; returns how many there are."""
    if count < U64(MOST):
        place = count * U64(WORDS)
        trail[place] = kind
        trail[place + U64(1)] = at
        trail[place + U64(2)] = far
        trail[place + U64(3)] = ip
        trail[place + U64(4)] = protocol
    return count + U64(1)


@kernel
def find_way(
    buf: Any, origin: Any, end: Any, link: Any, shim: Any, carrier: Any, table: Any, trail: Any
) -> Any:
    """(headers on the way to the INT whose shim is at `shim`, steps, where what goes begins, end by IP); no
    headers where the way does not lead there.
    """
    if link == packet.ETHERNET:
        why, at, type_, _, _ = packet.ethernet(buf, origin, end, end)
    else:
        why, at, type_, _, _ = packet.other_link(buf, origin, end, link)
    here = tunnel.NOTHING if why else tunnel.by_ethertype(type_)
    limit, far, ip, protocol = end, FAR, packet.NONE, packet.NONE
    count, steps = packet.NONE, packet.NONE
    while here != tunnel.NOTHING and count < U64(MOST):
        steps += U64(1)
        if here == tunnel.FOUR or here == tunnel.SIX:
            ip = at
            if here == tunnel.FOUR:
                why, at, protocol, _, size, part = packet.ipv4(buf, at, end, limit, table[ANY_IP_LENGTH])
            else:
                why, at, protocol, _, size, part = packet.ipv6(buf, at, end, limit)
            if why or part:
                return packet.NONE, steps, packet.NONE, packet.NONE
            limit, far = min(limit, ip + size), min(far, ip + size)
            count = note(trail, count, here, ip, far, ip, protocol)
            here = tunnel.by_protocol(protocol)
        elif here == tunnel.L4:
            if at + U64(8) > limit or (protocol == TCP and at + U64(20) > limit):
                return packet.NONE, steps, packet.NONE, packet.NONE
            count = note(trail, count, here, at, far, ip, protocol)
            size = U64(8)
            if protocol == TCP:
                size = U64(20) if table[FIXED_TCP] else packet.get(buf, at, TCP_WORDS) << U64(2)
            if is_l4(carrier) and at + size + marker_size(buf, at + size, limit, table) == shim:
                return count, steps, at + size, limit
            here = tunnel.by_port(be16(buf, at + U64(2)), table) if protocol == UDP else tunnel.NOTHING
            at += size
        elif here == tunnel.FRAME:
            why, at, type_, _, _ = packet.ethernet(buf, at, end, limit)
            here = tunnel.NOTHING if why else tunnel.by_ethertype(type_)
        elif here == tunnel.SHIM:
            if at == shim:
                return count, steps, shim, limit
            return packet.NONE, steps, packet.NONE, packet.NONE
        elif here == tunnel.IN_GENEVE:
            count = note(trail, count, here, at, far, ip, protocol)
            why, at, here, _, _, option, option_end = tunnel.geneve(buf, at, end, limit, table)
            if option_end and option == shim and carrier == OVER_GENEVE:
                return count, steps, shim, limit
            here = tunnel.NOTHING if why else here
        else:
            if here == tunnel.IN_GRE or here == tunnel.IN_GPE or here == tunnel.IN_GTP_U:
                count = note(trail, count, here, at, far, ip, protocol)
            why, at, here, _, _ = tunnel.read_tunnel(buf, at, end, limit, here, table)
            here = tunnel.NOTHING if why else here
    return packet.NONE, steps, packet.NONE, packet.NONE


@kernel
def protocol_at(buf: Any, ip: Any) -> Any:
    """Where an IP header, or the last of its extension headers, names what follows."""
    if U64(buf[ip]) >> U64(4) == U64(4):
        return ip + U64(9)
    at, here = ip + U64(6), ip + U64(40)
    number = U64(buf[at])
    while number == packet.FRAGMENT or packet.is_extension(number):
        size = U64(8)
        if number == packet.AUTHENTICATION:
            size = (U64(buf[here + U64(1)]) + U64(2)) << U64(2)
        elif number != packet.FRAGMENT:
            size = (U64(buf[here + U64(1)]) + U64(1)) << U64(3)
        at, here = here, here + size
        number = U64(buf[at])
    return at


@kernel
def sum_covered(raw: Any, end: Any, shift: Any, trail: Any, place: Any, removed: Any) -> Any:
    """The sum that a header's checksum is over, in a packet that ends at `end`; 0 where it is cut before, or
    a length contradicts another.
    """
    kind, at, ip = trail[place], trail[place + U64(1)] + shift, trail[place + U64(3)] + shift
    if kind == tunnel.FOUR:
        return total_of(raw, at, at + ((U64(raw[at]) & U64(15)) << U64(2)))
    stop = trail[place + U64(2)] + shift - removed
    base = packet.NONE
    if kind == tunnel.L4:
        protocol = trail[place + U64(4)]
        if protocol == UDP:
            length = be16(raw, at + U64(4))
            if length < U64(8) or at + length > stop:
                return packet.NONE
            stop = at + length
        base = pseudo(folded(addresses(raw, ip)), protocol, stop - at)
    if stop > end:
        return packet.NONE
    return fold(base + total_of(raw, at, stop))
