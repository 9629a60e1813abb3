"""What another process writes into a region, copied for several readers here."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from .region import RegionError

Records = npt.NDArray[np.void]

FRESH_SECONDS = 0.2
"""How long a copy is used again; longer where it took long to make, up to LONGEST_SECONDS."""
LONGEST_SECONDS = 1.0


class Reader(Protocol):
    """Reads a region."""

    def now(self) -> int:
        """The time now by the clock of the region's times, ns: ages are to be taken from it."""
        ...


R = TypeVar("R", bound=Reader)


class Copied(Generic[R]):
    """Reads a region, and maps it anew when it is made anew. Safe to use from several threads."""

    def __init__(
        self, path: Path, attach: Callable[[Path], R], rows: Callable[[R], Records], dtype: np.dtype[np.void]
    ) -> None:
        """`attach` raises RegionError where there is none; `rows` are what is copied, `dtype` [rows]."""
        self._path, self._attach, self._rows = path, attach, rows
        self._lock = threading.Lock()
        self._reader: R | None = None
        self._inode = 0
        self._until = 0.0
        self._none: Records = np.zeros(0, dtype)
        self._copy: tuple[int, Records] = (0, self._none)

    def copy(self) -> tuple[int, Records]:
        """When the rows were read, ns by the clock of their times, which ages are to be taken from; and the
        rows, none where there is no region.
        """
        with self._lock:
            reader, now = self._attached(), time.monotonic()
            if reader is None:
                return time.time_ns(), self._none
            if now >= self._until:
                self._copy = reader.now(), self._rows(reader)
                took = time.monotonic() - now
                self._until = now + took + min(LONGEST_SECONDS, max(FRESH_SECONDS, 10 * took))
            return self._copy

    def _attached(self) -> R | None:
        """The reader, under the lock; None where there is no region."""
        try:
            inode = self._path.stat().st_ino
            if self._reader is None or inode != self._inode:
                self._reader, self._inode, self._until = self._attach(self._path), inode, 0.0
        except (OSError, RegionError):
            self._reader = None
        return self._reader
