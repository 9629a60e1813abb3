"""Merges the report queues of several workers into one stream, in the order in which reports were received.

A worker states a horizon: none of its later batches has an earlier report.  Reports up to the lowest horizon
are complete, and are merged by receive time; reports of the same time are in the order of the workers.  A
worker that hangs or restarts has an old horizon: the others wait for it for `WAIT_NS` at most, or until their
queue is half full.  Its own reports are merged when they come: none is lost, but they are late.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import NamedTuple

import numpy as np

from ..wire.dialect import Clock
from ..wire.records import HOP, REPORT, ReportBatch
from .report_queue import CLOSED, UNKNOWN, Block, QueueReader

WAIT_NS = 200_000_000
"""Longest time that reports wait for a worker without reports."""


class _Segment(NamedTuple):
    """Rows of a block that can be processed."""

    queue: QueueReader
    block: Block
    batch: ReportBatch
    stop: int

    @property
    def first_ns(self) -> int:
        return int(self.batch.reports["time_ns"][0])

    @property
    def last_ns(self) -> int:
        return int(self.batch.reports["time_ns"][-1])


class Merge:
    """One stream of report batches from several queues."""

    def __init__(self, queues: Sequence[QueueReader]) -> None:
        self._queues = queues
        self.horizon_ns = UNKNOWN
        """Receive time up to which all reports have been taken, ns since the epoch."""

    def batches(self, now_ns: int, *, everything: bool = False) -> Iterator[tuple[ReportBatch, Clock]]:
        """Yield what can be processed now, `now_ns` on the monotonic clock, with the clock of its dialect.

        A batch is valid until the next is asked for; it counts as processed then.  `everything`: do not wait
        for any worker.
        """
        until = CLOSED if everything else self._complete(now_ns)
        segments = list(
            heapq.merge(*(_segments(queue, until) for queue in self._queues), key=attrgetter("first_ns"))
        )
        at = 0
        while at < len(segments):
            stop = at + 1
            last, clock = segments[at].last_ns, segments[at].block.clock
            while (
                stop < len(segments)
                and segments[stop].first_ns < last
                and segments[stop].block.clock == clock
            ):
                last = max(last, segments[stop].last_ns)
                stop += 1
            run = segments[at:stop]
            yield (run[0].batch if len(run) == 1 else _interleaved([each.batch for each in run])), clock
            for each in run:
                each.queue.free(each.block, each.stop)
            at = stop
        self.horizon_ns = until

    def _complete(self, now_ns: int) -> int:
        """Receive time up to which no worker has further reports, or up to which nobody waits for them."""
        until = min(queue.horizon for queue in self._queues)  # before the blocks, which are published first
        for queue in self._queues:
            if len(queue):
                oldest = queue.block()
                if now_ns - oldest.published_ns > WAIT_NS or queue.crowded:
                    until = max(until, oldest.last_ns)
        return until


def _segments(queue: QueueReader, until: int) -> Iterator[_Segment]:
    """Rows of a queue that were received up to `until`."""
    for number in range(len(queue)):
        block, start = queue.block(number), queue.done(number)
        if block.first_ns > until:
            return
        whole = queue.batch(block, 0, block.reports)
        stop = block.reports
        if block.last_ns > until:
            stop = int(np.searchsorted(whole.reports["time_ns"], until, side="right"))
        if stop <= start:
            return
        yield _Segment(queue, block, queue.batch(block, start, stop), stop)
        if stop < block.reports:
            return


def _interleaved(batches: Sequence[ReportBatch]) -> ReportBatch:
    """Batches whose times overlap as one, by time."""
    reports = np.concatenate([each.reports.view(np.uint64) for each in batches]).view(REPORT)
    hops = np.concatenate([each.hops.view(np.uint64) for each in batches]).view(HOP)
    before = np.cumsum([0, *(len(each.hops) for each in batches[:-1])])
    reports["first_hop"] += np.repeat(before, [len(each) for each in batches]).astype(np.uint32)
    order = np.argsort(reports["time_ns"], kind="stable")
    words = reports.view(np.uint64).reshape(len(reports), -1)[order]
    return ReportBatch(words.reshape(-1).view(REPORT), hops)
