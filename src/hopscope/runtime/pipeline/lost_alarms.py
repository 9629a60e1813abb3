"""Ends the alarms of a collector that was killed: its live state is lost, so nothing else ends them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from ...base.plural import plural
from ...detect.records import ClearReason, Kind
from ...history.errors import HistoryError
from ...history.writing.journal import JournalWriter

_QUERY_BYTES = 256 * 1024**2


def end_alarms(folder: Path, queue_by_port: bool, notify: Callable[[str], object]) -> None:
    """Write CLEARED, with the reason `stopped`, for each alarm that history has not ended, at the time of the
    newest event: as if the collector had been stopped. No collector may use the folder. Imports DuckDB.
    """
    from ...history.columns import records_of
    from ...history.query import History
    from ...present.alarms import open_in_history

    try:
        history = History(folder, memory_bytes=_QUERY_BYTES, threads=1)
        try:
            events = open_in_history(history, queue_by_port)
            newest = records_of(history.events(limit=1).columns)
        finally:
            history.close()
        events["kind"], events["reason"] = Kind.CLEARED, ClearReason.STOPPED
        events["time_ns"] = newest["time_ns"].max(initial=0)
        events["previous"] = events["switch_ns"] = 0
        for shard in np.unique(events["shard"]).tolist():
            with JournalWriter(folder, shard) as journal:
                journal.append(events[events["shard"] == shard])
    except HistoryError as error:
        notify(f"{error}: alarms that were open when the collector was killed do not end")
        return
    if len(events):
        notify(f"{plural(len(events), 'alarm')} ended, because the collector was killed")
