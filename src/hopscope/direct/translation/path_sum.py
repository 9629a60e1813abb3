"""`SELECT flow, path WHERE SUM(latency) > T`, answered at the translator as postcards pass (DTA 7).

A cache like Postcarding's keeps the values of a key's hops. When all are there, their latencies are summed,
and what is above the threshold is told: the collector need not look for it.

What it cannot say: a path whose row another key takes, whose postcards are lost, or whose next one comes
later than `idle_ns` is not answered; the first and the last are counted when it happens. A second postcard of
a hop replaces the first, so keys should be those of one packet (the paper takes the SYN): packets of one flow
whose postcards mix give a sum of both.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from ...wire.records import Records

PATH_SUM = np.dtype(
    [
        ("sum", "<u8"),
        ("key", "u1", 64),
        ("values", "<u4", 16),  # of hops 1 to `hops`, as they were reported
        ("key_bytes", "u1"),
        ("hops", "u1"),
        ("reserved", "u1", 6),
    ]
)
"""One path above the threshold, 144 bytes."""
CACHE_ROWS = 1 << 15


class PathSum:
    """Sums latencies over paths, for the postcards that it is shown; a `translator.Watcher`.

    `threshold`: T, in the unit of the latencies. `hops`: those of a path whose length no postcard tells.
    `latency_bits`: the lower bits of a value that are the latency; what is above them, such as a node, only
    passes through. `found` gets PATH_SUM records [paths], which it may keep.
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
        from ...base.jit import readonly
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

    def see(
        self, reports: Records, rows: npt.NDArray[np.uint32], arena: npt.NDArray[np.uint8], now_ns: int
    ) -> None:
        """Look at `rows` of DTA records, whose keys and data are in `arena`; refused ones are left out."""
        from ...base.jit import readonly
        from .path_sum_kernel import see

        out = np.zeros(len(rows), PATH_SUM)
        count = see(
            reports, readonly(rows), readonly(arena), self._limits, np.uint64(now_ns), self._cache,
            self._keys, np.uint64(self._width), self._counters, out,
        )  # fmt: skip
        if count:
            self._found(out[: int(count)])

    @property
    def counters(self) -> dict[str, int]:
        """Paths above the threshold, below it, unanswered; postcards of a hop that had one, and skipped ones.

        Skipped: hop numbers, keys (above 64 bytes) and data that do not fit.
        """
        names = ("above", "below", "unanswered", "duplicates", "skipped")
        return dict(zip(names, self._counters.tolist(), strict=True))


def entries(found: Records, key_bytes: int, hops: int) -> npt.NDArray[np.uint8]:
    """PATH_SUM records as entries of an Append list, uint8 [paths, key_bytes + 5 + 4 * hops], big-endian.

    Key (cut, or with zeros behind it), sum (4 bytes, at most 0xFFFFFFFF), hops (1), values (0: no hop).
    """
    count = len(found)
    total = np.minimum(found["sum"], 0xFFFFFFFF).astype(">u4").view(np.uint8).reshape(count, 4)
    values = found["values"][:, :hops].astype(">u4").view(np.uint8).reshape(count, 4 * hops)
    return np.concatenate([found["key"][:, :key_bytes], total, found["hops"][:, None], values], axis=1)
