"""The most frequent frame of a sink: Ethernet, IP without options, UDP or TCP, and INT-MD or no INT.

It has a loop of its own, as in `usual_report_kernel`: a packet with INT 2.x of 5 hops and 4 values takes 38
ns, and 57 ns with `any_frames`, which reads it twice if the INT replaced its port; with one hop 26 and 44 ns.
Another loop reads INT before 2.0: a packet of 3 hops and 8 values takes 33 ns instead of 60; with both in one
loop, INT 2.x takes 3 ns longer.
"""

from ...base.kernels.jit import U64, be16, inlined, kernel
from .. import rules
from ..headers import packet_kernel as packet
from ..headers.packet_kernel import NONE, get
from ..telemetry import group_kernel as group
from .usual_kernel import IPV6_NIBBLE, OTHER_FORM, PLAIN_IPV4, SIZE_UDP, UNMARKED, WITHOUT_INT, read_after_ip

PACKETS = U64(rules.PACKETS)
FOUR_END, SIX_END = packet.SIZE_ETHERNET + packet.SIZE_IPV4, packet.SIZE_ETHERNET + packet.SIZE_IPV6


@kernel
def usual_packets(buf, frames, start, table, plans, reports, index, hops, first):
    """`packets` for frames with INT 2.x or none."""
    return packets(buf, frames, start, table, plans, reports, index, hops, first, False)


@kernel
def usual_old_packets(buf, frames, start, table, plans, reports, index, hops, first):
    """`packets` for frames with INT before 2.0 or none."""
    return packets(buf, frames, start, table, plans, reports, index, hops, first, True)


@inlined
def packets(buf, frames, start, table, plans, reports, index, hops, first, old):
    """Decode frames from `start` up to the first of another form, which does not affect the results.

    Returns (that frame, next free rows of `reports` and `hops`, frames without INT, which take no row).
    """
    max_reports, max_hops = U64(len(reports)), U64(len(hops))
    other = NONE
    if not table[PACKETS] or table[UNMARKED]:
        return start, index, first, other
    for i in range(start, U64(len(frames))):
        frame = frames[i]
        length = U64(frame.length)
        origin = U64(frame.offset)
        end = origin + length
        room = (length >> U64(2)) + U64(2)
        l4 = origin + FOUR_END
        if (
            index + room > max_reports
            or first + room > max_hops
            or U64(frame.link) != packet.ETHERNET
            or l4 + SIZE_UDP > end
        ):
            return U64(i), index, first, other
        ip = origin + packet.SIZE_ETHERNET
        type_ = be16(buf, origin + packet.ETHERNET_TYPE)
        row = group.new_row(reports, index)
        row.time_ns = frame.time_ns
        row.packet = i
        if type_ == packet.IPV4:
            if U64(buf[ip]) != PLAIN_IPV4 or get(buf, ip, packet.IPV4_FRAGMENT) | get(
                buf, ip, packet.IPV4_MORE
            ):
                return U64(i), index, first, other
            limit = min(end, ip + get(buf, ip, packet.IPV4_LENGTH))
            protocol, dscp = get(buf, ip, packet.IPV4_PROTOCOL), get(buf, ip, packet.IPV4_DSCP)
            count = read_after_ip(
                buf, origin, ip, l4, end, limit, protocol, dscp, False, True, old, row, table, plans, hops,
                first,
            )  # fmt: skip
        else:
            l4 = origin + SIX_END
            if type_ != packet.IPV6 or l4 + SIZE_UDP > end or U64(buf[ip]) >> U64(4) != IPV6_NIBBLE:
                return U64(i), index, first, other
            limit = min(end, l4 + get(buf, ip, packet.IPV6_LENGTH))
            protocol, dscp = get(buf, ip, packet.IPV6_NEXT), get(buf, ip, packet.IPV6_DSCP)
            count = read_after_ip(
                buf, origin, ip, l4, end, limit, protocol, dscp, True, True, old, row, table, plans, hops,
                first,
            )  # fmt: skip
        if count == WITHOUT_INT:
            other += U64(1)
            continue
        if count == OTHER_FORM:
            return U64(i), index, first, other
        row.first_hop = first
        row.hop_count = count
        first += count
        index += U64(1)
    return U64(len(frames)), index, first, other
