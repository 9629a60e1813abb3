"""Trajectory sampling: all switches choose the same packets by a hash, and each reports where it saw them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ....base.hash_rows import mix64
from ....wire.records import Records
from ...primitives.postcarding import Paths, PostcardingLayout, query
from ...stores.store import Store
from ..monitor import Bytes, Monitor, Reports, packed, reports, sampled


class Trajectories(Monitor):
    """Samples one packet in `rate` by a hash of its invariant fields; another hash is the packet's label."""

    name = "trajectory-sampling"
    primitive = "postcarding"
    description = "switch ids on a sampled packet's path"
    sizes = "8 B key (label) and hop, 4 B data"
    source = "Trajectory Sampling; DTA Table 2, Postcarding"
    key_bytes = 8
    needs_values = True

    def __init__(self, rate: int = 16, hops: int = 5, copies: int = 2) -> None:
        self.rate, self.hops, self.copies = rate, hops, copies

    def layout(self, expected: int) -> PostcardingLayout:
        """Load 1/16 for `expected` sampled packets."""
        return PostcardingLayout(chunks=16 * expected, hops=self.hops, copies=self.copies)

    def sampled(self, packets: npt.ArrayLike) -> npt.NDArray[np.bool_]:
        """Which packet ids are chosen, bool [packets]."""
        return sampled(packets, self.rate)

    def labels(self, packets: npt.ArrayLike) -> Bytes:
        """Labels of packets by their ids, uint8 [packets, 8]."""
        return packed((mix64(packets), 8))

    def observe(self, observations: Records) -> Reports:
        """A postcard from every switch on a sampled packet's path."""
        passed = observations[(observations["drop_reason"] == 0) & self.sampled(observations["packet"])]
        return reports(
            PostcardingLayout.opcode, self.labels(passed["packet"]), packed((passed["switch"], 4)),
            hop=passed["hop"], path_length=passed["path_length"],
        )  # fmt: skip

    def query(self, store: Store, labels: Bytes, switches: npt.ArrayLike) -> Paths:
        """Paths of sampled packets, by label, over `switches`."""
        return query(store, labels, values=switches)
