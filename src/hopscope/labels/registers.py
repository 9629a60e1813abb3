"""Registers of a testbed's switches: one shared region that switches, controller and commands read and write.

It has Reg1 and Reg2 of INT-label for each switch port, counters, tracked flows, and the links that are down
or lose frames for a test. Every cell is an aligned word with one writer at a time, so no locks are needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..base.errors import HopscopeError
from ..memory.region import Region, barrier
from .records import MAX_TRACKED, REGISTER_ARRAYS, TRACKED, PortCounter

KIND, VERSION = "label registers", 3
MAX_SHIFT = 40
"""Highest S."""
_ALL = 0xFFFFFFFF
_LOW = (1 << 64) - 1


class RegistersError(HopscopeError):
    """Unknown port or flow, invalid value, or no room."""


class Registers:
    """Registers by switch port, as arrays (read-only if attached so)."""

    def __init__(self, region: Region) -> None:
        self.region = region
        self.node: npt.NDArray[np.uint32] = region["node"]
        """Switch of each row, ascending."""
        self.number: npt.NDArray[np.uint16] = region["number"]
        """Port number of each row, ascending within a switch."""
        self.last: npt.NDArray[np.int64] = region["last"]
        """Reg1: time of the port's last label, ns; 0: none yet."""
        self.shift: npt.NDArray[np.uint8] = region["shift"]
        """Reg2: S."""
        self.flag: npt.NDArray[np.uint8] = region["flag"]
        """Reg2 of the one-bit form."""
        self.loss: npt.NDArray[np.uint32] = region["loss"]
        """Probability that a frame is lost after the port, in units of 2^-32."""
        self.down: npt.NDArray[np.uint8] = region["down"]
        """1: the port's link is set down."""
        self.changes: npt.NDArray[np.uint64] = region["changes"]
        """Number of link changes so far [1]: when it increases, the switches compute routes again."""
        self.followed: npt.NDArray[np.uint64] = region["followed"]
        """Number of link changes that the switches' routes take into account [1]."""
        self.tracked = region["tracked"]
        """TRACKED [MAX_TRACKED]; rows whose `every` is 0 are free."""
        self.tracked_end: npt.NDArray[np.uint64] = region["tracked_end"]
        """End of the rows of `tracked` that have ever been used [1]."""
        self.interval: npt.NDArray[np.int64] = region["interval"]
        """T, ns, of all ports [1]."""
        self.counters: npt.NDArray[np.uint64] = region["counters"].reshape(len(self.node), len(PortCounter))
        """Counts since the switches started [ports, PortCounter]."""
        self._keys = _keys(self.node, self.number)

    @classmethod
    def create(cls, path: Path | None, ports: Iterable[tuple[int, int]], interval_ns: int) -> Registers:
        """Registers of these ports (node id, port number) in a file, or (None) in private memory.

        Raises RegistersError for a duplicate port, RegionError if the file cannot be created.
        """
        rows = sorted(ports)
        if len(set(rows)) < len(rows):
            raise RegistersError("registers: found a port twice, expected every (node, port) once")
        region = Region.create(path, KIND, VERSION, _arrays_of(len(rows)))
        region["node"][:] = [node for node, _ in rows]
        region["number"][:] = [number for _, number in rows]
        region["interval"][0] = interval_ns
        return cls(region)

    @classmethod
    def attach(cls, path: Path | str, writable: bool = False) -> Registers:
        """Map existing registers. Raises RegionError, also for missing or different arrays."""
        region = Region.attach(path, KIND, VERSION, writable)
        return cls(region.require(_arrays_of(region.length("node"))))

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
            raise RegistersError(
                f"registers: found port {number} of switch {node}, expected an existing port"
            )
        return int(row)

    def set_shift(self, node: int, number: int, shift: int) -> bool:
        """Set S of a port; False: unknown port. Raises RegistersError."""
        if not 0 <= shift <= MAX_SHIFT:
            raise RegistersError(f"registers: found S = {shift}, expected 0 to {MAX_SHIFT}")
        (row,) = self.rows(node, number)
        if row >= 0:
            self.shift[row] = shift
        return bool(row >= 0)

    def set_loss(self, node: int, number: int, share: float) -> None:
        """Set the share of a port's frames that are lost. Raises RegistersError."""
        if not 0 <= share <= 1:
            raise RegistersError(f"registers: found a share of {share:g}, expected 0 to 1")
        self.loss[self.row(node, number)] = min(round(share * (_ALL + 1)), _ALL)

    def set_link(self, ports: Iterable[tuple[int, int]], up: bool) -> None:
        """Set a link up or down; `ports`: (node id, port number) of its ends. Raises RegistersError."""
        self.down[[self.row(node, number) for node, number in ports]] = not up
        barrier()
        self.changes[0] += np.uint64(1)

    def track(self, source: int, target: int, every: int) -> None:
        """Track the flow between two addresses (128 bits), or change its `every`. Raises RegistersError."""
        rows = self.tracked
        at = self._tracked_row(source, target)
        if at < 0:
            free = np.flatnonzero(rows["every"] == 0)
            if not len(free):
                raise RegistersError(f"registers: {len(rows):,} flows are tracked: remove one first")
            at = int(free[0])
            rows[at] = (source >> 64, source & _LOW, target >> 64, target & _LOW, 0, 0)
            barrier()
        rows["every"][at] = every
        self.tracked_end[0] = max(int(self.tracked_end[0]), at + 1)

    def untrack(self, source: int, target: int) -> None:
        """Stop tracking the flow between two addresses (128 bits). Raises RegistersError."""
        at = self._tracked_row(source, target)
        if at < 0:
            raise RegistersError("registers: this flow is not tracked")
        self.tracked["every"][at] = 0

    def tracked_flows(self) -> Iterator[tuple[int, int, int]]:
        """Tracked flows as (source, target, n: one packet in n is labelled); addresses of 128 bits."""
        for high, low, to_high, to_low, every, _ in self.tracked[self.tracked["every"] > 0].tolist():
            yield high << 64 | low, to_high << 64 | to_low, every

    def _tracked_row(self, source: int, target: int) -> int:
        same = self.tracked["every"] > 0
        for name, low, value in (("source_high", "source_low", source), ("high", "low", target)):
            same &= self.tracked[name] == np.uint64(value >> 64)
            same &= self.tracked[low] == np.uint64(value & _LOW)
        (found,) = np.nonzero(same)
        return int(found[0]) if len(found) else -1

    def lossy(self) -> npt.NDArray[np.float64]:
        """Share of frames lost after each port."""
        return self.loss / np.float64(_ALL)

    def count(self, counter: PortCounter) -> npt.NDArray[np.uint64]:
        """One counter for all ports."""
        return self.counters[:, counter]


def _arrays_of(ports: int) -> dict[str, tuple[Any, int]]:
    arrays: dict[str, tuple[Any, int]] = {name: (dtype, ports) for name, dtype in REGISTER_ARRAYS.items()}
    return arrays | {
        "interval": (np.int64, 1),
        "changes": (np.uint64, 1),
        "followed": (np.uint64, 1),
        "tracked": (TRACKED, MAX_TRACKED),
        "tracked_end": (np.uint64, 1),
        "counters": (np.uint64, ports * len(PortCounter)),
    }


def _keys(nodes: npt.NDArray[Any], numbers: npt.NDArray[Any]) -> npt.NDArray[np.uint64]:
    """A single number for each (node id, port number)."""
    return nodes.astype(np.uint64) << np.uint64(32) | numbers.astype(np.uint64)
