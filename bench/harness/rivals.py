"""What DTA's reports are compared with, as cases: the same frames, the same parser, another store."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from harness.direct import BATCH, BATCHES, Collecting, Feed, touch
from harness.rivals_kernel import cuckoo, indexed_log, stores
from hopscope.base.kernels.jit import readonly
from hopscope.memory.region import Region
from hopscope.wire.records import Records


def _memory(nbytes: int) -> npt.NDArray[np.uint8]:
    """Private memory on huge pages, as a store's is."""
    memory: npt.NDArray[np.uint8] = Region.create(None, "bench", 1, {"memory": (np.uint8, nbytes)})["memory"]
    touch(memory)
    return memory


def cuckoo_table(feed: Feed, nbytes: int) -> Collecting:
    """A cuckoo hash table, as DTA 2.1 compares with."""
    table = _memory(nbytes).view(np.uint64)
    table[:] = np.uint64(0xFFFFFFFFFFFFFFFF)
    counts = np.zeros(2, np.uint64)

    def take(reports: Records, arena: npt.NDArray[np.uint8]) -> None:
        cuckoo(readonly(reports), readonly(arena), table, counts)

    return Collecting(feed, take, lambda: (float(counts[0]), float(counts[0]) * 8))


def log_with_index(feed: Feed, nbytes: int) -> Collecting:
    """A log with an index by key: half of the memory each."""
    log = _memory(nbytes // 2).view(np.uint64)
    heads = _memory(nbytes // 2).view(np.uint32)
    counts = np.zeros(2, np.uint64)

    def take(reports: Records, arena: npt.NDArray[np.uint8]) -> None:
        indexed_log(readonly(reports), readonly(arena), log, heads, counts)

    return Collecting(feed, take, lambda: (float(counts[0]), float(counts[1]) * 20))


class StoreLoop:
    """Stores of 8 bytes at random places: no frames, no reports."""

    unit = "stores/s"

    def __init__(self, nbytes: int) -> None:
        self._memory = _memory(nbytes)
        self._done = 0

    def renew(self) -> None:
        """Other places."""
        self._done += BATCH * BATCHES

    def run(self) -> int:
        """As many as a round has reports."""
        stores(self._memory, np.uint64(self._done), np.uint64(BATCH * BATCHES))
        return BATCH * BATCHES

    def writes(self) -> None:
        """Told by its name."""
        return
