"""INT-label's controller: finds ports with too few labels, and sets how often they label (3.2 and 5).

The same code runs in simulated time and on a running fabric; only the database and the ageing database
differ. It works on rows of its database, one per port; `turn` returns the rows whose register Reg2 must
change.
"""

from __future__ import annotations

from typing import Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from ..settings.label import AdaptiveSettings, LabellingSettings
from ..wire.records import Records
from .state import NEVER

Ints = npt.NDArray[np.int64]
Number = TypeVar("Number", bound=np.generic)
Values = npt.NDArray[np.uint8]

CHECKS = 8
"""One-bit form: number of checks of the database per k T. The paper does not specify a rate."""
TURNS = 50
"""Number of turns per k T in simulated time: Algorithm 3 loops without a pause."""
_INF = 2**63 - 1


class Database(Protocol):
    """The INT database: the newest label of every port, by row."""

    @property
    def recorded(self) -> Ints:
        """RT of the known ports, ns on the controller's clock, int64 [rows]; NEVER: no label yet."""

    def update(self, labels: Records, now_ns: int) -> object:
        """Process LABEL records: keep the newest of every port (Algorithm 4)."""


class Ageing(Protocol):
    """The ageing database: rows of late ports, until their timeout."""

    def put(self, rows: Ints, now_ns: int, life_ns: int) -> None:
        """Set or renew the entries of these rows."""

    def expired(self, now_ns: int) -> Ints:
        """Rows whose entry timed out, each once."""


class PortDatabase:
    """The INT database of a simulated fabric: a row for each row of `Topology.ports`.

    RT is the time at which the switch labelled, as in Algorithm 4: all switches share one clock.
    """

    def __init__(self, ports: Records) -> None:
        """`ports`: PORT [rows], as `Topology.ports`."""
        self.recorded: Ints = np.full(len(ports), NEVER, np.int64)
        self.latency = np.zeros(len(ports), np.uint32)
        """Latency in the newest label, ns."""
        self.occupancy = np.zeros(len(ports), np.uint32)
        """Queue occupancy in the newest label, bytes."""
        self.unknown = 0
        """Labels of unknown ports."""
        switch = np.flatnonzero(ports["node_id"])
        nodes, numbers = ports["node_id"][switch].astype(np.int64), ports["number"][switch].astype(np.int64)
        self._width = int(numbers.max(initial=0)) + 1
        self._row_of: Ints = np.full((int(nodes.max(initial=0)) + 1) * self._width, -1, np.int64)
        self._row_of[nodes * self._width + numbers] = switch

    def rows_of(self, labels: Records) -> Ints:
        """Port rows of LABEL records, int64 [labels]; -1: unknown port."""
        node, number = labels["node_id"].astype(np.int64), labels["egress_port"].astype(np.int64)
        inside = (number < self._width) & (node < len(self._row_of) // self._width)
        return np.where(inside, self._row_of[np.where(inside, node * self._width + number, 0)], -1)

    def update(self, labels: Records, now_ns: int) -> None:
        """Process LABEL records: keep the newest of every port."""
        rows = self.rows_of(labels)
        if (rows < 0).any():
            self.unknown += int(np.count_nonzero(rows < 0))
            labels, rows = labels[rows >= 0], rows[rows >= 0]
        times = labels["time_ns"]
        arrival = np.arange(len(rows))
        order = np.lexsort((-arrival, times, rows))  # among equal times, the first to arrive counts
        last = order[np.append(rows[order][1:] != rows[order][:-1], np.ones(min(1, len(rows)), np.bool_))]
        newer = last[times[last] > self.recorded[rows[last]]]
        at = rows[newer]
        self.recorded[at] = times[newer]
        self.latency[at], self.occupancy[at] = labels["latency_ns"][newer], labels["occupancy"][newer]


class MemoryAgeing:
    """The ageing database in this process."""

    def __init__(self) -> None:
        self._until: Ints = np.zeros(0, np.int64)

    def put(self, rows: Ints, now_ns: int, life_ns: int) -> None:
        """Set or renew the entries of these rows."""
        self._until = extended(self._until, int(rows.max(initial=-1)) + 1, _INF)
        self._until[rows] = now_ns + life_ns

    def expired(self, now_ns: int) -> Ints:
        """Rows whose entry timed out, each once."""
        rows = np.flatnonzero(self._until <= now_ns)
        self._until[rows] = _INF
        return rows


class Controller:
    """Sets S (`shift`) or the flag (`one-bit`) of every port in its database.

    A port without a label has no entry, and is not changed. The caller writes the registers.
    """

    def __init__(
        self,
        labelling: LabellingSettings,
        adaptive: AdaptiveSettings,
        database: Database,
        ageing: Ageing | None = None,
        *,
        start_ns: int = 0,
    ) -> None:
        """`ageing`: the ageing database of `one-bit`; None: in memory. `start_ns`: time at the start."""
        self.mode = adaptive.mode
        self.max_value = adaptive.max_shift if adaptive.mode == "shift" else 1
        self.timeout_ns = max(1, round(adaptive.k * labelling.interval * 1e9))
        """k T, ns: a port without a label for this long is late."""
        self.flag_life_ns = max(1, round(adaptive.flag_life * labelling.interval * 1e9))
        """Time from the last check that found a port late until its flag is reset, ns."""
        self.turn_ns = max(1, self.timeout_ns // TURNS)
        """Simulated time between two turns."""
        self.database = database
        self.ageing: Ageing = ageing or MemoryAgeing()
        self.values: Values = np.zeros(0, np.uint8)
        """Reg2 of every row: S, or the flag."""
        self.changes = 0
        """Changes of Reg2 so far."""
        self._start_ns = start_ns
        self._changed: Ints = np.zeros(0, np.int64)
        self._due_ns = start_ns

    @property
    def due_ns(self) -> int:
        """Time of the next turn that may change something, unless new labels arrive."""
        return self._due_ns if self.mode != "off" else _INF

    def receive(self, labels: Records, now_ns: int) -> None:
        """Process LABEL records that arrived at `now_ns`."""
        if len(labels):
            self.database.update(labels, now_ns)
            self._due_ns = min(self._due_ns, min(now_ns, int(labels["time_ns"].min())) + self.timeout_ns)

    @property
    def raised(self) -> int:
        """Number of ports whose interval the controller has shortened."""
        return int(np.count_nonzero(self.values))

    def adopt(self, rows: Ints, values: Values, now_ns: int) -> tuple[Ints, Values]:
        """Continue with the registers that a previous controller has written.

        Returns, in the form of `turn`, the rows whose register is above the maximum of this controller. A
        flag that is set gets an entry in the ageing database; without one it would never time out.
        """
        self._grow(int(rows.max(initial=-1)) + 1)
        self.values[:] = 0
        self.values[rows] = np.minimum(values, self.max_value)
        self._due_ns = self._start_ns
        if self.mode == "one-bit":
            self.ageing.put(rows[values > 0], now_ns, self.flag_life_ns)
        above = rows[values > self.max_value]
        self.changes += len(above)
        return above, self.values[above]

    def turn(self, now_ns: int) -> tuple[Ints, Values]:
        """Check all ports if any may be due; returns (rows to change, their new values). Time never goes
        back.
        """
        if self.mode == "off" or now_ns < self._due_ns:
            return _NO_ROWS, _NO_VALUES
        recorded = self.database.recorded
        self._grow(len(recorded))
        known = recorded != NEVER
        late = known & (recorded < now_ns - self.timeout_ns)
        rows = self._shift(now_ns, known, late) if self.mode == "shift" else self._one_bit(now_ns, late)
        self.changes += len(rows)
        return rows, self.values[rows]

    def _shift(self, now_ns: int, known: npt.NDArray[np.bool_], late: npt.NDArray[np.bool_]) -> Ints:
        """Algorithm 3, with LRT by port. At the highest S, a late port's LRT is still updated."""
        values, changed = self.values, self._changed
        free = known & (now_ns - changed > self.timeout_ns)
        up, down = free & late, free & ~late & (values > 0)
        changed[up | down] = now_ns
        moved = np.flatnonzero((up & (values < self.max_value)) | down)
        values += up & (values < self.max_value)
        values -= down
        recorded = self.database.recorded
        calm = (values == 0) & (recorded > changed)  # only further silence can make such a port due
        since = np.where(calm, recorded, changed)
        self._due_ns = int(since.min(where=known, initial=_INF - self.timeout_ns - 1)) + self.timeout_ns + 1
        return moved

    def _one_bit(self, now_ns: int, late: npt.NDArray[np.bool_]) -> Ints:
        """Section 5: the flag of a late port is set and its entry renewed; a timeout resets it."""
        self._due_ns = now_ns + max(1, self.timeout_ns // CHECKS)
        timed_out = np.zeros(len(late), np.bool_)
        expired = self.ageing.expired(now_ns)
        timed_out[expired[expired < len(timed_out)]] = True
        found = np.flatnonzero(late)
        if len(found):
            self.ageing.put(found, now_ns, self.flag_life_ns)
        on = self.values != 0
        moved = np.flatnonzero((late & ~on) | (timed_out & on & ~late))
        self.values[moved] ^= 1
        return moved

    def _grow(self, rows: int) -> None:
        self.values = extended(self.values, rows, 0)
        self._changed = extended(self._changed, rows, self._start_ns)


def extended(array: npt.NDArray[Number], rows: int, value: int) -> npt.NDArray[Number]:
    """The array with at least `rows` rows; new ones are `value`."""
    more = np.full(max(0, rows - len(array)), value, array.dtype)
    return np.concatenate([array, more]) if len(more) else array


_NO_ROWS: Ints = np.zeros(0, np.int64)
_NO_VALUES: Values = np.zeros(0, np.uint8)
