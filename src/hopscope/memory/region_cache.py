"""Cached copies of a region of another process, for several readers in this process."""

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

MIN_AGE_SECONDS = 0.2
"""How long a copy is reused; longer if copying takes long, up to MAX_AGE_SECONDS."""
MAX_AGE_SECONDS = 1.0


class Reader(Protocol):
    """Reads a region."""

    def now(self) -> int:
        """The current time, ns, by the clock of the times in the region; ages are computed from it."""
        ...


R = TypeVar("R", bound=Reader)


class CachedRegion(Generic[R]):
    """Reads a region, and maps it again if it was recreated. Threads may share it."""

    def __init__(
        self, path: Path, attach: Callable[[Path], R], rows: Callable[[R], Records], dtype: np.dtype[np.void]
    ) -> None:
        """`attach` opens the region, and raises RegionError if there is none; `rows` returns the rows to
        copy, `dtype` [rows].
        """
        self._path, self._attach, self._rows = path, attach, rows
        self._lock = threading.Lock()
        self._reader: R | None = None
        self._inode = 0
        self._until = 0.0
        self._none: Records = np.zeros(0, dtype)
        self._copy: tuple[int, Records] = (0, self._none)

    def copy(self) -> tuple[int, Records]:
        """The time of the copy (ns, by the clock of the times in the rows), and the rows; no rows if there is
        no region.
        """
        with self._lock:
            reader, now = self._attached(), time.monotonic()
            if reader is None:
                return time.time_ns(), self._none
            if now >= self._until:
                self._copy = reader.now(), self._rows(reader)
                took = time.monotonic() - now
                self._until = now + took + min(MAX_AGE_SECONDS, max(MIN_AGE_SECONDS, 10 * took))
            return self._copy

    def _attached(self) -> R | None:
        """The reader, or None if there is no region. The caller must hold the lock."""
        try:
            inode = self._path.stat().st_ino
            if self._reader is None or inode != self._inode:
                self._reader, self._inode, self._until = self._attach(self._path), inode, 0.0
        except (OSError, RegionError):
            self._reader = None
        return self._reader
