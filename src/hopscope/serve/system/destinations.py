"""Destinations of events and metrics: health, losses, and how many events wait for each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ...export.counters import LOST, NAMES, health_of, names_of, read_counters
from ...export.positions import read_positions
from ...history.errors import HistoryError
from ...present.events import when, wide
from ..models.system import Destination


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
            name=name,
            kind=bytes(row["kind"]).decode(),
            place=bytes(row["place"]).decode("utf-8", "replace"),
            ok=health.ok,
            since=when(health.since_ns) if health.since_ns else None,
            problem=health.problem,
            waiting_events=wide(waiting),
            lost={reason: wide(int(row[counter])) for counter, reason, _ in LOST if row[counter]},
            counters={counter: wide(int(row[counter])) for counter in NAMES},
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
