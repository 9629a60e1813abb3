"""Members of a cluster in threads of the test: the process of a member without its collector."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from hopscope.cluster.connection import Connection
from hopscope.cluster.counters import CLUSTER_COUNTERS
from hopscope.cluster.membership.part import Membership
from hopscope.cluster.process import ClusterProcess, Condition, Context, Part
from hopscope.cluster.setup import init
from hopscope.cluster.status import read_status
from hopscope.memory.private_file import incarnation
from hopscope.settings.collector import Settings

from ..waiting import eventually

T = TypeVar("T")


def settings_of(url: str | Sequence[str], cluster: str, member: str, **more: Any) -> Settings:
    """Settings of a member that is quick to join and to be missed."""
    servers = [url] if isinstance(url, str) else list(url)
    quick = {"heartbeat_seconds": 0.2, "member_seconds": 1.0, "replicas": 1, "answer_seconds": 1.0}
    return Settings.model_validate(
        {"member": member, "cluster": {"name": cluster, "nats": servers, **quick, **more}}
    )


def make(settings: Settings) -> list[tuple[str, str]]:
    """`hopscope cluster init`."""
    with Connection(settings.cluster, "test") as connection:
        return init(connection)


class Member:
    """The process of a member, as a thread; `folder` is its data folder."""

    def __init__(
        self,
        settings: Settings,
        folder: Path,
        parts: Callable[[Context], Sequence[Part]] | None = None,
        condition: Callable[[], Condition] = Condition,
    ) -> None:
        (folder / "regions").mkdir(parents=True, exist_ok=True)
        self.regions = folder / "regions"
        self.context = Context(
            settings,
            folder,
            self.regions,
            CLUSTER_COUNTERS.open(self.regions),
            incarnation(folder),
            condition,
        )
        made = parts(self.context) if parts else []
        self.process = ClusterProcess(self.context, [Membership(self.context), *made])
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self.process.run, args=(self._stop,), daemon=True)

    def start(self) -> Member:
        """Start it, without waiting."""
        self._thread.start()
        return self

    def await_state(self, state: str) -> dict[str, Any]:
        """Wait until its status has this state; the status."""
        eventually(lambda: read_status(self.regions).get("state") == state, lambda: str(self.status()))
        return self.status()

    def status(self) -> dict[str, Any]:
        """What its file says."""
        return read_status(self.regions)

    def stop(self) -> None:
        """End it orderly."""
        if not self._stop.is_set():
            self._stop.set()
            self._thread.join()


@contextmanager
def running(*members: Member) -> Iterator[None]:
    """Members that run meanwhile, and have joined."""
    try:
        for member in members:
            member.start()
        for member in members:
            member.await_state("joined")
        yield
    finally:
        for member in members:
            member.stop()


def with_nats(url: str, work: Callable[[Any, Any], Coroutine[Any, Any, T]]) -> T:
    """What `work` finds with a client of NATS, and its JetStream, that know nothing of Hopscope."""

    async def run() -> T:
        import nats

        client = await nats.connect(url)
        try:
            return await work(client, client.jetstream())
        finally:
            await client.close()

    return asyncio.run(run())
