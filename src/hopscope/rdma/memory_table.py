"""Memory regions of a software NIC to which peers may write, by key."""

from __future__ import annotations

import secrets

import numpy as np
import numpy.typing as npt

from ..base.errors import HopscopeError
from ..wire.records import Records
from .records import MEMORY_REGION, NO_TARGET, Access

ROWS = 256
"""Maximum regions of a table, a power of two."""


class RdmaError(HopscopeError):
    """A memory region or a queue pair cannot be created or changed; the message has the reason."""


class MemoryTable:
    """Maps keys to memories. A target number is an index into `memories`."""

    def __init__(self) -> None:
        self.rows: Records = np.zeros(ROWS, MEMORY_REGION)
        """MEMORY_REGION [ROWS]; the lower 8 bits of a key are the region's row."""
        self.memories: list[npt.NDArray[np.uint8]] = []
        """Memories by target number, uint8 [bytes]."""
        self.numbers: npt.NDArray[np.uint16] = np.arange(NO_TARGET + 1, dtype=np.uint16)
        """Number of each target in notices: several targets may be regions of one store."""

    def add(
        self,
        memory: npt.NDArray[np.uint8],
        access: int = Access.WRITE | Access.ATOMIC,
        *,
        base: int | None = None,
    ) -> Records:
        """Register a memory as the next target.

        Returns its MEMORY_REGION, with an unpredictable key. `base`: virtual address of its first byte; None:
        assigned. Raises RdmaError.
        """
        target = len(self.memories)
        if target >= min(ROWS, NO_TARGET):
            raise RdmaError(f"{target} memory regions exist, the maximum")
        key = secrets.randbits(32)
        while not key or self.rows[key % ROWS]["used"]:
            key = secrets.randbits(32)
        self.memories.append(memory)
        row = self.rows[key % ROWS : key % ROWS + 1]
        address = (target + 1) << 44 if base is None else base
        row[0] = (address, len(memory), key, target, access, 1)
        return row

    def retarget(self, key: int, memory: npt.NDArray[np.uint8]) -> None:
        """Map a key to another memory (a new epoch). Raises RdmaError."""
        row = self.rows[key % ROWS]
        if not row["used"] or row["key"] != key:
            raise RdmaError(f"no memory region has the key {key:#010x}")
        if len(memory) != row["length"]:
            raise RdmaError(f"memory of {len(memory):,} bytes, expected the region's {int(row['length']):,}")
        self.memories[int(row["target"])] = memory
