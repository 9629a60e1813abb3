"""Kernel that copies datagrams into a ring, and writes the number of each datagram into its reports.

===================== ==========================================================================
`frames`, `words`     FRAME [n], and the same memory as uint64 [6 n]
`arena`               uint8: the frames' bytes
`reports`             REPORT: decoded from the frames; `packet` is replaced with the number
`data`                uint8 [power of two, 1 MiB or more]: the ring
`numbers`             uint32 [n or more]: scratch, the numbers of the frames
===================== ==========================================================================
"""

from __future__ import annotations

from typing import Any

from ...base.kernels.jit import U32, U64, fence, kernel, load64, move, stream128
from . import layout

LINE, HEAD = U64(layout.LINE), U64(layout.HEAD)
PLACES = U64(layout.PLACES)
NOT_HELD = U32(layout.NOT_HELD)
MAX_BYTES = U64(layout.MAX_BYTES)
LOW_48 = U64(0xFFFFFFFFFFFF)


@kernel
def hold(frames, words, arena, reports, data, numbers, first, position, limit, high, dialect):
    """Copy frames from the row `first` on to `position` (bytes written so far), but not beyond `limit`.

    Returns the row of the first frame that did not fit, and the new position. If all frames fit, that row is
    the number of frames, and the reports are numbered. `high`: the worker, in the highest bits of a number.
    """
    n = U64(len(frames))
    room = U64(len(data))
    size = U64(len(arena))
    i: Any = first
    while i < n:
        length = U64(frames[i].length)
        if length > MAX_BYTES:
            numbers[i] = NOT_HELD
            i += U64(1)
            continue
        need = (HEAD + length + LINE - U64(1)) & ~(LINE - U64(1))
        at: Any = position & (room - U64(1))
        if at + need > room:
            position += room - at
            at = U64(0)
        if position + need > limit:
            return i, position
        word = i * U64(6)
        stream128(data, at, position, words[word + U64(1)])
        stream128(data, at + U64(16), words[word + U64(2)], words[word + U64(3)])
        last = (words[word + U64(5)] & LOW_48) | (dialect << U64(48))
        stream128(data, at + U64(32), words[word + U64(4)], last)
        to: Any = at + HEAD
        source: Any = U64(frames[i].offset)
        end = source + length
        if end + U64(15) <= size and (length + U64(15)) & ~U64(15) <= need - HEAD:
            while source < end:  # copies beyond the end, where nothing is read: no loop for the remainder
                stream128(data, to, load64(arena, source), load64(arena, source + U64(8)))
                source += U64(16)
                to += U64(16)
            while to & (LINE - U64(1)):  # whole cache lines are written without being read first
                stream128(data, to, U64(0), U64(0))
                to += U64(16)
        else:
            move(data, to, arena, source, length)
        numbers[i] = U32(high | ((position // LINE) & PLACES))
        position += need
        i += U64(1)
    fence()
    for r in range(len(reports)):
        reports[r].packet = numbers[U64(reports[r].packet)]
    return n, position
