"""NATS JetStream: events published to a real server, read back by its own client."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hopscope.export.buses.format import read_block
from hopscope.export.counters import health_of
from hopscope.export.positions import Positions
from hopscope.history.writing.journal import JournalWriter
from hopscope.present.events import continues
from support.servers.bus_make import bus_sender, joined, need, timed_events
from support.servers.server_process import NatsServer
from support.waiting import HANG_SECONDS, eventually


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, tool: Callable[[str], str]) -> Iterator[NatsServer]:
    need("nats")
    made = NatsServer(tool("nats-server"), tmp_path_factory.mktemp("nats"), "--user", "u", "--pass", "p:@/")
    made.start()
    yield made
    made.kill()


def settings(server: NatsServer, name: str, **more: Any) -> dict[str, Any]:
    """Every test has its own stream and prefix."""
    access = {"servers": ["nats://127.0.0.1:1", server.url], "user": "u", "password": "p:@/"}
    return {**access, "stream": name, "prefix": name, **more}


def stored(server: NatsServer, stream: str) -> list[Any]:
    """The messages of a stream."""

    async def read() -> list[Any]:
        import nats

        client = await nats.connect(server.url, user="u", password="p:@/")
        context = client.jetstream()
        state = (await context.stream_info(stream)).state
        found = [await context.get_msg(stream, number) for number in range(1, state.last_seq + 1)]
        await client.close()
        return found

    return asyncio.run(read())


def headers(messages: list[Any], name: str) -> list[str]:
    return [message.headers[name] for message in messages]


@pytest.mark.e2e
def test_events_are_there_once_whatever_ends(tmp_path: Path, server: NatsServer) -> None:
    """The server is killed and restarted, and a batch that was acknowledged is sent again, longer ago than
    the stream remembers: every event is there once, in order, as in history.
    """
    given = settings(server, "once", duplicate_seconds=0.1, batch_events=100, message_bytes=10_000)
    made = timed_events(500, 1)
    with JournalWriter(tmp_path, 0) as writer:
        writer.append(made[:250])
        sender, row = bus_sender(tmp_path, "nats", **given)
        sender.start()
        eventually(lambda: row["events_total"][0] == 250)
        server.kill()
        writer.append(made[250:])
        eventually(lambda: not health_of(row[0]).ok)
        server.start()
        eventually(lambda: row["events_total"][0] == 500)
        sender.finish()
        assert sender.ended(HANG_SECONDS)
        positions = Positions(tmp_path, "lab")  # as if this process had ended before the last acknowledgement
        last = positions.next(0)
        positions.start(0, read_block(stored(server, "once")[-1].data).first)
        positions.sending(0, last)
        positions.close()
        again, row = bus_sender(tmp_path, "nats", **given)
        again.start()
        eventually(lambda: row["sent_total"][0] > 0)
        again.finish()
        assert again.ended(HANG_SECONDS)
    messages = stored(server, "once")
    blocks, events = joined(message.data for message in messages)
    assert np.array_equal(events, made)
    assert headers(messages, "Nats-Msg-Id") == [block.id for block in blocks]
    assert {message.subject for message in messages} == {"once.v1.events.m_1.0"}


@pytest.mark.e2e
def test_a_message_for_each_event(tmp_path: Path, server: NatsServer) -> None:
    """In order, keyed by flow, and not twice if the batch is sent again."""
    made = timed_events(700, 1)
    given = settings(server, "single", messages="events")
    for _ in range(2):
        with JournalWriter(tmp_path, 0) as writer:
            if not writer.next_sequence:
                writer.append(made)
            sender, row = bus_sender(tmp_path, "nats", **given)
            sender.start()
            sender.finish()
            assert sender.ended(HANG_SECONDS)
        assert row["events_total"][0] == 700
        positions = Positions(tmp_path, "lab")
        positions.start(0, 0)
        positions.close()
    messages = stored(server, "single")
    heads = np.flatnonzero(~continues(made))
    assert len(messages) == len(heads)
    flows = made["flow_id"][heads]
    assert headers(messages, "hopscope-key") == [f"{flow:016x}" if flow else "m.1-0" for flow in flows]


@pytest.mark.e2e
@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ({"password": "wrong"}, "Authorization"),
        ({"servers": ["nats://127.0.0.1:1"]}, "Connect call failed"),
        ({"create": False}, "no response from stream"),
        ({"password": "env:HOPSCOPE_TEST_UNSET"}, "no environment variable"),
    ],
)
def test_what_is_wrong_is_named(
    tmp_path: Path, server: NatsServer, more: dict[str, Any], problem: str
) -> None:
    """Health has the reason, without a password, and nothing is lost."""
    with JournalWriter(tmp_path, 0) as writer:
        writer.append(timed_events(3, 1))
        sender, row = bus_sender(tmp_path, "nats", **settings(server, "wrong", **more))
        sender.start()
        eventually(lambda: row["retried_total"][0] > 0)
        sender.finish()
        assert sender.ended(HANG_SECONDS)
    found = health_of(row[0]).problem
    assert problem in found
    assert "p:@/" not in found
    assert row["failed_total"][0] == 0
