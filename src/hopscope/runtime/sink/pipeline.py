"""The pipeline of a sink: packets instead of reports, and reports of its own to another collector."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...detect.sink.detector import SinkDetector
from ...export.counters import read_counters
from ...settings.collector import Settings
from ...wire.records import FrameBatch, Records, ReportBatch
from ..pipeline import Pipeline

if TYPE_CHECKING:
    from ...wire.dialect import Dialect
    from .reports import SinkReporter


LAG_NS = 1_000_000_000
"""How often the destinations are looked at."""


class Lag:
    """Whether destinations that take what they are given do not take all of it: `folder` is a data folder.

    One that is gone does not count: fewer events would not bring it back.  Webhooks do not: they have a rate.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lost: int | None = None

    def look(self) -> bool:
        """Whether events were lost since the last call, in a ring or in front of a full queue."""
        rows = read_counters(self._folder)
        rows = rows[rows["kind"] != b"webhook"]
        lost = int(rows["ring_lost_total"].sum() + rows["queue_full_total"].sum())
        before, self._lost = self._lost, lost
        return before is not None and lost > before and bool(rows["ok"].all())


class SinkPipeline(Pipeline):
    """A `Pipeline` whose detector is a `SinkDetector`; postcards are not joined, INT-MX packets only pass."""

    detector: SinkDetector

    def __init__(self, settings: Settings, **given: Any) -> None:
        super().__init__(settings, **given)
        report = settings.sink.report
        self._reporter: SinkReporter | None = None
        data: Path | None = given.get("data")
        self._lag = Lag(data) if data is not None and settings.sink.adapt.enabled else None
        self._look_ns = 0
        if report.to:
            from .reports import SinkReporter

            self._reporter = SinkReporter(report, self.detector, self.count, self.shard)

    def tick(self, now_ns: int) -> None:
        """What `Pipeline.tick` does; reports of flows that left, or are due; a look at the destinations."""
        if self._lag is not None and abs(now_ns - self._look_ns) >= LAG_NS:
            self._look_ns = now_ns
            self.detector.adaptive.note_lag(self._lag.look())
        super().tick(now_ns)
        if self._reporter is not None:
            self._reporter.tick(now_ns)

    def close(self) -> None:
        """Put all live flows into the eviction ring, report them, and close."""
        self.detector.close(time.time_ns())
        if self._reporter is not None:
            self._reporter.close()
        super().close()

    def _detection(self, settings: Settings, regions: Path | None) -> SinkDetector:
        return SinkDetector(settings, regions, self.shard, self.counters)

    def _found(self, frames: FrameBatch, batch: ReportBatch, dialect: Dialect) -> Iterator[Records]:
        yield from self.detector.update(batch)
        if self._reporter is not None:
            self._reporter.take(batch, frames)


def pipeline_of(settings: Settings, **given: Any) -> Pipeline:
    """The pipeline that the settings ask for; `given` is what `Pipeline` takes."""
    return (SinkPipeline if settings.sink.enabled else Pipeline)(settings, **given)
