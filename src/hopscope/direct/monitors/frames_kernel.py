"""Captured frames to observations: Ethernet, IP and TCP or UDP headers.

Parameters: `arena`: uint8 frame bytes; `frames`: FRAME [frames]; `out`: OBSERVATION [frames]; `flow`: uint8
[13]."""

from ...base.kernels.jit import U8, U32, U64, be16, be32, kernel, mix64
from ...wire import layout
from ...wire.decode.walk_kernel import packet_id
from ...wire.headers import packet_kernel as packet

TCP, UDP = U64(layout.PROTOCOL_TCP), U64(layout.PROTOCOL_UDP)
PORTS, UDP_HEADER, TCP_HEADER = U64(4), U64(8), U64(20)
SEQUENCE, ACKNOWLEDGMENT = packet.byte(layout.TCP, "sequence"), packet.byte(layout.TCP, "acknowledgment")
WORDS, FLAGS = U64(layout.TCP.field("header_words").at // 8), packet.byte(layout.TCP, "flags")
LATER = U64(1)
"""A fragment that is not the first has no L4 header."""
ONE = U64(1)


@kernel
def folded(high, low):
    """`observation.fold` of an address."""
    if high == packet.NONE and low >> U64(32) == U64(0xFFFF):
        return low & U64(0xFFFFFFFF)
    return mix64(mix64(high) ^ low) >> U64(32)


@kernel
def put(flow, at, value, count):
    """Write the lowest `count` bytes of a number into a flow, big-endian."""
    for i in range(count):
        flow[at + i] = U8((value >> (U64(8) * (count - ONE - i))) & U64(255))


@kernel
def observe(arena, frames, switch, out):
    """Write one observation per frame that is an IP packet to the first rows of `out`; returns their
    number.
    """
    count = 0
    for row in range(len(frames)):
        frame = frames[row]
        start = U64(frame["offset"])
        end = start + U64(frame["length"])
        if U64(frame["link"]) == packet.ETHERNET:
            reason, at, type_, _, _ = packet.ethernet(arena, start, end, end)
        else:
            reason, at, type_, _, _ = packet.other_link(arena, start, end, U64(frame["link"]))
        version = packet.ip_version(type_)
        if reason or version == packet.NONE:
            continue
        ip = at
        if version == U64(4):
            reason, at, protocol, _, length, part = packet.ipv4(arena, ip, end, end, True)
        else:
            reason, at, protocol, _, length, part = packet.ipv6(arena, ip, end, end)
        if reason:
            continue
        seen = out[count]
        count += 1
        limit = min(end, ip + length)
        sport, dport, ports, headers = packet.NONE, packet.NONE, packet.NONE, packet.NONE
        seen["sequence"] = seen["acknowledgment"] = U32(0)
        seen["flags"] = U8(0)
        if part != LATER and (protocol == TCP or protocol == UDP) and at + PORTS <= limit:
            sport, dport, ports = be16(arena, at), be16(arena, at + U64(2)), at + PORTS
            headers = UDP_HEADER
            if protocol == TCP:
                headers = TCP_HEADER
                if at + TCP_HEADER <= limit:
                    seen["sequence"] = U32(be32(arena, at + SEQUENCE))
                    seen["acknowledgment"] = U32(be32(arena, at + ACKNOWLEDGMENT))
                    seen["flags"] = arena[at + FLAGS]
                    headers = max(TCP_HEADER, (U64(arena[at + WORDS]) >> U64(4)) << U64(2))
        covered = at - ip + headers
        source = packet.address(arena, ip, version, packet.IPV4_SOURCE, packet.IPV6_SOURCE)
        destination = packet.address(arena, ip, version, packet.IPV4_DESTINATION, packet.IPV6_DESTINATION)
        flow = seen["flow"]
        put(flow, U64(0), folded(source[0], source[1]), U64(4))
        put(flow, U64(4), folded(destination[0], destination[1]), U64(4))
        put(flow, U64(8), U64(protocol), U64(1))
        put(flow, U64(9), U64(sport), U64(2))
        put(flow, U64(11), U64(dport), U64(2))
        seen["time_ns"] = frame["time_ns"]
        seen["packet"] = packet_id(arena, ip, version, length, ports, limit)
        seen["switch"] = U32(switch)
        seen["size"] = U32(length)
        seen["payload"] = U32(length - covered) if length > covered else U32(0)
        seen["ip_version"] = U8(version)
        seen["hop"] = seen["path_length"] = seen["is_sink"] = U8(1)
    return count
