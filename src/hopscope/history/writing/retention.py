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

LEAD_NS = 3600 * 10**9
"""How far the system's clock may run ahead of the machine's running time before ages follow the latter."""


class AgeClock:
    """The clock by which ages are counted: the system's, except that setting it forward makes nothing older.

    This works only while the process runs. At its start, the system's clock is taken to be right, unless
    `start_clock` says how far ahead it is.
    """

    def __init__(
        self, wall: Callable[[], int] = time.time_ns, running: Callable[[], int] = running_ns
    ) -> None:
        self._wall, self._running = wall, running
        self._ahead_ns = wall() - self._running()

    def now_ns(self) -> int:
        """Nanoseconds since 1970."""
        return min(self._wall(), self._running() + self._ahead_ns + LEAD_NS)


_clock = AgeClock()


def expire(
    folder: Path,
    settings: HistorySettings,
    remove: Callable[[Path], bool],
    room: int = 0,
    marks: Mapping[int, int] | None = None,
) -> Iterator[tuple[Path, SegmentFile | None, int]]:
    """Delete files that were archived more than `keep_days` ago; and then the oldest files while all are
    larger than `keep_bytes`, or less than `keep_free` or `room` bytes are free. `remove` deletes a file; if
    it returns False, the file is kept, and the next ones are deleted.

    Segments, distributions, and damaged files (of these and of journals) are treated alike; checksum and
    index belong to their file. `marks` are the first sequence of each shard that a lake does not have yet:
    segments from there on do not expire by age, and are the last to be deleted for room. If the clock was
    not trusted at the start, ages are counted without its error (`start_clock`). Yields (path, segment or
    None, bytes) for each deleted file.
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
            except OSError:  # the disk is full
                if path == last[segment.shard]:
                    continue  # only the name of this file says where the numbers go on
        if not remove(path):
            continue
        for belonging, _ in beside[path]:
            remove(belonging)
        size -= sizes[path]
        free += stat.st_blocks * 512  # counted here, as some file systems free it later
        yield path, segment, sizes[path]


def _order(times: dict[Path, int], files: Sequence[SegmentFile | PeriodFile]) -> None:
    """Correct times so that no file is newer than the files of its shard that follow it, in case the clock
    was set back.
    """
    for one, following in reversed(list(pairwise(files))):
        if one.shard == following.shard:
            times[one.path] = min(times[one.path], times[following.path])


def _beside(path: Path) -> Iterator[tuple[Path, int]]:
    """Checksum and index of a file, with their sizes."""
    for suffix in BESIDE:
        with suppress(FileNotFoundError):
            found = path.with_name(path.name + suffix)
            yield found, found.stat().st_size
