"""Routing of the software switch: the egress port of every frame of an ingress port. Offsets are array
indices; all numbers are uint64 unless noted.

Parameters: `buf`: uint8 frame bytes; `frames`: FRAME; `addresses`: HOST_ADDRESS; `next_hops`: NEXT_HOPS;
`choices`: uint32, egress ports; `at`: uint64 [SwitchAt]; `counters`: uint64 [ports, PortCounter]; `rows`:
int32 [frames].
"""

from ..base.kernels.jit import I64, U64, be32, be64, inlined, kernel, mix64
from ..labels.records import PortCounter
from ..wire.headers import packet_kernel as packet
from ..wire.label.label_kernel import ITEM, NEXT, ONE, OPTION, PAPER, SIX, ZERO, find_ip, labels_at
from ..wire.layout import PROTOCOL_TCP, PROTOCOL_UDP
from .records import SwitchAt

RECEIVED, UNROUTED, DAMAGED = int(PortCounter.RECEIVED), int(PortCounter.UNROUTED), int(PortCounter.DAMAGED)
PROTOCOL, MAX_HOP, INGRESS = int(SwitchAt.PROTOCOL), int(SwitchAt.MAX_HOP), int(SwitchAt.INGRESS)
FROM_HOST, FIRST_NEXT_HOPS = int(SwitchAt.FROM_HOST), int(SwitchAt.FIRST_NEXT_HOPS)
TCP, UDP = U64(PROTOCOL_TCP), U64(PROTOCOL_UDP)
GOLDEN = U64(0x9E3779B97F4A7C15)


@inlined
def addresses_of(buf, ip, version):
    """(source, destination), two words each, IPv4 as ::ffff:a.b.c.d."""
    if version == SIX:
        source, target = ip + packet.IPV6_SOURCE, ip + packet.IPV6_DESTINATION
        return (
            be64(buf, source), be64(buf, source + U64(8)), be64(buf, target), be64(buf, target + U64(8)),
        )  # fmt: skip
    return (
        ZERO,
        packet.MAPPED | be32(buf, ip + packet.IPV4_SOURCE),
        ZERO,
        packet.MAPPED | be32(buf, ip + packet.IPV4_DESTINATION),
    )


@inlined
def is_part(buf, ip, version):
    """Whether an IPv4 packet is a fragment."""
    return version != SIX and (
        packet.get(buf, ip, packet.IPV4_FRAGMENT) != ZERO or packet.get(buf, ip, packet.IPV4_MORE) != ZERO
    )


@inlined
def ports_of(buf, ip, version, carried, payload, limit):
    """Source and destination port, 32 bits, of a packet whose `carried` protocol begins at `payload`; 0 for
    protocols without ports, and for fragments, since only the first has them.
    """
    if (carried == TCP or carried == UDP) and payload + U64(4) <= limit and not is_part(buf, ip, version):
        return be32(buf, payload)
    return ZERO


@kernel
def host_of(addresses, high, low):
    """Host with this address, int64; -1: none. HOST_ADDRESS rows are sorted by address."""
    first, end = 0, len(addresses)
    while first < end:
        middle = (first + end) // 2
        row = addresses[middle]
        if row.high < high or (row.high == high and row.low < low):
            first = middle + 1
        else:
            end = middle
    if first < len(addresses) and addresses[first].high == high and addresses[first].low == low:
        return I64(addresses[first].host)
    return I64(-1)


@kernel
def egress_of(buf, origin, end, addresses, next_hops, choices, at):
    """Egress port (row of the registers) of a frame, int64; below 0: -1 - the counter of the drop reason.

    All packets of a flow take one path, labelled or not; fragments are hashed by addresses only.
    """
    cut, ip, type_, _, _ = packet.ethernet(buf, origin, end, end)
    if cut:
        return I64(-1 - DAMAGED)
    if packet.ip_version(type_) == ZERO:
        return I64(-1 - UNROUTED)
    version, carried, payload, limit = find_ip(buf, ip, end, type_)
    if version == ZERO or payload > limit or limit > end:
        return I64(-1 - DAMAGED)
    if carried == at[PROTOCOL]:
        if at[FROM_HOST]:  # hosts do not send labels
            return I64(-1 - DAMAGED)
        reason, count, _ = labels_at(buf, payload, limit, end, PAPER, at[MAX_HOP])
        if reason:
            return I64(-1 - DAMAGED)
        carried = U64(buf[payload + NEXT])
        payload += OPTION + count * ITEM
    source_high, source_low, high, low = addresses_of(buf, ip, version)
    host = host_of(addresses, high, low)
    if host < 0:
        return I64(-1 - UNROUTED)
    entry = next_hops[at[FIRST_NEXT_HOPS] + U64(host)]
    if entry.count == 0:
        return I64(-1 - UNROUTED)
    mixed = mix64(source_low ^ mix64(source_high + GOLDEN)) ^ mix64(low ^ mix64(high)) ^ carried
    mixed ^= ports_of(buf, ip, version, carried, payload, limit) << U64(16)
    mixed = mix64(mixed + (at[FIRST_NEXT_HOPS] + ONE) * GOLDEN)
    return I64(choices[U64(entry.first) + mixed % U64(entry.count)])


@kernel
def route_frames(buf, frames, addresses, next_hops, choices, at, counters, rows):
    """Egress port of every frame of one ingress port, int32 [frames]; -1: dropped and counted."""
    port = at[INGRESS]
    for i in range(len(frames)):
        frame = frames[i]
        origin = U64(frame.offset)
        row = egress_of(buf, origin, origin + U64(frame.length), addresses, next_hops, choices, at)
        counters[port, RECEIVED] += ONE
        if row < 0:
            counters[port, -1 - row] += ONE
            row = I64(-1)
        rows[i] = row
