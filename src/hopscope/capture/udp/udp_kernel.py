"""Converts messages of recvmmsg(2) to frames, and frames to messages of sendmmsg(2); compiled."""

from ...base.kernels.jit import U64, be16, be32, be64, inlined, kernel
from ...wire.telemetry.count_kernel import count_reports
from ..layout import CONTROL_BYTES, NAME_BYTES, Setup, Unpack
from ..limits_kernel import allowed, take
from ..pcap.pcap_kernel import le32

_MESSAGES, _NEXT, _AT = U64(Unpack.MESSAGES), U64(Unpack.NEXT), U64(Unpack.AT)
_DROPS_SEEN, _DROPS = U64(Unpack.DROPS_SEEN), U64(Unpack.DROPS)
_DENIED, _LIMITED, _OVERSIZED = U64(Unpack.DENIED), U64(Unpack.LIMITED), U64(Unpack.OVERSIZED)
_SLOT, _ROOMS, _STRIDE = U64(Setup.SLOT), U64(Setup.ROOMS), U64(Setup.STRIDE)
_PORT, _INTERVAL = U64(Setup.PORT), U64(Setup.INTERVAL_NS)
_MSG_TRUNC = 0x20
_AF_INET = U64(2)
_PORT_AT = U64(2)  # in sockaddr_in and sockaddr_in6
_MAPPED = U64(0xFFFF_0000_0000)
_SOCKADDR_IN6 = 28
# (level, type) of control messages, as the two words stand in memory
_RXQ_OVFL = U64(40) << U64(32) | U64(1)
_UDP_GRO = U64(104) << U64(32) | U64(17)
_UDP_SEGMENT = U64(103) << U64(32) | U64(17)
_IP_PKTINFO = U64(8) << U64(32)
_IPV6_PKTINFO = U64(50) << U64(32) | U64(41)
_UDP_PAYLOAD = 255


@kernel
def le64(buf, at):
    """Little-endian 64 bits at index `at` (uint64), as uint64."""
    return le32(buf, at) | le32(buf, at + U64(4)) << U64(32)


@inlined
def control(controls, at, length, state):
    """Read a message's control messages: count kernel drops, return a train's datagram length or 0."""
    end, segment = at + length, U64(0)
    while at + U64(16) <= end:
        size, kind = le64(controls, at), le64(controls, at + U64(8))
        if size < U64(20) or at + size > end:
            break
        value = le32(controls, at + U64(16))
        if kind == _UDP_GRO:
            segment = value
        elif kind == _RXQ_OVFL:
            # modulo 2^32; a value from before one that was asked for meanwhile is behind, and changes nothing
            ahead = (value - state[_DROPS_SEEN]) & U64(0xFFFFFFFF)
            if ahead < U64(0x80000000):
                state[_DROPS] += ahead
                state[_DROPS_SEEN] = value
        at += (size + U64(7)) & ~U64(7)
    return segment


@kernel
def source_of(names, at):
    """Source address of a sockaddr as (hi, lo); IPv4 as ::ffff:a.b.c.d."""
    if U64(names[at]) == _AF_INET:
        return U64(0), _MAPPED | be32(names, at + U64(4))
    return be64(names, at + U64(8)), be64(names, at + U64(16))


@kernel
def put(frame, offset, length, hi, lo, source_port, port, time_ns):
    """Fill one FRAME."""
    frame.offset = offset
    frame.time_ns = time_ns
    frame.source_hi = hi
    frame.source_lo = lo
    frame.length = length
    frame.wire_length = length
    frame.port = port
    frame.link = _UDP_PAYLOAD
    frame.source_port = source_port


@inlined
def split(
    arena, start, length, at, segment, hi, lo, source_port, count, frames, buckets, setup, time_ns, now_ns
):
    """Describe the train of datagrams of `segment` bytes at `start`, from its byte `at` on, while there is
    room. Returns (frames, where the next call continues, datagrams above the rate limit); at the end of the
    train, the second is `length`, or 0 for an empty datagram.
    """
    limited, above = setup[_INTERVAL] != U64(0), U64(0)
    while count < len(frames):
        part = min(segment, length - at)
        if limited and not take(buckets, setup, hi, lo, now_ns, count_reports(arena, start + at, part)):
            above += U64(1)
        else:
            put(frames[count], start + at, part, hi, lo, source_port, setup[_PORT], time_ns)
            count += 1
        at += part
        if at >= length:
            break
    return count, at, above


@kernel
def place(octets, m, length, setup, begins):
    """Offset of message `m`. One longer than a slot continues in its room, before which there is space for
    what the slot holds; if it `begins`, it is made contiguous there.
    """
    slot = m * setup[_SLOT]
    if length <= setup[_SLOT]:
        return slot
    room = setup[_ROOMS] + m * setup[_STRIDE]
    if begins:
        for i in range(setup[_SLOT]):
            octets[room + i] = octets[slot + i]
    return room


@kernel
def unpack(arena, octets, messages, names, controls, frames, ranges, buckets, setup, state, time_ns, now_ns):
    """Describe received datagrams in `frames` until it is full or all are described; returns how many.
    `octets` is the arena, to be written.

    Rejected datagrams are counted in `state`, which also says where the next call continues. A finished
    message is prepared for the next receive call.
    """
    count = 0
    while count < len(frames) and state[_NEXT] < state[_MESSAGES]:
        m = state[_NEXT]
        message = messages[m]
        length = U64(message.length)
        segment = control(controls, m * U64(CONTROL_BYTES), U64(message.control_length), state)
        if segment == U64(0) or segment > length:
            segment = length
        name = m * U64(NAME_BYTES)
        hi, lo = source_of(names, name)
        if message.flags & _MSG_TRUNC:
            state[_OVERSIZED] += U64(1)
            state[_NEXT] += U64(1)
        elif not allowed(ranges, hi, lo):
            state[_DENIED] += (length + segment - U64(1)) // segment if length else U64(1)
            state[_NEXT] += U64(1)
        else:
            count, at, above = split(
                arena, place(octets, m, length, setup, state[_AT] == U64(0)), length, state[_AT], segment,
                hi, lo, be16(names, name + _PORT_AT), count, frames, buckets, setup, time_ns, now_ns,
            )  # fmt: skip
            state[_LIMITED] += above
            state[_AT] = at
            if at >= length:
                state[_NEXT] += U64(1)
                state[_AT] = U64(0)
        if state[_NEXT] > m:
            message.name_length = _SOCKADDR_IN6
            message.control_length = CONTROL_BYTES
            message.flags = 0
    return count


@kernel
def put64(buf, at, value):
    """Store 64 bits, little-endian."""
    for i in range(8):
        buf[at + U64(i)] = (value >> U64(8 * i)) & U64(0xFF)


@kernel
def put_be64(buf, at, value):
    """Store 64 bits, big-endian."""
    for i in range(8):
        buf[at + U64(i)] = (value >> U64(56 - 8 * i)) & U64(0xFF)


@kernel
def put_controls(controls, at, segment, source, hi, lo):
    """Write the control messages of a train (`segment` bytes each; 0: none) from a source; their length.

    `source` is 0 for none, else 4 or 6. Layouts: cmsg(3), ip(7) IP_PKTINFO, ipv6(7) IPV6_PKTINFO.
    """
    first = at
    if segment:
        put64(controls, at, U64(18))
        put64(controls, at + U64(8), _UDP_SEGMENT)
        put64(controls, at + U64(16), segment)
        at += U64(24)
    if source == 4:
        address = lo & U64(0xFFFFFFFF)
        swapped = ((address & U64(0xFF)) << U64(24)) | ((address & U64(0xFF00)) << U64(8)) \
            | ((address >> U64(8)) & U64(0xFF00)) | (address >> U64(24))  # fmt: skip
        put64(controls, at, U64(28))
        put64(controls, at + U64(8), _IP_PKTINFO)
        put64(controls, at + U64(16), swapped << U64(32))  # no interface, then ipi_spec_dst
        put64(controls, at + U64(24), U64(0))
        at += U64(32)
    elif source == 6:
        put64(controls, at, U64(36))
        put64(controls, at + U64(8), _IPV6_PKTINFO)
        put_be64(controls, at + U64(16), hi)
        put_be64(controls, at + U64(24), lo)
        put64(controls, at + U64(32), U64(0))
        at += U64(40)
    return at - first


@kernel
def train(frames, i, most, by_source):
    """End of the run of frames from `i` that one message may carry: equal lengths, a shorter one last."""
    segment = frames[i].length
    total, j = U64(0), i
    while j < len(frames) and j - i < most:
        length = frames[j].length
        total += U64(length)
        if length > segment or (j > i and (total > U64(65_000) or length == 0)):
            break
        if by_source and (
            frames[j].source_lo != frames[i].source_lo or frames[j].source_hi != frames[i].source_hi
        ):
            break
        j += 1
        if length < segment or segment == 0:
            break
    return j


@kernel
def plan(base, frames, i, most, source, messages, iovecs, controls, ends):
    """Fill `messages` for sendmmsg(2) with trains of at most `most` frames from frame `i` on; their number.

    `ends[m]` is the frame after message m. Frames that are adjacent in memory share an iovec.
    """
    m, v = 0, 0
    while m < len(messages) and i < len(frames) and v + most <= len(iovecs):
        end = train(frames, i, most, source != 0)
        first = v
        for f in range(i, end):
            address, length = U64(base) + frames[f].offset, U64(frames[f].length)
            if v > first and iovecs[v - 1].base + iovecs[v - 1].length == address:
                iovecs[v - 1].length += length
            else:
                iovecs[v].base = address
                iovecs[v].length = length
                v += 1
        segment = U64(frames[i].length) if end - i > 1 else U64(0)
        messages[m].iov = U64(iovecs.ctypes.data) + U64(16 * first)
        messages[m].iov_count = v - first
        messages[m].control_length = put_controls(
            controls, U64(m * CONTROL_BYTES), segment, source, frames[i].source_hi, frames[i].source_lo
        )
        ends[m] = end
        i = end
        m += 1
    return m
