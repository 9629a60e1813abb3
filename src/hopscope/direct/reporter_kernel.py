"""Reports that a reporter keeps until they are acknowledged, for retransmission.

Parameters: `kept`: BUFFERED_REPORT [slots], a report's slot is its number modulo slots; `store`: uint8 [slots
* width], their payloads; `tally`: uint64 [TALLIES]; `following`: number of the next report.
"""

from ..base.kernels.jit import U8, U16, U32, U64, inlined, kernel
from ..wire.dta.records import DtaFlag
from ..wire.records import Link

AGED, GIVEN_UP, ACKNOWLEDGED, NACKS, UNSOLICITED = range(5)
"""Indices into `tally`; see `Reporter.counts`."""
TALLIES = 5
RETRANSMIT = U8(DtaFlag.RETRANSMIT)
UDP_PAYLOAD = U8(Link.UDP_PAYLOAD)
ZERO, ONE = U64(0), U64(1)


@kernel
def keep(reports, arena, frames, first, kept, store, tally):
    """Keep the payloads of reports with the retransmit flag; `first` is the number of the first report."""
    slots = U64(len(kept))
    width = U64(len(store)) // slots
    for i in range(len(reports)):
        if not reports[i].flags & RETRANSMIT:
            continue
        number = first + U64(i)
        slot = number & (slots - ONE)
        row = kept[slot]
        if row.buffered:
            tally[AGED] += ONE
        at, length = U64(frames[i].offset), U64(frames[i].length)
        for j in range(length):
            store[slot * width + U64(j)] = arena[at + U64(j)]
        row.number = number
        row.length = U16(length)
        row.tries = U8(0)
        row.pending = U8(0)
        row.buffered = U8(1)


@inlined
def buffered(kept, number):
    """Whether a report is still kept."""
    row = kept[number & (U64(len(kept)) - ONE)]
    return row.buffered != U8(0) and row.number == number


@kernel
def answered(answers, following, mask, tries, kept, tally):
    """Process ACKs and NACKs: these make reports due for retransmission.

    An answer about a report that was never sent, or is more than half the number space old, is unsolicited.
    """
    slots = U64(len(kept))
    oldest = following - min(following, slots)
    for i in range(len(answers)):
        answer = answers[i]
        distance = (following - ONE - U64(answer.sequence)) & mask
        if distance >= following or distance > mask >> ONE:
            tally[UNSOLICITED] += ONE
            continue
        number = following - ONE - distance
        if not answer.nack:
            for sent in range(oldest, number + ONE):
                if buffered(kept, sent):
                    kept[sent & (slots - ONE)].buffered = U8(0)
                    tally[ACKNOWLEDGED] += ONE
            continue
        tally[NACKS] += ONE
        end = min(number + U64(answer.count), following) if answer.count else following
        if number < oldest:
            tally[GIVEN_UP] += min(end, oldest) - number
        for sent in range(max(number, oldest), end):
            if not buffered(kept, sent):
                continue
            row = kept[sent & (slots - ONE)]
            if row.pending:
                continue
            if row.tries >= tries:
                row.buffered = U8(0)
                tally[GIVEN_UP] += ONE
                continue
            row.pending = U8(1)
            row.tries += U8(1)


@kernel
def collect(following, kept, store, out, frames):
    """Write the reports due for retransmission, in order; returns the bytes used."""
    slots = U64(len(kept))
    width = U64(len(store)) // slots
    at, count = ZERO, ZERO
    for number in range(following - min(following, slots), following):
        slot = U64(number) & (slots - ONE)
        row = kept[slot]
        if not buffered(kept, U64(number)) or row.pending == U8(0):
            continue
        row.pending = U8(0)
        length = U64(row.length)
        for j in range(length):
            out[at + U64(j)] = store[slot * width + U64(j)]
        frame = frames[count]
        frame.offset = at
        frame.length = U32(length)
        frame.wire_length = U32(length)
        frame.link = UDP_PAYLOAD
        at += length
        count += ONE
    return at
