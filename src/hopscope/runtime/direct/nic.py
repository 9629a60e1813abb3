"""The software NIC as a process: RoCEv2 from UDP port 4791, at one or several addresses, into stores.

An allowed peer connects through RDMA-CM, gets the list of stores in a SEND, and writes to them. One thread
runs everything in turns, which never block.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from ...base.process import loop
from ...base.process.stop import Stop
from ...direct.primitive import load
from ...direct.stores.spec import StoreSpec
from ...direct.stores.store import WRITES, Store
from ...rdma.advertisement import (
    SERVICE_PORT,
    RemoteRegion,
    Renewal,
    encode,
    encode_progress,
    encode_published,
)
from ...rdma.connection import Connection
from ...rdma.counters import NIC_COUNTERS
from ...rdma.memory_table import MemoryTable
from ...rdma.notices import NOTICES_FILE, create_notices
from ...settings.direct import DirectSettings
from ...wire.records import Records
from ...wire.roce.layout import ROCE_PORT
from .ports import NicPorts, Peer
from .stores import Stores
from .warm import warm_progress, warm_rdma

PUBLISHED_PORTS = {"postcarding": 1336, "key-write": 1337, "append": 1338}
"""Ports of the published collector: the first store of a primitive; of Append the n-th at 1338 + n."""
TICK_NS = 100_000_000
PAUSE = loop.Pause(seconds=0.0002, below=16)
"""Short, because the peer waits for its acknowledgments."""
DRAIN_SECONDS = 2.0
MOVE_NS = 10_000_000_000
"""A peer that has not moved to a new epoch after this time is disconnected."""
REPEAT_NS = 1_000_000_000
"""Interval of the announcements to a peer that has not moved."""


@dataclass(slots=True)
class _Regions:
    """The two regions of a store: the current one, and the one that peers use until they have moved."""

    rows: tuple[Records, Records]
    current: int = 0
    moving: list[Peer] = field(default_factory=list)
    """Peers that still write to the past epoch."""
    since_ns: int = 0
    repeat_ns: int = 0


class NicProcess:
    """Stores in a folder, their epochs, and the ports through which peers write to them.

    `folder`: the folder of the stores, `DATA/direct`. Raises StoreError, RegionError and CaptureError.
    """

    def __init__(
        self, settings: DirectSettings, folder: Path, specs: Iterable[StoreSpec], *, port: int = ROCE_PORT
    ) -> None:
        self._stores = Stores(settings, folder, specs, self._swap, self._is_moving)
        table = MemoryTable()
        self._regions = {
            name: _Regions((table.add(store.memory), table.add(store.memory)))
            for name, store in self.stores.items()
        }
        self._of_target = [store for store in self.stores.values() for _ in range(2)]
        table.numbers[: len(self._of_target)] = np.arange(len(self._of_target)) // 2
        self.notices = create_notices(folder / NOTICES_FILE)
        """The ring of NOTICE records."""
        self.ports = NicPorts(settings.nic, table, self.notices, port)
        self.counted = NIC_COUNTERS.open(folder)
        """Updated ten times per second."""
        self._written = np.zeros(len(self._of_target), np.uint64)
        self._tick = loop.Timer(TICK_NS)
        self._announce()

    @property
    def late_kernels(self) -> int:
        """How many kernels were first called by a turn, and so loaded late."""
        return loop.late_kernels()

    @property
    def stores(self) -> dict[str, Store]:
        """The current store of each name."""
        return self._stores.current

    @property
    def queue_pairs(self) -> int:
        """Queue pairs that are connected."""
        return len(self.ports.peers)

    def open(self) -> None:
        """Compile, then bind: peers can connect from now on. Raises CaptureError."""
        warm_rdma()
        warm_progress([store.layout for store in self.stores.values()])
        self.ports.open()

    def notes(self) -> list[str]:
        """Lines for the log at startup."""
        return self.ports.notes()

    def turn(self) -> int:
        """Receive once, and answer; returns the number of datagrams."""
        now = time.monotonic_ns()
        count = self.ports.turn(now)
        if self._tick(now):
            self.tick(time.time_ns())
        return count

    def tick(self, now_ns: int) -> None:
        """Begin due epochs, update counters; `now_ns` since 1970."""
        self._note_writes()
        self._check_moves(time.monotonic_ns())
        self._stores.tick(now_ns)
        self.counted.collect(self)

    def run(self, stop: Stop) -> None:
        """Serve until `stop` is set; then end all connections."""
        loop.run(self, stop, PAUSE)

    def drain(self) -> None:
        """Process the datagrams that are still in the sockets."""
        loop.drain(self.turn, DRAIN_SECONDS)

    def close(self) -> None:
        """Disconnect the peers, wait briefly for their answers, and close."""
        until = time.monotonic() + DRAIN_SECONDS
        self.ports.disconnect()
        while self.ports.peers and time.monotonic() < until:
            if not self.turn():
                time.sleep(PAUSE.seconds)
        self.turn()
        self.tick(time.time_ns())
        self.ports.close()
        self._stores.close()

    def _announce(self) -> None:
        """Tell the ports which stores to announce on which RDMA-CM port."""
        self.ports.serve(SERVICE_PORT, self._all_stores)
        taken: dict[str, int] = {}
        for name, store in self.stores.items():
            primitive = store.layout.name
            first, number = PUBLISHED_PORTS.get(primitive), taken.get(primitive, 0)
            taken[primitive] = number + 1
            if first is None or (number and primitive != "append") or store.layout.nbytes >> 32:
                continue
            message = encode_published(self._region(name, 0))
            self.ports.serve(first + number, lambda connection, message=message: [message])  # type: ignore[misc]

    def _all_stores(self, connection: Connection) -> list[bytes]:
        """Hopscope's own advertisement, in messages of at most the path MTU."""
        primitives, advertised = load(), []
        messages: list[bytes] = []
        for number, (name, store) in enumerate(self.stores.items()):
            progress = primitives[store.layout.opcode].progress(store)
            region = self._region(name, self._regions[name].current)
            advertised.append(replace(region, epoch=store.epoch & 0xFFFFFFFF, progress=len(progress)))
            messages += encode_progress(number, progress, connection.path_mtu)
        return encode(advertised, connection.path_mtu) + messages

    def _region(self, name: str, which: int) -> RemoteRegion:
        row, params = self._regions[name].rows[which][0], self.stores[name].params.tolist()
        base, length, key, access = (int(row[field]) for field in ("base", "length", "key", "access"))
        return RemoteRegion(name, base, length, key, access, tuple(params))

    def _swap(self, number: int, store: Store) -> None:
        """Begin an epoch. Peers of our own service move to the store's other region; writes that they
        submitted before still reach the past epoch. For all other peers, a key means the current memory once
        every peer has moved.
        """
        self._note_writes()
        name = list(self.stores)[number]
        regions, now = self._regions[name], time.monotonic_ns()
        self._end_move(number, regions, now)
        regions.current = 1 - regions.current
        self._map(number, regions.current, store)
        regions.moving = self.ports.renew(SERVICE_PORT, self._renewal(number, store))
        regions.since_ns = regions.repeat_ns = now
        if not regions.moving:
            self._map(number, 1 - regions.current, store)

    def _renewal(self, number: int, store: Store) -> Renewal:
        regions = list(self._regions.values())[number]
        row = regions.rows[regions.current][0]
        return Renewal(number, store.epoch & 0xFFFFFFFF, int(row["base"]), int(row["key"]))

    def _map(self, number: int, which: int, store: Store) -> None:
        """Map a region of a store to this memory."""
        row = list(self._regions.values())[number].rows[which][0]
        self.ports.table.retarget(int(row["key"]), store.memory)
        self._of_target[int(row["target"])] = store

    def _is_moving(self, number: int) -> bool:
        return bool(list(self._regions.values())[number].moving)

    def _check_moves(self, now_ns: int) -> None:
        """Check which peers have moved, and repeat the announcement to the rest."""
        for number, (name, regions) in enumerate(self._regions.items()):
            if not regions.moving:
                continue
            store = self.stores[name]
            epoch = store.epoch & 0xFFFFFFFF
            regions.moving = [
                (endpoint, session)
                for endpoint, session in regions.moving
                if not session.lost and session.moved.get(number) != epoch
            ]
            if not regions.moving or now_ns - regions.since_ns >= MOVE_NS:
                self._end_move(number, regions, now_ns)
            elif now_ns - regions.repeat_ns >= REPEAT_NS:
                regions.repeat_ns = now_ns
                for endpoint, session in regions.moving:
                    endpoint.send(session, self._renewal(number, store).encode())

    def _end_move(self, number: int, regions: _Regions, now_ns: int) -> None:
        """Disconnect peers that have not moved, and map both regions to the current memory."""
        for endpoint, session in regions.moving:
            session.lost = session.lost or "it did not move to a new epoch"
            endpoint.disconnect(session, now_ns)
        regions.moving = []
        self._note_writes()
        self._map(number, 1 - regions.current, list(self.stores.values())[number])

    def _note_writes(self) -> None:
        """Record in each store how many operations were executed on it."""
        executed = self.ports.verbs_by_target[: len(self._of_target)]
        for store, count in zip(self._of_target, executed - self._written, strict=True):
            store.state[WRITES] += count
        self._written[:] = executed
