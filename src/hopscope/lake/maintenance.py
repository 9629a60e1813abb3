"""Keeps the lake small and its files large. One member at a time does so: the one that holds the lock.

A round commits its changes like a writer, so readers see either the snapshot before or the one after. Times
are those of the database's clock, so a member whose clock is wrong deletes nothing too early.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import duckdb

from ..history.columns import quoted
from ..settings.lake import LakeSettings
from .catalog import Lake, alone, events_folder, files_folder
from .check import readable
from .database import COMMIT, Database

MEMORY_BYTES = 1024**3
SNAPSHOT_MINUTES = 10
"""How long a snapshot, and the files that only it needs, are kept for queries that read it."""
ORPHAN_MINUTES = 60
"""A file that no commit names and that is older than this was left by a killed writer: no commit takes so
long.
"""
TIERS = (4 * 1024**2, 32 * 1024**2, 256 * 1024**2)
"""Sizes in bytes. When a day has MERGE files below one of them, they are merged, so that no event is written
more than four times."""
MERGE = 8
EXPIRE_EVENTS = 2 * 1024**2
"""How many events are deleted in one transaction, while the commits of all members wait (0.6 s). A single
file may have more."""
BLOCK_EVENTS = 4096
"""Number of sequences in the blocks in which expired events are searched for holes."""
STEPS = ("expire", "prune", "merge", "forget", "orphans")
"""Steps of a round, in order; they are methods of `_Keeper`."""
_SHARD = "member, incarnation, shard"
_IN_ORDER = f"OVER (PARTITION BY {_SHARD} ORDER BY first)"
RANGES = (
    f"SELECT {_SHARD}, min(first) AS first, max(next) AS next, sum(events) AS events FROM"
    f" (SELECT *, sum(apart::INT) {_IN_ORDER} AS island FROM"
    f" (SELECT *, first > lag(next, 1, 0) {_IN_ORDER} AS apart FROM pieces))"
    f" GROUP BY {_SHARD}, island"
)
"""A SELECT of the table `pieces` that joins adjacent pieces."""


@dataclass(slots=True)
class MaintenanceResult:
    """Results of a round of maintenance."""

    expired_events: int = 0
    merged_files: int = 0
    """Files that were merged into larger ones."""
    marks: int = 0
    """Deleted rows of marks, which newer ones had replaced."""
    deleted_files: int = 0
    """Files that no snapshot needed any more, and files of killed writers."""
    notes: list[str] = field(default_factory=list)
    """Problems that an operator must look at, one line each."""


def maintain(
    settings: LakeSettings,
    progress: Callable[[], None] = lambda: None,
    steps: Sequence[str] = STEPS,
    least: int = MERGE,
) -> MaintenanceResult | None:
    """Run one round of maintenance; None if another process is running one. `progress` is called before each
    step.

    The files of a day are merged if it has at least `least` small ones. Raises LakeError.
    """
    with Database(settings) as database:
        if not database.try_lock("maintenance"):
            return None
        with Lake(settings, memory_bytes=MEMORY_BYTES, threads=1) as lake:
            keeper = _Keeper(lake, database, least)
            try:
                for step in steps:
                    progress()
                    getattr(keeper, step)()
            except duckdb.Error as error:
                raise lake.named(error) from None
            return keeper.result


def expire(lake: Lake, database: Database) -> int:
    """Delete the days that are past retention; returns the number of events. The caller must hold the lock
    `maintenance`.
    """
    keeper = _Keeper(lake, database, MERGE)
    keeper.expire()
    return keeper.result.expired_events


def find_pieces(events: str, condition: str) -> tuple[str, str, str]:
    """SQL statements that create the table `pieces`: exact ranges of sequences of the events that meet a
    condition.

    Only the events of blocks with holes are sorted: an event takes 0.04 µs, or 1.5 µs if every other one is
    missing.
    """
    block = f"{_SHARD}, sequence // {BLOCK_EVENTS} AS block"
    return (
        f"CREATE OR REPLACE TEMP TABLE blocks AS SELECT {block}, min(sequence) AS first,"
        f" max(sequence) + 1 AS next, count(*) AS events FROM {events} WHERE {condition} GROUP BY ALL",
        f"CREATE OR REPLACE TEMP TABLE pieces AS SELECT {_SHARD}, first, next, events FROM blocks"
        " WHERE events = next - first",
        f"INSERT INTO pieces SELECT {_SHARD}, min(sequence), max(sequence) + 1, count(*) FROM"
        f" (SELECT {_SHARD}, sequence, sequence - row_number() OVER (PARTITION BY {_SHARD} ORDER BY sequence)"
        f" AS island FROM (SELECT {block}, sequence FROM {events} WHERE {condition}) e SEMI JOIN"
        f" (FROM blocks WHERE events != next - first) USING ({_SHARD}, block)) GROUP BY {_SHARD}, island",
    )


class _Keeper:
    """Runs the steps of a round."""

    def __init__(self, lake: Lake, database: Database, least: int) -> None:
        self._lake, self._database, self._least = lake, database, least
        self._connection = lake.connection
        ((now,),) = database.run("SELECT now() AT TIME ZONE 'UTC'")
        self._now: datetime = now
        kept = now - timedelta(days=lake.settings.retention_days)
        self._old = f"time < TIMESTAMP_NS '{kept.date()} 00:00:00'"
        """The SQL condition of events that are past retention; it selects whole days."""
        self.result = MaintenanceResult()

    def expire(self) -> None:
        """Delete the days that are past retention, a few files in each transaction, since commits wait
        meanwhile.
        """
        for files in self._expired():
            self._expire(files)

    def _expired(self) -> Iterator[list[str]]:
        """The files of days past retention, the oldest first, in groups with up to EXPIRE_EVENTS events."""
        found = self._connection.execute(
            f"SELECT filename, count(*) FROM {self._lake.events} WHERE {self._old} GROUP BY ALL ORDER BY ALL"
        ).fetchall()
        files: list[str] = []
        total = 0
        for file, count in found:
            if files and total + count > EXPIRE_EVENTS:
                yield files
                files, total = [], 0
            files.append(file)
            total += count
        if files:
            yield files

    def _expire(self, files: list[str]) -> None:
        """Delete the events past retention in these files, and list them in `gaps`. A file belongs to one
        day, so all of it is deleted. To delete a part of a file, DuckLake would write another file beside it,
        which a rebuild would have to read.
        """
        lake, run = self._lake, self._connection.execute
        condition = f"{self._old} AND filename IN ({', '.join(map(quoted, files))})"
        for statement in find_pieces(lake.events, condition):
            run(statement)  # this needs no lock of commits, since files never change
        with alone(lake, self._database):
            ((events,),) = run(f"DELETE FROM {lake.events} WHERE {condition}").fetchall()
            earlier = f"FROM {lake.gaps} WHERE reason = 'retention'"
            run(f"INSERT INTO pieces SELECT {_SHARD}, first, next, events {earlier}")
            run(f"DELETE {earlier}")
            run(
                f"INSERT INTO {lake.gaps} SELECT {_SHARD}, first, next, events, 'retention',"
                f" {quoted(str(self._now))}::TIMESTAMP_NS FROM ({RANGES})"
            )
        self.result.expired_events += events

    def prune(self) -> None:
        """Delete marks that newer ones have replaced."""
        lake = self._lake
        with alone(lake, self._database):
            ((self.result.marks,),) = self._connection.execute(
                f"DELETE FROM {lake.marks} m USING (SELECT {_SHARD}, max((next, time)) AS newest"
                f" FROM {lake.marks} GROUP BY {_SHARD}) n"
                " WHERE m.member = n.member AND m.incarnation = n.incarnation"
                " AND m.shard = n.shard AND (m.next, m.time) < n.newest"
            ).fetchall()

    def merge(self) -> None:
        """Merge the small files of each day."""
        for tier in TIERS:
            row = self._connection.execute(
                "SELECT max(n) FROM (SELECT count(*) AS n FROM"
                f" ducklake_list_files('{self._lake.name}', 'events', schema => 'hopscope')"
                f" WHERE data_file_size_bytes < {tier}"
                " GROUP BY regexp_replace(data_file, '[^/]*$', ''))"
            ).fetchone()
            if row is None or (row[0] or 0) < self._least:
                continue
            self._connection.execute("BEGIN")  # files that other members add meanwhile do no harm
            merged = self._connection.execute(
                f"CALL ducklake_merge_adjacent_files('{self._lake.name}', 'events', schema => 'hopscope',"
                f" max_file_size => {tier})"
            ).fetchall()
            with self._database.locked(COMMIT):
                self._connection.execute("COMMIT")
            self.result.merged_files += sum(int(row[2]) for row in merged)

    def forget(self) -> None:
        """Forget snapshots that are too old for queries, and delete the files that only they need."""
        until = self._since(SNAPSHOT_MINUTES)
        name, run = self._lake.name, self._connection.execute
        run(f"SELECT count(*) FROM ducklake_expire_snapshots('{name}', older_than => {until})").fetchall()
        # fetchall: a statement commits once its result has been read to the end
        ((deleted,),) = run(
            f"SELECT count(*) FROM ducklake_cleanup_old_files('{name}', older_than => {until})"
        ).fetchall()
        self.result.deleted_files += deleted
        self._forget_rows()

    def _forget_rows(self) -> None:
        """Delete rows in the database that are in no snapshot any more; DuckLake
        itself never deletes them.
        """
        schema = self._lake.schema
        for ((table),) in self._database.run(f"SELECT table_name FROM {schema}.ducklake_inlined_data_tables"):
            self._database.run(
                f'DELETE FROM {schema}."{table}" WHERE end_snapshot <='
                f" (SELECT min(snapshot_id) FROM {schema}.ducklake_snapshot)"
            )

    def orphans(self) -> None:
        """Delete the files of killed writers if the lake has their events by now; if not, keep the files and
        add a note.
        """
        name, until = self._lake.name, self._since(ORPHAN_MINUTES)
        delete = f"FROM ducklake_delete_orphaned_files('{name}', older_than => {until}"
        found = self._connection.execute(f"SELECT path {delete}, dry_run => true)").fetchall()
        if not found:
            return
        place = events_folder(self._lake.settings)
        files = [path for (path,) in found if path.startswith(place) and readable(self._lake, path)]
        if files and (lacking := self._lacking(files)):
            self.result.notes.append(
                f"{len(files)} files in {files_folder(self._lake.settings)} that no commit names have"
                f" {lacking} events that the lake lacks: the catalog is older than they are, or their member"
                " was killed and has not come back; hopscope lake rebuild brings them into the lake"
            )
            return
        self._connection.execute(f"SELECT count(*) {delete})").fetchall()
        self.result.deleted_files += len(found)

    def _lacking(self, files: list[str]) -> int:
        """Number of events in these files that the lake does not have, except those
        that are past retention.
        """
        listed = ", ".join(quoted(path) for path in files)
        row = self._connection.execute(
            f"SELECT count(*) FROM read_parquet([{listed}]) f WHERE"
            f" NOT ({self._old}) AND NOT EXISTS (SELECT 1"
            f" FROM {self._lake.events} e WHERE e.time = f.time AND e.sequence = f.sequence"
            " AND e.shard = f.shard AND e.member = f.member AND e.incarnation = f.incarnation)"
        ).fetchone()
        return int(row[0]) if row else 0

    def _since(self, minutes: int) -> str:
        return f"TIMESTAMPTZ '{self._now - timedelta(minutes=minutes)}+00'"
