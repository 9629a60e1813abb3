"""Parquet files of distributions: the counts of a shard in one or more periods, written once.

`schema` says what each column means.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import duckdb
import numpy as np

from ...detect.distributions.reader import ShardCounts, bounds
from ...detect.records import DISTRIBUTED, DISTRIBUTION_VERSION, NO_PORT
from ...detect.sink.records import Measure
from ...settings.history import HistorySettings
from ..columns import connect, quoted
from ..errors import DamagedError, HistoryError
from .checksums import archived
from .merging import may_merge
from .names import listing, sync_folder
from .segments import check_footers, parquet_sql, write_parquet

FOLDER = "distributions"
VERSION = ("hopscope_distribution_version", DISTRIBUTION_VERSION)
MERGE = 8
"""How many adjacent files of similar size are merged into one."""
MERGED_BYTES = 64 * 1024**2
"""Largest size of a merged file."""
_MEMORY_BYTES = 1024**3
_NAME = re.compile(r"(\d{5})-(\d{12})-(\d{12})-(\d{19})-(\d{19})\.parquet")
COLUMNS = (
    ("since", "TIMESTAMP_NS"),
    ("until", "TIMESTAMP_NS"),
    ("measure", "VARCHAR"),
    ("node_id", "UINTEGER"),
    ("port", "USMALLINT"),
    ("queue_id", "UTINYINT"),
    ("count", "UBIGINT"),
    ("sum", "UBIGINT"),
    ("highest", "UINTEGER"),
    ("lower", "UBIGINT[]"),
    ("upper", "UBIGINT[]"),
    ("counts", "UBIGINT[]"),
    ("shard", "USMALLINT"),
    ("number", "UBIGINT"),
    ("generation", "UBIGINT"),
)
NAMES = ", ".join(f'"{name}"' for name, _ in COLUMNS)


@dataclass(frozen=True, slots=True, order=True)
class Period:
    """The period from `since_ns` to `until_ns`; `number` counts the periods of its shard, from 0."""

    shard: int
    number: int
    since_ns: int
    until_ns: int


@dataclass(frozen=True, slots=True, order=True)
class PeriodFile:
    """A file, described by its name: periods `first` to `last` of a shard, and the time that they cover."""

    shard: int
    first: int
    last: int
    since_ns: int
    until_ns: int
    path: Path


def file_of(folder: Path, shard: int, first: int, last: int, since_ns: int, until_ns: int) -> PeriodFile:
    """The file for these periods in the data folder `folder`."""
    name = f"{shard:05d}-{first:012d}-{last:012d}-{since_ns:019d}-{until_ns:019d}.parquet"
    return PeriodFile(shard, first, last, since_ns, until_ns, folder / FOLDER / name)


def all_files(folder: Path) -> list[PeriodFile]:
    """Files of a data folder by (shard, first), larger first. HistoryError: a *.parquet is not ours."""
    found = []
    for path in listing(folder / FOLDER, ".parquet"):
        match = _NAME.fullmatch(path.name)
        if match is None or int(match[3]) < int(match[2]):
            raise HistoryError(
                f"{path} is not named as distributions (SHARD-FIRST-LAST-SINCE-UNTIL):"
                " move it out of the folder"
            )
        shard, first, last, since_ns, until_ns = map(int, match.groups())
        found.append(PeriodFile(shard, first, last, since_ns, until_ns, path))
    return sorted(found, key=lambda file: (file.shard, file.first, -file.last))


def list_files(folder: Path) -> list[PeriodFile]:
    """Files by (shard, first), without those that a larger one covers (after a merge)."""
    kept: list[PeriodFile] = []
    for file in all_files(folder):
        if not (kept and kept[-1].shard == file.shard and file.last <= kept[-1].last):
            kept.append(file)
    return kept


def check_periods(connection: duckdb.DuckDBPyConnection, paths: Sequence[Path]) -> dict[Path, DamagedError]:
    """Damaged files, with the error. HistoryError: a file is not ours, or of another version."""
    return check_footers(connection, paths, *VERSION) if paths else {}


def write_period(folder: Path, counts: ShardCounts, period: Period) -> PeriodFile:
    """Write the counts of a period; the file gets its name once it is on disk. HistoryError: it failed."""
    target = file_of(folder, period.shard, period.number, period.number, period.since_ns, period.until_ns)
    with connect(_MEMORY_BYTES, threads=1) as connection:
        write_parquet(connection, register(connection, "fresh", counts, period), target.path, VERSION)
    return target


def merge_files(folder: Path, files: Sequence[PeriodFile]) -> PeriodFile:
    """Merge adjacent undamaged files into one, and remove them. HistoryError: it failed.

    The next round of the archive removes those that cannot be removed now.
    """
    target = file_of(
        folder,
        files[0].shard,
        files[0].first,
        files[-1].last,
        min(file.since_ns for file in files),
        max(file.until_ns for file in files),
    )
    times = archived(file.path for file in files)
    with connect(_MEMORY_BYTES, threads=1) as connection:
        source = parquet_sql([file.path for file in files])
        write_parquet(connection, f"SELECT {NAMES} FROM {source}", target.path, VERSION, times)
    for file in files:
        with suppress(OSError):
            file.path.unlink()
    sync_folder(target.path.parent)
    return target


def mergeable(files: Sequence[PeriodFile], settings: HistorySettings) -> Sequence[PeriodFile]:
    """MERGE adjacent files of one shard and of similar size that may be merged; empty if there are none."""
    for start in range(len(files) - MERGE + 1):
        run = files[start : start + MERGE]
        if any(a.shard != b.shard or a.last + 1 != b.first for a, b in pairwise(run)):
            continue
        sizes = [file.path.stat().st_size for file in run]
        alike = sum(sizes) <= MERGED_BYTES and max(sizes) < MERGE * max(min(sizes), 4096)
        if alike and may_merge([file.path for file in run], settings):
            return run
    return ()


def register(connection: duckdb.DuckDBPyConnection, name: str, counts: ShardCounts, period: Period) -> str:
    """Register counts as table `name`; returns the SELECT of COLUMNS from it."""
    used, metric, place = np.nonzero(counts.bins)
    cell = used * DISTRIBUTED + metric
    measure = np.where(counts.at[used] == 0, int(Measure.END_TO_END), metric)
    ends = [bounds(edges) for edges in counts.edges]
    lower, upper = (np.stack([pair[side] for pair in ends])[measure, place] for side in (0, 1))
    connection.register(
        f"{name}_bins",
        {"cell": cell, "lower": lower, "upper": upper, "n": counts.bins[used, metric, place]},
    )
    heads, first = np.unique(cell, return_index=True)
    rows, metrics = counts.rows[used[first]], metric[first]
    placed = counts.at[used[first]] != 0
    connection.register(
        name,
        {
            "cell": heads,
            "measure": measure[first],
            "placed": placed,
            "node": rows["node_id"].astype(np.int64),
            "port": rows["port"].astype(np.int64),
            "queue": rows["queue_id"].astype(np.int64),
            "total": rows["sum"][np.arange(len(rows)), metrics],
            "highest": rows["highest"][np.arange(len(rows)), metrics].astype(np.int64),
        },
    )
    labels = ", ".join(quoted(measure.label) for measure in Measure)
    source = {
        "since": f"make_timestamp_ns({period.since_ns})",
        "until": f"make_timestamp_ns({period.until_ns})",
        "measure": f"list_extract([{labels}], h.measure::INT + 1)",
        "node_id": "CASE WHEN placed THEN node END",
        "port": f"CASE WHEN placed THEN nullif(port, {NO_PORT}) END",
        "queue_id": "CASE WHEN placed THEN queue END",
        "count": "b.count",
        "sum": "total",
        "highest": "h.highest",
        "shard": str(counts.shard),
        "number": str(period.number),
        "generation": str(counts.generation),
        **{column: f"b.{column}" for column in ("lower", "upper", "counts")},
    }
    shown = ", ".join(f'CAST({source[column]} AS {kind}) AS "{column}"' for column, kind in COLUMNS)
    return f"""SELECT {shown} FROM {name} h JOIN (
        SELECT cell, sum(n) AS count, list(lower ORDER BY lower) AS lower,
        list(upper ORDER BY lower) AS upper, list(n ORDER BY lower) AS counts
        FROM {name}_bins GROUP BY cell) b USING (cell)"""
