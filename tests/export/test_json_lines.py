"""Lines of JSON made from columns, against the objects that the API makes of the same events."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hopscope.base.names import Names
from hopscope.detect.records import EVENT, NO_PORT, ClearReason, Kind, Metric
from hopscope.export.json_lines import json_lines
from hopscope.present.events import continues, event_object, long_paths
from support.events.event_make import random_events

pytestmark = pytest.mark.kernel
NAMES = Names({1: 'leaf "1"\n', 2: "größe\\", 3: "\u2028"}, {(1, 2): "to, spine"})


def test_every_kind_of_event() -> None:
    """All keys, with the values that `event_object` has, whatever the event is."""
    events = random_events(3000, seed=4)
    events["switch_ns"][::3] = 2**53 + 5
    events["value"][::7] = 2**64 - 1
    events["reason"] = np.arange(len(events)) % (len(ClearReason) + 2)
    events["hop"] = np.where(events["metric"] == Metric.FLOW_PATH, 0, events["hop"])
    events["time_ns"][:3] = 0, -1, 2**63 - 1
    events["sequence"], events["shard"] = np.arange(3000), 7
    found = json_lines(events, NAMES, "m, 1")
    assert len(found) == len(events)
    for line, event in zip(found, events, strict=True):
        assert line.endswith(b"\n")
        assert json.loads(line) == {"member": "m, 1", **event_object(event, NAMES)}
        assert list(json.loads(line)) == ["member", *event_object(event, NAMES)]
    assert json_lines(events[:0], NAMES, "m") == []


def test_the_queue_of_a_drop() -> None:
    """With or without a metric, in lines and objects; a report without a drop word has reason and queue 0."""
    events = np.zeros(5, EVENT)
    events["kind"] = [Kind.DROP, Kind.DROP, Kind.DROP, Kind.QUEUE_REPORT, Kind.QUEUE_REPORT]
    events["ident"], events["value"] = [3, 0, 0, 2, 0], [71, 71, 0, 900, 0]
    events["metric"][3] = Metric.QUEUE_OCCUPANCY
    expected = [3, 0, None, 2, None]
    assert [event_object(event, NAMES)["queue"] for event in events] == expected
    assert [json.loads(line)["queue"] for line in json_lines(events, NAMES, "m")] == expected


def test_a_port_with_a_large_ifindex() -> None:
    """That of a link's utilisation, in `ident`, is the port, with its name; 4464 is another one (70000 less
    65536). Some switches use more than 30 bits.
    """
    events = np.zeros(5, EVENT)
    events["kind"], events["metric"] = Kind.RAISED, Metric.LINK_UTILIZATION
    events["node_id"], events["port"] = [1, 1, 2, 1, 1], [NO_PORT, NO_PORT, 4464, NO_PORT, NO_PORT]
    events["ident"] = [70_000, 436_207_616, 4464, NO_PORT, 1_258_301_440]
    names = Names({}, {(1, 436_207_616): "Ethernet1/1"})
    expected = [(70_000, None), (436_207_616, "Ethernet1/1"), (4464, None), None, (1_258_301_440, None)]
    found = [json.loads(line)["port"] for line in json_lines(events, names, "m")]
    assert [port and (port["id"], port["name"]) for port in found] == expected
    assert found == [event_object(event, names)["port"] for event in events]


def test_a_long_path() -> None:
    """All nodes are in the line of the record that begins it."""
    events = np.zeros(4, EVENT)
    events["kind"], events["metric"] = Kind.PATH_CHANGE, Metric.FLOW_PATH
    events["sequence"], events["hop"], events["hop_count"] = range(4), [0, 8, 16, 0], [20, 20, 20, 3]
    events["path"] = np.arange(32).reshape(4, 8)
    paths, heads = long_paths(events), events[~continues(events)]
    found = [json.loads(line)["path"] for line in json_lines(heads, NAMES, "m", paths)]
    assert [[node["id"] for node in path] for path in found] == [list(range(20)), [24, 25, 26]]


@settings(deadline=None, max_examples=50)
@given(st.text(max_size=60), st.text(max_size=60))
def test_names_cannot_break_a_line(node: str, port: str) -> None:
    """Whatever is in a name, a line is one object with that name."""
    events = np.zeros(1, EVENT)
    events["node_id"], events["port"], events["kind"] = 5, 3, Kind.RAISED
    names = Names({5: node}, {(5, 3): port})
    (line,) = json_lines(events, names, node)
    found = json.loads(line)
    assert (found["member"], found["node"]["name"], found["port"]["name"]) == (node, node, port)
