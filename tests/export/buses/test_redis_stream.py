"""Redis streams: events added to a real server, read back by its own client."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hopscope.export.buses.format import read_block
from hopscope.export.counters import health_of
from hopscope.export.positions import Positions
from hopscope.history.writing.journal import JournalWriter
from hopscope.present.events import continues, event_object, long_paths
from support.servers.bus_make import NAMES, bus_sender, joined, need, timed_events
from support.servers.redis_server import RedisServer
from support.waiting import HANG_SECONDS, eventually

Servers = Callable[..., RedisServer]
DURABLE = ("--appendonly", "yes", "--appendfsync", "always")


@pytest.fixture(autouse=True)
def _needs_client() -> None:
    need("redis")


def entries(server: RedisServer, key: str) -> list[dict[bytes, bytes]]:
    """The entries of a stream."""
    import redis

    with redis.Redis("127.0.0.1", server.port, protocol=2) as client:
        found: Any = client.xrange(key)
    return [fields for _, fields in found]


def finished(sender: Any) -> None:
    sender.finish()
    assert sender.ended(HANG_SECONDS)


def send_again(folder: Path, first: int, last: int) -> None:
    """As if the process had ended before the last answer."""
    positions = Positions(folder, "lab")
    positions.start(0, first)
    positions.sending(0, last + 1)
    positions.close()


def test_events_are_there_once_whatever_ends(tmp_path: Path, redis_server: Servers) -> None:
    """The server is killed and restarted, and a block that it has is sent again: every event is there once,
    in order, as in history.
    """
    server = redis_server(*DURABLE)
    server.start()
    made = timed_events(500, 1)
    given = {"url": server.url, "batch_events": 100, "message_bytes": 10_000}
    data = tmp_path / "data"
    with JournalWriter(data, 0) as writer:
        writer.append(made[:250])
        sender, row = bus_sender(data, "redis_stream", **given)
        sender.start()
        eventually(lambda: row["events_total"][0] == 250)
        server.kill()
        writer.append(made[250:])
        eventually(lambda: not health_of(row[0]).ok)
        server.start()
        eventually(lambda: row["events_total"][0] == 500)
        finished(sender)
        key = "hopscope:v1:events:m.1:0"
        for _ in range(2):
            send_again(data, read_block(entries(server, key)[-1][b"events"]).first, 499)
            sender, row = bus_sender(data, "redis_stream", **given)
            sender.start()
            eventually(lambda row=row: row["sent_total"][0] == 1)  # type: ignore[misc]
            finished(sender)
    found = entries(server, key)
    blocks, events = joined(fields[b"events"] for fields in found)
    assert np.array_equal(events, made)
    assert [fields[b"id"].decode() for fields in found] == [block.id for block in blocks]


def test_an_entry_for_each_event(tmp_path: Path, redis_server: Servers) -> None:
    """JSON, with the key of its flow; a stream has about as many entries as asked for."""
    server = redis_server()
    server.start()
    made = timed_events(700, 1)
    with JournalWriter(tmp_path, 0) as writer:
        writer.append(made)
        more = {"url": server.url, "messages": "events", "format": "json", "entries": 200}
        sender, _ = bus_sender(tmp_path, "redis_stream", **more)
        sender.start()
        finished(sender)
    found = entries(server, "hopscope:v1:events:m.1:0")
    heads = made[~continues(made)]
    assert 200 <= len(found) <= 300  # Redis deletes whole nodes of 100
    heads = heads[-len(found) :]
    assert [json.loads(fields[b"events"]) for fields in found] == [
        {"member": "m.1", **event_object(event, NAMES, long_paths(made))} for event in heads
    ]
    assert [fields[b"key"].decode() for fields in found] == [
        f"{event['flow_id']:016x}" if event["flow_id"] else "m.1-0" for event in heads
    ]


def test_a_user_needs_few_rights(tmp_path: Path, redis_server: Servers) -> None:
    """The rights of the guide are enough; health says what is wrong with others, and nothing is lost."""
    server = redis_server()
    client = server.start()
    rights = (
        "on >sesame resetkeys ~hopscope:v1:events:* resetchannels -@all +ping +evalsha +script|load +xadd"
    )
    client.execute_command("ACL", "SETUSER", "bus", *rights.split())
    made = timed_events(3, 1)
    with JournalWriter(tmp_path, 0) as writer:
        writer.append(made)
        sender, row = bus_sender(tmp_path, "redis_stream", url=server.url, user="bus", password="sesame")
        sender.start()
        eventually(lambda: row["retried_total"][0] > 0)
        assert " command" in health_of(row[0]).problem
        client.execute_command("ACL", "SETUSER", "bus", "+xrevrange")
        eventually(lambda: row["events_total"][0] == 3)
        finished(sender)
    assert row["failed_total"][0] == 0
    _, events = joined(fields[b"events"] for fields in entries(server, "hopscope:v1:events:m.1:0"))
    assert np.array_equal(events, made)
