"""Members: who is there, who is missing, and that a name belongs to one data folder at a time."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hopscope.cluster.buckets import Bucket
from hopscope.cluster.connection import ClusterError, Connection
from hopscope.cluster.counters import CLUSTER_COUNTERS
from hopscope.cluster.membership.drain import Drains
from hopscope.cluster.membership.drain_request import DrainRequest
from hopscope.cluster.membership.members import Directory, MemberRecord, Registration, decode
from hopscope.cluster.membership.overview import read_overview
from hopscope.cluster.membership.part import Membership, place_of
from hopscope.cluster.process import Condition
from hopscope.serve import readiness
from support.cluster.members import Member, make, running, settings_of, with_nats
from support.servers.server_process import NatsServer
from support.waiting import eventually


def keys(url: str, bucket: str) -> dict[str, dict[str, Any]]:
    """What a bucket has, read by NATS' own client."""

    async def read(client: Any, jetstream: Any) -> dict[str, dict[str, Any]]:
        from nats.js.errors import NoKeysError

        values = await jetstream.key_value(bucket)
        names = set[str]()
        for _ in range(3):  # a list lacks a key that is written just then
            with suppress(NoKeysError):
                names |= set(await values.keys())
        return {name: json.loads((await values.get(name)).value) for name in names}

    return with_nats(url, read)


def test_members_see_each_other_and_who_has_gone(nats: NatsServer, cluster: str, tmp_path: Path) -> None:
    """A record has what its member says; one that stops is missing at once, and known as stopped."""
    how = Condition(ready=False, reason="no disk", reports_per_second=7.5, lag_events=3, lag_seconds=1.5)
    one = Member(settings_of(nats.url, cluster, "c1"), tmp_path / "1", condition=lambda: how)
    two = Member(settings_of(nats.url, cluster, "c2.rack"), tmp_path / "2")
    make(settings_of(nats.url, cluster, "c1"))
    with running(one, two):
        eventually(lambda: {each["name"] for each in two.status()["members"]} == {"c1", "c2.rack"})
        stored = keys(nats.url, f"hopscope-{cluster}-members")
        assert stored.keys() == {"c1", "c2.rack"}
        assert stored["c1"]["incarnation"] == (tmp_path / "1" / "member.id").read_text().strip()
        said = {"ready": False, "reason": "no disk", "reports_per_second": 7.5, "lag_events": 3}
        assert said.items() <= stored["c1"].items()
        one.stop()
        eventually(lambda: [each["name"] for each in two.status()["missing"]] == ["c1"])
        assert two.status()["missing"][0]["state"] == "stopped"
        assert keys(nats.url, f"hopscope-{cluster}-members").keys() == {"c2.rack"}
        assert CLUSTER_COUNTERS.read(two.regions)["cluster_members_missing"] == 1


def test_a_wrong_clock_is_named_by_all(
    nats: NatsServer, cluster: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every member says in `/readyz` which clocks are not that of NATS, its own included: queries about the
    last minutes go by the clock of the member that is asked.
    """
    make(settings_of(nats.url, cluster, "c1"))
    right = Member(settings_of(nats.url, cluster, "c1"), tmp_path / "1")
    wrong = Member(settings_of(nats.url, cluster, "c2"), tmp_path / "2")
    made = Membership._record

    def record(part: Membership, **more: object) -> MemberRecord:
        found = made(part, **more)
        ahead_ns = 3600 * 10**9 if part.context.name == "c2" else 0
        return replace(found, time_ns=found.time_ns + ahead_ns)

    monkeypatch.setattr(Membership, "_record", record)
    with running(right, wrong):
        clock = "c2: its clock is 60 min ahead of that of NATS: times of its events are wrong"
        for member in (right, wrong):
            eventually(lambda member=member: readiness.cluster(member.regions)[0].detail.endswith(clock))
            assert not readiness.cluster(member.regions)[0].ready


def test_a_name_belongs_to_one_data_folder(nats: NatsServer, cluster: str, tmp_path: Path) -> None:
    """Another folder with a member's name is refused, also a copy of its folder, and the first one's record
    stays. It joins once the first has left, and not while that is restarted.
    """
    settings = settings_of(nats.url, cluster, "c1", member_seconds=5)
    make(settings)
    first = Member(settings, tmp_path / "1")
    (tmp_path / "2").mkdir()
    with running(first):
        (tmp_path / "2" / "member.id").write_text((tmp_path / "1" / "member.id").read_text())
        (tmp_path / "2" / "member.id").chmod(0o600)
        copy, other = Member(settings, tmp_path / "2").start(), Member(settings, tmp_path / "3").start()
        try:
            for each in (copy, other):
                each.await_state("refused")
                eventually(lambda each=each: "already runs" in each.status()["problem"], each.status)
            before = keys(nats.url, f"hopscope-{cluster}-members")["c1"]
            assert before["place"] == first.context.record.place  # type: ignore[union-attr]
            copy.stop()
            first.stop()
            eventually(lambda: "has 5 s to come back" in other.status()["problem"], other.status)
            first = Member(settings, tmp_path / "1").start()
            first.await_state("joined")
            eventually(lambda: "already runs" in other.status()["problem"], other.status)
            first.stop()
            other.await_state("joined")
            after = keys(nats.url, f"hopscope-{cluster}-members")["c1"]
            assert after["incarnation"] == (tmp_path / "3" / "member.id").read_text().strip()
        finally:
            for each in (copy, other, first):
                each.stop()


def test_a_process_takes_over_from_a_killed_one(nats: NatsServer, cluster: str, tmp_path: Path) -> None:
    """A process on the same data folder, whose lock it has, does not wait until the record of the killed one
    is gone: the bucket would keep it for an hour here.
    """
    settings = settings_of(nats.url, cluster, "c1", member_seconds=3600)
    make(settings)
    with Connection(settings.cluster, "test") as connection:
        member = Member(settings, tmp_path / "1")
        killed = MemberRecord("c1", member.context.incarnation, place_of(tmp_path / "1"))
        Registration(connection, 3600).put(killed)
        with running(member):
            assert keys(nats.url, f"hopscope-{cluster}-members")["c1"]["time_ns"] > 0


def test_without_buckets_the_remedy_is_named(nats: NatsServer, cluster: str, tmp_path: Path) -> None:
    """A member that starts before `cluster init` says what is missing, and joins afterwards by itself."""
    settings = settings_of(nats.url, cluster, "c1")
    member = Member(settings, tmp_path / "1").start()
    try:
        eventually(lambda: "hopscope cluster init" in member.status().get("problem", ""))
        assert {state for _, state in make(settings)} == {"created"}
        assert {state for _, state in make(settings)} == {"unchanged"}
        member.await_state("joined")
    finally:
        member.stop()


def test_whatever_is_done_with_a_missing_bucket_says_so(nats: NatsServer, cluster: str) -> None:
    """Nobody answers who writes to it, as if JetStream was switched off; the error names the bucket."""
    with Connection(settings_of(nats.url, cluster, "c1").cluster, "test") as connection:
        bucket = Bucket(connection, connection.names.members)
        for ask in (
            lambda: bucket.put("c1", b"{}"),
            lambda: bucket.change("c1", b"{}", 0),
            lambda: bucket.change("c1", b"{}", 7),
            lambda: bucket.delete("c1"),
            lambda: bucket.get("c1"),
            bucket.entries,
            bucket.seconds,
        ):
            with pytest.raises(ClusterError, match=r"members is missing; `hopscope cluster init` makes it"):
                ask()


def test_a_full_bucket_is_named(nats: NatsServer, cluster: str) -> None:
    """Not that JetStream is off: who reads that would look for the wrong fault."""
    settings = settings_of(nats.url, cluster, "x")
    make(settings)

    async def fill(_: Any, jetstream: Any) -> None:
        info = await jetstream.stream_info(f"KV_hopscope-{cluster}-known")
        info.config.max_bytes = 1
        await jetstream.update_stream(info.config)

    with_nats(nats.url, fill)
    with Connection(settings.cluster, "test") as connection:
        bucket = Bucket(connection, connection.names.known)
        with pytest.raises(ClusterError, match=r"bucket .*-known is full \(maximum bytes exceeded\)"):
            bucket.put("c1", b"{}")


@pytest.mark.parametrize("bound", ["max_bytes", "max_msgs"])
def test_status_names_buckets_that_are_missing_or_full(nats: NatsServer, cluster: str, bound: str) -> None:
    """Also that of drains, which is not needed to say who is there."""
    settings = settings_of(nats.url, cluster, "c1")
    make(settings)
    name = f"hopscope-{cluster}-drains"
    with Connection(settings.cluster, "test") as connection:
        assert read_overview(connection).problems() == []
        Drains(connection).ask("c1", DrainRequest())

        async def fill(_: Any, jetstream: Any) -> None:
            info = await jetstream.stream_info(f"KV_{name}")
            setattr(info.config, bound, 1)
            await jetstream.update_stream(info.config)

        with_nats(nats.url, fill)
        assert read_overview(connection).problems() == [f"bucket {name} is full; give it more room in NATS"]
        with_nats(nats.url, lambda _, jetstream: jetstream.delete_stream(f"KV_{name}"))
        assert read_overview(connection).problems() == [
            f"bucket {name} is missing; `hopscope cluster init` makes it"
        ]


def test_a_member_comes_back_by_itself(tmp_path: Path, tool: Any) -> None:
    """NATS away: the state says so, and since when; NATS back: the member is there again."""
    (tmp_path / "nats").mkdir()
    server = NatsServer(tool("nats-server"), tmp_path / "nats")
    settings = settings_of(server.url, "back", "c1")
    member = Member(settings, tmp_path / "1").start()
    try:
        assert "NATS is away" in member.await_state("away")["problem"]
        server.start()
        make(settings)
        member.await_state("joined")
        server.kill()
        assert member.await_state("away")["since_ns"] > 0
        server.start()
        member.await_state("joined")
        eventually(lambda: keys(server.url, "hopscope-back-members").keys() == {"c1"})
    finally:
        member.stop()
        server.kill()


def test_one_server_keeps_one_replica(nats: NatsServer) -> None:
    """`hopscope cluster init` with the default of three says which setting to change."""
    with pytest.raises(ClusterError, match=r"a single server cannot keep 3 replicas: set cluster.replicas=1"):
        make(settings_of(nats.url, "alone", "c1", replicas=3))


GOOD = {"name": "c9", "incarnation": "x" * 32}
BAD = {
    b"": "EOF",
    b"[1, 2]": "object",
    b"{" * 100_000: "bytes",
    b"[" * 5000: "recursion",
    b'{"name": "c9"}': "incarnation",
    json.dumps({**GOOD, "name": "c8"}).encode(): "expected 'c9'",
    json.dumps({**GOOD, "reports_per_second": "1"}).encode(): "number",
    b'{"name": "c9", "incarnation": "x", "reports_per_second": NaN}': "finite",
    json.dumps({**GOOD, "revision": 2**70}).encode(): "revision",
    json.dumps({**GOOD, "ready": 1}).encode(): "ready",
    json.dumps({**GOOD, "address": "\x1b[2J"}).encode(): "printable",
    json.dumps({**GOOD, "state": "dead"}).encode(): "state",
    b'\xff{"name": "c9"}': "JSON",
}


@pytest.mark.parametrize("value", BAD, ids=lambda value: str(value[:40]))
def test_bad_records_are_named(value: bytes) -> None:
    """A record that is no good is rejected in one line that says why."""
    with pytest.raises(ValueError, match=BAD[value]) as found:
        decode("c9", value)
    assert str(found.value).isprintable()


def test_records_of_later_versions_are_read() -> None:
    """Keys that this version does not know are ignored, and absent ones have their defaults."""
    assert decode("c9", json.dumps({**GOOD, "new": {}}).encode()) == MemberRecord("c9", "x" * 32)
    assert decode("c9", MemberRecord("c9", "x", revision=4).encode()).revision == 4


def test_bad_records_hide_no_member(nats: NatsServer, cluster: str, tmp_path: Path) -> None:
    """Records that strangers write are named, counted and not used."""
    settings = settings_of(nats.url, cluster, "c1")
    make(settings)

    async def write(client: Any, jetstream: Any) -> None:
        values = await jetstream.key_value(f"hopscope-{cluster}-known")
        await values.put("evil", b"{}")
        await client.publish(f"$KV.hopscope-{cluster}-known.od(d", b"")

    member = Member(settings, tmp_path / "1")
    with_nats(nats.url, write)
    with running(member), Connection(settings.cluster, "test") as connection:
        directory = Directory(connection)
        assert directory.known().keys() == {"c1"}
        assert [key.rpartition("/")[2] for key in directory.bad] == ["evil", "od(d"]
        eventually(lambda: CLUSTER_COUNTERS.read(member.regions)["cluster_bad_records"] == 2)


def test_only_missing_members_are_forgotten(nats: NatsServer, cluster: str, tmp_path: Path) -> None:
    """A member that is there stays, unless forced; one that is missing is known no more."""
    settings = settings_of(nats.url, cluster, "c1")
    make(settings)
    member = Member(settings, tmp_path / "1")
    with running(member), Connection(settings.cluster, "test") as connection:
        directory = Directory(connection)
        with pytest.raises(ClusterError, match="stop it first"):
            directory.forget("c1")
        with pytest.raises(ClusterError, match="no such member"):
            directory.forget("c2")
        member.stop()
        directory.forget("c1")
        assert directory.known() == {}
