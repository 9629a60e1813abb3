"""What the live state says about alarms: whether they are raised, their values, and the flows at their
places.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ..detect.alarms import place_key
from ..detect.places import UNKNOWN, ports_of_events
from ..detect.records import EVENT, NO_NODE, OF_SOURCE, Kind, Metric, PortKind
from ..labels.counters import LABEL_COUNTERS
from ..wire.records import Records
from .collector_state import CollectorState

MAX_FLOWS = 1_000_000
"""With more live flows, the flows at a place are not searched, because reading all hops takes seconds."""
WORST = 5
"""How many flows are listed for a place."""
_SLOTS = {
    (PortKind.EGRESS, 0): Metric.LINK_UTILIZATION,
    (PortKind.QUEUE, 0): Metric.QUEUE_OCCUPANCY,
    (PortKind.QUEUE, 1): Metric.QUEUE_CONGESTION,
    (PortKind.BUFFER, 0): Metric.BUFFER_OCCUPANCY,
}
_QUEUES = (Metric.QUEUE_OCCUPANCY, Metric.QUEUE_CONGESTION)
_OF_LABEL = {Metric.LABEL_LATENCY: "latency_ns", Metric.LABEL_OCCUPANCY: "occupancy"}
_SOURCE = ("source_hi", "source_lo", "node_id", "hw_id")
_SOURCE_OF_EVENT = ("src_hi", "src_lo", "node_id", "ident")
"""The fields that identify a source, in SOURCE and in an EVENT about a source."""
LATEST = 2**63 - 1
Place = tuple[int, int | None, int | None]
"""Switch, egress port (None: any) and queue (None: any)."""


@dataclass(frozen=True, slots=True)
class AlarmState:
    """What the live state says about one alarm."""

    alarmed: bool | None
    """None: the live state does not tell."""
    value: int | None = None
    """The newest value."""
    at_ns: int = LATEST
    """When the newest value came, ns since the epoch; LATEST: just now."""
    highest: int = 0
    """The highest value since `since_ns`."""
    since_ns: int = 0


class LiveAlarms:
    """The alarms of the live state at one moment."""

    def __init__(self, state: CollectorState, queue_by_port: bool) -> None:
        self._by_port = queue_by_port
        self._flows = state.flows()
        self._order = np.argsort(self._flows["flow_id"])
        sources = state.sources()
        silent = sources[sources["silent"] != 0]
        silent = silent[np.argsort(silent["last_ns"], kind="stable")]
        self._silent = dict(zip(silent[list(_SOURCE)].tolist(), silent["last_ns"].tolist(), strict=True))
        self._labels = state.labels.ports()
        self._coverage_low = bool(LABEL_COUNTERS.read(state.regions)["label_coverage_low"])
        self._raised = dict(self._rows(state.ports()))

    def _rows(self, ports: Records) -> Iterator[tuple[str, tuple[np.void, int, np.void]]]:
        """For each alarmed metric of a row: its key, the row, the slot, and an EVENT like the one that begins
        an alarm.
        """
        for row in ports[ports["alarm"] != 0]:
            for slot in np.flatnonzero(int(row["alarm"]) >> np.arange(2) & 1).tolist():
                metric = _SLOTS.get((PortKind(int(row["kind"])), slot))
                if metric is None:
                    continue
                event = np.zeros(1, EVENT)[0]
                event["kind"], event["metric"], event["value"] = Kind.RAISED, metric, row["latest"][slot]
                for name in ("node_id", "ident", "port"):
                    event[name] = row[name]
                yield place_key(event, self._by_port), (row, slot, event)

    def alarmed(self) -> Iterator[tuple[np.void, int]]:
        """For each alarmed queue, buffer or port: an EVENT with the newest value, and the highest value."""
        for row, slot, event in self._raised.values():
            yield event, int(row["highest"][slot])

    def look(self, event: np.void, flow_ids: Collection[int]) -> AlarmState:
        """The state of an alarm, given the EVENT that began it and the flows that it concerns."""
        metric = int(event["metric"])
        if int(event["kind"]) in OF_SOURCE:
            return self._source(event)
        if metric in _SLOTS.values():
            found = self._raised.get(place_key(event, self._by_port))
            if found is None:
                return AlarmState(False)
            row, slot, _ = found
            latest, highest = int(row["latest"][slot]), int(row["highest"][slot])
            return AlarmState(True, latest, int(row["last_ns"]), highest, int(row["pushed_ns"]))
        if metric == Metric.FLOW_LATENCY:
            flow = self._flow(int(event["flow_id"]))
            if flow is None:
                return AlarmState(False)
            return AlarmState(bool(flow["alarm"]), int(flow["latency_latest"]), int(flow["last_ns"]))
        if metric == Metric.HOP_LATENCY:
            return AlarmState(any(self._flow(flow_id) is not None for flow_id in flow_ids))
        if metric in _OF_LABEL or metric == Metric.LABEL_AGE:
            return self._label(event, Metric(metric))
        if metric == Metric.LABEL_COVERAGE and len(self._labels):
            return AlarmState(self._coverage_low)
        return AlarmState(None)

    def _flow(self, flow_id: int) -> np.void | None:
        ids = self._flows["flow_id"]
        at = int(np.searchsorted(ids, np.uint64(flow_id), sorter=self._order))
        if at >= len(ids) or int(ids[self._order[at]]) != flow_id:
            return None
        row: np.void = self._flows[self._order[at]]
        return row

    def _source(self, event: np.void) -> AlarmState:
        last_ns = self._silent.get(tuple(int(event[name]) for name in _SOURCE_OF_EVENT))
        if last_ns is None:
            return AlarmState(False)
        return AlarmState(True, max(0, time.time_ns() - last_ns))

    def _label(self, event: np.void, metric: Metric) -> AlarmState:
        rows = self._labels
        row = rows[(rows["node_id"] == event["node_id"]) & (rows["port"] == event["port"])]
        if not len(row):
            return AlarmState(False if len(rows) else None)
        if metric in _OF_LABEL:
            return AlarmState(None, int(row[_OF_LABEL[metric]][0]))
        return AlarmState(bool(row["silent"][0]), max(0, time.time_ns() - int(row["received_ns"][0])))


def place_of(event: np.void) -> Place | None:
    """The place of an EVENT; None if it happened at no switch."""
    node, port = int(event["node_id"]), int(ports_of_events(event))
    if node == NO_NODE or int(event["kind"]) in OF_SOURCE:
        return None
    queue = int(event["ident"]) if int(event["metric"]) in _QUEUES else None
    return node, None if port == UNKNOWN else port, queue


@dataclass(slots=True)
class FlowsAt:
    """Live flows through one place."""

    count: int = 0
    worst: list[tuple[int, np.void]] | None = None
    """(Latency at the place (ns), FLOW) of at most WORST flows, the slowest first."""


def flows_at(state: CollectorState, places: Sequence[Place]) -> dict[Place, FlowsAt]:
    """The live flows through these places; empty if there are too many flows to search."""
    if not places or len(state.flows()) > MAX_FLOWS:
        return {}
    found = {place: FlowsAt(worst=[]) for place in places}
    nodes = np.array(sorted({node for node, _, _ in found}), np.uint32)
    for block in state.paths():
        near = np.flatnonzero(np.isin(block.hops["node_id"], nodes))
        hops, owner, queue = block.hops[near], block.owner[near], block.queue[near]
        for (node, port, queue_id), at in found.items():
            mine = hops["node_id"] == node
            if port is not None:
                mine &= hops["egress_port"] == port
            if queue_id is not None:
                mine &= queue == queue_id
            rows = np.flatnonzero(mine)
            if not len(rows):
                continue
            _, first = np.unique(owner[rows], return_index=True)  # a flow with a loop passes the place twice
            rows = rows[first]
            at.count += len(rows)
            latency = np.where(hops["state"][rows] & 1, hops["latency_latest"][rows], 0)
            slowest = rows[np.argsort(-latency.astype(np.int64), kind="stable")[:WORST]]
            known = [(int(hops["latency_latest"][r]), block.flows[owner[r]]) for r in slowest]
            at.worst = sorted([*(at.worst or ()), *known], key=lambda pair: -pair[0])[:WORST]
    return found
