"""Queries against brute force over the records."""

from __future__ import annotations

import os
import tracemalloc
from collections.abc import Callable
from datetime import UTC, datetime
from ipaddress import IPv6Address, ip_network
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from hopscope.base.names import Names
from hopscope.detect.records import EVENT, NO_NODE, NO_PORT, ClearReason, Kind, Metric
from hopscope.history.columns import connect
from hopscope.history.errors import HistoryError
from hopscope.history.files import journal_chunks
from hopscope.history.files.checksums import sum_path
from hopscope.history.files.journal_chunks import JournalReader, read_columns
from hopscope.history.files.names import list_segments
from hopscope.history.files.segment_index import Criteria
from hopscope.history.files.segments import VERSION_KEY, write_segment
from hopscope.history.query import Flow, History
from hopscope.history.reading.filters import is_further
from hopscope.history.reading.page import Page
from hopscope.history.writing.archive import archive_once
from hopscope.history.writing.journal import JournalWriter
from hopscope.present.flows.hops import flow_values
from hopscope.present.select import EventFilter, FlowFilter
from hopscope.settings.history import HistorySettings

Events = npt.NDArray[Any]
Stored = tuple[Events, History]


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory, make_events: Callable[..., Events]) -> Stored:
    """Two shards, each with segments and journals: the records, and the history over them."""
    folder = tmp_path_factory.mktemp("data")
    parts = []
    for shard in (0, 5):
        with JournalWriter(folder, shard, fsync_seconds=0) as writer:
            for i in range(3):
                events = make_events(1500, seed=shard + i, start=1500 * i)
                writer.append(events)
                parts.append(events)
                writer.rotate()
                if i == 0:
                    archive_once(folder, HistorySettings())
    return np.concatenate(parts), History(folder)


def names_of(events: Events) -> list[tuple[int, int]]:
    return [(int(e["shard"]), int(e["sequence"])) for e in events]


def found(history: History, **filters: Any) -> list[tuple[int, int]]:
    table = history.events(limit=None, **filters)
    return list(zip(table["shard"].tolist(), table["sequence"].tolist(), strict=True))


def inside(events: Events, side: str, prefix: str) -> npt.NDArray[np.bool_]:
    """Brute force with the standard library; sources have an address, too."""
    network = ip_network(prefix)
    kept = []
    for event in events:
        address = IPv6Address(int(event[f"{side}_hi"]) << 64 | int(event[f"{side}_lo"]))
        shown = address.ipv4_mapped or address
        kept.append(int(address) != 0 and shown in network)
    return np.array(kept)


def test_every_event_once_by_time(stored: Stored) -> None:
    """Without filters all events of segments and journals are there, in the order asked for."""
    events, history = stored
    for order, sign in (("oldest", 1), ("newest", -1)):
        by = np.lexsort((events["sequence"], events["shard"], events["time_ns"]))[::sign]
        assert found(history, order=order) == names_of(events[by])
    by = np.lexsort((events["sequence"], events["shard"]))
    assert found(history, order="sequence") == names_of(events[by])


def test_filters_equal_brute_force(stored: Stored) -> None:
    """Each filter, and several together, keep exactly the records that a mask over them keeps."""
    events, history = stored
    times = np.sort(events["time_ns"])
    low, high = int(times[700]), int(times[4000])
    paths = (events["metric"] == Metric.FLOW_PATH) | (events["kind"] == Kind.LOOP)
    shown = np.clip(events["hop_count"].astype(int) - events["hop"], 0, 8)
    on_path = np.array(
        [paths[i] and bool({3, 7} & set(events["path"][i][: shown[i]])) for i in range(len(events))]
    )
    one = events[events["ip_version"] == 6][17]
    text = str(IPv6Address(int(one["src_hi"]) << 64 | int(one["src_lo"])))
    flow = events["ip_version"] != 0
    cases: list[tuple[dict[str, Any], npt.NDArray[np.bool_]]] = [
        ({"start": low, "end": high}, (events["time_ns"] >= low) & (events["time_ns"] < high)),
        ({"kinds": ["drop", "loop"]}, np.isin(events["kind"], [Kind.DROP, Kind.LOOP])),
        ({"metrics": ["hop_latency"]}, events["metric"] == Metric.HOP_LATENCY),
        ({"nodes": [3, 7]}, np.isin(events["node_id"], [3, 7]) | on_path),
        (
            {"nodes": [3, 7], "metrics": ["hop_latency", "link_utilization"]},
            np.isin(events["node_id"], [3, 7])
            & np.isin(events["metric"], [Metric.HOP_LATENCY, Metric.LINK_UTILIZATION]),
        ),
        (
            {"nodes": [3, 7], "metrics": ["hop_latency", "flow_path"]},
            (np.isin(events["node_id"], [3, 7]) | on_path)
            & np.isin(events["metric"], [Metric.HOP_LATENCY, Metric.FLOW_PATH]),
        ),
        ({"ports": [1, 2]}, np.isin(events["port"], [1, 2])),
        (
            {"nodes": [3, 7], "ports": [1, 2]},
            np.isin(events["node_id"], [3, 7]) & np.isin(events["port"], [1, 2]),
        ),
        ({"flow": Flow(src=text)}, (events["src_hi"] == one["src_hi"]) & (events["src_lo"] == one["src_lo"])),
        ({"flow": Flow(flow_id=int(one["flow_id"]))}, events["flow_id"] == one["flow_id"]),
        ({"flow": Flow(proto=17)}, flow & (events["proto"] == 17)),
        ({"flow": Flow(sport=int(one["sport"]))}, flow & (events["sport"] == one["sport"])),
        ({"since": {0: 4000}}, (events["shard"] != 0) | (events["sequence"] >= 4000)),
    ]
    first = len(cases)
    for prefix in (
        "10.0.1.0/24",
        "192.0.2.0/23",
        "2001:db8::/32",
        "2001:db8:0:3::/64",
        "2001:db8:0:3:100::/72",
        "2001::/16",
        "::/0",  # IPv4, held as ::ffff:0:0/96, is not in it
        "::/64",
        "0.0.0.0/0",
    ):
        either = inside(events, "src", prefix) | inside(events, "dst", prefix)
        cases.append(({"prefix": prefix}, either))
    host = inside(events, "src", "10.0.0.7/32")
    cases.append(({"prefix": ["10.0.1.0/24", "10.0.0.7"]}, cases[first][1] | host))
    cases.append((cases[0][0] | cases[2][0] | cases[first][0], cases[0][1] & cases[2][1] & cases[first][1]))
    chosen = EventFilter(nodes=(3, 7), ports=(1, 2))
    live = chosen.mask(events)
    assert sorted(found(history, **chosen.of_history())) == sorted(names_of(events[live]))
    assert live.sum() > 0
    for filters, mask in cases:
        if filters.keys() == {"prefix"}:
            asked = filters["prefix"]
            prefixes = (asked,) if isinstance(asked, str) else tuple(asked)
            assert np.array_equal(EventFilter(flow=FlowFilter(prefixes=prefixes)).mask(events), mask), filters
        assert sorted(found(history, **filters)) == sorted(names_of(events[mask])), filters
        assert 0 < mask.sum() < len(events) or "prefix" in filters, filters


def test_columns_say_what_the_records_say(stored: Stored) -> None:
    """Codes become names, missing values None, paths lists, 64-bit numbers stay exact."""
    events, history = stored
    by_name = {(int(e["shard"]), int(e["sequence"])): e for e in events}
    for row in history.events(limit=None).rows():
        event = by_name[row["shard"], row["sequence"]]
        assert row["kind"] == Kind(event["kind"]).label
        assert row["metric"] == (Metric(event["metric"]).label if event["metric"] else None)
        assert row["node_id"] == (None if event["node_id"] == NO_NODE else event["node_id"])
        assert row["port"] == (None if event["port"] == NO_PORT else event["port"])
        assert row["flow_id"] == (int(event["flow_id"]) or None)
        assert (row["value"], row["previous"]) == (event["value"], event["previous"])
        assert np.datetime64(row["time"][:-1]).astype("datetime64[ns]").astype(int) == event["time_ns"]
        if event["ip_version"]:
            address = IPv6Address(int(event["src_hi"]) << 64 | int(event["src_lo"]))
            assert row["src"] == str(address.ipv4_mapped or address)
            assert (row["sport"], row["dport"], row["proto"]) == tuple(
                event[["sport", "dport", "proto"]].item()
            )
        else:
            assert row["src"] is row["sport"] is row["proto"] is None
        if event["metric"] == Metric.FLOW_PATH or event["kind"] == Kind.LOOP:
            shown = max(0, min(8, int(event["hop_count"]) - int(event["hop"])))
            assert row["path"] == event["path"][:shown].tolist()
        else:
            assert row["path"] is None


@pytest.mark.parametrize("order", ["newest", "oldest", "sequence"])
def test_pages_join_without_seam(stored: Stored, order: Any) -> None:
    """Page after page gives what one query gives."""
    _, history = stored
    whole = found(history, order=order, kinds=["change", "drop"])
    paged: list[tuple[int, int]] = []
    after = None
    while True:
        page = history.events(limit=97, order=order, after=after, kinds=["change", "drop"])
        paged += zip(page["shard"].tolist(), page["sequence"].tolist(), strict=True)
        after = page.after
        if after is None:
            break
        assert len(page) == 97
    assert paged == whole


@pytest.mark.parametrize("metric", ["queue_occupancy", "link_utilization", "label_latency", "drop"])
def test_values_of_places_by_time(stored: Stored, metric: str) -> None:
    """Highest, lowest, latest and number of values are those of a loop over the records of each bucket."""
    events, history = stored
    width = 500_000
    found = history.peaks(metric, bucket_ns=width, limit=None).rows()
    expected: dict[Any, list[tuple[int, int, int]]] = {}
    for e in events:
        if metric == "drop":
            wanted, value, highest = e["kind"] == Kind.DROP, 1, 1
        else:
            wanted = e["metric"] == Metric[metric.upper()] and e["kind"] != Kind.FLOW_RECORD
            value = highest = int(e["value"])
            if metric == "label_latency" and e["kind"] == Kind.LABEL_RECORD:
                highest = int(e["previous"])
        if not wanted or e["node_id"] == NO_NODE:
            continue
        port = None if e["port"] == NO_PORT else int(e["port"])
        ident = int(e["ident"]) if metric == "queue_occupancy" else None
        if metric == "link_utilization":
            port = int(e["ident"])
        time_ns = int(e["time_ns"])
        at = (time_ns // width * width, int(e["node_id"]), port, ident)
        expected.setdefault(at, []).append((time_ns, value, highest))
    assert len(found) == len(expected) > 20
    for row in found:
        bucket = int(np.datetime64(row["bucket"].removesuffix("Z"), "ns").astype(np.int64))
        values = expected[bucket, row["node_id"], row["port"], row["ident"]]
        assert row["highest"] == max(highest for _, _, highest in values)
        assert row["lowest"] == min(value for _, value, _ in values)
        assert (row["events"], row["latest"]) == (len(values), max(values)[1])
    peaks = history.peaks(metric, limit=None).rows()
    assert max(row["highest"] for row in found) == peaks[0]["highest"]
    assert sum(row["events"] for row in peaks) == sum(map(len, expected.values()))


@pytest.mark.parametrize("archived", [False, True])
def test_events_of_one_time_are_in_the_order_of_their_numbers(tmp_path: Path, archived: bool) -> None:
    """Reports that came together have one time. An alarm that rose and ended then is not open, and the latest
    value is that of the last report, also of the flows of a hop.
    """
    events = np.zeros(5, EVENT)
    events["kind"] = [Kind.RAISED, Kind.CHANGE, Kind.CLEARED, Kind.CHANGE, Kind.CHANGE]
    events["metric"] = [Metric.QUEUE_OCCUPANCY] * 3 + [Metric.HOP_LATENCY] * 2
    events["value"], events["flow_id"] = [900, 1200, 8, 70, 60], [3, 3, 3, 4, 3]
    events["node_id"], events["port"], events["time_ns"], events["reason"][2] = 7, 1, 10, ClearReason.VALUE
    with JournalWriter(tmp_path, 0) as writer:
        writer.append(events)
    if archived:
        archive_once(tmp_path, HistorySettings())
    with History(tmp_path) as history:
        hop, queue = history.moment(highest_from=0).rows()
        assert (queue["value"], queue["highest"], queue["alarms"]) == (8, 1200, 0)
        assert (hop["value"], hop["highest"]) == (60, 70)
        for bucket in (None, 1000):
            (row,) = history.peaks("queue_occupancy", bucket_ns=bucket).rows()
            assert (row["lowest"], row["highest"], row["latest"]) == (8, 1200, 8)


def test_summary_counts(stored: Stored) -> None:
    """By kind and metric, and by time, the counts add up to the records."""
    events, history = stored
    for row in history.summary().rows():
        metric = Metric[(row["metric"] or "none").upper()]
        assert row["events"] == np.sum(
            (events["kind"] == Kind[row["kind"].upper()]) & (events["metric"] == metric)
        )
    table = history.summary(bucket_seconds=0.001, kinds=["drop"])
    buckets = events["time_ns"][events["kind"] == Kind.DROP] // 1_000_000
    counted: dict[int, int] = {}
    for bucket, count in zip(table["bucket"].astype(np.int64) // 1_000_000, table["events"], strict=True):
        counted[int(bucket)] = counted.get(int(bucket), 0) + int(count)
    assert counted == dict(
        zip(*(part.tolist() for part in np.unique(buckets, return_counts=True)), strict=True)
    )


def test_flows_and_hops(stored: Stored) -> None:
    """Groups have the counts and the extremes of their records."""
    events, history = stored
    flows = history.flows(limit=None)
    assert len(flows) == len(set(events["flow_id"].tolist()) - {0})
    last = {int(e["flow_id"]): int(e["time_ns"]) for e in events[np.argsort(events["time_ns"])]}
    for flow_id, time in zip(flows["flow_id"].tolist(), flows["last"].astype(np.int64).tolist(), strict=True):
        assert last[flow_id] == time
    latency = events[(events["metric"] == Metric.HOP_LATENCY) & (events["kind"] != Kind.CLEARED)]
    rows = list(history.hops(limit=None).rows())
    assert sum(row["events"] for row in rows) == len(latency)
    assert rows[0]["highest"] == latency["value"].max()


def test_a_hop_was_highest_when_it_last_was_that_high(tmp_path: Path) -> None:
    """Two events have the highest latency: which of them is read first does not decide."""
    events = np.zeros(4, EVENT)
    events["kind"], events["metric"], events["port"] = Kind.CHANGE, Metric.HOP_LATENCY, 3
    events["node_id"], events["value"], events["time_ns"] = [1, 1, 1, 1], [5, 9, 9, 2], [10, 20, 30, 40]
    with JournalWriter(tmp_path, 0) as writer, History(tmp_path) as history:
        writer.append(events)
        (row,) = history.hops().rows()
    assert (row["highest"], row["time"]) == (9, "1970-01-01T00:00:00.000000030Z")


def test_flows_of_many_events_take_little_memory(tmp_path: Path, make_events: Callable[..., Events]) -> None:
    """Their events are not all in memory at once: 200,000, of which all columns take more than 24 MiB, and as
    many in a journal.
    """
    events = np.tile(make_events(2000, seed=3), 100)
    events["sequence"], events["time_ns"], events["hop"] = np.arange(len(events)), np.arange(len(events)), 0
    (tmp_path / "segments").mkdir()
    write_segment(tmp_path, events)
    seen = int((events["flow_id"] != 0).sum())
    with JournalWriter(tmp_path, 1) as writer:
        for extra in (0, len(events)):
            writer.append(events[:extra])
            with History(tmp_path, memory_bytes=16 * 1024**2, threads=1) as history:
                assert sum(history.flows(limit=None)["events"]) == (2 * seen if extra else seen)


def test_hops_without_a_number_lead_nowhere(tmp_path: Path) -> None:
    """A switch may send 0 as the number of hops, or 255 as a hop."""
    events = np.zeros(2, EVENT)
    events["kind"], events["metric"], events["flow_id"] = Kind.FLOW_RECORD, Metric.HOP_LATENCY, 7
    events["hop"], events["node_id"], events["port"] = [0, 255], [1, 2], 3
    with JournalWriter(tmp_path, 0) as writer, History(tmp_path) as history:
        writer.append(events)
        rows = history.steps().rows()
    assert [(row["node_id"], row["next_node_id"], row["ends"]) for row in rows] == [
        (1, None, 1),
        (2, None, 0),
    ]


def test_a_flow_that_left_was_last_seen_with_its_last_report(tmp_path: Path) -> None:
    """It was pushed after that, and its alarm ended when it left. Until it leaves, or once it is back, a push
    says that it lives.
    """
    events = np.zeros(6, EVENT)
    events["kind"] = [Kind.NEW_KEY, Kind.PUSH, Kind.CLEARED, Kind.FLOW_RECORD, Kind.NEW_KEY, Kind.PUSH]
    events["metric"], events["flow_id"], events["ip_version"] = Metric.FLOW_LATENCY, 9, 4
    events["time_ns"], events["reason"][2] = [10, 20, 70, 12, 100, 110], ClearReason.EXPIRED
    last = []
    for count in (2, 4, 6):
        folder = tmp_path / str(count)
        with JournalWriter(folder, 0) as writer, History(folder) as history:
            writer.append(events[:count])
            last += history.flows()["last"].astype(np.int64).tolist()
            last.append(flow_values(history, 9, None, None).last_ns)
    assert last == [20, 20, 12, 12, 110, 110]


def test_the_worst_hop_is_that_of_one_record(tmp_path: Path) -> None:
    """Of a flow that left and came back, the highest mean of one stay, not that of both."""
    events = np.zeros(6, EVENT)
    events["kind"], events["flow_id"], events["ip_version"] = Kind.FLOW_RECORD, 9, 4
    events["metric"] = [Metric.FLOW_PATH, Metric.HOP_LATENCY, Metric.HOP_LATENCY] * 2
    events["value"], events["node_id"] = [10, 50, 90, 1000, 60, 20], [NO_NODE, 1, 2] * 2
    events["time_ns"], events["sequence"], events["port"] = [5] * 3 + [9] * 3, range(6), 3
    with JournalWriter(tmp_path, 0) as writer, History(tmp_path) as history:
        writer.append(events)
        (flow,) = history.flows().rows()
    assert (flow["packets"], flow["worst_node_id"], flow["worst_latency"]) == (1010, 2, 90)


def test_packets_of_flows_are_those_of_whole_records(tmp_path: Path) -> None:
    """Filters choose flows by their events; of a record, only the event of the path has the packets."""
    events = np.zeros(4, EVENT)
    events["time_ns"], events["flow_id"], events["sequence"] = [5, 5, 5, 9], 77, range(4)
    events["kind"] = [Kind.FLOW_RECORD, Kind.FLOW_RECORD, Kind.FLOW_RECORD, Kind.DROP]
    events["metric"] = [Metric.FLOW_PATH, Metric.FLOW_LATENCY, Metric.HOP_LATENCY, Metric.NONE]
    events["value"], events["port"] = [40, 900, 800, 0], [NO_PORT, NO_PORT, 2, 3]
    events["node_id"] = [NO_NODE, NO_NODE, 6, 6]
    with JournalWriter(tmp_path, 0) as writer:
        writer.append(events)
    with History(tmp_path) as history:
        for filters in (
            {},
            {"ports": [2]},
            {"ports": [3]},
            {"kinds": ["drop"]},
            {"nodes": [6], "ports": [2]},
        ):
            (row,) = history.flows(**filters).rows()  # type: ignore[arg-type]
            assert (row["packets"], row["mean_latency"]) == (40, 900), filters
        assert len(history.flows(ports=[4])) == 0
        assert len(history.flows(kinds=["drop"], end=9)) == 0


def test_long_paths_are_joined(tmp_path: Path) -> None:
    """A path of 19 nodes takes three records, and is one event and one path over time."""
    events = np.zeros(4, EVENT)
    events["kind"] = [Kind.NEW_KEY] * 3 + [Kind.PATH_CHANGE]
    events["metric"] = Metric.FLOW_PATH
    events["flow_id"], events["ip_version"] = 9, 4
    events["hop"], events["hop_count"] = [0, 8, 16, 0], [19, 19, 19, 2]
    events["path"][:3] = np.arange(24).reshape(3, 8)
    events["path"][3][:2] = (5, 6)
    events["time_ns"] = [10, 10, 10, 20]
    with JournalWriter(tmp_path, 0) as writer, History(tmp_path) as history:
        writer.append(events)
        table = history.paths(flow=Flow(flow_id=9))
        assert [row["path"] for row in table.rows()] == [list(range(19)), [5, 6]]
        assert table["kind"].tolist() == ["new_key", "path_change"]
        for node in (None, 2, 17):
            nodes = () if node is None else (node,)
            rows = history.events(nodes=nodes, order="oldest").rows()
            assert rows[0]["path"] == list(range(19))
            assert len(rows) == (2 if node is None else 1)
            assert sum(row["events"] for row in history.summary(nodes=nodes).rows()) == len(rows)
            assert history.paths(nodes=nodes).rows()[0]["path"] == list(range(19))


def test_a_long_path_that_goes_on_in_a_damaged_segment(tmp_path: Path) -> None:
    """The event that begins it is an answer, with the nodes that are left; the damaged segment is named."""
    events = np.zeros(2, EVENT)
    events["kind"], events["metric"] = Kind.NEW_KEY, Metric.FLOW_PATH
    events["flow_id"], events["ip_version"] = 9, 4
    events["hop"], events["hop_count"] = [0, 8], 16
    events["path"] = np.arange(16).reshape(2, 8)
    events["time_ns"] = 10
    for part in (events[:1], events[1:]):
        with JournalWriter(tmp_path, 0) as writer:
            writer.append(part)
        archive_once(tmp_path, HistorySettings())
    _, following = list_segments(tmp_path)
    following.path.write_bytes(following.path.read_bytes()[:-1])
    with History(tmp_path) as history:
        (row,) = history.events(flow=Flow(flow_id=9), order="sequence", limit=1).rows()
        assert row["path"] == list(range(8))
        assert [line for line in history.problems if f"{following.path} is damaged" in line]


def test_why_an_alarm_was_cleared(tmp_path: Path) -> None:
    """The reason is a column of cleared alarms, in journals and in segments; segments of 0.1 have none."""
    events = np.zeros(4, EVENT)
    events["kind"] = [Kind.CLEARED, Kind.CLEARED, Kind.CLEARED, Kind.RAISED]
    events["metric"], events["time_ns"] = Metric.QUEUE_OCCUPANCY, [1, 2, 3, 4]
    events["reason"] = [ClearReason.VALUE, ClearReason.EXPIRED, ClearReason.EVICTED, 0]
    reasons = ["value", "expired", "evicted", None]
    with JournalWriter(tmp_path, 0) as writer:
        writer.append(events)
    with History(tmp_path) as history:
        assert [row["reason"] for row in history.events(order="oldest").rows()] == reasons
        archive_once(tmp_path, HistorySettings())
        (segment,) = tmp_path.glob("segments/*.parquet")
        assert [row["reason"] for row in history.events(order="oldest").rows()] == reasons
        old = segment.with_suffix(".old")
        metadata = f"KV_METADATA {{{VERSION_KEY}: '1'}}"
        with connect(256 * 1024**2, 1) as duck:
            source = f"SELECT * EXCLUDE (reason, switch_ns) FROM '{segment}'"
            duck.execute(f"COPY ({source}) TO '{old}' (FORMAT parquet, {metadata})")
        old.rename(segment)
        sum_path(segment).unlink()  # it had none
    with History(tmp_path) as history:
        assert [row["reason"] for row in history.events(order="oldest").rows()] == [None] * 4


def test_names_are_added(tmp_path: Path, make_events: Callable[..., Events]) -> None:
    """Nodes and ports with a name show it, others None."""
    names = Names({3: "leaf-3"}, {(3, 1): "to spine-1"})
    with JournalWriter(tmp_path, 0) as writer, History(tmp_path, names) as history:
        writer.append(make_events(500))
        for row in history.events().rows():
            assert row["node"] == ("leaf-3" if row["node_id"] == 3 else None)
            assert row["port_name"] == ("to spine-1" if (row["node_id"], row["port"]) == (3, 1) else None)


def test_an_empty_history(tmp_path: Path) -> None:
    """A folder whose collector has no events yet answers with empty tables that have their columns."""
    with JournalWriter(tmp_path, 0), History(tmp_path) as history:
        assert len(history.events()) == 0
        assert "kind" in history.events().columns
        assert len(history.flows()) == len(history.hops()) == len(history.summary()) == 0
        assert history.sql("SELECT count(*) AS n FROM events")["n"].tolist() == [0]


def test_folders_that_are_none(tmp_path: Path) -> None:
    """A missing folder, and one of something else, are reported in one line."""
    for folder, message in ((tmp_path / "nix", "does not exist"), (tmp_path, "no journal and no segments")):
        with pytest.raises(HistoryError, match=message):
            History(folder)


@pytest.mark.parametrize(
    ("filters", "message"),
    [
        ({"kinds": ["dorp"]}, "unknown kind 'dorp'"),
        ({"metrics": ["none"]}, "unknown metric 'none'"),
        ({"prefix": "10.0.0.0/99"}, "not an address or network"),
        ({"flow": Flow(dst="x")}, "not an address or network"),
        ({"limit": -1}, "limit: found -1, expected 0 or more"),
        ({"after": "x' OR 1"}, "expected the `after` of the page before"),
    ],
)
def test_invalid_filters(stored: Stored, filters: dict[str, Any], message: str) -> None:
    """A mistake is named, not ignored."""
    with pytest.raises(HistoryError, match=message):
        stored[1].events(**filters)


def test_times_of_the_standard_library(stored: Stored) -> None:
    """A datetime, aware or UTC, is as good as ns."""
    events, history = stored
    at = datetime.fromtimestamp(int(np.median(events["time_ns"])) // 1000 / 1e6, UTC).replace(
        microsecond=2000
    )
    ns = int(at.timestamp()) * 10**9 + 2_000_000
    assert (
        found(history, start=at) == found(history, start=at.replace(tzinfo=None)) == found(history, start=ns)
    )


def test_frames_of_other_libraries(stored: Stored) -> None:
    """Arrow, pandas and Polars have the same values, missing ones and 64-bit ones too."""
    pytest.importorskip("pyarrow")
    pytest.importorskip("pandas")
    pytest.importorskip("polars")
    table = stored[1].events(limit=500)
    rows = list(table.rows())
    assert any(row["flow_id"] is None for row in rows)
    for name in ("flow_id", "previous", "node_id", "kind", "src", "path"):
        expected = [row[name] for row in rows]
        assert table.to_arrow()[name].to_pylist() == expected
        assert table.to_polars()[name].to_list() == expected
        pandas = table.to_pandas()[name]
        assert [
            None if gone else value for value, gone in zip(pandas, pandas.isna(), strict=True)
        ] == expected


def test_a_growing_journal_equals_brute_force(
    tmp_path: Path, make_events: Callable[..., Events], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever its chunks end: filters, pages, sums, SQL, and paths that are in two chunks, while it grows
    and is archived.
    """
    monkeypatch.setattr(journal_chunks, "CHUNK_EVENTS", 50)
    long = np.zeros(3, EVENT)
    long["kind"], long["metric"], long["flow_id"], long["ip_version"] = Kind.NEW_KEY, Metric.FLOW_PATH, 9, 4
    long["hop"], long["hop_count"] = [0, 8, 16], 19
    long["path"] = np.arange(24).reshape(3, 8)
    every = np.empty(0, EVENT)
    with JournalWriter(tmp_path, 0, fsync_seconds=0) as writer, History(tmp_path) as history:
        for turn, count in enumerate((1, 47, 1, 49, 150, 251)):
            events = make_events(count, seed=turn, start=len(every))
            events = np.concatenate([events[~is_further(events) & (events["hop_count"] <= 8)], long])
            events["time_ns"][-3:] = 10**18 + turn
            writer.append(events)
            if turn == 3:
                writer.rotate()
                archive_once(tmp_path, HistorySettings())
            every = np.concatenate([every, events])
            heads = every[~is_further(every)]
            assert found(history, order="sequence") == names_of(heads)
            low, high = np.sort(heads["time_ns"])[[len(heads) // 3, len(heads) * 2 // 3]].tolist()
            inside = (heads["time_ns"] >= low) & (heads["time_ns"] < high)
            for kind in Kind:
                mask = inside & (heads["kind"] == kind)
                filters: dict[str, Any] = {"kinds": [kind.label], "start": low, "end": high}
                assert found(history, order="sequence", **filters) == names_of(heads[mask])
                assert sum(history.summary(**filters)["events"].tolist()) == mask.sum()
            for metric in list(Metric)[1:]:
                mask = heads["metric"] == metric
                assert found(history, order="sequence", metrics=[metric.label]) == names_of(heads[mask])
            for row in history.paths(flow=Flow(flow_id=9)).rows():
                assert row["path"] == list(range(19))
            flows = history.flows(limit=None)
            ids, counts = np.unique(heads["flow_id"][heads["flow_id"] > 0], return_counts=True)
            assert dict(zip(flows["flow_id"].tolist(), flows["events"].tolist(), strict=True)) == dict(
                zip(ids.tolist(), counts.tolist(), strict=True)
            )
            table = history.events(limit=97, order="oldest")
            page = table["sequence"].tolist()
            while table.after is not None:
                table = history.events(limit=97, order="oldest", after=table.after)
                page += table["sequence"].tolist()
            by = np.lexsort((heads["sequence"], heads["time_ns"]))
            assert page == heads["sequence"][by].tolist()
        table = history.sql("SELECT count(*) AS n, sum(value)::UBIGINT AS value FROM events")
        assert (int(table["n"][0]), int(table["value"][0])) == (len(every), sum(every["value"].tolist()))


def test_events_of_a_journal_are_not_kept(tmp_path: Path) -> None:
    """A query keeps no events of a storm's journals, and reads only the columns that it needs."""
    events = np.zeros(100_000, EVENT)
    events["kind"], events["metric"] = Kind.VALUE, Metric.HOP_LATENCY
    events["kind"][::1000] = Kind.SILENT
    with JournalWriter(tmp_path, 0) as writer, History(tmp_path) as history:
        writer.append(events)
        tracemalloc.start()
        try:
            assert len(found(history, kinds=["silent"])) == 100
            kept, _ = tracemalloc.get_traced_memory()
            tracemalloc.reset_peak()
            assert history.summary()["events"].tolist() == [99_900, 100]
            _, most = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert kept < events.nbytes / 4
        assert most < events.nbytes / 2


def test_a_journal_that_is_archived_while_read(tmp_path: Path, make_events: Callable[..., Events]) -> None:
    """Its events can still be read, although its file is gone."""
    events = make_events(500)
    with JournalWriter(tmp_path, 0) as writer:
        writer.append(events)
    reader = JournalReader(next((tmp_path / "journal").glob("*.journal")))
    parts = reader.parts()
    archive_once(tmp_path, HistorySettings())
    assert not reader.path.exists()
    read = read_columns(parts, EVENT.names or (), Criteria())
    for name in EVENT.names or ():
        assert np.array_equal(read[name], events[name])


def test_a_journal_that_is_cut_while_read(tmp_path: Path, make_events: Callable[..., Events]) -> None:
    """The events up to its new end are found, and those that are written there later."""
    events = make_events(40_000)
    with JournalWriter(tmp_path, 0) as writer:
        writer.append(events)
    reader = JournalReader(next((tmp_path / "journal").glob("*.journal")))
    parts = reader.parts()
    whole = reader.path.read_bytes()
    os.truncate(reader.path, 128 + 136 * 20_000 + 7)
    assert np.array_equal(read_columns(parts, ["value"], Criteria())["value"], events["value"][:20_000])
    assert sum(part.last + 1 - part.first for part in reader.parts()) == 20_000
    damaged = bytearray(whole)
    damaged[128 + 136 * 30_000] ^= 1  # the sequence of this event
    reader.path.write_bytes(damaged)
    assert reader.parts()[-1].last == 29_999
    reader.path.write_bytes(whole)
    assert reader.parts()[-1].last == 39_999


def test_a_page_whose_journal_is_cut_before_its_rows_are_read(
    tmp_path: Path, make_events: Callable[..., Events], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is an error of one line; the next query finds what is left."""
    with JournalWriter(tmp_path, 0) as writer:
        writer.append(make_events(500))
    (journal,) = (tmp_path / "journal").glob("*.journal")
    fetch = Page.fetch

    def fetch_later(*arguments: Any) -> Any:
        os.truncate(journal, 128 + 136 * 300)
        return fetch(*arguments)

    monkeypatch.setattr(Page, "fetch", fetch_later)
    with History(tmp_path) as history:
        with pytest.raises(HistoryError, match="changed while they were read: try again"):
            history.events(limit=400, order="sequence")
        assert len(history.events(limit=400)) == 300
