"""The collector at one moment: rates, hot queues, slow flows and hops, events, losses."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from ...base.log import logger
from ...detect.flows.reading.flow_hops import FlowHops
from ...detect.flows.reading.state import queues_by_port
from ...detect.records import FLOW, KIND_AT, PLACE, ROUTINE, Kind, Metric, PortKind
from ...memory.snapshot import rows_at, rows_where
from ...present.collector_state import LimitsInForce
from ...present.feed import Cursor
from ...present.select import highest_flows
from ...wire.records import Records
from ..context import Context
from ..models import collector as c
from ..routes.state import summarise
from .contributors import ROWS as CONTRIBUTORS
from .contributors import Contributors, ContributorsReader
from .losses import ROWS as LOSSES
from .losses import Losses, LossReader
from .recent_distributions import RecentDistributionsReader
from .similar_events import Shown, SimilarEvents

PERIOD_SECONDS = 0.5
COLUMNS = 120
"""Number of snapshots that the strips show: a minute."""
POINTS = 180
"""Number of points of a line chart, one per second: three minutes."""
HOT_ROWS = 64
"""How many rows of a table, the highest, each snapshot keeps."""
SLOW_FLOWS = 100
"""How many of the slowest flows are searched for the slowest hops."""
KEEP_SECONDS = 600.0
"""How long a poller that requests have started continues after the last one."""
_PAUSE_SECONDS = 10.0
_RECENT_NS = 3 * 10**9
_LIVELY_NS = 10 * 10**9
"""Time without reports after which a flow is no longer among the slowest."""
_STRIPS = {
    "queues": (PortKind.QUEUE, Metric.QUEUE_OCCUPANCY),
    "buffers": (PortKind.BUFFER, Metric.BUFFER_OCCUPANCY),
    "links": (PortKind.EGRESS, Metric.LINK_UTILIZATION),
}
log = logger("serve")


@dataclass(frozen=True, slots=True)
class Rows:
    """Maximum numbers of rows in a snapshot's tables."""

    hot: int = 10
    slow_flows: int = 12
    slow_hops: int = 12
    contributors: int = CONTRIBUTORS
    losses: int = LOSSES


FOR_MERGING = Rows(hot=HOT_ROWS, slow_hops=1000, contributors=1000, losses=1000)
"""For members of a cluster: a row that is among the first of the cluster may rank low at a member."""


@dataclass(frozen=True, slots=True)
class HotRow:
    """A queue, buffer or port over the last minute."""

    node_id: int
    ident: int
    port: int
    values: list[int]
    """Highest value of each snapshot, oldest first."""
    now: int
    peak: int
    alarm: bool


@dataclass(frozen=True, slots=True)
class SlowHop:
    """An egress port of a switch, over the hops of the slowest flows."""

    node_id: int
    port: int
    worst_ns: int
    mean_ns: float
    flows: int


@dataclass(frozen=True, slots=True)
class Slow:
    """The slowest flows and hops."""

    flows: Records
    """FLOW [flows], the slowest first."""
    hops: list[SlowHop]
    first: FlowHops | None
    """The slowest flow with its hops."""


@dataclass(frozen=True, slots=True)
class Point:
    """One second of the line charts."""

    reports: float
    events: float
    lost: float
    rejected: float
    dropped: float
    duplicate: float


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything that the overview shows, at one moment."""

    time_ns: int
    summary: c.Summary
    points: tuple[Point, ...]
    strips: Mapping[str, list[HotRow]]
    slow_flows: Records
    slow_hops: list[SlowHop]
    contributors: Contributors
    notable: Shown
    limits: LimitsInForce | None
    missed: int
    """Events that this feed could not read in time."""
    takes_labels: bool = False
    """The collector listens for labels."""
    slowest: FlowHops | None = None
    """The first of `slow_flows` with its hops, read together."""
    losses: Losses = field(default_factory=Losses)
    followed_seconds: float = 0.0
    """How many seconds the strips reach back."""


@dataclass(slots=True)
class _Strip:
    """Values of the hottest rows of one table, by snapshot."""

    columns: deque[dict[int, int]] = field(default_factory=lambda: deque(maxlen=COLUMNS))
    highest: dict[int, int] = field(default_factory=dict)
    where: dict[int, tuple[int, int, int]] = field(default_factory=dict)

    def add(self, rows: Records, events: Mapping[int, int], now_ns: int) -> None:
        """Take one snapshot: the latest values, or higher ones that occurred since the last snapshot."""
        fresh = rows_where(rows, now_ns - rows["last_ns"] < _RECENT_NS)
        column: dict[int, int] = {}
        for row in fresh[np.argsort(fresh["latest"][:, 0])[-4 * HOT_ROWS :]]:
            column[int(row["key"])] = int(row["latest"][0])
        for row in fresh[np.argsort(fresh["highest"][:, 0])[-4 * HOT_ROWS :]]:
            key, highest = int(row["key"]), int(row["highest"][0])
            if highest > self.highest.get(key, highest):
                column[key] = max(column.get(key, 0), highest)
            self.highest[key] = highest
        for key, value in events.items():
            column[key] = max(column.get(key, 0), value)
        if len(self.highest) > 64 * HOT_ROWS:
            self.highest.clear()
        hottest = sorted(column.items(), key=lambda item: -item[1])[:HOT_ROWS]
        self.columns.append({key: value for key, value in hottest if value})

    def rows(self, table: Records, count: int) -> list[HotRow]:
        """The rows with the highest peaks of the last minute."""
        peaks: dict[int, int] = {}
        for column in self.columns:
            for key, value in column.items():
                peaks[key] = max(peaks.get(key, 0), value)
        alarmed = {int(key) for key in table["key"][table["alarm"] != 0]}
        hot = sorted(peaks, key=lambda key: (-peaks[key], key))[:count]
        found = table[np.isin(table["key"], np.array(hot, np.uint64))] if hot else table[:0]
        ports = {int(row["key"]): int(row["port"]) for row in found}
        empty = [0] * (COLUMNS - len(self.columns))
        return [
            HotRow(
                node_id=key & 0xFFFFFFFF,
                ident=key >> 32 & (0xFF if key >> KIND_AT == PortKind.QUEUE else PLACE),
                port=ports.get(key, 0xFFFF),
                values=empty + [column.get(key, 0) for column in self.columns],
                now=self.columns[-1].get(key, 0),
                peak=peaks[key],
                alarm=key in alarmed,
            )
            for key in hot
        ]


class Poller:
    """Follows the collector while the application runs, or while requests arrive. A snapshot is taken on
    request, at most twice per second, and shared by all clients.
    """

    def __init__(self, context: Context, rows: Rows | None = None) -> None:
        self._context = context
        self._rows = rows or Rows()
        self._cursor: Cursor | None = None
        self._points: deque[Point] = deque(maxlen=POINTS)
        self._strips = {name: _Strip() for name in _STRIPS}
        self._notable = SimilarEvents()
        self._recent = RecentDistributionsReader(context.state)
        self._contributors = ContributorsReader(context.state, self._recent, self._rows.contributors)
        self._losses = LossReader()
        self._slow = Slow(np.empty(0, FLOW), [], None)
        self._slow_due = float("-inf")
        self._missed = 0
        self._number = 0
        self._asked = 0.0
        self._taken = self._followed = float("-inf")
        self._following: asyncio.Task[None] | None = None
        self.snapshot: Snapshot | None = None

    async def newest(self) -> Snapshot:
        """A snapshot that is at most PERIOD_SECONDS old; from now on the collector is followed."""
        self._asked = time.monotonic()
        if self._following is None or self._following.done():
            self.start(KEEP_SECONDS)
        return await self._context.draw(self._newest)

    def _newest(self) -> Snapshot:
        if self.snapshot is None or time.monotonic() - self._taken > 0.9 * PERIOD_SECONDS:
            self._taken = time.monotonic()
            self.snapshot = self.once(follow=self._is_due)
        return self.snapshot

    @property
    def _is_due(self) -> bool:
        return time.monotonic() - self._followed > 0.9 * PERIOD_SECONDS

    def start(self, idle_seconds: float = float("inf")) -> asyncio.Task[None]:
        """Follow the collector until there was no request for `idle_seconds`, or the application closes."""
        self._following = asyncio.create_task(self._run(idle_seconds))
        return self._following

    async def _run(self, idle_seconds: float) -> None:
        while not self._context.closing.is_set() and time.monotonic() - self._asked < idle_seconds:
            begin = time.monotonic()
            try:
                if self._is_due:
                    await self._context.draw(self.follow)
            except Exception as error:  # the next may work
                log.error("the figures of the overview could not be read", exc_info=error)
            pause = PERIOD_SECONDS - (time.monotonic() - begin)
            await asyncio.sleep(max(0.1, pause))

    def follow(self) -> None:
        """Read the data that a later snapshot shows about the time before it."""
        self._follow(None, self._context.state.ports(), time.time_ns())
        self._recent.snapshot()

    def _follow(self, summary: c.Summary | None, ports: Records, now_ns: int) -> None:
        if time.monotonic() - self._followed > _PAUSE_SECONDS:  # the kept values are older than they seem
            self._points.clear()
            self._strips = {name: _Strip() for name in _STRIPS}
        self._followed = time.monotonic()
        self._number += 1
        if self._number % 2 or not self._points:
            self._points.append(_point(summary or summarise(self._context)))
        events = self._read_events()
        self._losses.add(events, now_ns)
        # the first read returns all events in memory
        events = rows_where(events, now_ns - events["time_ns"] < _RECENT_NS)
        by_port = queues_by_port(ports)
        for name, (kind, metric) in _STRIPS.items():
            rows = rows_where(ports, ports["kind"] == kind)
            self._strips[name].add(rows, _peaks(events, kind, metric, by_port), now_ns)

    def once(self, *, follow: bool = True) -> Snapshot:
        """Take a snapshot now. `follow`: add it to the strips and points."""
        state, now_ns = self._context.state, time.time_ns()
        summary = summarise(self._context)
        ports = state.ports()
        if follow:
            self._follow(summary, ports, now_ns)
        strips = {
            name: self._strips[name].rows(rows_where(ports, ports["kind"] == kind), self._rows.hot)
            for name, (kind, _) in _STRIPS.items()
        }
        flows = state.flows()
        recent = rows_where(flows, now_ns - flows["last_ns"] < _LIVELY_NS)
        slowest = highest_flows(recent if len(recent) else flows, "latency", SLOW_FLOWS)
        if time.monotonic() > self._slow_due:
            self._slow_due = time.monotonic() + 1.8 * PERIOD_SECONDS
            self._slow = self._read_slow(slowest)
        return Snapshot(
            time_ns=now_ns,
            summary=summary,
            points=tuple(self._points),
            strips=strips,
            slow_flows=self._slow.flows[: self._rows.slow_flows],
            slow_hops=self._slow.hops,
            slowest=self._slow.first,
            contributors=self._contributors.snapshot(slowest),
            notable=self._notable.shown(),
            limits=state.limits(),
            missed=self._missed,
            takes_labels=state.labels.about() is not None,
            losses=self._losses.losses(state, self._rows.losses),
            followed_seconds=PERIOD_SECONDS * len(self._strips["queues"].columns),
        )

    def _read_events(self) -> Records:
        feed = self._context.feed
        feed.poll()
        if self._cursor is None:
            self._cursor = {}
        events, lost = feed.read(self._cursor, 1 << 16)
        self._missed += lost
        self._notable.add(events[~np.isin(events["kind"], ROUTINE)], self._context.names)
        return events

    def _read_slow(self, flows: Records) -> Slow:
        """Read these flows again with their hops, so that table and path show the same values."""
        paths = self._context.state.paths_of(flows)
        if paths is None or not len(paths.flows):
            return Slow(flows[:0], [], None)
        order = np.lexsort((paths.flows["flow_id"], -paths.flows["latency_latest"].astype(np.float64)))
        known = np.flatnonzero(paths.hops["state"] & 1)
        fields = ("node_id", "egress_port", "latency_latest")
        columns = (paths.hops[name][known].tolist() for name in fields)
        found: dict[tuple[int, int], list[int]] = {}
        for node, port, latency in zip(*columns, strict=True):
            found.setdefault((node, port), []).append(latency)
        hops = [
            SlowHop(node, port, max(each), sum(each) / len(each), len(each))
            for (node, port), each in found.items()
        ]
        hops.sort(key=lambda hop: -hop.worst_ns)
        return Slow(paths.flows[order], hops[: self._rows.slow_hops], paths.of(int(order[0])))


def _peaks(events: Records, kind: PortKind, metric: Metric, by_port: bool) -> dict[int, int]:
    """Highest value of each queue, buffer or port in these events, by its key in the port table.

    `by_port`: keys of queues include a port.
    """
    rows = rows_where(events, (events["metric"] == metric) & (events["kind"] != Kind.PUSH))
    rows = rows_at(rows, np.argsort(rows["value"], kind="stable"))
    place = rows["ident"].astype(np.uint64) & np.uint64(PLACE)
    if kind == PortKind.QUEUE and by_port:
        place |= rows["port"].astype(np.uint64) << np.uint64(8)
    keys = np.uint64(kind) << np.uint64(KIND_AT) | place << np.uint64(32) | rows["node_id"].astype(np.uint64)
    return dict(zip(keys.tolist(), rows["value"].tolist(), strict=True))


def _point(summary: c.Summary) -> Point:
    rates = {counter.name: counter.per_second for counter in summary.counters if counter.label is None}
    return Point(
        reports=summary.reports_per_second,
        events=summary.events_per_second,
        lost=summary.lost_per_second,
        rejected=summary.rejected_per_second,
        dropped=rates["hopscope_kernel_drops_total"],
        duplicate=rates["hopscope_duplicate_reports_total"],
    )
