"""New events of a data folder, as they are found."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path

from ..base.errors import HopscopeError
from ..history.follow import EventFollower, ends_of
from .batches import Events

POLL_SECONDS = 0.05
"""Interval at which the folder is searched for new events when there were none."""


class Following:
    """The events of a data folder after some positions, as `Collection.follow` returns it.

    Iterate over it to get Events, a batch of one shard at a time: a shard's events come in order and without
    gaps. It waits for new events, also while no collector runs. Several iterations, one after another,
    continue where the last one ended.
    """

    def __init__(
        self,
        folder: Path,
        positions: Mapping[int | str, int] | None,
        timeout: float | None,
        events_per_batch: int,
    ) -> None:
        if events_per_batch < 1:
            raise HopscopeError(f"events_per_batch is {events_per_batch}; expected at least 1")
        self.positions: dict[int, int] = ends_of(folder) if positions is None else _checked(positions, folder)
        """Sequence of the next event, by shard: of the events after the last batch that iteration gave. Save
        them to continue after a restart (as JSON, for example).
        """
        self.missed = 0
        """Events that retention deleted before they were read, or that the collector could not write."""
        self._folder, self._timeout, self._limit = folder, timeout, events_per_batch

    def __repr__(self) -> str:
        return f"<Following {self._folder}: {self.positions}>"

    def __iter__(self) -> Iterator[Events]:
        """Batches of new events. Raises HistoryError if a file is damaged; a further iteration continues once
        the collector has set the file aside.
        """
        with closing(EventFollower(self._folder)) as follower:
            newest = time.monotonic()
            while self._timeout is None or time.monotonic() - newest < self._timeout:
                waiting = True
                for shard in follower.shards():
                    position = self.positions.get(shard)
                    records = follower.read(shard, position or 0, self._limit)
                    if not len(records):
                        continue
                    first, last = int(records["sequence"][0]), int(records["sequence"][-1])
                    self.missed += 0 if position is None else first - position
                    self.positions[shard] = last + 1
                    waiting = False
                    yield Events(records.copy())  # the follower may show its own block again
                    newest = time.monotonic()
                if waiting:
                    time.sleep(POLL_SECONDS)


def _checked(positions: Mapping[int | str, int], folder: Path) -> dict[int, int]:
    """Positions with numbers as keys, as JSON does not have them. Raises HopscopeError, also for positions
    that the folder never had: waiting for them would skip all events before.
    """
    try:
        found = {int(shard): int(position) for shard, position in positions.items()}
    except (AttributeError, TypeError, ValueError):
        found = {-1: 0}
    if any(number < 0 for pair in found.items() for number in pair):
        raise HopscopeError(f"positions: expected numbers by shard, as {{0: 1200}}, found {positions!r}")
    with closing(EventFollower(folder)) as follower:
        for shard, position in found.items():
            if position > (end := follower.following(shard)):
                raise HopscopeError(
                    f"positions: found {position} for shard {shard}, but the events of {folder} end before "
                    f"{end}: is it another folder, or an older copy?"
                )
    return found
