"""What a collector's folder says about ports that label (INT-label), and their coverage; only read."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import numpy as np

from ..detect.label_state import COVERAGE, FILE_NAME, LABEL_PORT, Labelled, LabelReader
from ..memory.region import RegionError
from ..wire.records import Records

FRESH_SECONDS = 0.2
"""How long a copy of the ports is used again."""


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
        self._ports: Records = np.zeros(0, LABEL_PORT)

    def about(self) -> Labelled | None:
        """How ports are meant to label; None where no labels are taken."""
        with self._lock:
            reader = self._attached()
            return None if reader is None else reader.about()

    def ports(self) -> Records:
        """LABEL_PORT [ports], by switch and port; empty where no labels are taken."""
        with self._lock:
            reader, now = self._attached(), time.monotonic()
            if reader is None:
                return np.zeros(0, LABEL_PORT)
            if now >= self._until:
                ports = reader.ports()
                self._ports = ports[np.lexsort((ports["port"], ports["node_id"]))]
                self._until = time.monotonic() + max(FRESH_SECONDS, 10 * (time.monotonic() - now))
            return self._ports

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
