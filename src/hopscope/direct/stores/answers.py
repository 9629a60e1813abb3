"""Results of queries: found, empty or conflict, never a magic value."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

UNREACHABLE = "unreachable"
"""Status, in JSON, of an answer whose collector cannot be reached."""


class Status(IntEnum):
    """Result of a query for one key."""

    EMPTY = 0
    """No value for this key: never written, overwritten, or fewer copies agree than required."""
    FOUND = 1
    CONFLICT = 2
    """Several values claim to be this key's, with equally many copies."""

    @property
    def label(self) -> str:
        """Lower-case name, as printed."""
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class QueryOptions:
    """Options of a query; each primitive uses its own."""

    copies: int | None = None
    """Copies that were written; None: unknown, the layout's maximum is assumed."""
    consensus: int = 1
    """Copies that must agree."""
    values: npt.NDArray[np.uint32] | None = None
    """Postcarding: the values that hops can have (V)."""
    partial: bool = False
    """Postcarding: return the known hops of incomplete paths."""
    limit: int = 100
    """Append: maximum entries."""


@dataclass(slots=True)
class KeyAnswers:
    """Answers to a batch of keys, row by row."""

    status: npt.NDArray[np.uint8]
    """`Status`, uint8 [keys]."""

    def __len__(self) -> int:
        return len(self.status)

    @property
    def found(self) -> npt.NDArray[np.bool_]:
        """Rows with an answer."""
        return self.status == Status.FOUND


@dataclass(slots=True)
class Answers(KeyAnswers):
    """Answers of Key-Write."""

    data: npt.NDArray[np.uint8]
    """Reported bytes, uint8 [keys, data bytes]; meaningless unless the status is FOUND."""
    votes: npt.NDArray[np.uint8]
    """Copies that hold them, uint8 [keys]."""
