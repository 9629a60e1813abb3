"""Two ends of a connection, joined by a channel that loses, reorders and duplicates packets; in memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from hopscope.rdma.memory_table import MemoryTable
from hopscope.rdma.notices import create_notices
from hopscope.rdma.queue_pair import QueuePairs
from hopscope.rdma.records import Service
from hopscope.rdma.requester import LossMode, PeerLink, Requester
from hopscope.rdma.responder import Responder
from hopscope.wire.records import Records
from hopscope.wire.roce.records import ROCE

NIC, SENDER = (0, 0xFFFF_7F000001), (0, 0xFFFF_7F000002)
Bytes = npt.NDArray[np.uint8]


def compact(rows: Records, payload: Bytes) -> tuple[Records, Bytes]:
    """A copy of packets with an arena of their own."""
    rows = rows.copy()
    lengths = rows["payload_bytes"].astype(np.int64)
    begins = np.cumsum(lengths) - lengths
    index = np.repeat(rows["payload_at"].astype(np.int64) - begins, lengths) + np.arange(lengths.sum())
    rows["payload_at"] = begins
    return rows, payload[index]


class Channel:
    """One direction: each packet is lost, doubled or late with a probability of `rate`."""

    def __init__(self, source: tuple[int, int], rate: float, rng: np.random.Generator) -> None:
        self.source, self.rate, self.rng = source, rate, rng
        self.late: tuple[Records, Bytes] = np.zeros(0, ROCE), np.zeros(0, np.uint8)

    def carry(self, rows: Records, payload: Bytes) -> tuple[Records, Bytes]:
        """What comes out while these go in: what was late before is among it."""
        rows, payload = compact(rows, payload)
        late, late_payload = self.late
        late["payload_at"] += len(payload)
        payload = np.concatenate([payload, late_payload])
        places = np.concatenate([np.arange(len(rows)), self.rng.integers(0, len(rows) + 1, len(late))])
        rows = np.concatenate([rows, late])
        fate = self.rng.random((3, len(rows)))
        times = np.where(fate[0] < self.rate, 0, 1 + (fate[1] < self.rate))
        moved = np.where(fate[2] < self.rate, self.rng.integers(0, 30, len(rows)), 0)
        wait = (moved > 20) & (np.arange(len(rows)) < len(rows) - len(late))
        self.late = compact(np.repeat(rows[wait], times[wait]), payload)
        order = np.argsort(places + moved, kind="stable")
        rows = np.repeat(rows[order], np.where(wait, 0, times)[order])
        rows["source_hi"], rows["source_lo"] = self.source
        return rows, np.append(payload, np.zeros(8, np.uint8))


class Pair:
    """A requester and a responder with memories of `sizes` bytes, and time that only this test makes pass."""

    def __init__(
        self, sizes: tuple[int, ...], *, mode: LossMode = LossMode.RELIABLE, rate: float = 0.0, seed: int = 1,
        psn: int = 0xFFFF00, mtu: int = 256, **settings: Any,
    ) -> None:  # fmt: skip
        rng = np.random.default_rng(seed)
        self.memories = [np.zeros(size, np.uint8) for size in sizes]
        self.table, self.pairs, self.notices = MemoryTable(), QueuePairs(), create_notices(None, 1 << 14)
        self.responder = Responder(self.table, self.pairs, self.notices)
        self.service = Service.UC if mode is LossMode.UNRELIABLE else Service.RC
        self.number = self.pairs.create(service=self.service)
        self.pairs.connect(self.number, SENDER, 0x77, psn, mtu=mtu)
        self.requester = Requester(PeerLink(0x77, NIC, self.number, psn, mtu), mode=mode, **settings)
        for memory in self.memories:
            row = self.table.add(memory)[0]
            self.requester.add_target(int(row["base"]), int(row["length"]), int(row["key"]))
        self.there, self.back = Channel(SENDER, rate, rng), Channel(NIC, rate, rng)
        self.now = 0

    def turn(self) -> None:
        """Send what may be sent, and take what comes back; with nothing on its way, a millisecond passes."""
        self.now += 100_000
        sent = self.requester.packets(self.now)
        if not sent and not len(self.there.late[0]) and not len(self.back.late[0]):
            self.now += 1_000_000
            return
        rows, payload = sent or (np.zeros(0, ROCE), np.zeros(0, np.uint8))
        rows, arena = self.there.carry(rows, payload)
        answers = self.responder.execute(rows, arena, self.now)
        answers, _ = self.back.carry(answers, np.zeros(0, np.uint8))
        self.requester.receive(answers, self.now)

    def drain(self, most: int = 100_000) -> None:
        """Until everything is acknowledged."""
        for _ in range(most):
            if self.requester.idle:
                return
            self.turn()
        raise AssertionError(f"not done: {self.requester.counts()}")
