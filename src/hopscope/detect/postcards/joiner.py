"""Postcards of one packet joined into one path.

In INT-MX and INT-XD every node sends its own report (a postcard) about a packet. Postcards of one packet
have the same flow and the same `packet_id`, and arrive within a window. `Joiner` holds them, in fixed
memory, and emits one row per packet.

* A path is complete if the topology leads from host to host over its hops. Without a topology, it is
  complete if it has two hops or more, no TTL is missing, and its flow had no longer path in the last 10 s
  that has, in addition, a first or last hop (or any hop, if TTLs do not distinguish hops).
* Its row has Flag.JOINED, its hops in path order, and Flag.INCOMPLETE if it is not complete. A single
  postcard is emitted as it arrived, with Flag.INCOMPLETE.
* Hops are ordered by the topology, else by falling TTL, else by ingress time if clocks are comparable, else
  by arrival.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from ...base.hash_keys import hash_keys
from ...settings.postcards import PostcardSettings
from ...wire.dialect import Clock
from ...wire.records import HOP, REPORT, Carried, Flag, Mode, ReportBatch, Spare
from ..counters import COUNTERS, tally_slots
from ..links import read_links, topology
from ..records import KEYS

CARDS_PER_PACKET = 4
PATHS_PER_PACKET = 4
"""Number of flows whose longest path is remembered, per packet whose postcards can wait."""
MAX_HOPS = 64
_NO_TIME = -(1 << 63)
_OWN_HOP, _MX = int(Carried.OWN_HOP), int(Mode.MX)
PACKET = np.dtype(
    [
        ("src_hi", "<u8"),
        ("src_lo", "<u8"),
        ("dst_hi", "<u8"),
        ("dst_lo", "<u8"),
        ("l4", "<u8"),  # ports, protocol and IP version
        ("opened_ns", "<i8"),  # time of its first postcard
        ("packet_id", "<u4"),
        ("last", "<u4"),  # place of its newest postcard, which links to the one before
        ("count", "<u2"),
        ("state", "u1"),  # 0 never used, 1 waiting, 2 emitted
        ("dropped", "u1"),  # 1: a postcard reported its drop
        ("reserved", "<u4"),
    ]
)
"""A packet whose postcards wait, or were emitted recently, 64 bytes."""
LONGEST_PATH = np.dtype(
    [
        ("hash", "<u8"),
        ("last_ns", "<i8"),
        ("first", "<u4"),
        ("end", "<u4"),
        ("count", "u1"),
        ("reserved", "u1", (7,)),
    ]
)
"""The longest recent path of a flow, 32 bytes."""


class Joiner:
    """Report batches in, report batches out; other reports pass through, unchanged and in order.

    With `held`, a waiting postcard stays in its batch, with Flag.HELD: detection processes its sequence
    number and its flags at once. Without, it leaves the batch. `counters` is an array in the order of
    `counters.COUNTERS`; the joiner adds to it. The keys of the hash table are derived from `secret`. Raises
    LinksError for an invalid file `settings.links`.
    """

    def __init__(
        self,
        settings: PostcardSettings,
        counters: npt.NDArray[np.uint64] | None = None,
        *,
        held: bool = False,
        secret: bytes = b"",
    ) -> None:
        self.settings = settings
        self.counters = np.zeros(len(COUNTERS), np.uint64) if counters is None else counters
        self._held = held
        self._secret = secret
        self._topology = topology(read_links(settings.links))
        self._table: _Table | None = None

    def update(self, batch: ReportBatch, clock: Clock | None = None) -> Iterator[ReportBatch]:
        """Yield the reports that pass through, then the paths that are due by the times of the postcards.

        `clock` is the clock of the batch's dialect, already applied (`wire.timing`). With `held`, flags are
        written into the batch.
        """
        if not self.settings.enabled:
            yield batch
            return
        reports = batch.reports
        if not has_postcard(batch):
            yield batch
            return
        if self._table is None:
            self._table = _Table(self.settings, self._topology, self._secret)
        taken = np.zeros(len(reports), np.uint8)
        paths = self._table.take(batch, clock or Clock(), taken, _NO_TIME, self.counters)
        held, late = (taken == mark for mark in self._table.marks)
        elsewhere = reports["spare"] != 0
        if elsewhere.any():  # other members counted these postcards; only the paths count here
            reports["flags"][elsewhere] = np.uint8(Flag.HELD | Flag.NUMBERED)
        if self._held:
            reports["spare"][late & ~elsewhere] = Spare.COUNTED
        if not held.any():
            yield batch
        elif self._held:
            reports["flags"][held] |= np.uint8(Flag.HELD)
            yield batch
        else:
            yield ReportBatch(reports[~held], batch.hops, batch.first_packet, batch.other)
        if paths is not None:
            yield self._without_flags(paths)

    def tick(self, now_ns: int) -> Iterator[ReportBatch]:
        """Yield the paths whose window has passed at `now_ns`, on the clock of the reports' `time_ns`."""
        if self._table is not None and self._table.waits:
            none = ReportBatch(np.empty(0, REPORT), np.empty(0, HOP))
            paths = self._table.take(none, Clock(), np.empty(0, np.uint8), now_ns, self.counters)
            if paths is not None:
                yield self._without_flags(paths)

    def flush(self) -> Iterator[ReportBatch]:
        """Yield all waiting paths; to be called when no more reports will arrive."""
        if self._table is not None:
            with self._table.without_window():
                yield from self.tick(_NO_TIME)

    def _without_flags(self, paths: ReportBatch) -> ReportBatch:
        """Remove the congestion flag from paths: detection has seen it in the batches of the postcards."""
        if self._held:
            paths.reports["flags"] &= np.uint8(0xFF & ~Flag.CONGESTED)
        return paths


def has_postcard(batch: ReportBatch) -> bool:
    """Whether any report has report metadata, no stack, and an identifiable packet.

    It works on columns, since copying rows costs 180 ns each, and on plain numbers, since an operation with
    an enumeration member costs 4 us more.
    """
    if batch.postcards is not None:
        return batch.postcards
    reports = batch.reports
    count = reports["hop_count"]
    if not (count <= 1).any():
        return False
    own = (count == 0) & (reports["carried"] & _OWN_HOP != 0)
    record = (count == 1) & (reports["int_mode"] == _MX)
    return bool(((own | record) & (reports["packet_id"] != 0)).any())


class _Table:
    """Waiting postcards, in blocks of fixed size that are allocated for the first postcard."""

    def __init__(self, settings: PostcardSettings, links: tuple[Any, ...], secret: bytes) -> None:
        from ...base.kernels.jit import readonly
        from . import join_kernel

        self._kernel: Any = join_kernel
        self.marks = join_kernel.HELD_BACK, join_kernel.TOO_LATE
        packets = settings.packets
        cards = packets * CARDS_PER_PACKET
        self._ring = np.zeros(join_kernel.RING, np.uint64)
        self._ring[join_kernel.FREE] = cards
        self._clock = np.array([0, int(settings.window_ms * 1e6)], np.int64)
        self._state = (
            np.zeros(packets, PACKET),
            np.zeros(2 * packets, np.uint64),  # index: rows of eight ways
            self._ring,
            self._clock,
            hash_keys(secret, KEYS),
            np.zeros(cards, REPORT),
            np.zeros(cards, HOP),
            np.zeros(cards, np.uint32),  # links
            np.arange(cards, dtype=np.uint32)[::-1].copy(),  # free
            np.zeros(cards, np.uint64),  # periods
            np.zeros(cards, np.uint64),  # numbers
            np.zeros(PATHS_PER_PACKET * packets, LONGEST_PATH),
        )
        words = [np.zeros(MAX_HOPS, np.uint64) for _ in range(6)]
        # order, chained, nodes, nexts, ends, after, steps
        self._work = (*words, np.zeros(cards, np.int64))
        self._topology = tuple(readonly(part) for part in links)
        self._readonly = readonly
        self._tally = np.zeros(join_kernel.TALLY, np.uint64)
        self._slots, self._places = tally_slots(postcards=join_kernel)
        self._rows = np.empty(0, REPORT)
        self._hops = np.empty(0, HOP)
        self._numbers = np.empty(0, np.uint64)
        self._hop_numbers = np.empty(0, np.uint64)

    @property
    def waits(self) -> bool:
        """Whether any postcard waits."""
        return int(self._ring[self._kernel.FREE]) < len(self._state[5])

    @contextmanager
    def without_window(self) -> Iterator[None]:
        """Make all waiting paths due."""
        window = self._clock[self._kernel.WINDOW]
        self._clock[self._kernel.WINDOW] = -1
        yield
        self._clock[self._kernel.WINDOW] = window

    def take(
        self,
        batch: ReportBatch,
        clock: Clock,
        taken: npt.NDArray[np.uint8],
        until_ns: int,
        counters: npt.NDArray[np.uint64],
    ) -> ReportBatch | None:
        """Process reports, marking in `taken` those that are held back or late (`marks`); returns the paths
        that are due.
        """
        kernel, ring, tally = self._kernel, self._ring, self._tally
        waiting = int(ring[kernel.TAIL] - ring[kernel.DUE]) + len(batch)
        cards = len(self._state[5]) - int(ring[kernel.FREE]) + len(batch)
        if waiting > len(self._rows) or cards > len(self._hops):
            self._rows, self._numbers = np.empty(2 * waiting, REPORT), np.empty(2 * waiting, np.uint64)
            self._hops, self._hop_numbers = np.empty(2 * cards, HOP), np.empty(2 * cards, np.uint64)
        tally[:] = 0
        kernel.join_kernel(
            self._readonly(batch.reports),
            self._readonly(batch.hops),
            np.uint64(batch.first_packet),
            *_periods(clock),
            taken,
            np.int64(until_ns),
            *self._state,
            self._work,
            self._topology,
            self._rows,
            self._hops,
            self._numbers,
            self._hop_numbers,
            tally,
        )
        counters[self._places] += tally[self._slots]
        count, hops = int(tally[kernel.ROWS]), int(tally[kernel.HOPS])
        if not count:
            return None
        rows, numbers = self._rows[:count], self._numbers[:count]
        first = int(numbers.min())
        rows["packet"] = np.minimum(numbers - np.uint64(first), 0xFFFFFFFF)
        return ReportBatch(
            rows.copy(), self._hops[:hops].copy(), first, hop_packets=self._hop_numbers[:hops].copy()
        )


def _periods(clock: Clock) -> tuple[np.uint64, np.uint64]:
    """Time after which ingress times of 32 and 64 bits wrap, ns; 0: clocks are not comparable."""
    if not clock.comparable:
        return np.uint64(0), np.uint64(0)
    whole = (1 << 64) - 1
    narrow, wide = (
        whole if period >> 63 else period
        for period in ((1 << (clock.bits or width)) * clock.unit_ns for width in (32, 64))
    )
    return np.uint64(narrow), np.uint64(wide)
