"""Finds the messages of IPFIX in the bytes of a TCP connection (RFC 7011 10.4.3)."""

from ...base.kernels.jit import U64, be16, kernel
from ...wire.ipfix import layout

VERSION, SIZE = U64(layout.IPFIX), U64(layout.IPFIX_MESSAGE.size)
START = U64(4)
"""Bytes that hold the version and length of a message."""
PARTIAL, FULL, DAMAGED = U64(0), U64(1), U64(2)
"""Why it ended: the last message is incomplete, there is no room for more frames, or what follows is not the
header of a message: then nothing after it can be read.
"""


@kernel
def split_messages(buf, at, end, offset, frames, count):
    """Describe the whole messages from `at` on in `frames`, after `count` of them; `offset` is added to each
    place. Returns (where the next message begins, number of frames, why it ended).
    """
    while at + START <= end:
        length = be16(buf, at + U64(2))
        if be16(buf, at) != VERSION or length < SIZE:
            return at, count, DAMAGED
        if at + length > end:
            return at, count, PARTIAL
        if count == U64(len(frames)):
            return at, count, FULL
        frames[count].offset = offset + at
        frames[count].length = length
        frames[count].wire_length = length
        count += U64(1)
        at += length
    return at, count, PARTIAL
