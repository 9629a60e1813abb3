"""A member that leaves: what it does in which order, what it waits for, and that it comes back."""

from __future__ import annotations

import errno
import os
import queue
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hopscope.cluster.connection import Connection
from hopscope.cluster.membership import drain
from hopscope.cluster.membership.drain import Drain, Drains, Progress, follow
from hopscope.cluster.membership.drain_request import DrainRequest, decode, remember, remembered
from hopscope.cluster.membership.members import Directory
from hopscope.cluster.process import Condition, Context, Part
from hopscope.detect.records import SOURCE
from hopscope.history.follow import EventFollower
from hopscope.lake.status import asked_to_flush, write_status
from hopscope.memory.data_folder import read_owner
from hopscope.present.collector_state import CollectorState
from hopscope.serve.readiness import components, drained
from hopscope.settings.collector import Settings
from support.cluster.members import Member, make, running, settings_of, with_nats
from support.servers.server_process import NatsServer
from support.waiting import eventually


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Switches are silent after a moment."""
    monkeypatch.setattr(drain, "QUIET_SECONDS", 0.05)
    monkeypatch.setattr(Drain, "seconds", 0.02)


class Leaver(Member):
    """A member with the part under test."""

    def __init__(self, settings: Settings, folder: Path, ready: bool = True) -> None:
        def parts(context: Context) -> list[Part]:
            return [Drain(context)]

        super().__init__(settings, folder, parts, lambda: Condition(ready=ready))


def with_commands(url: str, cluster: str, log: Path, name: str = "c1", **more: Any) -> Settings:
    """Settings of a member whose route is a file with the lines of its commands."""
    words = {key: ("sh", "-c", f"echo {key} >> {log}") for key in ("announce", "withdraw")}
    return settings_of(url, cluster, name, **words, **more)


@pytest.fixture
def connection(nats: NatsServer, cluster: str) -> Iterator[Connection]:
    """As that of the command."""
    settings = settings_of(nats.url, cluster, "c1")
    make(settings)
    with Connection(settings.cluster, "test") as made:
        yield made


def test_a_member_leaves_and_comes_back(
    nats: NatsServer, cluster: str, connection: Connection, tmp_path: Path
) -> None:
    """Its route is withdrawn before it counts as drained; then it stops, and is known as drained, not as
    missing. Started again it is still drained, until that is undone: then its route is announced.
    """
    log, settings = tmp_path / "route", with_commands(nats.url, cluster, tmp_path / "route")
    other = Member(settings_of(nats.url, cluster, "c2"), tmp_path / "2")
    member = Leaver(settings, tmp_path / "1")
    said: list[str] = []
    with running(other, member):
        eventually(lambda: log.exists() and log.read_text() == "announce\n")
        end = follow(
            connection, "c1", DrainRequest(drained=True, number=7), 30, lambda each: said.append(each.stage)
        )
        assert end == Progress("drained", number=7)
        assert log.read_text() == "announce\nwithdraw\n"
        assert said == sorted(said, key=["live", "withdrawing", "silence", "flushing", "drained"].index)
        eventually(lambda: [each["state"] for each in other.status()["members"]] == ["drained", "live"])
        eventually(lambda: member.status().get("drain", {}).get("stage") == "drained")
        # it would not be missing if it was killed now
        eventually(lambda: Directory(connection).known()["c1"].left)
        member.stop()
        eventually(lambda: [each["name"] for each in other.status()["members"]] == ["c2"])
        assert other.status()["missing"] == []
        assert Directory(connection).known()["c1"].state == "drained"
        again = Leaver(settings, tmp_path / "1")
        with running(again):
            eventually(lambda: again.status().get("drain", {}).get("stage") == "drained")
            assert "announce" not in log.read_text().split("\n")[1:]
            assert follow(connection, "c1", DrainRequest(number=8), 30, lambda each: None).stage == "live"
            eventually(lambda: log.read_text().endswith("announce\n"))
            eventually(lambda: {each["state"] for each in other.status()["members"]} == {"live"})
    assert log.read_text().endswith("announce\nwithdraw\n")  # it stops


def test_a_member_that_is_away_is_drained_when_it_comes(
    nats: NatsServer, cluster: str, connection: Connection, tmp_path: Path
) -> None:
    """A request waits in NATS; the command's limit ends its waiting alone."""
    assert follow(connection, "c1", DrainRequest(drained=True, number=3), 0.1, lambda each: None).waits_for
    member = Leaver(settings_of(nats.url, cluster, "c1"), tmp_path)
    with running(member):
        eventually(lambda: Drains(connection).progress("c1").stage == "drained")


def test_a_full_disk_takes_the_request_later(
    nats: NatsServer, cluster: str, connection: Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The member drains at once, says that a start without NATS will not know of it, and notes it when it
    can; then it no longer says so.
    """
    full = threading.Event()
    full.set()

    def note(folder: Path, request: DrainRequest) -> None:
        if full.is_set():
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        remember(folder, request)

    monkeypatch.setattr(drain, "remember", note)
    request = DrainRequest(drained=True, number=1)
    with running(Leaver(settings_of(nats.url, cluster, "c1"), tmp_path)):
        end = follow(connection, "c1", request, 60, lambda each: None)
        problem = "drain.json cannot be written: No space left on device"
        assert (end.stage, end.problem, remembered(tmp_path)) == ("drained", problem, DrainRequest())
        full.clear()
        eventually(lambda: remembered(tmp_path) == request)
        eventually(lambda: Drains(connection).progress("c1") == Progress("drained", number=1))


def test_why_there_is_no_news(
    nats: NatsServer, cluster: str, connection: Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That the member is not there, or that NATS has no room for what it says, is told soon, not after the
    limit; so is that the member goes on after that.
    """
    monkeypatch.setattr(drain, "PATIENCE_SECONDS", 0.0)
    stream, why = f"KV_hopscope-{cluster}-drains", queue.SimpleQueue[str]()
    request = DrainRequest(drained=True, number=1)
    end = follow(connection, "c1", request, 0, lambda each: None, why.put)
    assert (end.stage, end.problem) == ("live", "it is not running; the request waits until it is")
    assert (why.get_nowait(), why.empty()) == (end.problem, True)

    def make_room(more_bytes: int | None) -> None:
        async def change(_: Any, jetstream: Any) -> None:
            info = await jetstream.stream_info(stream)
            info.config.max_bytes = -1 if more_bytes is None else info.state.bytes + more_bytes
            await jetstream.update_stream(info.config)

        with_nats(nats.url, change)

    def help_it() -> None:
        assert why.get(timeout=60) == f"bucket hopscope-{cluster}-drains is full; give it more room in NATS"
        make_room(None)

    make_room(0)
    with running(Leaver(settings_of(nats.url, cluster, "c1"), tmp_path)), ThreadPoolExecutor(1) as helper:
        given = helper.submit(help_it)
        monkeypatch.setattr(Drains, "ask", lambda *_: None)  # it came before the bucket was full
        assert follow(connection, "c1", request, 60, lambda each: None, why.put).stage == "drained"
        given.result()


def test_a_request_that_nats_has_lost(
    nats: NatsServer, cluster: str, connection: Connection, tmp_path: Path
) -> None:
    """Its bucket is deleted and made again: the member stays drained, and gives the request back, until
    that is undone.
    """
    settings = settings_of(nats.url, cluster, "c1")
    member = Leaver(settings, tmp_path)
    request = DrainRequest(drained=True, number=3)
    with running(member):
        assert follow(connection, "c1", request, 30, lambda each: None).stage == "drained"
        with_nats(nats.url, lambda _, jetstream: jetstream.delete_stream(f"KV_hopscope-{cluster}-drains"))
        make(settings)
        eventually(lambda: Drains(connection).requested("c1") == request)
        eventually(lambda: member.status()["drain"]["stage"] == "drained")
        assert follow(connection, "c1", DrainRequest(number=4), 30, lambda each: None).stage == "live"


@pytest.mark.parametrize("turn_seconds", [0.02, 0.1])
def test_it_waits_for_silence(
    nats: NatsServer,
    cluster: str,
    connection: Connection,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    turn_seconds: float,
) -> None:
    """While reports come it waits, however rarely it looks, and says how many switches send; after
    `silence_seconds` it goes on, and says what did not happen.
    """
    monkeypatch.setattr(Drain, "seconds", turn_seconds)
    reports = iter(range(10**9))

    class Busy(CollectorState):
        def counters(self) -> Any:
            return {"reports_total": next(reports)}

        def sources(self) -> Any:
            rows = np.zeros(3, SOURCE)
            rows["last_ns"] = 2**62, 2**62, 5
            return rows

    monkeypatch.setattr(drain, "CollectorState", Busy)
    said: list[Progress] = []
    with running(Leaver(settings_of(nats.url, cluster, "c1"), tmp_path)):
        end = follow(connection, "c1", DrainRequest(True, 0.5, number=1), 30, said.append)
    assert end.stage == "drained"
    assert end.problem == "waited 0.5 s for silence: 2 sources still send"
    assert any(each.stage == "silence" and each.sources == 2 for each in said)


def test_a_wait_shorter_than_silence_is_no_failure(
    nats: NatsServer, cluster: str, connection: Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where no switch sends, the shortest wait ends well: only what comes after it counts against it."""
    monkeypatch.setattr(drain, "QUIET_SECONDS", 0.5)
    with running(Leaver(settings_of(nats.url, cluster, "c1"), tmp_path)):
        end = follow(connection, "c1", DrainRequest(True, 0.0, number=1), 30, lambda each: None)
    assert (end.stage, end.problem) == ("drained", "")


def test_it_waits_for_the_lake(
    nats: NatsServer, cluster: str, connection: Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It asks the lake's process for all events of its shards, says how many are lacking and why, and is
    drained once they are there, those that came meanwhile, too. The lake is asked for later ones as well.
    """
    ends = {0: 1000, 1022: 5}
    monkeypatch.setattr(drain, "LOOK_SECONDS", 0.05)
    monkeypatch.setattr(EventFollower, "shards", lambda self: [0, 1022])
    monkeypatch.setattr(EventFollower, "end", lambda self, shard: ends[shard])
    plain = settings_of(nats.url, cluster, "c1")
    lake = plain.lake.model_copy(update={"catalog": "postgresql://db/lake", "data": "/lake"})
    member = Leaver(plain.model_copy(update={"lake": lake}), tmp_path)
    drains = Drains(connection)
    drains.ask("c1", DrainRequest(True, number=1))
    write_status(member.regions, {"shards": {"0": {"next": 100}}, "problem": "the database is away"})
    with running(member):
        waits = "the lake to take 905 events (the database is away)"
        eventually(lambda: drains.progress("c1").waits_for == waits, lambda: drains.progress("c1"))
        assert asked_to_flush(member.regions) == {0: 1000, 1022: 5}
        ends[1022] = 9
        write_status(member.regions, {"shards": {"0": {"next": 1200}, "1022": {"next": 5}}})
        waits = "the lake to take 4 events"
        eventually(lambda: drains.progress("c1").waits_for == waits, lambda: drains.progress("c1"))
        write_status(member.regions, {"shards": {"0": {"next": 1200}, "1022": {"next": 9}}})
        eventually(lambda: drains.progress("c1") == Progress("drained", number=1))
        ends[0] = 1201
        eventually(lambda: asked_to_flush(member.regions) == {0: 1201, 1022: 9})
        assert drains.progress("c1").stage == "drained"


def test_a_route_that_fails_is_in_the_record(
    nats: NatsServer, cluster: str, connection: Connection, tmp_path: Path
) -> None:
    """So `hopscope cluster status` prints it."""
    member = Leaver(settings_of(nats.url, cluster, "c1", announce=("sh", "-c", "echo no; exit 3")), tmp_path)
    with running(member):
        eventually(lambda: Directory(connection).living()["c1"].route_problem == "sh: ended with 3: no")


def test_without_nats_the_route_follows_readiness(tmp_path: Path) -> None:
    """NATS is away: a member is withdrawn if it is not ready, else announced; what was wanted last holds."""
    log = tmp_path / "route"
    settings = with_commands("nats://127.0.0.1:9", "none", log)
    for drained_before, ready, expected in (
        (False, True, "announce"),
        (False, False, "withdraw"),
        (True, True, "withdraw"),
    ):
        folder = tmp_path / f"{drained_before}{ready}"
        folder.mkdir()
        remember(folder, DrainRequest(drained_before))
        member = Leaver(settings, folder, ready).start()
        eventually(lambda wanted=expected: log.exists() and log.read_text() == f"{wanted}\n")
        member.stop()
        log.unlink()


def test_a_drained_member_is_not_ready(tmp_path: Path) -> None:
    """`/readyz` is red while the member is drained, whatever its processes do: so who announces a route by it
    withdraws it.
    """
    assert read_owner(tmp_path) == {}
    assert drained(tmp_path) == []
    remember(tmp_path, DrainRequest(drained=True))
    (part,) = drained(tmp_path)
    assert not part.ready
    assert part in components(CollectorState(tmp_path), tmp_path)


@pytest.mark.parametrize(
    "value", [b"", b"[]", b"\xff", b'{"drained": "perhaps"}', b'{"silence_seconds": -1}', b"{" * 9000]
)
def test_a_wish_that_is_no_good_is_none(value: bytes, tmp_path: Path) -> None:
    """Whoever has credentials can write the entry, and anyone the file."""
    assert decode(value) == DrainRequest()
    (tmp_path / "drain.json").write_bytes(value)
    assert remembered(tmp_path) == DrainRequest()
