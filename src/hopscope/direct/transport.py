"""Where memory operations go: into memory of this process, or over RoCEv2 (`rdma.requester`)."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from ..rdma.notices import Notifier
from ..rdma.records import VerbBlock
from .stores.store import WRITES, Store


class Transport(Protocol):
    """Takes the verbs of a block, whose `target` is an index into the memories that it reaches."""

    def room(self) -> int:
        """Verbs that it takes now; 0 where the connection is busy, and reports have to be refused."""

    def submit(self, block: VerbBlock) -> None:
        """Take all verbs of the block; it may be cleared afterwards."""


class MemoryTransport:
    """Verbs are executed at once, on stores that this process has mapped for writing."""

    def __init__(self, stores: Sequence[Store], notifier: Notifier | None = None) -> None:
        from ..base.jit import readonly
        from ..rdma import apply_kernel

        self._apply, self._readonly = apply_kernel.apply, readonly
        self._payload = readonly(np.zeros(0, np.uint8))
        self._notifier = notifier
        self.stores = list(stores)
        """By target number; a store may be replaced between two calls (a new epoch)."""
        self.refused = 0
        """Verbs outside their store; only a defect makes them."""

    def room(self) -> int:
        """Memory is never busy."""
        return 1 << 62

    def submit(self, block: VerbBlock) -> None:
        """Execute the verbs of every store; then tell of those with an immediate value."""
        if self._payload.base is not block.payload:  # the same block comes again and again
            self._payload = self._readonly(block.payload)
        if len(self.stores) == 1:
            self._execute(block, 0, len(block))
        else:
            counts = np.bincount(block.filled["target"])
            for target in np.flatnonzero(counts).tolist():
                self._execute(block, target, int(counts[target]))
        if self._notifier is not None:
            self._notifier.tell(block, time.time_ns())

    def _execute(self, block: VerbBlock, target: int, count: int) -> None:
        store = self.stores[target]
        self.refused += self._apply(
            block.verbs, np.uint64(0), np.uint64(len(block)), self._payload, store.memory, np.uint64(target)
        )
        store.state[WRITES] += np.uint64(count)
