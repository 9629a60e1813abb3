"""How long a query to all members of a cluster takes: 1 to 30 that answer, and with one that does not."""

from __future__ import annotations

import asyncio
import itertools
import json
import multiprocessing
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from harness.common import Bench
from hopscope.capture.udp.listener import UdpSender
from hopscope.cluster.connection import MEMBER, MORE, Connection
from hopscope.cluster.membership.members import MemberRecord, Registration
from hopscope.cluster.queries.client import ASK
from hopscope.fabric.load import Load
from support.cluster.members import make, settings_of
from support.processes.collector_process import Collector
from support.servers.server_process import NatsServer
from support.waiting import eventually

CLUSTER = "bench"
REPORTS, FLOWS = 20_000, 1000
QUERIES: dict[str, tuple[str, dict[str, str]]] = {
    "100 of 1,000 flows": ("/flows", {"limit": "100"}),
    "100 events": ("/events", {"limit": "100"}),
    "summary": ("/summary", {}),
}
"""Path and query of each."""
Canned = dict[str, list[tuple[dict[str, str], bytes]]]
"""Messages of a member's answer, by what identifies its query."""


class Site:
    """A NATS server, and members."""

    def __init__(self, folder: Path) -> None:
        self.nats = NatsServer(str(shutil.which("nats-server")), folder)
        self.folder = folder
        self.collectors: list[Collector] = []
        self.stubs: list[multiprocessing.process.BaseProcess] = []

    def add(self) -> None:
        """Start one more collector, with flows."""
        name = f"c{len(self.collectors) + 1}"
        flags = (
            *("--listen", "udp://127.0.0.1:0", "--http-port", "0", "--set", f"member={name}"),
            *("--set", f"cluster.nats={json.dumps([self.nats.url])}", "--set", f"cluster.name={CLUSTER}"),
            *("--set", "cluster.member_seconds=3600", "--set", "cluster.replicas=1"),
        )
        collector = Collector(self.folder / name, *flags)
        collector.start()
        self.collectors.append(collector)
        load, sender = Load(hops=3, flows=FLOWS, sources=4, run=1), UdpSender("127.0.0.1", collector.port)
        for _ in range(REPORTS // 500):
            sender.send(load.next(500, 20))
            time.sleep(0.005)
        sender.close()

    def add_stubs(self, names: Sequence[str], canned: Canned) -> None:
        """Members that only answer, always the same, in one process."""
        process = multiprocessing.get_context("spawn").Process(
            target=answer, args=(self.nats.url, names, canned)
        )
        process.start()
        self.stubs.append(process)
        with Connection(settings_of(self.nats.url, CLUSTER, "stub").cluster, "stub") as connection:
            for name in names:
                Registration(connection, 0.0).put(MemberRecord(name, "stub"))

    def ask(self, client: httpx.Client, path: str, query: dict[str, str], scope: str = "cluster") -> Any:
        """One query to the first collector."""
        url = f"{self.collectors[0].owner['api']}api/v0{path}"
        return client.get(url, params={**query, "scope": scope}).raise_for_status().json()

    def await_members(self, count: int) -> None:
        """Until so many answer; the first query to a member is slow."""
        url = f"{self.collectors[0].owner['api']}api/v0/summary?scope=cluster"
        eventually(lambda: len(httpx.get(url, timeout=60).json()["cluster"]["answered"]) == count)

    def close(self) -> None:
        """End all."""
        for process in self.stubs:
            process.kill()
            process.join()
        for collector in self.collectors:
            with suppress(ProcessLookupError):
                collector.kill_all()
        self.nats.kill()


def answer(url: str, names: Sequence[str], canned: Canned) -> None:
    """Main of the process of stubs: a connection each."""

    async def member(name: str) -> None:
        import nats

        client = await nats.connect(url, max_reconnect_attempts=0)

        async def take(message: Any) -> None:
            for headers, body in canned.get(key_of(message.data), ()):
                await client.publish(message.reply, body, headers={**headers, MEMBER: name})

        await client.subscribe(f"hopscope.{CLUSTER}.{ASK}", cb=take)
        await asyncio.Event().wait()

    async def every() -> None:
        await asyncio.gather(*map(member, names))

    asyncio.run(every())


def key_of(body: bytes) -> str:
    """The content of a query, which does not depend on its sender."""
    asked = json.loads(body)
    return str(asked.get("gets", asked.get("ask")))


def record(site: Site) -> Canned:
    """What the first collector answers to the querys of this benchmark."""
    found: Canned = {}

    async def listen() -> None:
        import nats

        client = await nats.connect(site.nats.url)
        keys: dict[str, str] = {}

        async def take(message: Any) -> None:
            if message.reply:
                keys[message.reply] = key_of(message.data)
            elif message.subject in keys and (message.headers or {}).get(MEMBER) == "c1":
                found.setdefault(keys[message.subject], []).append((dict(message.headers), message.data))

        for subject in (f"hopscope.{CLUSTER}.{ASK}", "_INBOX.>"):
            await client.subscribe(subject, cb=take)
        await client.flush()
        await asyncio.to_thread(ask_all)
        await client.close()

    def ask_all() -> None:
        with httpx.Client(timeout=60) as asking:
            for path, query in QUERIES.values():
                site.ask(asking, path, query)
        time.sleep(0.2)

    asyncio.run(listen())
    assert all(messages and MORE not in messages[-1][0] for messages in found.values())
    return found


def measure(
    bench: Bench, site: Site, members: object, rounds: int, scope: str = "cluster", warm: int = 3
) -> None:
    """Time of each query, asked one after the other; the first `warm` do not count."""
    with httpx.Client(timeout=60) as client:
        for name, (path, query) in QUERIES.items():
            taken = []
            for _ in range(warm + rounds):
                begin = time.perf_counter()
                site.ask(client, path, query, scope)
                taken.append((time.perf_counter() - begin) * 1e3)
            taken = taken[warm:]
            for quantile, q in (("p50", 0.5), ("p99", 0.99)):
                case = {"query": name, "members": members, "quantile": quantile}
                bench.row(case, float(np.quantile(taken, q)), "ms")


@contextmanager
def site() -> Iterator[Site]:
    """Servers in a folder of their own."""
    with tempfile.TemporaryDirectory() as folder:
        made = Site(Path(folder))
        try:
            made.nats.start()
            make(settings_of(made.nats.url, CLUSTER, "c1", member_seconds=3600))
            yield made
        finally:
            made.close()


def main() -> None:
    """Grow the cluster, and measure at each size."""
    bench, _ = Bench.start(
        "cluster_queries",
        "time of a query with `scope=cluster` to the API of one member, which asks all "
        "members over NATS and merges their answers; compared with the same query to that "
        "member alone. Three members are collectors; the rest are stubs that return the answer "
        "of a collector.",
        "a network, and members with cores of their own: collectors, NATS, stubs and the "
        "client share two cores.",
    )
    rounds = 20 if bench.quick else 100
    with site() as found:
        found.add()
        found.await_members(1)
        measure(bench, found, "that member alone", rounds, "member")
        measure(bench, found, 1, rounds)
        canned = record(found)
        found.add()
        found.add()
        found.await_members(3)
        measure(bench, found, 3, rounds)
        stubs = (f"s{number}" for number in itertools.count(1))
        for members in (10, 30):
            more = members - 3 - sum(1 for _ in found.stubs) * 7
            found.add_stubs([next(stubs) for _ in range(more)], canned)
            found.await_members(members)
            measure(bench, found, members, rounds)
        stopped = found.collectors[2].process
        assert stopped is not None
        os.killpg(stopped.pid, signal.SIGSTOP)
        measure(bench, found, "30, one stopped", 2 if bench.quick else 10, warm=0)
        os.killpg(stopped.pid, signal.SIGCONT)


if __name__ == "__main__":
    main()
