"""Removes IFA 2.0 from packets (draft-kumar-ippm-ifa): its header before TCP or UDP, and the metadata header
and the stack after it.

The IP protocol becomes the next header of the IFA header. Lengths and checksums are corrected by the rules
of `strip_kernel`. A source that is a switch leaves length and checksum of TCP and UDP as they were; one that
counted the stack in them is recognised by a checksum that is right with it.
"""

from ...base.kernels.jit import U64, be16, kernel, move
from ..decode.trail_kernel import MAX_HEADERS, count_of, header, kind_of, left_of, offset_of
from ..headers.checksum_kernel import ONES_16, updated
from ..headers.packet_kernel import NONE, get
from ..headers.put_kernel import put8, put16
from ..headers.tunnel_kernel import IN_IFA, L4
from ..telemetry.ifa_kernel import NEXT, SIZE, SIZE_METADATA, SIZE_TCP, SIZE_UDP, UDP, WORDS
from .covered_kernel import protocol_at, sum_of_l4
from .strip_any_kernel import LEFT, put_checksum, put_length


@kernel
def put_l4_checksum(buf, end, ip, l4, stop, protocol, out, own_end, own_ip, own_l4, own_stop):
    """Correct the checksum of the TCP or UDP header whose packet had IFA, at `buf[l4]`, and has none, at
    `out[own_l4]`; returns whether it was right neither with IFA nor without.
    """
    is_udp = protocol == UDP
    where = own_l4 + (U64(6) if is_udp else U64(16))
    check = be16(out, where)
    if is_udp and check == NONE:
        return False
    after = sum_of_l4(out, own_end, own_ip, own_l4, own_stop, protocol)
    if after == ONES_16:
        return False
    if after == NONE or sum_of_l4(buf, end, ip, l4, stop, protocol) != ONES_16:
        return True
    put16(out, where, updated(check, after, is_udp))
    return False


@kernel
def strip_ifa(buf, origin, end, row, table, trail, out, to, room):
    """Write the packet without its IFA to `out[to]`; returns (length, whether a checksum was right neither
    with IFA nor without). Length 0: it does not fit; LEFT: the trail is too long, or leads to no IFA.
    """
    count, metadata = count_of(trail), origin + U64(row.int_at)
    if count > U64(MAX_HEADERS) or count < U64(2) or kind_of(trail[count]) != IN_IFA:
        return LEFT, False
    ifa, left = origin + offset_of(trail[count]), left_of(trail[count])
    l4, stop = ifa + SIZE, ifa + left
    limit = min(end, stop)
    if metadata > limit or metadata + SIZE_METADATA > limit:
        return LEFT, False
    protocol = get(buf, ifa, NEXT)
    if metadata < l4 + (SIZE_UDP if protocol == UDP else SIZE_TCP):
        return LEFT, False
    after = metadata + SIZE_METADATA + (get(buf, metadata, WORDS) << U64(2))
    if after > limit:
        return LEFT, False
    stack = after - metadata
    removed = SIZE + stack
    length = end - origin - removed
    if length > room:
        return NONE, False
    own_l4, ip = to + ifa - origin, origin + offset_of(trail[count - U64(1)])
    move(out, to, buf, origin, ifa - origin)
    move(out, own_l4, buf, l4, metadata - l4)
    move(out, own_l4 + metadata - l4, buf, after, end - after)
    put8(out, to + protocol_at(buf, ip) - origin, protocol)
    for i in range(count - U64(1)):
        put_length(buf, out, to, trail[U64(i) + U64(1)], removed, NONE, False, table)
    put_length(buf, out, to, header(L4, protocol, ifa - origin, left - SIZE), stack, NONE, False, table)
    unverified = put_l4_checksum(
        buf, end, ip, l4, stop, protocol, out, to + length, to + ip - origin, own_l4, own_l4 + stop - after
        + metadata - l4,
    )  # fmt: skip
    for i in range(count - U64(1)):
        if put_checksum(buf, origin, end, out, to, trail, count - U64(1) - U64(i), removed):
            unverified = True
    return length, unverified
