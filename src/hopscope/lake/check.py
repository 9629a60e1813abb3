"""Checks whether the lake has each event up to its marks exactly once, and whether its files exist."""

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
    """One shard of a member in the lake."""

    member: str
    incarnation: str
    shard: int
    next: int = 0
    """The mark: events from here on are not in the lake."""
    events: int = 0
    distinct: int = 0
    gaps: dict[str, int] = field(default_factory=dict)
    """Number of events below the mark that are listed as gaps, by reason."""
    beyond: int = 0
    """Number of events at or after the mark."""

    @property
    def doubled(self) -> int:
        """Number of surplus copies of events."""
        return self.events - self.distinct

    @property
    def missing(self) -> int:
        """Number of events below the mark that are neither in the lake nor listed as lost or expired."""
        stated = sum(count for reason, count in self.gaps.items() if reason != "missing")
        return self.next - (self.distinct - self.beyond) - stated

    @property
    def problem(self) -> str:
        """What is wrong; empty if nothing is."""
        parts = ((self.missing, "missing"), (self.doubled, "doubled"), (self.beyond, "after the mark"))
        return ", ".join(f"{count:,} {kind}" for count, kind in parts if count)


@dataclass(slots=True)
class CheckResult:
    """The result of a check of one snapshot."""

    snapshot: int
    shards: list[ShardState]
    files: int
    bytes: int
    problems: list[str]
    """Problems with files, one line each. If there are any, `shards` is empty."""

    @property
    def whole(self) -> bool:
        """Whether no problem was found."""
        return not self.problems and not any(shard.problem for shard in self.shards)


def check(lake: Lake) -> CheckResult:
    """Check the newest snapshot, which reads the identities of all events. Raises LakeError."""
    try:
        snapshot = lake.snapshot()
        files = dict(_files(lake, snapshot))
        problems = list(_wrong_files(lake, files))
        shards = [] if problems else _shards(lake, snapshot)
    except duckdb.Error as error:
        raise lake.named(error) from None
    return CheckResult(snapshot, shards, len(files), sum(files.values()), problems)


def _files(lake: Lake, snapshot: int) -> Iterator[tuple[str, int]]:
    """Path and size of every file of a snapshot, according to the catalog."""
    for table in TABLES:
        yield from lake.connection.execute(
            f"SELECT data_file, data_file_size_bytes FROM ducklake_list_files('{lake.name}', '{table}',"
            f" schema => 'hopscope', snapshot_version => {snapshot})"
        ).fetchall()


def sizes_of(lake: Lake) -> dict[str, int]:
    """Path and size of every file in the folder of the lake's files."""
    pattern = quoted(f"{files_folder(lake.settings)}**/*.parquet")
    return dict(lake.connection.execute(f"SELECT filename, size FROM read_blob({pattern})").fetchall())


def readable(lake: Lake, path: str) -> bool:
    """Whether a file is a complete Parquet file; in a folder, a killed writer may leave an incomplete one."""
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
    """The days of a snapshot's files, the oldest first. LakeError: a file is in no folder of a day.

    Copies of an event have the same time, so they are in the same day.
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
    """The SQL condition that selects the events of a day."""
    return f"time >= TIMESTAMP_NS '{day} 00:00:00' AND time < TIMESTAMP_NS '{day} 00:00:00' + INTERVAL 1 DAY"
