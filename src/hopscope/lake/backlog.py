"""The events of a data folder that are not in the lake yet."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

from ..base.clock import running_ns
from ..history.follow import EventFollower


class Backlog:
    """Follows the ends of local history; only one thread may use it. HistoryError (of methods): see
    EventFollower.
    """

    def __init__(self, folder: Path) -> None:
        self._follower = EventFollower(folder)
        self.ends: dict[int, int] = {}
        """1 + the newest sequence of each shard, as of the last `look`."""
        self._oldest: dict[int, tuple[int, int, int]] = {}
        """By shard: its mark, the time of the first event from there on, and when that event was read."""

    def look(self) -> None:
        """Read the present ends of history."""
        self.ends = {shard: self._follower.end(shard) for shard in self._follower.shards()}

    def waiting(self, marks: Mapping[int, int]) -> int:
        """Number of events that are not in the lake."""
        return sum(max(0, end - marks.get(shard, 0)) for shard, end in self.ends.items())

    def age_seconds(self, marks: Mapping[int, int]) -> float:
        """Age of the oldest event that is not in the lake, by its time, or by when it was found if the clock
        has been set back since; 0 if there is none.
        """
        return max((self._age_ns(shard, marks.get(shard, 0)) for shard in self.ends), default=0) / 1e9

    def _age_ns(self, shard: int, mark: int) -> int:
        """Age of the first event from the mark on. Its time is remembered, since a
        file may have to be read.
        """
        if mark >= self.ends[shard]:
            return 0
        known = self._oldest.get(shard)
        if known is None or known[0] != mark:
            events = self._follower.read(shard, mark, 1)
            if not len(events):
                return 0
            known = self._oldest[shard] = mark, int(events["time_ns"][0]), running_ns()
        return max(time.time_ns() - known[1], running_ns() - known[2])

    def close(self) -> None:
        """Close files."""
        self._follower.close()
