"""Reads a collector's labelling ports (INT-label) and their coverage."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ...labels.state import COVERAGE, FILE_NAME, LABEL_ROW, LabelReader, LabelRule
from ...memory.region_cache import CachedRegion
from ...wire.records import Records


def spanned(rows: Records, telemetry_ns: int, since_ns: int | None = None) -> int:
    """Number of telemetry intervals from the first of COVERAGE [intervals] to the last, including missing
    ones.

    `since_ns`: count only intervals that began after it.
    """
    begins = rows["begin_ns"] // telemetry_ns
    if not len(begins):
        return 0
    first = int(begins[0])
    if since_ns is not None:
        first = max(first, since_ns // telemetry_ns + 1)
    return max(0, int(begins[-1]) - first + 1)


class Labels(CachedRegion[LabelReader]):
    """The region of the process that receives labels; `copy` has LABEL_ROW [ports], by switch and port."""

    def __init__(self, regions: Path) -> None:
        super().__init__(regions / FILE_NAME, LabelReader.attach, _ports, LABEL_ROW)

    def about(self) -> LabelRule | None:
        """The configured labelling; None if no labels are collected."""
        with self._lock:
            reader = self._attached()
            return None if reader is None else reader.about()

    def ports(self) -> Records:
        """LABEL_ROW [ports], by switch and port; empty if no labels are collected."""
        return self.copy()[1]

    def coverage(self, last: int) -> Records:
        """COVERAGE of at most the newest `last` telemetry intervals, the oldest first."""
        with self._lock:
            reader = self._attached()
            return np.zeros(0, COVERAGE) if reader is None else reader.coverage(last)

    def mean_coverage(self, seconds: float = 10.0) -> float | None:
        """Mean coverage of the newest telemetry intervals with traffic; None without any."""
        about = self.about()
        if about is None:
            return None
        newest = self.coverage(max(1, round(seconds * 1e9) // about.telemetry_ns))
        busy = newest[newest["active"] > 0]
        return float((busy["reported"] / busy["active"]).mean()) if len(busy) else None


def _ports(reader: LabelReader) -> Records:
    ports = reader.ports()
    return ports[np.lexsort((ports["port"], ports["node_id"]))]
