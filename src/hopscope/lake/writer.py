"""Writes a member's events into the lake, each exactly once.

The lake itself states up to which event it has them: the mark of each shard is read when the writer connects,
and is advanced by the transaction that inserts the events. A commit that a writer sent just before it was
killed is by then either visible or void: each connection begins with a commit of its own (`_fence`), and
since DuckLake numbers commits consecutively, an earlier commit can no longer get its number.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import duckdb
import numpy as np

from ..history.columns import quoted, register
from ..history.follow import EventFollower
from ..settings.lake import LakeSettings
from ..wire.records import Records
from .catalog import EVENT_COLUMNS, Lake, create, insert_rows
from .database import COMMIT, Database, LakeError
from .members import RefusedError, claim
from .status import read_marks, write_marks

MEMORY_BYTES = 1024**3
THREADS = 2
CONFLICT = "Transaction conflict"
"""Part of DuckLake's message that a transaction is void because another one was committed after it began."""


@dataclass(frozen=True, slots=True)
class _Block:
    """Consecutive events of a shard that are to be written."""

    shard: int
    mark: int
    """The next sequence that the lake expects."""
    events: Records

    @property
    def first(self) -> int:
        """Sequence of the first event; above `mark` if history has lost the events between."""
        return int(self.events["sequence"][0])

    @property
    def next(self) -> int:
        """1 + the sequence of the last event."""
        return self.first + len(self.events)


class LakeWriter:
    """Writes the events of the data folder `folder`; only one thread may use it.
    LakeError: try again later.
    """

    def __init__(self, settings: LakeSettings, folder: Path, member: str, incarnation: str) -> None:
        self.settings, self.member, self.incarnation = settings, member, incarnation
        self._folder = folder
        self._follower = EventFollower(folder)
        self._database: Database | None = None
        self._lake: Lake | None = None
        self._generation = ""
        self._noted = read_marks(folder, settings)
        self.marks: dict[int, int] = dict(self._noted)
        """Next sequence that the lake expects, by shard; before the connection, as noted in `lake.marks`."""
        self.counts: Counter[str] = Counter()
        self._own = f"member = {quoted(member)} AND incarnation = {quoted(incarnation)}"

    @property
    def connected(self) -> bool:
        """Whether it is connected, and nothing has failed since."""
        return self._lake is not None

    def connect(self) -> None:
        """Connect unless it is connected: create the lake if there is none, and read the marks."""
        if self._lake is not None:
            return
        self._database = Database(self.settings)
        try:
            create(self.settings, self._database)
            claim(self._database, self.member, self.incarnation)
            self._generation = _generation(self._database)
            self._lake = Lake(self.settings, memory_bytes=MEMORY_BYTES, threads=THREADS)
            self._fence(self._lake)
        except BaseException:
            self.disconnect()
            raise
        self.counts["connections"] += 1

    def _fence(self, lake: Lake) -> None:
        """Commit, so that a commit of an earlier process is either visible or void; then read the marks."""
        marks = self._read_marks(lake)
        for shard in self._follower.shards():
            marks.setdefault(shard, 0)
        if marks:
            self._transact(lake, [self._mark_row(shard, mark) for shard, mark in marks.items()])
        self.marks = self._read_marks(lake)
        self._check_numbers()

    def _check_numbers(self) -> None:
        """RefusedError: history ends before the mark, so the numbers of new events would be taken in the
        lake.
        """
        for shard, mark in self.marks.items():
            end = self._follower.following(shard)
            if end < mark:
                write_marks(self._folder, self.settings, self.marks)
                raise RefusedError(
                    f"{self.settings.place}: the lake has events of shard {shard} up to {mark - 1}, and local"
                    f" history ends before {end}: the data folder is an older copy; restart the collector,"
                    f" whose new events then have numbers from {mark} on"
                )

    def _read_marks(self, lake: Lake) -> dict[int, int]:
        rows = self._run(
            lake,
            f"SELECT shard, max(next) FROM {lake.marks} WHERE {self._own} GROUP BY shard",
        )
        return {int(shard): int(mark) for shard, mark in rows}

    def disconnect(self) -> None:
        """Close the connections, which may be broken."""
        for one in (self._lake, self._database):
            if one is not None:
                one.close()
        self._lake = self._database = None

    def close(self) -> None:
        """Close everything."""
        self.disconnect()
        self._follower.close()

    # --------------------------------------------------------------------------------------- commits

    def commit(self) -> int:
        """Commit waiting events, at most `batch_events` of all shards together; returns their number."""
        blocks = self._blocks()
        if not blocks:
            return 0
        assert self._lake is not None
        lost = [block for block in blocks if block.first > block.mark]
        for block in lost:
            if self._noted.get(block.shard, 0) > block.mark:
                self.disconnect()
                raise RefusedError(
                    f"{self.settings.place}: the catalog lacks events of shard {block.shard} that were in "
                    f"the lake, from {block.mark} on, and local history begins at {block.first}: the catalog "
                    "is older than the lake's files; repair it with: hopscope lake rebuild"
                )
        rows = [self._mark_row(block.shard, block.next) for block in blocks]
        gaps = [self._gap_row(b.shard, b.mark, b.first, b.first - b.mark, "history") for b in lost]
        self._transact(self._lake, rows, gaps, [block.events for block in blocks])
        self.marks |= {block.shard: block.next for block in blocks}
        self._noted = dict(self.marks)
        count = sum(len(block.events) for block in blocks)
        self.counts["commits"] += 1
        self.counts["events"] += count
        self.counts["lost"] += sum(block.first - block.mark for block in lost)
        with suppress(OSError):  # the disk is full; an older note is still right
            write_marks(self._folder, self.settings, self.marks)
        return count

    def _blocks(self) -> list[_Block]:
        """The waiting events: a run of consecutive events of each shard."""
        shards, left = self._follower.shards(), self.settings.batch_events
        blocks = []
        for number, shard in enumerate(shards):
            mark = self.marks.get(shard, 0)
            events = self._follower.run(shard, mark, max(1, left // (len(shards) - number)))
            if len(events):
                blocks.append(_Block(shard, mark, events))
                left = max(0, left - len(events))
        return blocks

    def refill(self) -> int:
        """Write one range of events that the lake lacks and this member may have; returns how many events it
        had, at least 1, or 0 if there is no such range.
        """
        assert self._lake is not None
        lake = self._lake
        rows = self._run(
            lake,
            f"SELECT shard, first, next FROM {lake.gaps} WHERE {self._own} AND reason = 'missing'"
            " ORDER BY shard, first LIMIT 1",
        )
        if not rows:
            return 0
        ((shard, first, end),) = rows
        events = self._follower.run(shard, first, min(end - first, self.settings.batch_events))
        events = events[events["sequence"] < end]
        gaps = []
        upto = int(events["sequence"][-1]) + 1 if len(events) else end
        if lost := upto - first - len(events):
            gaps.append(self._gap_row(shard, first, upto, lost, "history"))
        if upto < end:
            gaps.append(self._gap_row(shard, upto, end, end - upto, "missing"))
        delete = (
            f"DELETE FROM {lake.gaps} WHERE {self._own} AND shard = {shard} AND first = {first}"
            " AND reason = 'missing'"
        )
        self._transact(lake, [], gaps, [events] if len(events) else [], delete)
        self.counts["refilled"] += len(events)
        return max(1, len(events))

    def _mark_row(self, shard: int, mark: int) -> list[str | int]:
        return [self.member, self.incarnation, shard, mark]

    def _gap_row(self, shard: int, first: int, end: int, events: int, reason: str) -> list[str | int]:
        return [self.member, self.incarnation, shard, first, end, events, reason]

    def _transact(
        self,
        lake: Lake,
        marks: list[list[str | int]],
        gaps: list[list[str | int]] | None = None,
        events: list[Records] | None = None,
        delete: str | None = None,
    ) -> None:
        """Make one commit. If it fails, either nothing of it is in the lake, or the next connection finds all
        of it.
        """
        assert self._database is not None
        connection = lake.connection

        def prepare() -> None:
            connection.execute("BEGIN")
            if events:
                block = np.concatenate(events) if len(events) > 1 else events[0]
                connection.execute(
                    f"INSERT INTO {lake.events} ({EVENT_COLUMNS}) SELECT *, {quoted(self.member)},"
                    f" {quoted(self.incarnation)} FROM ({register(connection, 'fresh', block)})"
                )
            if delete is not None:
                connection.execute(delete)
            insert_rows(connection, lake.marks, marks)
            insert_rows(connection, lake.gaps, gaps or [])

        try:
            prepare()
            try:
                with self._database.locked(COMMIT):
                    self._commit(lake)
            except duckdb.TransactionException as error:
                if CONFLICT not in str(error):
                    raise
                # maintenance has deleted something since the transaction began
                with self._database.locked(COMMIT):
                    prepare()
                    self._commit(lake)
        except duckdb.Error as error:
            self.disconnect()
            raise lake.named(error) from None
        except BaseException:
            self.disconnect()
            raise

    def _commit(self, lake: Lake) -> None:
        assert self._database is not None
        if _generation(self._database) != self._generation:
            raise LakeError(f"{self.settings.place}: the catalog was built again")
        lake.connection.execute("COMMIT")

    def _run(self, lake: Lake, statement: str) -> list[tuple[int, ...]]:
        try:
            return lake.connection.execute(statement).fetchall()
        except duckdb.Error as error:
            self.disconnect()
            raise lake.named(error) from None


def _generation(database: Database) -> str:
    ((generation,),) = database.run("SELECT generation FROM hopscope_lake")
    return str(generation)
