"""Asks all devices for names and counters at intervals, and keeps their answers in files."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import numpy as np

from ..base.errors import HopscopeError
from ..base.names import DISCOVERED, Names
from ..base.process.stop import Stop
from ..memory.counter_region import CounterRegion
from ..settings.names_from import DeviceSettings
from .client import client_of
from .device import DeviceClient
from .interfaces import read_interfaces, rows_of, write_interfaces

AT_ONCE = 16
"""How many devices of a table are asked at the same time."""
TURN_SECONDS = 0.2
Notify = Callable[[str], None]
Answer = TypeVar("Answer")


class Poller:
    """Asks all devices. A device that does not answer keeps its last names, and has no counters."""

    def __init__(
        self,
        tables: dict[str, DeviceSettings],
        folder: Path,
        regions: Path,
        counters: CounterRegion,
        *,
        changed: Callable[[], None],
        notify: Notify,
        warn: Notify,
    ) -> None:
        """`folder` gets the names, `regions` the counters of interfaces. `changed` is called after names have
        changed; `notify` and `warn` log a line.
        """
        self._tables, self._folder, self._regions, self._counters = tables, folder, regions, counters
        self._changed, self._notify, self._warn = changed, notify, warn
        nodes = {node for table in tables.values() for node in table.devices}
        known = Names.load(None, folder)
        self._names = Names(
            {node: name for node, name in known.nodes.items() if node in nodes},
            {place: name for place, name in known.ports.items() if place[0] in nodes},
        )
        self._silent: dict[str, set[int]] = {"names": set(), "counters": set()}
        """Nodes that did not answer the last request, by request (`names` or `counters`)."""

    def run(self, stop: Stop) -> None:
        """Ask the devices of every table at its intervals until `stop` is set."""
        self.prune()
        asyncio.run(self._run(stop))

    def prune(self) -> None:
        """Forget devices that the settings no longer have."""
        self._take({})
        counted = [
            node for table in self._tables.values() if table.counters_seconds for node in table.devices
        ]
        rows = read_interfaces(self._regions)
        write_interfaces(self._regions, rows[np.isin(rows["node_id"], counted)])

    async def _run(self, stop: Stop) -> None:
        repeated = [
            self._repeat(self.poll, name, table.interval_seconds) for name, table in self._tables.items()
        ]
        repeated += [
            self._repeat(self.read_counters, name, table.counters_seconds)
            for name, table in self._tables.items()
            if table.counters_seconds
        ]
        tasks = [asyncio.create_task(repeating) for repeating in repeated]
        try:
            while not stop.is_set():
                for task in tasks:
                    if task.done():
                        task.result()
                await asyncio.sleep(TURN_SECONDS)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _repeat(self, ask: Callable[[str], Awaitable[None]], name: str, seconds: float) -> None:
        while True:
            begun = time.monotonic()
            await ask(name)
            await asyncio.sleep(max(0.0, begun + seconds - time.monotonic()))

    async def poll(self, name: str) -> None:
        """Ask the devices of one table for names, once. Raises ConfigError if a secret is missing."""
        self._take(await self._ask_all(name, "names", lambda client, node, host: client.names(node, host)))

    async def read_counters(self, name: str) -> None:
        """Read the counters of one table's devices, once. Raises ConfigError if a secret is missing."""
        answers = await self._ask_all(name, "counters", lambda client, _, host: client.counters(host))
        rows = read_interfaces(self._regions)
        others = rows[~np.isin(rows["node_id"], list(self._tables[name].devices))]
        now = time.time_ns()
        fresh = (rows_of(node, counters, now) for node, counters in answers.items())
        write_interfaces(self._regions, np.concatenate([others, *fresh]))

    async def _ask_all(
        self, name: str, request: str, ask: Callable[[DeviceClient, int, str], Awaitable[Answer]]
    ) -> dict[int, Answer]:
        """The answers of the devices of a table, by node; nodes that do not answer are missing."""
        table, room = self._tables[name], asyncio.Semaphore(AT_ONCE)
        client = client_of(f"names_from.{name}", table)
        answers: dict[int, Answer] = {}

        async def one(node: int, host: str) -> None:
            async with room:
                try:
                    answers[node] = await ask(client, node, host)
                    error = None
                except HopscopeError as found:
                    error = found
            self._note(request, node, host, error)

        try:
            await asyncio.gather(*(one(node, host) for node, host in table.devices.items()))
        finally:
            await client.close()
        return answers

    def _note(self, request: str, node: int, host: str, error: HopscopeError | None) -> None:
        """Count an answer or a failure, and log when a device stops or starts answering."""
        silent, result = self._silent[request], "answered" if error is None else "failed"
        polls = {"names": "names_polls_total", "counters": "names_counter_polls_total"}[request]
        self._counters.add(f"{polls}.{result}", 1)
        if error is None and node in silent:
            self._notify(f"{request} of {host}: it answers again")
            silent.discard(node)
        elif error is not None and node not in silent:
            kept = "; its last names stay" if request == "names" else ""
            self._warn(f"{request} of {host}: {error}{kept}")
            silent.add(node)
        self._counters.put("names_silent_devices", len(set.union(*self._silent.values())))

    def _take(self, answers: dict[int, Names]) -> None:
        """Replace the names of the nodes that answered."""
        nodes = {node: name for node, name in self._names.nodes.items() if node not in answers}
        ports = {place: name for place, name in self._names.ports.items() if place[0] not in answers}
        for names in answers.values():
            nodes |= names.nodes
            ports |= names.ports
        self._names = Names(nodes, ports)
        if self._names == Names.load(None, self._folder):
            return
        fresh = self._folder / f"{DISCOVERED}.part"
        fresh.write_text(self._names.as_toml(), encoding="utf-8")
        fresh.replace(self._folder / DISCOVERED)
        self._counters.add("names_changes_total", 1)
        self._changed()
