"""Flowlet sizes, as in Marple: a flowlet is a run of a flow's packets without a pause."""

from __future__ import annotations

import numpy as np

from ....wire.observation import FLOW_BYTES
from ....wire.records import Records
from ...stores.store import Store
from ..bases import Events
from ..groups import Groups, Numbering, grown
from ..monitor import Bytes, Numbers, Reports, appended, entering, packed


class FlowletSizes(Events):
    """Flow and packets of every flowlet, at the switch where the flow enters; a pause of more than `gap_ns`
    ends one. List b holds flowlets of 2^b to 2^(b+1) - 1 packets, the last list all larger ones.
    """

    name = "marple-flowlets"
    description = "flow and packets of a flowlet; one list for each power of two"
    sizes = "17 B"
    source = "Marple; DTA 6.1 and Table 1"
    record = np.dtype([("flow", "u1", (FLOW_BYTES,)), ("packets", "<u4")])

    def __init__(self, gap_ns: int = 500_000, lists: int = 8) -> None:
        super().__init__(lists=lists)
        self.gap_ns = gap_ns
        self._flows = Numbering(FLOW_BYTES)
        self._last_ns = np.zeros(0, np.int64)
        self._packets = np.zeros(0, np.int64)  # in the current flowlet; 0: none

    def observe(self, observations: Records) -> Reports:
        """A report for every ended flowlet, when the next packet of its flow arrives."""
        seen = entering(observations)
        known = len(self._flows)
        numbers = self._flows.of(seen["flow"])
        self._last_ns = grown(self._last_ns, len(self._flows))
        self._packets = grown(self._packets, len(self._flows))
        groups = Groups(numbers)
        mine, last = groups.numbers, groups.last
        time_ns = seen["time_ns"].astype(np.int64)
        pause = time_ns - groups.previous(time_ns, self._last_ns[mine]) > self.gap_ns
        begins = pause & ~(groups.first & (numbers >= known))
        position = self._packets[numbers] + groups.sums(np.ones(len(seen)))
        # packets before the latest start of a flowlet in this batch
        began = groups.highest_before(np.where(begins, position - 1, 0), np.zeros(len(mine), np.int64))
        began_now = np.maximum(began, np.where(begins, position - 1, 0))
        ended = position[begins] - 1 - began[begins]
        self._last_ns[mine], self._packets[mine] = time_ns[last], (position - began_now)[last]
        return self._report(seen["flow"][begins], ended)

    def flush(self) -> Reports:
        """Report the current flowlets as if they had ended."""
        going = np.flatnonzero(self._packets)
        made = self._report(self._flows.keys[going], self._packets[going])
        self._flows = Numbering(FLOW_BYTES)
        self._packets = self._packets[:0]
        return made

    def query(self, store: Store) -> tuple[Bytes, Numbers]:
        """Flowlets in the lists: their flows, uint8 [flowlets, 13], and packets, uint64."""
        rows = np.concatenate([self.read(store, number) for number in range(self.lists)])
        return rows["flow"], rows["packets"].astype(np.uint64)

    def histogram(self, store: Store, flow: bytes) -> Numbers:
        """Number of a flow's flowlets in each list, uint64 [lists]."""
        counts = np.zeros(self.lists, np.uint64)
        for number in range(self.lists):
            flows = self.read(store, number)["flow"]
            counts[number] = (flows == np.frombuffer(flow, np.uint8)).all(axis=1).sum()
        return counts

    def _report(self, flows: Bytes, packets: np.ndarray[tuple[int], np.dtype[np.int64]]) -> Reports:
        which = np.minimum(np.frexp(packets.astype(np.float64))[1] - 1, self.lists - 1)
        return appended(which, packed(flows, (packets, 4)))
