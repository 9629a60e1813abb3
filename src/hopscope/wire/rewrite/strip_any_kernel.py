"""Removes INT from packets of every form: corrects the headers that the decoder has recorded."""

from ...base.kernels.jit import U64, be16, kernel, move
from .. import rules
from ..decode.trail_kernel import MAX_HEADERS, count_of, kind_of, left_of, offset_of, protocol_of, shim_of
from ..decode.walk_kernel import INT_DSCP, announced_by_port
from ..headers.checksum_kernel import ONES_16, updated
from ..headers.packet_kernel import ETHERNET, IPV4, IPV6, NONE, RAW_IP
from ..headers.put_kernel import put8, put16
from ..headers.tunnel_kernel import FOUR, FRAME, IN_GENEVE, IN_GRE, IN_GTP_U, L4, SIX, TEB
from ..telemetry.variant_kernel import OVER_GRE, OVER_INSERTED, TCP, UDP, is_l4
from .covered_kernel import protocol_at, sum_covered
from .original_kernel import after_int, l4_size, original, original_dscp, put_dscp

VXLAN_PORT = U64(rules.VXLAN_PORT)
LEFT = U64(1 << 40)
"""Not a length: the packet has another form, or the end of its INT is unknown."""
ADDED_GRE, ADDED_GPE = U64(0x08), U64(0x80)
GPE_NEXT_PRESENT = U64(0x04)


@kernel
def without_gre(buf, origin, end, link, shim, after, out, to, room, trail):
    """Length of a packet for which the INT source added GRE after the frame's first IP header; 0 if it does
    not fit, LEFT for any other packet.
    """
    next_ = be16(buf, shim + U64(2))
    is_ip = next_ == IPV4 or next_ == IPV6
    if count_of(trail) != U64(2) or not U64(buf[shim]) & ADDED_GRE or not (is_ip or next_ == TEB):
        return LEFT
    head = NONE
    if link == ETHERNET:
        head = offset_of(trail[1]) if is_ip else NONE
    elif link != RAW_IP or not is_ip:
        return LEFT
    length = head + end - after
    if length > room:
        return NONE
    move(out, to, buf, origin, head)
    move(out, to + head, buf, after, end - after)
    if head:
        put16(out, to + head - U64(2), next_)
    return length


@kernel
def shorten(out, at, removed):
    """Reduce a length by the removed bytes."""
    length = be16(out, at)
    if length >= removed:
        put16(out, at, length - removed)


@kernel
def put_length(buf, out, to, header, removed, shim, carries, table):
    """Correct the lengths in a header around the INT, and its field for the next protocol; the packet begins
    at `out[to]`, `carries`: the shim belongs to this tunnel.
    """
    kind, at = kind_of(header), to + offset_of(header)
    if kind == FOUR or kind == IN_GTP_U:
        shorten(out, at + U64(2), removed)
    elif kind == SIX:
        shorten(out, at + U64(4), removed)
    elif kind == L4:
        if protocol_of(header) == UDP:
            length = be16(out, at + U64(4))
            if length + removed != left_of(header) and length >= removed + U64(8):
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
def put_checksum(buf, origin, end, out, to, trail, place, removed):
    """Correct the checksum of a header, if it has one; returns whether it was right neither with INT nor
    without.
    """
    header = trail[place]
    kind, at = kind_of(header), to + offset_of(header)
    is_udp = False
    if kind == FOUR:
        where = at + U64(10)
    elif kind == IN_GRE and U64(out[at]) & U64(0x80):
        where = at + U64(4)
    elif kind == L4:
        is_udp = protocol_of(header) == UDP
        where = at + (U64(6) if is_udp else U64(16))
    else:
        return False
    check = be16(out, where)
    if is_udp and check == NONE:
        return False
    after = sum_covered(out, to + end - origin - removed, to, trail, place, removed)
    if after == ONES_16:
        return False
    if after == NONE or sum_covered(buf, end, origin, trail, place, NONE) != ONES_16:
        return True
    put16(out, where, updated(check, after, is_udp))
    return False


@kernel
def strip_any(buf, origin, end, link, row, table, trail, out, to, room):
    """`strip_usual` for packets of every form; LEFT if the trail is too long, or the end of the INT is
    unknown.
    """
    carrier, count, shim = U64(row.carrier), count_of(trail), origin + shim_of(trail)
    if count > U64(MAX_HEADERS):
        return LEFT, False
    last = trail[count]
    l4, protocol = origin + offset_of(last), protocol_of(last)
    after, tail = after_int(buf, shim, carrier, row, table)
    over_l4 = kind_of(last) == L4
    cut = l4 + l4_size(buf, l4, protocol, table) if over_l4 else shim
    if after == NONE or after > min(end, l4 + left_of(last)) or cut > shim or over_l4 != is_l4(carrier):
        return LEFT, False
    if carrier == OVER_GRE:
        length = without_gre(buf, origin, end, link, shim, after, out, to, room, trail)
        if length != LEFT:
            return length, False
    npt, version = U64(row.npt), U64(row.int_version)
    inserted = carrier == OVER_INSERTED or (over_l4 and npt == U64(2))
    kept = count
    if inserted:  # the UDP header is removed, too
        cut, kept = l4, count - U64(1)
    removed = after - cut
    length = end - origin - removed
    if length > room:
        return NONE, False
    shift = to - origin
    move(out, to, buf, origin, cut - origin)
    move(out, cut + shift, buf, after, end - after)
    if over_l4:
        ip = origin + offset_of(trail[count - U64(1)])
        dport = be16(buf, l4 + U64(2))
        word = be16(buf, ip)
        dscp = (word >> U64(2) if word >> U64(12) == U64(4) else word >> U64(6)) & U64(63)
        if table[INT_DSCP + dscp] and not announced_by_port(protocol, dport, table):
            own = original_dscp(buf, shim, after, tail, protocol, dscp, version, npt, table)
            put_dscp(out, ip + shift, own)
        if inserted:
            own = original(buf, shim, npt, table) & U64(0xFF) if npt == U64(2) else TCP
            put8(out, protocol_at(buf, ip) + shift, own)
        elif tail:
            if U64(buf[after - U64(4)]) == protocol:
                put16(out, l4 + shift + U64(2), be16(buf, after - U64(3)))
        elif npt == U64(1):
            put16(out, l4 + shift + U64(2), original(buf, shim, npt, table))
    for i in range(kept):
        carries = U64(i) + U64(1) == count and not over_l4
        put_length(buf, out, to, trail[U64(i) + U64(1)], removed, shim, carries, table)
    unverified = False
    for i in range(kept):
        if put_checksum(buf, origin, end, out, to, trail, kept - U64(i), removed):
            unverified = True
    return length, unverified
