"""Coverage of INT-label by telemetry interval: of the ports with traffic, the share that was heard of (6.2).

A label belongs to the interval in which it was written, whenever the process looks; an interval is closed a
grace after its end. A label that is older than that, or from the future, is of a clock
that is not ours, or was long on its way: it belongs to the interval in which it arrived.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from ..wire.records import Records

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

STALL = 32
"""Intervals that may pass without a look, besides the grace; where more do, they are left out."""
GRACE_NS = 100_000_000
"""How long after its end an interval takes labels, at least; or one interval, where that is longer."""
ACTIVE_NS = 10_000_000_000
"""Without counters of a port's packets it counts as active while it was heard of in this time, or in as many
telemetry intervals as make it longer.
"""
ACTIVE_INTERVALS = 10


class Coverage:
    """Open intervals of a table's ports; closed ones go into its ring."""

    def __init__(self, telemetry_ns: int, ring: Records, closed: npt.NDArray[np.uint64], rows: int) -> None:
        """`ring` COVERAGE [intervals], `closed` uint64 [1]; `rows`: most ports."""
        self.telemetry_ns = telemetry_ns
        self._grace_ns = max(GRACE_NS, telemetry_ns)
        self._ring, self._closed = ring, closed
        self._open = STALL + -(-self._grace_ns // telemetry_ns)
        self._heard = np.zeros((self._open, rows), np.bool_)
        self._active = np.zeros((self._open, rows), np.bool_)
        self._sums = np.zeros((self._open, 2), np.int64)  # labels, packets
        self._unknown = np.zeros(self._open, np.bool_)  # whose packets were not counted by themselves
        self.left_out = 0
        """Intervals that were not told: nobody looked at their end."""
        self._first = self._sampled = 0
        self._looked_ns = 0
        self._last_heard: Ints = np.full(rows, -(2**63), np.int64)

    def take(self, rows: Ints, labels: Records, now_ns: int) -> None:
        """Count LABEL records of these rows, which arrived at `now_ns`."""
        self._begin(now_ns)
        times = labels["time_ns"]
        agrees = (times > self._looked_ns - self._grace_ns) & (times < now_ns + self._grace_ns)
        slots = np.where(agrees, np.minimum(times, now_ns), now_ns) // self.telemetry_ns
        taken = slots >= self._first  # all but those before the first whole interval
        slots, rows = slots[taken] % self._open, rows[taken]
        self._heard[slots, rows] = True
        firsts = slots[labels["position"][taken] == 0]
        self._sums[:, 0] += np.bincount(slots, minlength=self._open)
        self._sums[:, 1] += np.bincount(firsts, minlength=self._open)
        self._last_heard[rows] = now_ns

    def forget(self, rows: Ints) -> None:
        """These rows are other ports' from now on."""
        self._heard[:, rows] = self._active[:, rows] = False
        self._last_heard[rows] = -(2**63)

    def tick(self, now_ns: int, sample: Callable[[], Mask] | None, raised: int) -> None:
        """Close what is due; best called soon after every interval's end.

        `sample`: gives the ports with traffic since it was asked last, bool [rows]; None: nobody knows.
        `raised`: ports whose Reg2 is not 0.
        """
        now = self._begin(now_ns)
        if now > self._sampled:
            if sample is not None:
                self._active[(now - 1) % self._open] = sample()
                ended = np.arange(self._sampled, now) % self._open
                self._unknown[ended] = len(ended) > 1  # which of them the packets were of is not known
            self._sampled = now
        while (self._first + 1) * self.telemetry_ns + self._grace_ns <= now_ns:
            self._close(self._first, sample is not None, raised)
            self._first += 1
        self._looked_ns = now_ns

    def _begin(self, now_ns: int) -> int:
        """Number of the interval now; the one in which we began does not count: it is not whole."""
        now = now_ns // self.telemetry_ns
        if not self._first:
            self._first = self._sampled = now + 1
            self._looked_ns = now_ns
        if now - self._first >= self._open:  # nobody looked for so long: what is open is gone
            self._heard[:] = self._active[:] = False
            self._unknown[:] = False
            self.left_out += now - self._first
            self._sums[:] = 0
            self._first = self._sampled = now
        return now

    def _close(self, slot: int, counted: bool, raised: int) -> None:
        at = slot % self._open
        heard, end = self._heard[at], (slot + 1) * self.telemetry_ns
        if counted:
            active = self._active[at] | heard
        else:
            since = end - max(ACTIVE_NS, ACTIVE_INTERVALS * self.telemetry_ns)
            active = (self._last_heard > since) | heard
        if counted and self._unknown[at]:
            self.left_out += 1
        else:
            self._write(slot, active, heard, raised)
        self._heard[at] = self._active[at] = self._unknown[at] = False
        self._sums[at] = 0

    def _write(self, slot: int, active: Mask, heard: Mask, raised: int) -> None:
        number = int(self._closed[0])
        row = self._ring[number % len(self._ring)]
        row["begin_ns"] = slot * self.telemetry_ns
        row["active"], row["heard"] = np.count_nonzero(active), np.count_nonzero(heard)
        row["labels"], row["packets"] = self._sums[slot % self._open]
        row["raised"] = raised
        self._closed[0] = number + 1
