"""Silent ports: ports that have sent no label for too long."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..wire.records import Records
from .state import NEVER

Ints = npt.NDArray[np.int64]
_INF = 2**63 - 1
UNKNOWN, IDLE, BUSY = range(3)
"""Values of `traffic` in LABEL_ROW."""


@dataclass(frozen=True, slots=True)
class Changes:
    """Rows of the table whose port became silent, or is no longer silent."""

    silent: Ints
    ages: Ints
    """Time without a label of each row in `silent`, ns; time with traffic if it never sent a label."""
    heard: Ints
    """Rows that are no longer silent, since a label arrived."""
    idle: Ints
    """Rows that are no longer silent, since they had no traffic for as long as the limit."""


class Silence:
    """Finds ports that become silent, and ports that no longer are; the column `silent` remembers them.

    A port is expected to send a label from its first traffic after the last label, until it has had no
    traffic for as long as the limit. A port with unknown traffic is treated as if it always had traffic.
    """

    def __init__(self, rows: Records) -> None:
        """`rows`: LABEL_ROW [ports] of the table."""
        self._rows = rows
        self._waits_since: Ints = np.full(len(rows), _INF, np.int64)
        self._busy_ns: Ints = np.full(len(rows), NEVER, np.int64)

    def resume(self, now_ns: int) -> None:
        """Continue the state of a previous process: its silent ports are still expected to send a label."""
        silent = np.flatnonzero(self._rows["silent"])
        self._waits_since[silent] = _after(self._rows["received_ns"][silent])
        self._busy_ns[silent] = now_ns

    def tick(self, used: int, now_ns: int, limit_ns: int) -> Changes:
        """Check the first `used` rows; call it several times per telemetry interval."""
        rows, waits, busy = self._rows[:used], self._waits_since[:used], self._busy_ns[:used]
        received, traffic, was = rows["received_ns"], rows["traffic"], rows["silent"] > 0
        busy[traffic != IDLE] = now_ns
        heard = received >= waits
        idle = busy < now_ns - limit_ns
        over = was & (heard | idle)
        waits[heard | idle] = _INF
        known = received != NEVER
        begins = (waits == _INF) & ((traffic == BUSY) | ((traffic == UNKNOWN) & known))
        waits[begins] = np.where(traffic[begins] == BUSY, now_ns, _after(received[begins]))
        due = np.flatnonzero(~was & (waits < now_ns - limit_ns) & (traffic != IDLE))
        rows["silent"][over] = 0
        rows["silent"][due] = 1
        since = np.where(known[due], received[due], waits[due])
        return Changes(due, now_ns - since, np.flatnonzero(over & heard), np.flatnonzero(over & ~heard))

    def forget(self, rows: Ints) -> Ints:
        """Forget the state of these rows, which are given to other ports; returns those that are silent."""
        self._waits_since[rows] = _INF
        self._busy_ns[rows] = NEVER
        return rows[self._rows["silent"][rows] > 0]


def _after(received: Ints) -> Ints:
    """Start of the wait for the next label, for ports whose newest label arrived at `received`."""
    return np.maximum(received, -1) + 1
