"""Postcards that reach one member of a cluster although another member owns their flow.

The hash of a postcard's 5-tuple gives its *slot*; a table says whether this member owns the flows of a slot.
A worker puts postcards of other members' flows into a report queue of its own, `worker-N.postcards`, from
which the `cluster` process sends them on (`cluster.exchange`), and marks them as held: this member's detector
only checks their sequence numbers, and writes events of their drops and congestion. Postcards from other
members are in the queue `cluster.postcards`, which the detector merges like the queue of one more worker;
there `spare` is 1, and only the paths count.

The hash is multilinear (`base.keyed_kernel`), with the published keys `hash_keys(SEED, KEYS)`, so that all
members compute the same hash. A sender that knows this can choose flows that one member owns.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from ...base.hash_keys import hash_keys
from ...memory.region import Region
from ...wire.dialect import Clock
from ...wire.records import HOP, REPORT, ReportBatch
from ..records import KEYS
from ..report_queue import QueueWriter

KIND, VERSION = "postcard-slots", 1
FILE_NAME = "cluster.slots"
SLOTS = 16_384
"""Number of slots. With 100 members, the member with the most flows has 1.2 times the mean."""
SEED = b"hopscope postcards 1"
ALIVE_NS = 2_000_000_000
"""If the `cluster` process has not renewed the table for this long, no postcard is given away."""


def given_path(folder: Path, worker: int) -> Path:
    """File of the queue of postcards that a worker gives away."""
    return folder / f"worker-{worker}.postcards"


def taken_path(folder: Path) -> Path:
    """File of the queue of postcards that come from other members."""
    return folder / "cluster.postcards"


def create_slots(folder: Path | None) -> Region:
    """Create the table in its initial state, before there is a cluster: this member owns all flows. Raises
    RegionError.
    """
    path = None if folder is None else folder / FILE_NAME
    region = Region.create(path, KIND, VERSION, {"alive": (np.int64, 8), "mine": (np.uint8, SLOTS)})
    region["mine"][:] = 1
    return region


def attach_slots(folder: Path, *, writable: bool = False) -> Region:
    """Map the table. Raises RegionError."""
    return Region.attach(folder / FILE_NAME, KIND, VERSION, writable)


def slot_keys() -> npt.NDArray[np.uint64]:
    """Keys of the hash that gives slots, uint64 [KEYS]."""
    return hash_keys(SEED, KEYS)


class Share:
    """A worker's end: gives away postcards of other members' flows."""

    def __init__(self, slots: Region, queue: QueueWriter) -> None:
        from ...base.kernels.jit import readonly
        from . import share_kernel

        self._kernel, self._readonly = share_kernel, readonly
        self._alive, self._mine = slots["alive"], slots["mine"]
        self._all = np.ones(SLOTS, np.uint8)
        self._now = self._all
        self._queue = queue
        self._keys = slot_keys()
        self._rows, self._hops = np.zeros(0, REPORT), np.zeros(0, HOP)
        self.give(ReportBatch(self._rows, self._hops), Clock(), 0)  # loads the kernel

    def look(self, now_ns: int) -> None:
        """Decide whether `give` uses the table: only if the `cluster` process has renewed it recently.

        `now_ns` is on the monotonic clock. Call this several times per second.
        """
        self._now = self._mine if now_ns - int(self._alive[0]) < ALIVE_NS else self._all

    def give(self, batch: ReportBatch, clock: Clock, now_ns: int) -> tuple[int, int]:
        """Put postcards of other members' flows into the queue, and mark them as held in the batch.

        Times of the batch are ns by `clock`; `now_ns` is on the monotonic clock. Returns the number of these
        postcards, and how many of them found no room.
        """
        if len(batch) > len(self._rows):
            self._rows, self._hops = np.zeros(2 * len(batch), REPORT), np.zeros(2 * len(batch), HOP)
        count = int(self._kernel.share_kernel(
            batch.reports, self._readonly(batch.hops), self._keys, self._readonly(self._now), self._rows,
            self._hops
        ))  # fmt: skip
        if not count:
            return 0, 0
        given = ReportBatch(self._rows[:count], self._hops[:count], postcards=True)
        return count, self._queue.put(given, clock, now_ns)
