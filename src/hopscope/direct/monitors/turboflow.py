"""TurboFlow: switches keep microflow records in a small table, and what is evicted is added up in memory."""

from __future__ import annotations

import numpy as np

from ...wire.observation import FLOW_BYTES
from ...wire.records import Records
from ..primitives.key_increment import KeyIncrementLayout, query
from ..stores.store import Layout, Store
from .groups import Groups, Numbering
from .monitor import Bytes, Monitor, Numbers, Reports, added, entering, mix64, packed, unpacked


class TurboFlow(Monitor):
    """Packets of flows where they enter. A table of `slots` a switch, direct-mapped by a hash of the flow:
    another flow takes the slot, and the one that was there is reported.
    """

    name = "turboflow"
    primitive = "key-increment"
    told = "packets of an evicted microflow record"
    sizes = "13 B key, counter"
    source = "TurboFlow; DTA Table 2, Key-Increment"

    def __init__(self, slots: int = 64, copies: int = 2) -> None:
        self.slots, self.copies = slots, copies
        self._slots = Numbering(8)  # (switch, slot)
        self._flows: dict[int, bytes] = {}
        self._packets: dict[int, int] = {}

    def layout(self, expected: int) -> Layout:
        """16 counters for each flow."""
        return KeyIncrementLayout(slots=16 * expected, copies=self.copies)

    def observe(self, observations: Records) -> Reports:
        """One report for every record that was evicted."""
        seen = entering(observations)
        high, low, rest = unpacked(seen["flow"], 8, 4, 1)
        slot = mix64(mix64(high) ^ (low << np.uint64(8) | rest)) % np.uint64(self.slots)
        numbers = self._slots.of(packed((seen["switch"], 4), (slot, 4)))
        groups = Groups(numbers)
        order = groups.order
        flows, begins = seen["flow"][order], groups.first[order]
        changes = begins.copy()
        changes[1:] |= (flows[1:] != flows[:-1]).any(axis=1)
        at = np.flatnonzero(changes)  # where a slot, or another flow in it, begins
        runs = np.diff(np.append(at, len(flows)))
        return self._evicted(numbers[order][at].tolist(), flows[at], runs.tolist())

    def flush(self) -> Reports:
        """The records that are in the tables."""
        flows = [self._flows[slot] for slot in self._packets]
        packets = list(self._packets.values())
        self._flows.clear()
        self._packets.clear()
        return self._told(flows, packets)

    def query(self, store: Store, flows: Bytes) -> Numbers:
        """Packets of flows (uint8 [flows, 13]), uint64 [flows]: never too few once records are evicted."""
        return query(store, flows, copies=self.copies).counter

    def _evicted(self, slots: list[int], flows: Bytes, packets: list[int]) -> Reports:
        out: list[bytes] = []
        counts: list[int] = []
        for slot, row, count in zip(slots, flows, packets, strict=True):
            flow, here = row.tobytes(), self._flows.get(slot)
            if here == flow:
                self._packets[slot] += count
                continue
            if here is not None:
                out.append(here)
                counts.append(self._packets[slot])
            self._flows[slot], self._packets[slot] = flow, count
        return self._told(out, counts)

    def _told(self, flows: list[bytes], packets: list[int]) -> Reports:
        keys = np.frombuffer(b"".join(flows), np.uint8).reshape(-1, FLOW_BYTES)
        return added(keys, np.array(packets, np.uint64), self.copies)
