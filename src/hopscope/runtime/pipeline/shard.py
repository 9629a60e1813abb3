"""The storage of one shard: counters, the journal of its events, and the ring in which readers see them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ...base import log
from ...detect.counters import INDEX, counters_of
from ...detect.evidence.region import FOLDER, evidence_path, open_evidence
from ...detect.evidence.saver import EvidenceSaver, store_evidence
from ...detect.evidence.writer import Datagrams, EvidenceWriter
from ...detect.records import EVENT, EVENT_VERSION
from ...history.writing.journal import JournalWriter
from ...memory.private_file import hash_secret
from ...memory.ring import resume_ring
from ...present.counter_advice import TABLES
from ...settings.history import HistorySettings
from ...wire.records import Records, ReportBatch
from .event_writer import EventWriter, store_leftovers
from .full_tables import FullTables

Cause = tuple[ReportBatch, Datagrams]
"""Reports, and the datagrams that they came in."""


class Shard:
    """Counters, journal and ring of one worker, or of the detector of several workers.

    `data` is the data folder that gets the journal (None: no history), `regions` the folder of the mapped
    tables, counters and ring (None: private memory). Regions of a killed worker are continued.
    `process` names the counters; None: the worker with the shard's number.
    `on_events` gets every block of EVENT records after it is written; `notify` gets lines from the writer and
    about full tables; with `thread`, a separate thread writes the journal (see `event_writer`). Raises
    HistoryError and RegionError.
    """

    def __init__(
        self,
        history: HistorySettings,
        number: int = 0,
        *,
        process: str | None = None,
        data: Path | None = None,
        regions: Path | None = None,
        thread: bool = False,
        notify: Callable[[str], None] = lambda line: None,
        on_events: Callable[[Records], object] | None = None,
    ) -> None:
        self.number, self.data, self.regions = number, data, regions
        self.secret = hash_secret(data)
        """Secret of the hash functions, shared by all shards of a folder."""
        self.counted = counters_of(process or f"worker-{number}").open(regions)
        self.counters = self.counted.values
        """uint64 [COUNTERS]; kernels count into it."""
        self.count = self.counted.add
        self._on_events, self._notify = on_events, notify
        self._slots = [INDEX[key] for key in TABLES]
        self._full = FullTables(TABLES, notify, self.counters[self._slots].tolist())
        ring = self._journal = None
        if regions is not None:
            ring = resume_ring(regions / f"worker-{number}.events", EVENT, history.ring_events, EVENT_VERSION)
        if data is not None:
            self._journal = open_journal(data, number, history, notify)
        self._events = EventWriter(number, self._journal, ring, thread=thread, notify=notify)
        kept = open_evidence(regions, number, history.evidence_bytes, data)
        self._evidence = self._saver = None
        if kept is not None:
            self._evidence = EvidenceWriter(kept, history.evidence_per_second, self.count)
            if data is not None and regions is not None:
                path = evidence_path(data / FOLDER, number)
                self._saver = EvidenceSaver(kept, path, history.fsync_seconds, notify)

    @property
    def keeps_evidence(self) -> bool:
        """Whether the reports that cause notable events are kept as evidence."""
        return self._evidence is not None

    def write(self, events: Records, cause: Cause | None = None) -> None:
        """Number EVENT records, and write them to journal and ring. `cause`: the reports in which they were
        found, from which evidence is kept; the records' `sequence` says which report.
        """
        rows = None if self._evidence is None or cause is None else self._evidence.causes(events)
        self._events.write(events)
        if self._evidence is not None and cause is not None and rows is not None:
            self._evidence.keep(rows, events, *cause)
        if self._on_events is not None:
            self._on_events(events)

    def write_directly(self) -> None:
        """Have `write` wait for the disk from now on: used at the end, when nothing is forwarded."""
        self._events.end_thread()

    def tick(self) -> None:
        """Retry failed writes, begin a new journal when it is due, update counters, report full tables."""
        self._events.tick()
        self._count()
        self._full.update(self.counters[self._slots].tolist())

    def close(self) -> None:
        """Close the journal, after which all accepted events are on disk, unless it fails."""
        self._events.close()
        if self._saver is not None:
            self._saver.close()
        self._count()

    def _count(self) -> None:
        events, journal = self._events, self._journal
        if journal is None:
            return
        self.counted.put("journal_bytes_total", journal.written_bytes)
        self.counted.put("journal_sync_failures_total", journal.failed_syncs)
        self.counted.put("journal_retries_total", events.failed_writes)
        self.counted.put("journal_lost_events_total", events.lost)
        events.settle()
        self.counted.put("journal_waiting_events", events.waiting)
        self.counted.put("journal_failing", events.failing)


def open_journal(
    data: Path, number: int, history: HistorySettings, notify: Callable[[str], None]
) -> JournalWriter:
    """The journal of a shard. Raises HistoryError."""
    return JournalWriter(
        data,
        number,
        file_bytes=history.journal_file_bytes,
        file_seconds=history.journal_file_seconds,
        fsync_seconds=history.fsync_seconds,
        keep_free=history.keep_free,
        notify=notify,
    )


def keep_leftovers(folder: Path, regions: Path) -> list[Path]:
    """Write into history what a killed collector left in memory: events that waited for the disk, and
    distributions. Imports DuckDB for the latter. Returns the rings whose events the disk does not accept.
    """
    warn = log.logger("history").warning
    kept = store_leftovers(folder, regions, warn)
    store_evidence(regions, folder, warn)
    if any(regions.glob("worker-*.distributions")):
        from ...history.writing.periods import take_leftovers

        take_leftovers(folder, regions, warn)
    return kept
