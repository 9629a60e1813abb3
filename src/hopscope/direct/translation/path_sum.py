"""`SELECT flow, path WHERE SUM(latency) > T`, evaluated in the translator as postcards pass (DTA 7).

A cache like Postcarding's keeps the values of a key's hops. When all have arrived, their latencies are
summed, and sums above the threshold are reported, so the collector need not search for them.

Limits: a path is unanswered if another key takes its row, if a postcard is lost, or if the next one arrives
later than `idle_ns`; the first and the last case are counted. A second postcard of a hop replaces the first,
so keys should identify one packet (the paper uses the SYN): if postcards of several packets of a flow mix, so
do their sums.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from ...wire.dta.forms import Opcode
from ...wire.records import Records
from .findings import Findings

PATH_SUM = np.dtype(
    [
        ("sum", "<u8"),
        ("key", "u1", 64),
        ("values", "<u4", 16),  # values of hops 1 to `hops`, as reported
        ("key_bytes", "u1"),
        ("hops", "u1"),
        ("reserved", "u1", 6),
    ]
)
"""One path above the threshold, 144 bytes."""
CACHE_ROWS = 1 << 15


class PathSum:
    """Sums latencies over the paths of observed postcards; a `translator.ReportObserver`.

    `threshold`: T, in the unit of the latencies. `hops`: length of paths whose postcards do not state one.
    `latency_bits`: number of lower bits of a value that hold the latency; upper bits, such as a node, are
    passed through. `found` is called with PATH_SUM records [paths], which it may keep.
    """

    def __init__(
        self,
        threshold: int,
        found: Callable[[Records], object],
        *,
        hops: int = 5,
        latency_bits: int = 32,
        rows: int = CACHE_ROWS,
        idle_ns: int = 1_000_000_000,
    ) -> None:
        from ...base.kernels.jit import readonly
        from .path_sum_kernel import KEY_ROOM

        for name, value, low, high in (
            ("threshold", threshold, 0, (1 << 64) - 1),
            ("hops", hops, 1, 16),
            ("latency_bits", latency_bits, 1, 32),
            ("idle_ns", idle_ns, 1, (1 << 63) - 1),
        ):
            if not low <= value <= high:
                raise ValueError(f"{name} is {value}, expected {low} to {high}")
        if rows < 1 or rows & (rows - 1):
            raise ValueError(f"rows is {rows}, expected a power of two")
        self._found = found
        self._limits = readonly(np.array([threshold, hops, latency_bits, idle_ns], np.uint64))
        self._width = 1 << (2 + hops).bit_length()
        self._cache = np.zeros(rows * self._width, np.uint64)
        self._keys = np.zeros(rows * KEY_ROOM, np.uint8)
        self._counters = np.zeros(5, np.uint64)

    def observe(
        self, reports: Records, rows: npt.NDArray[np.uint32], arena: npt.NDArray[np.uint8], now_ns: int
    ) -> None:
        """Process `rows` of DTA records, whose keys and data are in `arena`; skips rejected ones."""
        from ...base.kernels.jit import readonly
        from .path_sum_kernel import observe

        out = np.zeros(len(rows), PATH_SUM)
        count = observe(
            reports, readonly(rows), readonly(arena), self._limits, np.uint64(now_ns), self._cache,
            self._keys, np.uint64(self._width), self._counters, out,
        )  # fmt: skip
        if count:
            self._found(out[: int(count)])

    @property
    def counters(self) -> dict[str, int]:
        """Paths above and below the threshold, unanswered paths; duplicate and skipped postcards.

        Skipped: invalid hop numbers, keys (above 64 bytes) or data.
        """
        names = ("above", "below", "unanswered", "duplicates", "skipped")
        return dict(zip(names, self._counters.tolist(), strict=True))


def entries(found: Records, key_bytes: int, hops: int) -> npt.NDArray[np.uint8]:
    """PATH_SUM records as entries of an Append list, uint8 [paths, key_bytes + 5 + 4 * hops], big-endian.

    Key (cut, or padded with zeros), sum (4 bytes, at most 0xFFFFFFFF), hops (1), values (0: no hop).
    """
    count = len(found)
    total = np.minimum(found["sum"], 0xFFFFFFFF).astype(">u4").view(np.uint8).reshape(count, 4)
    values = found["values"][:, :hops].astype(">u4").view(np.uint8).reshape(count, 4 * hops)
    columns = [found["key"][:, :key_bytes], total, found["hops"][:, None], values]
    return np.concatenate(columns, axis=1, dtype=np.uint8)


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
        """See the function `entries`; the key has the remaining bytes."""
        return entries(found, data_bytes - 5 - 4 * self._hops, self._hops)
