"""The message of a block: what an Avro library reads in it, and what damaged ones do."""

from __future__ import annotations

import io
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopscope.detect.records import EVENT
from hopscope.export.block import EventBlock
from hopscope.export.buses.format import SCHEMA, fingerprint, read_block, write_block
from support.servers.bus_make import need, timed_events

FINGERPRINT = "4f0196ff6ef90f76"
"""Of version 1: a change of EVENT or of the schema changes it, and needs another SCHEMA_VERSION."""


def block(count: int, member: str = "m.1", shard: int = 7) -> EventBlock:
    """A block of events 1000 to 1000 + 2 * count, every second of which was filtered out."""
    events = timed_events(2 * count, seed=1, start=1000, shard=shard)[::2]
    return EventBlock(member, shard, 1000, 1000 + 2 * count, events)


def test_the_schema_is_version_1() -> None:
    """The fingerprint is that of the schema which consumers have."""
    assert fingerprint().hex() == FINGERPRINT


@pytest.mark.parametrize("count", [0, 1, 100])
def test_an_avro_library_reads_a_block(count: int) -> None:
    """fastavro, given the schema, finds every field of every record, and the same fingerprint."""
    need("fastavro")
    import fastavro
    from fastavro.schema import fingerprint as digest
    from fastavro.schema import to_parsing_canonical_form

    made = block(count, member="näme")
    message = write_block(made)
    schema: Any = json.loads(json.dumps(SCHEMA))
    assert bytes.fromhex(digest(to_parsing_canonical_form(schema), "CRC-64-AVRO")) == message[2:10]
    rest = io.BytesIO(message[10:])
    found: Any = fastavro.schemaless_reader(rest, schema, None)
    assert rest.read() == b""
    assert {name: found[name] for name in ("member", "shard", "first", "last")} == {
        "member": "näme",
        "shard": 7,
        "first": 1000,
        "last": 1000 + 2 * count,
    }
    assert len(found["events"]) == count
    for row, event in zip(found["events"], made.records, strict=True):
        for name in EVENT.names or ():
            width = EVENT[name].base.itemsize
            signed = EVENT[name].base.kind == "i"
            numbers = [
                int.from_bytes(row[name][at : at + width], "little", signed=signed)
                for at in range(0, len(row[name]), width)
            ]
            assert numbers == np.atleast_1d(event[name]).tolist(), name


@given(
    member=st.text(max_size=64).filter(lambda text: not any("\ud800" <= sign <= "\udfff" for sign in text)),
    shard=st.integers(0, 65535),
    count=st.integers(0, 5),
)
def test_a_block_is_read_as_it_was_written(member: str, shard: int, count: int) -> None:
    """Any name, shard and number of events."""
    made = block(count, member, shard)
    found = read_block(write_block(made))
    assert (found.member, found.shard, found.first, found.last) == (member, shard, made.first, made.last)
    assert np.array_equal(found.records, made.records)


@given(cut=st.integers(0, 400), more=st.binary(max_size=9))
def test_a_cut_or_longer_message_is_an_error(cut: int, more: bytes) -> None:
    """A message without its end, or with bytes after it, is a ValueError."""
    message = write_block(block(2))
    damaged = message[: min(cut, len(message) - 1)] if not more else message + more
    with pytest.raises(ValueError, match=r"\w"):
        read_block(damaged)


@given(st.binary(max_size=200), st.booleans())
def test_foreign_bytes_are_an_error_or_a_sound_block(body: bytes, headed: bool) -> None:
    """Whatever follows the right marker and fingerprint: ValueError, or a block that is consistent."""
    message = (b"\xc3\x01" + fingerprint() if headed else b"") + body
    try:
        found = read_block(message)
    except ValueError:
        return
    assert write_block(found) == message
    assert found.first <= found.last


def test_events_out_of_order_are_an_error() -> None:
    """Records must be numbered upwards from `first` to `last`."""
    made = block(3)
    for records in (made.records[::-1], timed_events(3, 1, start=999), timed_events(3, 1, start=1005)):
        with pytest.raises(ValueError, match="not in order"):
            read_block(write_block(EventBlock("m", 0, 1000, 1006, records)))
