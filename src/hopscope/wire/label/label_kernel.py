"""Labels of INT-label in frames and export datagrams, by the rules of `codec`. Offsets are indices into the
arena, all numbers uint64; a code is 0, or `reason << 8 | place`.
"""

from ...base.kernels.jit import U8, U64, be16, be32, be64, inlined, kernel
from ...base.keyed_kernel import spread, weigh
from ..headers import packet_kernel
from ..reasons import Place, Reason
from ..records import Link
from . import layout

ZERO, ONE, TWO, FOUR, SIX, EIGHT = U64(0), U64(1), U64(2), U64(4), U64(6), U64(8)
PAPER, PUBLISHED, EXPORT = U64(1), U64(2), U64(3)
"""label.Form."""
UDP_PAYLOAD = U64(Link.UDP_PAYLOAD)
OF_LABEL, OF_IP = U64(Place.LABEL), U64(Place.OUTER_IP)
TRUNCATED, BAD_LENGTH = U64(Reason.TRUNCATED << 8), U64(Reason.BAD_LENGTH << 8)
UNKNOWN_TYPE, UNKNOWN_VERSION = U64(Reason.UNKNOWN_TYPE << 8), U64(Reason.UNKNOWN_VERSION << 8)
TYPE_ROUTE, TYPE_LABEL = U64(layout.ETHERTYPE_LABEL_ROUTE), U64(layout.ETHERTYPE_LABEL)
ROUTE, ENTRY = U64(layout.LABEL_ROUTE.size), U64(layout.LABEL_ROUTE_ENTRY.size)
LAST_SHIFT = U64(7 - layout.LABEL_ROUTE_ENTRY.field("last").at)
OPTION, ITEM = U64(layout.LABEL_OPTION.size), U64(layout.LABEL_STATE.size)
NEXT, COUNT = (
    packet_kernel.byte(layout.LABEL_OPTION, "next_header"),
    packet_kernel.byte(layout.LABEL_OPTION, "count"),
)
FLOW, FLOW_VERSION = U64(layout.LABEL_FLOW.size), U64(layout.LABEL_FLOW_VERSION)
FLOW_SOURCE = packet_kernel.byte(layout.LABEL_FLOW, "source")
FLOW_DESTINATION = packet_kernel.byte(layout.LABEL_FLOW, "destination")
FLOW_PORTS = packet_kernel.byte(layout.LABEL_FLOW, "source_port")
STATE_DEVICE, STATE_TIME = (
    packet_kernel.byte(layout.LABEL_STATE, "node_id"),
    packet_kernel.byte(layout.LABEL_STATE, "time_ns"),
)
STATE_INGRESS = packet_kernel.byte(layout.LABEL_STATE, "ingress_port")
STATE_EGRESS = packet_kernel.byte(layout.LABEL_STATE, "egress_port")
STATE_LATENCY = packet_kernel.byte(layout.LABEL_STATE, "latency_ns")
STATE_OCCUPANCY = packet_kernel.byte(layout.LABEL_STATE, "occupancy")
OLD_DEVICE, OLD_INGRESS = (
    packet_kernel.byte(layout.LABEL_ITEM, "device_id"),
    packet_kernel.byte(layout.LABEL_ITEM, "ingress_port"),
)
OLD_EGRESS = packet_kernel.byte(layout.LABEL_ITEM, "egress_port")
OLD_TIME_IN, OLD_TIME_OUT = (
    packet_kernel.byte(layout.LABEL_ITEM, "ingress_time"),
    packet_kernel.byte(layout.LABEL_ITEM, "egress_time"),
)
OLD_DEPTH = packet_kernel.byte(layout.LABEL_ITEM, "dequeue_depth")
ONES_32, ONES_48 = U64(0xFFFFFFFF), U64((1 << 48) - 1)
MICROSECOND = U64(1000)
PACKETS, OTHER, FLOWS = 0, 1, 2
"""Places in `counts`: labelled packets and blocks; frames without labels; flows."""


@inlined
def find_ip(buf, ip, end, type_):
    """(version, payload protocol, offset after the header, end by its length) of the IP header at `ip`;
    version 0: none, or it is cut before its fixed part ends.
    """
    version = packet_kernel.ip_version(type_)
    size = packet_kernel.SIZE_IPV6 if version == SIX else packet_kernel.SIZE_IPV4
    if version == ZERO or ip + size > end or U64(buf[ip]) >> FOUR != version:
        return ZERO, ZERO, ZERO, ZERO
    if version == SIX:
        return (
            version,
            packet_kernel.get(buf, ip, packet_kernel.IPV6_NEXT),
            ip + size,
            ip + size + packet_kernel.get(buf, ip, packet_kernel.IPV6_LENGTH),
        )
    size = (U64(buf[ip]) & U64(15)) << TWO
    if size < packet_kernel.SIZE_IPV4:
        return ZERO, ZERO, ZERO, ZERO
    return (
        version,
        packet_kernel.get(buf, ip, packet_kernel.IPV4_PROTOCOL),
        ip + size,
        ip + packet_kernel.get(buf, ip, packet_kernel.IPV4_LENGTH),
    )


@inlined
def ip_code(ip, at, end, limit):
    """Why nothing after an IP header can be read, 0 if it can."""
    if at > end:
        return TRUNCATED | OF_IP
    return BAD_LENGTH | OF_IP if limit < at else ZERO


@inlined
def labels_at(buf, at, limit, end, form, max_hop):
    """(code, items, 1 for a tracked flow) of the option at `at`."""
    why = packet_kernel.lacks(at, OPTION, end, limit)
    if why:
        return why | OF_LABEL, ZERO, ZERO
    count, tracked = U64(buf[at + COUNT]), ZERO
    if form != PUBLISHED and count > max_hop:
        count -= max_hop
        tracked = ONE
    why = packet_kernel.lacks(at + OPTION, count * ITEM, end, limit)
    if why:
        return why | OF_LABEL, ZERO, ZERO
    return ZERO, count, tracked


@inlined
def option_at(buf, at, end):
    """(code, offset of the option) of a block: after its flow, if it has one."""
    if at + OPTION > end:
        return TRUNCATED | OF_LABEL, at
    version = U64(buf[at + NEXT])
    if U64(buf[at + COUNT]) != ZERO or version == ZERO:
        return ZERO, at
    if version != FLOW_VERSION:
        return UNKNOWN_VERSION | OF_LABEL, at
    if at + FLOW > end:
        return TRUNCATED | OF_LABEL, at
    return ZERO, at + FLOW


@inlined
def pull_flow(buf, at, option, packet, row):
    """Write a LABEL_FLOW row for the flow at `at`."""
    row.src_hi = be64(buf, at + FLOW_SOURCE)
    row.src_lo = be64(buf, at + FLOW_SOURCE + EIGHT)
    row.dst_hi = be64(buf, at + FLOW_DESTINATION)
    row.dst_lo = be64(buf, at + FLOW_DESTINATION + EIGHT)
    row.packet = packet
    row.sport = be16(buf, at + FLOW_PORTS)
    row.dport = be16(buf, at + FLOW_PORTS + TWO)
    row.proto = U64(buf[option + NEXT])


@inlined
def behind_route(buf, at, end):
    """(code, offset of the option) after the source route at `at`."""
    if at + ROUTE > end:
        return TRUNCATED | OF_LABEL, at
    at += ROUTE
    last = ZERO
    while last == ZERO:
        if at + ENTRY > end:
            return TRUNCATED | OF_LABEL, at
        last = U64(buf[at]) >> LAST_SHIFT
        at += ENTRY
    if at + TWO > end:
        return TRUNCATED | OF_LABEL, at
    if be16(buf, at) != TYPE_LABEL:
        return UNKNOWN_TYPE | OF_LABEL, at
    return ZERO, at + TWO


@inlined
def pull_state(buf, at, row):
    """Write a LABEL row for the item at `at`."""
    row.time_ns = be64(buf, at + STATE_TIME)
    row.node_id = be32(buf, at + STATE_DEVICE)
    row.latency_ns = be32(buf, at + STATE_LATENCY)
    row.occupancy = be32(buf, at + STATE_OCCUPANCY)
    row.ingress_port = be16(buf, at + STATE_INGRESS)
    row.egress_port = be16(buf, at + STATE_EGRESS)


@inlined
def pull_published(buf, at, row):
    """Write a LABEL row for an item of the published code."""
    out = be64(buf, at + OLD_TIME_OUT) >> U64(16)
    inside = ((out - (be64(buf, at + OLD_TIME_IN) >> U64(16))) & ONES_48) * MICROSECOND
    row.time_ns = out * MICROSECOND
    row.node_id = U64(buf[at + OLD_DEVICE])
    row.latency_ns = inside if inside < ONES_32 else ONES_32
    row.occupancy = be32(buf, at + OLD_DEPTH - ONE) & U64(0xFFFFFF)
    row.ingress_port = U64(buf[at + OLD_INGRESS])
    row.egress_port = U64(buf[at + OLD_EGRESS])


@kernel
def pull_labels(buf, at, form, count, tracked, packet, labels, first, owner):
    """Write LABEL rows from `first` on for the `count` items after the option at `at`, in path order."""
    for i in range(count):
        row = labels[first + U64(i)]
        place = at + OPTION + (count - ONE - U64(i)) * ITEM
        if form == PUBLISHED:
            pull_published(buf, place, row)
        else:
            pull_state(buf, place, row)
        row.packet = packet
        row.position = U64(i)
        row.count = count
        row.tracked = tracked
        row.owner = U8(owner)


@kernel
def decode_frames(buf, frames, max_hop, protocol, keys, labels, flows, codes, counts):
    """Labels of frames, and of datagrams (UDP_PAYLOAD) block by block; returns how many.

    `labels` has a row for each 32 bytes of the frames, `flows` for each 72. `codes`, uint16 [frames]: why a
    frame, or the rest of a datagram, is rejected. `keys`, uint64 [2]: keys of the hash of a datagram's IPv4
    address or IPv6 /64; zeros: the hash is 0.
    """
    total, packets, other, known = ZERO, ZERO, ZERO, ZERO
    for i in range(len(frames)):
        frame = frames[i]
        at = U64(frame.offset)
        end = at + U64(frame.length)
        link = U64(frame.link)
        codes[i] = 0
        if link == UDP_PAYLOAD:
            why = ZERO
            network = frame.source_hi if frame.source_hi else frame.source_lo
            owner = spread(weigh(keys, 0, network)) >> U64(56)
            first = True
            while first or (at < end and why == ZERO):
                first = False
                why, option = option_at(buf, at, end)
                count, tracked = ZERO, ZERO
                if why == ZERO:
                    why, count, tracked = labels_at(buf, option, end, end, EXPORT, max_hop)
                if why == ZERO and count == ZERO:
                    why = BAD_LENGTH | OF_LABEL
                if why == ZERO:
                    if option != at:
                        pull_flow(buf, at, option, packets, flows[known])
                        known += ONE
                    pull_labels(buf, option, EXPORT, count, tracked, packets, labels, total, owner)
                    total += count
                    packets += ONE
                    at = option + OPTION + count * ITEM
            if why == ZERO and U64(frame.wire_length) > U64(frame.length):
                why = TRUNCATED | OF_LABEL
            codes[i] = why
            continue
        if link == packet_kernel.ETHERNET:
            why, at, type_, _, _ = packet_kernel.ethernet(buf, at, end, end)
        else:
            why, at, type_, _, _ = packet_kernel.other_link(buf, at, end, link)
        if why:
            other += ONE
            continue
        form, limit = PUBLISHED, end
        if type_ == TYPE_ROUTE:
            why, at = behind_route(buf, at, end)
        elif type_ != TYPE_LABEL:
            form = PAPER
            version, carried, behind, limit = find_ip(buf, at, end, type_)
            if version == ZERO or carried != protocol:
                other += ONE
                continue
            why = ip_code(at, behind, end, limit)
            at = behind
            limit = min(limit, end)
        if why == ZERO:
            why, count, tracked = labels_at(buf, at, limit, end, form, max_hop)
            if why == ZERO:
                pull_labels(buf, at, form, count, tracked, packets, labels, total, ZERO)
                total += count
                packets += ONE
        codes[i] = why
    counts[PACKETS] = packets
    counts[OTHER] = other
    counts[FLOWS] = known
    return total
