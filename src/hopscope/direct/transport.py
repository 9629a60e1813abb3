"""Transports of memory operations: to memory of this process (here), over RoCEv2 (in `rdma.requester`)."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from ..rdma.notices import Notifier
from ..rdma.records import VerbBlock
from .stores.store import WRITES, Store

_FIRST = np.uint64(0)


class Transport(Protocol):
    """Executes verbs; their `target` is the index of one of the memories that it can reach."""

    def room(self) -> int:
        """Verbs that it accepts now; 0 if the connection is busy."""

    def submit(self, block: VerbBlock) -> None:
        """Accept all verbs of the block; the caller may clear it afterwards."""


class MemoryTransport:
    """Executes verbs at once, on stores that this process has mapped for writing."""

    def __init__(self, stores: Sequence[Store], notifier: Notifier | None = None) -> None:
        from ..base.kernels.jit import readonly
        from ..rdma import apply_kernel

        self._apply, self._readonly = apply_kernel.apply, readonly
        self._payload = readonly(np.zeros(0, np.uint8))
        self._notifier = notifier
        self.stores = list(stores)
        """Stores by target number; a new epoch replaces a store between two calls."""
        self._targets = [np.uint64(target) for target in range(len(self.stores))]
        self.out_of_bounds = 0
        """Verbs outside their store; only a defect causes them."""

    def room(self) -> int:
        """Memory always has room."""
        return 1 << 62

    def submit(self, block: VerbBlock) -> None:
        """Execute the verbs of every store, then publish notices of those with an immediate value."""
        if self._payload.base is not block.payload:  # the same block is submitted again and again
            self._payload = self._readonly(block.payload)
        if len(self.stores) == 1:
            self._execute(block, 0, len(block))
        else:
            counts = np.bincount(block.filled["target"])
            for target in np.flatnonzero(counts).tolist():
                self._execute(block, target, int(counts[target]))
        if self._notifier is not None:
            self._notifier.notify(block, time.time_ns())

    def _execute(self, block: VerbBlock, target: int, count: int) -> None:
        store, last = self.stores[target], np.uint64(len(block))
        self.out_of_bounds += self._apply(
            block.verbs, _FIRST, last, self._payload, store.memory, self._targets[target]
        )
        store.state[WRITES] += last if count == last else np.uint64(count)
