"""Latency of a flow by hop, with what its queues have now, and of a network by brute force."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from hopscope.detect.bottleneck.shares import Gauge
from hopscope.detect.flows.reading.flow_hops import FlowHops
from hopscope.detect.places import Place
from hopscope.detect.records import (
    EVENT,
    FLOW,
    HOP_STATE,
    NO_NODE,
    NO_PORT,
    NO_VALUE,
    PORT,
    Kind,
    Metric,
    PortKind,
)
from hopscope.history.files.segments import write_segment
from hopscope.history.query import History
from hopscope.present.bottleneck.answer import flow, network
from support.events.event_make import START_NS, Events
from support.events.in_parts import InParts


@pytest.mark.parametrize("by_port", [False, True])
def test_a_hop_whose_port_is_unknown_has_the_occupancy_of_its_queue(by_port: bool) -> None:
    """Reports without ports have queues; that of the next switch is another."""
    rows = np.zeros(2, PORT)
    rows["kind"], rows["state"], rows["node_id"], rows["port"], rows["ident"] = (
        PortKind.QUEUE,
        1,
        (2, 3),
        NO_PORT,
        7,
    )
    rows["latest"][:, 0], rows["highest"][:, 0] = (10, 20), (11, 21)
    place = np.uint64(7 | (NO_PORT << 8 if by_port else 0))
    rows["key"] = place << np.uint64(32) | rows["node_id"].astype(np.uint64)
    hops = np.zeros(2, HOP_STATE)
    hops["node_id"], hops["egress_port"], hops["state"] = (2, 3), NO_PORT, 1
    hops["latency_latest"], hops["queue_latest"] = (200, 100), NO_VALUE
    path = FlowHops(np.zeros(1, FLOW), hops, np.zeros(2, np.int64), np.arange(2), np.array([7, 7]))
    state = SimpleNamespace(distributions=list, path_of=lambda row: path, ports=lambda: rows)
    found = flow(cast(Any, state), None, path.flows[0], None)
    assert [(hop.place, hop.occupancy) for hop in found.items] == [
        ((2, None, 7), Gauge(10, None, 11)),
        ((3, None, 7), Gauge(20, None, 21)),
    ]


HOUR_NS = 3600 * 10**9


def made(count: int = 3000) -> Events:
    """Hop latencies and drop reports of two hours, most of another place each, some of unknown ones."""
    rng = np.random.default_rng(5)
    events = np.zeros(count, EVENT)
    events["sequence"], events["metric"] = np.arange(count), Metric.HOP_LATENCY
    events["time_ns"] = START_NS + np.sort(rng.integers(0, 2 * HOUR_NS, count))
    events["kind"] = rng.choice([Kind.NEW_KEY, Kind.CHANGE, Kind.CLEARED, Kind.FLOW_RECORD], count)
    events["node_id"] = rng.choice([*range(1, 400), 0xFFFFFFFE, NO_NODE], count)
    events["port"] = rng.choice([0, 1, 400, NO_PORT], count)
    events["value"] = rng.choice([0, 1, 10**6, 1 << 40], count)
    lost = rng.random(count) < 0.3
    events["kind"][lost], events["metric"][lost] = Kind.DROP, Metric.NONE
    events["ident"][lost] = rng.choice([0, 7, 255], int(lost.sum()))
    return events


def by_hand(events: Events, limit: int) -> tuple[list[Any], list[Any], int]:
    """Places by their latency (with packets and share) and by drops (with their share), of one event after
    the other, and how many there are of the kind with more.
    """
    latency, packets, drops = Counter[Place](), Counter[Place](), Counter[Place]()
    for row in events[events["node_id"] != NO_NODE]:
        node, port = int(row["node_id"]), None if row["port"] == NO_PORT else int(row["port"])
        if row["kind"] == Kind.DROP:
            drops[node, port, int(row["ident"])] += 1
        elif row["kind"] != Kind.CLEARED:
            latency[node, port, None] += int(row["value"])
            packets[node, port, None] += 1

    def first(counts: Counter[Place]) -> list[Place]:
        rank = [
            (-count, [-1 if part is None else part for part in place], place)
            for place, count in counts.items()
        ]
        return [place for _, _, place in sorted(rank)[:limit]]

    items = [
        (place, latency[place], packets[place], latency[place] / latency.total()) for place in first(latency)
    ]
    losses = [(place, drops[place], drops[place] / drops.total()) for place in first(drops)]
    return items, losses, max(len(latency), len(drops))


@pytest.mark.parametrize("kind", [History, InParts], ids=["at once", "in parts"])
def test_a_network_equals_brute_force(tmp_path: Path, kind: type[History]) -> None:
    """Places, sums, packets, shares of all, and drops, of a window and of the last hour of history; the
    answer says since when, and whether there are more places.
    """
    events = made()
    (tmp_path / "segments").mkdir()
    write_segment(tmp_path, events)
    newest = int(events["time_ns"].max())
    with kind(tmp_path) as history:
        for start, end, limit in ((START_NS, None, 20), (None, None, 5), (None, START_NS + HOUR_NS, 10_000)):
            found = network(None, history, start, end, limit)
            until = newest if end is None else int(events["time_ns"][events["time_ns"] < end].max())
            begin = until - HOUR_NS if start is None else start
            mine = events[(events["time_ns"] >= begin) & (events["time_ns"] <= until)]
            items, losses, places = by_hand(mine, limit)
            assert [(one.place, one.latency_sum_ns, one.packets, one.share) for one in found.items] == items
            assert [(one.place, one.drops, one.share) for one in found.losses] == losses
            assert (found.source, found.since_ns, found.history_ns) == ("events", begin, begin)
            assert found.truncated == (places > limit)


def test_a_history_without_events_has_no_bottleneck(tmp_path: Path) -> None:
    """Neither places nor drops, and no time since when."""
    (tmp_path / "segments").mkdir()
    with History(tmp_path) as history:
        found = network(None, history, limit=5)
    assert (found.source, found.items, found.losses, found.history_ns) == ("none", [], [], None)


def test_live_flows_have_the_highest_values_of_the_last_hour(tmp_path: Path) -> None:
    """Of a queue's and a link's events: not of an hour before, nor of a port whose id differs by 65,536."""
    events = np.zeros(6, EVENT)
    events["kind"], events["node_id"] = Kind.CHANGE, 2
    events["metric"] = [*[Metric.QUEUE_OCCUPANCY] * 3, *[Metric.LINK_UTILIZATION] * 3]
    events["ident"], events["port"] = (7, 7, 8, 3, 3, 65_539), 3
    events["value"] = (900, 40, 950, 800, 30, 990)
    events["time_ns"] = START_NS + np.array([0, 2, 2, 0, 2, 2]) * HOUR_NS
    events = events[np.argsort(events["time_ns"], kind="stable")]
    events["sequence"] = np.arange(6)
    (tmp_path / "segments").mkdir()
    write_segment(tmp_path, events)
    hops = np.zeros(1, HOP_STATE)
    hops["node_id"], hops["egress_port"], hops["state"] = 2, 3, 1
    hops["latency_sum"], hops["samples"] = 500, 5
    flows = np.zeros(1, FLOW)
    path = FlowHops(flows, hops, np.zeros(1, np.int64), np.arange(1), np.array([7]))
    state = SimpleNamespace(
        distributions=list, flows=lambda: flows, paths=lambda: [path], ports=lambda: np.zeros(0, PORT)
    )
    with History(tmp_path) as history:
        found = network(cast(Any, state), history, limit=5)
    (one,) = found.items
    assert (found.source, one.place, one.latency_sum_ns, one.share) == ("flows", (2, 3, 7), 500, 1.0)
    assert (one.occupancy.highest, one.utilization.highest) == (40, 30)
    assert found.history_ns == START_NS + HOUR_NS
