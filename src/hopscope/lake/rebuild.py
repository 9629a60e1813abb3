"""Rebuilds the catalog from the files, when it was lost or is a backup that is older than the files.

All files are read, whether a commit names them or not. From the old catalog, only facts are taken that the
files cannot tell: which events were lost or expired, and marks beyond all files. Each event is taken once.
Events below a shard's mark that are in no file become a gap `missing`, which the member fills from its own
history when it connects.

The new catalog grows beside the old one, day by day, while writers still commit to the old one. Then, under
the lock of commits, the files that they have written meanwhile are added, and the new catalog replaces the
old one. A writer that has been waiting for the lock notices the new generation, and connects again. If a
rebuild is killed, nothing visible has changed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import duckdb

from ..history.columns import COLUMNS, quoted
from ..settings.lake import LakeSettings
from .catalog import EVENT_COLUMNS, Lake, events_folder, insert_rows, make_tables
from .check import Shard, readable, sizes_of
from .database import COMMIT, Database
from .maintenance import expire

MEMORY_BYTES = 2 * 1024**3
_SHARD = "member, incarnation, shard"
_KEY = f"{_SHARD}, sequence"


@dataclass(slots=True)
class RebuildResult:
    """Results of a rebuild."""

    files: int = 0
    """Files that were read."""
    events: int = 0
    doubled: int = 0
    """Surplus copies of events that were left out: from killed writers, and from
    files that had been merged.
    """
    missing: int = 0
    """Events that are requested from their members."""
    old_schema: str = ""
    """Schema that has the old catalog now; empty if there was none."""
    damaged: list[str] = field(default_factory=list)
    """Files that could not be read, and were deleted."""


def rebuild(settings: LakeSettings, progress: Callable[[str], None] = lambda line: None) -> RebuildResult:
    """Rebuild the catalog; writers wait only for the last part. LakeError: it failed, and nothing has
    changed.
    """
    schema, new = settings.schema_name, f"{settings.schema_name}_new"
    with Database(settings) as database:
        for name in ("create", "maintenance"):
            database.lock(name)
        old = _schema_exists(database, schema)
        make_tables(settings, new, database)
        result = RebuildResult()
        with Lake(settings, schema=new, memory_bytes=MEMORY_BYTES) as lake:
            filler = _Filler(lake, result, progress)
            try:
                filler.fill()
                database.lock(COMMIT)
                filler.complete()
                known = _known(settings, database) if old else _Known()
                _state(lake, known, result)
                result.events -= expire(lake, database)  # files of expired days stay for readers in flight
            except duckdb.Error as error:
                raise lake.named(error) from None
        if known.members:
            database.run(f"INSERT INTO {new}.hopscope_member SELECT * FROM {schema}.hopscope_member")
        database.run("BEGIN")
        if old:
            ((stamp,),) = database.run("SELECT to_char(now() AT TIME ZONE 'UTC', 'YYYYMMDDHH24MISS')")
            result.old_schema = f"{schema}_before_{stamp}"
            database.run(f"ALTER SCHEMA {schema} RENAME TO {result.old_schema}")
        database.run(f"ALTER SCHEMA {new} RENAME TO {schema}")
        database.run("COMMIT")
        with Lake(settings) as lake:  # files that writers have added since can no longer be committed
            lake.connection.execute(
                f"SELECT count(*) FROM ducklake_delete_orphaned_files('{lake.name}', cleanup_all => true)"
            ).fetchall()
    return result


@dataclass(slots=True)
class _Known:
    """The facts taken from the old catalog."""

    marks: dict[Shard, int] = field(default_factory=dict)
    gaps: list[tuple[Shard, int, int, str]] = field(default_factory=list)
    """(Shard, first, next, reason) of each gap."""
    members: bool = False


def _schema_exists(database: Database, schema: str) -> bool:
    return bool(database.run("SELECT 1 FROM pg_namespace WHERE nspname = :name", name=schema))


def _known(settings: LakeSettings, database: Database) -> _Known:
    """The facts from the old catalog; empty if the schema has no lake."""
    table = f"{settings.schema_name}.hopscope_lake"
    if database.run("SELECT to_regclass(:name) IS NULL", name=table) == [[True]]:
        return _Known()
    with Lake(settings, read_only=True, memory_bytes=256 * 1024**2, threads=1) as lake:
        run = lake.connection.execute
        marks = run(f"SELECT {_SHARD}, max(next) FROM {lake.marks} GROUP BY ALL").fetchall()
        gaps = run(f"SELECT {_SHARD}, first, next, reason FROM {lake.gaps}").fetchall()
    return _Known(
        {(member, own, shard): mark for member, own, shard, mark in marks},
        [((row[0], row[1], row[2]), row[3], row[4], row[5]) for row in gaps],
        members=True,
    )


class _Filler:
    """Brings the events of all files into the new catalog, day by day. Copies of an event have the same time,
    so they are in the same day.
    """

    def __init__(self, lake: Lake, result: RebuildResult, progress: Callable[[str], None]) -> None:
        self._lake, self._result, self._progress = lake, result, progress
        self._taken: set[str] = set()

    def fill(self) -> None:
        """Take the existing files. One that cannot be read may still be being written, and is left for
        `complete`.
        """
        days = self._days()
        for number, (day, paths) in enumerate(days.items(), 1):
            self._take([path for path in paths if readable(self._lake, path)])
            done = f"{number} of {len(days)} days, {self._result.events:,} events"
            self._progress(f"{done}: {'/'.join(day.split('/')[-3:])}")

    def complete(self) -> None:
        """Take the files that have been added since, while writers wait."""
        for paths in self._days().values():
            whole = [path for path in paths if readable(self._lake, path)]
            self._result.damaged += sorted(set(paths) - set(whole))
            self._take(whole, again=True)

    def _days(self) -> dict[str, list[str]]:
        """Files that have not been taken yet, by folder."""
        lake = self._lake
        own = lake.connection.execute(
            f"SELECT data_file FROM ducklake_list_files('{lake.name}', 'events', schema => 'hopscope')"
        ).fetchall()
        found: dict[str, list[str]] = {}
        for path in sorted(sizes_of(lake).keys() - self._taken - {path for (path,) in own}):
            if path.startswith(events_folder(lake.settings)):
                found.setdefault(path.rpartition("/")[0], []).append(path)
        return found

    def _take(self, paths: list[str], *, again: bool = False) -> None:
        """Take the events of these files of a day, each once; with `again`, only those that the new catalog
        lacks.
        """
        if not paths:
            return
        run, events = self._lake.connection.execute, self._lake.events
        listed = ", ".join(map(quoted, paths))
        read = f"read_parquet([{listed}], hive_partitioning => false, union_by_name => true)"
        columns = ", ".join(f"{name}::{kind} AS {name}" for name, kind in COLUMNS)
        rows = f"SELECT {columns}, member, incarnation FROM {read} f"
        ((total, doubled),) = run(
            f"SELECT coalesce(sum(n), 0)::BIGINT, coalesce(sum(n - d), 0)::BIGINT FROM (SELECT count(*) AS n,"
            f" count(DISTINCT sequence) AS d FROM {read} GROUP BY {_SHARD})"
        ).fetchall()
        if again:
            same = " AND ".join(f"e.{name} = f.{name}" for name in ("time", *_KEY.split(", ")))
            rows += f" WHERE NOT EXISTS (SELECT 1 FROM {events} e WHERE {same})"
        if again or doubled:
            rows += f" QUALIFY row_number() OVER (PARTITION BY {_KEY}) = 1"
        ((count,),) = run(f"INSERT INTO {events} ({EVENT_COLUMNS}) {rows}").fetchall()
        self._taken |= {*paths}
        self._result.files += len(paths)
        self._result.events += count
        self._result.doubled += total - count


def _state(lake: Lake, known: _Known, result: RebuildResult) -> None:
    """Write the marks and gaps of the new catalog."""
    spans = {
        (member, own, shard): (first, last, count)
        for member, own, shard, first, last, count in lake.connection.execute(
            f"SELECT {_SHARD}, min(sequence), max(sequence), count(*) FROM {lake.events} GROUP BY ALL"
        ).fetchall()
    }
    marks, gaps = [], []
    for key in sorted(spans.keys() | known.marks.keys()):
        first, last, count = spans.get(key, (0, -1, 0))
        end = max(last + 1, known.marks.get(key, 0))
        marks.append([*key, end])
        holes = [(0, first), (last + 1, end)]
        if count != last - first + 1:
            holes += _holes(lake, key)
        stated = [(begin, until, why) for of, begin, until, why in known.gaps if of == key]
        for reason in ("history", "retention"):
            for begin, until, why in stated:
                if why == reason:
                    inside = [(max(low, begin), min(high, until)) for low, high in holes]
                    gaps += [[*key, low, high, high - low, reason] for low, high in inside if low < high]
                    outside = [
                        part
                        for low, high in holes
                        for part in ((low, min(high, begin)), (max(low, until), high))
                    ]
                    holes = [(low, high) for low, high in outside if low < high]
        for low, high in holes:
            if low < high:
                gaps.append([*key, low, high, high - low, "missing"])
                result.missing += high - low
    insert_rows(lake.connection, lake.marks, marks)
    insert_rows(lake.connection, lake.gaps, gaps)


def _holes(lake: Lake, key: Shard) -> list[tuple[int, int]]:
    """Ranges of sequences between a shard's events that have no events."""
    member, own, shard = key
    return lake.connection.execute(
        "SELECT sequence + 1, following FROM (SELECT sequence, lead(sequence) OVER (ORDER BY sequence) AS"
        f" following FROM {lake.events} WHERE member = {quoted(member)} AND incarnation = {quoted(own)}"
        f" AND shard = {shard}) WHERE following > sequence + 1 ORDER BY sequence"
    ).fetchall()
