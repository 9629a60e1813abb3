"""The detector process: state and events of a collector with several workers.

Reports about one flow or one queue may reach any worker. Therefore workers only decode; the detector merges
their reports in the order of reception, and runs the pipeline that a single worker would.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar

from ...base.clock import ClockSteps
from ...base.process import loop
from ...detect.counters import DETECTOR
from ...detect.merge import WAIT_NS, Merge
from ...detect.report_queue import CLOSED
from ..pipeline.mode import mode_of
from ..pipeline.shard import Shard
from ..pipeline.steps import Pipeline

if TYPE_CHECKING:
    from .child import Child

PAUSE = loop.Pause(seconds=0.0005, below=1)
CALM = loop.Pause(seconds=loop.QUICK_SECONDS, below=1)
"""Used after a silence: polling empty queues every 0.5 ms takes 5 % of a core, every 2.5 ms 2 %."""
BUSY_NS = 100_000_000
TICK_NS = 100_000_000
WORKERS_SECONDS = 5.0
"""How long workers without a supervisor may need to drain their sockets."""


def run(child: Child) -> None:
    """Role of the detector: take the workers' reports until `child.stop`, drain, close."""
    settings = child.settings
    child.started = True
    shard = Shard(
        settings.history,
        process=DETECTOR,
        data=child.data,
        regions=child.regions,
        thread=True,
        notify=child.warn,
    )
    mode = mode_of(settings)
    detector = Detector(mode.pipeline(shard), Merge(mode.queues(child.regions)), child.orphaned.is_set)
    child.report(warm=True, ready=True)
    loop.run(detector, child.stop, loop.BusyPause(detector.is_busy, PAUSE, CALM))


class Detector:
    """Takes merged reports through a pipeline."""

    received: ClassVar[Counter[str]] = Counter()
    """Empty: a detector has no listeners."""

    def __init__(
        self, pipeline: Pipeline, merge: Merge, orphaned: Callable[[], bool] = lambda: False
    ) -> None:
        """`orphaned`: whether the supervisor was killed, so that workers end at the same time as this."""
        self._pipeline, self._merge, self._orphaned = pipeline, merge, orphaned
        self._tick = loop.Timer(TICK_NS, time.monotonic_ns() + TICK_NS)
        self._clock = ClockSteps()
        self._busy_until_ns = 0

    def is_busy(self) -> bool:
        """Whether there was a report within BUSY_NS."""
        return time.monotonic_ns() < self._busy_until_ns

    @property
    def late_kernels(self) -> int:
        """How many kernels were first called by a turn, and so loaded late."""
        return loop.late_kernels()

    def turn(self) -> int:
        """Take what is complete; returns the number of reports."""
        found, now = self._take(), time.monotonic_ns()
        if found:
            self._busy_until_ns = now + BUSY_NS
        if self._tick(now) and (step_ns := self._clock.take()) is not None:
            self.tick(time.time_ns(), step_ns)
        return found

    def tick(self, now_ns: int, step_ns: int = 0) -> None:
        """Run what is due by time, but not ahead of reports that still wait for a worker."""
        self._pipeline.tick(min(now_ns, max(self._merge.horizon_ns, now_ns - WAIT_NS)), step_ns)
        self._pipeline.counted.collect(self)

    def drain(self) -> None:
        """Take all remaining reports: the workers have ended, or are ending."""
        until = time.monotonic() + WORKERS_SECONDS if self._orphaned() else 0.0
        while self._merge.horizon_ns < CLOSED and time.monotonic() < until:
            PAUSE(self.turn())
        self._take(everything=True)
        self.tick(time.time_ns())

    def close(self) -> None:
        """Close the journal."""
        self._pipeline.close()

    def _take(self, *, everything: bool = False) -> int:
        found = 0
        for batch, clock in self._merge.batches(time.monotonic_ns(), everything=everything):
            found += len(batch)
            self._pipeline.take(batch, clock)
        return found
