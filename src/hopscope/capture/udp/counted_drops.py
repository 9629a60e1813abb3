"""Counted drops of sockets, in memory that outlives the counting processes.

The kernel counts the drops of a socket for as long as it is open, which may be longer than a collector runs.
"""

from __future__ import annotations

import mmap
import os
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class SocketDrops:
    """Counted drops of one socket, modulo 2^32."""

    before: int = 0
    """Drops that an earlier collector has counted."""
    counted: npt.NDArray[np.uint32] = field(default_factory=lambda: np.zeros(1, np.uint32))
    """The drops counted so far, as an array of one number."""


class CountedDrops:
    """Counted drops of several sockets, modulo 2^32."""

    def __init__(self, descriptor: int) -> None:
        """Share the numbers in a memfd. Raises OSError or ValueError if the descriptor is not valid."""
        self.descriptor = descriptor
        self.words: npt.NDArray[np.uint32] = np.frombuffer(mmap.mmap(descriptor, 0), np.uint32)
        """uint32 [sockets]."""

    @classmethod
    def of(cls, sockets: int) -> CountedDrops:
        """Zeros, in new memory."""
        descriptor = os.memfd_create("hopscope-drops")
        os.ftruncate(descriptor, 4 * max(sockets, 1))
        return cls(descriptor)

    def of_socket(self, number: int, before: int) -> SocketDrops:
        """The counted drops of one socket; `before`: see `SocketDrops`."""
        return SocketDrops(before, self.words[number : number + 1])

    def close(self) -> None:
        """Close the descriptor; the memory can still be used."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
        self.descriptor = -1
