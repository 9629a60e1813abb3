"""Path tracing with INT-MD: the sink writes the path of a flow's latest packet."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....wire.observation import FLOW_BYTES
from ....wire.records import Records
from ...stores.store import Store
from ..bases import HOPS, Values
from ..monitor import Bytes, MonitorAnswers, Reports, packed, unpacked, written
from ..packet_stacks import PacketStacks


class PathTracing(Values):
    """Switch ids in path order, 4 B each, 0 after the path's end."""

    name = "int-path-tracing"
    description = "switch ids of a flow's path, from INT sinks"
    sizes = "13 B key, 20 B data (5 hops of 4 B)"
    source = "INT-MD; DTA Table 2, row 1"
    key_bytes = FLOW_BYTES

    def __init__(self, hops: int = HOPS) -> None:
        self.hops = hops
        self._stacks = PacketStacks(hops)

    @property
    def data_bytes(self) -> int:
        """Bytes of a path."""
        return 4 * self.hops

    def observe(self, observations: Records) -> Reports:
        """One report per packet that reaches its sink."""
        sinks, stacks = self._stacks.at_sinks(observations)
        data = packed(*((stacks[:, hop], 4) for hop in range(self.hops)))
        return written(sinks["flow"], data)

    def decode(self, data: bytes) -> dict[str, Any] | None:
        """The switches of the path."""
        if len(data) != self.data_bytes:
            return None
        switches = np.frombuffer(data, ">u4").tolist()
        return {"path": [switch for switch in switches if switch]}

    def query(self, store: Store, flows: Bytes) -> MonitorAnswers:
        """Paths of flows (uint8 [flows, 13]): uint32 [flows, hops]."""
        answers = self.values(store, flows)
        switches = np.stack(unpacked(answers.data, *[4] * self.hops), axis=1).astype(np.uint32)
        return MonitorAnswers(answers.status, np.where(answers.found[:, None], switches, np.uint32(0)))
