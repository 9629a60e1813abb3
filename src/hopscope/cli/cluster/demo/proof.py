"""The proof: per member and shard, lake and tails have every event once, and none is missing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ....history.follow import EventFollower
from ....lake.catalog import Lake

STEP = 65_536


@dataclass(frozen=True, slots=True)
class ShardProof:
    """Where the events of one shard of one member are."""

    member: str
    incarnation: str
    shard: int
    lake: int
    """Events in the lake."""
    distinct: int
    """Number of different sequence numbers among them."""
    mark: int
    """The first event that the lake lacks."""
    tail: int
    """Events from the mark on, in the member's own history."""
    end: int
    """1 + the highest sequence number that the member has assigned."""
    holds: bool
    """Whether count = distinct = max + 1, in lake and tail together."""


def prove(lake: Lake, members: Mapping[str, Path]) -> list[ShardProof]:
    """Compare the lake with the data folders of all members (by name), whose processes may run or not.

    It reads both independently: rows of the lake by SQL, events of the members from their files and rings.
    """
    rows = _of_lake(lake)
    found = []
    for member, folder in members.items():
        incarnation = (folder / "member.id").read_text().strip() if (folder / "member.id").exists() else ""
        follower = EventFollower(folder)
        try:
            for shard in follower.shards():
                row = rows.pop((member, incarnation, shard), None)
                found.append(_shard(follower, member, incarnation, shard, row))
        finally:
            follower.close()
    for (member, incarnation, shard), row in rows.items():  # rows of a data folder that is gone
        count, distinct, highest, mark = row
        found.append(
            ShardProof(
                member, incarnation, shard, count, distinct, mark, 0, mark,
                count == distinct == highest + 1 == mark,
            )
        )  # fmt: skip
    return sorted(found, key=lambda each: (each.member, each.shard))


def identities(columns: Mapping[str, Any]) -> set[tuple[int, ...]]:
    """Events as (shard, sequence, time in ns, flow id, value), so that an event has the same tuple in the
    lake and in a member's own history.
    """
    found = []
    for name in ("shard", "sequence", "time", "flow_id", "value"):
        column = np.ma.filled(np.ma.asarray(columns[name]), 0)
        found.append(column.astype("M8[ns]").astype(np.int64) if column.dtype.kind == "M" else column)
    return set(zip(*(column.tolist() for column in found), strict=True))


def _of_lake(lake: Lake) -> dict[tuple[str, str, int], tuple[int, int, int, int]]:
    """(count, distinct, highest, mark) by (member, incarnation, shard), from one snapshot."""
    at = f"AT (VERSION => {lake.snapshot()})"
    rows = lake.connection.execute(
        f"""
        SELECT member, incarnation, shard, e.count, e.seen, e.highest, m.next
        FROM (SELECT member, incarnation, shard, max(next) AS next FROM {lake.marks} {at} GROUP BY ALL) m
        FULL JOIN (
            SELECT member, incarnation, shard, count(*) AS count, count(DISTINCT sequence) AS seen,
                max(sequence) AS highest
            FROM {lake.events} {at} GROUP BY ALL
        ) e USING (member, incarnation, shard)
        """
    ).fetchall()
    return {
        (str(member), str(incarnation), int(shard)): (
            int(count or 0), int(seen or 0), -1 if highest is None else int(highest), int(mark or 0)
        )
        for member, incarnation, shard, count, seen, highest, mark in rows
    }  # fmt: skip


def _shard(
    follower: EventFollower, member: str, incarnation: str, shard: int, row: tuple[int, int, int, int] | None
) -> ShardProof:
    count, distinct, highest, mark = row or (0, 0, -1, 0)
    end = follower.end(shard)
    sequences = np.concatenate([np.empty(0, np.uint64), *_tail(follower, shard, mark, end)])
    whole = np.array_equal(sequences, np.arange(mark, end, dtype=np.uint64))
    holds = count == distinct == highest + 1 == mark and whole
    return ShardProof(
        member, incarnation, shard, count, distinct, mark, len(sequences), max(end, mark), holds
    )


def _tail(follower: EventFollower, shard: int, mark: int, end: int) -> Iterable[Any]:
    at = mark
    while at < end:
        records = follower.read(shard, at, STEP)
        if not len(records):
            return
        records = records[records["sequence"] < end]
        yield records["sequence"].copy()
        at += len(records) or end


def summed(shards: list[ShardProof]) -> dict[str, Any]:
    """Sums over all shards, and whether all proofs hold, for JSON."""
    return {
        "shards": [asdict(each) for each in shards],
        "lake": sum(each.lake for each in shards),
        "tails": sum(each.tail for each in shards),
        "events": sum(each.end for each in shards),
        "holds": bool(shards) and all(each.holds for each in shards),
    }
