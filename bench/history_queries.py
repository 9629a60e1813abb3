"""Queries about a history of many events: how long one takes, in a process that has asked before."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.common import Bench
from hopscope.detect.records import EVENT
from hopscope.history.files.segments import write_segment
from hopscope.history.query import Flow, History, Table
from hopscope.history.writing.journal import JournalWriter
from hopscope.settings.history import HistorySettings
from support.events.event_make import Events, random_events

SEGMENT = 1_000_000
FLOWS = 100_000
NODES, PORTS = 64, 32
JOURNAL = HistorySettings().journal_file_bytes // EVENT.itemsize
"""Events of a journal that is about to become a segment, about half of a segment's."""
SECONDS = 60
"""Time that a segment's events take."""
LIVES = 3
"""Segments that a flow has events in, unless it is one that never ends."""
RARE, SILENT = (61, 31), (62, 31)
"""Ports: one with about 20 events in a segment, and one without any, of switches that have many."""
SQL = ("SELECT 1", "SELECT kind, count(*) FROM events GROUP BY kind")


def segments(count: int) -> Iterator[Events]:
    """Events of `count` segments: of long flows, the same in all, and of flows that come and go."""
    rng = np.random.default_rng(1)
    base = random_events(FLOWS, seed=5)
    base["node_id"], base["port"] = rng.integers(1, NODES, FLOWS), rng.integers(0, PORTS, FLOWS)
    base["sport"] = np.where(base["flow_id"] == 0, 0, np.arange(FLOWS) % 2)
    base["hop"], base["hop_count"] = 0, np.minimum(base["hop_count"], 6)
    time_ns = int(base["time_ns"][0])
    for number in range(count):
        which = (rng.pareto(1.1, SEGMENT) * 50).astype(int) % FLOWS
        events = base[which].copy()
        events["flow_id"][is_short(events)] += np.uint64(number // LIVES)
        events["time_ns"] = time_ns + np.sort(rng.integers(0, SECONDS * 10**9, SEGMENT))
        time_ns = int(events["time_ns"][-1])
        for port in (RARE, SILENT):
            events["port"][(events["node_id"] == port[0]) & (events["port"] == port[1])] = 0
        events["node_id"][:: SEGMENT // 20], events["port"][:: SEGMENT // 20] = RARE
        events["value"], events["previous"] = rng.integers(1000, 2_000_000, (2, SEGMENT))
        events["sequence"] = np.arange(number * SEGMENT, (number + 1) * SEGMENT)
        yield events


def is_short(events: Events) -> npt.NDArray[np.bool_]:
    """Which events are of flows that come and go."""
    return events["sport"] == 1


def main() -> None:
    """10 and 100 million events; with --quick two."""
    bench, _ = Bench.start(
        "history_queries",
        "queries to an open History, one after another, best of five: the newest 100 events of "
        "all, and those of a flow, a switch, a port and a kind. Each segment has 1 million "
        "events of one minute, 100,000 flows and 64 switches. A short flow has events in 3 "
        "segments; a long flow and a rare port have about 20 in every segment. With a journal: the "
        f"next {JOURNAL:,} events are in a journal that is about to become a segment, the worst case of a "
        "running collector.",
        "the first query of a process, which checks the checksum of each segment that it "
        "reads, and files that are not in the page cache.",
    )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "journal").mkdir()
        (folder / "segments").mkdir()
        sizes = (2,) if bench.quick else (10, 100)
        newest = np.empty(0, EVENT)
        for number, events in enumerate(segments(sizes[-1] + 1)):
            if number in sizes:
                describe(bench, folder, number)
                ask(bench, folder, newest, f"{number} M")
                with JournalWriter(folder, 0) as journal:
                    journal.append(events[:JOURNAL].copy())
                    ask(bench, folder, newest, f"{number} M and a journal")
                for path in (folder / "journal").glob("*.journal"):
                    path.unlink()
            if number < sizes[-1]:
                write_segment(folder, events)
                newest = events


def usual_flow(events: Events) -> int:
    """A flow with about 20 events."""
    flows, counts = np.unique(events["flow_id"], return_counts=True)
    return int(flows[np.abs(counts - 20).argmin()])


def describe(bench: Bench, folder: Path, millions: int) -> None:
    """Rows of the sizes of files."""
    for of, pattern in (("segments", "*.parquet"), ("indexes", "*.index")):
        size = sum(path.stat().st_size for path in (folder / "segments").glob(pattern))
        bench.row({"events": f"{millions} M", "of": of}, size / millions / 1e6, "bytes an event")


def ask(bench: Bench, folder: Path, newest: Events, stored: str) -> None:
    """Rows of queries about what is `stored`; `newest`: events of the newest segment."""
    long, short = (
        usual_flow(newest[(newest["flow_id"] != 0) & (is_short(newest) == short)]) for short in (False, True)
    )
    start = int(newest["time_ns"][-1]) - 3600 * 10**9
    queries: dict[str, dict[str, Any]] = {
        "newest": {},
        "a long flow": {"flow": Flow(flow_id=long)},
        "a long flow, last hour": {"flow": Flow(flow_id=long), "start": start},
        "a short flow": {"flow": Flow(flow_id=short)},
        "an unknown flow": {"flow": Flow(flow_id=1)},
        "a switch": {"nodes": [7]},
        "a port": {"nodes": [int(newest["node_id"][-5])], "ports": [int(newest["port"][-5])]},
        "a rare port": {"nodes": [RARE[0]], "ports": [RARE[1]]},
        "a port without events": {"nodes": [SILENT[0]], "ports": [SILENT[1]]},
        "a kind": {"kinds": ["path_change"]},
    }
    with History(folder) as history:
        began = time.perf_counter()
        history.events(limit=100)
        first = time.perf_counter() - began
        bench.row({"events": stored, "query": "the first of all"}, first * 1e3, "ms")
        asked: dict[str, Callable[[], Table]] = {
            **{name: partial(history.events, limit=100, **filters) for name, filters in queries.items()},
            **{f"SQL: {text}": partial(history.sql, text, seconds=60.0) for text in SQL},
        }
        for query, find in asked.items():
            best = float("inf")
            for _ in range(5):
                began = time.perf_counter()
                table = find()
                best = min(best, time.perf_counter() - began)
            bench.row({"events": stored, "query": query}, best * 1e3, "ms", f"{len(table)} rows")


if __name__ == "__main__":
    main()
