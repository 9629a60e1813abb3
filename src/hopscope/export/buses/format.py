"""Blocks of events as messages: one layout for all buses.

A message is an Avro datum in single-object encoding (Avro 1.11, "Single-object encoding"): C3 01, the
CRC-64-AVRO fingerprint of the schema as 8 bytes, little-endian, and the fields of `SCHEMA`:

| field | encoding |
|---|---|
| member | length (zigzag varint), UTF-8 |
| shard, first, last | zigzag varints |
| events | their number (zigzag varint), the EVENT records, 0; without events only the 0 |

Every Avro library can read it. The numbers of a record are `fixed` types in little-endian order, not varints,
so that records have the same bytes as in rings, journals and segments: a block is written with one copy, and
NumPy reads it in place.
"""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import numpy as np

from ...detect.records import EVENT
from ...wire.records import Records
from ..block import EventBlock
from ..protobuf import read_varint, varint

SCHEMA_VERSION = 1
"""Version of `SCHEMA`, part of the names of subjects, topics and streams. A change of EVENT requires a new
version.
"""
_NAMESPACE = f"hopscope.v{SCHEMA_VERSION}"
_MARKER = b"\xc3\x01"
_EMPTY = 0xC15D213AA4D7A795
_ORDER = ("name", "type", "fields", "symbols", "items", "values", "size")
"""Attributes of the parsing canonical form, in its order; all others are left out."""


def _record_schema() -> dict[str, Any]:
    """Schema of EVENT; each field has the same size as in the record."""
    known: set[str] = set()
    fields: list[dict[str, Any]] = []
    for name in EVENT.names or ():
        base, shape = EVENT[name].base, EVENT[name].shape
        kind = base.name + "".join(f"x{size}" for size in shape)
        if kind in known:
            fields.append({"name": name, "type": f"{_NAMESPACE}.{kind}"})
        else:
            known.add(kind)
            fixed = {"name": f"{_NAMESPACE}.{kind}", "type": "fixed", "size": EVENT[name].itemsize}
            fields.append({"name": name, "type": fixed})
    return {"name": f"{_NAMESPACE}.Event", "type": "record", "fields": fields}


SCHEMA: dict[str, Any] = {
    "name": f"{_NAMESPACE}.EventBlock",
    "type": "record",
    "doc": "Consecutive events of one shard of one collector. Numbers of events are little-endian.",
    "fields": [
        {"name": "member", "type": "string", "doc": "Name of the collector."},
        {"name": "shard", "type": "int", "doc": "Number of its worker."},
        {"name": "first", "type": "long", "doc": "Sequence of the first event before filtering."},
        {"name": "last", "type": "long", "doc": "Sequence of the last event before filtering."},
        {"name": "events", "type": {"type": "array", "items": _record_schema()}},
    ],
}
"""Avro schema of a message, generated from the declaration of EVENT."""


def canonical(schema: Any) -> Any:
    """The parsing canonical form of a schema with full names, as objects."""
    if isinstance(schema, list):
        return [canonical(each) for each in schema]
    if isinstance(schema, dict):
        return {key: canonical(schema[key]) for key in _ORDER if key in schema}
    return schema


@cache
def fingerprint() -> bytes:
    """CRC-64-AVRO of the schema's parsing canonical form, 8 bytes as in a message."""
    table = []
    for value in range(256):
        for _ in range(8):
            value = (value >> 1) ^ (_EMPTY if value & 1 else 0)
        table.append(value)
    found = _EMPTY
    for byte in json.dumps(canonical(SCHEMA), separators=(",", ":")).encode():
        found = (found >> 8) ^ table[(found ^ byte) & 0xFF]
    return found.to_bytes(8, "little")


def write_block(block: EventBlock) -> bytes:
    """The message of a block."""
    member = block.member.encode("utf-8", "replace")
    count = len(block.records)
    return b"".join(
        (
            *(_MARKER, fingerprint(), _varint(len(member)), member),
            *(_varint(block.shard), _varint(block.first), _varint(block.last)),
            *((_varint(count), block.records.tobytes()) if count else ()),
            b"\0",
        )
    )


def read_block(message: bytes) -> EventBlock:
    """The block of a message; its records are a view of `message`.

    Raises ValueError if it is not a message of this schema version, is cut short, or is inconsistent.
    """
    if message[:2] != _MARKER or len(message) < 10:
        raise ValueError("this is not a block of events")
    if message[2:10] != fingerprint():
        raise ValueError(f"the block has schema {message[2:10].hex()}, expected {fingerprint().hex()}")
    length, at = _number(message, 10)
    if not 0 <= length <= len(message) - at:
        raise ValueError(f"found a name of {length} bytes, and {len(message) - at} bytes follow")
    member, at = message[at : at + length].decode("utf-8"), at + length
    shard, at = _number(message, at)
    first, at = _number(message, at)
    last, at = _number(message, at)
    count, at = _number(message, at)
    end = at + count * EVENT.itemsize if count else at - 1
    if count < 0 or end + 1 != len(message) or message[end]:
        raise ValueError(f"found {len(message) - at} bytes, expected {count} records and the end")
    records: Records = np.frombuffer(message, EVENT, count, at) if count else np.empty(0, EVENT)
    numbers = records["sequence"]
    if not 0 <= shard <= 0xFFFF or not 0 <= first <= last:
        raise ValueError(f"found shard {shard}, events {first} to {last}")
    if count and (numbers[0] < first or numbers[-1] > last or (numbers[1:] <= numbers[:-1]).any()):
        raise ValueError(f"found events that are not in order, or not from {first} to {last}")
    return EventBlock(member, shard, first, last, records)


def _varint(value: int) -> bytes:
    """A number from -2**63 to 2**63 - 1 as Avro's int and long: a zigzag varint."""
    return varint((value << 1) ^ (value >> 63))


def _number(message: bytes, at: int) -> tuple[int, int]:
    """The zigzag varint at an index, and the index after it. Raises ValueError."""
    found, at = read_varint(message, at)
    return (found >> 1) ^ -(found & 1), at
