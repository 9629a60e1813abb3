"""What one shard keeps: counters, the journal of its events, and the ring that shows them.

Law 7: readers see events (the ring's cursor moves) only after the journal's `write()` has returned.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from ..detect.counters import COUNTERS, COUNTERS_KIND, COUNTERS_VERSION, INDEX
from ..detect.records import EVENT, EVENT_VERSION
from ..history.journal import JournalWriter, Retry
from ..history.journal_file import number_events, read_journals
from ..memory.counter_region import CounterRegion
from ..memory.region import Region
from ..memory.ring import RingWriter, resume_ring
from ..settings.collector import HistorySettings
from ..wire.records import Records


class Shard:
    """Counters, journal and ring of one worker.

    `data` is the data folder whose journal is written (None: nothing is kept), `regions` the folder of the
    mapped tables, counters and ring (None: private memory). Regions of a killed worker are continued.
    `on_events` gets every block of EVENT records once it is in the journal; `retry` and `notify` are
    the journal's. Raises HistoryError and RegionError.
    """

    def __init__(
        self,
        history: HistorySettings,
        number: int = 0,
        *,
        data: Path | None = None,
        regions: Path | None = None,
        retry: Retry | None = None,
        notify: Callable[[str], None] | None = None,
        on_events: Callable[[Records], object] | None = None,
    ) -> None:
        self.number, self.data, self.regions = number, data, regions
        self.counted = CounterRegion(
            None if regions is None else regions / f"worker-{number}.counters",
            COUNTERS_KIND, COUNTERS_VERSION, COUNTERS,
        )  # fmt: skip
        self.counters = self.counted.values
        """uint64 [COUNTERS]; kernels count into it."""
        self._ring: RingWriter | None = None
        self._journal: JournalWriter | None = None
        self._on_events = on_events
        self._failed_syncs = 0
        self._next_sequence = 0  # of events, without a journal
        if regions is not None:
            ring = resume_ring(regions / f"worker-{number}.events", EVENT, history.ring_events, EVENT_VERSION)
            self._ring = RingWriter(ring)
        if data is not None:
            self._journal = JournalWriter(
                data,
                number,
                file_bytes=history.journal_file_bytes,
                file_seconds=history.journal_file_seconds,
                fsync_seconds=history.fsync_seconds,
                retry=retry,
                notify=notify,
            )
            if self._ring is not None:
                self._show_missed(data, ring)

    def count(self, key: str, more: int) -> None:
        """Add to a counter, by its key in `detect.counters.INDEX`."""
        self.counters[INDEX[key]] += np.uint64(more)

    def write(self, events: Records) -> None:
        """Number EVENT records, journal them, then show them."""
        if self._journal is not None:
            before = self._journal.written_bytes
            self._journal.append(events)
            self.count("journal_bytes_total", self._journal.written_bytes - before)
        else:
            number_events(events, self.number, self._next_sequence)
            self._next_sequence += len(events)
        if self._ring is not None:
            self._ring.write(events)
        if self._on_events is not None:
            self._on_events(events)

    def tick(self) -> None:
        """Give the journal the chance to begin a new file, or to sync."""
        if self._journal is not None:
            self._journal.tick()
            self.count("journal_sync_failures_total", self._journal.failed_syncs - self._failed_syncs)
            self._failed_syncs = self._journal.failed_syncs

    def close(self) -> None:
        """Close the journal: everything accepted is on disk."""
        if self._journal is not None:
            self._journal.close()
            self._journal = None

    def _show_missed(self, data: Path, ring: Region) -> None:
        """Write events into a continued ring that its killed writer had journalled, but not yet shown."""
        assert self._ring is not None
        assert self._journal is not None
        last = self._ring.head - 1
        if last < 0:
            return  # a new ring: its readers begin with the next event
        shown = ring["records"][last % self._ring.capacity]["sequence"]
        if int(shown) + 1 < self._journal.next_sequence:
            events = read_journals(data)
            self._ring.write(events[(events["shard"] == self.number) & (events["sequence"] > shown)])
