"""The kernel of `rendering`: lines of text from columns, part after part.

=========== =======================================================================================
`parts`     uint64 [p, 4]: a CODE, the row of `masks` that says which lines have the part, two operands
`columns`   uint64 [c, n]
`masks`     bool [m, n]
`texts`     uint8: texts one after the other; text i is texts[bounds[i]:bounds[i + 1]]
`numbers`   uint64: values of lists one after the other
`out`       uint8: room for the longest possible lines
=========== =======================================================================================
"""

from __future__ import annotations

from typing import Any

from ..base.jit import U8, U64, kernel

CHOICE, NUMBER, HEXADECIMAL, ADDRESS, NUMBERS, CHOICES = U64(0), U64(1), U64(2), U64(3), U64(4), U64(5)
"""Codes, with their operands: a text's number, to which a column may be added; a column; a column; the
columns of both halves of an address; the columns of the first and the end of a part of `numbers`, twice: of
numbers, of texts' numbers.
"""
NO_COLUMN = U64(0xFFFF)
TEN = U64(10)
MAPPED = U64(0xFFFF)


@kernel
def put_text(out: Any, at: Any, texts: Any, bounds: Any, number: Any) -> Any:
    """Write a text; returns the index after it."""
    for here in range(bounds[number], bounds[number + U64(1)]):
        out[at] = texts[here]
        at += U64(1)
    return at


@kernel
def put_number(out: Any, at: Any, value: Any) -> Any:
    """Write a number in decimal; returns the index after it."""
    digits, rest = U64(1), value // TEN
    while rest:
        digits += U64(1)
        rest //= TEN
    end = at + digits
    here = end
    while here > at:
        here -= U64(1)
        out[here] = U8(U64(48) + value % TEN)
        value //= TEN
    return end


@kernel
def put_hexadecimal(out: Any, at: Any, value: Any, digits: Any) -> Any:
    """Write the lowest `digits` of a number in hexadecimal; returns the index after them."""
    here = at + digits
    while here > at:
        here -= U64(1)
        digit = value & U64(15)
        out[here] = U8(digit + (U64(48) if digit < TEN else U64(87)))
        value >>= U64(4)
    return at + digits


@kernel
def put_ipv4(out: Any, at: Any, value: Any) -> Any:
    """Write an IPv4 address; returns the index after it."""
    for part in range(4):
        if part:
            out[at] = U8(46)
            at += U64(1)
        at = put_number(out, at, (value >> U64(24 - 8 * part)) & U64(255))
    return at


@kernel
def put_ipv6(out: Any, at: Any, high: Any, low: Any) -> Any:
    """Write an IPv6 address (RFC 5952, section 4: the first longest run of zeros is `::`)."""
    best, longest, run = 8, 1, 0
    for group in range(8):
        half = high if group < 4 else low
        zero = (half >> U64(48 - 16 * (group & 3))) & U64(0xFFFF) == U64(0)
        run = run + 1 if zero else 0
        if run > longest:
            best, longest = group + 1 - run, run
    group = 0
    while group < 8:
        if group == best:
            out[at] = out[at + U64(1)] = U8(58)
            at += U64(2)
            group += longest
            continue
        if group and group != best + longest:
            out[at] = U8(58)
            at += U64(1)
        half = high if group < 4 else low
        value = (half >> U64(48 - 16 * (group & 3))) & U64(0xFFFF)
        digits = U64(1)
        while digits < U64(4) and value >> (U64(4) * digits):
            digits += U64(1)
        at = put_hexadecimal(out, at, value, digits)
        group += 1
    return at


@kernel
def render(parts: Any, columns: Any, masks: Any, texts: Any, bounds: Any, numbers: Any, out: Any) -> Any:
    """Write all lines; returns how many bytes they have."""
    at = U64(0)
    for line in range(masks.shape[1]):
        for part in range(len(parts)):
            if not masks[parts[part, 1], line]:
                continue
            code, first, second = parts[part, 0], parts[part, 2], parts[part, 3]
            if code == CHOICE:
                text = first
                if second != NO_COLUMN:
                    text += columns[second, line]
                at = put_text(out, at, texts, bounds, text)
            elif code == NUMBER:
                at = put_number(out, at, columns[first, line])
            elif code == HEXADECIMAL:
                at = put_hexadecimal(out, at, columns[first, line], U64(16))
            elif code == ADDRESS:
                high, low = columns[first, line], columns[second, line]
                if high == U64(0) and low >> U64(32) == MAPPED:
                    at = put_ipv4(out, at, low & U64(0xFFFFFFFF))
                else:
                    at = put_ipv6(out, at, high, low)
            else:
                begin, end = columns[first, line], columns[second, line]
                for here in range(begin, end):
                    if here > begin:
                        out[at] = U8(44)
                        at += U64(1)
                    if code == NUMBERS:
                        at = put_number(out, at, numbers[here])
                    else:
                        at = put_text(out, at, texts, bounds, numbers[here])
    return at
