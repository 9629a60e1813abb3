"""What a collector's folder says about ports that label (INT-label), and their coverage; only read."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import numpy as np

from ..detect.label_state import COVERAGE, FILE_NAME, LABEL_PORT, LabelReader, LabelRule
from ..memory.region import RegionError
from ..wire.records import Records

FRESH_SECONDS = 0.2
"""How long a copy of the ports is used again; longer where it took long to make, up to LONGEST_SECONDS."""
LONGEST_SECONDS = 1.0


def spanned(rows: Records, telemetry_ns: int, since_ns: int | None = None) -> int:
    """Telemetry intervals from the first of COVERAGE [intervals] to the last, those left out included.

    `since_ns`: those that began after it, where there are older ones; the first need not have been told then.
    """
    begins = rows["begin_ns"] // telemetry_ns
    if not len(begins):
        return 0
    first = int(begins[0])
    if since_ns is not None:
        first = max(first, since_ns // telemetry_ns + 1)
    return max(0, int(begins[-1]) - first + 1)


class Labels:
    """Reads the region of the process that takes labels, and maps it anew when it is made anew.

    Safe to use from several threads.
    """

    def __init__(self, regions: Path) -> None:
        self._path = regions / FILE_NAME
        self._lock = threading.Lock()
        self._reader: LabelReader | None = None
        self._inode = 0
        self._until = 0.0
        self._copy: tuple[int, Records] = (0, np.zeros(0, LABEL_PORT))

    def about(self) -> LabelRule | None:
        """How ports are meant to label; None where no labels are taken."""
        with self._lock:
            reader = self._attached()
            return None if reader is None else reader.about()

    def ports(self) -> Records:
        """LABEL_PORT [ports], by switch and port; empty where no labels are taken."""
        return self.copy()[1]

    def copy(self) -> tuple[int, Records]:
        """When the ports were read, ns by the clock of their times, which ages are to be taken from; and
        `ports`.
        """
        with self._lock:
            reader, now = self._attached(), time.monotonic()
            if reader is None:
                return time.time_ns(), np.zeros(0, LABEL_PORT)
            if now >= self._until:
                read_ns, ports = reader.now(), reader.ports()
                self._copy = read_ns, ports[np.lexsort((ports["port"], ports["node_id"]))]
                took = time.monotonic() - now
                self._until = now + took + min(LONGEST_SECONDS, max(FRESH_SECONDS, 10 * took))
            return self._copy

    def coverage(self, last: int) -> Records:
        """COVERAGE of the newest `last` telemetry intervals at most, the oldest first."""
        with self._lock:
            reader = self._attached()
            return np.zeros(0, COVERAGE) if reader is None else reader.coverage(last)

    def _attached(self) -> LabelReader | None:
        try:
            inode = self._path.stat().st_ino
            if self._reader is None or inode != self._inode:
                self._reader, self._inode, self._until = LabelReader.attach(self._path), inode, 0.0
        except (OSError, RegionError):
            self._reader = None
        return self._reader
