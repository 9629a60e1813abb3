"""What a collector's folder says about followed flows (INT-label, 3.3): their ways; only read."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ..detect.followed_state import FILE_NAME, FOLLOWED_FLOW, HOPS, FollowedReader
from ..memory.region import RegionError
from ..wire.records import Records

FRESH_SECONDS = 0.2
"""How long a copy is used again."""
_ORDER = ("src_hi", "src_lo", "dst_hi", "dst_lo", "proto", "sport", "dport")


class Followed:
    """Reads the region of the process that takes labels, and maps it anew when it is made anew.

    Safe to use from several threads.
    """

    def __init__(self, regions: Path) -> None:
        self._path = regions / FILE_NAME
        self._lock = threading.Lock()
        self._reader: FollowedReader | None = None
        self._inode = 0
        self._until = 0.0
        self._copy: tuple[int, Records] = (0, np.zeros(0, FOLLOWED_FLOW))

    def copy(self) -> tuple[int, Records]:
        """When the flows were read, ns since the epoch, which ages are to be taken from; and FOLLOWED_FLOW
        [flows] by addresses, protocol and ports, empty where no labels are taken.
        """
        with self._lock:
            reader, now = self._attached(), time.monotonic()
            if reader is None:
                return time.time_ns(), np.zeros(0, FOLLOWED_FLOW)
            if now >= self._until:
                read_ns, flows = time.time_ns(), reader.flows()
                self._copy = read_ns, flows[np.lexsort([flows[name] for name in _ORDER[::-1]])]
                self._until = now + FRESH_SECONDS
            return self._copy

    def _attached(self) -> FollowedReader | None:
        try:
            inode = self._path.stat().st_ino
            if self._reader is None or inode != self._inode:
                self._reader, self._inode, self._until = FollowedReader.attach(self._path), inode, 0.0
        except (OSError, RegionError):
            self._reader = None
        return self._reader


def latencies(rows: Records) -> npt.NDArray[np.int64]:
    """Sum of the latencies in the switches of each newest way, ns, int64 [flows]."""
    told = np.arange(HOPS) < rows["hops"][:, np.newaxis]
    return np.asarray(np.where(told, rows["way"]["latency_ns"], 0).sum(axis=1, dtype=np.int64))


def passes(rows: Records, node_id: int) -> npt.NDArray[np.bool_]:
    """Whether each newest way goes through a switch, bool [flows]."""
    told = np.arange(HOPS) < rows["hops"][:, np.newaxis]
    return np.asarray((told & (rows["way"]["node_id"] == node_id)).any(axis=1))


def way_of(row: np.void, name: str = "way") -> Records:
    """FOLLOWED_HOP [hops] of the newest way, or (`previous`) of the one before, the source's side first."""
    hops: Records = row[name]
    return hops[: int(row["hops" if name == "way" else "previous_hops"])]
