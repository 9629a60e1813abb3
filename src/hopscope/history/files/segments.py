"""Parquet segments. A segment holds a range of a shard's events; it is written once and never changed.

Its rows are in the order of `sorting`; those of earlier versions are in sequence.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

from ...detect.records import EVENT, EVENT_VERSION, NO_NODE, NO_PORT, PATH_PART, ClearReason, Kind, Metric
from ...wire.records import Records
from ..columns import NAMES, connect, quoted
from ..errors import DamagedError, HistoryError
from .arrow_stream import Column, ColumnStream
from .checksums import archived, write_sum, wrong_sums
from .event_batches import columns_of
from .names import SegmentFile, segment_path, sync_folder
from .segment_index import CHUNK_EVENTS, ROW, IndexWriter, Part, chunks_of
from .sorting import SORTED_EVENTS, order_by_flow

ZSTD = "COMPRESSION zstd, COMPRESSION_LEVEL 1"
"""How files are compressed. The default level, 3, takes 18 % more CPU time for the same size."""
ENCODINGS = "PARQUET_VERSION V2"
"""Numbers are stored as differences (DELTA_BINARY_PACKED), then compressed. Files with version 1 of the
encodings are 9 % larger, and take 7 % more CPU time to write and 20 to 100 % more to read.
"""
VERSION_KEY = "hopscope_event_version"
READ_ROWS = 4 * CHUNK_EVENTS
"""Rows that are read at a time to merge a segment."""
_BLOCK_ROWS = 4096
"""Rows that become records together: they stay in the cache, which takes a fourth of the time of 262,144."""
_BYTES = np.dtype(f"V{EVENT.itemsize}")
"""EVENT as bytes: NumPy copies these rows in a sixth of the time."""
_MEMORY_BYTES = 2 * 1024**3
_SPARE = 1.5
"""Segments are scanned together, in the ranges of all, if these have at most so many times more rows than are
needed: planning another scan takes 1 ms with DuckDB 1.5 and 3 ms with 2.0. A flow is at about the same place
in each segment.
"""
Range = tuple[str, int, int]
"""A column, and its first and last value."""


def write_segment(folder: Path, events: Records) -> SegmentFile:
    """Write EVENT records [n ≥ 1] of one shard, in sequence, as a segment of the data folder `folder`.

    The file gets its name once it is on disk. HistoryError: the disk is full, or the folder is not writable;
    no file remains.
    """
    shard, first, last = int(events["shard"][0]), int(events["sequence"][0]), int(events["sequence"][-1])
    target = SegmentFile(shard, first, last, segment_path(folder, shard, first, last))
    _write(target, chunks_of(events, SORTED_EVENTS))
    return target


def index_segment(segment: SegmentFile) -> None:
    """Write the missing index of a segment, whose events are read for it. HistoryError: it failed."""
    index, count = IndexWriter(), segment.last + 1 - segment.first
    with connect(_MEMORY_BYTES, threads=1) as connection:
        try:
            for begin in range(0, count, CHUNK_EVENTS):
                end = min(begin + CHUNK_EVENTS, count)
                events = _read(connection, segment.path, f"{ROW} >= {begin} AND {ROW} < {end}")
                if len(events) != end - begin:
                    raise DamagedError(
                        f"{segment.path} is damaged: it does not have the events that its name says"
                    )
                index.add(events)
            index.write(segment)
        except (duckdb.Error, OSError) as error:
            raise HistoryError(
                f"the index of {segment.path} cannot be written: {first_line(error)}"
            ) from error


def merge_segments(folder: Path, segments: Sequence[SegmentFile]) -> SegmentFile:
    """Merge adjacent segments into one, and remove them. HistoryError: it failed.

    The next round of the archive removes those that cannot be removed now.
    """
    times = archived(segment.path for segment in segments)
    shard, first, last = segments[0].shard, segments[0].first, segments[-1].last
    target = SegmentFile(shard, first, last, segment_path(folder, shard, first, last))
    _write(target, _joined_runs(segments), times)
    for segment in segments:
        with suppress(OSError):
            segment.path.unlink()
    sync_folder(target.path.parent)
    return target


def segments_sql(paths: Sequence[Path], names: str = NAMES) -> str:
    """A SELECT of columns.COLUMNS (or `names`) from segments; columns that segments of layout 1 lack are
    NULL.
    """
    listed = ", ".join(quoted(path) for path in paths)
    return union_sql([f"FROM read_parquet([{listed}], union_by_name = true, file_row_number = true)"], names)


def parts_sql(parts: Sequence[Part], names: str = NAMES) -> str:
    """A SELECT of columns.COLUMNS (or `names`) from parts of segments. Whole segments come first, the newest
    before older ones: `ORDER BY time DESC LIMIT 100` over 6 million events then takes 0.3 s instead of 2 s,
    because DuckDB skips older rows.

    It may have rows between the parts, see _SPARE.
    """
    whole: list[Path] = []
    shards: dict[int, dict[SegmentFile, list[Range]]] = {}
    for segment, of_segment in groupby(sorted(parts, key=_place), key=lambda part: part.segment):
        ranges = _joined(part.range for part in of_segment)
        if len(ranges) == 1 and ranges[0][2] - ranges[0][1] >= segment.last - segment.first:
            whole.append(segment.path)
        else:
            shards.setdefault(segment.shard, {})[segment] = ranges
    arms: list[str] = []
    for segments in shards.values():
        of_all = _joined(sorted(each for ranges in segments.values() for each in ranges))
        needed = sum(map(_count, segments.values()))
        if of_all[0][0] == of_all[-1][0] == ROW and len(segments) * _count(of_all) <= _SPARE * needed:
            arms.append(rows_sql(list(segments), _within(of_all)))
        else:
            arms += [rows_sql([segment], _within(ranges)) for segment, ranges in segments.items()]
    selects = [segments_sql(whole[::-1], names)] if whole else []
    return " UNION ALL ".join(selects + ([union_sql(arms, names)] if arms else []))


def files_sql(files: Sequence[SegmentFile], parts: Sequence[Part]) -> str:
    """A SELECT of columns.COLUMNS from whole files and from parts of segments."""
    shards = sorted({file.shard for file in files})
    arms = [rows_sql([file for file in files if file.shard == shard], "true") for shard in shards]
    selects = ([union_sql(arms, NAMES)] if arms else []) + ([parts_sql(parts)] if parts else [])
    return " UNION ALL ".join(selects)


def rows_sql(segments: Sequence[SegmentFile], condition: str) -> str:
    """A SELECT, for `union_sql`, of those rows of segments of one shard that meet a condition."""
    shard = f"{segments[0].shard}::USMALLINT AS shard"  # saves reading a column
    listed = ", ".join(quoted(segment.path) for segment in segments)
    source = f"read_parquet([{listed}], union_by_name = true, file_row_number = true)"
    return f"SELECT * REPLACE ({shard}) FROM {source} WHERE {condition}"


def union_sql(selects: Sequence[str], names: str) -> str:
    """A SELECT of `names` from SELECTs of rows of segments; columns that those of layout 1 lack are NULL."""
    newer = "SELECT NULL::VARCHAR AS reason, NULL::UBIGINT AS switch_ns WHERE false"
    return f"SELECT {names} FROM ({' UNION ALL BY NAME '.join([*selects, newer])})"


def _place(part: Part) -> tuple[int, int, int]:
    return part.segment.shard, part.segment.first, part.range[1]


def _joined(ranges: Iterable[Range]) -> list[Range]:
    """Ascending ranges, of which those that touch or overlap become one."""
    joined: list[Range] = []
    for column, begin, end in ranges:
        if joined and column == joined[-1][0] and begin <= joined[-1][2] + 1:
            joined[-1] = column, joined[-1][1], max(end, joined[-1][2])
        else:
            joined.append((column, begin, end))
    return joined


def _count(ranges: Sequence[Range]) -> int:
    """The number of values in ranges."""
    return sum(end + 1 - begin for _, begin, end in ranges)


def _within(ranges: Sequence[Range]) -> str:
    """A condition for the values of ascending ranges of one column: from the first to the last, and in no gap
    between two.

    Unlike `BETWEEN ... OR BETWEEN ...`, it lets DuckDB 1.5 skip the row groups in a gap, instead of comparing
    each row number of the segment with each range: 4 ms instead of 12 ms for 4 ranges of a million rows.
    """
    column, first, _ = ranges[0]
    gaps = [f"({column} <= {end} OR {column} >= {begin})" for (_, _, end), (_, begin, _) in pairwise(ranges)]
    return " AND ".join([f"{column} BETWEEN {first} AND {ranges[-1][2]}", *gaps])


def read_events(connection: duckdb.DuckDBPyConnection, path: Path, first: int, until: int) -> Records:
    """EVENT records of a segment with sequences `first` to `until` - 1, in order. duckdb.Error: it failed."""
    rows = _read(connection, path, f"sequence >= {first} AND sequence < {until}")
    in_order: Records = rows.take(np.argsort(rows["sequence"]))  # in a seventh of the time of rows[...]
    return in_order


def _joined_runs(segments: Sequence[SegmentFile]) -> Iterator[Records]:
    """Each SORTED_EVENTS of the EVENT records of adjacent segments, in sequence; valid until the next are
    asked for. HistoryError: a segment cannot be read.

    Each segment is read once; rows of the next run are kept for it.
    """
    begin, end = segments[0].first, segments[-1].last + 1
    run = np.empty(min(SORTED_EVENTS, end - begin), EVENT)
    missing, later = len(run), list[Records]()
    for events in _rows_of(segments):
        fresh = [events]
        while fresh:
            events = fresh.pop()
            at = events["sequence"] - np.uint64(begin)
            fits = at < len(run)
            run.view(_BYTES)[at[fits]] = events.view(_BYTES)[fits]
            missing -= int(np.count_nonzero(fits))
            if not fits.all():
                later.append(events.compress(~fits))
            if not missing:
                yield run
                begin += len(run)
                run = run[: end - begin]
                missing = len(run)
                fresh, later = fresh + later, []


def _rows_of(segments: Sequence[SegmentFile]) -> Iterator[Records]:
    """The EVENT records of segments in blocks, in the order of their rows. HistoryError: reading failed."""
    with connect(_MEMORY_BYTES, threads=1) as connection:
        for segment in segments:
            try:
                for begin in range(0, segment.last + 1 - segment.first, READ_ROWS):
                    rows = f"{ROW} >= {begin} AND {ROW} < {begin + READ_ROWS}"
                    yield from _read_blocks(connection, segment.path, rows)
            except duckdb.Error as error:
                raise HistoryError(f"{segment.path} cannot be merged: {first_line(error)}") from error


def _read(connection: duckdb.DuckDBPyConnection, path: Path, condition: str) -> Records:
    """EVENT records of a segment that meet a condition, in the order of its rows. duckdb.Error: it failed."""
    blocks = [block.view(_BYTES) for block in _read_blocks(connection, path, condition)]
    rows: Records = np.concatenate(blocks).view(EVENT) if blocks else np.empty(0, EVENT)
    return rows


def _read_blocks(connection: duckdb.DuckDBPyConnection, path: Path, condition: str) -> Iterator[Records]:
    """The same in blocks of _BLOCK_ROWS, the last one shorter."""
    columns = connection.execute(f"{segments_sql([path], _RAW)} WHERE {condition}").fetchnumpy()
    for begin in range(0, len(columns["sequence"]), _BLOCK_ROWS):
        part = {name: column[begin : begin + _BLOCK_ROWS] for name, column in columns.items()}
        rows = np.zeros(len(part["sequence"]), EVENT)
        for name in EVENT.names or ():
            if name in part:
                rows[name] = part[name]
        for at in range(PATH_PART):
            rows["path"][:, at] = part[f"p{at}"]
        yield rows


def parquet_sql(paths: Sequence[Path]) -> str:
    """The call of DuckDB's table function that reads these files."""
    return f"read_parquet([{', '.join(quoted(path) for path in paths)}])"


def check_footers(
    connection: duckdb.DuckDBPyConnection,
    paths: Sequence[Path],
    key: str = VERSION_KEY,
    version: int = EVENT_VERSION,
) -> dict[Path, DamagedError]:
    """Files with a damaged footer, with the error. Deleted files are left out.

    The files' metadata must have `key` with `version` or an earlier one. HistoryError: a file is not ours,
    or of a later version.
    """
    try:
        _check_versions(connection, paths, key, version)
    except (duckdb.Error, DamagedError):
        damaged = {}
        for path in paths:
            try:
                _check_versions(connection, [path], key, version)
            except DamagedError as error:
                damaged[path] = error
            except duckdb.Error as error:
                if path.exists():
                    damaged[path] = DamagedError(f"{path} is damaged: {first_line(error)}")
        return damaged
    return {}


def check_pages(connection: duckdb.DuckDBPyConnection, path: Path) -> None:
    """Read all of a segment. DamagedError: it failed, although the file still exists."""
    try:
        connection.execute(f"SELECT count(hash(e)) FROM {parquet_sql([path])} e").fetchall()
    except duckdb.Error as error:
        if path.exists():
            raise DamagedError(f"{path} is damaged: {first_line(error)}") from error


def check_range(connection: duckdb.DuckDBPyConnection, segment: SegmentFile) -> None:
    """Compare a segment with its name. DamagedError: it does not have the events that its name says."""
    source = parquet_sql([segment.path])
    try:
        found = connection.execute(f"SELECT count(*), min(sequence), max(sequence) FROM {source}").fetchone()
    except duckdb.Error as error:
        raise DamagedError(f"{segment.path} is damaged: {first_line(error)}") from error
    if found != (segment.last - segment.first + 1, segment.first, segment.last):
        raise DamagedError(f"{segment.path} is damaged: it does not have the events that its name says")


def _check_versions(
    connection: duckdb.DuckDBPyConnection, paths: Sequence[Path], key: str, expected: int
) -> None:
    listed = ", ".join(quoted(path) for path in paths)
    rows = connection.execute(f"SELECT file_name, key, value FROM parquet_kv_metadata([{listed}])").fetchall()
    versions = {name: bytes(value) for name, found, value in rows if bytes(found) == key.encode()}
    known = [str(number).encode() for number in range(1, expected + 1)]
    for path in paths:
        version = versions.get(str(path))
        if version not in known:
            for damage in wrong_sums([path]).values():
                raise damage
        if version is None:
            raise HistoryError(f"{path} is not a segment of Hopscope: move it out of the folder")
        if version not in known:
            raise HistoryError(
                f"{path} has layout {version.decode(errors='replace')}, and this version of Hopscope"
                f" reads {expected}: open the folder with the version that wrote it, or use a new one"
            )


def first_line(error: BaseException) -> str:
    """The first line of DuckDB's message."""
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__


def _write(target: SegmentFile, runs: Iterable[Records], times: tuple[int, int] | None = None) -> None:
    """Write a segment and its index. `runs`: its events in sequence, SORTED_EVENTS at a time, at the end
    fewer. `times` as in `write_parquet`.

    The newest events of a large segment, up to two chunks of its last run, stay in sequence: a page of the
    newest events takes 19 ms of CPU time instead of 43, and one of a switch 21 instead of 56, for 1 % more
    bytes of a million events.
    """
    index = IndexWriter()
    is_large = target.last - target.first >= SORTED_EVENTS

    def batches() -> Iterator[list[Column]]:
        for run in runs:
            count = len(run)
            if is_large and run["sequence"][-1] == target.last:
                count = max(0, count // CHUNK_EVENTS - 1) * CHUNK_EVENTS
            order = np.append(order_by_flow(run[:count]), np.arange(count, len(run), dtype=np.uint64))
            for begin in range(0, len(run), CHUNK_EVENTS):
                events = run.take(order[begin : begin + CHUNK_EVENTS])
                index.add(events)
                yield columns_of(events)

    stream = ColumnStream(columns_of(np.empty(0, EVENT)), batches())
    with connect(_MEMORY_BYTES, threads=1) as connection:
        connection.register("fresh", stream.capsule)
        version = VERSION_KEY, EVENT_VERSION
        try:
            write_parquet(
                connection, "FROM fresh", target.path, version, times, target.last + 1 - target.first
            )
        except HistoryError as error:
            raise stream.error or error from error
    with suppress(OSError):  # the archive writes a missing index later
        index.write(target)


def write_parquet(
    connection: duckdb.DuckDBPyConnection,
    select: str,
    path: Path,
    version: tuple[str, int],
    times: tuple[int, int] | None = None,
    rows: int | None = None,
) -> None:
    """Write the rows of a SELECT to a file, which gets its name once it is on disk.

    `version`: key and value for its metadata; `times`: as `archived` returns them (None: now); `rows`: the
    expected number of rows. HistoryError: it failed, and left nothing.
    """
    part = path.with_suffix(".part")
    options = (
        f"FORMAT parquet, {ENCODINGS}, {ZSTD}, ROW_GROUP_SIZE {CHUNK_EVENTS},"
        f" KV_METADATA {{{version[0]}: '{version[1]}'}}"
    )
    try:
        path.parent.mkdir(exist_ok=True)
        written = connection.execute(f"COPY ({select}) TO {quoted(part)} ({options})").fetchone()
        if rows is not None and written != (rows,):
            raise HistoryError(f"{path}: the events to write are not those of its name")
        if times is not None:
            os.utime(part, ns=(times[1], times[1]))
        with part.open("rb+") as file:
            os.fsync(file.fileno())
        write_sum(part, path, None if times is None else times[0])
        part.rename(path)
        sync_folder(part.parent)
    except (duckdb.Error, OSError) as error:
        raise HistoryError(f"{path} cannot be written: {first_line(error)}") from error
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)


def _codes_sql(column: str, members: Iterable[Any]) -> str:
    """SQL for the code of a label; of NULL: 0. An unknown label, such as `kind_23`, has its code in it.

    DuckDB looks up each label of a Parquet dictionary once, which takes a fourth of the time of a CASE, which
    compares the label of each row.
    """
    known = {member.value: member.label for member in members}
    labels = ", ".join(quoted(known.get(code, f"{column}_{code}")) for code in range(max(known) + 1))
    unknown = f"CASE WHEN {column} IS NOT NULL THEN TRY_CAST(split_part({column}, '_', -1) AS UTINYINT) END"
    return f"coalesce(list_position([{labels}], {column}) - 1, {unknown}, 0)::UTINYINT AS {column}"


_RAW = ", ".join(
    [
        "sequence, epoch_ns(time)::BIGINT AS time_ns, value, previous, ident, hop, hop_count, shard",
        "src_hi, src_lo, dst_hi, dst_lo, ip_version",
        *(f"coalesce({name}, 0) AS {name}" for name in ("switch_ns", "flow_id", "sport", "dport", "proto")),
        f"coalesce(node_id, {NO_NODE}) AS node_id, coalesce(port, {NO_PORT}) AS port",
        *(
            _codes_sql(name, members)
            for name, members in (("kind", Kind), ("metric", Metric), ("reason", ClearReason))
        ),
        *(
            f"CASE WHEN path IS NULL THEN 0 ELSE coalesce(path[{at + 1}], 0) END AS p{at}"
            for at in range(PATH_PART)
        ),
    ]
)
"""SQL that turns the columns of a segment into the fields of EVENT."""
