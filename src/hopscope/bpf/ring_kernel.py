"""Kernel that describes records of a BPF ring (kernel/bpf/ringbuf.c) as frames, in place."""

from ..base.kernels.jit import U8, U32, U64, kernel, load64, order_reads
from .layout import BUSY, DISCARDED, NOWHERE, RECORD_BYTES, REPORT_HEAD, Mark

_BUSY, _DISCARDED = U64(BUSY), U64(DISCARDED)
_LENGTH, _RECORD, _HEAD = U64(DISCARDED - 1), U64(RECORD_BYTES), U64(REPORT_HEAD.itemsize)
_LOW_32, _LOW_16 = U64(0xFFFFFFFF), U64(0xFFFF)
_AT_HIGH, _AT_LOW, _AT_LENGTH, _AT_RECEIVED, _AT_SOURCE = U64(8), U64(16), U64(24), U64(32), U64(40)
_MERGE, _NOWHERE = U64(Mark.MERGE), U64(NOWHERE)


@kernel
def walk(ring, start, end, frames, marks, rows, received, met, epoch_ns, link, done):
    """Describe records from position `start` to `end` in `frames`, until these are full or a record is still
    being written; returns their number. Sources are merged before a batch, so all its datagrams with MERGE
    of one source must have the same `received`; the batch ends before one that differs.

    `ring` is uint8 [2 * size], mapped twice so that no record is cut. `marks`, `rows` and `received` are
    copied from the heads, uint8, uint32, uint64 [frames].  `met` is uint64 [sources]: `received` of each
    source plus 1; all zero before and after the call. `epoch_ns`: offset from the kernel's clock to the time
    since 1970. `done` is uint64 [1]: the position after the last record.
    """
    mask = U64(len(ring)) // U64(2) - U64(1)
    count = 0
    at = start
    while at < end and count < len(frames):
        place = at & mask
        length = load64(ring, place) & _LOW_32
        if length & _BUSY:
            break
        order_reads()
        if not length & _DISCARDED:
            head = place + _RECORD
            last = load64(ring, head + _AT_SOURCE)
            row, mark = last & _LOW_32, last >> U64(32)
            so_far = load64(ring, head + _AT_RECEIVED)
            if mark & _MERGE and row != _NOWHERE:
                if met[row] and met[row] != so_far + U64(1):
                    break
                met[row] = so_far + U64(1)
            marks[count] = U8(mark)
            rows[count] = U32(row)
            received[count] = so_far
            last = load64(ring, head + _AT_LENGTH)
            frame = frames[count]
            frame.offset = head + _HEAD
            frame.time_ns = load64(ring, head) + epoch_ns
            frame.source_hi = load64(ring, head + _AT_HIGH)
            frame.source_lo = load64(ring, head + _AT_LOW)
            frame.length = last & _LOW_32
            frame.wire_length = last & _LOW_32
            frame.source_port = (last >> U64(32)) & _LOW_16
            frame.port = last >> U64(48)
            frame.link = link
            count += 1
        at += (_RECORD + (length & _LENGTH) + U64(7)) & ~U64(7)
    for k in range(count):
        row = U64(rows[k])
        if row != _NOWHERE:
            met[row] = U64(0)
    done[0] = at
    return count
