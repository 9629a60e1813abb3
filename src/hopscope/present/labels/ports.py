"""Reads a collector's labelling ports (INT-label) and their coverage."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ...labels.state import COVERAGE, FILE_NAME, LABEL_ROW, LabelReader, LabelRule
from ...memory.region_cache import CachedRegion
from ...wire.records import Records

MEAN_SECONDS = 10.0


def expected_intervals(rows: Records, telemetry_ns: int) -> int:
    """Number of telemetry intervals from the first of COVERAGE [intervals] to the last, including missing
    ones.
    """
    begins = rows["begin_ns"] // telemetry_ns
    return int(begins[-1] - begins[0]) + 1 if len(begins) else 0


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

    def mean_coverage(self) -> float | None:
        """Mean coverage of telemetry intervals with traffic in the last MEAN_SECONDS; None without any."""
        about = self.about()
        if about is None:
            return None
        newest = self.coverage(max(1, round(MEAN_SECONDS * 1e9) // about.telemetry_ns))
        busy = newest[newest["active"] > 0]
        return float((busy["reported"] / busy["active"]).mean()) if len(busy) else None


def _ports(reader: LabelReader) -> Records:
    ports = reader.ports()
    return ports[np.lexsort((ports["port"], ports["node_id"]))]
