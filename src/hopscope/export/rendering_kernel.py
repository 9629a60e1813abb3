"""The kernel of `rendering`: rows of bytes from columns, part after part.

Rows are written from the last byte to the first, so that the length of a nested message is known when the
bytes before it are written.

=========== =======================================================================================
`parts`     uint64 [p, 4]: a CODE, the row of `masks` that says which rows have the part, two operands
`columns`   uint64 [c, n]
`masks`     bool [m, n]
`texts`     uint8: texts one after the other; text i is texts[bounds[i]:bounds[i + 1]]
`numbers`   uint64: values of lists one after the other
`ends`      uint64: room for the ends of messages that are open, as many as they are deep
`out`       uint8: room for the longest possible rows
=========== =======================================================================================
"""

from ..base.kernels.jit import U8, U64, kernel

CHOICE, NUMBER, HEXADECIMAL, ADDRESS, NUMBERS, CHOICES = U64(0), U64(1), U64(2), U64(3), U64(4), U64(5)
"""Codes with their operands. CHOICE: number of a text, to which a column may be added. NUMBER, HEXADECIMAL: a
column. ADDRESS: the columns of both halves. NUMBERS, CHOICES: the columns with begin and end of a part of
`numbers`, which has numbers, or numbers of texts.
"""
JOINED, VARINT, FIXED, BEGIN, END = U64(6), U64(7), U64(8), U64(9), U64(10)
"""Codes for protocol buffers. JOINED: as CHOICES, without commas. VARINT, FIXED (eight bytes): a column.
BEGIN: the tag of a message. END: no operands.
"""
NO_COLUMN = U64(0xFFFF)
TEN = U64(10)
MAPPED = U64(0xFFFF)


@kernel
def put_text(out, at, texts, bounds, number):
    """Write a text before `at`; returns the index of its first byte."""
    first = bounds[number]
    size = bounds[number + U64(1)] - first
    at -= size
    for here in range(size):
        out[at + here] = texts[first + here]
    return at


@kernel
def put_number(out, at, value):
    """Write a number in decimal before `at`; returns the index of its first byte."""
    while True:
        at -= U64(1)
        out[at] = U8(U64(48) + value % TEN)
        value //= TEN
        if not value:
            return at


@kernel
def put_hexadecimal(out, at, value, digits):
    """Write at least `digits` of a number in hexadecimal before `at`; returns the index of its first one."""
    while digits or value:
        at -= U64(1)
        digit = value & U64(15)
        out[at] = U8(digit + (U64(48) if digit < TEN else U64(87)))
        value >>= U64(4)
        if digits:
            digits -= U64(1)
    return at


@kernel
def put_ipv4(out, at, value):
    """Write an IPv4 address before `at`; returns the index of its first byte."""
    for part in range(4):
        if part:
            at -= U64(1)
            out[at] = U8(46)
        at = put_number(out, at, (value >> U64(8 * part)) & U64(255))
    return at


@kernel
def put_ipv6(out, at, high, low):
    """Write an IPv6 address before `at` (RFC 5952, section 4: the first longest run of zeros is `::`).

    Returns the index of its first byte.
    """
    best, longest, run = 8, 1, 0
    for group in range(8):
        half = high if group < 4 else low
        zero = (half >> U64(48 - 16 * (group & 3))) & U64(0xFFFF) == U64(0)
        run = run + 1 if zero else 0
        if run > longest:
            best, longest = group + 1 - run, run
    group = 7
    while group >= 0:
        if group == best + longest - 1:
            at -= U64(2)
            out[at] = out[at + U64(1)] = U8(58)
            group = best - 1
            continue
        half = high if group < 4 else low
        value = (half >> U64(48 - 16 * (group & 3))) & U64(0xFFFF)
        at = put_hexadecimal(out, at, value, U64(1))
        if group and group != best + longest:
            at -= U64(1)
            out[at] = U8(58)
        group -= 1
    return at


@kernel
def put_varint(out, at, value):
    """Write a varint of protocol buffers before `at`; returns the index of its first byte."""
    size, rest = U64(1), value >> U64(7)
    while rest:
        size += U64(1)
        rest >>= U64(7)
    at -= size
    here = at
    while value > U64(127):
        out[here] = U8(value & U64(127) | U64(128))
        value >>= U64(7)
        here += U64(1)
    out[here] = U8(value)
    return at


@kernel
def render(parts, columns, masks, texts, bounds, numbers, ends, out):
    """Write all rows, which end with `out`; returns the index of their first byte."""
    at = U64(len(out))
    for row in range(masks.shape[1] - 1, -1, -1):
        depth = 0
        for part in range(len(parts) - 1, -1, -1):
            if not masks[parts[part, 1], row]:
                continue
            code, first, second = parts[part, 0], parts[part, 2], parts[part, 3]
            if code == CHOICE:
                text = first
                if second != NO_COLUMN:
                    text += columns[second, row]
                at = put_text(out, at, texts, bounds, text)
            elif code == NUMBER:
                at = put_number(out, at, columns[first, row])
            elif code == HEXADECIMAL:
                at = put_hexadecimal(out, at, columns[first, row], U64(16))
            elif code == ADDRESS:
                high, low = columns[first, row], columns[second, row]
                if high == U64(0) and low >> U64(32) == MAPPED:
                    at = put_ipv4(out, at, low & U64(0xFFFFFFFF))
                else:
                    at = put_ipv6(out, at, high, low)
            elif code == VARINT:
                at = put_varint(out, at, columns[first, row])
            elif code == FIXED:
                at -= U64(8)
                for byte in range(8):
                    out[at + U64(byte)] = U8(columns[first, row] >> U64(8 * byte))
            elif code == END:
                ends[depth] = at
                depth += 1
            elif code == BEGIN:
                depth -= 1
                at = put_varint(out, at, ends[depth] - at)
                at = put_varint(out, at, first)
            else:
                begin, here = columns[first, row], columns[second, row]
                while here > begin:
                    here -= U64(1)
                    if code == NUMBERS:
                        at = put_number(out, at, numbers[here])
                    else:
                        at = put_text(out, at, texts, bounds, numbers[here])
                    if here > begin and code != JOINED:
                        at -= U64(1)
                        out[at] = U8(44)
    return at
