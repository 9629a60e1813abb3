"""The rooms joined in one process: frames → reports → events → journal → ring, with every step counted.

A worker, `replay` and the library use the same pipeline.  Law 7: readers see events (the ring's cursor
moves) only when the journal's `write()` has returned.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt

from ..detect.counters import COUNTERS, COUNTERS_KIND, COUNTERS_VERSION, INDEX
from ..detect.distributions.region import Distributions
from ..detect.postcards.joiner import Joiner
from ..detect.records import EVENT, EVENT_VERSION
from ..history.journal import JournalWriter, Retry
from ..history.journal_file import read_journals
from ..memory.counted import open_counted
from ..memory.region import Region
from ..memory.ring import RingWriter, continue_ring
from ..settings.collector import Settings
from ..wire import timing
from ..wire.dialect import DEFAULT, Dialect
from ..wire.reasons import Place, Reason
from ..wire.records import FrameBatch, Records, ReportBatch

if TYPE_CHECKING:
    from ..wire.decode.decoder import Decoder
    from .sink.forward import Forward

_PLACES = np.array([INDEX[f"refused_places_total.{place.label}"] for place in Place if place])
_REFUSED = np.array([INDEX[f"refused_reports_total.{reason.label}"] for reason in Reason if reason])


class Detection(Protocol):
    """What keeps state of one shard and finds events in it: a `Detector`, or a `SinkDetector`."""

    next_sequence: int

    def update(self, batch: ReportBatch) -> Iterator[Records]:
        """Take reports in; yield blocks of EVENT records, each valid until the next is asked for."""

    def tick(self, now_ns: int) -> Iterator[Records]:
        """What the time brings."""


class Pipeline:
    """Decoder, joiner of postcards, detector, journal, ring and counters of one shard.

    `data` is the data folder whose journal is written (none: nothing is kept), `regions` the folder of the
    mapped tables, counters and ring (none: private memory).  Regions of a worker that died are continued.
    `seen` is called with every block of EVENT records once it is in the journal; `retry` and `notify` are the
    journal's.  Raises HistoryError and RegionError.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        shard: int = 0,
        data: Path | None = None,
        regions: Path | None = None,
        retry: Retry | None = None,
        notify: Callable[[str], None] | None = None,
        seen: Callable[[Records], object] | None = None,
    ) -> None:
        self.shard = shard
        self.counters: npt.NDArray[np.uint64] = np.zeros(len(COUNTERS), np.uint64)
        """uint64 [COUNTERS]; mapped where there is a folder of regions."""
        self._ring: RingWriter | None = None
        self._journal: JournalWriter | None = None
        self._decoders: dict[Dialect, Decoder] = {}
        self._seen = seen
        self._failed_syncs = 0
        history = settings.history
        if regions is not None:
            self.counters = open_counted(
                regions / f"worker-{shard}.counters", COUNTERS_KIND, COUNTERS_VERSION, len(COUNTERS)
            )
            ring = continue_ring(
                regions / f"worker-{shard}.events", EVENT, history.ring_events, EVENT_VERSION
            )
            self._ring = RingWriter(ring)
        if data is not None:
            self._journal = JournalWriter(
                data,
                shard,
                file_bytes=history.journal_file_bytes,
                file_seconds=history.journal_file_seconds,
                fsync_seconds=history.fsync_seconds,
                retry=retry,
                notify=notify,
            )
            if self._ring is not None:
                self._show_missed(data, ring)
        self.detector = self._detection(settings, regions)
        self._counts: Distributions | None = None
        if settings.counts_distributions and not settings.sink.enabled:  # a sink's detector counts by itself
            self._counts = Distributions(settings.distributions, regions, shard)
        self.joiner = Joiner(settings.postcards, self.counters, held=True)
        if self._journal is not None:
            self.detector.next_sequence = self._journal.next_sequence

    @property
    def distributions(self) -> Distributions | None:
        """What it counts; None: nothing."""
        return self._counts or getattr(self.detector, "distributions", None)

    def step(self, frames: FrameBatch, dialect: Dialect = DEFAULT, forward: Forward | None = None) -> int:
        """Take frames through all rooms; returns how many reports were accepted.

        `forward` gets them, and what was read in them, before anything else is done: they do not wait.
        """
        begin = time.perf_counter_ns()
        decoder = self._decoders.get(dialect)
        if decoder is None:
            from ..wire.decode.decoder import Decoder

            decoder = self._decoders[dialect] = Decoder(dialect)
        batch: ReportBatch = decoder.decode(frames)
        decoded = time.perf_counter_ns()
        if forward is not None:
            forward(frames, batch, dialect)
        accepted = self._count(frames, batch)
        timing.apply(batch, dialect.clock)
        detect_ns, journal_ns = self._keep(self._found(frames, batch, dialect))
        self._spent(decoded - begin, detect_ns, journal_ns)
        return accepted

    def tick(self, now_ns: int) -> None:
        """Pushes, expiry, silent sources and the journal's age at `now_ns` (ns since the epoch)."""
        self.count("ticks_total", 1)
        due = self._detect(self.joiner.tick(now_ns))
        detect_ns, journal_ns = self._keep(chain(due, self.detector.tick(now_ns)))
        if self._journal is not None:
            self._journal.tick()
            self.count("journal_sync_failures_total", self._journal.failed_syncs - self._failed_syncs)
            self._failed_syncs = self._journal.failed_syncs
        self._spent(0, detect_ns, journal_ns)

    def flush(self) -> None:
        """Take the postcards that still wait for others: no more reports will come."""
        detect_ns, journal_ns = self._keep(self._detect(self.joiner.flush()))
        self._spent(0, detect_ns, journal_ns)

    def count(self, key: str, more: int) -> None:
        """Add to a counter, by its key in `metrics.INDEX`."""
        self.counters[INDEX[key]] += np.uint64(more)

    def close(self) -> None:
        """Flush, and close the journal: everything accepted is on disk."""
        self.flush()
        if self._journal is not None:
            self._journal.close()
            self._journal = None

    def _show_missed(self, data: Path, ring: Region) -> None:
        """Put into a continued ring what its writer had journalled, but not shown, when it was killed."""
        assert self._ring is not None
        assert self._journal is not None
        last = self._ring.head - 1
        if last < 0:
            return  # made anew: its readers begin with what comes
        shown = ring["records"][last % self._ring.capacity]["sequence"]
        if int(shown) + 1 < self._journal.next_sequence:
            events = read_journals(data)
            self._ring.write(events[(events["shard"] == self.shard) & (events["sequence"] > shown)])

    def _count(self, frames: FrameBatch, batch: ReportBatch) -> int:
        reports = batch.reports
        reasons = np.bincount(reports["reason"], minlength=len(Reason))
        accepted = int(reasons[0])
        self.count("frames_total", len(frames))
        self.count("frame_bytes_total", int(frames.frames["length"].sum()))
        self.count("other_frames_total", batch.other)
        packets = int(np.count_nonzero((reports["version"] == 0) & (reports["reason"] == 0)))
        self.count("reports_total", accepted)
        self.count("packets_total", packets)
        self.count("hops_total", int(reports["hop_count"].sum()))
        if accepted < len(reports):
            places = np.bincount(reports["place"], minlength=len(Place))
            self.counters[_REFUSED] += reasons[1 : len(Reason)].astype(np.uint64)
            self.counters[_PLACES] += places[1 : len(Place)].astype(np.uint64)
        return accepted

    def _detection(self, settings: Settings, regions: Path | None) -> Detection:
        from ..detect.detector import Detector

        return Detector(settings.detect, regions, self.shard, self.counters)

    def _found(self, frames: FrameBatch, batch: ReportBatch, dialect: Dialect) -> Iterator[Records]:
        """Events of a batch that was decoded from `frames`."""
        return self._detect(self.joiner.update(batch, dialect.clock))

    def _detect(self, batches: Iterable[ReportBatch]) -> Iterator[Records]:
        for batch in batches:
            yield from self.detector.update(batch)
            if self._counts is not None:
                self.count("distribution_table_full_total", self._counts.update(batch))

    def _keep(self, blocks: Iterable[Records]) -> tuple[int, int]:
        """Journal, then ring; returns ns spent detecting and ns spent writing."""
        detect_ns = journal_ns = 0
        begin = time.perf_counter_ns()
        for events in blocks:
            found = time.perf_counter_ns()
            detect_ns += found - begin
            if len(events):
                self._write(events)
            begin = time.perf_counter_ns()
            journal_ns += begin - found
        return detect_ns + time.perf_counter_ns() - begin, journal_ns

    def _write(self, events: Records) -> None:
        if self._journal is not None:
            before = self._journal.written_bytes
            self._journal.append(events)
            self.count("journal_bytes_total", self._journal.written_bytes - before)
        if self._ring is not None:
            self._ring.write(events)
        if self._seen is not None:
            self._seen(events)

    def _spent(self, decode_ns: int, detect_ns: int, journal_ns: int) -> None:
        self.count("busy_decode_ns_total", decode_ns)
        self.count("busy_detect_ns_total", detect_ns)
        self.count("busy_journal_ns_total", journal_ns)
        self.count("busy_ns_total", decode_ns + detect_ns + journal_ns)
