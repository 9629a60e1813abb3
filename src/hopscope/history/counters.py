"""Counters of the process that archives history."""

from __future__ import annotations

from ..base.counter import Counter
from ..memory.counter_region import CounterFile

HISTORY_COUNTERS = CounterFile("history.counters", "history counters", 1, (
    Counter("history_archived_events_total", "Events of journals that became segments.", of="events"),
    Counter("history_failures_total", "Failures of the archive, for example because of a full disk; its "
            "work is repeated.",
            of="failures"),
    Counter("history_expired_events_total", "Events deleted because of their age, the size of history, or a "
            "full disk.", of="expired_events"),
    Counter("history_expired_bytes_total", "Bytes deleted for the same reasons: of segments, distributions "
            "and damaged files.", of="expired_bytes"),
    Counter("history_expired_damaged_files_total", "Damaged files among the deleted files.",
            of="expired_damaged"),
    Counter("history_failed_deletions_total",
            "Failed deletions, for example of write-protected files; each is repeated.", of="undeleted"),
))  # fmt: skip
"""Counters of the process that archives history; the file is in the folder of regions."""
