"""Appends paths with a high sum of latencies (`path_sum`) to an Append list of the same translator."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ...wire.dta.codec import Opcode
from ...wire.records import Records
from .findings import Findings
from .path_sum import PathSum, entries


class SlowPaths(Findings):
    """Observes the postcards of a translator, and appends slow paths to one of its lists."""

    def __init__(
        self, threshold: int, *, hops: int = 5, latency_bits: int = 32, list_number: int = 0
    ) -> None:
        super().__init__(f"slow paths of {hops} hops", Opcode.POSTCARDING, 6 + 4 * hops, list_number)
        self.sums = PathSum(threshold, self.found, hops=hops, latency_bits=latency_bits)
        self._hops = hops

    @property
    def observer(self) -> PathSum:
        """Sums latencies."""
        return self.sums

    def entries(self, found: Records, data_bytes: int) -> npt.NDArray[np.uint8]:
        """See `path_sum.entries`; the key has the remaining bytes."""
        return entries(found, data_bytes - 5 - 4 * self._hops, self._hops)
