"""Kernel that puts individual reports into datagrams of Telemetry Report 2.0."""

from ..base.kernels.jit import U8, U32, U64, kernel
from ..wire.records import Link

GROUP_BYTES = 8
"""Bytes of a group header (Telemetry Report 2.0, 3.1)."""
_GROUP, _BYTE, _TO_END = U64(GROUP_BYTES), U64(0xFF), U64(0xFF)
_VERSION, _SEQUENCE = U64(2 << 28), U64((1 << 22) - 1)
_LINK = U8(Link.UDP_PAYLOAD)


@kernel
def put32(out, at, value):
    """Write a word in network order."""
    for k in range(4):
        out[at + U64(k)] = U8((value >> U64(24 - 8 * k)) & _BYTE)


@kernel
def pack(arena, frames, out, datagrams, node_id, sequence, most):
    """Put reports (FRAME [n] of `arena`) into datagrams of at most `most` bytes, or of one longer report;
    returns the number of datagrams.

    `out` is uint8 with room for all reports and a group header for each; `datagrams` is FRAME [n].  Sequence
    numbers continue from `sequence`. A report whose length is not stated (0xff) is the last one of its
    datagram (Telemetry Report 2.0, 3.2).
    """
    count, at, start, full = 0, U64(0), U64(0), True
    for i in range(len(frames)):
        size, from_ = U64(frames[i].length), U64(frames[i].offset)
        if full or at - start + size > most:
            start = at
            put32(out, at, _VERSION | ((sequence + U64(count)) & _SEQUENCE))
            put32(out, at + U64(4), node_id)
            at += _GROUP
            datagrams[count].offset = start
            datagrams[count].link = _LINK
            count += 1
        for k in range(size):
            out[at + U64(k)] = arena[from_ + U64(k)]
        at += size
        datagrams[count - 1].length = U32(at - start)
        full = U64(arena[from_ + U64(1)]) == _TO_END
    return count
