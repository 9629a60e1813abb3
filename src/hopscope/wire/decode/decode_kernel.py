"""The decoder: frames to REPORT and HOP rows. `decoder` runs it compiled, `plain` uncompiled."""

from ...base.kernels.jit import U64, be16, be32, inlined, kernel
from .. import rules
from ..headers import packet_kernel
from ..headers.packet_kernel import NONE
from ..headers.tunnel_kernel import (
    FOUR,
    FRAME,
    IN_GENEVE,
    L4,
    NOTHING,
    SHIM,
    SIX,
    TUNNEL_ROLES,
    by_ethertype,
    by_port,
    by_protocol,
    geneve,
    read_tunnel,
)  # fmt: skip
from ..reasons import Place, Reason
from ..records import Link
from ..telemetry.group_kernel import group_2_0, new_row
from ..telemetry.report_kernel import report_0_5, report_1_0
from ..telemetry.variant_kernel import UDP
from .inner_kernel import CUT_HEADER, FIRST_BYTE, UDP_ROLE, packet
from .usual_old_report_kernel import usual_old_reports
from .usual_packet_kernel import usual_old_packets, usual_packets
from .usual_report_kernel import usual_reports, usual_six_reports
from .walk_kernel import FAR, MAX_LAYERS

UDP_PAYLOAD, PACKETS = U64(Link.UDP_PAYLOAD), U64(rules.PACKETS)
OUTER_FRAGMENT = packet_kernel.code(Reason.FRAGMENT, Place.OUTER_IP)
BAD_UDP, LACKING_UDP = packet_kernel.code(Reason.BAD_LENGTH, Place.OUTER_UDP), U64(Place.OUTER_UDP)
PLAIN_IPV4, PLAIN_BYTES, AT_PROTOCOL, AT_PORT = U64(0x08004500), U64(14 + 20 + 4), U64(14 + 9), U64(14 + 22)
NO_USUAL_PACKET = U64(rules.ROLE_REPORT) | TUNNEL_ROLES
SHORT_RUN = U64(8)
"""Length of a run of frames of the usual forms from which the call of their loops pays off."""
MAX_PATIENCE = U64(64)
"""At most this many frames are read by `any_frames` before the usual forms are tried again."""
UNKNOWN_REPORT = packet_kernel.code(Reason.UNKNOWN_VERSION, Place.REPORT_HEADER)


@inlined
def payload(buf, origin, at, end, announced, reports, index, table, plans, hops, first):
    """Read a datagram's payload; row `index` is begun. Returns the next free rows of `reports` and `hops`."""
    row = reports[index]
    if at >= end:
        row.first_hop = first
        packet_kernel.refuse(row, CUT_HEADER, at, origin)
        return index + U64(1), first
    version = table[FIRST_BYTE + U64(buf[at])]
    row.version = version
    if version == 20:
        return group_2_0(buf, origin, at, end, announced, reports, index, table, plans, hops, first)
    if version == 10:
        first = report_1_0(buf, origin, at, end, row, table, plans, hops, first)
    elif version == 5:
        first = report_0_5(buf, origin, at, end, row, table, plans, hops, first)
    else:
        row.first_hop = first
        packet_kernel.refuse(row, UNKNOWN_REPORT, at, origin)
    return index + U64(1), first


@inlined
def datagram(buf, start, end, bound, version, table):
    """The results of `outer` for the IP packet at `start`, then, for a packet that is not a report, the
    offset after its headers, the end of its contents, and what begins there. `bound`: end of what encloses
    the packet.
    """
    limit = min(end, bound)
    if version == U64(4):
        why, at, protocol, _, length, part = packet_kernel.ipv4(buf, start, end, limit, False)
    else:
        why, at, protocol, _, length, part = packet_kernel.ipv6(buf, start, end, limit)
    packet_end = min(start + length, bound)
    if why or part == U64(1):
        return NONE, at, end, end, NONE, NONE, NOTHING, end
    if protocol != UDP or at + U64(4) > min(end, packet_end):
        return NONE, at, end, end, NONE, NONE, by_protocol(protocol), packet_end
    dport = be16(buf, at + U64(2))
    if not table[UDP_ROLE + dport] & 1:
        return NONE, at + U64(8), end, end, NONE, NONE, by_port(dport, table), packet_end
    high, low = packet_kernel.address(
        buf, start, version, packet_kernel.IPV4_SOURCE, packet_kernel.IPV6_SOURCE
    )
    if part != NONE:
        return OUTER_FRAGMENT, start, end, end, high, low, NOTHING, end
    why = packet_kernel.lacks(at, U64(8), end, min(end, packet_end))
    if why:
        return why | LACKING_UDP, at, end, end, high, low, NOTHING, end
    size = be16(buf, at + U64(4))
    announced = at + size
    if size < U64(8) or announced > packet_end:
        return BAD_UDP, at, end, end, high, low, NOTHING, end
    return U64(1), at + U64(8), min(end, announced), announced, high, low, NOTHING, end


@kernel
def enclosed(buf, at, end, bound, here, table):
    """`outer` for the contents of a tunnel: `here` begins at `at`; `bound` is its end by the lengths around
    it.
    """
    layers = NONE
    while here != NOTHING and here != L4 and here != SHIM and layers <= MAX_LAYERS:
        limit = min(end, bound)
        if here == FOUR or here == SIX:
            version = U64(4) if here == FOUR else U64(6)
            verdict, at, stop, announced, high, low, here, bound = datagram(
                buf, at, end, bound, version, table
            )
            if verdict:
                return verdict, at, stop, announced, high, low
            layers += U64(1)
        elif here == FRAME:
            why, at, type_, _, _ = packet_kernel.ethernet(buf, at, end, limit)
            here = NOTHING if why else by_ethertype(type_)
        elif here == IN_GENEVE:
            why, at, here, _, _, _, _ = geneve(buf, at, end, limit, table)
        else:
            why, at, here, _, _ = read_tunnel(buf, at, end, limit, here, table)
    return NONE, at, end, end, NONE, NONE


@inlined
def outer(buf, at, end, link, table):
    """(verdict, offset, end, announced, source high, source low) of a captured frame.

    The verdict is 0 for no report, 1 for a report's payload at `offset`, otherwise the code of a rejected
    report.
    """
    if link == packet_kernel.ETHERNET:
        cut, at, type_, _, _ = packet_kernel.ethernet(buf, at, end, end)
    else:
        cut, at, type_, _, _ = packet_kernel.other_link(buf, at, end, link)
    here, bound = NOTHING, FAR
    if not cut:
        version = packet_kernel.ip_version(type_)
        here = by_ethertype(type_)
        if version:
            verdict, at, stop, announced, high, low, here, bound = datagram(buf, at, end, FAR, version, table)
            if verdict:
                return verdict, at, stop, announced, high, low
    if here == NOTHING or here == L4:
        return NONE, at, end, end, NONE, NONE
    return enclosed(buf, at, end, bound, here, table)


@inlined
def is_usual_packet(buf, at, end, table):
    """Whether an Ethernet frame is certainly not a report: IPv4 without options, to a UDP port that is
    neither a collector's nor a tunnel's. `outer` finds the same, but takes 2 ns longer.
    """
    return (
        at + PLAIN_BYTES <= end
        and be32(buf, at + U64(12)) & U64(0xFFFFFF00) == PLAIN_IPV4
        and U64(buf[at + AT_PROTOCOL]) == UDP
        and not U64(table[UDP_ROLE + be16(buf, at + AT_PORT)]) & NO_USUAL_PACKET
    )


@inlined
def any_frames(buf, frames, start, stop, table, plans, reports, index, hops, first, trails):
    """Decode frames from `start` to before `stop`, or to the first frame for which a block has no room.

    Returns (that frame, next free rows of `reports` and `hops`, number of frames that are not reports).
    """
    max_reports, max_hops = U64(len(reports)), U64(len(hops))
    other = NONE
    for i in range(start, stop):
        frame = frames[i]
        origin = U64(frame.offset)
        end = origin + U64(frame.length)
        room = (U64(frame.length) >> U64(2)) + U64(2)  # a report or a hop takes at least 4 bytes
        if index + room > max_reports or first + room > max_hops:
            return U64(i), index, first, other
        link = U64(frame.link)
        if link == UDP_PAYLOAD:
            verdict, at, announced = U64(1), origin, end
            high, low = U64(frame.source_hi), U64(frame.source_lo)
        elif table[PACKETS] and link == packet_kernel.ETHERNET and is_usual_packet(buf, origin, end, table):
            verdict, at, announced, high, low = NONE, origin, end, NONE, NONE
        else:
            verdict, at, end, announced, high, low = outer(buf, origin, end, link, table)
        if verdict == NONE:
            found = False
            if table[PACKETS]:
                row = new_row(reports, index)
                row.time_ns = frame.time_ns
                row.packet = i
                found, first = packet(buf, origin, end, link, row, table, plans, hops, first, trails, U64(i))
            if found:
                index += U64(1)
            else:
                other += U64(1)
            continue
        row = new_row(reports, index)
        row.time_ns = frame.time_ns
        row.packet = i
        row.source_hi = high
        row.source_lo = low
        if verdict == U64(1):
            index, first = payload(buf, origin, at, end, announced, reports, index, table, plans, hops, first)
        else:
            row.first_hop = first
            packet_kernel.refuse(row, verdict, at, origin)
            index += U64(1)
    return stop, index, first, other


@kernel
def decode_frames(buf, frames, start, table, plans, reports, hops, trails, counts):
    """Decode frames from `start` on; returns the frame to continue with if a block is nearly full, else the
    number of frames.

    `counts`, [reports, hops, frames that are not reports], is increased. `trails` gets the trails of
    captured packets, uint64 [TRAIL, frames]; if it has no columns, trails are not kept.
    """
    index, first = counts[0], counts[1]
    total, done, stop, patience = U64(len(frames)), U64(start), U64(start), U64(1)
    while done == stop and done < total:
        reached, first = usual_reports(buf, frames, done, table, plans, reports, index, hops, first)
        reached, first = usual_six_reports(
            buf, frames, reached, table, plans, reports, index + (reached - done), hops, first
        )
        reached, first = usual_old_reports(
            buf, frames, reached, table, plans, reports, index + (reached - done), hops, first
        )
        index += reached - done
        reached, index, first, other = usual_packets(
            buf, frames, reached, table, plans, reports, index, hops, first
        )
        counts[2] += other
        reached, index, first, other = usual_old_packets(
            buf, frames, reached, table, plans, reports, index, hops, first
        )
        counts[2] += other
        patience = U64(1) if reached - done >= SHORT_RUN else min(patience << U64(1), MAX_PATIENCE)
        stop = min(reached + patience, total)
        done, index, first, other = any_frames(
            buf, frames, reached, stop, table, plans, reports, index, hops, first, trails
        )
        counts[2] += other
    counts[0], counts[1] = index, first
    return done
