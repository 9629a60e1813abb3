"""Verbs to collectors: writers number the targets of all collectors through, a transport knows its own."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...rdma.records import PAYLOAD, VERB, Verb, VerbBlock
from ..transport import Transport
from .routes import Route


class Fanout:
    """The transports of all collectors as one."""

    def __init__(self, transports: Sequence[Transport | None], routes: Sequence[Route]) -> None:
        from ...base.jit import readonly
        from . import translator_kernel

        self._kernel = translator_kernel
        places = sorted({place for route in routes for place in route.at})
        if len(transports) == 1:  # one collector's numbers are everybody's: nothing has to be split
            places = [(0, target) for target in range(max((target for _, target in places), default=0) + 1)]
        self._number = {place: number for number, place in enumerate(places)}
        self._collector = readonly(np.array([collector for collector, _ in places], np.uint32))
        self._target = readonly(np.array([target for _, target in places], np.uint16))
        self._of_lane = [sorted({collector for collector, _ in route.at}) for route in routes]
        self._transports = list(transports)
        self.down = np.array([transport is None for transport in transports], np.uint8)
        """By collector: 1 where it is not connected."""
        self.any_down = bool(self.down.any())
        self.kinds = np.zeros(max(Verb) + 1, np.uint64)
        """Verbs given to transports, by `Verb`."""
        self.payload_bytes = 0
        """Bytes that these write."""
        self.undelivered = 0
        """Verbs of what had waited, for a collector that was not connected any more."""
        self._counts = np.zeros(len(transports), np.uint64)
        self._out = np.zeros(0, VERB)

    def continue_counters(self, other: Fanout) -> None:
        """Count on from what another has counted."""
        self.kinds += other.kinds
        self.payload_bytes += other.payload_bytes
        self.undelivered += other.undelivered

    @property
    def transports(self) -> tuple[Transport | None, ...]:
        """By collector; None: not connected."""
        return tuple(self._transports)

    def connect(self, collector: int, transport: Transport | None) -> None:
        """From now on this is the collector's transport; None: it is gone."""
        self._transports[collector] = transport
        self.down[collector] = transport is None
        self.any_down = bool(self.down.any())

    def targets_of(self, route: Route) -> list[int]:
        """The numbers under which a writer knows the places of a route."""
        return [self._number[place] for place in route.at]

    def room(self, lane: int) -> int:
        """Verbs that every connected collector of a lane takes now."""
        transports = [self._transports[collector] for collector in self._of_lane[lane]]
        return min((transport.room() for transport in transports if transport is not None), default=1 << 62)

    def submit(self, block: VerbBlock) -> None:
        """All verbs of a block to their collectors."""
        self.payload_bytes += int(block.fill[PAYLOAD])
        self._kernel.kinds(block.verbs, block.fill, self.kinds)
        if len(self._transports) == 1:
            self._hand(self._transports[0], block)
            return
        if len(self._out) < len(block.verbs):
            self._out = np.zeros(len(block.verbs), VERB)
        self._kernel.split(block.verbs, block.fill, self._collector, self._target, self._counts, self._out)
        at = 0
        for transport, count in zip(self._transports, self._counts.tolist(), strict=True):
            if count:
                fill = np.array([count, block.fill[PAYLOAD]], np.uint64)
                self._hand(transport, VerbBlock(self._out[at : at + count], block.payload, fill))
                at += count

    def _hand(self, transport: Transport | None, block: VerbBlock) -> None:
        if transport is None:
            self.undelivered += len(block)
        else:
            transport.submit(block)
