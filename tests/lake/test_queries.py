"""Queries over the lake and tails of its members, against brute force over all records."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pytest

from hopscope.cluster.queries.tails import TailHandler, after_marks, decode, request_json
from hopscope.detect.records import Kind, Metric
from hopscope.history.query import Flow
from hopscope.history.reading.map_sql import STEP_KINDS
from hopscope.history.reading.page import Order
from hopscope.lake.catalog import Lake, create
from hopscope.lake.queries import LakeQueries, Tail, TailRequest
from hopscope.lake.reader import LakeReader
from hopscope.lake.snapshot import LakeSnapshot, take
from hopscope.settings.lake import LakeSettings
from hopscope.wire.address import address
from support.cluster.lake_make import lake_settings
from support.events.member_events import DAY_NS, Member, commit, member_events
from support.servers.postgres_server import PostgresServer

Row = dict[str, Any]
MARKS = {"c1": (0, 600), "c2": (600, 311), "c-3.x": (42, 0)}
"""How many events of its two shards the lake has, by member; some end within a long path."""
COUNT = 600


@dataclass
class Cluster:
    """Members, their lake, and History's queries to both."""

    settings: LakeSettings
    members: list[Member]
    reader: LakeReader
    requests: list[TailRequest]
    before_tails: Callable[[], None] = lambda: None

    def tails(self, snapshot: LakeSnapshot, request: TailRequest) -> list[Tail]:
        """Ask each member as `cluster.history` does, without NATS between."""
        self.requests.append(request)
        self.before_tails()
        found = []
        query = json.loads(json.dumps(request_json(snapshot, request))) | {"seconds": 60}
        for member in self.members:
            answer = TailHandler(member.folder, member.name, member.incarnation).read(query)
            incarnation, events, cut = decode(answer)
            assert not cut
            found.append(after_marks(snapshot, member.name, incarnation, events))
        return found

    @property
    def queries(self) -> LakeQueries:
        return LakeQueries(self.reader, self.tails)

    @cached_property
    def rows(self) -> list[Row]:
        """All events of all members, as a table has them."""
        return [shown(row) for member in self.members for row in member.rows()]


@pytest.fixture(scope="module")
def cluster(database: PostgresServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three members with two shards each, whose marks are at different places."""
    folder = tmp_path_factory.mktemp("members")
    settings = lake_settings(database, data=str(folder / "lake"))
    create(settings)
    members = []
    with Lake(settings) as lake:
        for number, (name, marks) in enumerate(MARKS.items()):
            shards = {shard: member_events(COUNT, number, shard) for shard in (0, 5)}
            member = Member(name, f"in-{number}_x", folder / name, shards)
            member.write()
            for shard, until in zip((0, 5), marks, strict=True):
                if until:
                    commit(lake, name, member.incarnation, shards[shard][:until])
            members.append(member)
    found = Cluster(settings, members, LakeReader(settings), [])
    yield found
    found.reader.close()


def shown(row: Row) -> Row:
    """A record as a row of a table, by what the documentation of `history.columns` says."""
    in_flow = row["ip_version"] != 0
    return {
        "member": row["member"],
        "time": row["time_ns"],
        "kind": Kind(row["kind"]).label,
        "metric": Metric(row["metric"]).label if row["metric"] else None,
        "node_id": None if row["node_id"] == 0xFFFFFFFF else row["node_id"],
        "port": None if row["port"] == 0xFFFF else row["port"],
        "ident": row["ident"],
        "value": row["value"],
        "previous": row["previous"],
        "flow_id": row["flow_id"] or None,
        "src": address(row["src_hi"], row["src_lo"]) if in_flow else None,
        "dst": address(row["dst_hi"], row["dst_lo"]) if in_flow else None,
        **{name: row[name] if in_flow else None for name in ("sport", "dport", "proto")},
        "path": row["path"],
        "shard": row["shard"],
        "sequence": row["sequence"],
        "incarnation": row["incarnation"],
    }


def table_rows(table: Any) -> list[Row]:
    """Rows of a table; times are ns since the epoch."""
    found: list[Row] = table.rows()
    for name, column in table.columns.items():
        if column.dtype.kind == "M":
            for row, time_ns in zip(found, column.astype(np.int64).tolist(), strict=True):
                row[name] = time_ns
    return found


def in_order(rows: list[Row], order: str) -> list[Row]:
    key = ("time", "member", "shard", "sequence", "incarnation")[order == "sequence" :]
    return sorted(rows, key=lambda row: tuple(row[name] for name in key), reverse=order == "newest")


FILTERS: list[tuple[dict[str, Any], Callable[[Row], bool]]] = [
    ({}, lambda row: True),
    ({"kinds": ["drop", "path_change"]}, lambda row: row["kind"] in ("drop", "path_change")),
    ({"metrics": ["hop_latency"]}, lambda row: row["metric"] == "hop_latency"),
    ({"nodes": [33]}, lambda row: row["node_id"] == 33 or 33 in (row["path"] or ())),
    (
        {"nodes": [3, 39], "kinds": ["new_key"]},
        lambda row: (
            (row["node_id"] in (3, 39) or bool({3, 39} & {*(row["path"] or ())})) and row["kind"] == "new_key"
        ),
    ),
    ({"ports": [1]}, lambda row: row["port"] == 1),
    ({"flow": Flow(proto=17)}, lambda row: row["proto"] == 17),
    ({"prefix": "2001:db8::/32"}, lambda row: ":" in (row["src"] or "")),
]


@pytest.mark.parametrize("order", ["newest", "oldest", "sequence"])
def test_events_are_all_there_once(cluster: Cluster, order: Any) -> None:
    """Without filters every event of every member is in the answer, once, with all its columns, in the order
    asked for: those of the lake and those that it does not have yet.
    """
    expected = in_order(cluster.rows, order)
    found = table_rows(cluster.queries.events(limit=None, order=order))
    assert [{name: row[name] for name in expected[0]} for row in found] == expected


@pytest.mark.parametrize("which", range(1, len(FILTERS)))
def test_filters_and_pages(cluster: Cluster, which: int) -> None:
    """Filters keep what a loop over all rows keeps, also of long paths; pages join without a seam."""
    filters, keeps = FILTERS[which]
    every: tuple[Order, ...] = ("newest", "oldest", "sequence")
    orders = every if which == 3 else every[which % 3 :][:1]
    for order in orders:
        expected = in_order([row for row in cluster.rows if keeps(row)], order)
        found: list[Row] = []
        after = None
        while True:
            table = cluster.queries.events(
                limit=max(7, len(expected) // 3), order=order, after=after, **filters
            )
            found += table_rows(table)
            after = table.after
            if after is None:
                break
        assert [{name: row[name] for name in cluster.rows[0]} for row in found] == expected
        assert expected


def chosen(cluster: Cluster, which: int) -> tuple[dict[str, Any], list[Row]]:
    filters, keeps = FILTERS[which]
    return filters, [row for row in cluster.rows if keeps(row)]


@pytest.mark.parametrize("which", [0, 1, 3, 5])
def test_summary_and_paths(cluster: Cluster, which: int) -> None:
    """Counts by kind, metric and day, and whole paths, are those of all rows."""
    filters, rows = chosen(cluster, which)
    counts = Counter((row["time"] // DAY_NS, row["kind"], row["metric"]) for row in rows)
    found = table_rows(cluster.queries.summary(bucket_seconds=86_400, **filters))
    assert {(row["bucket"] // DAY_NS, row["kind"], row["metric"]): row["events"] for row in found} == counts
    plain = table_rows(cluster.queries.summary(**filters))
    assert sum(row["events"] for row in plain) == len(rows)
    assert min(row["first"] for row in plain) == min(row["time"] for row in rows)
    paths = sorted(
        (row for row in rows if row["path"] is not None),
        key=lambda row: (row["time"], row["member"], row["incarnation"], row["shard"], row["sequence"]),
    )
    found = table_rows(cluster.queries.paths(limit=None, **filters))
    assert found == [{name: row[name] for name in found[0]} for row in paths]


@pytest.mark.parametrize("which", [0, 2, 6, 7])
def test_flows_are_those_of_all_members(cluster: Cluster, which: int) -> None:
    """A flow is one row, by its 5-tuple, though each member has another id for it; its records add up."""
    filters, rows = chosen(cluster, which)
    parts = ("src", "dst", "sport", "dport", "proto")
    flows: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    records: dict[tuple[Any, ...], dict[Any, Row]] = defaultdict(lambda: defaultdict(dict))
    for row in rows:
        if row["flow_id"] is not None:
            flows[tuple(row[name] for name in parts)].append(row)
    recorded = rows if which > 5 else cluster.rows  # filters by kind and metric leave records whole
    for row in recorded:
        if row["kind"] == "flow_record" and row["flow_id"] is not None:
            record = records[tuple(row[name] for name in parts)]
            one = record[row["time"], row["member"], row["incarnation"], row["shard"]]
            for metric in ("flow_path", "flow_latency"):
                if row["metric"] == metric:
                    one[metric] = max(one.get(metric, 0), row["value"])
    found = table_rows(cluster.queries.flows(limit=None, **filters))
    assert len(found) == len(flows) > 0
    assert [row["last"] for row in found] == sorted((row["last"] for row in found), reverse=True)
    several = 0
    for row in found:
        key = tuple(row[name] for name in parts)
        events = flows[key]
        several += len({each["member"] for each in events}) > 1
        assert row["events"] == len(events)
        assert row["members"] == sorted({each["member"] for each in events})
        assert row["flow_id"] in {each["flow_id"] for each in events}
        assert (row["first"], row["last"]) == (
            min(each["time"] for each in events),
            max(each["time"] for each in events),
        )
        for name, kind in (("path_changes", "path_change"), ("drops", "drop")):
            assert row[name] == sum(each["kind"] == kind for each in events)
        packets = [one["flow_path"] for one in records[key].values() if "flow_path" in one]
        assert row["packets"] == (sum(packets) if packets else None)
        weighed = [(one["flow_path"], one["flow_latency"]) for one in records[key].values() if len(one) == 2]
        if weighed:
            mean = sum(count * mean for count, mean in weighed) / sum(count for count, _ in weighed)
            assert row["mean_latency"] == pytest.approx(mean)
        hops = [each for each in events if each["kind"] == "flow_record" and each["metric"] == "hop_latency"]
        assert row["worst_latency"] == max((each["value"] for each in hops), default=None)
    assert several > 5


def test_hops_and_peaks(cluster: Cluster) -> None:
    """The highest and mean values of each hop and queue are those of all rows."""
    hops = defaultdict(list)
    queues: dict[Any, list[int]] = defaultdict(list)
    for row in cluster.rows:
        if row["metric"] == "hop_latency" and row["kind"] != "cleared":
            hops[row["node_id"], row["port"]].append(row["value"])
        if row["metric"] == "queue_occupancy" and row["kind"] != "flow_record":
            queues[row["node_id"], row["port"], row["ident"]].append(row["value"])
    found = table_rows(cluster.queries.hops(limit=None))
    assert [row["highest"] for row in found] == sorted(map(max, hops.values()), reverse=True)
    assert {(row["node_id"], row["port"]): (row["events"], row["highest"]) for row in found} == {
        place: (len(values), max(values)) for place, values in hops.items()
    }
    for row in found:
        assert row["mean"] == pytest.approx(np.mean(hops[row["node_id"], row["port"]]))
    found = table_rows(cluster.queries.peaks("queue_occupancy", limit=None))
    assert {(row["node_id"], row["port"], row["ident"]): row["highest"] for row in found} == {
        place: max(values) for place, values in queues.items() if place[0] is not None
    }


def test_flows_of_a_step_are_those_of_all_members_once(cluster: Cluster) -> None:
    """By their 5-tuple: each member has an id of its own for a flow."""
    flows = defaultdict(set)
    for row in cluster.rows:
        steps = row["metric"] == "hop_latency" and row["kind"] in STEP_KINDS
        if steps and None not in (row["flow_id"], row["node_id"], row["port"]):
            flow = tuple(row[name] for name in ("src", "dst", "sport", "dport", "proto"))
            flows[row["node_id"], row["port"]].add(flow)
    found = defaultdict(list)
    for row in cluster.queries.steps().rows():
        found[row["node_id"], row["port"]].append(row["flows"])
    assert found.keys() == flows.keys()
    alone = {place: counts[0] for place, counts in found.items() if len(counts) == 1}
    assert alone == {place: len(flows[place]) for place in alone}
    assert any(len(flows[place]) > 1 for place in alone)


def test_labels_and_coverage(cluster: Cluster) -> None:
    """Labels by port and period, and their coverage, are those of all rows."""
    periods: dict[Any, list[Row]] = defaultdict(list)
    coverage = []
    for row in cluster.rows:
        if row["kind"] == "label_record":
            if row["port"] is not None:
                periods[row["time"], row["node_id"], row["port"]].append(row)
            if row["metric"] == "label_coverage":
                coverage.append((row["time"], row["ident"], row["value"] / 1e6, row["previous"] / 1e6))
    found = table_rows(cluster.queries.labels(limit=None))
    assert len(found) == len(periods)
    for row in found:
        rows = periods[row["time"], row["node_id"], row["port"]]
        assert row["labels"] == max(each["ident"] for each in rows)
        latency = [each["value"] for each in rows if each["metric"] == "label_latency"]
        assert row["latency_ns"] == max(latency, default=None)
    found = table_rows(cluster.queries.coverage(limit=None))
    shown = [(row["time"], row["intervals"], row["coverage"], row["lowest"]) for row in found]
    assert sorted(shown) == sorted(coverage)


def test_a_window_reads_its_days_alone(cluster: Cluster) -> None:
    """Files of other days than those of a window are not read, and not asked of members."""
    middle = sorted(row["time"] for row in cluster.rows)[len(cluster.rows) // 2]
    day = middle // DAY_NS * DAY_NS
    expected = [row for row in cluster.rows if day <= row["time"] < day + DAY_NS]
    cluster.requests.clear()
    table = cluster.queries.summary(start=day, end=day + DAY_NS)
    assert sum(table["events"].tolist()) == len(expected) > 0

    window = f"time >= make_timestamp_ns({day}) AND time < make_timestamp_ns({day + DAY_NS})"
    with Lake(cluster.settings, read_only=True) as lake:
        snapshot = take(lake, lake.connection)
        every = f"WITH e AS NOT MATERIALIZED ({snapshot.events})"
        read = f"EXPLAIN ANALYZE {every} SELECT count(value) FROM e WHERE {window}"
        plan = lake.connection.execute(read).fetchall()
        files = lake.connection.execute(snapshot.files).fetchall()
    assert len(set(re.findall(r"day=\d+", "".join(re.findall(r"[\w/=.-]+", plan[0][1]))))) == 1
    assert len({path.split("/")[-2] for path, _ in files}) == 3
    (request,) = cluster.requests
    bodies = [
        decode(TailHandler(each.folder, each.name, each.incarnation).read(
            request_json(snapshot, request)
        ))[1]
        for each in cluster.members
    ]  # fmt: skip
    assert all(((day <= body["time_ns"]) & (body["time_ns"] < day + DAY_NS)).all() for body in bodies)


def test_a_member_that_commits_between_the_snapshot_and_its_tail(cluster: Cluster) -> None:
    """Events that come into the lake after the snapshot was taken are in the answer once, as tails: it is of
    before.
    """
    member = cluster.members[2]
    steps = iter(range(0, COUNT, 100))

    def write() -> None:
        with Lake(cluster.settings) as lake:
            at = next(steps)
            commit(lake, member.name, member.incarnation, member.shards[5][at : at + 100])

    cluster.before_tails = write
    try:
        for _ in range(2):
            table = cluster.queries.events(limit=None, order="sequence")
            keys = list(zip(*(table[name].tolist() for name in ("member", "shard", "sequence")), strict=True))
            assert len(keys) == len(set(keys)) == len(cluster.rows)
            assert sum(cluster.queries.summary()["events"].tolist()) == len(cluster.rows)
    finally:
        cluster.before_tails = lambda: None
    assert next(steps) == 400
