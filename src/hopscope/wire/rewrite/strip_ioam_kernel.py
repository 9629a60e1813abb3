"""Removes IOAM from IPv6 packets (RFC 9486): the hop-by-hop header, if it has no other options.

If it has, nothing states how it was padded before, and the packet stays as it is. The checksums of TCP and
UDP do not cover the header.
"""

from ...base.kernels.jit import U64, be16, kernel, move
from ..decode.trail_kernel import MAX_HEADERS, count_of, kind_of, offset_of
from ..headers.packet_kernel import NONE
from ..headers.put_kernel import put8
from ..headers.tunnel_kernel import SIX
from ..telemetry.ioam_kernel import HOP_BY_HOP, OPTION_0, OPTION_1
from .strip_any_kernel import LEFT, put_checksum, put_length

PAD_1, PAD_N = U64(0), U64(1)
SIZE_IPV6 = U64(40)


@kernel
def only_ioam(buf, at, stop):
    """Whether the options from `at` to `stop` are IOAM and padding."""
    while at < stop:
        type_ = U64(buf[at])
        if type_ == PAD_1:
            at += U64(1)
            continue
        if type_ != PAD_N and type_ != OPTION_0 and type_ != OPTION_1:
            return False
        if at + U64(2) > stop:
            return False
        at += U64(2) + U64(buf[at + U64(1)])
    return at == stop


@kernel
def strip_ioam(buf, origin, end, row, table, trail, out, to, room):
    """Write the packet without its hop-by-hop header to `out[to]`; returns (length, whether a checksum was
    right neither with it nor without). Length 0: it does not fit; LEFT: the trail is too long, or the header
    has other options or is a destination header.
    """
    count, option, place = count_of(trail), origin + U64(row.int_at), NONE
    if count > U64(MAX_HEADERS):
        return LEFT, False
    for i in range(count):
        one = trail[U64(i) + U64(1)]
        if kind_of(one) == SIX and origin + offset_of(one) + SIZE_IPV6 < option:
            place = U64(i) + U64(1)
    if place == NONE:
        return LEFT, False
    ip = origin + offset_of(trail[place])
    at = ip + SIZE_IPV6
    limit = min(end, at + be16(buf, ip + U64(4)))
    if at + U64(8) > limit or U64(buf[ip + U64(6)]) != HOP_BY_HOP:
        return LEFT, False
    after = at + ((U64(buf[at + U64(1)]) + U64(1)) << U64(3))
    if after > limit or option >= after or not only_ioam(buf, at + U64(2), after):
        return LEFT, False
    removed = after - at
    length = end - origin - removed
    if length > room:
        return NONE, False
    move(out, to, buf, origin, at - origin)
    move(out, to + at - origin, buf, after, end - after)
    put8(out, to + ip + U64(6) - origin, U64(buf[at]))
    for i in range(place):
        put_length(buf, out, to, trail[U64(i) + U64(1)], removed, NONE, False, table)
    unverified = False
    for i in range(place):
        if put_checksum(buf, origin, end, out, to, trail, place - U64(i), removed):
            unverified = True
    return length, unverified
