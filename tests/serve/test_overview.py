"""The overview: alike events joined, losses with their places, and one answer of one moment."""

from __future__ import annotations

import asyncio
import threading
import time
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from hopscope.base.names import Names
from hopscope.detect.counters import COUNTERS, INDEX
from hopscope.detect.records import EVENT, NO_NODE, NO_PORT, SOURCE, Kind, Metric
from hopscope.serve.context import Context
from hopscope.serve.overview.losses import WINDOW_SECONDS, LossReader, PlaceDrops
from hopscope.serve.overview.similar_events import SHOWN, SimilarEvents
from hopscope.serve.overview.snapshot import _STRIPS, Poller, _peaks
from hopscope.settings.serve import ServeSettings
from support.waiting import HANG_SECONDS

SECOND = 10**9
NAMES = Names({11: "leaf-1", 13: "<b>leaf-2"}, {(13, 3): "to host-9"})


def drops(*places: tuple[int, int, int], at_ns: int = 0) -> Any:
    """A DROP event at each (node, port, queue), and one of another kind."""
    made = np.zeros(len(places) + 1, EVENT)
    made["kind"][:-1], made["kind"][-1] = Kind.DROP, Kind.RAISED
    made["time_ns"] = at_ns
    for name, values in zip(("node_id", "port", "ident"), zip(*places, strict=True), strict=True):
        made[name][:-1] = values
    return made


def state(sources: Any = None, full: dict[int, int] | None = None) -> Any:
    """The state of workers with these SOURCE rows, and datagrams that each one's kernel dropped."""
    workers = {}
    for worker, dropped in (full or {}).items():
        workers[str(worker)] = np.zeros(len(COUNTERS), np.uint64)
        workers[str(worker)][INDEX["kernel_drops_total"]] = dropped
    rows = np.zeros(0, SOURCE) if sources is None else sources
    return SimpleNamespace(sources=lambda: rows, counters=lambda: SimpleNamespace(processes=workers))


def test_alike_events_of_a_second_are_one() -> None:
    """A burst of the same is one row with its number; another switch or another second is another row."""
    events = np.zeros(8, EVENT)
    events["kind"], events["metric"], events["node_id"] = Kind.RAISED, Metric.HOP_LATENCY, 1
    events["flow_id"] = 1 + np.arange(8)
    events["time_ns"] = 10**9 + np.arange(8)
    events["node_id"][2] = 9
    events["time_ns"][6:] += 10**9
    joined = SimilarEvents()
    joined.add(events[:4], Names())
    joined.add(events[4:4], Names())
    joined.add(events[4:], Names())
    shown = [(event["node"]["id"], event["time"][17:19], count) for event, count in joined.shown()]
    assert shown == [(1, "02", 2), (1, "01", 5), (9, "01", 1)]


def test_a_flood_of_events_pushes_out_the_oldest() -> None:
    """The feed keeps the newest rows, and a second's burst is one of them, however many its events are."""
    joined = SimilarEvents()
    for second in range(SHOWN + 5):
        events = np.zeros(3000, EVENT)
        events["kind"], events["time_ns"] = Kind.DROP, second * 10**9
        joined.add(events, Names())
    assert [(event["time"][17:19], count) for event, count in joined.shown()][-1] == ("05", 3000)
    assert len(joined.shown()) == SHOWN


def test_dropped_packets_have_a_switch_a_port_and_a_queue() -> None:
    """Counted by place, those of the last minute first; a switch or a port may be unknown."""
    reader = LossReader()
    reader.add(drops((13, 3, 2), (13, 3, 2), (13, 3, 5)), 0)
    assert reader.losses(state()).drops == (PlaceDrops((13, 3, 2), 2, 2), PlaceDrops((13, 3, 5), 1, 1))
    later = (WINDOW_SECONDS + 1) * SECOND
    reader.add(drops((11, NO_PORT, 0), (NO_NODE, NO_PORT, 0), (11, NO_PORT, 0), at_ns=later), later)
    assert reader.losses(state()).drops == (
        PlaceDrops((11, NO_PORT, 0), 2, 2), PlaceDrops((NO_NODE, NO_PORT, 0), 1, 1),
        PlaceDrops((13, 3, 2), 0, 2), PlaceDrops((13, 3, 5), 0, 1),
    )  # fmt: skip


def test_drops_of_the_last_minute_are_those_whose_reports_came_in_it() -> None:
    """The first read brings what memory has, however old: it counts in the total, not in the last minute."""
    reader = LossReader()
    now = 1000 * SECOND
    reader.add(drops((13, 3, 2), at_ns=now - WINDOW_SECONDS * SECOND), now)
    reader.add(drops((13, 3, 2), at_ns=now - (WINDOW_SECONDS - 1) * SECOND), now)
    assert reader.losses(state()).drops == (PlaceDrops((13, 3, 2), 1, 2),)
    reader.add(np.zeros(0, EVENT), now + SECOND)
    assert reader.losses(state()).drops == (PlaceDrops((13, 3, 2), 0, 2),)


@pytest.mark.parametrize("hours", [1, 24])
def test_drops_before_the_clock_was_set_back_do_not_stay(hours: int) -> None:
    """They are not of the last minute until the clock has caught up, nor are they so again then."""
    reader = LossReader()
    now = 10**6 * SECOND
    reader.add(drops((13, 3, 2), at_ns=now), now)
    now -= hours * 3600 * SECOND
    reader.add(drops((13, 3, 2), (13, 3, 2), at_ns=now), now)
    assert reader.losses(state()).drops == (PlaceDrops((13, 3, 2), 2, 3),)
    reader.add(np.zeros(0, EVENT), now + WINDOW_SECONDS * SECOND)
    assert reader.losses(state()).drops == (PlaceDrops((13, 3, 2), 0, 3),)


def test_lost_reports_have_a_source_or_a_socket() -> None:
    """Gaps in a source's numbers, with its share; datagrams for which a worker's socket had no room."""
    rows = np.zeros(3, SOURCE)
    rows["source_lo"], rows["node_id"] = 0xFFFF0A000001 + np.arange(3, dtype=np.uint64), [13, NO_NODE, 11]
    rows["received"], rows["lost"], rows["hw_id"] = 90, [10, 0, 30], 1
    losses = LossReader().losses(state(rows, {0: 0, 2: 7, 3: 9}))
    assert [(int(row["node_id"]), int(row["lost"])) for row in losses.sources] == [(11, 30), (13, 10)]
    assert losses.workers == (("3", "its socket was full", 9), ("2", "its socket was full", 7))
    assert not LossReader().losses(state())


@pytest.mark.kernel
def test_the_path_is_that_of_the_first_flow_of_the_table(collector: Any) -> None:
    """Table and path are of one moment, also while the latencies of flows change."""
    context = Context(ServeSettings(), collector.folder, NAMES, collector.folder)
    poller = Poller(context)
    for latency in (1000, 5000, 20, 700):
        collector.report(latency=latency)
        snapshot = poller.once()
        assert snapshot.slowest is not None
        first = snapshot.slowest.flows[0]
        assert first == snapshot.slow_flows[0]
        assert int(first["latency_latest"]) == int(snapshot.slowest.hops["latency_latest"].sum())
        assert first["latency_latest"] == snapshot.slow_flows["latency_latest"].max()
    context.close()


@pytest.mark.kernel
def test_a_page_shows_what_came_before_it_was_opened(collector: Any) -> None:
    """Without a page nothing is drawn, but the last minutes are kept: strips, line charts and events."""
    context = Context(ServeSettings(), collector.folder, NAMES, collector.folder)
    poller = Poller(context)
    for _ in range(4):
        collector.report(latency=1000)
        poller.follow()
    assert poller.snapshot is None
    snapshot = poller.once()
    assert len(snapshot.points) == 3
    assert snapshot.strips["queues"]
    assert all(np.count_nonzero(row.values) == 5 for row in snapshot.strips["queues"])
    context.close()


@pytest.mark.kernel
def test_the_last_minute_has_no_older_values(collector: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that starts again reads the events that memory has; a burst of two minutes ago is not one of
    now.
    """
    collector.report(occupancy=600)
    came = time.time_ns()
    monkeypatch.setattr(time, "time_ns", lambda: came + 120 * SECOND)
    context = Context(ServeSettings(), collector.folder, NAMES, collector.folder)
    assert Poller(context).once().strips == {"queues": [], "buffers": [], "links": []}
    context.close()


def test_the_fullest_queues_are_by_occupancy() -> None:
    """INT 0.5 and 1.0 have a congestion status of a queue, too, in another unit."""
    events = np.zeros(2, EVENT)
    events["kind"], events["node_id"], events["port"], events["ident"] = Kind.CHANGE, 13, 3, 2
    events["metric"], events["value"] = [Metric.QUEUE_OCCUPANCY, Metric.QUEUE_CONGESTION], [7, 5000]
    assert list(_peaks(events, *_STRIPS["queues"], by_port=True).values()) == [7]


def test_the_collector_is_followed_before_anybody_asks(idle: Any) -> None:
    """From the start of the server on, so that the first page shows the minutes before it."""
    context = Context(ServeSettings(), idle.folder, NAMES, idle.folder)
    poller, followed = Poller(context), threading.Event()
    poller.follow = followed.set  # type: ignore[method-assign]

    async def until_followed() -> bool:
        following = poller.start()
        seen = asyncio.create_task(asyncio.to_thread(followed.wait, HANG_SECONDS))
        await asyncio.wait({following, seen}, return_when=asyncio.FIRST_COMPLETED)
        was_followed = followed.is_set()
        followed.set()
        following.cancel()
        return was_followed

    assert asyncio.run(until_followed())
    context.close()


def test_the_end_of_the_app_is_no_error(idle: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What follows the collector ends with the app, also where nothing cancels it, as in a cluster."""
    errors: list[str] = []
    log = SimpleNamespace(error=lambda event, **_: errors.append(event))
    monkeypatch.setattr("hopscope.serve.overview.snapshot.log", log)

    async def end() -> None:
        context = Context(ServeSettings(), idle.folder, NAMES, idle.folder)
        poller = Poller(context)
        poller._followed = time.monotonic()
        following = poller.start()
        await asyncio.sleep(0)  # now it waits until it is due
        context.close()
        while not following.done() and not errors:
            await asyncio.sleep(0.01)

    asyncio.run(end())
    assert errors == []


@pytest.mark.kernel
def test_the_answer_has_what_the_reports_said(collector: Any, api: Any) -> None:
    """By hand: three flows of three hops, two queues at 600 of 500 allowed."""
    collector.report(latency=1000, occupancy=600)

    async def ask() -> Any:
        async with api(collector.folder) as client:
            return (await client.get("/api/v0/overview")).json()

    found = asyncio.run(ask())
    assert found["totals"]["received"] == 6
    assert found["totals"]["flows"] == 3
    assert {each["node"]["name"] for each in found["queues"]} == {"spine-1", "leaf-2"}
    values = {(each["peak"], each["limit"], each["alarm"]) for each in found["queues"]}
    assert values == {(600, 500, True), (1, 500, False)}
    assert {(each["port"]["id"], each["queue"]) for each in found["queues"]} == {(3, 2)}
    assert {(each["port"], each["queue"]) for each in found["buffers"]} == {(None, 1)}
    assert len(found["slowest"]["path"]) == 3
    assert any(each["event"]["kind"] == "raised" for each in found["notable"])
