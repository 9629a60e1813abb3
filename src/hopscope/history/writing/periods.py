"""Archives the workers' distributions every period: the counts since the last period become a file.

A note beside the region, `worker-N.archived` in the folder of regions, has the counts archived so far. It is
replaced atomically, and exists as long as the region. A period is written in three steps: its file, the
note, merging of files. If the process is killed between the first two, the next one finds a file that is not
in the note, and adds it to the note, so that no value is counted twice. A period whose file could not be
written becomes part of the next one.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import duckdb
import numpy as np

from ...detect.distributions.reader import ShardCounts, attach, copy_region, shard_of
from ...detect.distributions.region import KIND
from ...detect.records import NO_PORT
from ...detect.sink.records import Measure
from ...memory.region import Region, RegionError
from ...settings.history import HistorySettings
from ..columns import connect
from ..errors import HistoryError
from ..files.checksums import check_again, wrong_sums
from ..files.period_files import Period, all_files, list_files, merge_files, mergeable, write_period
from ..files.period_note import PeriodNote, read_note, write_note
from ..files.segments import first_line, parquet_sql

_MEMORY_BYTES = 1024**3


class PeriodArchive:
    """Archives the periods of all shards of a folder of regions. `notify` gets log lines; with `settings`,
    files are merged.
    """

    def __init__(
        self,
        folder: Path,
        regions: Path,
        seconds: float,
        notify: Callable[[str], None] = lambda line: None,
        settings: HistorySettings | None = None,
    ) -> None:
        self.folder = folder
        self.regions = regions
        self.written = 0
        """Files written so far."""
        self._period_ns = int(seconds * 1e9)
        self._notify, self._settings = notify, settings
        self._due_ns = 0
        self._shards: dict[int, tuple[Region, PeriodNote]] = {}
        self._damaged: set[Path] = set()
        """Damaged files, which are not merged."""

    def tick(self, now_ns: int) -> None:
        """Archive a period, which ends at `now_ns` (ns since the epoch), if one has passed. HistoryError: see
        `take`.
        """
        if now_ns >= self._due_ns or self._due_ns > now_ns + self._period_ns:
            self._due_ns = now_ns // self._period_ns * self._period_ns + self._period_ns
            self.take(now_ns)

    def take(self, now_ns: int) -> None:
        """End the period of every shard now. HistoryError: one could not be written, and so continues."""
        failed: list[Exception] = []
        for path in sorted(self.regions.glob(f"worker-*.{KIND}")):
            try:
                self._take(path, now_ns)
            except (HistoryError, RegionError, OSError) as error:
                failed.append(error)
        if failed:
            raise HistoryError(str(failed[0])) from failed[0]
        if self._settings is not None:
            self._merge(self._settings)

    def _merge(self, settings: HistorySettings) -> None:
        while run := mergeable([f for f in list_files(self.folder) if f.path not in self._damaged], settings):
            damaged = wrong_sums(file.path for file in run)
            self._damaged |= damaged.keys()
            for path, error in damaged.items():
                self._notify(f"{error}; it is not merged")
                with suppress(OSError):
                    check_again(path)  # the archive sets it aside
            if not damaged:
                merge_files(self.folder, run)

    def _take(self, path: Path, now_ns: int) -> None:
        shard = shard_of(path)
        known = self._shards.get(shard)
        if known is not None and not known[0].is_current():
            self._end(*known, shard, now_ns)  # the old region's counts since the last period
            known = None
        if known is None:
            region = attach(path)
            self._shards[shard] = known = region, self._resume(region, shard)
        self._end(*known, shard, now_ns)

    def _end(self, region: Region, note: PeriodNote, shard: int, now_ns: int) -> None:
        counts = copy_region(region, shard)
        change = counts.since(note.counts)
        if change is None:
            self._notify(f"{region.path}: counts are lower than what history has: the period is left out")
        elif len(change.at):
            since_ns = max(0, min(note.until_ns, now_ns - 1))  # the clock may have been set back
            write_period(self.folder, change, Period(shard, note.number, since_ns, now_ns))
            note.number += 1
            self.written += 1
        note.until_ns = now_ns
        if change is None or len(change.at):
            note.counts = counts
            write_note(self.regions, note)

    def _resume(self, region: Region, shard: int) -> PeriodNote:
        """The archived part of a region: its note, completed with files that are not in the note yet."""
        files = [file for file in all_files(self.folder) if file.shard == shard]
        following = max((file.last + 1 for file in files), default=0)
        counts = copy_region(region, shard)
        note = PeriodNote(None, following, counts.made_ns)
        try:
            kept = read_note(self.regions, shard)
        except RegionError as error:
            self._notify(f"{error}: counts since the last period are left out")
            return PeriodNote(counts, following, time.time_ns())
        if kept is not None and kept.counts is not None and kept.counts.generation == counts.generation:
            note = (
                kept
                if counts.since(kept.counts) is not None
                else PeriodNote(counts, following, time.time_ns())
            )
        newer = [file.path for file in files if file.last >= note.number or note.counts is None]
        if newer:
            note = _with_files(note, counts, newer)
        note.number = max(note.number, following)
        return note


def _with_files(note: PeriodNote, counts: ShardCounts, paths: list[Path]) -> PeriodNote:
    """Add the counts in these files, as far as they are of the same region, to the note."""
    first = 0 if note.counts is None else note.number
    condition = f"generation = {counts.generation} AND number >= {first} AND shard = {counts.shard}"
    select = f"""SELECT measure, node_id, coalesce(port, {NO_PORT}), queue_id, "sum", upper, counts,
        epoch_ns("until") FROM {parquet_sql(paths)} WHERE {condition}"""
    with connect(_MEMORY_BYTES, threads=1) as connection:
        try:
            found = connection.execute(select).fetchall()
        except duckdb.Error as error:
            raise HistoryError(f"{paths[0].parent}: {first_line(error)}") from error
    if not found:
        return note
    bins = np.zeros_like(counts.bins)
    rows = counts.rows.copy()
    rows["sum"] = 0
    if note.counts is not None:
        now, then = counts.continued(note.counts)
        bins[now] = note.counts.bins[then]
        rows["sum"][now] = note.counts.rows["sum"][then]
    names = ("node_id", "port", "queue_id")
    slots = {tuple(int(row[name]) for name in names): i for i, row in enumerate(rows) if counts.at[i]}
    labels = {measure.label: measure for measure in Measure}
    for label, node, port, queue, total, upper, values, until_ns in found:
        measure = labels[label]
        note.until_ns = max(note.until_ns, until_ns)
        end_to_end = measure == Measure.END_TO_END
        slot, metric = (0, 0) if end_to_end else (slots.get((node, port, queue), -1), int(measure))
        if slot < 0:
            continue  # another queue has taken over its row
        at = np.searchsorted(counts.edges[measure], np.array(upper, np.uint64))
        bins[slot, metric, at] += np.array(values, np.uint64)
        rows["sum"][slot, metric] += np.uint64(total)
    note.counts = ShardCounts(
        counts.shard, counts.generation, counts.made_ns, counts.at, rows, bins, counts.edges
    )
    return note


def take_leftovers(folder: Path, regions: Path, notify: Callable[[str], None] = lambda line: None) -> None:
    """Archive the counts of a killed collector's workers, before its regions are emptied."""
    try:
        newest = [int(attach(path)["rows"]["last_ns"].max()) for path in regions.glob(f"worker-*.{KIND}")]
        if newest:
            PeriodArchive(folder, regions, 1.0, notify).take(min(time.time_ns(), max(newest) + 1))
    except (HistoryError, RegionError) as error:
        notify(f"{error}: distributions of the last period are left out")


def take_once(folder: Path, counts: ShardCounts) -> None:
    """Write all counts as one period, from the first to the last report. Used for replayed captures."""
    used = counts.rows["last_ns"] != 0
    if not used.any():
        return
    following = max((f.last + 1 for f in all_files(folder) if f.shard == counts.shard), default=0)
    since_ns = max(0, int(counts.rows["first_ns"][used].min()))
    until_ns = max(since_ns, int(counts.rows["last_ns"].max())) + 1
    write_period(folder, counts, Period(counts.shard, following, since_ns, until_ns))
