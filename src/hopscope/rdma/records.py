"""Memory operations (verbs): what a translator asks for, a packet carries, and a NIC executes."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from ..wire.records import Records


class Verb(IntEnum):
    """What is done to memory."""

    WRITE = 1
    FETCH_ADD = 2
    """Adds `value` to 8 bytes, little-endian; `result` is what was there."""
    CMP_SWAP = 3
    """Writes `value` into 8 bytes where they are `compare`; `result` is what was there."""


class VerbFlag(IntEnum):
    """Bits of `flags` in VERB."""

    IMMEDIATE = 1
    """The owner of the memory is told, with `immediate` (an atomic: by an empty write behind it)."""
    REFUSED = 2
    """Outside its memory, or an atomic that is not aligned: nothing was done."""


VERB = np.dtype(
    [
        ("address", "<u8"),  # bytes from the start of the target's memory
        ("value", "<u8"),
        ("compare", "<u8"),
        ("result", "<u8"),
        ("payload_at", "<u4"),  # WRITE: its bytes in the block's payload
        ("length", "<u4"),
        ("immediate", "<u4"),
        ("target", "<u2"),  # which memory: an index into the transport's table
        ("kind", "u1"),
        ("flags", "u1"),
    ]
)
"""One memory operation, 48 bytes."""

COUNT, PAYLOAD = 0, 1
"""Places in `fill` of a block."""


@dataclass(slots=True)
class VerbBlock:
    """Memory operations in the order in which they are to be done, and the bytes that they write.

    It is allocated once; writers append, a transport takes what is there, `clear` empties it.
    """

    verbs: Records
    """VERB [room]."""
    payload: npt.NDArray[np.uint8]
    """uint8 [room]."""
    fill: npt.NDArray[np.uint64] = field(default_factory=lambda: np.zeros(2, np.uint64))
    """Verbs, and bytes of payload, that are there: uint64 [2]; kernels raise it."""

    @classmethod
    def of(cls, verbs: int, payload: int) -> VerbBlock:
        """An empty block with room for so many verbs and bytes."""
        return cls(np.zeros(verbs, VERB), np.zeros(payload, np.uint8))

    def __len__(self) -> int:
        return int(self.fill[COUNT])

    @property
    def filled(self) -> Records:
        """VERB [verbs that are there], a view."""
        return self.verbs[: len(self)]

    def clear(self) -> None:
        """Forget what is there; the memory is used again."""
        self.fill[:] = 0
