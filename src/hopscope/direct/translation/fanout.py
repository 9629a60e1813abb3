"""Distributes verbs to collectors: writers use global target numbers, and each transport its own numbers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...rdma.records import PAYLOAD, VERB, Verb, VerbBlock
from ..transport import Transport
from .routes import Route


class Fanout:
    """Combines the transports of all collectors."""

    def __init__(self, transports: Sequence[Transport | None], routes: Sequence[Route]) -> None:
        from ...base.kernels.jit import readonly
        from . import translator_kernel

        self._kernel = translator_kernel
        places = sorted({place for route in routes for place in route.at})
        if len(transports) == 1:  # with one collector both numberings are the same: no split
            places = [(0, target) for target in range(max((target for _, target in places), default=0) + 1)]
        self._number = {place: number for number, place in enumerate(places)}
        self._collector = readonly(np.array([collector for collector, _ in places], np.uint32))
        self._target = readonly(np.array([target for _, target in places], np.uint16))
        self._of_lane = [sorted({collector for collector, _ in route.at}) for route in routes]
        self._transports = list(transports)
        self.down = np.array([transport is None for transport in transports], np.uint8)
        """uint8 [collectors]: 1 if not connected."""
        self.any_down = bool(self.down.any())
        self.kinds = np.zeros(max(Verb) + 1, np.uint64)
        """Submitted verbs, by `Verb`."""
        self.written_bytes = 0
        """Bytes written by these verbs, without atomics."""
        self.undelivered = 0
        """Verbs for collectors that had disconnected meanwhile."""
        self._counts = np.zeros(len(transports), np.uint64)
        self._out = np.zeros(0, VERB)

    def continue_counters(self, other: Fanout) -> None:
        """Take over the counters of another fan-out."""
        self.kinds += other.kinds
        self.written_bytes += other.written_bytes
        self.undelivered += other.undelivered

    @property
    def transports(self) -> tuple[Transport | None, ...]:
        """Transports by collector; None: not connected."""
        return tuple(self._transports)

    def connect(self, collector: int, transport: Transport | None) -> None:
        """Set a collector's transport; None: disconnected."""
        self._transports[collector] = transport
        self.down[collector] = transport is None
        self.any_down = bool(self.down.any())

    def targets_of(self, route: Route) -> list[int]:
        """Global target numbers of a route's targets."""
        return [self._number[place] for place in route.at]

    def room(self, lane: int) -> int:
        """Verbs that every connected collector of a lane accepts now."""
        if len(self._transports) == 1:  # it has all lanes
            only = self._transports[0]
            return 1 << 62 if only is None else only.room()
        those = [self._transports[collector] for collector in self._of_lane[lane]]
        return min((transport.room() for transport in those if transport is not None), default=1 << 62)

    def submit(self, block: VerbBlock) -> None:
        """Submit the verbs of a block to their collectors."""
        self.written_bytes += int(self._kernel.kinds(block.verbs, block.fill, self.kinds))
        if len(self._transports) == 1:
            self._submit_to(self._transports[0], block)
            return
        if len(self._out) < len(block.verbs):
            self._out = np.zeros(len(block.verbs), VERB)
        self._kernel.split(block.verbs, block.fill, self._collector, self._target, self._counts, self._out)
        at = 0
        for transport, count in zip(self._transports, self._counts.tolist(), strict=True):
            if count:
                fill = np.array([count, block.fill[PAYLOAD]], np.uint64)
                self._submit_to(transport, VerbBlock(self._out[at : at + count], block.payload, fill))
                at += count

    def _submit_to(self, transport: Transport | None, block: VerbBlock) -> None:
        if transport is None:
            self.undelivered += len(block)
        else:
            transport.submit(block)
