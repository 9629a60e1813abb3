"""Coverage of INT-label by telemetry interval: the share of the ports with traffic that sent a label (6.2).

A label belongs to the interval in which it was written; an interval is closed a grace time after its end.
The time of a label that is older, or in the future, is due to another clock or a long delay; such a label
belongs to the interval in which it arrived.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from ..wire.records import Records

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

MAX_STALL = 32
"""Intervals without a tick that are still closed, in addition to the grace time; more are skipped."""
GRACE_NS = 100_000_000
"""Grace time: an interval accepts labels for this long after its end, or for one interval if longer."""
ACTIVE_NS = 10_000_000_000
"""Without packet counters, a port counts as active if it has sent a label in this time, or in
ACTIVE_INTERVALS telemetry intervals if these are longer.
"""
ACTIVE_INTERVALS = 10


class Coverage:
    """Open intervals of the ports of a table; closed intervals are written to its ring."""

    def __init__(self, telemetry_ns: int, ring: Records, closed: npt.NDArray[np.uint64], rows: int) -> None:
        """`ring`: COVERAGE [intervals]; `closed`: uint64 [1]; `rows`: maximum number of ports."""
        self.telemetry_ns = telemetry_ns
        self._grace_ns = max(GRACE_NS, telemetry_ns)
        self._ring, self._closed = ring, closed
        self._open = MAX_STALL + -(-self._grace_ns // telemetry_ns)
        self._covered = np.zeros((self._open, rows), np.bool_)
        self._active = np.zeros((self._open, rows), np.bool_)
        self._sums = np.zeros((self._open, 2), np.int64)  # labels, packets
        self._ambiguous = np.zeros(self._open, np.bool_)  # packets counted over several intervals
        self.skipped = 0
        """Number of intervals without a result, since there was no tick at their end."""
        self._first = self._sampled = 0
        self._looked_ns = 0
        self._last_label_ns: Ints = np.full(rows, -(2**63), np.int64)

    def take(self, rows: Ints, labels: Records, now_ns: int) -> None:
        """Count LABEL records of these rows, which arrived at `now_ns`."""
        self._begin(now_ns)
        times = labels["time_ns"]
        agrees = (times > self._looked_ns - self._grace_ns) & (times < now_ns + self._grace_ns)
        slots = np.where(agrees, np.minimum(times, now_ns), now_ns) // self.telemetry_ns
        taken = slots >= self._first  # all except those before the first complete interval
        slots, rows = slots[taken] % self._open, rows[taken]
        self._covered[slots, rows] = True
        firsts = slots[labels["position"][taken] == 0]
        self._sums[:, 0] += np.bincount(slots, minlength=self._open)
        self._sums[:, 1] += np.bincount(firsts, minlength=self._open)
        self._last_label_ns[rows] = now_ns

    def forget(self, rows: Ints) -> None:
        """Forget the state of these rows, which are given to other ports."""
        self._covered[:, rows] = self._active[:, rows] = False
        self._last_label_ns[rows] = -(2**63)

    @property
    def closed(self) -> int:
        """Intervals written to the ring so far."""
        return int(self._closed[0])

    def since(self, number: int) -> tuple[Records, int]:
        """COVERAGE of the intervals from `number` on that are still in the ring, and the next number."""
        numbers = np.arange(max(number, self.closed - len(self._ring)), self.closed)
        return self._ring[numbers % len(self._ring)], self.closed

    def tick(self, now_ns: int, sample: Callable[[], Mask] | None, raised: int) -> None:
        """Close the intervals that are due; call it soon after each interval's end.

        `sample` returns the ports with traffic since its last call, bool [rows]; None: traffic is unknown.
        `raised`: number of ports whose Reg2 is not 0.
        """
        now = self._begin(now_ns)
        if now > self._sampled:
            if sample is not None:
                self._active[(now - 1) % self._open] = sample()
                ended = np.arange(self._sampled, now) % self._open
                self._ambiguous[ended] = len(ended) > 1  # the packets may belong to any of them
            self._sampled = now
        while (self._first + 1) * self.telemetry_ns + self._grace_ns <= now_ns:
            self._close(self._first, sample is not None, raised)
            self._first += 1
        self._looked_ns = now_ns

    def _begin(self, now_ns: int) -> int:
        """Number of the current interval; the first one is not counted, since it is incomplete."""
        now = now_ns // self.telemetry_ns
        if not self._first:
            self._first = self._sampled = now + 1
            self._looked_ns = now_ns
        if now - self._first >= self._open:  # no tick for too long: open intervals are discarded
            self._covered[:] = self._active[:] = False
            self._ambiguous[:] = False
            self.skipped += now - self._first
            self._sums[:] = 0
            self._first = self._sampled = now
        return now

    def _close(self, slot: int, counted: bool, raised: int) -> None:
        at = slot % self._open
        covered, end = self._covered[at], (slot + 1) * self.telemetry_ns
        if counted:
            active = self._active[at] | covered
        else:
            since = end - max(ACTIVE_NS, ACTIVE_INTERVALS * self.telemetry_ns)
            active = (self._last_label_ns > since) | covered
        if counted and self._ambiguous[at]:
            self.skipped += 1
        else:
            self._write(slot, active, covered, raised)
        self._covered[at] = self._active[at] = self._ambiguous[at] = False
        self._sums[at] = 0

    def _write(self, slot: int, active: Mask, covered: Mask, raised: int) -> None:
        number = int(self._closed[0])
        row = self._ring[number % len(self._ring)]
        row["begin_ns"] = slot * self.telemetry_ns
        row["active"], row["reported"] = np.count_nonzero(active), np.count_nonzero(covered)
        row["labels"], row["packets"] = self._sums[slot % self._open]
        row["raised"] = raised
        self._closed[0] = number + 1
