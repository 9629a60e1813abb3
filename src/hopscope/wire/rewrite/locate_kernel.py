"""The way into a packet with where its headers are, for kernels that take INT out of packets or put it in."""

from __future__ import annotations

from typing import Any

from ...base.jit import U64, be16, inlined, kernel
from ..decode.walk_kernel import ANY_IP_LENGTH, marker_size
from ..headers.checksum_kernel import addresses, folded, pseudo, total_of
from ..headers.packet_kernel import (
    AUTHENTICATION,
    ETHERNET,
    FRAGMENT,
    NONE,
    ethernet,
    get,
    ipv4,
    ipv6,
    is_extension,
    other_link,
)
from ..headers.put_kernel import fold
from ..headers.tunnel_kernel import (
    FOUR,
    FRAME,
    IN_GENEVE,
    IN_GPE,
    IN_GRE,
    IN_GTP_U,
    L4,
    NOTHING,
    SHIM,
    SIX,
    by_ethertype,
    by_port,
    by_protocol,
    geneve,
    read_tunnel,
)
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
    if link == ETHERNET:
        why, at, type_, _, _ = ethernet(buf, origin, end, end)
    else:
        why, at, type_, _, _ = other_link(buf, origin, end, link)
    here = NOTHING if why else by_ethertype(type_)
    limit, far, ip, protocol = end, FAR, NONE, NONE
    count, steps = NONE, NONE
    while here != NOTHING and count < U64(MOST):
        steps += U64(1)
        if here == FOUR or here == SIX:
            ip = at
            if here == FOUR:
                why, at, protocol, _, size, part = ipv4(buf, at, end, limit, table[ANY_IP_LENGTH])
            else:
                why, at, protocol, _, size, part = ipv6(buf, at, end, limit)
            if why or part:
                return NONE, steps, NONE, NONE
            limit, far = min(limit, ip + size), min(far, ip + size)
            count = note(trail, count, here, ip, far, ip, protocol)
            here = by_protocol(protocol)
        elif here == L4:
            if at + U64(8) > limit or (protocol == TCP and at + U64(20) > limit):
                return NONE, steps, NONE, NONE
            count = note(trail, count, here, at, far, ip, protocol)
            size = U64(8)
            if protocol == TCP:
                size = U64(20) if table[FIXED_TCP] else get(buf, at, TCP_WORDS) << U64(2)
            if is_l4(carrier) and at + size + marker_size(buf, at + size, limit, table) == shim:
                return count, steps, at + size, limit
            here = by_port(be16(buf, at + U64(2)), table) if protocol == UDP else NOTHING
            at += size
        elif here == FRAME:
            why, at, type_, _, _ = ethernet(buf, at, end, limit)
            here = NOTHING if why else by_ethertype(type_)
        elif here == SHIM:
            if at == shim:
                return count, steps, shim, limit
            return NONE, steps, NONE, NONE
        elif here == IN_GENEVE:
            count = note(trail, count, here, at, far, ip, protocol)
            why, at, here, _, _, option, option_end = geneve(buf, at, end, limit, table)
            if option_end and option == shim and carrier == OVER_GENEVE:
                return count, steps, shim, limit
            here = NOTHING if why else here
        else:
            if here == IN_GRE or here == IN_GPE or here == IN_GTP_U:
                count = note(trail, count, here, at, far, ip, protocol)
            why, at, here, _, _ = read_tunnel(buf, at, end, limit, here, table)
            here = NOTHING if why else here
    return NONE, steps, NONE, NONE


@kernel
def protocol_at(buf: Any, ip: Any) -> Any:
    """Where an IP header, or the last of its extension headers, names what follows."""
    if U64(buf[ip]) >> U64(4) == U64(4):
        return ip + U64(9)
    at, here = ip + U64(6), ip + U64(40)
    number = U64(buf[at])
    while number == FRAGMENT or is_extension(number):
        size = U64(8)
        if number == AUTHENTICATION:
            size = (U64(buf[here + U64(1)]) + U64(2)) << U64(2)
        elif number != FRAGMENT:
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
    if kind == FOUR:
        return total_of(raw, at, at + ((U64(raw[at]) & U64(15)) << U64(2)))
    stop = trail[place + U64(2)] + shift - removed
    base = NONE
    if kind == L4:
        protocol = trail[place + U64(4)]
        if protocol == UDP:
            length = be16(raw, at + U64(4))
            if length < U64(8) or at + length > stop:
                return NONE
            stop = at + length
        base = pseudo(folded(addresses(raw, ip)), protocol, stop - at)
    if stop > end:
        return NONE
    return fold(base + total_of(raw, at, stop))
