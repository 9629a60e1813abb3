"""TurboFlow: switches keep microflow records in a small table; evicted records are added up in memory."""

from __future__ import annotations

import numpy as np

from ....wire.observation import FLOW_BYTES
from ....wire.records import Records
from ..bases import Counters
from ..groups import Groups, Numbering
from ..monitor import Bytes, Reports, added, entering, flow_hash, packed


class TurboFlow(Counters):
    """Counts packets at the switch where a flow enters. Each switch has a table of `slots`, direct-mapped by
    a hash of the flow; a flow that takes the slot of another evicts that record, which is then reported.
    """

    name = "turboflow"
    description = "packets of an evicted microflow record"
    sizes = "13 B key, counter"
    source = "TurboFlow; DTA Table 2, Key-Increment"
    key_bytes = FLOW_BYTES
    record = np.dtype([("packets", "<u8")])

    def __init__(self, slots: int = 64) -> None:
        self.slots = slots
        self._slots = Numbering(8)  # (switch, slot)
        self._flows: dict[int, bytes] = {}
        self._packets: dict[int, int] = {}

    def observe(self, observations: Records) -> Reports:
        """One report per evicted record."""
        seen = entering(observations)
        slot = flow_hash(seen["flow"]) % np.uint64(self.slots)
        numbers = self._slots.of(packed((seen["switch"], 4), (slot, 4)))
        groups = Groups(numbers)
        order = groups.order
        flows, begins = seen["flow"][order], groups.first[order]
        changes = begins.copy()
        changes[1:] |= (flows[1:] != flows[:-1]).any(axis=1)
        at = np.flatnonzero(changes)  # starts of a slot, or of another flow in it
        runs = np.diff(np.append(at, len(flows)))
        return self._evicted(numbers[order][at].tolist(), flows[at], runs.tolist())

    def flush(self) -> Reports:
        """Report the records in the tables."""
        flows = [self._flows[slot] for slot in self._packets]
        packets = list(self._packets.values())
        self._flows.clear()
        self._packets.clear()
        return self._report(flows, packets)

    def _evicted(self, slots: list[int], flows: Bytes, packets: list[int]) -> Reports:
        out: list[bytes] = []
        counts: list[int] = []
        for slot, row, count in zip(slots, flows, packets, strict=True):
            flow, resident = row.tobytes(), self._flows.get(slot)
            if resident == flow:
                self._packets[slot] += count
                continue
            if resident is not None:
                out.append(resident)
                counts.append(self._packets[slot])
            self._flows[slot], self._packets[slot] = flow, count
        return self._report(out, counts)

    def _report(self, flows: list[bytes], packets: list[int]) -> Reports:
        keys = np.frombuffer(b"".join(flows), np.uint8).reshape(-1, FLOW_BYTES)
        return added(keys, np.array(packets, np.uint64))
