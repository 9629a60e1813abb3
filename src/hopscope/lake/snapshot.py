"""The lake at one moment: its mark for each shard, and the SQL that selects its events."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import duckdb

from ..history.sandbox.files import NAMES
from .catalog import Lake
from .database import LakeError

Shard = tuple[str, str, int]
"""Member, incarnation, shard."""


@dataclass(frozen=True, slots=True)
class LakeSnapshot:
    """The lake at one moment."""

    version: int
    marks: Mapping[Shard, int]
    """First sequence of each shard that the lake does not have."""
    times: Mapping[str, int]
    """When each member last wrote into the lake, ns since the epoch."""
    gaps: Mapping[str, int]
    """Number of events below the marks that the lake lacks, and the member may still have, by member."""
    events: str
    """A SELECT of the lake's events, with the columns NAMES."""
    files: str
    """A SELECT of the files of these events: `data_file`, and `delete_file`, which
    lists deleted rows in it.
    """


def take(lake: Lake, cursor: duckdb.DuckDBPyConnection) -> LakeSnapshot:
    """The newest snapshot, in the transaction of `cursor`. LakeError: there is none."""
    found = cursor.execute(f"SELECT id FROM {lake.name}.current_snapshot()").fetchone()
    if found is None:
        raise LakeError(f"{lake.settings.place}: the lake has no snapshot")
    version = int(found[0])
    at = f"AT (VERSION => {version})"
    marks = cursor.execute(
        "SELECT member, incarnation, shard, max(next), epoch_ns(max(time))"
        f" FROM {lake.marks} {at} GROUP BY member, incarnation, shard"
    ).fetchall()
    gaps = cursor.execute(
        f"SELECT member, sum(events) FROM {lake.gaps} {at} WHERE reason = 'missing' GROUP BY member"
    ).fetchall()
    times: dict[str, int] = {}
    for member, *_, time_ns in marks:
        times[member] = max(times.get(member, 0), int(time_ns or 0))
    return LakeSnapshot(
        version,
        {(member, incarnation, shard): int(mark) for member, incarnation, shard, mark, _ in marks},
        times,
        {member: int(events) for member, events in gaps},
        f"SELECT {NAMES} FROM {lake.events} {at}",
        "SELECT data_file, delete_file FROM ducklake_list_files("
        f"'{lake.name}', 'events', schema => 'hopscope', snapshot_version => {version})",
    )
