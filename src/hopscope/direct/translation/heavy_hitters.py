"""Keys with large sums, network-wide, found in the translator as counters pass (DTA 4, Extensibility).

A count-min sketch with conservative update (Estan and Varghese, "New Directions in Traffic Measurement and
Accounting", 2002) of ROWS rows of WIDTH counters sums what Key-Increment reports add to each key. A key whose
estimate reaches the threshold is found, once per period; after a period, all sums restart at 0. An estimate
is never too low, so no key that reaches the threshold is missed; it is too high by more than e / WIDTH of all
additions of the period with a probability of at most e^-ROWS.
"""

from __future__ import annotations

import secrets

import numpy as np
import numpy.typing as npt

from ...wire.dta.forms import Opcode
from ...wire.records import Records
from .findings import Findings

HEAVY_HITTER = np.dtype([("count", "<u8"), ("key", "u1", 64), ("key_bytes", "u1"), ("reserved", "u1", 7)])
"""One key above the threshold, 80 bytes."""
ROWS, WIDTH = 4, 1 << 16
"""Size of the sketch: 2 MiB."""


class HeavyHitters(Findings):
    """Observes the Key-Increment reports of a translator, and appends heavy keys to one of its lists.

    `threshold`: lowest sum within a period of `period_ns` that is reported. Keys longer than 64 bytes are not
    counted.
    """

    def __init__(self, threshold: int, *, period_ns: int, list_number: int = 0) -> None:
        """Raises ValueError for a threshold or a period below 1."""
        if threshold < 1 or period_ns < 1:
            raise ValueError(
                f"found a threshold of {threshold} in {period_ns} ns, expected at least 1 of both"
            )
        super().__init__("heavy hitters", Opcode.KEY_INCREMENT, 9, list_number)
        self._limits = np.array([threshold, secrets.randbits(64)], np.uint64)
        self._sketch = np.zeros(ROWS * WIDTH, np.uint64)
        self._period_ns, self._ends_ns = period_ns, 0

    @property
    def observer(self) -> HeavyHitters:
        """Itself."""
        return self

    def observe(
        self, reports: Records, rows: npt.NDArray[np.uint32], arena: npt.NDArray[np.uint8], now_ns: int
    ) -> None:
        """Process `rows` of DTA records, whose keys are in `arena`; skips rejected ones."""
        from ...base.kernels.jit import readonly
        from .heavy_hitters_kernel import observe

        if now_ns >= self._ends_ns:
            self._sketch[:] = 0
            self._ends_ns = now_ns + self._period_ns
        out = np.zeros(len(rows), HEAVY_HITTER)
        count = observe(
            readonly(reports), readonly(rows), readonly(arena), readonly(self._limits), self._sketch, out
        )
        if count:
            self.found(out[: int(count)])

    def entries(self, found: Records, data_bytes: int) -> npt.NDArray[np.uint8]:
        """Key (cut, or padded with zeros), then the estimate when it was found (8 bytes, big-endian)."""
        room = data_bytes - 8
        keys = np.zeros((len(found), room), np.uint8)
        width = min(room, 64)
        keys[:, :width] = found["key"][:, :width]
        counts = found["count"].astype(">u8").view(np.uint8).reshape(len(found), 8)
        return np.concatenate([keys, counts], axis=1)
