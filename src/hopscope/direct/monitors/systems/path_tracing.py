"""Path tracing with INT-MD: the sink writes the path of a flow's latest packet."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ....wire.observation import FLOW_BYTES
from ....wire.records import Records
from ...primitives.key_write import KeyWriteLayout, query
from ...stores.store import Store
from ..monitor import Bytes, Monitor, MonitorAnswers, Reports, packed, reports, unpacked
from ..packet_stacks import PacketStacks


class PathTracing(Monitor):
    """Switch ids in path order, 4 B each, 0 after the path's end."""

    name = "int-path-tracing"
    primitive = "key-write"
    description = "switch ids of a flow's path, from INT sinks"
    sizes = "13 B key, 20 B data (5 hops of 4 B)"
    source = "INT-MD; DTA Table 2, row 1"
    key_bytes = FLOW_BYTES

    def __init__(self, hops: int = 5, copies: int = 2) -> None:
        self.hops, self.copies = hops, copies
        self._stacks = PacketStacks(hops)

    def layout(self, expected: int) -> KeyWriteLayout:
        """Load 1/16."""
        return KeyWriteLayout(slots=16 * expected, data_bytes=4 * self.hops, copies=self.copies)

    def observe(self, observations: Records) -> Reports:
        """One report per packet that reaches its sink."""
        sinks, stacks = self._stacks.at_sinks(observations)
        data = packed(*((stacks[:, hop], 4) for hop in range(self.hops)))
        return reports(KeyWriteLayout.opcode, sinks["flow"], data, redundancy=self.copies)

    def decode(self, data: bytes) -> dict[str, Any] | None:
        """The switches of the path."""
        if len(data) != 4 * self.hops:
            return None
        switches = np.frombuffer(data, ">u4").tolist()
        return {"path": [switch for switch in switches if switch]}

    def query(self, store: Store, flows: Bytes) -> MonitorAnswers:
        """Paths of flows (uint8 [flows, 13]): uint32 [flows, hops]."""
        answers = query(store, flows, copies=self.copies)
        switches = np.stack(unpacked(answers.data, *[4] * self.hops), axis=1).astype(np.uint32)
        return MonitorAnswers(answers.status, _only(switches, answers.found))


def _only(values: npt.NDArray[np.uint32], found: npt.NDArray[np.bool_]) -> npt.NDArray[np.uint32]:
    return np.where(found[:, None], values, np.uint32(0))
