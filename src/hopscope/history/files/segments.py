"""Parquet segments: a range of a shard's events, written once, never changed."""

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
from .segment_index import CHUNK_EVENTS, Part, chunks_of, write_index

ZSTD = "COMPRESSION zstd, COMPRESSION_LEVEL 1"
"""How files are compressed.  The default level, 3, takes 18 % more of a processor for the same size."""
ENCODINGS = "PARQUET_VERSION V2"
"""Numbers as differences (DELTA_BINARY_PACKED), then compressed: files with version 1 of the encodings are
9 % larger, take 7 % more of a processor to write, and 20 to 100 % more to read.
"""
VERSION_KEY = "hopscope_event_version"
_MEMORY_BYTES = 2 * 1024**3


def write_segment(folder: Path, events: Records) -> SegmentFile:
    """Write EVENT records [n ≥ 1] of one shard, in sequence, as a segment of the data folder `folder`.

    The file is named once it is on disk.  HistoryError: the disk is full, or the folder is not writable;
    nothing is left then.
    """
    with connect(_MEMORY_BYTES, threads=1) as connection:
        select = register(connection, "fresh", events)
        shard, first, last = int(events["shard"][0]), int(events["sequence"][0]), int(events["sequence"][-1])
        target = SegmentFile(shard, first, last, segment_path(folder, shard, first, last))
        _copy(connection, select, target)  # unsorted: sorting would hold all of it in memory
    with suppress(OSError):  # the archive writes it later
        write_index(target, chunks_of(events, CHUNK_EVENTS))
    return target


def index_segment(segment: SegmentFile) -> None:
    """Write the index of a segment that has none: its events are read again. HistoryError: that failed."""

    def chunks() -> Iterator[Records]:
        for first in range(segment.first, segment.last + 1, CHUNK_EVENTS):
            end = min(first + CHUNK_EVENTS, segment.last + 1)
            events = read_events(connection, segment.path, first, end)
            if len(events) != end - first:
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

    One that cannot be removed is left to the next round of the archive.
    """
    shard, first, last = segments[0].shard, segments[0].first, segments[-1].last
    target = SegmentFile(shard, first, last, segment_path(folder, shard, first, last))
    times = archived(segment.path for segment in segments)
    with connect(_MEMORY_BYTES, threads=1) as connection:
        _copy(connection, segments_sql([segment.path for segment in segments]), target, times)
    for segment in segments:
        with suppress(OSError):
            segment.path.unlink()
    sync_folder(target.path.parent)
    return target


def segments_sql(paths: Sequence[Path]) -> str:
    """A SELECT of the columns of `columns` from segments; columns that those of version 1 lack are NULL."""
    files = f"read_parquet([{', '.join(quoted(path) for path in paths)}], union_by_name = true)"
    newer = "SELECT NULL::VARCHAR AS reason, NULL::UBIGINT AS switch_ns WHERE false"
    return f"SELECT {NAMES} FROM (FROM {files} UNION ALL BY NAME {newer})"


def parts_sql(parts: Sequence[Part]) -> str:
    """A SELECT of the columns of `columns` from parts of segments, the newest first: `ORDER BY time DESC
    LIMIT 100` over 6 million events then takes 0.3 s, not 2 s, since DuckDB passes over what is older.
    """
    whole, arms = [], []
    for segment, some in groupby(sorted(parts, key=_place), key=lambda part: part.segment):
        ranges = _joined(some)
        if ranges == [(segment.first, segment.last)]:
            whole.append(segment.path)
        else:
            within = " OR ".join(f"sequence BETWEEN {first} AND {last}" for first, last in ranges)
            arms.append(f"SELECT {NAMES} FROM ({segments_sql([segment.path])}) WHERE {within}")
    if whole:
        arms.insert(0, segments_sql(whole[::-1]))
    return " UNION ALL ".join(arms)


def _place(part: Part) -> tuple[int, int]:
    return part.segment.shard, part.first


def _joined(parts: Iterable[Part]) -> list[tuple[int, int]]:
    """First and last sequence of runs of adjacent parts."""
    ranges: list[tuple[int, int]] = []
    for part in parts:
        if ranges and ranges[-1][1] + 1 == part.first:
            ranges[-1] = ranges[-1][0], part.last
        else:
            ranges.append((part.first, part.last))
    return ranges


def read_events(connection: duckdb.DuckDBPyConnection, path: Path, first: int, until: int) -> Records:
    """EVENT records of a segment with sequences `first` to `until` - 1, in order. duckdb.Error passes."""
    columns = connection.execute(
        f"SELECT {_RAW} FROM ({segments_sql([path])}) WHERE sequence >= {first} AND sequence < {until}"
        " ORDER BY sequence"
    ).fetchnumpy()
    rows = np.zeros(len(columns["sequence"]), EVENT)
    for name in EVENT.names or ():
        if name in columns:
            rows[name] = columns[name]
    for at in range(PATH_PART):
        rows["path"][:, at] = columns[f"p{at}"]
    return rows


def parquet_sql(paths: Sequence[Path]) -> str:
    """The table function that reads these files."""
    return f"read_parquet([{', '.join(quoted(path) for path in paths)}])"


def check_footers(
    connection: duckdb.DuckDBPyConnection,
    paths: Sequence[Path],
    key: str = VERSION_KEY,
    version: int = EVENT_VERSION,
) -> dict[Path, DamagedError]:
    """Files with a damaged footer, with the reason. Deleted files are left out.

    `key` and `version`, or an earlier one, are expected in the files' metadata.  HistoryError: one is not
    ours, or of a later version.
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
    """Read a segment whole. DamagedError: that failed, and the file still exists."""
    try:
        connection.execute(f"SELECT count(hash(e)) FROM {parquet_sql([path])} e").fetchall()
    except duckdb.Error as error:
        if path.exists():
            raise DamagedError(f"{path} is damaged: {first_line(error)}") from error


def check_range(connection: duckdb.DuckDBPyConnection, segment: SegmentFile) -> None:
    """DamagedError: a segment does not have the events that its name says."""
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


def _copy(
    connection: duckdb.DuckDBPyConnection,
    select: str,
    target: SegmentFile,
    times: tuple[int, int] | None = None,
) -> None:
    """Write the events of `target`; `times` as in `write_parquet`."""
    rows = target.last - target.first + 1
    write_parquet(connection, select, target.path, (VERSION_KEY, EVENT_VERSION), times, rows)


def write_parquet(
    connection: duckdb.DuckDBPyConnection,
    select: str,
    path: Path,
    version: tuple[str, int],
    times: tuple[int, int] | None = None,
    rows: int | None = None,
) -> None:
    """Write a SELECT to a file, which is named once it is on disk.

    `version` is key and value of its metadata; `times` those of `archived` (None: now); `rows` the expected
    number of rows.  HistoryError: it failed; nothing is left.
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
    """The code of a label; of an unknown one, which is shown as `kind_23`, the number in it."""
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
"""Columns of a segment as the fields of EVENT."""
