"""Bursts: short times in which a port or queue was above its limit, with the flows that contributed."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any, Literal

from ...detect.records import Kind, Metric
from ...history.history_like import HistoryLike
from ...history.reading.filters import Filters
from ..select import PLACE_METRICS
from .intervals import ALARM_KINDS, Interval, above, alarms, event_rows, is_measured, joined, place_of_row
from .moved_alarms import end_moved_alarms
from .peaks import KINDS, add_peaks, span_of

MAX_EVENTS = 100_000
"""Largest number of events that a search reads: the newest of the time range."""
MAX_EARLIER = 20_000
"""Largest number of beginnings and ends of alarms before the range that are read, to find the alarms that are
open when it begins."""
BACK_NS = 31 * 86_400 * 10**9
"""How far before the range they are read."""
MAX_OF_FLOWS = 20_000
"""Largest number of events at the places of bursts that are read to find their flows."""
CONTRIBUTORS = 5
"""How many flows are named for each burst."""
Sort = Literal["start", "peak", "duration"]
_TUPLE = ("src", "dst", "proto", "sport", "dport")


@dataclass(slots=True)
class Contributor:
    """A flow that had events at the place of a burst while it lasted."""

    flow: dict[str, Any]
    events: int = 0
    highest_latency_ns: int | None = None
    """Highest hop latency of the flow there."""


@dataclass(slots=True)
class Burst:
    """A burst, and the flows that had events at its place while it lasted."""

    interval: Interval
    flows: int | None = 0
    """Number of flows; None: not all events of the burst's time were read."""
    contributors: list[Contributor] = field(default_factory=list)
    """The flows with the highest hop latencies, or else with the most events."""


@dataclass(frozen=True, slots=True)
class Search:
    """The bursts to search for."""

    start_ns: int
    end_ns: int
    metric: str | None = None
    """None: all metrics of a place."""
    above: int | None = None
    """Search for values above this number instead of alarms."""
    shortest_ns: int = 0
    longest_ns: int | None = None
    """None: include those that have not ended."""
    node: int | None = None
    port: int | None = None
    sort: Sort = "start"
    limit: int = 50

    def takes(self, interval: Interval) -> bool:
        """Whether an interval meets the conditions."""
        place, duration = interval.place, interval.duration_ns
        if self.port not in (None, place.port) or not interval.overlaps(self.start_ns, self.end_ns):
            return False
        if duration is None:
            return self.longest_ns is None
        return self.shortest_ns <= duration and (self.longest_ns is None or duration <= self.longest_ns)


def bursts(history: HistoryLike, search: Search) -> tuple[int, list[Burst], bool]:
    """The number of bursts found, the first of them in the order of `search.sort`, and whether there were
    more events than are read.
    """
    metrics = (search.metric,) if search.metric else PLACE_METRICS
    kinds = ALARM_KINDS if search.above is None else KINDS
    filters: Filters = {"start": search.start_ns, "end": search.end_ns, "metrics": metrics, "kinds": kinds}
    if search.node is not None:
        filters["nodes"] = (search.node,)
    table = history.events(limit=MAX_EVENTS, **filters)
    rows = [row for row in event_rows(table) if row["node_id"] is not None]
    if search.above is None and not table.truncated:
        rows += _earlier(history, filters)
    rows.reverse()
    found = alarms(rows) if search.above is None else above(rows, search.above)
    cut = search.above is None and end_moved_alarms(history, found, filters)
    kept = [interval for interval in joined(found) if search.takes(interval)]
    if search.above is None:
        cut |= add_peaks(history, kept, {"start": search.start_ns, "end": search.end_ns})
    kept.sort(key=lambda one: _rank(one, search.sort))
    shown = [Burst(interval) for interval in kept[: search.limit]]
    cut |= bool(shown) and _contributors(history, shown, search)
    return len(kept), shown, table.truncated or cut


def _earlier(history: HistoryLike, filters: Filters) -> list[dict[str, Any]]:
    """Beginnings and ends of alarms before a time range, the newest first."""
    begin_ns = int(filters["start"])  # type: ignore[arg-type]
    earlier: Filters = {
        **filters,
        "start": max(0, begin_ns - BACK_NS),
        "end": begin_ns,
        "kinds": (Kind.RAISED.label, Kind.CLEARED.label),
    }
    table = history.events(limit=MAX_EARLIER, **earlier)
    return [row for row in event_rows(table) if row["node_id"] is not None]


def _rank(interval: Interval, sort: Sort) -> tuple[int, int]:
    newest = -(interval.start_ns or 0)
    if sort == "peak":
        return -interval.peak, newest
    if sort == "duration":
        return -(interval.duration_ns or 0), newest
    return newest, -interval.peak


def _contributors(history: HistoryLike, found: list[Burst], search: Search) -> bool:
    """Add the contributing flows to the bursts; returns whether some events were not read."""
    spans = [span_of(one.interval, search.start_ns, search.end_ns) for one in found]
    places = [one.interval.place for one in found]
    ports = sorted({place.port for place in places if place.port is not None})
    table = history.events(
        limit=MAX_OF_FLOWS,
        start=min(start for start, _ in spans),
        end=max(end for _, end in spans) + 1,
        nodes=sorted({place.node for place in places}),
        ports=ports if all(place.port is not None for place in places) else (),
        kinds=KINDS,
    )
    by_node: dict[int, list[dict[str, Any]]] = defaultdict(list)
    parts = zip(*(table[name].tolist() for name in _TUPLE), strict=True)
    oldest = 0
    for row, flow in zip(event_rows(table), parts, strict=True):
        by_node[row["node_id"]].append({**row, "tuple": flow})
        oldest = row["time_ns"]
    for burst, (start, end) in zip(found, spans, strict=True):
        if table.truncated and start <= oldest:
            burst.flows = None
            continue
        rows = [row for row in by_node[burst.interval.place.node] if start <= row["time_ns"] <= end]
        _add_flows(burst, [row for row in rows if burst.interval.holds(row["time_ns"], row["switch_ns"])])
    return table.truncated


def _add_flows(burst: Burst, rows: list[dict[str, Any]]) -> None:
    place = burst.interval.place
    flows: dict[tuple[Any, ...], Contributor] = {}
    for row in rows:
        here = place_of_row(row)
        port = (
            row["port"] if here.port is None else here.port
        )  # a buffer has no port, but its packet left by one
        if row["flow_id"] is None or (place.port is not None and port not in (None, place.port)):
            continue
        parts = dict(zip(_TUPLE, row["tuple"], strict=True))
        named = flows.setdefault(row["tuple"], Contributor({"id": f"{row['flow_id']:016x}", **parts}))
        named.events += 1
        if row["metric"] == Metric.HOP_LATENCY.label and is_measured(row):
            named.highest_latency_ns = max(named.highest_latency_ns or 0, row["value"])
    burst.flows = len(flows)
    order = sorted(flows.values(), key=lambda one: (-(one.highest_latency_ns or 0), -one.events))
    burst.contributors = order[:CONTRIBUTORS]
