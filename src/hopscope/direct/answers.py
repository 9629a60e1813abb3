"""What a query answers: found, empty, or conflict; never a magic value."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt


class Status(IntEnum):
    """Of one key."""

    EMPTY = 0
    """Nothing is there for this key: never written, overwritten, or fewer copies agree than asked for."""
    FOUND = 1
    CONFLICT = 2
    """Several values claim to be this key's, none more often than the others."""


@dataclass(slots=True)
class Answers:
    """Answers to a batch of keys, row by row."""

    status: npt.NDArray[np.uint8]
    """`Status`, uint8 [keys]."""
    data: npt.NDArray[np.uint8]
    """Bytes that were reported, uint8 [keys, data bytes]; without meaning where the status is not FOUND."""
    votes: npt.NDArray[np.uint8]
    """Copies that hold them, uint8 [keys]."""

    def __len__(self) -> int:
        return len(self.status)

    @property
    def found(self) -> npt.NDArray[np.bool_]:
        """Rows with an answer."""
        found: npt.NDArray[np.bool_] = self.status == Status.FOUND
        return found
