"""Values that a packet collects from switch to switch (INT-MD); the sink sees those of the whole path."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ...wire.observation import OBSERVATION
from ...wire.records import Records

MAX_WAITING = 1 << 20
"""Maximum kept observations of packets in flight; the oldest are dropped first."""


class PacketStacks:
    """Joins the observations of a packet across batches."""

    def __init__(self, hops: int) -> None:
        self.hops = hops
        """Maximum number of switches of a path; further ones are cut off."""
        self._waiting = np.zeros(0, OBSERVATION)

    def at_sinks(self, observations: Records) -> tuple[Records, npt.NDArray[np.uint32]]:
        """Observations at sinks, and the switches of the packet's path. Returns OBSERVATION [sinks] and
        uint32 [sinks, hops]; 0 after the path's end.
        """
        all_seen = np.concatenate([self._waiting, observations])
        sinks = all_seen[all_seen["is_sink"] == 1]
        packets, row = np.unique(sinks["packet"], return_inverse=True)
        done = np.isin(all_seen["packet"], packets)
        dropped = np.isin(all_seen["packet"], all_seen["packet"][all_seen["drop_reason"] > 0])
        on_path = all_seen[done & (all_seen["hop"] > 0) & (all_seen["hop"] <= self.hops)]
        stacks = np.zeros((len(packets), self.hops), np.uint32)
        at = np.searchsorted(packets, on_path["packet"]), on_path["hop"].astype(np.int64) - 1
        stacks[at] = on_path["switch"]
        self._waiting = all_seen[~done & ~dropped][-MAX_WAITING:]
        return sinks, stacks[row.reshape(-1)]
