"""A translator's output to the stores of a cluster's members, as the table of owners assigns them.

While the output switches to a new generation, reports wait in the sockets for a moment. The contents of
caches and batches go to the previous owners; once they have acknowledged everything, those connections end
and connections to the new owners are made. Lists and sketches begin where the new owner's memory says, as
after any connection.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable

from ...cluster.owners.table import OwnerTable
from ...direct.translation.translator import Translator
from ...settings.direct import DirectSettings
from .output import TranslatorOptions
from .remote import RemoteStores
from .warm import warm_rdma

SWITCH_SECONDS = 1.0
"""How long previous owners may take to acknowledge pending writes, and new owners to connect."""
WAIT_SECONDS = 0.0002


class FollowingStores:
    """Connections to the owners that a table names. `table` returns the newest one; None: there is none."""

    stores = transport = None

    def __init__(
        self,
        settings: DirectSettings,
        options: TranslatorOptions,
        notify: Callable[[str], object],
        table: Callable[[], OwnerTable | None],
    ) -> None:
        """Compiles the kernels; the socket is opened once there is a table."""
        self._settings, self._options, self._notify, self._table = settings, options, notify, table
        warm_rdma()
        self._remote: RemoteStores | None = None
        self._none = options.translator([], [None], ())
        self._shown = ""
        self.generation = 0
        """Generation of the table in use; 0: none."""
        self._addresses: tuple[str, ...] = ()
        self.tick(time.time_ns())

    @property
    def translator(self) -> Translator:
        """See `Output`."""
        return self._none if self._remote is None else self._remote.translator

    @property
    def ready(self) -> bool:
        """See `Output`."""
        return self._remote is not None and self._remote.ready

    @property
    def connections(self) -> Counter[str]:
        """See `RemoteStores`."""
        return Counter() if self._remote is None else self._remote.connections

    @property
    def requesters(self) -> Counter[str]:
        """See `RemoteStores`."""
        return Counter() if self._remote is None else self._remote.requesters

    @property
    def received(self) -> Counter[str]:
        """See `RemoteStores`."""
        return Counter() if self._remote is None else self._remote.received

    def turn(self) -> int:
        """See `Output`."""
        return 0 if self._remote is None else self._remote.turn()

    def tick(self, now_ns: int) -> None:
        """Switch to the table's owners if its generation or addresses have changed; connect."""
        table = self._table()
        if table is not None and (
            table.current.number != self.generation or table.addresses != self._addresses
        ):
            self._follow(table)
        if self._remote is not None:
            self._remote.tick(now_ns)

    def idle(self) -> bool:
        """See `Output`."""
        return self._remote is None or self._remote.idle()

    def close(self) -> None:
        """End the connections."""
        if self._remote is not None:
            self._remote.close()

    def _follow(self, table: OwnerTable) -> None:
        number, addresses = table.current.number, table.addresses
        lacking = [name for name in table.current.members if not table.owners[name].nic]
        if lacking:
            self._say(f"generation {number} of owners is not used: {lacking[0]} has no address of a NIC")
            return
        if addresses != self._addresses:
            old, self._remote = self._remote, None
            if old is not None:
                self._finish(old)
            given = {"collectors": addresses}
            settings = self._settings.model_copy(
                update={"translator": self._settings.translator.model_copy(update=given)}
            )
            new = RemoteStores(settings, self._options, self._notify)
            if old is None:
                new.translator.continue_counters(self._none)
            else:
                new.continue_counters(old)
            self._remote, self._addresses = new, addresses
            if old is not None:
                self._connect(new)
        self.generation = number
        self._say(f"generation {number} of owners: {', '.join(table.current.members)}")

    @staticmethod
    def _finish(old: RemoteStores) -> None:
        """Write what is pending to the previous owners, and end their connections."""
        until = time.monotonic() + SWITCH_SECONDS
        while not (old.translator.flush() and old.idle()) and time.monotonic() < until:
            if not old.turn():
                time.sleep(WAIT_SECONDS)
        old.close()

    @staticmethod
    def _connect(new: RemoteStores) -> None:
        """Connect to all owners that answer within SWITCH_SECONDS."""
        until = time.monotonic() + SWITCH_SECONDS
        new.tick(time.time_ns())
        while not (new.ready and not new.translator.fanout.any_down) and time.monotonic() < until:
            if not new.turn():
                time.sleep(WAIT_SECONDS)

    def _say(self, line: str) -> None:
        if line != self._shown:
            self._shown = line
            self._notify(line)
