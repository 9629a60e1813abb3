"""One history of all members over NATS: who answers, who does not, and what if NATS or the lake is away."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from hopscope.cluster.connection import Connection
from hopscope.cluster.membership.members import Directory
from hopscope.cluster.process import Context
from hopscope.cluster.queries.client import QueryClient
from hopscope.cluster.queries.history import LakeHistory, open_history
from hopscope.cluster.queries.history_query import MAX_FLOWS, HistoryHandler
from hopscope.cluster.queries.server import QueryServer
from hopscope.cluster.queries.tails import TailHandler
from hopscope.detect.detector import Detector
from hopscope.history.writing.journal import JournalWriter
from hopscope.lake.catalog import Lake, create
from hopscope.memory.private_file import hash_secret, incarnation
from hopscope.settings.collector import Settings
from hopscope.settings.detect import DetectSettings
from hopscope.wire.address import address
from support.cluster.lake_make import lake_settings
from support.cluster.members import Member, make, running, settings_of
from support.events.detect_make import Report, batch, path
from support.events.member_events import commit, member_events
from support.servers.postgres_server import PostgresServer
from support.servers.server_process import NatsServer

FLOW_FIELDS = ("src_hi", "src_lo", "dst_hi", "dst_lo", "sport", "dport", "proto", "ip_version")
BEFORE, AFTER = 200, 120
"""Events of each member in the lake, and after its mark."""


@dataclass
class Running:
    """Members that run, and their lake."""

    members: dict[str, Member]
    settings: Settings
    folder: Path


@pytest.fixture(scope="module")
def nats(tmp_path_factory: pytest.TempPathFactory, tool: Callable[[str], str]) -> Iterator[NatsServer]:
    server = NatsServer(tool("nats-server"), tmp_path_factory.mktemp("nats"))
    server.start()
    yield server
    server.kill()


@pytest.fixture(scope="module")
def cluster(
    nats: NatsServer, database: PostgresServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Running]:
    """Three members: their writers have committed, and then they had more events."""
    lake = lake_settings(database, data=str(tmp_path_factory.mktemp("lake")))
    create(lake)
    members = {}
    for number, name in enumerate(("c1", "c2", "c3")):
        folder = tmp_path_factory.mktemp(name)
        events = member_events(BEFORE + AFTER, number, 0)
        with JournalWriter(folder, 0, fsync_seconds=0) as journal:
            journal.append(events)
        with Lake(lake) as opened:
            commit(opened, name, incarnation(folder), events[:BEFORE])

        def parts(context: Context) -> list[Any]:
            who = context.data, context.name
            return [
                QueryServer(
                    context,
                    {
                        "tail": partial(TailHandler, *who, context.incarnation),
                        "history": partial(HistoryHandler, *who, 2**29),
                    },
                )
            ]

        settings = settings_of(nats.url, "lake", name, member_seconds=30, answer_seconds=20)
        members[name] = Member(settings.model_copy(update={"lake": lake}), folder, parts)
    make(members["c1"].context.settings)
    with running(*members.values()):
        yield Running(members, members["c1"].context.settings, members["c1"].context.data)


def asked(settings: Settings, folder: Path, ask: Callable[[LakeHistory], Any]) -> tuple[Any, dict[str, Any]]:
    """What a query found, and who answered."""
    with (
        closing(QueryClient(Connection(settings.cluster, "test"))) as query_client,
        open_history(settings, folder, query_client) as it,
    ):
        assert isinstance(it, LakeHistory)
        return ask(it), it.answer.as_json()


def counted(history: LakeHistory) -> list[tuple[Any, ...]]:
    table = history.events(limit=None)
    return list(
        zip(*(table[name].tolist() for name in ("member", "incarnation", "shard", "sequence")), strict=True)
    )


def test_every_event_once_also_when_members_commit(cluster: Running) -> None:
    """Events of the lake and of tails are all there, once; and again after a member has committed its own."""
    settings, folder = cluster.settings, cluster.folder
    found, answer = asked(settings, folder, counted)
    further = (
        2 * 3 * len(range(0, BEFORE + AFTER - 3, 20))
    )  # of long paths, which are part of the first record
    assert len(found) == len(set(found)) == 3 * (BEFORE + AFTER) - further
    assert (answer["answered"], answer["missing"], answer["complete"]) == (["c1", "c2", "c3"], {}, True)
    table, _ = asked(
        settings, folder, lambda it: it.sql("SELECT member, count(*) AS n FROM events GROUP BY 1")
    )
    assert table["n"].tolist() == [BEFORE + AFTER] * 3
    with Lake(settings.lake) as lake:
        commit(
            lake,
            "c2",
            cluster.members["c2"].context.incarnation,
            member_events(BEFORE + AFTER, 1, 0)[BEFORE:],
        )
    assert asked(settings, folder, counted) == (found, answer)


def test_flows_have_the_packets_of_live_ones(cluster: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """A flow of IPv4 that two members have in their tables and one of IPv6 that one has: packets are those of
    the lake and of all tables, means are weighted by packets, also in parts of one flow each. With an end in
    the query, live flows are not in it.
    """

    def flows(**filters: Any) -> dict[Any, dict[str, Any]]:
        found, answer = asked(cluster.settings, cluster.folder, lambda it: it.flows(limit=None, **filters))
        assert answer["complete"], answer
        rows = {(row["src"], row["sport"]): row for row in found.rows()}
        assert len(rows) == len(found)
        return rows

    before, expected = flows(), flows()
    events = member_events(BEFORE + AFTER, 0, 0)
    four, six = (events[events["ip_version"] == version][:1] for version in (4, 6))
    for flow, live in ((four, {"c1": (2, 30), "c3": (3, 2**31)}), (six, {"c2": (7, 50)})):
        for name, (packets, latency) in live.items():
            reports = batch([Report(path(1, latency=latency), time=at) for at in range(packets)])
            for field in FLOW_FIELDS:
                reports.reports[field] = flow[field]
            regions, secret = cluster.members[name].regions, hash_secret(cluster.members[name].context.data)
            table = Detector(DetectSettings(flow_rows=16, ports=16, sources=16), regions, secret=secret)
            assert sum(map(len, table.update(reports)))
        row = expected[address(int(flow["src_hi"][0]), int(flow["src_lo"][0])), int(flow["sport"][0])]
        parts = [*live.values(), *([(row["packets"], row["mean_latency"])] if row["packets"] else [])]
        row["packets"] = sum(count for count, _ in parts)
        mean = sum(count * each for count, each in parts) / row["packets"]
        row["mean_latency"] = pytest.approx(mean)
        row["highest_latency"] = max(row["highest_latency"] or 0, *(each for _, each in live.values()))
        row["members"] = sorted({*row["members"], *live})
    for most in (MAX_FLOWS, 1):
        monkeypatch.setattr("hopscope.cluster.queries.history.MAX_FLOWS", most)
        assert flows() == expected
    assert flows(end=2**62) == before
    for member in cluster.members.values():
        for path_of_region in member.regions.glob("worker-0.*"):
            path_of_region.unlink()


def test_who_does_not_answer_is_named(cluster: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """A member without an answer is named with the time up to which its events are in it; a member whose
    answer is damaged, too.
    """
    read = TailHandler.read

    def fails(self: TailHandler, query: Any) -> bytes:
        return b"{}" if self._who[0] == "c3" else read(self, query)

    monkeypatch.setattr(TailHandler, "read", fails)
    found, answer = asked(cluster.settings, cluster.folder, counted)
    assert answer["answered"] == ["c1", "c2"]
    assert not answer["complete"]
    assert "damaged" in answer["missing"]["c3"]
    assert "had not written into the lake by 20" in answer["missing"]["c3"]
    sequences = [sequence for member, _, _, sequence in found if member == "c3"]
    assert max(sequences) < BEFORE


def test_nats_or_the_lake_away(cluster: Running) -> None:
    """Without NATS the lake and this member's tail answer, and others are named; without the lake members'
    own histories do, and the answer says so.
    """
    settings, folder = cluster.settings, cluster.folder
    away = settings.model_copy(
        update={"cluster": settings.cluster.model_copy(update={"nats": ("nats://127.0.0.1:1",)})}
    )
    found, answer = asked(away, folder, counted)
    assert answer["answered"] == ["c1"]
    assert sorted(answer["missing"]) == ["c2", "c3"]
    assert max(sequence for member, _, _, sequence in found if member == "c1") >= BEFORE
    assert asked(away, folder, lambda it: it.flows())[1] == answer
    gone = settings.model_copy(
        update={"lake": settings.lake.model_copy(update={"catalog": "postgresql://x@127.0.0.1:1/x"})}
    )
    table, answer = asked(gone, folder, lambda it: it.summary())
    assert sum(table["events"].tolist()) == len(asked(settings, folder, counted)[0])
    assert answer["without_lake"]
    assert not answer["complete"]


def test_a_drained_member_that_has_ended_is_not_missing(cluster: Running, tmp_path: Path) -> None:
    """Its last record states where its shards end: answers are complete without it as soon as the lake has
    its events up to there; those of an earlier folder of that name do not count. A live query needs
    nothing of it, and members' own histories lack it.
    """
    settings, events = cluster.settings, member_events(60, 7, 0)
    with JournalWriter(tmp_path, 0, fsync_seconds=0) as journal:
        journal.append(events)
    with Lake(settings.lake) as lake:
        commit(lake, "c4", incarnation(tmp_path), events[:40])
        commit(lake, "c4", "another folder", events)
    member = Member(settings.model_copy(update={"member": "c4"}), tmp_path)
    with running(member):
        member.context.own["state"] = "drained"
    with Connection(settings.cluster, "test") as connection:
        directory = Directory(connection)
        try:
            assert directory.known()["c4"].ends == {0: 60}
            _, answer = asked(settings, cluster.folder, counted)
            assert answer["missing"].keys() == {"c4"}
            assert answer["missing"]["c4"].startswith("drained, last seen")
            with Lake(settings.lake) as lake:
                commit(lake, "c4", incarnation(tmp_path), events[40:])
            _, answer = asked(settings, cluster.folder, counted)
            assert (answer["answered"], answer["complete"]) == (["c1", "c2", "c3"], True)
            with closing(QueryClient(Connection(settings.cluster, "test"))) as query_client:
                gathered = query_client.ask("tail", {}, lambda _: None, accepted=(200, 503))
            assert (gathered.answer.complete, gathered.left.keys()) == (True, {"c4"})
            gone = settings.model_copy(
                update={"lake": settings.lake.model_copy(update={"catalog": "postgresql://x@127.0.0.1:1/x"})}
            )
            _, answer = asked(gone, cluster.folder, lambda it: it.summary())
            assert answer["missing"].keys() == {"c4"}
        finally:
            directory.forget("c4")
