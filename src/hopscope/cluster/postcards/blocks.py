"""Blocks of postcards from one member to another: messages, their numbering, and clock conversion.

A message is a HEADER, then `count` REPORT records, then the same number of HOP records: hop i belongs to
report i. The blocks of a sender to one receiver are numbered, so that the receiver notices drops by NATS.
Times are by the sender's clock, and the header has the time of sending. The minimum of arrival time minus
sending time is the offset of the clocks plus the shortest transmission time; the receiver adds it to convert
times to its own clock.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ...wire.dialect import Clock
from ...wire.records import HOP, REPORT, Carried, Flag, Records, ReportBatch, Spare

MAGIC = b"HPC1"
HEADER = np.dtype(
    [
        ("magic", "S4"),
        ("report_bytes", "<u2"),
        ("hop_bytes", "<u2"),
        ("session", "<u8"),  # random, of the sender's process
        ("number", "<u8"),  # number of the block to this receiver, from 0
        ("postcards", "<u8"),  # postcards sent to this receiver before this block
        ("sent_ns", "<i8"),
        ("unit_ns", "<u8"),  # the clock of the dialect, see `wire.dialect.Clock`
        ("generation", "<u8"),  # of the table of slots that was used
        ("bits", "<u4"),
        ("count", "<u4"),
        ("comparable", "u1"),
        ("reserved", "u1", (7,)),
    ]
)
"""72 bytes."""
MOST = 2048
"""Maximum number of postcards in a block: 416 KiB; NATS accepts 1 MiB."""
MAX_MISSING = 1 << 20
"""A larger jump in the block numbers is not trusted: the sender could claim anything."""
SAME_NS = 10_000_000_000
"""The clock offset is the minimum over the last 10 to 20 s."""
LATE_NS = 1_000_000_000
"""If a block arrives later than expected by this much, a clock was set, or NATS was unreachable."""
_KEPT = np.uint8(Flag.DROPPED | Flag.CONGESTED | Flag.TRACKED | Flag.INTERMEDIATE)


class BadBlockError(ValueError):
    """A message is not a block of postcards; the text says why."""


@dataclass(frozen=True, slots=True)
class PostcardBlock:
    """A block that was received."""

    header: np.void
    batch: ReportBatch

    @property
    def clock(self) -> Clock:
        """Clock of the dialect of its postcards."""
        header = self.header
        return Clock(
            unit_ns=int(header["unit_ns"]), bits=int(header["bits"]), comparable=bool(header["comparable"])
        )


class BlockWriter:
    """Numbers the blocks to one receiver."""

    def __init__(self, session: int) -> None:
        self._header = np.zeros(1, HEADER)
        self._header["magic"], self._header["session"] = MAGIC, session
        self._header["report_bytes"], self._header["hop_bytes"] = REPORT.itemsize, HOP.itemsize

    def blocks(
        self, reports: Records, hops: Records, clock: Clock, generation: int
    ) -> Iterator[tuple[bytes, int]]:
        """Yield (message, number of postcards), by time; hop i belongs to report i."""
        header = self._header
        header["unit_ns"], header["bits"] = clock.unit_ns, clock.bits
        header["comparable"], header["generation"] = clock.comparable, generation
        for at in range(0, len(reports), MOST):
            part = reports[at : at + MOST]
            header["count"], header["sent_ns"] = len(part), time.time_ns()
            yield header.tobytes() + part.tobytes() + hops[at : at + MOST].tobytes(), len(part)
            header["number"] += 1
            header["postcards"] += len(part)


def read_block(body: bytes) -> PostcardBlock:
    """Decode a message; its postcards are marked as another member's in any case. Raises BadBlockError."""
    if len(body) < HEADER.itemsize:
        raise BadBlockError(f"{len(body)} bytes")
    header = np.frombuffer(body, HEADER, 1)[0]
    if bytes(header["magic"]) != MAGIC:
        raise BadBlockError("another format")
    if (int(header["report_bytes"]), int(header["hop_bytes"])) != (REPORT.itemsize, HOP.itemsize):
        raise BadBlockError("records of another version")
    count = int(header["count"])
    expected = HEADER.itemsize + count * (REPORT.itemsize + HOP.itemsize)
    if not 0 < count <= MOST or len(body) != expected:
        raise BadBlockError(f"{len(body)} bytes for {count} postcards")
    if not 1 <= int(header["unit_ns"]) <= 10**9 or int(header["bits"]) > 64:
        raise BadBlockError("an impossible clock")
    if int(header["sent_ns"]) < 0:  # keeps computations within 64 bits
        raise BadBlockError("an impossible time")
    words = np.frombuffer(body, np.uint64, offset=HEADER.itemsize).copy()
    middle = count * REPORT.itemsize // 8
    reports, hops = words[:middle].view(REPORT), words[middle:].view(HOP)
    reports["first_hop"] = np.arange(count)
    reports["hop_count"], reports["reason"], reports["spare"] = 0, 0, Spare.ELSEWHERE
    reports["carried"] |= np.uint8(Carried.OWN_HOP)
    reports["flags"] &= _KEPT
    return PostcardBlock(header, ReportBatch(reports, hops, postcards=True))


class Arrivals:
    """Tracks the blocks of one sender: missing ones, and the offset of its clock."""

    def __init__(self) -> None:
        self.session = -1
        self._number = self._postcards = 0
        self._least: int | None = None
        self._next: int | None = None
        self._since_ns = 0

    def missing(self, header: np.void) -> tuple[int, int] | None:
        """Blocks and postcards that were lost before this one; None: this block has already arrived."""
        number, sent = int(header["number"]), int(header["postcards"])
        if int(header["session"]) != self.session or number - self._number > MAX_MISSING:
            self.session = int(header["session"])
            self._number, self._postcards = number, sent
            self._least = None
        elif number < self._number:
            return None
        lost = number - self._number, sent - self._postcards
        lost = lost[0], min(max(0, lost[1]), lost[0] * MOST)
        self._number, self._postcards = number + 1, sent + int(header["count"])
        return lost

    def ahead_ns(self, sent_ns: int, now_ns: int) -> int:
        """The offset that converts the sender's times to this member's clock, which shows `now_ns`."""
        gap = now_ns - sent_ns
        if self._least is None or gap - self._least > LATE_NS:
            self._least, self._next, self._since_ns = gap, None, now_ns
        self._least = min(self._least, gap)
        if not 0 <= now_ns - self._since_ns < SAME_NS:
            self._least = gap if self._next is None else min(self._next, gap)
            self._next, self._since_ns = None, now_ns
        self._next = gap if self._next is None else min(self._next, gap)
        return self._least
