"""Datagrams to DTA records, with the checks of `codec` in the same order. Offsets are indices into the arena.

A record is written once, as four words; `words` is the memory of the records as uint64.
"""

from __future__ import annotations

from ...base.kernels.jit import U8, U64, be16, be32, be64, inlined, kernel
from ..decode.decode_kernel import outer
from ..headers.packet_kernel import byte
from ..reasons import DtaReason, Reason
from ..records import Link
from . import layout

UDP_PAYLOAD = U64(Link.UDP_PAYLOAD)
TRUNCATED, UNKNOWN_OPCODE = U64(DtaReason.TRUNCATED << 56), U64(DtaReason.UNKNOWN_OPCODE << 56)
BAD_LENGTH = U64(DtaReason.BAD_LENGTH << 56)
NOT_DTA, CUT, OF_LENGTH = U8(DtaReason.NOT_DTA), U8(DtaReason.TRUNCATED), U8(DtaReason.BAD_LENGTH)
BAD_OUTER_LENGTH = U64(Reason.BAD_LENGTH)
APPEND, KEY_INCREMENT = U64(2), U64(3)
(
    SIZE, KEY_AT, DATA_AT, LENGTHS, REDUNDANCY_AT, REDUNDANCY, HOP_AT, HOP, LIST, COUNTER_AT, COUNTER,
) = range(11)  # fmt: skip
"""Places in an opcode's rule: offsets of its published header's fields, counted from the end of the base
header; LENGTHS are the lengths of key and data in the form of a record.

REDUNDANCY, HOP, LIST and COUNTER are masks; mask and offset are 0 if the header has no such field.
"""
RULE = U64(16)
"""Numbers of a rule."""
BYTE = U64(0xFF)
ZERO, ONE = U64(0), U64(1)


def bit(name: str) -> U64:
    """Right shift of a flag in its byte; it is the same in every base header that has the flag."""
    (shift,) = {
        7 - header.field(name).at % 8
        for header in (layout.DTA_2, layout.DTA_3, layout.DTA_SIZED)
        if name in {field.name for field in header.fields}
    }
    return U64(shift)


IMMEDIATE, RETRANSMIT = bit("immediate"), bit("retransmit")
SEQUENCE = byte(layout.DTA_3, "sequence")
SIZED_BYTES = U64(layout.DTA_SIZED.size)
SIZED_FLAGS, SIZED_SEQUENCE = byte(layout.DTA_SIZED, "immediate"), byte(layout.DTA_SIZED, "sequence")
SIZED_KEY_BYTES, SIZED_DATA_BYTES = byte(layout.DTA_SIZED, "key_bytes"), byte(layout.DTA_SIZED, "data_bytes")
SIZED_REDUNDANCY, SIZED_HOP = byte(layout.DTA_SIZED, "redundancy"), byte(layout.DTA_SIZED, "hop")
SIZED_PATH_LENGTH = byte(layout.DTA_SIZED, "path_length")


@inlined
def part(rules, rule, place):
    """One number of the rule that begins at `rule`; `place` is a constant."""
    return rules[rule + U64(place)]


@inlined
def flags_of(flags, tracked):
    """Bits of `DtaFlag` from a header's byte; `tracked`: 1 if it has the retransmit flag, else 0."""
    return ((flags >> IMMEDIATE) & ONE) | (((flags >> RETRANSMIT) & tracked) << ONE)


@inlined
def put_record(words, i, counter, places, numbers, marks):
    """Write a DTA record: its four words."""
    at = U64(i) << U64(2)
    words[at] = counter
    words[at + U64(1)] = places
    words[at + U64(2)] = numbers
    words[at + U64(3)] = marks


@kernel
def parse_published(buf, frames, base, rules, words):
    """Records of datagrams with a base header of `base` (2 or 3) bytes, by one rule per opcode, uint64
    [256 * RULE].

    Returns the first frame that is not UDP_PAYLOAD, or the number of frames. All opcodes are read by rules,
    without branches, so that mixed traffic causes no mispredictions: fields that an opcode lacks are read,
    too, within its header, which has at least 8 bytes, and masked.
    """
    numbered = base - U64(2)
    sequence_mask = numbered * BYTE
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
        sequence = U64(buf[at + SEQUENCE]) & sequence_mask
        flags = U64(buf[at + base - ONE])  # the last byte of both headers
        marks = opcode | (flags_of(flags, numbered) << U64(8))
        numbers = sequence << U64(32)
        rule = opcode * RULE
        size = part(rules, rule, SIZE)
        if length != base + size or size == ZERO:
            why = UNKNOWN_OPCODE if size == ZERO else (TRUNCATED if length < base + size else BAD_LENGTH)
            put_record(words, i, ZERO, ZERO, numbers, marks | why)
            continue
        at += base
        key_at, data_at = at + part(rules, rule, KEY_AT), at + part(rules, rule, DATA_AT)
        counter = be64(buf, at + part(rules, rule, COUNTER_AT)) & part(rules, rule, COUNTER)
        redundancy = U64(buf[at + part(rules, rule, REDUNDANCY_AT)]) & part(rules, rule, REDUNDANCY)
        hop = U64(buf[at + part(rules, rule, HOP_AT)]) & part(rules, rule, HOP)
        marks |= (redundancy << U64(16)) | (hop << U64(24)) | part(rules, rule, LENGTHS)
        numbers |= be32(buf, key_at) & part(rules, rule, LIST)
        put_record(words, i, counter, key_at | (data_at << U64(32)), numbers, marks)
    return U64(len(frames))


@kernel
def parse_sized(buf, frames, words):
    """Records of datagrams with the sized header. Returns the first frame that is not UDP_PAYLOAD, or the
    number of frames.
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
        opcode = U64(buf[at])
        key_bytes, data_bytes = U64(buf[at + SIZED_KEY_BYTES]), U64(buf[at + SIZED_DATA_BYTES])
        marks = opcode | (flags_of(U64(buf[at + SIZED_FLAGS]), ONE) << U64(8))
        numbers = be32(buf, at + SIZED_SEQUENCE) << U64(32)
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
        marks |= U64(buf[at + SIZED_REDUNDANCY]) << U64(16)
        marks |= U64(buf[at + SIZED_HOP]) << U64(24)
        marks |= U64(buf[at + SIZED_PATH_LENGTH]) << U64(32)
        marks |= (key_bytes << U64(40)) | (data_bytes << U64(48))
        put_record(words, i, counter, key_at | (data_at << U64(32)), numbers, marks)
    return U64(len(frames))


@kernel
def find_payloads(buf, frames, table, out, reasons):
    """Describe the UDP payloads in frames as FRAME rows of their own, with the sender's address and port.

    `table` is the table of a dialect with the ports to search for. A frame without such a payload becomes an
    empty one, and its row of `reasons` has the reason.
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
