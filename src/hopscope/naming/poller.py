"""Asks all devices for names, again and again, and keeps what they answered in the data folder."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from ..base.errors import HopscopeError
from ..base.names import DISCOVERED, Names
from ..base.stop import Stop
from ..memory.counter_region import CounterRegion
from ..settings.names_from import NamesFromSettings
from .snmp import SnmpClient

AT_ONCE = 16
"""Devices of a table that are asked at the same time."""
TURN_SECONDS = 0.2
Notify = Callable[[str], None]


class Poller:
    """Names of all devices. A device that does not answer keeps its last names."""

    def __init__(
        self,
        tables: dict[str, NamesFromSettings],
        folder: Path,
        counters: CounterRegion,
        *,
        changed: Callable[[], None],
        notify: Notify,
        warn: Notify,
    ) -> None:
        """`changed` is called after names in `folder` have changed; `notify` and `warn` log a line."""
        self._tables, self._folder, self._counters = tables, folder, counters
        self._changed, self._notify, self._warn = changed, notify, warn
        nodes = {node for table in tables.values() for node in table.devices}
        known = Names.load(None, folder)
        self._names = Names(
            {node: name for node, name in known.nodes.items() if node in nodes},
            {place: name for place, name in known.ports.items() if place[0] in nodes},
        )
        self._silent: set[int] = set()
        """Nodes that did not answer when asked last."""

    def run(self, stop: Stop) -> None:
        """Ask every table's devices at its interval until `stop` is set."""
        self.prune()
        asyncio.run(self._run(stop))

    def prune(self) -> None:
        """Forget devices that the settings no longer have."""
        self._take({})

    async def _run(self, stop: Stop) -> None:
        followed = [asyncio.create_task(self._follow(name)) for name in self._tables]
        try:
            while not stop.is_set():
                for task in followed:
                    if task.done():
                        task.result()
                await asyncio.sleep(TURN_SECONDS)
        finally:
            for task in followed:
                task.cancel()
            await asyncio.gather(*followed, return_exceptions=True)

    async def _follow(self, name: str) -> None:
        while True:
            await self.poll(name)
            await asyncio.sleep(self._tables[name].interval_seconds)

    async def poll(self, name: str) -> None:
        """Ask the devices of one table, once. Raises ConfigError if a secret is missing."""
        table, room = self._tables[name], asyncio.Semaphore(AT_ONCE)
        client = SnmpClient(f"names_from.{name}", table)

        async def ask(node: int, host: str) -> Names | None:
            async with room:
                return await self._ask(client, node, host)

        try:
            answers = await asyncio.gather(*(ask(node, host) for node, host in table.devices.items()))
        finally:
            client.close()
        self._take(
            {node: names for node, names in zip(table.devices, answers, strict=True) if names is not None}
        )

    async def _ask(self, client: SnmpClient, node: int, host: str) -> Names | None:
        try:
            names = await client.names(node, host)
        except HopscopeError as error:
            self._counters.add("names_polls_total.failed", 1)
            if node not in self._silent:
                self._warn(f"names of {host}: {error}; its last names stay")
            self._silent.add(node)
            return None
        self._counters.add("names_polls_total.answered", 1)
        if node in self._silent:
            self._notify(f"names of {host}: it answers again")
        self._silent.discard(node)
        return names

    def _take(self, answers: dict[int, Names]) -> None:
        """Replace the names of nodes that answered."""
        self._counters.put("names_silent_devices", len(self._silent))
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
