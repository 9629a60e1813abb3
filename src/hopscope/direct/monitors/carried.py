"""What packets carry from switch to switch: the sink has the values of all switches on the way (INT-MD)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ...wire.observation import OBSERVATION
from ...wire.records import Records

MOST = 1 << 20
"""Observations of packets underway that are kept; the oldest are forgotten first."""


class Carried:
    """Joins observations of one packet, over batches."""

    def __init__(self, hops: int) -> None:
        self.hops = hops
        """Switches on a path that are kept; later ones are cut off."""
        self._waiting = np.zeros(0, OBSERVATION)

    def at_sinks(self, observations: Records, field: str) -> tuple[Records, npt.NDArray[np.uint32]]:
        """Observations of sinks, and what `field` was at every switch on the packet's way.

        Returns OBSERVATION [sinks] and uint32 [sinks, hops]; 0 behind the path's end.
        """
        every = np.concatenate([self._waiting, observations])
        sinks = every[every["is_sink"] == 1]
        packets, row = np.unique(sinks["packet"], return_inverse=True)
        done = np.isin(every["packet"], packets)
        over = np.isin(every["packet"], every["packet"][every["drop_reason"] > 0])
        mine = every[done & (every["hop"] > 0) & (every["hop"] <= self.hops)]
        stacks = np.zeros((len(packets), self.hops), np.uint32)
        stacks[np.searchsorted(packets, mine["packet"]), mine["hop"].astype(np.int64) - 1] = mine[field]
        self._waiting = every[~done & ~over][-MOST:]
        return sinks, stacks[row.reshape(-1)]
