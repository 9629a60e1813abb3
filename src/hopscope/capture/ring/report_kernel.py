"""Finds payloads of UDP datagrams in blocks of a receive ring, in place; compiled."""

from ...base.kernels.jit import U64, be16, be32, be64, inlined, kernel
from ...wire.headers.packet_kernel import IPV4, IPV6, MAPPED, NONE, is_tag
from ...wire.records import Link
from ..layout import VNET_BYTES, VNET_TRAIN_BYTES, VNET_TRAIN_KIND, PacketAt, Ring, RingSetup, Setup
from ..limits_kernel import allowed, take
from ..udp.udp_kernel import put, split
from .ring_kernel import begin_block, hand_back, le16, leave_block, outgoing, packet_at, time_of

_AT, _LEFT, _IN_TRAIN = U64(Ring.AT), U64(Ring.LEFT), U64(Ring.IN_TRAIN)
_BLOCK, _BLOCK_BYTES = U64(Ring.BLOCK), U64(RingSetup.BLOCK_BYTES)
_OVERSIZED, _DENIED, _LIMITED = U64(Ring.OVERSIZED), U64(Ring.DENIED), U64(Ring.LIMITED)
_PORT, _INTERVAL = U64(Setup.PORT), U64(Setup.INTERVAL_NS)
_END, _VNET = U64(PacketAt.END), U64(VNET_BYTES)
_TRAIN_KIND, _TRAIN_BYTES = U64(VNET_TRAIN_KIND), U64(VNET_TRAIN_BYTES)
_UDP_TRAIN, _TRAIN_MASK = U64(5), U64(0x7F)
_ETHERNET = int(Link.ETHERNET)
_UDP, _ETHERNET_BYTES, _TAG_BYTES, _UDP_BYTES = U64(17), U64(14), U64(4), U64(8)
_IPV4_BYTES, _IPV6_BYTES = U64(20), U64(40)


@inlined
def datagram(ring, start, end, port):
    """(payload, its bytes, source high, source low, source port) of an Ethernet frame with a whole UDP
    datagram to `port`; payload 0 for anything else, source 0 without an IP header.
    """
    at = start + _ETHERNET_BYTES
    if at + _IPV4_BYTES > end:
        return NONE, NONE, NONE, NONE, NONE
    type_ = be16(ring, at - U64(2))
    while is_tag(type_) and at + _TAG_BYTES + _IPV4_BYTES <= end:
        at += _TAG_BYTES
        type_ = be16(ring, at - U64(2))
    if type_ == IPV4:
        high, low = NONE, MAPPED | be32(ring, at + U64(12))
        first, bound = U64(ring[at]), at + be16(ring, at + U64(2))
        whole = be16(ring, at + U64(6)) & U64(0x3FFF) == NONE and U64(ring[at + U64(9)]) == _UDP
        udp = at + (first & U64(15)) * U64(4)
        whole = whole and first >= U64(0x45) and first <= U64(0x4F)
    elif type_ == IPV6 and at + _IPV6_BYTES <= end:
        high, low = be64(ring, at + U64(8)), be64(ring, at + U64(16))
        bound = at + _IPV6_BYTES + be16(ring, at + U64(4))
        udp = at + _IPV6_BYTES
        whole = U64(ring[at]) >> U64(4) == U64(6) and U64(ring[at + U64(6)]) == _UDP
    else:
        return NONE, NONE, NONE, NONE, NONE
    if not whole or udp + _UDP_BYTES > end or bound > end or be16(ring, udp + U64(2)) != port:
        return NONE, NONE, high, low, NONE
    length = be16(ring, udp + U64(4))
    if length < _UDP_BYTES or udp + length > bound:
        return NONE, NONE, high, low, NONE
    return udp + _UDP_BYTES, length - _UDP_BYTES, high, low, be16(ring, udp)


@kernel
def walk_reports(ring, frames, setup, state, ranges, buckets, limits, now_ns):
    """Hand back what the last batch held, then describe datagrams in `frames` until they are full, or enough
    blocks are held, or nothing is ready; returns how many.

    `limits`: parameters of `Setup`. A frame that is not a plain, complete datagram is left to the decoder, as
    a frame of Link.ETHERNET without its outermost VLAN tag. A truncated frame, and a packet that extends
    beyond its block, are counted as oversized.
    """
    hand_back(ring, setup, state)
    count = 0
    while count < len(frames) and begin_block(ring, setup, state):
        end = (state[_BLOCK] + U64(1)) * setup[_BLOCK_BYTES]
        at, left = state[_AT], state[_LEFT]
        while left and count < len(frames):
            if at + _END > end:
                state[_OVERSIZED] += left
                left = U64(0)
                break
            step, start, captured, whole = packet_at(ring, at, end)
            if not whole:
                state[_OVERSIZED] += U64(1)
            elif not outgoing(ring, at):
                time_ns = time_of(ring, at)
                payload, length, high, low, source_port = datagram(
                    ring, start, start + captured, limits[_PORT]
                )
                segment = NONE
                if U64(ring[start - _VNET + _TRAIN_KIND]) & _TRAIN_MASK == _UDP_TRAIN:
                    segment = le16(ring, start - _VNET + _TRAIN_BYTES)
                if segment == NONE or segment > length:
                    segment = length
                if not allowed(ranges, high, low):
                    state[_DENIED] += (length + segment - U64(1)) // segment if length else U64(1)
                elif payload == NONE:
                    if limits[_INTERVAL] and not take(buckets, limits, high, low, now_ns, U64(1)):
                        state[_LIMITED] += U64(1)
                    else:
                        put(frames[count], start, captured, NONE, NONE, NONE, NONE, time_ns)
                        frames[count].link = _ETHERNET
                        count += 1
                else:
                    count, done, above = split(
                        ring, payload, length, state[_IN_TRAIN], segment, high, low, source_port, count,
                        frames, buckets, limits, time_ns, now_ns,
                    )  # fmt: skip
                    state[_LIMITED] += above
                    state[_IN_TRAIN] = done if done < length else NONE
                    if done < length:
                        break
            at += step
            left -= U64(1)
        leave_block(setup, state, at, left)
    return count
