"""Turns journals into segments, merges small segments, deletes old ones, and archives distributions by
period.

If the archive is killed, no event is lost or duplicated: a segment gets its name only when it is on disk, its
journals are removed only after that, and until then readers skip the journals that it covers (`files`).
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np

from ...memory.counter_region import CounterRegion
from ...settings.history import HistorySettings
from ...wire.records import Records
from ..columns import connect
from ..errors import DamagedError, HistoryError
from ..files.checksums import wrong_sums
from ..files.merging import may_merge
from ..files.names import (
    CUT,
    DAMAGED,
    JournalFile,
    SegmentFile,
    all_segments,
    list_journals,
    list_segments,
    note_sequence,
    orphans,
    segment_covering,
    set_aside,
    sync_folder,
)
from ..files.period_files import FOLDER, all_files, check_periods, list_files
from ..files.segment_index import index_path
from ..files.segments import check_footers, check_range, index_segment, merge_segments, write_segment
from .journal import cut_damage, set_journal_aside
from .periods import PeriodArchive
from .retention import expire
from .space import free_bytes, kept_bytes

SEGMENT_EVENTS = 1_000_000
"""Largest number of events in a segment that is made of several journals or segments."""
MERGE = 8
"""How many adjacent segments of similar size are merged: an event is rewritten log8(segments) times."""
ROUND_SECONDS = 2.0
QUIET_SECONDS = 60.0
"""A problem is reported again if it did not occur for this long."""
Marks = Callable[[], Mapping[int, int]]
"""Returns the first sequence of each shard that a lake does not have yet."""
_DIGITS = re.compile(r"\d+")


@dataclass(slots=True)
class ArchiveResult:
    """Results of a round."""

    segments: int = 0
    """Segments written from journals."""
    events: int = 0
    """Events in them."""
    journals: int = 0
    """Journals removed after their events were in segments."""
    periods: int = 0
    """Files of distributions written."""
    merged: int = 0
    """Segments merged into a larger one."""
    expired_segments: int = 0
    """Segments deleted because of their age, the total size, or a full disk."""
    expired_events: int = 0
    """Events in them."""
    expired_damaged: int = 0
    """Files deleted that had been set aside as damaged."""
    expired_bytes: int = 0
    """Bytes of these segments and files, and of deleted distributions."""
    undeleted: int = 0
    """Deletions that failed, for example of write-protected files; the next round tries again."""
    quarantined: int = 0
    """Damaged files renamed to NAME.damaged."""
    failures: int = 0
    """Segments that could not be written, damaged files that could not be set aside or repaired, and rounds
    that ended early; the next round tries again.
    """


def run(
    folder: Path,
    settings: HistorySettings,
    stop: Callable[[], bool],
    notify: Callable[[str], None] = lambda line: None,
    regions: Path | None = None,
    period_seconds: float = 10.0,
    marks: Marks | None = None,
    counters: CounterRegion | None = None,
) -> ArchiveResult:
    """Archive `folder` until `stop()` returns true; returns the results of all rounds, which are also shown
    in `counters` (of HISTORY_COUNTERS). `notify` gets log lines, each once. `marks`: see `retention.expire`.

    The workers' distributions in `regions` are archived every period, and at the end.
    """
    total = ArchiveResult()
    before: dict[str, float] = {}
    lines: list[str] = []
    periods = None
    if regions is not None:
        periods = PeriodArchive(folder, regions, period_seconds, lines.append, settings)

    def attempt(work: Callable[[], object]) -> None:
        try:
            work()
        except (HistoryError, OSError) as error:
            lines.append(str(error))
            total.failures += 1

    while not stop():
        attempt(lambda: archive_once(folder, settings, lines.append, marks, total))
        if counters is not None:
            counters.collect(total)
        until = time.monotonic() + ROUND_SECONDS
        while not stop() and time.monotonic() < until:
            if periods is not None:
                attempt(lambda: _locked(folder, periods.tick))
            time.sleep(0.1)
        now = time.monotonic()
        for line in lines:  # a full disk is reported once, not for every file
            problem = _DIGITS.sub("", line)
            if now - before.get(problem, -QUIET_SECONDS) >= QUIET_SECONDS:
                notify(line)
            before[problem] = now
        lines.clear()
    if periods is not None:
        attempt(lambda: _locked(folder, periods.take))
        total.periods = periods.written
    for line in lines:
        notify(line)
    return total


def _locked(folder: Path, take: Callable[[int], None]) -> None:
    with _exclusive(folder):
        take(time.time_ns())


def archive_once(
    folder: Path,
    settings: HistorySettings,
    notify: Callable[[str], None] = lambda line: None,
    marks: Marks | None = None,
    result: ArchiveResult | None = None,
) -> ArchiveResult:
    """Run one round over a data folder, and add its results to `result`. HistoryError: another process
    archives the folder, or a file is not ours.
    """
    folder = Path(folder)
    result = result or ArchiveResult()
    if not (folder / "journal").is_dir():
        return result
    (folder / "segments").mkdir(exist_ok=True)
    with _exclusive(folder):
        for part in [*(folder / "segments").glob("*.part"), *(folder / FOLDER).glob("*.part")]:
            _remove(part, result, notify)
        damaged = _quarantine(folder, result, notify)
        if not damaged:  # else a damaged segment may cover files that are the only copy
            _remove_covered(folder, result, notify)
        for orphan in [*orphans(folder / "segments"), *orphans(folder / FOLDER)]:
            _remove(orphan, result, notify)
        _expire(folder, settings, result, notify, marks)
        try:
            _archive_journals(folder, result, notify)
            _merge(folder, settings, result, damaged)
            _index(folder, notify, damaged)
        except HistoryError as error:
            result.failures += 1
            notify(str(error))
            room = _journal_bytes(folder) if kept_bytes(folder, settings.keep_free) else 0
            _expire(folder, settings, result, notify, marks, room)
        else:
            _expire(folder, settings, result, notify, marks)
    return result


def _remove(path: Path, result: ArchiveResult, notify: Callable[[str], None]) -> bool:
    """Delete a file if it still exists. False: it cannot be deleted, which is logged and counted."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        result.undeleted += 1
        notify(f"{path} cannot be deleted: {error.strerror}")
        return False
    return True


def _journal_bytes(folder: Path) -> int:
    """Size of all journals. With this much free space, they can certainly be turned into segments."""
    total = 0
    for journal in list_journals(folder):
        with suppress(FileNotFoundError):
            total += journal.path.stat().st_size
    return total


_Stamp = tuple[int, int, int]
"""Modification time, size and inode of a file."""
_checked: dict[Path, _Stamp] = {}
"""Segments that this process wrote or checked."""
_damaged: dict[Path, tuple[_Stamp, str]] = {}
"""Damaged files that could not be renamed, with what is wrong: they are not checked again in every round."""


def _quarantine(folder: Path, result: ArchiveResult, notify: Callable[[str], None]) -> set[Path]:
    """Rename damaged files, so that no query reads them and no journal counts as covered. Returns those that
    cannot be renamed.
    """
    segments = {segment.path: segment for segment in all_segments(folder)}
    stamps = {path: _stamp(path) for path in (*segments, *(file.path for file in all_files(folder)))}
    known = {path: _damaged.pop(path, None) for path in stamps}
    found = {path: DamagedError(one[1]) for path, one in known.items() if one and one[0] == stamps[path]}
    fresh = [path for path in stamps if _checked.get(path) != stamps[path] and path not in found]
    if fresh:
        of_segments = [segments[path] for path in fresh if path in segments]
        found |= _check(of_segments, [path for path in fresh if path not in segments], stamps)
    left: set[Path] = set()
    for path, damage in found.items():
        segment = segments.get(path)
        rename = partial(set_aside, path) if segment is None else partial(_set_segment_aside, folder, segment)
        if not _aside(damage, rename, result, notify):
            left.add(path)
            _damaged[path] = stamps[path], str(damage)
    return left


def _check(
    segments: list[SegmentFile], periods: list[Path], stamps: Mapping[Path, _Stamp]
) -> dict[Path, DamagedError]:
    """The damaged ones of these files, with what is wrong; the others become `_checked`."""
    with connect(256 * 1024**2, threads=1) as connection:
        found = check_periods(connection, periods)
        found |= wrong_sums(path for path in periods if path not in found)
        _checked.update({path: stamps[path] for path in periods if path not in found})
        found |= check_footers(connection, [segment.path for segment in segments])
        found |= wrong_sums(segment.path for segment in segments if segment.path not in found)
        for segment in segments:
            if segment.path not in found:
                try:
                    check_range(connection, segment)
                    _checked[segment.path] = stamps[segment.path]
                except DamagedError as error:
                    found[segment.path] = error
    return found


def _set_segment_aside(folder: Path, segment: SegmentFile) -> str:
    note_sequence(folder, segment.shard, segment.last + 1)
    return set_aside(segment.path)


def _aside(
    damage: DamagedError, rename: Callable[[], str], result: ArchiveResult, notify: Callable[[str], None]
) -> bool:
    """Set a damaged file aside. False: it failed, which is logged and counted."""
    try:
        notify(f"{damage}; set aside as {rename()}")
    except OSError as error:
        result.failures += 1
        notify(f"{damage}; it cannot be set aside: {error.strerror}")
        return False
    result.quarantined += 1
    return True


def _stamp(path: Path) -> _Stamp:
    stat = path.stat()
    return stat.st_mtime_ns, stat.st_size, stat.st_ino


def _remove_covered(folder: Path, result: ArchiveResult, notify: Callable[[str], None]) -> None:
    """Finish the work of a killed archive: remove files whose events are also in a (larger) segment."""
    segments = list_segments(folder)
    for segment in all_segments(folder):
        if segment not in segments:
            _remove(segment.path, result, notify)
    for file in set(all_files(folder)) - set(list_files(folder)):
        _remove(file.path, result, notify)
    for journal in list_journals(folder):
        if segment_covering(segments, journal.shard, journal.first):
            result.journals += _remove(journal.path, result, notify)


def _archive_journals(folder: Path, result: ArchiveResult, notify: Callable[[str], None]) -> None:
    """Write each run of adjacent closed journals of a shard as a segment."""
    run: list[JournalFile] = []
    blocks: list[Records] = []
    following = -1
    segments = list_segments(folder)
    for journal in list_journals(folder):
        if segment_covering(segments, journal.shard, journal.first):
            continue  # it could not be removed
        try:
            events = _closed_events(folder, journal, notify)
        except DamagedError as error:
            _aside(error, partial(set_journal_aside, folder, journal), result, notify)
            continue
        except OSError as error:
            result.failures += 1
            notify(f"{journal.path} cannot be archived: {error.strerror}")
            continue
        if events is None:
            continue
        adjacent = bool(run) and run[-1].shard == journal.shard and journal.first == following
        if run and (not adjacent or sum(map(len, blocks)) + len(events) > SEGMENT_EVENTS):
            _archive_run(folder, run, blocks, result, notify)
            run, blocks = [], []
        run.append(journal)
        blocks.append(events)
        following = journal.first + len(events)
    if run:
        _archive_run(folder, run, blocks, result, notify)


def _archive_run(
    folder: Path,
    run: list[JournalFile],
    blocks: list[Records],
    result: ArchiveResult,
    notify: Callable[[str], None],
) -> None:
    events = np.concatenate(blocks) if len(blocks) > 1 else blocks[0]
    segment = write_segment(folder, events)
    result.segments += 1
    result.events += len(events)
    for journal in run:
        result.journals += _remove(journal.path, result, notify)
    sync_folder(folder / "journal")
    _checked[segment.path] = _stamp(segment.path)


def _closed_events(folder: Path, journal: JournalFile, notify: Callable[[str], None]) -> Records | None:
    """Events of a closed journal, without the bytes after them if it is damaged; None if it is being written
    or has no events. DamagedError: its header is damaged. OSError: it cannot be read, or the damage cannot be
    cut.

    A journal without events is kept, because its writer may be about to replace it.
    """
    import fcntl

    try:
        fd = os.open(journal.path, os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        events, _ = cut_damage(folder, journal, notify)
        return events if len(events) else None
    except (BlockingIOError, FileNotFoundError):
        return None
    finally:
        os.close(fd)


def _merge(folder: Path, settings: HistorySettings, result: ArchiveResult, damaged: set[Path]) -> None:
    while run := _mergeable([s for s in list_segments(folder) if s.path not in damaged], settings):
        needed = sum(segment.path.stat().st_size for segment in run)
        if free_bytes(folder) - needed < kept_bytes(folder, settings.keep_free):
            return  # for a moment, the disk holds the old segments and the merged one
        for path, error in wrong_sums(segment.path for segment in run).items():
            _checked.pop(path, None)  # the next round sets it aside
            raise error
        merged = merge_segments(folder, run)
        for segment in run:
            _checked.pop(segment.path, None)
        _checked[merged.path] = _stamp(merged.path)
        result.merged += len(run)


def _index(folder: Path, notify: Callable[[str], None], damaged: set[Path]) -> None:
    """Write the index of the newest segment that has none, because it was merged or is from version 0.1."""
    for segment in reversed(list_segments(folder)):
        if segment.path not in damaged and not index_path(segment.path).exists():
            try:
                index_segment(segment)
            except HistoryError as error:
                notify(str(error))
            return


def _mergeable(segments: list[SegmentFile], settings: HistorySettings) -> list[SegmentFile]:
    """MERGE adjacent segments of one shard and of similar size (within a factor of MERGE) that may be merged;
    empty if there are none.
    """
    for start in range(len(segments) - MERGE + 1):
        run = segments[start : start + MERGE]
        sizes = [segment.last - segment.first + 1 for segment in run]
        adjacent = all(a.shard == b.shard and a.last + 1 == b.first for a, b in pairwise(run))
        alike = sum(sizes) <= SEGMENT_EVENTS and max(sizes) < MERGE * max(min(sizes), 1000)
        if adjacent and alike and may_merge([segment.path for segment in run], settings):
            return run
    return []


def _expire(
    folder: Path,
    settings: HistorySettings,
    result: ArchiveResult,
    notify: Callable[[str], None],
    marks: Marks | None,
    room: int = 0,
) -> None:
    remove = partial(_remove, result=result, notify=notify)
    for path, segment, size in expire(folder, settings, remove, room, None if marks is None else marks()):
        _checked.pop(path, None)
        result.expired_bytes += size
        if segment is not None:
            result.expired_segments += 1
            result.expired_events += segment.last - segment.first + 1
        elif path.suffix in (CUT, DAMAGED):
            result.expired_damaged += 1
            notify(f"{path} had been set aside as damaged: deleted by retention")


@contextmanager
def _exclusive(folder: Path) -> Iterator[None]:
    """Hold the archive's lock."""
    import fcntl  # not on Windows, where history can be read but not written

    fd = os.open(folder / "segments" / "archive.lock", os.O_RDWR | os.O_CREAT, 0o640)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise HistoryError(f"another process archives {folder}") from error
        yield
    finally:
        os.close(fd)
