"""What workers count, taken every period: the difference to what was taken before, as a file of its own.

What was taken is noted beside the region, as `worker-N.told` in the folder of regions, which is replaced in
one step: it lasts exactly as long as the region does.  A period is written in three steps: the file under its
name, the note, files merged.  Killed after the first, the next archive finds a file that the note does not
know of, and counts it as told: nothing is there twice.  A period whose file could not be written is part of
the next.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

from ..detect.distributions.reader import Counts, attach, copied, shard_of
from ..detect.distributions.region import KIND
from ..detect.records import BINS, DISTRIBUTED, DISTRIBUTION, DISTRIBUTION_VERSION, NO_PORT
from ..detect.sink.records import MEASURES, Measure
from ..memory.region import Region, RegionError
from .columns import connect
from .files import HistoryError
from .period_files import Period, all_files, list_files, merge_files, mergeable, write_period
from .segments import first_line, parquet_sql

TOLD = "told"
_MEMORY_BYTES = 1024**3


@dataclass(slots=True)
class Told:
    """What the files of a shard have of its region."""

    counts: Counts | None
    """Counts of the region when its last period ended; None: none has yet."""
    number: int
    """Of the next period."""
    until_ns: int
    """End of the last period."""


class PeriodArchive:
    """Takes the periods of all shards of a folder of regions. `notify` gets lines for a person."""

    def __init__(
        self, folder: Path, regions: Path, seconds: float, notify: Callable[[str], None] = lambda line: None
    ) -> None:
        self.folder = folder
        self.regions = regions
        self.written = 0
        """Files of periods so far."""
        self._period_ns = int(seconds * 1e9)
        self._notify = notify
        self._due_ns = 0
        self._shards: dict[int, tuple[Region, Told]] = {}

    def tick(self, now_ns: int) -> None:
        """Take a period where one has passed; `now_ns` is ns since the epoch, and ends it. HistoryError."""
        if now_ns >= self._due_ns or self._due_ns > now_ns + self._period_ns:
            self._due_ns = now_ns // self._period_ns * self._period_ns + self._period_ns
            self.take(now_ns)

    def take(self, now_ns: int) -> None:
        """End the period of every shard now. HistoryError: one could not be written; it goes on then."""
        failed: list[Exception] = []
        for path in sorted(self.regions.glob(f"worker-*.{KIND}")):
            try:
                self._take(path, now_ns)
            except (HistoryError, RegionError, OSError) as error:
                failed.append(error)
        while not failed and (run := mergeable(list_files(self.folder))):
            merge_files(self.folder, run)
        if failed:
            raise HistoryError(str(failed[0])) from failed[0]

    def _take(self, path: Path, now_ns: int) -> None:
        shard = shard_of(path)
        known = self._shards.get(shard)
        if known is not None and not known[0].is_current():
            self._end(*known, shard, now_ns)  # what was counted in the old one since
            known = None
        if known is None:
            region = attach(path)
            self._shards[shard] = known = region, self._remember(region, shard)
        self._end(*known, shard, now_ns)

    def _end(self, region: Region, told: Told, shard: int, now_ns: int) -> None:
        counts = copied(region, shard)
        change = counts.since(told.counts)
        if change is None:
            self._notify(f"{region.path}: counts are lower than what history has: the period is left out")
        elif len(change.at):
            since_ns = max(0, min(told.until_ns, now_ns - 1))  # the clock may have been set back
            write_period(self.folder, change, Period(shard, told.number, since_ns, now_ns))
            told.number += 1
            self.written += 1
        told.until_ns = now_ns
        if change is None or len(change.at):
            told.counts = counts
            write_told(self.regions, told)

    def _remember(self, region: Region, shard: int) -> Told:
        """What has been taken of a region: what is written beside it, and a file that it does not know of."""
        files = [file for file in all_files(self.folder) if file.shard == shard]
        following = max((file.last + 1 for file in files), default=0)
        counts = copied(region, shard)
        told = Told(None, following, counts.made_ns)
        try:
            kept = read_told(self.regions, shard)
        except RegionError as error:
            self._notify(f"{error}: what was counted since the last period is left out")
            return Told(counts, following, time.time_ns())
        if kept is not None and kept.counts is not None and kept.counts.generation == counts.generation:
            told = kept if counts.since(kept.counts) is not None else Told(counts, following, time.time_ns())
        newer = [file.path for file in files if file.last >= told.number or told.counts is None]
        if newer:
            told = _recovered(told, counts, newer)
        told.number = max(told.number, following)
        return told


def _recovered(told: Told, counts: Counts, paths: list[Path]) -> Told:
    """With what these files have of the same region beyond it."""
    first = 0 if told.counts is None else told.number
    wanted = f"generation = {counts.generation} AND number >= {first} AND shard = {counts.shard}"
    select = f"""SELECT measure, node_id, coalesce(port, {NO_PORT}), queue_id, "sum", upper, counts,
        epoch_ns("until") FROM {parquet_sql(paths)} WHERE {wanted}"""
    with connect(_MEMORY_BYTES, threads=1) as connection:
        try:
            found = connection.execute(select).fetchall()
        except duckdb.Error as error:
            raise HistoryError(f"{paths[0].parent}: {first_line(error)}") from error
    if not found:
        return told
    bins = np.zeros_like(counts.bins)
    rows = counts.rows.copy()
    rows["sum"] = 0
    if told.counts is not None:
        place = np.searchsorted(counts.at, told.counts.at)
        bins[place] = told.counts.bins
        rows["sum"][place] = told.counts.rows["sum"]
    names = ("node_id", "port", "queue_id")
    slots = {tuple(int(row[name]) for name in names): i for i, row in enumerate(rows) if counts.at[i]}
    labels = {measure.label: measure for measure in Measure}
    for label, node, port, queue, total, upper, values, until_ns in found:
        measure = labels[label]
        slot, metric = (0, 0) if measure == Measure.END_TO_END else (slots[node, port, queue], int(measure))
        at = np.searchsorted(counts.edges[measure], np.array(upper, np.uint64))
        bins[slot, metric, at] += np.array(values, np.uint64)
        rows["sum"][slot, metric] += np.uint64(total)
        told.until_ns = max(told.until_ns, until_ns)
    told.counts = Counts(counts.shard, counts.generation, counts.made_ns, counts.at, rows, bins, counts.edges)
    return told


def read_told(regions: Path, shard: int) -> Told | None:
    """What a shard's files have of its region; None: nothing is noted. RegionError: the note is damaged."""
    path = regions / f"worker-{shard}.{TOLD}"
    if not path.exists():
        return None
    region = Region.attach(path, TOLD, DISTRIBUTION_VERSION)
    if region.shape() != _shape(len(region["at"]) if "at" in region else 0):
        raise RegionError(f"{path}: its arrays are not those of a note of distributions")
    generation, made_ns, number, until_ns = region["note"].tolist()
    counts = Counts(
        shard,
        generation,
        made_ns,
        region["at"],
        region["rows"],
        region["bins"].reshape(-1, DISTRIBUTED, BINS),
        region["edges"].reshape(-1, BINS),
    )
    return Told(counts, number, until_ns)


def write_told(regions: Path, told: Told) -> None:
    """Note it, in one step for whoever reads. RegionError, OSError."""
    counts = told.counts
    assert counts is not None
    path = regions / f"worker-{counts.shard}.{TOLD}"
    region = Region.create(path.with_suffix(".next"), TOLD, DISTRIBUTION_VERSION, _shape(len(counts.at)))
    region["note"][:] = counts.generation, counts.made_ns, told.number, told.until_ns
    region["at"][:] = counts.at
    region["rows"][:] = counts.rows
    region["bins"][:] = counts.bins.reshape(-1)
    region["edges"][:] = counts.edges.reshape(-1)
    region.rename(path)


def _shape(used: int) -> dict[str, tuple[np.dtype[Any], int]]:
    number = np.dtype(np.uint64)
    return {
        "note": (number, 4),
        "at": (np.dtype(np.int64), used),
        "rows": (DISTRIBUTION, used),
        "bins": (number, used * DISTRIBUTED * BINS),
        "edges": (number, MEASURES * BINS),
    }


def take_leftovers(folder: Path, regions: Path, notify: Callable[[str], None] = lambda line: None) -> None:
    """Take what workers of a killed collector had counted, before its regions are emptied."""
    try:
        newest = [int(attach(path)["rows"]["last_ns"].max()) for path in regions.glob(f"worker-*.{KIND}")]
        if newest:
            PeriodArchive(folder, regions, 1.0, notify).take(min(time.time_ns(), max(newest) + 1))
    except (HistoryError, RegionError) as error:
        notify(f"{error}: distributions of the last period are left out")


def take_once(folder: Path, counts: Counts) -> None:
    """Write all that was counted as one period, by the time of the reports: of a replayed capture."""
    used = counts.rows["last_ns"] != 0
    if not used.any():
        return
    following = max((f.last + 1 for f in all_files(folder) if f.shard == counts.shard), default=0)
    since_ns = max(0, int(counts.rows["first_ns"][used].min()))
    until_ns = max(since_ns, int(counts.rows["last_ns"].max())) + 1
    write_period(folder, counts, Period(counts.shard, following, since_ns, until_ns))
