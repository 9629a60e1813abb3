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

    @property
    def label(self) -> str:
        """Lower-case name, as printed."""
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class Question:
    """What a caller wants beside the keys; each primitive looks at what it knows."""

    copies: int | None = None
    """Copies that were written; None: not known, the layout's most is assumed."""
    consensus: int = 1
    """Copies that have to agree."""
    values: npt.NDArray[np.uint32] | None = None
    """Postcarding: the values that hops can have (V)."""
    partial: bool = False
    """Postcarding: tell the hops that are known of a path that is not whole."""
    limit: int = 100
    """Append: the most entries."""


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
