"""History of a cluster without a lake: brute force over the events of all members says what it is."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hopscope.cluster.connection import Connection
from hopscope.cluster.process import Context
from hopscope.cluster.queries.client import QueryClient
from hopscope.cluster.queries.history_query import HistoryHandler, HistoryQuery
from hopscope.cluster.queries.members_history import MembersHistory
from hopscope.cluster.queries.server import QueryServer
from hopscope.detect.records import Kind, Metric
from hopscope.history.errors import HistoryError
from hopscope.history.query import History
from hopscope.history.reading.filters import Flow
from hopscope.history.sandbox.query import SqlError
from hopscope.history.writing.journal import JournalWriter
from support.cluster.members import Member, make, running, settings_of
from support.events.event_make import Events, random_events
from support.servers.server_process import NatsServer

NAMES = ("c1", "c2", "c3")
FLOWS = 12


def events_of(number: int) -> Events:
    """Events of one member: its flows are those of the others, under ids of its own; some times are equal."""
    events = random_events(400, seed=number)
    flows = np.random.default_rng(number).integers(0, FLOWS, len(events))
    has = events["flow_id"] != 0
    events["ip_version"][has], events["proto"][has] = 4, 6
    events["src_hi"][has], events["dst_hi"][has] = 0, 0
    events["src_lo"][has] = (0xFFFF << 32 | 0x0A000000) + flows[has].astype(np.uint64)
    events["dst_lo"][has] = 0xFFFF << 32 | 0xC0000201
    events["sport"][has], events["dport"][has] = 1000 + flows[has], 80
    events["flow_id"][has] = (number + 1) * 1000 + flows[has]
    events["hop_count"] = np.minimum(events["hop_count"], 8)
    events["value"] = np.random.default_rng(number).integers(1, 10**6, len(events))
    events["time_ns"] = events["time_ns"] // 10_000 * 10_000
    events["sequence"], events["shard"] = np.arange(len(events)), 0
    return events


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A data folder for each member."""
    found = {}
    for number, name in enumerate(NAMES):
        folder = found[name] = tmp_path_factory.mktemp(name)
        with JournalWriter(folder, 0, fsync_seconds=0) as writer:
            writer.append(events_of(number))
    return found


@pytest.fixture(scope="module")
def members(nats: NatsServer, folders: dict[str, Path]) -> Iterator[dict[str, Member]]:
    """Three members that answer queries to history."""
    found = {}
    for name, folder in folders.items():
        settings = settings_of(nats.url, "past", name, member_seconds=30, answer_seconds=20)

        def parts(context: Context) -> list[Any]:
            handler = partial(HistoryHandler, context.data, context.name, 2**29)
            return [QueryServer(context, {"history": handler})]

        found[name] = Member(settings, folder, parts)
    make(found["c1"].context.settings)
    with running(*found.values()):
        yield found


@pytest.fixture
def history(members: dict[str, Member]) -> Iterator[MembersHistory]:
    """The history of all, asked by c1."""
    context = members["c1"].context
    with closing(QueryClient(Connection(context.settings.cluster, "test"))) as query_client:
        yield MembersHistory(context.data, "c1", query_client)


@pytest.fixture(scope="module")
def rows(folders: dict[str, Path]) -> list[dict[str, Any]]:
    """Every member's events, as its own history has them, with the member."""
    found = []
    for name, folder in folders.items():
        with History(folder) as one:
            found += [{**row, "member": name} for row in one.events(limit=None).rows()]
    assert len(found) == 1200
    return found


def place(row: dict[str, Any]) -> tuple[Any, ...]:
    """The order of a cluster's events."""
    return row["time"], row["member"], row["shard"], row["sequence"]


def whole(history: MembersHistory) -> None:
    """All members have answered."""
    assert history.answer.as_json() == {
        "answered": list(NAMES), "missing": {}, "complete": True, "local_only": None, "without_lake": None,
    }  # fmt: skip


@pytest.mark.parametrize("order", ["newest", "oldest"])
def test_events_come_page_by_page_each_once(history: MembersHistory, rows: list[Any], order: Any) -> None:
    """Pages of 97 events, across equal times of several members, are all events in the cluster's order."""
    expected = [place(row) for row in sorted(rows, key=place, reverse=order == "newest")]
    found: list[Any] = []
    after = None
    while True:
        page = history.events(limit=97, order=order, after=after)
        found += [place(row) for row in page.rows()]
        assert page.truncated == (page.after is not None)
        if (after := page.after) is None:
            break
    assert found == expected
    whole(history)


def test_events_are_those_of_members_with_filters(history: MembersHistory, rows: list[Any]) -> None:
    """A filter of kinds, nodes and time leaves what brute force leaves, with every column."""
    middle = sorted(row["time"] for row in rows)[600]
    table = history.events(
        limit=None, kinds=["push", "drop"], start=int(np.datetime64(middle[:-1], "ns").astype(int))
    )
    expected = [row for row in rows if row["kind"] in ("push", "drop") and row["time"] >= middle]
    assert table.rows() == sorted(expected, key=place, reverse=True)
    assert table.rows()


def test_a_flow_is_one_over_members_by_its_tuple(history: MembersHistory, rows: list[Any]) -> None:
    """Each of 12 flows is one row of three members' events; with a limit the counts are those of all, too."""
    for limit in (None, 3):
        table = history.flows(limit=limit)
        assert table.truncated == (limit is not None)
        newest: dict[int, str] = {}
        for row in rows:
            if row["flow_id"] is not None:
                newest[row["sport"]] = max(newest.get(row["sport"], ""), row["time"])
        assert table["last"].tolist() == sorted(newest.values(), reverse=True)[:limit]
        for found in table.rows():
            mine = [row for row in rows if row["sport"] == found["sport"] and row["flow_id"] is not None]
            drops = [row for row in mine if row["kind"] == "drop"]
            of_latency = [
                max(row["value"], row["previous"] if row["kind"] == "flow_record" else 0) for row in mine
                if row["metric"] == "flow_latency" and row["kind"] != "cleared"
            ]  # fmt: skip
            times = [row["time"] for row in mine]
            assert (found["events"], found["drops"]) == (len(mine), len(drops))
            assert (found["first"], found["last"]) == (min(times), max(times))
            assert found["highest_latency"] == max(of_latency, default=None)
            assert found["members"] == list(NAMES)
            last = max((row for row in mine if row["time"] == max(times)), key=place)
            assert found["flow_id"] == last["flow_id"]
    whole(history)


def test_a_flow_id_is_that_of_one_member(history: MembersHistory, rows: list[Any]) -> None:
    """An id finds the flow at the member that gave it; the 5-tuple finds it at all."""
    table = history.events(flow=Flow(flow_id=2003), limit=None)
    assert {row["member"] for row in table.rows()} == {"c2"}
    table = history.events(flow=Flow(src="10.0.0.3", sport=1003), limit=None)
    assert len(table) == sum(row["sport"] == 1003 and row["flow_id"] is not None for row in rows)
    assert {row["member"] for row in table.rows()} == set(NAMES)


@pytest.mark.parametrize("bucket", [None, 0.0001])
def test_summaries_are_sums(history: MembersHistory, rows: list[Any], bucket: float | None) -> None:
    """Events by kind and metric, and by time."""

    def key(row: dict[str, Any]) -> tuple[Any, ...]:
        if bucket is None:
            return row["kind"], row["metric"]
        ns = int(np.datetime64(row["time"][:-1], "ns").astype(int)) // 100_000 * 100_000
        return f"{np.datetime64(ns, 'ns')}Z", row["kind"], row["metric"]

    times: dict[tuple[Any, ...], list[str]] = {}
    for row in rows:
        times.setdefault(key(row), []).append(row["time"])
    names = ("kind", "metric") if bucket is None else ("bucket", "kind", "metric")
    found = {tuple(row[name] for name in names): row for row in history.summary(bucket_seconds=bucket).rows()}
    assert {each: (row["events"], row["first"], row["last"]) for each, row in found.items()} == {
        each: (len(all_), min(all_), max(all_)) for each, all_ in times.items()
    }


def test_hops_and_peaks_are_the_highest_of_all_members(history: MembersHistory, rows: list[Any]) -> None:
    """Highest and mean of each place, and the five highest."""
    hops: dict[Any, list[int]] = {}
    for row in rows:
        if row["metric"] == "hop_latency" and row["kind"] != "cleared":
            hops.setdefault((row["node_id"], row["port"]), []).append(row["value"])
    found = history.hops(limit=None).rows()
    assert {(row["node_id"], row["port"]): (row["highest"], row["events"]) for row in found} == {
        at: (max(values), len(values)) for at, values in hops.items()
    }
    assert all(row["mean"] == pytest.approx(np.mean(hops[row["node_id"], row["port"]])) for row in found)
    top = history.hops(limit=5)
    assert top["highest"].tolist() == sorted((max(values) for values in hops.values()), reverse=True)[:5]
    assert top.truncated
    peaks = history.peaks("queue_occupancy", limit=None).rows()
    expected: dict[Any, int] = {}
    for row in rows:
        counts = row["kind"] != "flow_record" and row["reason"] in (None, "value", "limits")
        counts = counts and row["node_id"] is not None
        if counts and row["metric"] == "queue_occupancy":
            at = row["node_id"], row["port"], row["ident"]
            expected[at] = max(expected.get(at, 0), row["value"])
    assert {(row["node_id"], row["port"], row["ident"]): row["highest"] for row in peaks} == expected


def test_paths_come_oldest_first(history: MembersHistory, rows: list[Any]) -> None:
    """Of all members, and the first 50 of them."""
    expected = [(*place(row), row["path"]) for row in sorted(rows, key=place) if row["path"] is not None]
    assert [(*place(row), row["path"]) for row in history.paths(limit=None).rows()] == expected
    assert [(*place(row), row["path"]) for row in history.paths(limit=50).rows()] == expected[:50]


def test_labels_and_coverage_are_those_of_each_member(history: MembersHistory, folders: Any) -> None:
    """Newest first, each row as its member's own history has it."""
    for method in ("labels", "coverage"):
        expected = []
        for name, folder in folders.items():
            with History(folder) as one:
                expected += [{"member": name, **row} for row in getattr(one, method)(limit=None).rows()]
        found = getattr(history, method)(limit=None).rows()
        assert sorted(map(repr, found)) == sorted(map(repr, expected))
        assert [row["time"] for row in found] == sorted((row["time"] for row in expected), reverse=True)
        assert found


def test_sql_runs_at_each_member(history: MembersHistory) -> None:
    """A count is one of each member, beside its name, also where the SELECT has it, as over a lake; one that
    fails everywhere is an error that says where.
    """
    table = history.sql("SELECT count(*) AS n, max(sequence) AS last FROM events")
    whole(history)
    assert table.rows() == [{"member": name, "n": 400, "last": 399} for name in NAMES]
    table = history.sql("SELECT member, count(*) AS n FROM events GROUP BY ALL")
    assert table.rows() == [{"member": name, "n": 400} for name in NAMES]
    table = history.sql("SELECT 'x' AS member FROM events LIMIT 1")
    assert table.rows() == [{"member_": name, "member": "x"} for name in NAMES]
    assert next(iter(history.sql("FROM events LIMIT 1").columns)) == "member"
    with pytest.raises(SqlError, match=r"nothing.*\(line 1, column 8\)$"):
        history.sql("SELECT nothing FROM events")


def test_what_no_history_of_a_cluster_knows_is_refused(history: MembersHistory) -> None:
    """An order by sequence, and a cursor of one member."""
    with pytest.raises(HistoryError, match="by time only"):
        history.events(order="sequence")
    with pytest.raises(HistoryError, match="expected the `after` of a page of the cluster"):
        history.events(after="5-0-1")


def test_without_nats_this_member_answers_alone(nats: NatsServer, folders: Any, rows: list[Any]) -> None:
    """Nothing listens there: the rows are those of this member, and the answer says so and why."""
    settings = settings_of("nats://127.0.0.1:1", "past", "c1")
    with closing(QueryClient(Connection(settings.cluster, "test"))) as query_client:
        history = MembersHistory(folders["c1"], "c1", query_client)
        found = history.events(limit=None).rows()
    assert found == sorted((row for row in rows if row["member"] == "c1"), key=place, reverse=True)
    assert (history.answer.answered, history.answer.complete) == (("c1",), False)
    assert "127.0.0.1:1" in history.answer.local_only


def test_kinds_and_metrics_of_these_events_cover_all_rules() -> None:
    """The made-up events have what the queries above ask for."""
    events = np.concatenate([events_of(number) for number in range(3)])
    assert {Kind.DROP, Kind.PUSH, Kind.LABEL_RECORD, Kind.FLOW_RECORD} <= set(events["kind"].tolist())
    assert {Metric.HOP_LATENCY, Metric.QUEUE_OCCUPANCY, Metric.FLOW_LATENCY} <= set(events["metric"].tolist())


def test_a_query_takes_no_more_memory_than_its_member_allows(
    folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever memory another member asks for."""
    allowed: list[int] = []

    def ask(self: HistoryQuery, *_: object) -> list[Any]:
        allowed.append(self.memory_bytes)
        return []

    monkeypatch.setattr(HistoryQuery, "ask", ask)
    with closing(HistoryHandler(folders["c1"], "c1", 2**26)) as handler:
        for asked in (2**34, 2**20):
            query = {"ask": {"method": "sql", "text": "SELECT 1", "memory_bytes": asked}}
            assert asyncio.run(handler(query)).status == 200
    assert allowed == [2**26, 2**20]
