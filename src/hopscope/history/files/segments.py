"""Parquet segments. A segment holds a range of a shard's events; it is written once and never changed.

Its rows are in the order of `sorting`; those of earlier versions are in sequence.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import groupby
from pathlib import Path

import duckdb
import numpy as np

from ...detect.records import EVENT, EVENT_VERSION, NO_NODE, NO_PORT, PATH_PART, ClearReason, Kind, Metric
from ...wire.records import Records
from ..columns import NAMES, connect, quoted, register
from ..errors import DamagedError, HistoryError
from .checksums import archived, write_sum, wrong_sums
from .names import SegmentFile, segment_path, sync_folder
from .segment_index import CHUNK_EVENTS, ROW, Part, write_index
from .sorting import sort_by_flow

ZSTD = "COMPRESSION zstd, COMPRESSION_LEVEL 1"
"""How files are compressed. The default level, 3, takes 18 % more CPU time for the same size."""
ENCODINGS = "PARQUET_VERSION V2"
"""Numbers are stored as differences (DELTA_BINARY_PACKED), then compressed. Files with version 1 of the
encodings are 9 % larger, and take 7 % more CPU time to write and 20 to 100 % more to read.
"""
VERSION_KEY = "hopscope_event_version"
_MEMORY_BYTES = 2 * 1024**3
_MAX_SCANS = 8
"""A scan of several ranges compares every row number of a segment with each: 12 ms for a million rows, as
long as 8 scans of one range.
"""


def write_segment(folder: Path, events: Records) -> SegmentFile:
    """Write EVENT records [n ≥ 1] of one shard, in sequence, as a segment of the data folder `folder`.

    The order of `events` is changed: a sorted copy of a million events would take 136 MB. The file gets its
    name once it is on disk. HistoryError: the disk is full, or the folder is not writable; no file is left
    behind.
    """
    return _write(folder, events, None)


def index_segment(segment: SegmentFile) -> None:
    """Write the missing index of a segment, whose events are read for it. HistoryError: it failed."""

    def chunks() -> Iterator[Records]:
        count = segment.last + 1 - segment.first
        for begin in range(0, count, CHUNK_EVENTS):
            end = min(begin + CHUNK_EVENTS, count)
            events = _read(connection, segment.path, f"{ROW} >= {begin} AND {ROW} < {end}")
            if len(events) != end - begin:
                raise DamagedError(
                    f"{segment.path} is damaged: it does not have the events that its name says"
                )
            yield events

    with connect(_MEMORY_BYTES, threads=1) as connection:
        try:
            write_index(segment, chunks())
        except (duckdb.Error, OSError) as error:
            raise HistoryError(
                f"the index of {segment.path} cannot be written: {first_line(error)}"
            ) from error


def merge_segments(folder: Path, segments: Sequence[SegmentFile]) -> SegmentFile:
    """Merge adjacent segments into one, and remove them. HistoryError: it failed.

    The next round of the archive removes those that cannot be removed now.
    """
    times = archived(segment.path for segment in segments)
    events = np.empty(segments[-1].last + 1 - segments[0].first, EVENT)
    with connect(_MEMORY_BYTES, threads=1) as connection:
        for s in segments:
            begin, end = (at - segments[0].first for at in (s.first, s.last + 1))
            try:
                events[begin:end] = read_events(connection, s.path, s.first, s.last + 1)
            except (duckdb.Error, ValueError) as error:
                raise HistoryError(f"{s.path} cannot be merged: {first_line(error)}") from error
    target = _write(folder, events, times)
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


def parts_sql(parts: Sequence[Part], names: str = NAMES, gap: int | None = None) -> str:
    """A SELECT of columns.COLUMNS (or `names`) from parts of segments. Whole segments come first, the newest
    before older ones: `ORDER BY time DESC LIMIT 100` over 6 million events then takes 0.3 s instead of 2 s,
    because DuckDB skips older rows.

    With `gap`, few rows are expected: DuckDB scans each run of parts for itself, also up to `gap` rows
    between two parts.
    """
    whole, arms = [], []
    for segment, of_segment in groupby(sorted(parts, key=_place), key=lambda part: part.segment):
        ranges = _joined(of_segment, gap or 0)
        count = segment.last + 1 - segment.first
        if len(ranges) == 1 and ranges[0][2] + 1 - ranges[0][1] >= count:
            whole.append(segment.path)
        else:
            within = [f"{column} BETWEEN {begin} AND {end}" for column, begin, end in ranges]
            is_split = gap is not None and len(within) <= _MAX_SCANS
            arms += [rows_sql(segment, one) for one in (within if is_split else [" OR ".join(within)])]
    selects = [segments_sql(whole[::-1], names)] if whole else []
    return " UNION ALL ".join(selects + ([union_sql(arms, names)] if arms else []))


def rows_sql(segment: SegmentFile, condition: str) -> str:
    """A SELECT, for `union_sql`, of those rows of a segment that meet a condition."""
    shard = f"{segment.shard}::USMALLINT AS shard"  # saves reading a column
    source = f"read_parquet({quoted(segment.path)}, file_row_number = true)"
    return f"SELECT * REPLACE ({shard}) FROM {source} WHERE {condition}"


def union_sql(selects: Sequence[str], names: str) -> str:
    """A SELECT of `names` from SELECTs of rows of segments; columns that those of layout 1 lack are NULL."""
    newer = "SELECT NULL::VARCHAR AS reason, NULL::UBIGINT AS switch_ns WHERE false"
    return f"SELECT {names} FROM ({' UNION ALL BY NAME '.join([*selects, newer])})"


def _place(part: Part) -> tuple[int, int, int]:
    return part.segment.shard, part.segment.first, part.range[1]


def _joined(parts: Iterable[Part], gap: int) -> list[tuple[str, int, int]]:
    """The range of each run of parts with at most `gap` rows between them."""
    ranges: list[tuple[str, int, int]] = []
    for column, begin, end in (part.range for part in parts):
        if ranges and begin - ranges[-1][2] <= gap + 1:
            ranges[-1] = column, ranges[-1][1], end
        else:
            ranges.append((column, begin, end))
    return ranges


def read_events(connection: duckdb.DuckDBPyConnection, path: Path, first: int, until: int) -> Records:
    """EVENT records of a segment with sequences `first` to `until` - 1, in order. duckdb.Error: it failed."""
    rows = _read(connection, path, f"sequence >= {first} AND sequence < {until}")
    in_order: Records = rows[np.argsort(rows["sequence"])]
    return in_order


def _read(connection: duckdb.DuckDBPyConnection, path: Path, condition: str) -> Records:
    """EVENT records of a segment that meet a condition, in the order of its rows. duckdb.Error: it failed."""
    columns = connection.execute(f"{segments_sql([path], _RAW)} WHERE {condition}").fetchnumpy()
    rows = np.zeros(len(columns["sequence"]), EVENT)
    for name in EVENT.names or ():
        if name in columns:
            rows[name] = columns[name]
    for at in range(PATH_PART):
        rows["path"][:, at] = columns[f"p{at}"]
    return rows


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


def _write(folder: Path, events: Records, times: tuple[int, int] | None) -> SegmentFile:
    """Write the events as a segment, as in `write_segment`; `times` as in `write_parquet`."""
    shard, first, last = int(events["shard"][0]), int(events["sequence"][0]), int(events["sequence"][-1])
    target = SegmentFile(shard, first, last, segment_path(folder, shard, first, last))
    sort_by_flow(events)
    with connect(_MEMORY_BYTES, threads=1) as connection:
        select = register(connection, "fresh", events)
        version = VERSION_KEY, EVENT_VERSION
        write_parquet(connection, select, target.path, version, times, last + 1 - first)
        with suppress(OSError, duckdb.Error):  # the archive writes a missing index later
            # a LEFT JOIN of names in `select` may change the order a little
            rows = connection.execute(segments_sql([target.path], f"sequence, {ROW}")).fetchnumpy()
            place = np.empty(len(events), np.int64)
            place[events["sequence"] - np.uint64(first)] = np.arange(len(events))
            order = np.empty(len(events), np.int64)
            order[rows[ROW]] = place[rows["sequence"] - np.uint64(first)]
            begins = range(0, len(order), CHUNK_EVENTS)
            write_index(target, (events[order[at : at + CHUNK_EVENTS]] for at in begins))
    return target


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


def _codes_sql(column: str, labels: Iterable[tuple[int, str]]) -> str:
    """SQL for the code of a label. An unknown label, such as `kind_23`, has its code in it."""
    cases = " ".join(f"WHEN {quoted(label)} THEN {code}" for code, label in labels)
    return f"CASE {column} {cases} ELSE coalesce(TRY_CAST(split_part({column}, '_', -1) AS UTINYINT), 0) END"


_REASON_LABELS = [(reason.value, reason.label) for reason in ClearReason]
_RAW = ", ".join(
    [
        "sequence, epoch_ns(time)::BIGINT AS time_ns, value, previous, ident, hop, hop_count, shard",
        "src_hi, src_lo, dst_hi, dst_lo, ip_version",
        *(f"coalesce({name}, 0) AS {name}" for name in ("switch_ns", "flow_id", "sport", "dport", "proto")),
        f"coalesce(node_id, {NO_NODE}) AS node_id, coalesce(port, {NO_PORT}) AS port",
        f"{_codes_sql('kind', ((k, k.label) for k in Kind))} AS kind",
        f"CASE WHEN metric IS NULL THEN 0 ELSE {_codes_sql('metric', ((m, m.label) for m in Metric))} END"
        " AS metric",
        f"CASE WHEN reason IS NULL THEN 0 ELSE {_codes_sql('reason', _REASON_LABELS)} END AS reason",
        *(f"coalesce(path[{at + 1}], 0) AS p{at}" for at in range(PATH_PART)),
    ]
)
"""SQL that turns the columns of a segment into the fields of EVENT."""
