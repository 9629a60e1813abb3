"""Numbers events that would be the same point of a time series, so that none replaces another."""

from __future__ import annotations

import numpy as np

from ...base.hash_rows import hash_rows
from ...detect.places import UNKNOWN, ports_of_events
from ...detect.records import NO_NODE
from ...present.events import with_queue
from ...wire.records import Records
from ..block import EventBlock
from ..rendering import Column

WINDOW = 1 << 17
"""DuplicatePoints that are at most this many events apart get different numbers."""


class DuplicatePoints:
    """Counts, for each event, the earlier events of its shard with the same tags and time.

    Flow records have the time of the last report, but are written when the flow expires or is evicted, so
    records with the same time may be many events apart. Earlier events are counted from the last but one
    multiple of WINDOW on: the result depends only on sequences, so another process that has seen them counts
    the same.
    """

    def __init__(self) -> None:
        self._window = 0
        self._earlier = self._keys = np.empty(0, np.uint64)
        """Keys of the previous and the present window, in order."""
        self._answer: tuple[str, Column] = "", self._keys

    def of(self, block: EventBlock, records: Records) -> Column:
        """The counts for the records of a block, uint64 [n]; repeated calls return the same."""
        if block.id == self._answer[0]:
            return self._answer[1]
        windows, keys = records["sequence"] // WINDOW, _place_and_time(records)
        twins = np.zeros(len(records), np.uint64)
        for window in np.unique(windows).tolist():
            part = windows == window
            twins[part] = self._count(window, keys[part])
        self._answer = block.id, twins
        return twins

    def _count(self, window: int, keys: Column) -> Column:
        if window != self._window:
            self._earlier = self._keys if window == self._window + 1 else self._keys[:0]
            self._window, self._keys = window, self._keys[:0]
        order = np.argsort(keys, kind="stable")
        ordered = keys[order]
        before = np.searchsorted(self._keys, ordered)
        count = np.arange(len(keys)) - np.searchsorted(ordered, ordered)
        count += np.searchsorted(self._keys, ordered, "right") - before
        count += np.searchsorted(self._earlier, ordered, "right") - np.searchsorted(self._earlier, ordered)
        self._keys = np.insert(self._keys, before, ordered)
        twins = np.empty(len(keys), np.uint64)
        twins[order] = count
        return twins


def _place_and_time(records: Records) -> Column:
    """Hashes of tags and time, uint64 [n]."""
    return hash_rows(
        records["time_ns"],
        records["kind"],
        records["metric"],
        records["node_id"],
        np.where(records["node_id"] != NO_NODE, ports_of_events(records), UNKNOWN),
        np.where(with_queue(records), records["ident"], 0),
    )
