"""The stream of a cluster's events: three real NATS servers keep it, and one of them is killed."""

from __future__ import annotations

import asyncio
import itertools
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hopscope.base.errors import HopscopeError
from hopscope.base.names import Names
from hopscope.export import delivery
from hopscope.export.buses.format import read_block
from hopscope.export.counters import DESTINATION, DestinationRow
from hopscope.export.destination import Context
from hopscope.export.kinds import check_exports, destination_class, places
from hopscope.export.sender import Sender
from hopscope.history.writing.journal import JournalWriter
from hopscope.settings.collector import Settings
from support.servers.bus_make import need, timed_events
from support.servers.server_process import NatsCluster
from support.waiting import HANG_SECONDS, eventually

EVENTS, BLOCK = 3000, 50


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory, tool: Callable[[str], str]) -> Iterator[NatsCluster]:
    need("nats")
    made = NatsCluster(tool("nats-server"), tmp_path_factory.mktemp("nats"))
    made.start()
    yield made
    made.kill()


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery, "MIN_PAUSE", 0.05)
    monkeypatch.setattr(delivery, "MAX_PAUSE", 0.2)


def settings(urls: list[str], **more: Any) -> Settings:
    cluster = {"name": "dc1", "nats": urls, "events": "stream", **more}
    return Settings.model_validate({"cluster": cluster, "member": "c.1"})


def sender_of(given: Settings, folder: Path) -> tuple[Sender, Any]:
    """The destination that the export process makes of the cluster's settings."""
    ((name, export),) = given.destinations.items()
    export = export.model_copy(update={"batch_events": BLOCK, "batch_seconds": 0.02, "timeout_seconds": 3.0})
    row = np.zeros(1, DESTINATION)
    about = DestinationRow(row)
    context = Context(name, given.member_name, Names(), about.count)
    return Sender(destination_class(export.kind)(export, context), folder, about), row


async def _read(urls: list[str], stream: str, subject: str) -> list[Any]:
    import nats
    import nats.errors

    client = await nats.connect(urls)
    while True:
        with suppress(nats.errors.Error):  # the servers choose a leader
            subscription = await client.jetstream().pull_subscribe(subject, stream=stream)
            break
    found: list[Any] = []
    while True:
        try:
            for message in await subscription.fetch(100, timeout=1):
                await message.ack()
                found.append(message)
        except TimeoutError:  # a server that was started again may have less than the others at first
            if found and read_block(found[-1].data).last == EVENTS - 1:
                break
    await client.close()
    return found


async def _leader(url: str, stream: str) -> str | None:
    import nats

    client = await nats.connect(url)
    info = await client.jetstream().stream_info(stream)
    await client.close()
    return info.cluster.leader if info.cluster else None


@pytest.mark.e2e
def test_a_server_is_killed_and_no_event_is_lost_or_doubled(tmp_path: Path, three: NatsCluster) -> None:
    """The server that leads the stream is killed while events are sent: each is there once, in order, with
    the id of its block.
    """
    urls = [server.url for server in three.servers]
    made = timed_events(EVENTS, 1)
    with JournalWriter(tmp_path, 0) as writer:
        writer.append(made[: EVENTS // 3])
        sender, row = sender_of(settings(urls), tmp_path)
        sender.start()
        eventually(lambda: row["events_total"][0] == EVENTS // 3)
        leader = asyncio.run(_leader(urls[0], "hopscope-dc1-events"))
        victim = three.servers[int(str(leader)[-1])]
        writer.append(made[EVENTS // 3 :])
        eventually(lambda: row["events_total"][0] > EVENTS // 3 + 2 * BLOCK)
        victim.kill()
        eventually(lambda: row["events_total"][0] == EVENTS)
        sender.finish()
        assert sender.ended(HANG_SECONDS)
    victim.start()
    messages = asyncio.run(_read(urls, "hopscope-dc1-events", "hopscope.dc1.events.>"))
    blocks = [read_block(message.data) for message in messages]
    ends = [(block.first, block.last) for block in blocks]
    assert (ends[0][0], ends[-1][1]) == (0, EVENTS - 1)
    assert all(before[1] + 1 == after[0] for before, after in itertools.pairwise(ends)), ends
    assert np.array_equal(np.concatenate([block.records for block in blocks]), made)
    assert [message.headers["Nats-Msg-Id"] for message in messages] == [block.id for block in blocks]
    assert {message.subject for message in messages} == {"hopscope.dc1.events.c_1.0"}
    assert row["failed_total"][0] == row["expired_total"][0] == 0
    lines = [f"{block.member} 0 {block.first} {block.last} {len(block)}" for block in blocks]
    assert consumer(tmp_path, urls) == lines
    assert consumer(tmp_path, urls) == []  # its position is kept by NATS


def consumer(folder: Path, urls: list[str]) -> list[str]:
    """What the consumer of the guide prints, in a process of its own."""
    guide = (Path(__file__).parents[2] / "docs/guides/cluster-events.md").read_text()
    code = guide.partition("<!-- test: consumer -->\n```python\n")[2].partition("```")[0]
    assert "def main" in code
    program = folder / "consumer.py"
    program.write_text(code.replace("timeout=5", "timeout=1"))
    words = [sys.executable, str(program), "dc1", *urls]

    def run() -> subprocess.CompletedProcess[str] | None:
        done = subprocess.run(words, capture_output=True, text=True, timeout=HANG_SECONDS)
        assert done.returncode == 0 or not done.stdout, done.stderr
        return done if done.returncode == 0 else None  # the servers choose a leader; it took nothing

    done = eventually(run, "the consumer never came to its end")
    assert done is not None
    return done.stdout.splitlines()


def test_the_setting_makes_one_more_destination() -> None:
    """It has the servers, identity, copies and size of the cluster's settings, and begins with the oldest
    event; its subjects are not those of queries. Without the setting, or a cluster, there is none.
    """
    access = {"user": "u", "password": "env:P", "replicas": 5, "stream_bytes": 2**30}
    given = settings(["nats://127.0.0.1:1", "nats://127.0.0.1:2"], **access)
    stream = given.cluster.stream
    assert stream is not None
    assert (stream.servers, stream.user, stream.password) == (given.cluster.nats, "u", "env:P")
    assert (stream.replicas, stream.stream_bytes, stream.begin) == (5, 2**30, "oldest")
    assert (stream.prefix, stream.stream) == ("hopscope.dc1.events", "hopscope-dc1-events")
    assert [place.name for place in places(given)] == ["cluster.events"]
    assert not settings([]).destinations
    assert not settings(["nats://127.0.0.1:1"], events="none").destinations


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the setting, not a destination that the user never wrote."""
    monkeypatch.setattr("hopscope.export.kinds.find_spec", lambda name: None)
    with pytest.raises(HopscopeError, match=r"^cluster\.events: .*install .*'hopscope\[nats\]'"):
        check_exports(settings(["nats://127.0.0.1:1"]))
