"""Destinations of events and metrics: health, losses, and how many events wait for each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ...export.counters import LOST, NAMES, health_of, names_of, read_counters
from ...export.positions import read_positions
from ...history.errors import HistoryError


@dataclass(frozen=True, slots=True)
class Destination:
    """One destination."""

    name: str
    kind: str
    place: str
    """Without a password."""
    ok: bool
    since_ns: int
    """Since when that is so."""
    problem: str
    waiting_events: int | None
    """Events of history that it has not confirmed, with those that it does not want; None: it takes none."""
    lost: dict[str, int]
    """By reason; only those that are not 0."""
    counters: dict[str, int]


def destinations_of(folder: Path) -> Iterator[Destination]:
    """All destinations of the collector that runs on a data folder, or ran last."""
    rows = read_counters(folder)
    ends = _ends(folder) if len(rows) else {}
    for name, row in zip(names_of(rows), rows, strict=True):
        health, positions = health_of(row), read_positions(folder, name)
        waiting = None
        if positions is not None:
            waiting = sum(max(0, end - int(positions[shard])) for shard, end in ends.items())
        yield Destination(
            name,
            bytes(row["kind"]).decode(),
            bytes(row["place"]).decode("utf-8", "replace"),
            health.ok,
            health.since_ns,
            health.problem,
            waiting,
            {reason: int(row[counter]) for counter, reason, _ in LOST if row[counter]},
            {counter: int(row[counter]) for counter in NAMES},
        )


def _ends(folder: Path) -> dict[int, int]:
    """1 + the sequence of the newest event, by shard."""
    from ...history.follow import EventFollower  # loads DuckDB

    follower = EventFollower(folder)
    try:
        return {shard: follower.end(shard) for shard in follower.shards()}
    except HistoryError:
        return {}
    finally:
        follower.close()
