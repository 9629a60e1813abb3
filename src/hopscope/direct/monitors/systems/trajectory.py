"""Trajectory sampling: all switches choose the same packets by a hash, and each reports where it saw them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ....base.hash_rows import mix64
from ....wire.records import Records
from ..bases import Postcarding
from ..monitor import Bytes, Reports, packed, sampled


class Trajectories(Postcarding):
    """Samples one packet in `rate` by a hash of its invariant fields; another hash is the packet's label."""

    name = "trajectory-sampling"
    description = "switch ids on a sampled packet's path"
    sizes = "8 B key (label) and hop, 4 B data"
    source = "Trajectory Sampling; DTA Table 2, Postcarding"
    key_bytes = 8

    def __init__(self, rate: int = 16) -> None:
        self.rate = rate

    def sampled(self, packets: npt.ArrayLike) -> npt.NDArray[np.bool_]:
        """Which packet ids are chosen, bool [packets]."""
        return sampled(packets, self.rate)

    def labels(self, packets: npt.ArrayLike) -> Bytes:
        """Labels of packets by their ids, uint8 [packets, 8]."""
        return packed((mix64(packets), 8))

    def observe(self, observations: Records) -> Reports:
        """A postcard from every switch on a sampled packet's path."""
        passed = observations[(observations["drop_reason"] == 0) & self.sampled(observations["packet"])]
        return self.postcards(self.labels(passed["packet"]), passed["switch"], passed)
