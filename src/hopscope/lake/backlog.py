"""Which events of a data folder are not in the lake yet."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

from ..history.follow import EventFollower


class Backlog:
    """Follows the ends of local history; one thread uses it. HistoryError (of methods): see EventFollower."""

    def __init__(self, folder: Path) -> None:
        self._follower = EventFollower(folder)
        self.ends: dict[int, int] = {}
        """1 + the newest sequence of each shard, at the last `look`."""
        self._oldest: dict[int, tuple[int, int]] = {}

    def look(self) -> None:
        """Look how far history goes now."""
        self.ends = {shard: self._follower.end(shard) for shard in self._follower.shards()}

    def waiting(self, marks: Mapping[int, int]) -> int:
        """Events that are not in the lake."""
        return sum(max(0, end - marks.get(shard, 0)) for shard, end in self.ends.items())

    def age_seconds(self, marks: Mapping[int, int]) -> float:
        """Age of the oldest of them by its time; 0: there is none."""
        times = [self._time_ns(shard, marks.get(shard, 0)) for shard in self.ends]
        oldest = min((time_ns for time_ns in times if time_ns is not None), default=None)
        return 0.0 if oldest is None else max(0.0, (time.time_ns() - oldest) / 1e9)

    def _time_ns(self, shard: int, mark: int) -> int | None:
        """Time of the first event from the mark on; it is read once, since that may take a file."""
        if mark >= self.ends[shard]:
            return None
        known = self._oldest.get(shard)
        if known is None or known[0] != mark:
            events = self._follower.read(shard, mark, 1)
            if not len(events):
                return None
            known = self._oldest[shard] = mark, int(events["time_ns"][0])
        return known[1]

    def close(self) -> None:
        """Close files."""
        self._follower.close()
