"""Messages of a block: where it is cut, ids, keys, JSON; names that no bus could carry."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopscope.base.names import Names
from hopscope.detect.records import EVENT, Kind, Metric
from hopscope.export.block import EventBlock
from hopscope.export.buses.format import read_block
from hopscope.export.buses.messages import Encoder, Message, place, safe
from hopscope.export.destination import Context
from hopscope.present.events import event_object
from hopscope.settings.destinations.buses import BusSettings
from support.events.event_make import Events
from support.servers.bus_make import NAMES, joined, timed_events

ANY = st.text(st.characters(), max_size=8) | st.text('\0\r\n"\\*>#+/$ ,=\u2028\ud800ü', max_size=5000)


def messages(block: EventBlock, names: Names = NAMES, **settings: Any) -> list[Message]:
    given = BusSettings(kind="x", **settings)
    return list(Encoder(given, Context("lab", block.member, names, lambda *_: None)).messages(block))


def long_path(start: int) -> Events:
    """A path of 20 nodes, in three records."""
    rows = np.zeros(3, EVENT)
    rows["sequence"], rows["kind"], rows["metric"] = range(start, start + 3), Kind.NEW_KEY, Metric.FLOW_PATH
    rows["hop"], rows["hop_count"], rows["flow_id"], rows["ip_version"] = (0, 8, 16), 20, 5, 4
    rows["path"] = np.arange(24).reshape(3, 8)
    return rows


def test_a_block_is_cut_by_size() -> None:
    """Each message has at most so many bytes; together they are the block, without a gap."""
    made = timed_events(1000, 1, start=50)
    found = messages(EventBlock("m", 3, 40, 1060, made), message_bytes=20_000)
    assert len(found) == 1000 // ((20_000 - 512) // 136) + 1
    assert max(len(each.body) for each in found) <= 20_000
    blocks, events = joined(each.body for each in found)
    assert np.array_equal(events, made)
    assert (blocks[0].first, blocks[-1].last) == (40, 1060)
    assert [each.id for each in found] == [
        f"m-3-{part.first}-{part.last}-{part.records['time_ns'][0]}" for part in blocks
    ]
    assert {each.key for each in found} == {"m-3"}


def test_each_event_is_a_message() -> None:
    """Keyed by its flow; a long path is one message, in binary and in JSON."""
    single = timed_events(30, 1)
    single = single[(single["metric"] != Metric.FLOW_PATH) | (single["kind"] == Kind.FLOW_RECORD)]
    made = np.concatenate([single, long_path(30)])
    block = EventBlock("m", 0, 0, 32, made)
    found = messages(block, messages="events")
    assert np.array_equal(np.concatenate([read_block(each.body).records for each in found]), made)
    assert [each.key for each in found] == [
        f"{event['flow_id']:016x}" if event["flow_id"] else "m-0" for event in [*single, long_path(30)[0]]
    ]
    assert found[-1].id == f"m-0-30-32-{made['time_ns'][-3]}"
    texts = messages(block, messages="events", format="json")
    assert [each.id for each in texts] == [each.id for each in found]
    assert [node["id"] for node in json.loads(texts[-1].body)["path"]] == list(range(20))


def test_a_long_path_is_not_cut() -> None:
    """Where a block is cut, all records of a path are on one side."""
    made = np.concatenate([long_path(3 * index) for index in range(100)])
    found = messages(EventBlock("m", 0, 0, 299, made), message_bytes=4096)
    assert len(found) > 5
    assert all(len(read_block(each.body)) % 3 == 0 for each in found)


@pytest.mark.parametrize("limit", [4096, 900_000])
def test_json_lines(limit: int) -> None:
    """A line for each event: the object of the API, with the name of the collector."""
    made = timed_events(200, 1)
    made["hop"] = 0
    found = messages(EventBlock("m", 0, 0, 199, made), format="json", message_bytes=limit)
    lines = [json.loads(line) for each in found for line in each.body.decode().splitlines()]
    assert lines == [{"member": "m", **event_object(event, NAMES)} for event in made]
    assert max(len(each.body) for each in found) <= limit


@given(member=ANY, node=ANY, port=ANY)
def test_no_name_breaks_a_message(member: str, node: str, port: str) -> None:
    """Whatever a name has in it: an event is one line of JSON, and ids and subjects have safe characters."""
    made = timed_events(3, 1)
    made["node_id"], made["port"], made["kind"], made["metric"] = 1, 2, Kind.RAISED, Metric.HOP_LATENCY
    names = Names({1: node}, {(1, 2): port})
    (found,) = messages(EventBlock(member, 0, 0, 2, made), names, format="json")
    assert found.body.count(b"\n") == 3
    for line in found.body.splitlines():
        event = json.loads(line)
        assert event["node"]["name"] == node[:256].encode("utf-8", "replace").decode()
        assert event["port"]["name"] == port[:256].encode("utf-8", "replace").decode()
    (binary,) = messages(EventBlock(member, 0, 0, 2, made), names)
    assert np.array_equal(read_block(binary.body).records, made)
    assert binary.id == found.id
    assert re.fullmatch(r"[A-Za-z0-9._-]{1,64}-0-0-2-[0-9]+", found.id)
    assert re.fullmatch(r"hopscope\.v1\.events\.[A-Za-z0-9._-]{1,64}\.7", place("hopscope", member, 7, "."))
    assert safe(safe(member)) == safe(member)
