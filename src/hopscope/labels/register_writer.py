"""Writes the decisions of the label controller into the registers of a testbed's switches."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from ..memory.region import RegionError
from ..settings.label import LabelSettings
from .controller import Controller, Ints, Values
from .records import PortCounter
from .registers import Registers
from .table import LabelTable


class RegisterWriter:
    """Applies controller decisions to switch registers (Reg2), and reads the switches' packet counters."""

    def __init__(
        self,
        settings: LabelSettings,
        table: LabelTable,
        controller: Controller,
        notify: Callable[[str], object],
    ) -> None:
        self._path, self._mode = settings.registers, settings.adaptive.mode
        self._interval_ns = round(settings.labelling.interval * 1e9)
        self._table, self._controller, self._notify = table, controller, notify
        self._registers: Registers | None = None
        self._rows: Ints = np.zeros(0, np.int64)
        self._sent: npt.NDArray[np.uint64] = np.zeros(0, np.uint64)
        self._reason = ""

    @property
    def attached(self) -> bool:
        """Whether registers are mapped."""
        return self._registers is not None

    def attach(self, now_ns: int) -> None:
        """Map the registers if there are new ones: the fabric may start, stop and restart at any time."""
        if self._path is None or (self._registers is not None and self._registers.region.is_current()):
            return
        self._registers = None
        self._table.confine(None)
        try:
            registers = Registers.attach(self._path, writable=self._mode != "off")
        except (RegionError, OSError) as error:
            self._report(f"{error}; the controller waits for the registers")
            return
        rows = self._table.rows_of(registers.node, registers.number, add=True)
        if (rows < 0).any():
            self._report(f"{self._path}: the table of labels has no room for this many ports")
            return
        self._registers, self._rows = registers, rows
        self._table.confine(rows)
        self._sent = _sent(registers)
        self._report(f"{self._path}: registers of {len(rows):,} ports")
        if registers.interval[0] != self._interval_ns:
            self._report(
                f"{self._path}: the switches label every {int(registers.interval[0]) / 1e9:g} s, and "
                f"label.labelling.interval is {self._interval_ns / 1e9:g} s"
            )
        if self._mode != "off":
            mine, other = registers.shift, registers.flag
            if self._mode == "one-bit":
                mine, other = other, mine
            other[:] = 0
            self._table.clear_shift()
            self.write(*self._controller.adopt(rows, mine, now_ns))
            self._table.set_shift(rows, mine)

    def write(self, rows: Ints, values: Values) -> int:
        """Write Reg2 of these rows of the table; returns the number of rows without a register."""
        if self._registers is None:
            return len(rows)
        at = self._registers.rows(*self._table.ports_of(rows))
        reg2 = self._registers.shift if self._mode == "shift" else self._registers.flag
        reg2[at[at >= 0]] = values[at >= 0]
        return int(np.count_nonzero(at < 0))

    def sample(self) -> npt.NDArray[np.bool_]:
        """Ports that sent frames since the last call, bool [rows of the table]."""
        mask = np.zeros(self._table.capacity, np.bool_)
        if self._registers is not None:
            sent = _sent(self._registers)
            mask[self._rows[sent != self._sent]] = True
            self._sent = sent
        return mask

    def release(self) -> None:
        """Reset Reg2 on shutdown."""
        if self._registers is not None and self._mode != "off":
            self._registers.shift[:] = 0
            self._registers.flag[:] = 0

    def _report(self, line: str) -> None:
        if line != self._reason:
            self._reason = line
            self._notify(line)


def _sent(registers: Registers) -> npt.NDArray[np.uint64]:
    """Frames sent by each port, including those that its link lost."""
    return registers.count(PortCounter.SENT) + registers.count(PortCounter.LOST)
