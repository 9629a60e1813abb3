"""Packets without their INT, for batches, of every form: the rules of strip.py, which says why.

`strip_any` walks into the packet, remembers the headers on the way to its INT, and puts each right.
"""

from __future__ import annotations

from typing import Any

from ...base.jit import U64, be16, kernel, move
from .. import rules
from ..decode.walk_kernel import INT_DSCP
from ..headers.checksum_kernel import ONES_16, updated
from ..headers.packet_kernel import ETHERNET, IPV4, IPV6, NONE, RAW_IP
from ..headers.put_kernel import put8, put16
from ..headers.tunnel_kernel import FOUR, FRAME, IN_GENEVE, IN_GRE, IN_GTP_U, L4, SIX, TEB
from ..telemetry.variant_kernel import OVER_GRE, OVER_INSERTED, TCP, UDP, is_l4
from .locate_kernel import WORDS, find_way, protocol_at, sum_covered
from .original_kernel import behind_int, original, own_dscp, put_dscp, said_by_port

VXLAN_PORT = U64(rules.VXLAN_PORT)
LEFT = U64(1 << 40)
"""No length: the packet has another form, or its INT is not where it should be."""
ADDED_GRE, ADDED_GPE = U64(0x08), U64(0x80)
GPE_NEXT_PRESENT = U64(0x04)


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
