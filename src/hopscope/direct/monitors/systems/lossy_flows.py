"""Lossy flows, as in Marple: lists of flows by their loss rate at a switch."""

from __future__ import annotations

import numpy as np

from ....wire.observation import FLOW_BYTES
from ....wire.records import Records
from ...stores.store import Store
from ..bases import Events
from ..groups import Groups, Numbering, grown
from ..monitor import Bytes, Reports, appended, packed


class LossyFlows(Events):
    """A flow is appended to list r when its loss rate at a switch enters range r.

    Range r, from 0, reaches from `bounds[r]` to the next bound; below the first there is none. Rates cover
    all packets so far, from the `min_packets`-th packet on.
    """

    name = "marple-lossy-flows"
    description = "flow whose loss rate entered a range; one list per range"
    sizes = "13 B"
    source = "Marple; DTA Table 2, Append, and 6.1"
    record = np.dtype([("flow", "u1", (FLOW_BYTES,))])

    def __init__(
        self, bounds: tuple[float, ...] = (0.01, 0.02, 0.05, 0.1, 0.2), min_packets: int = 20
    ) -> None:
        super().__init__(lists=len(bounds))
        self.bounds, self.min_packets = bounds, min_packets
        self._keys = Numbering(4 + FLOW_BYTES)
        self._packets = np.zeros(0, np.int64)
        self._lost = np.zeros(0, np.int64)
        self._range = np.zeros(0, np.int64)  # 0: none; else the list's number + 1

    def observe(self, observations: Records) -> Reports:
        """A report for every flow that enters a range."""
        numbers = self._keys.of(packed((observations["switch"], 4), observations["flow"]))
        for name in ("_packets", "_lost", "_range"):
            setattr(self, name, grown(getattr(self, name), len(self._keys)))
        groups = Groups(numbers)
        mine, last = groups.numbers, groups.last
        packets = self._packets[numbers] + groups.sums(np.ones(len(numbers)))
        lost = self._lost[numbers] + groups.sums(observations["drop_reason"] > 0)
        inside = np.searchsorted(np.array(self.bounds), lost / np.maximum(packets, 1), side="right")
        inside[packets < self.min_packets] = 0
        changed = (inside != groups.previous(inside, self._range[mine])) & (inside > 0)
        self._packets[mine], self._lost[mine], self._range[mine] = packets[last], lost[last], inside[last]
        return appended(inside[changed] - 1, observations["flow"][changed])

    def query(self, store: Store, number: int) -> Bytes:
        """Flows in the list of a range, uint8 [flows, 13], in order of time."""
        flows: Bytes = self.read(store, number)["flow"]
        return flows
