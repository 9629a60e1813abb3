"""Reads the state of a running collector: counters, rates, flows, ports, sources and limits.

A copy is reused for a fifth of a second, so twenty pollers cost as much as one. If a worker replaces a
region, the new one is mapped. No web framework is imported, because `hopscope top` reads the same state.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from ..detect.counters import COUNTERS, COUNTERS_KIND, COUNTERS_VERSION, DETECTOR, INDEX, process_of
from ..detect.distributions.quantiles import Distribution
from ..detect.flows.flow_id_set import FlowIdSet
from ..detect.flows.reading.flow_hops import FlowHops
from ..detect.flows.reading.hop_sums import HopSums
from ..detect.flows.reading.path_hops import NO_HOPS, PathHops
from ..detect.records import EVENT, EVENT_VERSION, FLOW, PORT, SOURCE
from ..detect.thresholds import (
    CONTROL_FILE,
    CONTROL_VERSION,
    KIND,
    Change,
    read_change,
    read_limits,
)
from ..labels.counters import LABEL_COUNTERS
from ..memory.region import Region, RegionError
from ..memory.rings import newest
from ..settings.limits import SINK_METRICS, LimitSettings, ThresholdSettings
from .labels.ports import Labels
from .labels.tracked import TrackedFlows

T = TypeVar("T")
Records = npt.NDArray[np.void]

FRESH_SECONDS = 0.2
"""Time during which a copy is reused."""
RATE_SECONDS = 2.0
"""Time span over which rates are computed, if samples reach back far enough."""
NEWEST = 4096
"""Largest number of events of a worker that `newest_events` reads."""
_GAUGES = np.array([counter.gauge for counter in COUNTERS])
_HIGHEST = np.array([counter.highest for counter in COUNTERS])
_KEEP_SECONDS = 15.0
_SHARE = 10
"""A copy is reused for at least this multiple of the time that it took, so that reading a large table takes
at most a tenth of a core."""
_STALE_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class CounterSnapshot:
    """Counters of all workers, and of their detector, at one moment."""

    time_ns: int
    """When they were read, ns since the epoch."""
    total: npt.NDArray[np.uint64]
    """The sum over processes, or the highest value (`Counter.highest`), uint64 [COUNTERS]."""
    processes: Mapping[str, npt.NDArray[np.uint64]] = field(default_factory=dict)
    """uint64 [COUNTERS] of each process, by a worker's number or `detector`."""
    clock: float = 0.0
    """Monotonic time of the reading, seconds."""

    def __getitem__(self, key: str) -> int:
        return int(self.total[INDEX[key]])


@dataclass(frozen=True, slots=True)
class Rates:
    """Counters per second, over the last `seconds`."""

    seconds: float
    total: npt.NDArray[np.float64]
    """float64 [COUNTERS]; zeros until there are two readings."""

    def __getitem__(self, key: str) -> float:
        return float(self.total[INDEX[key]])


@dataclass(frozen=True, slots=True)
class LimitsInForce:
    """The limits that workers use now."""

    limits: LimitSettings
    change: Change | None
    """The last change since the collector started."""
    metrics: tuple[str, ...]
    """Metrics that are compared with limits; a sink compares fewer."""


@dataclass(frozen=True, slots=True)
class ToDisk:
    """Events on their way to the journals, including those of labels."""

    failing: bool
    """Whether writing fails."""
    waiting: int
    """Events that wait in memory, and are not in history yet."""
    lost: int
    """Events that were lost because memory had no room for them."""


class CollectorState:
    """Reads the regions of the collector that owns `folder`. Threads may share it; a thread that needs one
    table does not wait while another thread reads another table.

    A copy is reused for `fresh_seconds` (0: never), or longer if it took long to make.
    """

    def __init__(self, folder: Path, fresh_seconds: float = FRESH_SECONDS) -> None:
        self.folder = folder
        self.regions = folder / "regions"
        self.labels = Labels(self.regions)
        """Ports that label packets, and their coverage."""
        self.tracked = TrackedFlows(self.regions)
        """Paths of tracked flows."""
        self._fresh = fresh_seconds
        self._lock = threading.RLock()
        """Protects the mapped regions and kept copies; not held while a table is read."""
        self._turns: dict[str, threading.Lock] = {}
        self._cached: dict[str, tuple[float, Any]] = {}
        self._files: tuple[tuple[str, int], ...] | None = None
        self._counters: dict[str, Region] = {}
        self._control: Region | None = None
        self._reader: Any = None
        self._history: deque[CounterSnapshot] = deque()
        self.problems: dict[str, str] = {}
        """Regions that could not be read, with the error message."""

    def counters(self) -> CounterSnapshot:
        """Counters, summed over workers; zeros if no collector has run."""
        return self._once("counters", self._read_counters)

    def to_disk(self) -> ToDisk:
        """Events that are not on disk yet."""
        counters, labels = self.counters(), LABEL_COUNTERS.read(self.regions)
        return ToDisk(
            bool(counters["journal_failing"] or labels["label_journal_failing"]),
            counters["journal_waiting_events"] + labels["label_waiting_events"],
            counters["journal_lost_events_total"] + labels["label_lost_events_total"],
        )

    def rates(self, seconds: float = RATE_SECONDS) -> Rates:
        """Counters per second over about the last `seconds`; the counters of a restarted worker start at
        zero.
        """
        before = now = self.counters()
        with self._lock:
            samples = [sample for sample in self._history if sample.clock <= now.clock]
        for sample in reversed(samples):
            before = sample
            if now.clock - sample.clock >= seconds:
                break
        span = now.clock - before.clock
        if span <= 0:
            return Rates(0.0, np.zeros(len(COUNTERS)))
        return Rates(span, difference(before, now) / span)

    def flows(self) -> Records:
        """Live flows of all workers, FLOW [flows]."""
        return self._once("flows", lambda: self._read("flows"))

    def flow(self, flow_id: int) -> np.void | None:
        """The FLOW record of a live flow, the newest if several workers have it; None: it is not live."""
        rows = self.flows()
        rows = rows[rows["flow_id"] == np.uint64(flow_id)]
        return rows[np.argmax(rows["last_ns"])] if len(rows) else None

    def ports(self) -> Records:
        """Queues, buffers and egress ports, PORT [rows]; each is contained once."""
        return self._once("ports", lambda: self._read("ports"))

    def sources(self) -> Records:
        """Sources with their sequence numbers, SOURCE [rows]."""
        return self._once("sources", lambda: self._read("sources"))

    def fill(self) -> dict[str, float]:
        """Share of rows in use, by table (`ports`, `sources`, `distributions`); empty without a worker."""
        from ..detect.distributions.reader import DistributionReader

        reader = self._mapped()
        found: dict[str, float] = {} if reader is None else reader.fill()
        if found:
            with suppress(RegionError):  # a starting worker has not created its region yet
                found["distributions"] = DistributionReader.attach(self.regions).fill()
        return found

    def hops_of(self, flow: np.void) -> Records:
        """Hops of one flow in path order, HOP_STATE [hops]."""
        return self._mapped().hops_of(flow)

    def passes(self, flows: Records, node_id: int, egress_port: int | None = None) -> npt.NDArray[np.bool_]:
        """Which of these FLOW records pass a switch (and leave it by this port), bool [flows]."""
        reader = self._mapped()
        if reader is None:
            return np.zeros(len(flows), np.bool_)
        through = FlowIdSet(reader.through(node_id, egress_port))
        return through.has(flows["flow_id"])

    def paths(self) -> Iterator[FlowHops]:
        """All live flows with their hops, in blocks."""
        reader = self._mapped()
        if reader is not None:
            yield from reader.paths()

    def path_hops(self) -> PathHops:
        """Hops of all live paths as columns."""
        reader = self._mapped()
        return NO_HOPS if reader is None else reader.path_hops()

    def hop_sums(self) -> HopSums | None:
        """Latency sums of the hops of all live flows; None without a collector."""
        return self._once("hop_sums", self._read_hop_sums)

    def paths_of(self, flows: Records) -> FlowHops | None:
        """These flows, read again, with their hops and queues. Flows that have left are missing. None without
        a collector.
        """
        reader = self._mapped()
        return None if reader is None else reader.paths_of(flows)

    def path_of(self, flow: np.void) -> FlowHops | None:
        """Hops of one flow with their queues; None if it has left."""
        reader = self._mapped()
        return None if reader is None else reader.path_of(flow)

    def distributions(self) -> list[Distribution]:
        """Histograms since the workers started to count; empty if they do not count distributions."""
        return self._once("distributions", self._read_distributions)

    def newest_events(self) -> Records:
        """The newest events of all workers in memory, EVENT [at most NEWEST for each worker]."""
        return self._once("newest_events", self._read_newest_events)

    def limits(self) -> LimitsInForce | None:
        """The limits that the workers use now; None without a collector."""
        return self._once("limits", self._read_limits)

    def forget(self, what: str) -> None:
        """Discard a copy, so that the next call reads again."""
        with self._turn(what), self._lock:
            self._cached.pop(what, None)

    def workers(self) -> list[int]:
        """Numbers of the workers that have counters."""
        with self._lock:
            self._attach()
            return sorted(int(process) for process in self._counters if process != DETECTOR)

    def _once(self, what: str, read: Callable[[], T]) -> T:
        with self._turn(what):
            with self._lock:
                now = time.monotonic()
                kept = self._cached.get(what)
                if kept is not None and now < kept[0]:
                    return kept[1]
                self._attach()
                files = self._files
            value = read()
            done = time.monotonic()
            if self._fresh:
                keep = min(_STALE_SECONDS, max(self._fresh, _SHARE * (done - now)))
                with self._lock:
                    if files == self._files:  # else the value may come from regions that have been replaced
                        self._cached[what] = (done + keep, value)
            return value

    def _turn(self, what: str) -> threading.Lock:
        """The lock that a thread holds while it reads this."""
        with self._lock:
            return self._turns.setdefault(what, threading.Lock())

    def _mapped(self) -> Any:
        """The reader of the tables; None without a collector."""
        with self._lock:
            self._attach()
            return self._reader

    def _attach(self) -> None:
        """Map the regions again if files have been added, removed or replaced."""
        files = listing(self.regions)
        if files == self._files:
            return
        self.problems = {}
        self._cached.clear()
        names = [name for name, _ in files]
        counters = {}
        for name in names:
            process = process_of(name)
            if process is not None:
                region = self._map(name, COUNTERS_KIND, COUNTERS_VERSION)
                if region is not None:
                    counters[process] = region
        self._counters = counters
        self._control = self._map(CONTROL_FILE, KIND, CONTROL_VERSION) if CONTROL_FILE in names else None
        self._reader = self._state_reader() if any(name.endswith(".flows") for name in names) else None
        self._files = files
        if self.problems:
            self._files = None  # incomplete: try again next time

    def _map(self, name: str, kind: str, version: int) -> Region | None:
        try:
            return Region.attach(self.regions / name, kind, version)
        except (RegionError, OSError, ValueError) as error:
            self.problems[name] = str(error)
            return None

    def _state_reader(self) -> Any:
        from ..detect.flows.reading.state import StateReader  # slow to import, and counters do not need it

        try:
            return StateReader.attach(self.regions)
        except (RegionError, OSError, ValueError) as error:
            self.problems["state"] = str(error)
            return None

    def _read(self, table: str) -> Records:
        reader = self._reader
        return EMPTY[table] if reader is None else getattr(reader, table)()

    def _read_hop_sums(self) -> HopSums | None:
        reader = self._reader
        return None if reader is None else reader.hop_sums()

    def _read_distributions(self) -> list[Distribution]:
        from ..detect.distributions.reader import DistributionReader

        try:
            return DistributionReader.attach(self.regions).distributions()
        except RegionError as error:
            self.problems["distributions"] = str(error)
            return []

    def _read_newest_events(self) -> Records:
        blocks = newest(self.regions, "events", EVENT_VERSION, NEWEST)
        return np.concatenate([np.empty(0, EVENT), *blocks])

    def _read_counters(self) -> CounterSnapshot:
        clock = time.monotonic()
        processes = {process: region["counters"].copy() for process, region in self._counters.items()}
        total = np.zeros(len(COUNTERS), np.uint64)
        for block in processes.values():
            total = np.where(_HIGHEST, np.maximum(total, block), total + block)
        counts = CounterSnapshot(time.time_ns(), total, processes, clock)
        with self._lock:
            while self._history and clock - self._history[0].clock > _KEEP_SECONDS:
                self._history.popleft()
            self._history.append(counts)
        return counts

    def _read_limits(self) -> LimitsInForce | None:
        control = self._control
        if control is None:
            return None
        metrics = SINK_METRICS if control["sink"][0] else tuple(ThresholdSettings.model_fields)
        return LimitsInForce(read_limits(control), read_change(control), metrics)


EMPTY: dict[str, Records] = {
    "flows": np.empty(0, FLOW),
    "ports": np.empty(0, PORT),
    "sources": np.empty(0, SOURCE),
}
"""Empty tables, for a folder without a collector."""


def listing(folder: Path) -> tuple[tuple[str, int], ...]:
    """(name, inode) of the files in the regions' folder; a new region has another inode."""
    try:
        with os.scandir(folder) as entries:
            return tuple(sorted((e.name, e.inode()) for e in entries if not e.name.startswith(".")))
    except OSError:
        return ()


def difference(before: CounterSnapshot, after: CounterSnapshot) -> npt.NDArray[np.float64]:
    """Increase between two readings, float64 [COUNTERS]. A counter that fell was restarted from zero. A gauge
    may fall, for example when reports that were counted as lost arrive late; then the increase is 0.
    """
    grown = np.zeros(len(COUNTERS))
    for process, block in after.processes.items():
        old = before.processes.get(process)
        if old is None:
            grown += block  # the process started between the readings
            continue
        grown += np.where(block >= old, block - old, np.where(_GAUGES, 0, block))
    return grown
