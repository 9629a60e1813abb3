"""Merges the report queues of several workers into one stream, in the order in which reports were received.

A worker states a horizon: no report in its later batches was received before it. Reports up to the lowest
horizon are complete, and are merged by receive time; reports of the same time are in the order of the
workers. The horizon of a worker that waits for its sockets follows the clock. A worker that hangs or restarts
has an old horizon: the others wait for it for at most `WAIT_NS`, or until their queues are half full. Its own
reports are merged when they arrive: late, but none is lost.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import NamedTuple

import numpy as np

from ..wire.dialect import Clock
from ..wire.records import HOP, REPORT, ReportBatch
from .report_queue import CLOSED, UNKNOWN, Block, QueueReader

WAIT_NS = 200_000_000
"""Longest time that reports wait for a worker that has none."""
JOINED_REPORTS = 2048
"""Small batches are joined into one of at most this many reports."""


class _Segment(NamedTuple):
    """Rows of a block that can be processed."""

    queue: QueueReader
    block: Block
    start: int
    stop: int
    first_ns: int
    last_ns: int


class Merge:
    """One stream of report batches from several queues."""

    def __init__(self, queues: Sequence[QueueReader]) -> None:
        self._queues = queues
        self.horizon_ns = UNKNOWN
        """Receive time up to which all reports have been taken, ns since the epoch."""

    def batches(self, now_ns: int, *, everything: bool = False) -> Iterator[tuple[ReportBatch, Clock]]:
        """Yield the batches that can be processed now, each with the clock of its dialect.

        `now_ns` is on the monotonic clock. A batch is valid until the next is requested, and counts as
        processed from then on. `everything`: do not wait for any worker.
        """
        until = CLOSED if everything else self._complete(now_ns)
        found = (_segments(queue, until) for queue in self._queues if len(queue))
        segments = list(heapq.merge(*found, key=attrgetter("first_ns")))
        at = 0
        while at < len(segments):
            stop, ordered = _run(segments, at)
            run = segments[at:stop]
            batches = [queue.batch(block, start, stop) for queue, block, start, stop, _, _ in run]
            yield (batches[0] if len(run) == 1 else _joined(batches, ordered)), run[0].block.clock
            for each in run:
                each.queue.free(each.block, each.stop)
            at = stop
        self.horizon_ns = until

    def _complete(self, now_ns: int) -> int:
        """Receive time up to which the merge is complete: every worker has passed it, or was waited for."""
        until = min(
            queue.horizon for queue in self._queues
        )  # read before the blocks: they are published first
        for queue in self._queues:
            count = len(queue)
            if not count:
                continue
            late = bisect_left(range(count), now_ns - WAIT_NS, key=lambda at: queue.block(at).published_ns)
            if queue.crowded:
                late = max(late, count // 2)
            if late:  # if the clock was set back, the oldest may have a later time than the newest
                until = max(until, queue.block().last_ns, queue.block(late - 1).last_ns)
        return until


def _segments(queue: QueueReader, until: int) -> Iterator[_Segment]:
    """Rows of a queue that were received up to `until`."""
    for number in range(len(queue)):
        block, start = queue.block(number), queue.done(number)
        first, last, stop = block.first_ns, block.last_ns, block.reports
        if first > until:
            return
        if start or last > until:
            times = queue.batch(block, 0, stop).reports["time_ns"]
            if last > until:
                last, stop = until, int(np.searchsorted(times, until, side="right"))
            if stop <= start:
                return
            first = int(times[start])
        yield _Segment(queue, block, start, stop, first, last)
        if stop < block.reports:
            return


def _run(segments: Sequence[_Segment], at: int) -> tuple[int, bool]:
    """End of the segments from `at` that are joined into one batch, and whether they are in order of time.

    Small segments are joined, since each batch costs 30 us; segments with postcards are not, since their
    paths must follow their batch.
    """
    first = segments[at]
    rows, last, ordered = first.stop - first.start, first.last_ns, True
    for number in range(at + 1, len(segments)):
        each = segments[number]
        overlaps = each.first_ns < last
        rows += each.stop - each.start
        small = rows <= JOINED_REPORTS and not (first.block.postcards or each.block.postcards)
        if each.block.clock != first.block.clock or not (overlaps or small):
            return number, ordered
        last, ordered = max(last, each.last_ns), ordered and not overlaps
    return len(segments), ordered


def _joined(batches: Sequence[ReportBatch], ordered: bool) -> ReportBatch:
    """Batches joined into one, copied as words, and sorted by time unless they are `ordered`."""
    reports = np.concatenate([each.reports.view(np.uint64) for each in batches]).view(REPORT)
    hops = np.concatenate([each.hops.view(np.uint64) for each in batches]).view(HOP)
    before = np.cumsum([0, *(len(each.hops) for each in batches[:-1])])
    reports["first_hop"] += np.repeat(before, [len(each) for each in batches]).astype(np.uint32)
    if not ordered:
        order = np.argsort(reports["time_ns"], kind="stable")
        reports = reports.view(np.uint64).reshape(len(reports), -1)[order].reshape(-1).view(REPORT)
    return ReportBatch(reports, hops)
