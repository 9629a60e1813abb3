"""Packets without their INT, for batches, of every form: the rules of strip.py, which says why.

`strip_any` walks into the packet, remembers the headers on the way to its INT, and puts each right.
"""

from __future__ import annotations

from typing import Any

from ..jit import U64, be16, inlined, kernel, move
from . import rules
from .checksum_kernel import ONES_16, addresses, folded, pseudo, total_of, updated
from .form_kernel import (
    ANY_SHIM_LENGTH,
    LENGTH_WITH_SHIM,
    NEW_LENGTH,
    NPT_SHIFTS,
    NUMBERED,
    OLD_LENGTH,
    OLD_SHIM,
    OPTION_WORDS,
    OVER_GENEVE,
    OVER_GRE,
    OVER_INSERTED,
    TCP,
    TOTAL_0,
    UDP,
    is_l4,
    shim_rule,
)
from .int_kernel import FIXED_TCP, ROLE_INSERTED, TCP_WORDS
from .packet_kernel import (
    AUTHENTICATION,
    ETHERNET,
    FRAGMENT,
    IPV4,
    IPV6,
    NONE,
    RAW_IP,
    ethernet,
    get,
    ipv4,
    ipv6,
    is_extension,
    other_link,
)
from .put_kernel import fold, put8, put16
from .tunnel_kernel import (
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
    TEB,
    UDP_ROLE,
    by_ethertype,
    by_port,
    by_protocol,
    geneve,
    read_tunnel,
)
from .walk_kernel import ANY_IP_LENGTH, INT_DSCP, ROLE_INT, TCP_PORTS, marker_size

PLAIN_DSCP, VXLAN_PORT = U64(rules.PLAIN_DSCP), U64(rules.VXLAN_PORT)
FAR = U64(1 << 62)
LEFT = U64(1 << 40)
"""No length: the packet has another form, or its INT is not where it should be."""
WORDS = 5
"""Numbers that are kept of a header: kind (`rules.Next`), offset, where its packet ends by its IP header
(perhaps behind the frame), offset of the IP header that is this one or around it, IP protocol.
"""
MOST = 24
TRAIL = WORDS * MOST
"""Numbers that are kept of a way: an IP header, L4 and a tunnel behind it, six times at most, and room."""
ADDED_GRE, ADDED_GPE = U64(0x08), U64(0x80)
GPE_NEXT_PRESENT = U64(0x04)


# ------------------------------------------------------------------------------------ what the shim tells


@kernel
def behind_int(buf: Any, shim: Any, carrier: Any, row: Any, table: Any) -> Any:
    """(where the INT ends, whether its last four bytes are a tail); 0 where nothing tells it."""
    if carrier == OVER_GENEVE:
        return shim + U64(4) + (get(buf, shim, OPTION_WORDS) << U64(2)), False
    rule, version = shim_rule(buf, shim, carrier, table), U64(row.int_version)
    old, numbered = rule & OLD_SHIM != NONE, (rule & NUMBERED) >> U64(5)
    length = get(buf, shim, OLD_LENGTH) if old else get(buf, shim, NEW_LENGTH)
    tail = is_l4(carrier) and (version == U64(4) or version == U64(5))
    stack = NONE
    if version <= U64(5):
        stack = get(buf, shim + U64(4), TOTAL_0) * U64(row.hop_words)
    if length == NONE and table[ANY_SHIM_LENGTH]:
        if version > U64(5):
            return NONE, False
        length = U64(3) + numbered + stack + (U64(1) if tail else NONE)
    elif numbered and length == U64(3) + numbered + stack:
        tail = False
    words = length if old or table[LENGTH_WITH_SHIM] else length + U64(1)
    return shim + (words << U64(2)), tail


@inlined
def original(buf: Any, shim: Any, npt: Any, table: Any) -> Any:
    """What a shim of 2.x says by its NPT."""
    return be16(buf, shim + U64(2)) >> U64(table[NPT_SHIFTS + npt])


@inlined
def said_by_port(protocol: Any, dport: Any, table: Any) -> Any:
    """Whether a port says that INT follows."""
    role = U64(table[UDP_ROLE + dport])
    if protocol == UDP:
        return role & (ROLE_INT | ROLE_INSERTED) != NONE
    return table[TCP_PORTS] != 0 and role & ROLE_INT != NONE


@kernel
def own_dscp(
    buf: Any, shim: Any, behind: Any, tail: Any, protocol: Any, dscp: Any, version: Any, npt: Any, table: Any
) -> Any:
    """The packet's own DSCP, where its DSCP says INT."""
    if tail:
        if U64(buf[behind - U64(4)]) == protocol:
            return U64(buf[behind - U64(1)]) & U64(63)
    elif version == U64(20):
        if npt == NONE:
            return original(buf, shim, NONE, table) & U64(63)
    elif version == U64(10):
        return U64(buf[shim + U64(3)]) >> U64(2)
    return U64(table[PLAIN_DSCP + dscp])


@inlined
def put_dscp(out: Any, ip: Any, dscp: Any) -> None:
    """Write the DSCP of an IP header."""
    word = be16(out, ip)
    if word >> U64(12) == U64(4):
        put16(out, ip, (word & U64(0xFF03)) | (dscp << U64(2)))
    else:
        put16(out, ip, (word & U64(0xF03F)) | (dscp << U64(6)))


# ---------------------------------------------------------------------------- the way in, and out again


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
def without_gre(
    buf: Any, origin: Any, end: Any, link: Any, shim: Any, behind: Any, steps: Any, out: Any, to: Any,
    room: Any, trail: Any,
) -> Any:  # fmt: skip
    """Length of the packet for which the INT source added GRE, where this is the frame's first header; 0
    where it does not fit, LEFT for any other.
    """
    next_ = be16(buf, shim + U64(2))
    is_ip = next_ == IPV4 or next_ == IPV6
    if steps != U64(3) or not U64(buf[shim]) & ADDED_GRE or not (is_ip or next_ == TEB):
        return LEFT
    head = NONE
    if link == ETHERNET:
        head = trail[1] - origin if is_ip else NONE
    elif link != RAW_IP or not is_ip:
        return LEFT
    length = head + end - behind
    if length > room:
        return NONE
    move(out, to, buf, origin, head)
    move(out, to + head, buf, behind, end - behind)
    if head:
        put16(out, to + head - U64(2), next_)
    return length


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
def shorten(out: Any, at: Any, removed: Any) -> None:
    """Take what was removed off a length."""
    length = be16(out, at)
    if length >= removed:
        put16(out, at, length - removed)


@kernel
def put_length(
    buf: Any, out: Any, shift: Any, trail: Any, place: Any, removed: Any, shim: Any, carries: Any, table: Any
) -> None:
    """Lengths in a header around the INT, and what it says that follows; `shift` is from `buf` to `out`,
    `carries`: the shim is this tunnel's.
    """
    kind, at = trail[place], trail[place + U64(1)] + shift
    if kind == FOUR or kind == IN_GTP_U:
        shorten(out, at + U64(2), removed)
    elif kind == SIX:
        shorten(out, at + U64(4), removed)
    elif kind == L4:
        if trail[place + U64(4)] == UDP:
            length, left = be16(out, at + U64(4)), trail[place + U64(2)] - trail[place + U64(1)]
            if length + removed != left and length >= removed + U64(8):
                put16(out, at + U64(4), length - removed)
    elif carries:
        if kind == IN_GENEVE:
            put8(out, at, U64(out[at]) - (removed >> U64(2)))
        elif kind == IN_GRE:
            put16(out, at + U64(2), be16(buf, shim + U64(2)))
        else:
            next_ = U64(buf[shim + U64(3)])
            put8(out, at + U64(3), next_)
            plain = U64(buf[shim]) >= U64(16) and U64(buf[shim + U64(2)]) & ADDED_GPE
            if plain and next_ == FRAME and be16(table, VXLAN_PORT):
                put8(out, at, U64(out[at]) & ~GPE_NEXT_PRESENT)
                put8(out, at + U64(3), NONE)
                put16(out, at - U64(6), be16(table, VXLAN_PORT))


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


@kernel
def put_checksum(buf: Any, end: Any, out: Any, shift: Any, trail: Any, place: Any, removed: Any) -> Any:
    """Put the checksum of a header right, if it has one; whether it fits nothing."""
    kind, at = trail[place], trail[place + U64(1)] + shift
    is_udp = False
    if kind == FOUR:
        where = at + U64(10)
    elif kind == IN_GRE and U64(out[at]) & U64(0x80):
        where = at + U64(4)
    elif kind == L4:
        is_udp = trail[place + U64(4)] == UDP
        where = at + (U64(6) if is_udp else U64(16))
    else:
        return False
    check = be16(out, where)
    if is_udp and check == NONE:
        return False
    after = sum_covered(out, end + shift - removed, shift, trail, place, removed)
    if after == ONES_16:
        return False
    if after == NONE or sum_covered(buf, end, NONE, trail, place, NONE) != ONES_16:
        return True
    put16(out, where, updated(check, after, is_udp))
    return False


@kernel
def strip_any(
    buf: Any, origin: Any, end: Any, link: Any, row: Any, table: Any, trail: Any, out: Any, to: Any, room: Any
) -> Any:
    """`quick` for every packet; LEFT where the INT is not where the row says, or nothing tells its end."""
    carrier = U64(row.carrier)
    shim = origin + U64(row.int_at) - U64(4)
    if shim + U64(12) > end:
        return LEFT, False
    count, steps, cut, limit = find_way(buf, origin, end, link, shim, carrier, table, trail)
    if count == NONE:
        return LEFT, False
    behind, tail = behind_int(buf, shim, carrier, row, table)
    if behind == NONE or behind > limit or cut > behind:
        return LEFT, False
    if carrier == OVER_GRE:
        length = without_gre(buf, origin, end, link, shim, behind, steps, out, to, room, trail)
        if length != LEFT:
            return length, False
    last = (count - U64(1)) * U64(WORDS)
    npt, version = U64(row.npt), U64(row.int_version)
    inserted = carrier == OVER_INSERTED or (is_l4(carrier) and npt == U64(2))
    if inserted:
        cut = trail[last + U64(1)]
    removed = behind - cut
    length = end - origin - removed
    if length > room:
        return NONE, False
    shift = to - origin
    move(out, to, buf, origin, cut - origin)
    move(out, cut + shift, buf, behind, end - behind)
    if is_l4(carrier):
        l4, ip, protocol = trail[last + U64(1)], trail[last + U64(3)], trail[last + U64(4)]
        dport = be16(buf, l4 + U64(2))
        word = be16(buf, ip)
        dscp = (word >> U64(2) if word >> U64(12) == U64(4) else word >> U64(6)) & U64(63)
        if table[INT_DSCP + dscp] and not said_by_port(protocol, dport, table):
            put_dscp(out, ip + shift, own_dscp(buf, shim, behind, tail, protocol, dscp, version, npt, table))
        if inserted:
            own = original(buf, shim, npt, table) & U64(0xFF) if npt == U64(2) else TCP
            put8(out, protocol_at(buf, ip) + shift, own)
            count -= U64(1)
        elif tail:
            if U64(buf[behind - U64(4)]) == protocol:
                put16(out, l4 + shift + U64(2), be16(buf, behind - U64(3)))
        elif npt == U64(1):
            put16(out, l4 + shift + U64(2), original(buf, shim, npt, table))
    for i in range(count):
        place = U64(i) * U64(WORDS)
        carries = place == last and not is_l4(carrier)
        put_length(buf, out, shift, trail, place, removed, shim, carries, table)
    unverified = False
    for i in range(count):
        place = (count - U64(1) - U64(i)) * U64(WORDS)
        if put_checksum(buf, end, out, shift, trail, place, removed):
            unverified = True
    return length, unverified
