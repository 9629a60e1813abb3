"""Looks whether the lake has each event once, by its marks, and whether its files are there."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Any

import duckdb

from ..history.columns import quoted
from .catalog import Lake, LakeError, files_folder

TABLES = ("events", "marks", "gaps")
_SHARD = "member, incarnation, shard"
_DAY = re.compile(r"/year=(\d+)/month=(\d+)/day=(\d+)/[^/]+$")
Shard = tuple[str, str, int]


@dataclass(slots=True)
class ShardState:
    """One shard of a member, as it is in the lake."""

    member: str
    incarnation: str
    shard: int
    next: int = 0
    """The mark: events from here on are not in the lake."""
    events: int = 0
    distinct: int = 0
    gaps: dict[str, int] = field(default_factory=dict)
    """Events below the mark that the lake states not to have, by reason."""
    beyond: int = 0
    """Events at or after the mark."""

    @property
    def doubled(self) -> int:
        """Events that are there more than once."""
        return self.events - self.distinct

    @property
    def missing(self) -> int:
        """Events below the mark that are neither there nor stated as lost or deleted because of their age."""
        stated = sum(count for reason, count in self.gaps.items() if reason != "missing")
        return self.next - (self.distinct - self.beyond) - stated

    @property
    def problem(self) -> str:
        """What is wrong; empty: nothing."""
        parts = ((self.missing, "missing"), (self.doubled, "doubled"), (self.beyond, "after the mark"))
        return ", ".join(f"{count:,} {what}" for count, what in parts if count)


@dataclass(slots=True)
class Checked:
    """What a check found, in one snapshot."""

    snapshot: int
    shards: list[ShardState]
    files: int
    bytes: int
    problems: list[str]
    """About files; one line each. If a file is missing, shards are not counted."""

    @property
    def whole(self) -> bool:
        """Whether everything is right."""
        return not self.problems and not any(shard.problem for shard in self.shards)


def check(lake: Lake) -> Checked:
    """Check one snapshot; it reads the identities of all events. Raises LakeError."""
    try:
        snapshot = lake.snapshot()
        files = dict(_files(lake, snapshot))
        problems = list(_wrong_files(lake, files))
        shards = [] if problems else _shards(lake, snapshot)
    except duckdb.Error as error:
        raise lake.named(error) from None
    return Checked(snapshot, shards, len(files), sum(files.values()), problems)


def _files(lake: Lake, snapshot: int) -> Iterator[tuple[str, int]]:
    """Path and size of every file of a snapshot, as the catalog has them."""
    for table in TABLES:
        yield from lake.connection.execute(
            f"SELECT data_file, data_file_size_bytes FROM ducklake_list_files('{lake.name}', '{table}',"
            f" schema => 'hopscope', snapshot_version => {snapshot})"
        ).fetchall()


def sizes_of(lake: Lake) -> dict[str, int]:
    """Path and size of every file in the folder of the lake's files; empty: there is none."""
    pattern = quoted(f"{files_folder(lake.settings)}**/*.parquet")
    return dict(lake.connection.execute(f"SELECT filename, size FROM read_blob({pattern})").fetchall())


def readable(lake: Lake, path: str) -> bool:
    """Whether a file is a whole Parquet file; a killed writer may leave one in a folder that is not."""
    try:
        lake.connection.execute(f"SELECT 1 FROM parquet_file_metadata({quoted(path)})").fetchall()
    except duckdb.InvalidInputException:
        return False
    return True


def _wrong_files(lake: Lake, files: Mapping[str, int]) -> Iterator[str]:
    found = sizes_of(lake)
    for path, size in files.items():
        if path not in found:
            yield f"{path}: it is missing"
        elif found[path] != size:
            yield f"{path}: it has {found[path]:,} bytes, not {size:,}"


def _shards(lake: Lake, snapshot: int) -> list[ShardState]:
    at = f"AT (VERSION => {snapshot})"
    found: dict[Shard, ShardState] = {}

    def state(key: Any) -> ShardState:
        return found.setdefault(tuple(key), ShardState(*key))

    run = lake.connection.execute
    for *key, mark in run(f"SELECT {_SHARD}, max(next) FROM {lake.marks} {at} GROUP BY ALL").fetchall():
        state(key).next = mark
    for *key, reason, count in run(
        f"SELECT {_SHARD}, reason, sum(events)::UBIGINT FROM {lake.gaps} {at} GROUP BY ALL"
    ).fetchall():
        state(key).gaps[reason] = count
    marks = f"(SELECT {_SHARD}, max(next) AS mark FROM {lake.marks} {at} GROUP BY ALL)"
    for day in _days(lake, snapshot):
        for *key, events, distinct, beyond in run(
            f"SELECT {_SHARD}, count(*), count(DISTINCT sequence), count(DISTINCT sequence) FILTER"
            f" (sequence >= coalesce(mark, 0)) FROM (FROM {lake.events} {at} WHERE {_of_day(day)})"
            f" LEFT JOIN {marks} USING ({_SHARD}) GROUP BY {_SHARD}"
        ).fetchall():
            one = state(key)
            one.events += events
            one.distinct += distinct
            one.beyond += beyond
    return [found[key] for key in sorted(found)]


def _days(lake: Lake, snapshot: int) -> list[date]:
    """Days of which a snapshot has events, the oldest first: those of its files. LakeError: one has none.

    Copies of an event have one time, so they are of one day.
    """
    days = set()
    for (path,) in lake.connection.execute(
        f"SELECT data_file FROM ducklake_list_files('{lake.name}', 'events', schema => 'hopscope',"
        f" snapshot_version => {snapshot})"
    ).fetchall():
        numbers = _DAY.search(path)
        if numbers is None:
            raise LakeError(f"{path}: it is in no folder of a day")
        days.add(date(*map(int, numbers.groups())))
    return sorted(days)


def _of_day(day: date) -> str:
    """The condition of its events."""
    return f"time >= TIMESTAMP_NS '{day} 00:00:00' AND time < TIMESTAMP_NS '{day} 00:00:00' + INTERVAL 1 DAY"
