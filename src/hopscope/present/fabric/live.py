"""The map of the network now: places from live paths, port tables, labels, LLDP and a file, with their
values.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from ...control.topology import Link, merged
from ...detect.links import LinksError
from ...detect.places import Words, keys_of, keys_of_places, nodes_of, ports_of
from ...detect.records import NO_PORT, PortKind
from ...labels.state import NEVER
from ...wire.records import Records
from ..collector_state import CollectorState
from ..topology import links_of_file, switches_with_ports
from .learned import LearnedLinks, observe_places
from .places import (
    FROM_FILE,
    FROM_LLDP,
    METRICS,
    NONE,
    Ints,
    found_at,
    new_places,
    raise_to,
    united,
)

WINDOW_SECONDS = 10.0
"""Window of the highest values of the live map."""
_LINKS_SECONDS = 5.0
"""Interval at which LLDP and the file of links are read."""
_LATENCY, _QUEUE, _UTILIZATION, _DROPS, _LABEL_AGE = range(len(METRICS))


MAX_SWITCHES = 8192
"""Largest number of switches on the map. Reports with made-up node ids can name any number of them."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The whole network at one moment."""

    time_ns: int
    rows: Records
    """PLACE [places], sorted by place."""
    edge: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    """By node: number of flows whose path begins or ends there, and of all flows through it."""
    left_off: int = 0
    """Number of switches that are left off, because there are more than MAX_SWITCHES."""


def bounded(snapshot: Snapshot) -> Snapshot:
    """The snapshot with at most MAX_SWITCHES switches: those named by LLDP or a file, and those with the
    most flows.
    """
    rows = snapshot.rows
    nodes, of = np.unique(nodes_of(rows["place"]), return_inverse=True)
    left_off = len(nodes) - MAX_SWITCHES
    if left_off <= 0:
        return snapshot
    flows = np.bincount(of, rows["flows"])
    flows[of[rows["sources"] & (FROM_FILE | FROM_LLDP) > 0]] = np.inf
    kept = np.sort(np.argpartition(flows, left_off)[left_off:])
    rows = rows[found_at(kept, of)[1]]
    ends = ~found_at(nodes[kept], rows["next"])[1]
    rows["next"][ends] = rows["next_port"][ends] = NONE
    return Snapshot(snapshot.time_ns, rows, snapshot.edge, left_off)


class LiveFabric:
    """The map of the collector of a data folder. All requests within a short time get the same snapshot."""

    def __init__(self, state: CollectorState) -> None:
        self._state = state
        self._lock = threading.Lock()
        self._learned = LearnedLinks()
        self._drops = _Drops()
        self._links: tuple[float, tuple[Link, ...]] = (-1.0, ())
        self._kept: Snapshot | None = None
        self._until = 0.0

    def snapshot(self) -> Snapshot:
        """The network now. A snapshot is reused for at least ten times as long as it took to make."""
        with self._lock:
            started = time.monotonic()
            if self._kept is None or started >= self._until:
                self._kept = self.read()
                self._until = started + max(0.4, 10 * (time.monotonic() - started))
            return self._kept

    def read(self) -> Snapshot:
        """Make a new snapshot of the network now."""
        now_ns = time.time_ns()
        found = observe_places(self._state.path_hops(), now_ns - int(WINDOW_SECONDS * 1e9))
        learned, edge = self._learned.learn(found, now_ns)
        ports = self._state.ports()
        label_ns, labels = self._state.labels.copy()
        links = self._known_links()
        egress = (ports["kind"] == PortKind.EGRESS) & (ports["ident"] != NO_PORT)
        of_port = keys_of(ports["node_id"], np.where(egress, ports["ident"], ports_of(ports["port"])))
        queue = (ports["kind"] == PortKind.QUEUE) & (ports["port"] != NO_PORT)
        of_link = keys_of_places([(link.node, link.port, None) for link in links])
        of_label = keys_of(labels["node_id"], ports_of(labels["port"]))
        rows = new_places(united([learned["place"], of_port[egress | queue], of_link, of_label]))
        at, _ = found_at(rows["place"], learned["place"])
        for name in ("next", "next_port", "last_ns", "sources"):
            rows[name][at] = learned[name]
        _add_links(rows, links, of_link)
        at, there = found_at(
            rows["place"], found.places
        )  # if there are very many places, `learned` has not kept all
        at = at[there]
        rows["flows"][at] = found.flows[there]
        rows["latest"][at, _LATENCY] = found.latest[there]
        rows["highest"][at, _LATENCY] = found.highest[there]
        rows["alarm"][at, _LATENCY] = found.alarm[there]
        _add_ports(rows, ports[egress], of_port[egress], _UTILIZATION)
        _add_ports(rows, ports[queue], of_port[queue], _QUEUE)
        at, _ = found_at(rows["place"], of_port[egress])
        rows["latest"][at, _DROPS] = ports["drops"][egress]
        rows["highest"][at, _DROPS] = self._drops.recent(of_port[egress], ports["drops"][egress])
        known = labels["received_ns"] != NEVER
        at, _ = found_at(rows["place"], of_label[known])
        age = np.maximum(0, label_ns - labels["received_ns"][known])
        rows["latest"][at, _LABEL_AGE] = rows["highest"][at, _LABEL_AGE] = age
        rows["alarm"][at, _LABEL_AGE] = labels["silent"][known] > 0
        return bounded(Snapshot(now_ns, rows, edge))

    def _known_links(self) -> tuple[Link, ...]:
        """Links of the file and of LLDP, read every few seconds."""
        read_at, links = self._links
        if time.monotonic() - read_at > _LINKS_SECONDS or read_at < 0:
            try:
                links = merged(links_of_file(self._state), switches_with_ports(self._state), ())
            except LinksError:  # /api/v0/topology reports what is wrong with the file
                links = ()
            self._links = time.monotonic(), links
        return links


def _add_links(rows: Records, links: tuple[Link, ...], places: Words) -> None:
    """Add the links of the file and LLDP, which override those that paths show."""
    for link, at in zip(links, np.searchsorted(rows["place"], places).tolist(), strict=True):
        row = rows[at]
        following = NONE if link.next_node is None else link.next_node
        row["disputed"] = link.disputed or row["next"] not in (NONE, following)
        row["next"], row["next_port"] = following, NONE if link.next_port is None else link.next_port
        row["sources"] |= FROM_FILE * ("file" in link.sources) | FROM_LLDP * ("lldp" in link.sources)


def _add_ports(rows: Records, ports: Records, places: Words, metric: int) -> None:
    known = ports["state"] & 1 > 0
    for column in ("latest", "highest"):
        raise_to(rows, column, metric, places[known], ports[column][known, 0])
    raised = places[ports["alarm"] & 1 > 0]
    rows["alarm"][found_at(rows["place"], raised)[0], metric] = True


class _Drops:
    """Drops in the last seconds, computed from earlier readings of the counters."""

    def __init__(self) -> None:
        self._before: deque[tuple[float, Words, Ints]] = deque()

    def recent(self, places: Words, drops: npt.NDArray[np.uint64]) -> npt.NDArray[np.float64]:
        """Drops at each place since about WINDOW_SECONDS ago, or since the first call."""
        now, counts = time.monotonic(), drops.astype(np.int64)
        order = np.argsort(places)
        self._before.append((now, places[order], counts[order]))
        while len(self._before) > 1 and self._before[1][0] <= now - WINDOW_SECONDS:
            self._before.popleft()
        _, then, old = self._before[0]
        at, there = found_at(then, places)
        base = np.zeros(len(places), np.int64)
        base[there] = old[at[there]]
        return np.where(counts >= base, counts - base, counts).astype(np.float64)
