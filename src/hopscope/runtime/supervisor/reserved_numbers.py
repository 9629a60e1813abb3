"""Reserves the numbers of events that were exported and then lost from disk, for example in a power failure.

No new event may get such a number: a destination, or the lake, would take it for an event that it has.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from ...export.positions import read_positions
from ...history.errors import HistoryError
from ...history.files.names import note_sequence
from ...history.writing.journal import NUMBERS_SKIPPED, JournalWriter
from ...lake.status import read_marks
from ...settings.collector import Settings


def reserve_numbers(folder: Path, settings: Settings, notify: Callable[[str], None]) -> None:
    """Have the journals of a data folder continue after the last exported number of each shard. Call it while
    no events wait in memory for the disk.
    """
    exported: dict[int, list[int]] = {}
    if settings.lake.enabled:
        exported = {shard: [mark] for shard, mark in read_marks(folder, settings.lake).items()}
    for name in settings.destinations:
        positions = read_positions(folder, name)
        if positions is not None:
            for shard in np.flatnonzero(positions).tolist():
                exported.setdefault(shard, []).append(int(positions[shard]))
    for shard, numbers in exported.items():
        try:
            with JournalWriter(folder, shard, notify=notify) as journal:
                end = journal.next_sequence
            most = end + NUMBERS_SKIPPED  # a position above it is damaged
            following = max((number for number in numbers if number <= most), default=end)
            if following > end:
                note_sequence(folder, shard, following)
                notify(
                    f"history lacks {following - end:,} events of shard {shard} that were exported: "
                    f"its numbers go on from {following}"
                )
        except (HistoryError, OSError) as error:
            notify(f"{folder}: whether history lacks events that were exported is not known: {error}")
