"""MQTT: events published to a real broker, received by another client with a session."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hopscope.export.buses.format import read_block
from hopscope.export.counters import health_of
from hopscope.history.writing.journal import JournalWriter
from hopscope.present.events import continues
from support.servers.bus_make import bus_sender, joined, need, timed_events
from support.servers.server_process import MqttServer
from support.waiting import HANG_SECONDS, eventually

PASSWORD = "a:b@/ \"'"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, tool: Callable[[str], str]) -> Iterator[MqttServer]:
    need("paho")
    folder = tmp_path_factory.mktemp("mqtt")
    program, makes_passwords = tool("mosquitto"), tool("mosquitto_passwd")
    for option, user in (("-c", "u"), ("", "reader")):
        words = [makes_passwords, *filter(None, [option]), "-b", str(folder / "users"), user, PASSWORD]
        subprocess.run(words, check=True, capture_output=True)
    made = MqttServer(program, folder, "allow_anonymous false", f"password_file {folder}/users")
    made.start()
    yield made
    made.kill()


class Reader:
    """A subscriber with a session, which comes back when the broker does."""

    def __init__(self, port: int, topic: str) -> None:
        import paho.mqtt.client as mqtt
        from paho.mqtt.packettypes import PacketTypes
        from paho.mqtt.properties import Properties

        self.messages: list[Any] = []
        self.subscribed = 0
        session: Any = Properties(PacketTypes.CONNECT)
        session.SessionExpiryInterval = 3600
        self._client: Any = mqtt.Client(
            mqtt.CallbackAPIVersion.VERSION2,  # type: ignore[attr-defined,unused-ignore]
            client_id=f"reader of {topic}",
            protocol=mqtt.MQTTv5,
        )
        self._client.username_pw_set("reader", PASSWORD)
        self._client.reconnect_delay_set(0.05, 0.1)
        self._client.on_connect = lambda client, *_: client.subscribe(topic, 1)
        self._client.on_subscribe = lambda *_: setattr(self, "subscribed", self.subscribed + 1)
        self._client.on_message = lambda client, data, message: self.messages.append(message)
        self._client.connect("127.0.0.1", port, clean_start=False, properties=session)
        self._client.loop_start()
        eventually(lambda: self.subscribed)

    def once(self) -> list[Any]:
        """The messages, each id once."""
        return list({self.property_of(one, "hopscope-id"): one for one in reversed(self.messages)}.values())[
            ::-1
        ]

    def events(self) -> int:
        """Events in the messages, each once."""
        return sum(len(read_block(message.payload)) for message in self.once())

    def property_of(self, message: Any, name: str) -> str:
        """A user property of a message."""
        return str(dict(message.properties.UserProperty)[name])

    def close(self) -> None:
        """End it."""
        self._client.disconnect()
        self._client.loop_stop()


@pytest.fixture
def reader(server: MqttServer) -> Iterator[Callable[[str], Reader]]:
    made: list[Reader] = []

    def make(topic: str) -> Reader:
        made.append(Reader(server.port, topic))
        return made[-1]

    yield make
    for one in made:
        one.close()


def settings(server: MqttServer, prefix: str, **more: Any) -> dict[str, Any]:
    """Every test has its own topics."""
    access = {"url": f"mqtt://127.0.0.1:{server.port}", "user": "u", "password": PASSWORD}
    return {**access, "prefix": prefix, **more}


@pytest.mark.e2e
def test_events_arrive_whatever_ends(
    tmp_path: Path, server: MqttServer, reader: Callable[[str], Reader]
) -> None:
    """The broker is killed and restarted: every event arrives, in order, as in history. Nothing is sent
    before the subscriber is back, whose session the broker has lost.
    """
    made, subscribed = timed_events(500, 1), threading.Event()
    subscribed.set()
    found = reader("killed/v1/events/#")
    given = settings(server, "killed", batch_events=100, message_bytes=10_000)
    with JournalWriter(tmp_path, 0) as writer:
        writer.append(made[:250])
        sender, row = bus_sender(tmp_path, "mqtt", **given)
        destination: Any = sender.destination
        connect = destination.connect
        destination.connect = lambda: (subscribed.wait(), connect())
        sender.start()
        eventually(lambda: row["events_total"][0] == 250)
        eventually(lambda: found.events() == 250)
        subscribed.clear()
        server.kill()
        writer.append(made[250:])
        eventually(lambda: not health_of(row[0]).ok)
        server.start()
        eventually(lambda: found.subscribed >= 2)
        subscribed.set()
        eventually(lambda: row["events_total"][0] == 500)
        sender.finish()
        assert sender.ended(HANG_SECONDS)
        eventually(lambda: found.events() == 500)
    messages = found.once()
    blocks, events = joined(message.payload for message in messages)
    assert np.array_equal(events, made)
    assert {message.topic for message in messages} == {"killed/v1/events/m.1/0"}
    assert [found.property_of(message, "hopscope-id") for message in messages] == [
        block.id for block in blocks
    ]


@pytest.mark.e2e
def test_a_message_for_each_event(
    tmp_path: Path, server: MqttServer, reader: Callable[[str], Reader]
) -> None:
    """In order, keyed by flow."""
    made = timed_events(300, 1)
    found = reader("single/v1/events/+/+")
    with JournalWriter(tmp_path, 0) as writer:
        writer.append(made)
        sender, row = bus_sender(tmp_path, "mqtt", **settings(server, "single", messages="events"))
        sender.start()
        eventually(lambda: row["events_total"][0] == 300)
        sender.finish()
        assert sender.ended(HANG_SECONDS)
    heads = made[~continues(made)]
    eventually(lambda: len(found.messages) == len(heads))
    assert [found.property_of(message, "hopscope-key") for message in found.messages] == [
        f"{event['flow_id']:016x}" if event["flow_id"] else "m.1-0" for event in heads
    ]


@pytest.mark.e2e
@pytest.mark.parametrize(
    ("more", "problem"),
    [({"password": "wrong"}, "Not authorized"), ({"url": "mqtt://127.0.0.1:1"}, "Connection refused")],
)
def test_what_is_wrong_is_named(
    tmp_path: Path, server: MqttServer, more: dict[str, Any], problem: str
) -> None:
    """Health has the reason, without a password, and nothing is lost."""
    with JournalWriter(tmp_path, 0) as writer:
        writer.append(timed_events(3, 1))
        sender, row = bus_sender(tmp_path, "mqtt", **settings(server, "wrong", **more))
        sender.start()
        eventually(lambda: row["retried_total"][0] > 0)
        sender.finish()
        assert sender.ended(HANG_SECONDS)
    assert problem in health_of(row[0]).problem
    assert row["failed_total"][0] == 0
