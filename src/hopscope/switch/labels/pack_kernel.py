"""Kernel that joins blocks of labels from a ring into datagrams."""

from ...base.kernels.jit import U64, kernel

ZERO = U64(0)


@kernel
def pack(arena, frames, most, out, ends):
    """Join the frames of an arena into datagrams of at most `most` bytes; returns their number.

    A longer frame is a datagram by itself. `out`, uint8, has room for all frames; `ends`, uint64 [frames],
    gets the end of each datagram in it.
    """
    count, begin, at = 0, ZERO, ZERO
    for i in range(len(frames)):
        place, size = U64(frames[i].offset), U64(frames[i].length)
        if at > begin and at + size - begin > most:
            ends[count] = at
            count += 1
            begin = at
        for k in range(size):
            out[at + U64(k)] = arena[place + U64(k)]
        at += size
    if at > begin:
        ends[count] = at
        count += 1
    return count
