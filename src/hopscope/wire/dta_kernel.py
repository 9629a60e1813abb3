"""Datagrams to DTA records, by the checks of dta.py in the same order. Offsets are indices into the arena.

A record is written once, as four words; `words` is the memory of the records as uint64.
"""

from __future__ import annotations

from typing import Any

from ..jit import U8, U64, be16, be32, be64, inlined, kernel
from .decode_kernel import outer
from .reasons import DtaReason, Reason
from .records import Link

UDP_PAYLOAD = U64(Link.UDP_PAYLOAD)
TRUNCATED, UNKNOWN_OPCODE = U64(DtaReason.TRUNCATED << 56), U64(DtaReason.UNKNOWN_OPCODE << 56)
BAD_LENGTH = U64(DtaReason.BAD_LENGTH << 56)
NOT_DTA, CUT, OF_LENGTH = U8(DtaReason.NOT_DTA), U8(DtaReason.TRUNCATED), U8(DtaReason.BAD_LENGTH)
BAD_OUTER_LENGTH = U64(Reason.BAD_LENGTH)
APPEND, KEY_INCREMENT = U64(2), U64(3)
SIZE, KEY_AT, KEY_BYTES, DATA_AT, DATA_BYTES, REDUNDANCY, HOP, NUMBER = range(8)
"""Bytes of an opcode's rule, least significant first: where its published header has what, counted from
behind the base header. REDUNDANCY and HOP are twice the offset, plus 1 where there is such a field.
"""
IS_LIST, IS_COUNTER = 1, 2
"""Bits of NUMBER: the key is a list, the data is a counter."""
BYTE, WORD = U64(0xFF), U64(0xFFFFFFFF)
ZERO, ONE = U64(0), U64(1)
SIZED_BYTES = U64(12)


@inlined
def part(rule: Any, place: Any) -> Any:
    """One byte of a rule; `place` is a constant."""
    return (rule >> U64(8 * place)) & BYTE


@inlined
def put_record(words: Any, i: Any, counter: Any, places: Any, numbers: Any, marks: Any) -> None:
    """Write a DTA record: its four words."""
    at = U64(i) << U64(2)
    words[at] = counter
    words[at + U64(1)] = places
    words[at + U64(2)] = numbers
    words[at + U64(3)] = marks


@kernel
def parse_published(buf: Any, frames: Any, base: Any, rules: Any, words: Any) -> Any:
    """Records of datagrams with a base header of `base` (2 or 3) bytes, by one rule per opcode, uint64 [256].

    Returns the first frame that is no UDP_PAYLOAD, else their number.  One rule serves all opcodes without a
    branch between them, so that mixed traffic costs no mispredictions.
    """
    numbered = base - U64(2)
    number_mask = numbered * BYTE
    for i in range(len(frames)):
        frame = frames[i]
        if U64(frame.link) != UDP_PAYLOAD:
            return U64(i)
        at = U64(frame.offset)
        length = U64(frame.length)
        if length < base or U64(frame.wire_length) > length:
            put_record(words, i, ZERO, ZERO, ZERO, TRUNCATED)
            continue
        opcode = U64(buf[at])
        sequence = U64(buf[at + ONE]) & number_mask
        flags = U64(buf[at + base - ONE])
        marks = opcode | (((flags >> U64(7)) | ((flags >> U64(5)) & (numbered << ONE))) << U64(8))
        numbers = sequence << U64(32)
        rule = rules[opcode]
        size = part(rule, SIZE)
        if length != base + size or size == ZERO:
            why = UNKNOWN_OPCODE if size == ZERO else (TRUNCATED if length < base + size else BAD_LENGTH)
            put_record(words, i, ZERO, ZERO, numbers, marks | why)
            continue
        at += base
        key_at, data_at = at + part(rule, KEY_AT), at + part(rule, DATA_AT)
        redundancy, hop, number = part(rule, REDUNDANCY), part(rule, HOP), part(rule, NUMBER)
        is_counter = number >> ONE
        # what is no counter is read too, and masked: at the header's start, since its data has 4 bytes
        counter = be64(buf, at + is_counter * part(rule, DATA_AT)) & (ZERO - is_counter)
        marks |= (U64(buf[at + (redundancy >> ONE)]) * (redundancy & ONE)) << U64(16)
        marks |= (U64(buf[at + (hop >> ONE)]) * (hop & ONE)) << U64(24)
        marks |= (part(rule, KEY_BYTES) << U64(40)) | (part(rule, DATA_BYTES) << U64(48))
        numbers |= be32(buf, key_at) * (number & ONE)
        put_record(words, i, counter, key_at | (data_at << U64(32)), numbers, marks)
    return U64(len(frames))


@kernel
def parse_sized(buf: Any, frames: Any, words: Any) -> Any:
    """Records of datagrams with the sized header. Returns the first frame that is no UDP_PAYLOAD, else their
    number.
    """
    for i in range(len(frames)):
        frame = frames[i]
        if U64(frame.link) != UDP_PAYLOAD:
            return U64(i)
        at = U64(frame.offset)
        length = U64(frame.length)
        if length < SIZED_BYTES or U64(frame.wire_length) > length:
            put_record(words, i, ZERO, ZERO, ZERO, TRUNCATED)
            continue
        head = be32(buf, at)
        tail = be32(buf, at + U64(8))
        opcode = head >> U64(24)
        key_bytes, data_bytes = (head >> U64(8)) & BYTE, head & BYTE
        marks = opcode | ((((head >> U64(23)) & ONE) | ((head >> U64(21)) & U64(2))) << U64(8))
        numbers = be32(buf, at + U64(4)) << U64(32)
        size = SIZED_BYTES + key_bytes + data_bytes
        is_list, is_counter = opcode == APPEND, opcode == KEY_INCREMENT
        bad = (is_list and key_bytes != U64(4)) or (is_counter and data_bytes != U64(8))
        if length != size or bad:
            put_record(words, i, ZERO, ZERO, numbers, marks | (TRUNCATED if length < size else BAD_LENGTH))
            continue
        key_at = at + SIZED_BYTES
        data_at = key_at + key_bytes
        counter = ZERO
        if is_list:
            numbers |= be32(buf, key_at)
        if is_counter:
            counter = be64(buf, data_at)
        # redundancy, hop and path length lie in the order of the record's bytes, but big-endian
        marks |= (tail >> U64(24)) << U64(16)
        marks |= ((tail >> U64(16)) & BYTE) << U64(24)
        marks |= ((tail >> U64(8)) & BYTE) << U64(32)
        marks |= (key_bytes << U64(40)) | (data_bytes << U64(48))
        put_record(words, i, counter, key_at | (data_at << U64(32)), numbers, marks)
    return U64(len(frames))


@kernel
def find_payloads(buf: Any, frames: Any, table: Any, out: Any, reasons: Any) -> None:
    """Describe the UDP payloads in frames as FRAME rows of their own, with the sender's address and port.

    `table` is that of a dialect whose ports are looked for.  A frame without one becomes an empty payload,
    and its row of `reasons` says why.
    """
    for i in range(len(frames)):
        frame = frames[i]
        row = out[i]
        row.time_ns = frame.time_ns
        row.link = frame.link
        reasons[i] = U8(0)
        link = U64(frame.link)
        if link == UDP_PAYLOAD:
            out[i] = frame
            continue
        origin = U64(frame.offset)
        verdict, at, end, announced, high, low = outer(buf, origin, origin + U64(frame.length), link, table)
        row.link = U8(UDP_PAYLOAD)
        row.offset = origin
        row.source_hi = high
        row.source_lo = low
        row.length = 0
        row.wire_length = 0
        row.port = 0
        row.source_port = 0
        if verdict == ONE:
            row.offset = at
            row.length = end - at
            row.wire_length = announced - at
            row.source_port = be16(buf, at - U64(8))
            row.port = be16(buf, at - U64(6))
        elif verdict == ZERO:
            reasons[i] = NOT_DTA
        else:
            reasons[i] = OF_LENGTH if verdict >> U64(8) == BAD_OUTER_LENGTH else CUT
