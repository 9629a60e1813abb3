"""The map at a past moment and the timeline, against a history that is made by hand."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hopscope.base.names import Names
from hopscope.detect.places import keys_of_places, places_of
from hopscope.detect.records import EVENT, NO_NODE, NO_PORT, Kind, Metric
from hopscope.history.query import History
from hopscope.history.writing.journal import JournalWriter
from hopscope.present.fabric.past import LOOK_BACK_NS, past_snapshot
from hopscope.present.fabric.places import METRICS
from hopscope.present.fabric.view import network_of, shown, view_object

T0 = 1_700_000_000_000_000_000
SECOND = 10**9
FLOW_A, FLOW_B = 11, 12
LATENCY, QUEUE, UTILIZATION, DROPS, LABEL_AGE = range(len(METRICS))


def event(
    seconds: float, kind: Kind, metric: Metric, value: int, **fields: Any
) -> tuple[float, dict[str, Any]]:
    """An event `seconds` after T0."""
    return seconds, {"kind": kind, "metric": metric, "value": value, **fields}


def path(seconds: float, flow: int, *hops: tuple[int, int, int], kind: Kind = Kind.NEW_KEY) -> list[Any]:
    """Events of all hops of a flow's path: node, port, latency."""
    return [
        event(seconds, kind, Metric.HOP_LATENCY, latency, node_id=node, port=port, flow_id=flow,
              hop=at, hop_count=len(hops), ip_version=4)
        for at, (node, port, latency) in enumerate(hops)
    ]  # fmt: skip


EVENTS = [
    *path(0, FLOW_A, (1, 5, 100), (9, 2, 200), (2, 1, 300)),
    *path(1, FLOW_B, (1, 5, 150), (9, 2, 250), (2, 1, 350)),
    event(10, Kind.CHANGE, Metric.HOP_LATENCY, 900, node_id=9, port=2, flow_id=FLOW_A, ip_version=4),
    event(11, Kind.RAISED, Metric.HOP_LATENCY, 5000, node_id=9, port=2, flow_id=FLOW_A, ip_version=4),
    event(20, Kind.CLEARED, Metric.HOP_LATENCY, 80, node_id=9, port=2, flow_id=FLOW_A, ip_version=4),
    event(5, Kind.NEW_KEY, Metric.QUEUE_OCCUPANCY, 7, node_id=1, port=5, ident=0),
    event(6, Kind.NEW_KEY, Metric.QUEUE_OCCUPANCY, 40, node_id=1, port=5, ident=1),
    event(12, Kind.CHANGE, Metric.QUEUE_OCCUPANCY, 3, node_id=1, port=5, ident=1),
    event(5, Kind.NEW_KEY, Metric.LINK_UTILIZATION, 300, node_id=2, port=1),
    event(13, Kind.DROP, Metric.NONE, 71, node_id=9, port=2, flow_id=FLOW_B, ip_version=4),
    event(14, Kind.DROP, Metric.NONE, 71, node_id=9, port=2, flow_id=FLOW_B, ip_version=4),
    event(15, Kind.PATH_CHANGE, Metric.FLOW_PATH, 1, flow_id=FLOW_B, ip_version=4),
    event(30, Kind.RAISED, Metric.LABEL_AGE, 123, node_id=2, port=1),
]


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Iterator[History]:
    """Two flows by one path; a hop that is slow for ten seconds, two queues, drops, a silent label port."""
    folder: Path = tmp_path_factory.mktemp("past")
    events = np.zeros(len(EVENTS), EVENT)
    events["node_id"], events["port"] = NO_NODE, NO_PORT
    for row, (seconds, fields) in zip(events, sorted(EVENTS, key=lambda each: each[0]), strict=True):
        row["time_ns"] = T0 + int(seconds * SECOND)
        for name, value in fields.items():
            row[name] = value
    with JournalWriter(folder, 0) as writer:
        writer.append(events)
    with History(folder, threads=1) as opened:
        yield opened


def values(
    history: History, seconds: float, window: float, node: int, port: int, metric: int
) -> tuple[Any, ...]:
    """Latest and highest value of a place at a moment, and whether it is in an alarm."""
    rows = past_snapshot(history, T0 + int(seconds * SECOND), int(window * SECOND), None).rows
    (row,) = rows[rows["place"] == keys_of_places([(node, port, None)])]
    plain = [
        None if np.isnan(each) else int(each) for each in (row["latest"][metric], row["highest"][metric])
    ]
    return (*plain, bool(row["alarm"][metric]))


@pytest.mark.parametrize(
    ("seconds", "window", "place", "metric", "expected"),
    [
        (2, 1.5, (9, 2), LATENCY, (250, 250, False)),  # the newest flow; 200 is older than the window
        (2, 5, (9, 2), LATENCY, (250, 250, False)),
        (10.5, 1, (9, 2), LATENCY, (900, 900, False)),
        (15, 10, (9, 2), LATENCY, (5000, 5000, True)),  # raised, not cleared yet
        (25, 10, (9, 2), LATENCY, (80, 80, False)),  # within the window it was cleared, at 20 s
        (25, 15, (9, 2), LATENCY, (80, 5000, False)),  # and raised before, at 11 s
        (10, 3, (1, 5), QUEUE, (40, 40, False)),  # stored before the window: it still holds
        (13, 3, (1, 5), QUEUE, (7, 7, False)),  # the fuller one of two queues
        (13, 10, (1, 5), QUEUE, (7, 40, False)),
        (13, 10, (2, 1), UTILIZATION, (300, 300, False)),
        (13.5, 10, (9, 2), DROPS, (1, 1, False)),
        (20, 10, (9, 2), DROPS, (2, 2, False)),
        (40, 10, (9, 2), DROPS, (0, 0, False)),  # none of them in the window
        (25, 10, (2, 1), LABEL_AGE, (None, None, False)),
        (31, 10, (2, 1), LABEL_AGE, (123, 123, True)),
    ],
)  # fmt: skip
def test_values_are_the_last_before_the_moment(
    history: History,
    seconds: float,
    window: float,
    place: tuple[int, int],
    metric: int,
    expected: tuple[Any, ...],
) -> None:
    """The last stored value, the highest in the window, and alarms, at different moments."""
    assert values(history, seconds, window, *place, metric) == expected


def test_links_come_from_the_paths_of_then(history: History) -> None:
    """Ports lead where the paths in history lead; the last hop leads to hosts; layers follow from them."""
    snapshot = past_snapshot(history, T0 + 15 * SECOND, SECOND, None)
    rows = snapshot.rows
    leads = dict(zip(places_of(rows["place"]), zip(rows["next"], rows["flows"], strict=True), strict=True))
    assert leads == {(1, 5, None): (9, 2), (2, 1, None): (-1, 2), (9, 2, None): (2, 2)}
    network = network_of(snapshot, Names())
    assert network.shape.nodes.tolist() == [1, 2, 9]
    assert network.shape.layer.tolist() == [0, 0, 1]
    found = view_object(network, shown(network, Names(), None, None), Names(), "drops", None, None)
    assert (found["hot"], found["highest"]) == (1, 1)  # of the two, one is within the window


def test_nothing_is_known_long_after_the_last_event(history: History) -> None:
    """A value is not shown for ever: history is looked through for a bounded time."""
    rows = past_snapshot(history, T0 + 31 * SECOND + LOOK_BACK_NS, SECOND, None).rows
    assert len(rows) == 0
    assert len(past_snapshot(history, T0 - SECOND, SECOND, None).rows) == 0


def test_links_of_today_stay_on_a_map_of_then(history: History) -> None:
    """What is known today is on the map of a moment without any event, without values."""
    known = past_snapshot(history, T0 + 15 * SECOND, SECOND, None)
    rows = past_snapshot(history, T0 - SECOND, SECOND, known).rows
    assert rows["next"].tolist() == [9, 2]
    assert np.isnan(rows["latest"]).all()


def test_the_timeline_counts_what_is_notable(history: History) -> None:
    """By five seconds: alarms, drops, changes of paths, and the highest latency with its place."""
    start = T0 // (5 * SECOND) * 5 * SECOND
    table = history.activity("hop_latency", bucket_seconds=5, start=T0, end=T0 + 60 * SECOND)
    names = ("events", "drops", "path_changes", "alarms", "highest", "worst_node_id", "worst_port")
    rows = {
        (np.datetime64(row["bucket"].rstrip("Z"), "ns").astype(np.int64) - start) // (5 * SECOND): tuple(
            row[name] for name in names
        )
        for row in table.rows()
    }
    assert rows == {
        0: (0, 0, 0, 0, 350, 2, 1),
        1: (0, 0, 0, 0, None, None, None),
        2: (3, 2, 0, 1, 5000, 9, 2),
        3: (1, 0, 1, 0, None, None, None),
        4: (0, 0, 0, 0, None, None, None),
        6: (1, 0, 0, 1, None, None, None),
    }
    drops = history.activity("drops", bucket_seconds=5, start=T0 + 10 * SECOND, end=T0 + 15 * SECOND)
    (row,) = drops.rows()
    assert (row["highest"], row["worst_node_id"], row["worst_port"]) == (2, 9, 2)


def test_the_timeline_begins_where_its_time_does(history: History) -> None:
    """A position of the slider has what came in its part of the time, whatever the time it begins at: from
    12 to 15 s after T0 there are two drops, and then a change of a path.
    """
    table = history.activity("drops", bucket_seconds=3, start=T0 + 12 * SECOND, end=T0 + 18 * SECOND)
    begins = table["bucket"].astype("datetime64[ns]").astype(np.int64).tolist()
    assert begins == [T0 + 12 * SECOND, T0 + 15 * SECOND]
    assert [(row["drops"], row["path_changes"]) for row in table.rows()] == [(2, 0), (0, 1)]


def test_utilisation_of_a_large_ifindex_is_of_its_port(tmp_path: Path) -> None:
    """Ports 70000 of switch 1 and 4464 of switch 2 have their own values and alarms; the timeline names the
    port of the highest one, and a hop without a port does not get the port of another.
    """
    made = [
        (Metric.LINK_UTILIZATION, Kind.RAISED, 1, NO_PORT, 70_000, 900),
        (Metric.LINK_UTILIZATION, Kind.NEW_KEY, 2, 4464, 4464, 100),
        (Metric.HOP_LATENCY, Kind.NEW_KEY, 3, NO_PORT, 0, 5000),
        (Metric.HOP_LATENCY, Kind.NEW_KEY, 4, 8, 0, 800),
    ]
    events = np.zeros(len(made), EVENT)
    for row, fields in zip(events, made, strict=True):
        for name, value in zip(("metric", "kind", "node_id", "port", "ident", "value"), fields, strict=True):
            row[name] = value
        row["time_ns"] = T0
    with JournalWriter(tmp_path, 0) as writer:
        writer.append(events)
    with History(tmp_path, threads=1) as history:
        rows = past_snapshot(history, T0 + SECOND, SECOND, None).rows
        worst = [
            history.activity(metric, bucket_seconds=1).rows()[0]
            for metric in ("link_utilization", "hop_latency")
        ]
        chosen = [
            history.events(nodes=nodes, ports=[port]).rows()
            for nodes, port in (((), 70_000), ((1,), 70_000), ((), 4464))
        ]
    found = dict(zip(places_of(rows["place"]), rows["latest"][:, UTILIZATION], strict=True))
    assert found[1, 70_000, None] == 900
    assert found[2, 4464, None] == 100
    assert [place for place in found if place[0] < 3] == [(1, 70_000, None), (2, 4464, None)]
    assert rows["alarm"][:, UTILIZATION].tolist() == [True, False, False]
    assert [(row["worst_node_id"], row["worst_port"]) for row in worst] == [(1, 70_000), (3, None)]
    assert [[row["value"] for row in some] for some in chosen] == [[900], [900], [100]]
