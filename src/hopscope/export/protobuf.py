"""Reads and writes single fields of protocol buffers (protobuf.dev/programming-guides/encoding).

`rendering` makes many messages with the same fields from columns.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

_DOUBLE, _FIXED = struct.Struct("<d"), struct.Struct("<Q")


def varint(value: int) -> bytes:
    """A number from 0 on, seven bits a byte."""
    if value < 128:
        return bytes((value,))
    found = bytearray()
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    found.append(value)
    return bytes(found)


def number_field(field: int, value: int) -> bytes:
    """A number from 0 on, or an enumeration."""
    return varint(field << 3) + varint(value)


def bytes_field(field: int, value: bytes) -> bytes:
    """A message, or bytes."""
    return varint(field << 3 | 2) + varint(len(value)) + value


def text_field(field: int, text: str) -> bytes:
    """A string."""
    return bytes_field(field, text.encode("utf-8", "replace"))


def double_field(field: int, value: float) -> bytes:
    """A double."""
    return varint(field << 3 | 1) + _DOUBLE.pack(value)


def fixed_field(field: int, value: int) -> bytes:
    """A fixed64."""
    return varint(field << 3 | 1) + _FIXED.pack(value)


def fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Numbers and values of a message's fields; a number of fixed size is its eight or four bytes.

    Raises ValueError if it is cut short, or not a message.
    """
    at = 0
    while at < len(message):
        tag, at = read_varint(message, at)
        field, wire = tag >> 3, tag & 7
        if wire == 0:
            value, at = read_varint(message, at)
            yield field, value
            continue
        if wire == 2:
            size, at = read_varint(message, at)
        elif wire in (1, 5):
            size = 8 if wire == 1 else 4
        else:
            raise ValueError(f"wire type {wire}")
        if at + size > len(message):
            raise ValueError("a field is cut short")
        yield field, message[at : at + size]
        at += size


def read_varint(message: bytes, at: int) -> tuple[int, int]:
    """A number, and the index after it."""
    value = 0
    for shift in range(0, 70, 7):
        if at == len(message):
            raise ValueError("a number is cut short")
        byte = message[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
    raise ValueError("a number has more than ten bytes")
