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
    """Address, without a password."""
    ok: bool
    since_ns: int
    """Since when it has been in this state."""
    problem: str
    waiting_events: int | None
    """Events not confirmed yet, including those filtered out for it; None: it takes no events."""
    lost: dict[str, int]
    """Nonzero losses by reason."""
    counters: dict[str, int]


def destinations_of(folder: Path) -> Iterator[Destination]:
    """All destinations of the collector that runs, or last ran, on a data folder."""
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
    """1 + the number of the newest event, by shard."""
    from ...history.follow import EventFollower  # loads DuckDB

    follower = EventFollower(folder)
    try:
        return {shard: follower.end(shard) for shard in follower.shards()}
    except HistoryError:
        return {}
    finally:
        follower.close()
