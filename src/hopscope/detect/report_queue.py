"""A bounded queue of decoded reports in shared memory: a worker puts batches, the detector takes them.

A batch is one block: its REPORT rows and its HOP rows are contiguous in two circular arrays, so the reader
gets views and nothing is copied twice. The writer publishes a block after its rows, and the reader frees a
block after the events of its reports are written. So both may be killed at any time: published blocks
remain, and reports that were being processed are processed again.

The writer never waits: it does not take a batch without room, and the caller counts the reports as lost.
"""

from __future__ import annotations

import time
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..memory.region import Region, barrier
from ..wire.dialect import Clock
from ..wire.records import HOP, REPORT, Carried, Records, ReportBatch
from .postcards.joiner import has_postcard

KIND = "report-queue"
VERSION = 1
HOPS_PER_REPORT = 4
"""Room for hops, per report on average: longer paths fill the queue earlier."""
BLOCKS = 16_384
"""Batches that can wait; at low rates each has one report."""
UNKNOWN = -(1 << 63)
"""Horizon of a worker that has not completed a turn of its loop yet."""
WAITS = UNKNOWN + 1
"""Horizon of a worker that waits for its sockets: what it receives later has a later time."""
CLOSED = (1 << 63) - 1
"""Horizon of a worker that has ended: no more reports will come."""
MARGIN_NS = 1_000_000
"""The horizon of a worker that waits is this long ago, in case it has just woken."""

BLOCK = np.dtype(
    [
        ("first_ns", "<i8"),  # receive time of its first report
        ("last_ns", "<i8"),  # … and of its last
        ("published_ns", "<i8"),  # monotonic clock
        ("reports_end", "<u8"),  # reports put so far, with those skipped where the array ends
        ("hops_end", "<u8"),  # the same of hops
        ("unit_ns", "<u8"),  # the clock of its dialect, see `wire.dialect.Clock`
        ("reports", "<u4"),
        ("hops", "<u4"),
        ("bits", "<u4"),
        ("comparable", "u1"),
        ("postcards", "u1"),  # 1: it has postcards
        ("reserved", "u1", (2,)),
    ]
)
"""One batch, 64 bytes: a cache line."""


class Block(NamedTuple):
    """A record of BLOCK."""

    first_ns: int
    last_ns: int
    published_ns: int
    reports_end: int
    hops_end: int
    unit_ns: int
    reports: int
    hops: int
    bits: int
    comparable: int
    postcards: int

    @property
    def clock(self) -> Clock:
        """The clock of its dialect, with the fields that joining postcards needs."""
        return _clock(self.unit_ns, self.bits, self.comparable)


@cache
def _clock(unit_ns: int, bits: int, comparable: int) -> Clock:
    return Clock(unit_ns=unit_ns, bits=bits, comparable=bool(comparable))


# Slots of `cursor`, each with a cache line of its own.
HEAD, FREED, DONE, FREED_REPORTS, FREED_HOPS, HORIZON = range(0, 48, 8)
"""Blocks published, blocks freed, processed rows of the next block, ends of the freed blocks, horizon."""


def queue_path(folder: Path, worker: int) -> Path:
    """File of a worker's queue in the folder of regions."""
    return folder / f"worker-{worker}.reports"


def queue_bytes(reports: int) -> int:
    """Size of a queue for this many reports."""
    return reports * (REPORT.itemsize + HOPS_PER_REPORT * HOP.itemsize) + BLOCKS * BLOCK.itemsize


def create_queue(path: Path | None, reports: int) -> Region:
    """Create an empty queue; path None: private memory. Raises RegionError."""
    region = Region.create(
        path,
        KIND,
        VERSION,
        {
            "cursor": (np.int64, 48),
            "blocks": (BLOCK, BLOCKS),
            "reports": (REPORT, reports),
            "hops": (HOP, HOPS_PER_REPORT * reports),
        },
    )
    region["cursor"][HORIZON] = UNKNOWN
    return region


def attach_queue(path: Path) -> Region:
    """Map a queue for its writer or its reader. Raises RegionError."""
    return Region.attach(path, KIND, VERSION, writable=True)


class QueueWriter:
    """The worker's end; it continues after the last published block."""

    def __init__(self, region: Region) -> None:
        self._cursor, self._blocks = region["cursor"], region["blocks"]
        self._reports, self._hops = region["reports"], region["hops"]
        head = int(self._cursor[HEAD])
        last = self._blocks[(head - 1) % len(self._blocks)]
        self._ends = (int(last["reports_end"]), int(last["hops_end"])) if head else (0, 0)
        self._waits = False
        self._cursor[HORIZON] = UNKNOWN

    @property
    def waiting(self) -> int:
        """Reports that the detector has not taken yet, including rows skipped at the end of the array."""
        return self._ends[0] - int(self._cursor[FREED_REPORTS])

    def put(self, batch: ReportBatch, clock: Clock, now_ns: int) -> int:
        """Append a batch; its times are ns by `clock`, `now_ns` is on the monotonic clock.

        Returns the number of reports that found no room. A batch larger than a quarter of the queue is
        split.
        """
        reports, hops = batch.reports, batch.hops
        if len(reports) > 1 and (len(reports) > len(self._reports) // 4 or len(hops) > len(self._hops) // 4):
            middle = len(reports) // 2
            return sum(
                self.put(_part(batch, rows), clock, now_ns) for rows in (reports[:middle], reports[middle:])
            )
        if not len(reports) or self._append(batch, clock, now_ns):
            return 0
        return len(reports)

    def advance(self, horizon_ns: int) -> None:
        """State that no later batch has a report received before `horizon_ns`, ns since the epoch."""
        barrier()
        self._cursor[HORIZON] = horizon_ns
        barrier()

    def wait(self) -> None:
        """State that nothing is received until `wake`: the horizon moves with the clock."""
        self._waits = True
        self.advance(WAITS)

    def wake(self) -> None:
        """End `wait`; does nothing otherwise."""
        if self._waits:
            self._waits = False
            self.advance(time.time_ns())

    def close(self) -> None:
        """State that no more batches will come."""
        self.advance(CLOSED)

    def _append(self, batch: ReportBatch, clock: Clock, now_ns: int) -> bool:
        cursor = self._cursor
        head = int(cursor[HEAD])
        reports_at, reports_end = _place(self._ends[0], len(batch.reports), len(self._reports))
        hops_at, hops_end = _place(self._ends[1], len(batch.hops), len(self._hops))
        if (
            head - int(cursor[FREED]) >= len(self._blocks)
            or reports_end - int(cursor[FREED_REPORTS]) > len(self._reports)
            or hops_end - int(cursor[FREED_HOPS]) > len(self._hops)
        ):
            return False
        barrier()
        _copy(batch.reports, self._reports, reports_at)
        _copy(batch.hops, self._hops, hops_at)
        self._blocks[head % len(self._blocks)] = (
            batch.reports["time_ns"][0], batch.reports["time_ns"][-1], now_ns, reports_end, hops_end,
            clock.unit_ns, len(batch.reports), len(batch.hops), clock.bits,
            clock.comparable, has_postcard(batch), 0,
        )  # fmt: skip
        self._ends = reports_end, hops_end
        barrier()
        cursor[HEAD] = head + 1
        return True


class QueueReader:
    """The detector's end; it continues with the first unprocessed row."""

    def __init__(self, region: Region) -> None:
        self._cursor, self._blocks = region["cursor"], region["blocks"]
        self._reports, self._hops = region["reports"], region["hops"]

    @property
    def horizon(self) -> int:
        """Later batches have no report received before this, ns since the epoch; CLOSED: there are none."""
        now = time.time_ns()  # read first: the worker may wake meanwhile
        horizon = int(self._cursor[HORIZON])
        return now - MARGIN_NS if horizon == WAITS else horizon

    @property
    def crowded(self) -> bool:
        """Whether the queue is more than half full."""
        cursor, head = self._cursor, int(self._cursor[HEAD])
        used = head - int(cursor[FREED])
        if not used:
            return False
        last = self._blocks[(head - 1) % len(self._blocks)]
        return bool(
            2 * used > len(self._blocks)
            or 2 * (int(last["reports_end"]) - int(cursor[FREED_REPORTS])) > len(self._reports)
            or 2 * (int(last["hops_end"]) - int(cursor[FREED_HOPS])) > len(self._hops)
        )

    def __len__(self) -> int:
        """Number of waiting blocks."""
        return int(self._cursor[HEAD]) - int(self._cursor[FREED])

    def block(self, number: int = 0) -> Block:
        """A waiting block: 0 is the oldest."""
        at = (int(self._cursor[FREED]) + number) % len(self._blocks)
        return Block(*self._blocks[at].item()[:-1])

    def done(self, number: int = 0) -> int:
        """Number of rows of a waiting block that are processed already."""
        return 0 if number else int(self._cursor[DONE])

    def batch(self, block: Block, start: int, stop: int) -> ReportBatch:
        """Rows `start` to `stop` of a block with all its hops, as views that are valid until it is freed."""
        reports = (block.reports_end - block.reports) % len(self._reports)
        hops = (block.hops_end - block.hops) % len(self._hops)
        return ReportBatch(
            self._reports[reports + start : reports + stop],
            self._hops[hops : hops + block.hops],
        )

    def free(self, block: Block, stop: int) -> None:
        """Mark rows before `stop` of the oldest block as processed; free the block after its last row."""
        cursor = self._cursor
        if stop < block.reports:
            cursor[DONE] = stop
            return
        cursor[DONE] = 0
        cursor[FREED_REPORTS], cursor[FREED_HOPS] = block.reports_end, block.hops_end
        barrier()
        cursor[FREED] += 1


def _place(end: int, count: int, capacity: int) -> tuple[int, int]:
    """Where `count` contiguous rows fit after `end`: index in the array, and the new end."""
    at = end % capacity
    if at + count > capacity:
        end, at = end + capacity - at, 0
    return at, end + count


def _copy(rows: Records, to: npt.NDArray[Any], at: int) -> None:
    """Copy records as words: NumPy copies records field by field."""
    to[at : at + len(rows)].view(np.uint64)[:] = rows.view(np.uint64)


def _part(batch: ReportBatch, rows: Records) -> ReportBatch:
    """The reports `rows` of a batch, with only their hops."""
    first = int(rows["first_hop"].min())
    count = rows["hop_count"] + (rows["carried"] & np.uint8(Carried.OWN_HOP) != 0)
    stop = int((rows["first_hop"] + count).max())
    rows = rows.copy()
    rows["first_hop"] -= np.uint32(first)
    return ReportBatch(rows, batch.hops[first:stop])
