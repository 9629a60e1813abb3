"""What a reporter keeps, to send it again when a NACK names it. The slot of a report is its number modulo the
slots.
"""

from __future__ import annotations

from typing import Any

from ..base.jit import U8, U16, U32, U64, inlined, kernel
from ..wire.records import DtaFlag, Link

AGED, GIVEN_UP, ACKNOWLEDGED, NACKS, STRANGE = range(5)
"""Places in `tally`, uint64: see `Reporter.counts`."""
TALLIES = 5
RETRANSMIT = U8(DtaFlag.RETRANSMIT)
UDP_PAYLOAD = U8(Link.UDP_PAYLOAD)
ZERO, ONE = U64(0), U64(1)


@kernel
def keep(reports: Any, arena: Any, frames: Any, first: Any, kept: Any, store: Any, tally: Any) -> None:
    """Keep the payloads of reports that ask for retransmission; the first has the number `first`."""
    slots = U64(len(kept))
    width = U64(len(store)) // slots
    for i in range(len(reports)):
        if not reports[i].flags & RETRANSMIT:
            continue
        number = first + U64(i)
        slot = number & (slots - ONE)
        row = kept[slot]
        if row.held:
            tally[AGED] += ONE
        at, length = U64(frames[i].offset), U64(frames[i].length)
        for j in range(length):
            store[slot * width + U64(j)] = arena[at + U64(j)]
        row.number = number
        row.length = U16(length)
        row.tries = U8(0)
        row.pending = U8(0)
        row.held = U8(1)


@inlined
def held(kept: Any, number: Any) -> Any:
    """Whether a report is still there."""
    row = kept[number & (U64(len(kept)) - ONE)]
    return row.held != U8(0) and row.number == number


@kernel
def answered(answers: Any, following: Any, mask: Any, tries: Any, kept: Any, tally: Any) -> Any:
    """Take ACKs and NACKs; `following` is the number of the next report. Returns how many are now to be sent
    again.

    An answer about a report that was never sent, or of more than half the numbers ago, is strange.
    """
    slots, pending = U64(len(kept)), ZERO
    oldest = following - min(following, slots)
    for i in range(len(answers)):
        answer = answers[i]
        distance = (following - ONE - U64(answer.sequence)) & mask
        if distance >= following or distance > mask >> ONE:
            tally[STRANGE] += ONE
            continue
        number = following - ONE - distance
        if not answer.nack:
            for one in range(oldest, number + ONE):
                if held(kept, one):
                    kept[one & (slots - ONE)].held = U8(0)
                    tally[ACKNOWLEDGED] += ONE
            continue
        tally[NACKS] += ONE
        end = min(number + U64(answer.count), following) if answer.count else following
        if number < oldest:
            tally[GIVEN_UP] += min(end, oldest) - number
        for one in range(max(number, oldest), end):
            if not held(kept, one):
                continue
            row = kept[one & (slots - ONE)]
            if row.pending:
                continue
            if row.tries >= tries:
                row.held = U8(0)
                tally[GIVEN_UP] += ONE
                continue
            row.pending = U8(1)
            row.tries += U8(1)
            pending += ONE
    return pending


@kernel
def collect(following: Any, kept: Any, store: Any, out: Any, frames: Any) -> Any:
    """Write the reports that are to be sent again, in order; returns the bytes used."""
    slots = U64(len(kept))
    width = U64(len(store)) // slots
    at, count = ZERO, ZERO
    for number in range(following - min(following, slots), following):
        slot = U64(number) & (slots - ONE)
        row = kept[slot]
        if not held(kept, U64(number)) or row.pending == U8(0):
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
