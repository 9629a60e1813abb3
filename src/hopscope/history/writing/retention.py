"""Deletion of files by age, total size, and free space of the disk."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

from ...base.clock import running_ns
from ...memory.data_folder import read_owner
from ...settings.history import HistorySettings
from ..files.names import BESIDE, SegmentFile, damaged_files, list_segments, note_sequence
from ..files.period_files import PeriodFile, list_files
from .space import free_bytes, kept_bytes

STEP_NS = 3600 * 10**9
"""How far the system's clock may be set forward, in all, before ages follow the machine's running time."""


class AgeClock:
    """Time that ages are counted by: the system's, but a jump of it forward makes nothing older.

    Only while the process runs: at its start the system's clock is right, or `start_clock` says how far off.
    """

    def __init__(
        self, wall: Callable[[], int] = time.time_ns, running: Callable[[], int] = running_ns
    ) -> None:
        self._wall, self._running = wall, running
        self._ahead_ns = wall() - self._running()

    def now_ns(self) -> int:
        """Nanoseconds since 1970."""
        return min(self._wall(), self._running() + self._ahead_ns + STEP_NS)


_clock = AgeClock()


def expire(
    folder: Path,
    settings: HistorySettings,
    remove: Callable[[Path], bool],
    room: int = 0,
    marks: Mapping[int, int] | None = None,
) -> Iterator[tuple[Path, SegmentFile | None, int]]:
    """Delete files archived longer ago than `keep_days`, and the oldest ones above `keep_bytes` or while less
    than `keep_free`, or `room` bytes, are free. `remove` deletes a file; False: it cannot, and the
    others are deleted without it.

    Segments, distributions, and damaged files of both and of journals are treated alike; what is beside a
    file counts with it.  With `marks`, the first sequence of each shard that a lake lacks, segments that it
    lacks do not age, and are the last to make room.  A clock that was not believed at the start
    (`start_clock`) makes nothing older.  Yields (path, segment or None, bytes) of each.
    """
    segments = {segment.path: segment for segment in list_segments(folder)}
    periods = list_files(folder)
    others = (*(file.path for file in periods), *damaged_files(folder))
    stats = {path: path.stat() for path in (*segments, *others)}
    times = {path: stat.st_mtime_ns for path, stat in stats.items()}
    _order(times, list(segments.values()))
    _order(times, periods)
    beside = {path: list(_beside(path)) for path in stats}
    sizes = {path: stat.st_size + sum(size for _, size in beside[path]) for path, stat in stats.items()}
    size = sum(sizes.values())
    free, keep = free_bytes(folder), max(room, kept_bytes(folder, settings.keep_free))
    last = {segment.shard: segment.path for segment in segments.values()}
    ahead_ns = int(read_owner(folder).get("clock_ahead_ns", 0))
    limit_ns = _clock.now_ns() - ahead_ns - int(settings.keep_days * 86_400e9)
    needed = {
        path
        for path, segment in segments.items()
        if marks is not None and segment.last >= marks.get(segment.shard, 0)
    }
    for path, stat in sorted(
        stats.items(), key=lambda item: (item[0] in needed, times[item[0]], item[0].name)
    ):
        fresh = stat.st_mtime_ns >= limit_ns or path in needed
        if fresh and size <= settings.keep_bytes and free >= keep:
            continue
        if (segment := segments.get(path)) is not None:
            try:
                note_sequence(folder, segment.shard, segment.last + 1)
            except OSError:  # a full disk
                if path == last[segment.shard]:
                    continue  # its name is all that says where the numbers go on
        if not remove(path):
            continue
        for each, _ in beside[path]:
            remove(each)
        size -= sizes[path]
        free += stat.st_blocks * 512  # some file systems free it later
        yield path, segment, sizes[path]


def _order(times: dict[Path, int], files: Sequence[SegmentFile | PeriodFile]) -> None:
    """Make no file later than those of its shard that follow it: the clock may have been set back."""
    for one, following in reversed(list(pairwise(files))):
        if one.shard == following.shard:
            times[one.path] = min(times[one.path], times[following.path])


def _beside(path: Path) -> Iterator[tuple[Path, int]]:
    """Checksum and index of a file, with their sizes."""
    for suffix in BESIDE:
        with suppress(FileNotFoundError):
            found = path.with_name(path.name + suffix)
            yield found, found.stat().st_size
