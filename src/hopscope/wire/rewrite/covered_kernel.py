"""Fields of headers around INT, IFA and IOAM that depend on their contents: protocols and checksums."""

from ...base.kernels.jit import U64, be16, kernel
from ..decode.trail_kernel import kind_of, left_of, offset_of, protocol_of
from ..headers import packet_kernel as packet
from ..headers.checksum_kernel import addresses, folded, pseudo, total_of
from ..headers.put_kernel import fold
from ..headers.tunnel_kernel import FOUR, L4
from ..telemetry.variant_kernel import UDP


@kernel
def protocol_at(buf, ip):
    """Offset of the field in which an IP header, or the last of its extension headers, names the next
    protocol.
    """
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
def sum_of_l4(raw, end, ip, l4, stop, protocol):
    """The sum that the checksum of TCP or UDP at `l4` covers, in a packet that ends at `stop`, and a frame
    that ends at `end`; 0 if the packet is cut, or lengths contradict each other.
    """
    if protocol == UDP:
        length = be16(raw, l4 + U64(4))
        if length < U64(8) or l4 + length > stop:
            return packet.NONE
        stop = l4 + length
    if stop > end:
        return packet.NONE
    return fold(pseudo(folded(addresses(raw, ip)), protocol, stop - l4) + total_of(raw, l4, stop))


@kernel
def sum_covered(raw, end, origin, trail, place, removed):
    """The sum that a header's checksum covers, in a frame that ends at `end`; 0 if the packet is cut, or
    lengths contradict each other.

    `place`: place of the header in the trail; `origin`: offset of the packet in `raw`; `removed`: bytes of
    telemetry that were removed.
    """
    header = trail[place]
    at = origin + offset_of(header)
    if kind_of(header) == FOUR:
        return total_of(raw, at, at + ((U64(raw[at]) & U64(15)) << U64(2)))
    stop = at + left_of(header) - removed
    if kind_of(header) == L4:
        ip = origin + offset_of(trail[place - U64(1)])
        return sum_of_l4(raw, end, ip, at, stop, protocol_of(header))
    return total_of(raw, at, stop) if stop <= end else packet.NONE
