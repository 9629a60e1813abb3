"""Registers of a testbed's switches: one shared region that switches, controller and commands read and write.

Reg1 and Reg2 of INT-label by switch port, counters, and the share of frames that a link loses for a test.
Every cell is an aligned word with one writer at a time, so there are no locks.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..base.errors import HopscopeError
from ..memory.region import Region, RegionError
from .records import REGISTER_ARRAYS, PortCounter

KIND, VERSION = "label registers", 2
MAX_SHIFT = 40
"""Highest S."""
_ALL = 0xFFFFFFFF


class RegistersError(HopscopeError):
    """An unknown port, or an invalid value."""


class Registers:
    """Registers by switch port, as arrays (read-only if attached so)."""

    def __init__(self, region: Region) -> None:
        self.region = region
        self.node: npt.NDArray[np.uint32] = region["node"]
        """Switch of each row, rising."""
        self.number: npt.NDArray[np.uint16] = region["number"]
        """Port number of each row, rising within a switch."""
        self.last: npt.NDArray[np.int64] = region["last"]
        """Reg1: time of the port's last label, ns; 0: none yet."""
        self.shift: npt.NDArray[np.uint8] = region["shift"]
        """Reg2: S."""
        self.flag: npt.NDArray[np.uint8] = region["flag"]
        """Reg2 of the one-bit form."""
        self.loss: npt.NDArray[np.uint32] = region["loss"]
        """Probability that a frame is lost after the port, in 2^-32."""
        self.interval: npt.NDArray[np.int64] = region["interval"]
        """T, ns, of all ports [1]."""
        self.counters: npt.NDArray[np.uint64] = region["counters"].reshape(len(self.node), len(PortCounter))
        """Counts since the switches started [ports, PortCounter]."""
        self._keys = _keys(self.node, self.number)

    @classmethod
    def create(cls, path: Path | None, ports: Iterable[tuple[int, int]], interval_ns: int) -> Registers:
        """Registers of these (node id, port number) in a file, or (None) in private memory.

        Raises RegistersError for a duplicate port, RegionError if the file cannot be made.
        """
        rows = sorted(ports)
        if len(set(rows)) < len(rows):
            raise RegistersError("registers: found a port twice, expected every (node, port) once")
        arrays: dict[str, tuple[Any, int]] = {
            name: (dtype, len(rows)) for name, dtype in REGISTER_ARRAYS.items()
        }
        arrays["interval"] = (np.int64, 1)
        arrays["counters"] = (np.uint64, len(rows) * len(PortCounter))
        region = Region.create(path, KIND, VERSION, arrays)
        region["node"][:] = [node for node, _ in rows]
        region["number"][:] = [number for _, number in rows]
        region["interval"][0] = interval_ns
        return cls(region)

    @classmethod
    def attach(cls, path: Path | str, writable: bool = False) -> Registers:
        """Map existing registers. Raises RegionError, also for missing or different arrays."""
        region = Region.attach(path, KIND, VERSION, writable)
        shape = region.shape()
        ports = shape["node"][1] if "node" in shape else 0
        wanted = {name: (np.dtype(dtype), ports) for name, dtype in REGISTER_ARRAYS.items()}
        wanted["interval"] = (np.dtype(np.int64), 1)
        wanted["counters"] = (np.dtype(np.uint64), ports * len(PortCounter))
        if shape != wanted:
            raise RegionError(f"{path}: its arrays are not those of label registers, version {VERSION}")
        return cls(region)

    def __len__(self) -> int:
        return len(self.node)

    def rows(self, nodes: npt.ArrayLike, numbers: npt.ArrayLike) -> npt.NDArray[np.int64]:
        """Row of each (node id, port number); -1: unknown port."""
        wanted = _keys(np.atleast_1d(np.asarray(nodes)), np.atleast_1d(np.asarray(numbers)))
        found = np.searchsorted(self._keys, wanted).clip(max=max(len(self) - 1, 0))
        known = self._keys[found] == wanted if len(self) else np.zeros(len(wanted), bool)
        return np.where(known, found, -1).astype(np.int64)

    def row(self, node: int, number: int) -> int:
        """Row of one port. Raises RegistersError."""
        (row,) = self.rows(node, number)
        if row < 0:
            raise RegistersError(f"registers: found port {number} of switch {node}, expected one of theirs")
        return int(row)

    def set_shift(self, node: int, number: int, shift: int) -> bool:
        """Set S of a port; False: unknown port. Raises RegistersError."""
        if not 0 <= shift <= MAX_SHIFT:
            raise RegistersError(f"registers: found S = {shift}, expected 0 to {MAX_SHIFT}")
        (row,) = self.rows(node, number)
        if row >= 0:
            self.shift[row] = shift
        return bool(row >= 0)

    def set_flag(self, node: int, number: int, on: bool) -> bool:
        """Let a port label every packet, or not; False: unknown port."""
        (row,) = self.rows(node, number)
        if row >= 0:
            self.flag[row] = on
        return bool(row >= 0)

    def set_loss(self, node: int, number: int, share: float) -> None:
        """Set the share of its frames that a port loses. Raises RegistersError."""
        if not 0 <= share <= 1:
            raise RegistersError(f"registers: found a share of {share:g}, expected 0 to 1")
        self.loss[self.row(node, number)] = min(round(share * (_ALL + 1)), _ALL)

    def lossy(self) -> npt.NDArray[np.float64]:
        """Share of its frames that each port loses."""
        return self.loss / np.float64(_ALL)

    def count(self, counter: PortCounter) -> npt.NDArray[np.uint64]:
        """One counter of every port."""
        return self.counters[:, counter]


def _keys(nodes: npt.NDArray[Any], numbers: npt.NDArray[Any]) -> npt.NDArray[np.uint64]:
    """One number for (node id, port number)."""
    keys: npt.NDArray[np.uint64] = nodes.astype(np.uint64) << np.uint64(32) | numbers.astype(np.uint64)
    return keys
