"""Stores of this machine as the output of a translator."""

from __future__ import annotations

import time
from pathlib import Path

from ...direct.primitive import WriterStart
from ...direct.stores.store import Store
from ...direct.translation.routes import routes_of
from ...direct.transport import MemoryTransport
from ...rdma.notices import NOTICES_FILE, Notifier, create_notices
from ...settings.direct import DirectSettings
from .output import TranslatorOptions
from .stores import Stores, store_specs


class LocalStores:
    """Stores in a folder, written by this process, with their epochs."""

    ready = True
    connections = requesters = generation = received = None

    def __init__(self, settings: DirectSettings, folder: Path, options: TranslatorOptions) -> None:
        """Raises StoreError, RegionError and RouteError."""
        specs = store_specs(settings)
        self.stores = Stores(settings, folder, specs, self._swap)
        self.transport = MemoryTransport(
            list(self.stores.current.values()), Notifier(create_notices(folder / NOTICES_FILE))
        )
        layouts = [spec.layout for spec in specs]
        routes = routes_of(layouts, names=[spec.name for spec in specs], rules=options.rules)
        self.translator = options.translator(layouts, self.transport, routes)
        self._generation = int(time.time()) & 0xFFFFFF
        self._begin()

    def turn(self) -> int:
        """Memory is written at once."""
        return 0

    def tick(self, now_ns: int) -> None:
        """Begin the epochs that are due."""
        self.stores.tick(now_ns)

    def idle(self) -> bool:
        """Always."""
        return True

    def close(self) -> None:
        """Wait for epochs that are being saved."""
        self.stores.close()

    def _swap(self, number: int, store: Store) -> None:
        self.transport.stores[number] = store
        self._begin(number)

    def _begin(self, only: int | None = None) -> None:
        """Point the writers to the memory of their targets."""
        self._generation = (self._generation + 1) & 0xFFFFFF
        for route, writer in zip(self.translator.routes, self.translator.writers, strict=True):
            for which, (_, target) in enumerate(route.at):
                if only is None or only == target:
                    store = self.transport.stores[target]
                    writer.begin(which, WriterStart(self._generation, store.memory, store.epoch))
