"""The software NIC as a process: RoCEv2 from UDP port 4791 into stores of this machine.

Whoever is on the list of allowed addresses connects by RDMA-CM, is told of the stores by SEND, and writes to
them; one thread does everything, a turn after the other, and a turn never waits.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np

from ...base.stop import Stop
from ...capture.udp.datagram import DatagramSocket
from ...direct.stores.epoch_keeper import EpochKeeper
from ...direct.stores.folder import open_stores
from ...direct.stores.spec import StoreSpec
from ...direct.stores.store import WRITES, Store
from ...rdma.advertisement import RemoteRegion, encode, encode_published
from ...rdma.connection import Connection
from ...rdma.counters import NIC_FILE, NIC_INDEX, create_nic_counters
from ...rdma.endpoint import Endpoint
from ...rdma.memory_table import MemoryTable
from ...rdma.notices import NOTICES_FILE, create_notices
from ...settings.direct import DirectSettings
from ...wire.layout import ROCE_PORT
from ...wire.reasons import RoceReason
from .warm import warm_rdma

SERVICE_PORT = 1330
"""RDMA-CM port on which all stores are told of, in our own form."""
PUBLISHED_PORTS = {"postcarding": 1336, "key-write": 1337, "append": 1338}
"""Ports of the published collector: the first store of a primitive; of Append the n-th at 1338 + n."""
LOOPBACK = ("127.0.0.0/8", "::1/128")
TICK_NS = 100_000_000
NAP_SECONDS = 0.0002
"""Sleep after a turn that found little: the peer waits for its acknowledgments."""
FEW = 16
DRAIN_SECONDS = 2.0


class NicProcess:
    """Stores in a folder, their epochs, and the endpoint that lets others write to them.

    `folder`: of the stores, `DATA/direct`. Raises StoreError, RegionError and CaptureError.
    """

    def __init__(
        self, settings: DirectSettings, folder: Path, specs: Iterable[StoreSpec], *, port: int = ROCE_PORT
    ) -> None:
        nic = settings.nic
        self.stores = open_stores(folder, specs)
        table = MemoryTable()
        self._rows = {name: table.add(store.memory)[0] for name, store in self.stores.items()}
        self.notices = create_notices(folder / NOTICES_FILE)
        """The ring of NOTICE records."""
        self.endpoint = Endpoint(nic.host, table=table, notices=self.notices, any_ip_id=nic.any_ip_id)
        self.counters = create_nic_counters(folder / NIC_FILE)
        """uint64 [NIC_COUNTERS], brought up to date ten times a second."""
        self.socket = DatagramSocket(nic.host, port, allow=nic.allow or LOOPBACK)
        self._keepers = [
            EpochKeeper(
                folder, name, store, self._swapped(name),
                interval_ns=int(settings.epoch_seconds * 1e9), keep=settings.keep_epochs,
            )
            for name, store in self.stores.items()
        ]  # fmt: skip
        self._written = np.zeros(len(self.stores), np.uint64)
        self._due_ns = 0
        self._serve()

    def open(self) -> None:
        """Compile, then bind: connections are taken from now on. Raises CaptureError."""
        warm_rdma()
        self.socket.open()

    def notes(self) -> list[str]:
        """What the user should know at the start."""
        return self.socket.notes()

    def turn(self) -> int:
        """Take what has come, once, and answer; how many datagrams."""
        batch = self.socket.receive()
        now, count = time.monotonic_ns(), 0
        if batch is not None:
            count = len(batch)
            self.endpoint.receive(batch, now, time.time_ns())
        for frames in self.endpoint.frames(now):
            self.socket.send(frames)
        if now >= self._due_ns:
            self._due_ns = now + TICK_NS
            self.tick(time.time_ns())
        return count

    def tick(self, now_ns: int) -> None:
        """Epochs and counters; `now_ns` since 1970."""
        self._note_writes()
        for keeper in self._keepers:
            keeper.tick(now_ns)
        self._count()

    def run(self, stop: Stop) -> None:
        """Serve until `stop` is set; then end all connections."""
        try:
            while not stop.is_set():
                if self.turn() < FEW:
                    time.sleep(NAP_SECONDS)
        finally:
            self.close()

    def close(self) -> None:
        """Take what is in the socket, tell the peers, and wait for them a moment; then close."""
        until = time.monotonic() + DRAIN_SECONDS
        while self.turn() and time.monotonic() < until:
            pass
        for session in list(self.endpoint.sessions.values()):
            self.endpoint.disconnect(session, time.monotonic_ns())
        while self.endpoint.sessions and time.monotonic() < until:
            if not self.turn():
                time.sleep(NAP_SECONDS)
        self.turn()
        self.tick(time.time_ns())
        self.socket.close()
        for keeper in self._keepers:
            keeper.close()

    def _serve(self) -> None:
        """Which stores are told of on which port."""
        self.endpoint.serve(SERVICE_PORT, self._all_stores)
        taken: dict[str, int] = {}
        for name, store in self.stores.items():
            primitive = store.layout.name
            first, number = PUBLISHED_PORTS.get(primitive), taken.get(primitive, 0)
            taken[primitive] = number + 1
            if first is None or (number and primitive != "append") or store.layout.nbytes >> 32:
                continue
            message = encode_published(self._region(name))
            self.endpoint.serve(first + number, lambda connection, message=message: [message])  # type: ignore[misc]

    def _all_stores(self, connection: Connection) -> list[bytes]:
        """Our own advertisement, as the path MTU of the connection takes it."""
        return encode([self._region(name) for name in self.stores], connection.path_mtu)

    def _region(self, name: str) -> RemoteRegion:
        row, params = self._rows[name], self.stores[name].params.tolist()
        base, length, key, access = (int(row[field]) for field in ("base", "length", "key", "access"))
        return RemoteRegion(name, base, length, key, access, tuple(params))

    def _swapped(self, name: str) -> Callable[[Store], None]:
        """What an epoch's beginning changes: the same key means the new memory."""

        def swapped(store: Store) -> None:
            self._note_writes()
            self.endpoint.table.retarget(int(self._rows[name]["key"]), store.memory)
            self.stores[name] = store

        return swapped

    def _note_writes(self) -> None:
        """Tell each store how many operations were executed on it."""
        executed = self.endpoint.responder.verbs_by_target[: len(self.stores)]
        for store, count in zip(self.stores.values(), executed - self._written, strict=True):
            store.state[WRITES] += count
        self._written[:] = executed

    def _count(self) -> None:
        """Bring the counters up to date."""
        endpoint, managed = self.endpoint, self.endpoint.connections.counters
        values = {
            "nic_packets_total": endpoint.packets,
            "nic_executed_total": endpoint.responder.counts[RoceReason.NONE],
            "nic_verbs_total": endpoint.responder.verbs_executed,
            "nic_answers_total": endpoint.answers,
            "nic_notices_total": endpoint.responder.notices_written,
            "nic_congestion_notifications_total": endpoint.notifications,
            "nic_connections_total": managed.established,
            "nic_rejected_connections_total": managed.rejected,
            "nic_queue_pairs": len(endpoint.sessions),
        }
        for reason in RoceReason:
            if reason:
                values[f"nic_rejected_total.{reason.label}"] = endpoint.responder.counts[reason]
        counts = self.socket.counts()
        values["nic_denied_total"] = counts["denied_frames_total"]
        values["nic_kernel_drops_total"] = counts["kernel_drops_total"]
        for key, value in values.items():
            self.counters[NIC_INDEX[key]] = value
