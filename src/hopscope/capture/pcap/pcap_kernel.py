"""The walk over records of a capture file, compiled: the twin of `format.walk_plain`."""

from ...base.kernels.jit import U64, be32, kernel
from ..layout import MAX_RECORD, Block, Clock, Walk

_MORE, _FULL, _SECTION = int(Walk.MORE), int(Walk.FULL), int(Walk.SECTION)
_BAD_LENGTH, _BAD_INTERFACE, _LONG = int(Walk.BAD_LENGTH), int(Walk.BAD_INTERFACE), int(Walk.LONG)
_B_SECTION, _B_INTERFACE = int(Block.SECTION), int(Block.INTERFACE)
_B_ENHANCED, _B_PACKET, _B_SIMPLE = int(Block.ENHANCED_PACKET), int(Block.PACKET), int(Block.SIMPLE_PACKET)
_MULTIPLY, _DIVIDE = int(Clock.MULTIPLY), int(Clock.DIVIDE)
_SECOND = 1_000_000_000


@kernel
def le32(buf, at):
    """Little-endian 32 bits at index `at` (uint64), as uint64."""
    return (
        U64(buf[at])
        | (U64(buf[at + U64(1)]) << U64(8))
        | (U64(buf[at + U64(2)]) << U64(16))
        | (U64(buf[at + U64(3)]) << U64(24))
    )


@kernel
def word(buf, at, big):
    """32 bits in the file's byte order."""
    if big:
        return be32(buf, at)
    return le32(buf, at)


@kernel
def to_ns(ticks, clock, scale, offset_ns):
    """Ticks as ns, uint64; see `format.to_ns`."""
    if clock == _MULTIPLY:
        return ticks * scale + offset_ns
    if clock == _DIVIDE:
        return ticks // scale + offset_ns
    whole, fraction = U64(0), ticks
    if scale < U64(64):
        whole = ticks >> scale
        fraction = ticks & ((U64(1) << scale) - U64(1))
    short = scale - U64(34) if scale > U64(34) else U64(0)
    fraction = fraction >> short if short < U64(64) else U64(0)
    return whole * U64(_SECOND) + ((fraction * U64(_SECOND)) >> (scale - short)) + offset_ns


@kernel
def put(frame, offset, time_ns, length, wire_length, link):
    """Fill one FRAME."""
    frame.offset = offset
    frame.time_ns = time_ns
    frame.source_hi = U64(0)
    frame.source_lo = U64(0)
    frame.length = length
    frame.wire_length = wire_length
    frame.port = 0
    frame.link = link
    frame.source_port = 0


@kernel
def is_magic(first):
    """Whether a pcap file begins with these 32 bits, read as big-endian: see `format`."""
    return (
        first == U64(0xA1B2C3D4)
        or first == U64(0xD4C3B2A1)
        or first == U64(0xA1B23C4D)
        or first == U64(0x4D3CB2A1)
    )


@kernel
def walk_pcap(buf, at, end, big, interfaces, frames):
    """Index records of a pcap: number of frames, where it stopped, and why (Walk)."""
    at, end = U64(at), U64(end)
    scale, link = interfaces[0].scale, interfaces[0].link
    for count in range(len(frames)):
        if end - at < U64(16):
            return count, at, _MORE
        length = word(buf, at + U64(8), big)
        if length > U64(MAX_RECORD):
            return count, at, _BAD_LENGTH
        wire_length = word(buf, at + U64(12), big)
        if length | wire_length == U64(0) and is_magic(be32(buf, at)):
            return count, at, _SECTION
        if end - at - U64(16) < length:
            return count, at, _MORE
        time_ns = word(buf, at, big) * U64(_SECOND) + word(buf, at + U64(4), big) * scale
        put(frames[count], at + U64(16), time_ns, length, wire_length, link)
        at += U64(16) + length
    return len(frames), at, _FULL


@kernel
def packet(buf, at, kind, length, big, interfaces, frame):
    """Fill the frame of one packet block; FULL if that worked."""
    simple = kind == U64(_B_SIMPLE)
    if length < (U64(16) if simple else U64(32)):
        return _BAD_LENGTH
    number, ticks = U64(0), U64(0)
    if simple:
        wire_length = word(buf, at + U64(8), big)
        captured = min(wire_length, length - U64(16))
        start = at + U64(12)
    else:
        number = word(buf, at + U64(8), big)
        if kind == U64(_B_PACKET):  # 16 bits of interface, then 16 of drops
            number = number >> U64(16) if big else number & U64(0xFFFF)
        ticks = word(buf, at + U64(12), big) << U64(32) | word(buf, at + U64(16), big)
        captured = word(buf, at + U64(20), big)
        wire_length = word(buf, at + U64(24), big)
        start = at + U64(28)
        if captured > length - U64(32):
            return _BAD_LENGTH
    if number >= U64(len(interfaces)):
        return _BAD_INTERFACE
    row = interfaces[number]
    time_ns = U64(0)
    if simple:
        if row.snap_length != 0:
            captured = min(captured, U64(row.snap_length))
    else:
        time_ns = to_ns(ticks, row.clock, row.scale, row.offset_ns)
    put(frame, start, time_ns, captured, wire_length, row.link)
    return _FULL


@kernel
def walk_pcapng(buf, at, end, big, interfaces, frames):
    """Index blocks of one section of a pcapng: number of frames, where it stopped, and why (Walk)."""
    at, end, count = U64(at), U64(end), 0
    while count < len(frames):
        if end - at < U64(8):
            return count, at, _MORE
        kind, length = word(buf, at, big), word(buf, at + U64(4), big)
        if kind == U64(_B_SECTION) or kind == U64(_B_INTERFACE):
            return count, at, _SECTION
        if length < U64(12) or length & U64(3) != U64(0):
            return count, at, _BAD_LENGTH
        if length > U64(MAX_RECORD):
            return count, at, _LONG
        if at + length > end:
            return count, at, _MORE
        if word(buf, at + length - U64(4), big) != length:
            return count, at, _BAD_LENGTH
        if kind == U64(_B_ENHANCED) or kind == U64(_B_PACKET) or kind == U64(_B_SIMPLE):
            status = packet(buf, at, kind, length, big, interfaces, frames[count])
            if status != _FULL:
                return count, at, status
            count += 1
        at += length
    return count, at, _FULL
