"""The links of a network, learned from paths, and kept while flows come and go."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from ...detect.flows.reading.path_hops import PathHops
from ...detect.places import Words, nodes_of
from ...wire.records import Records
from .places import FROM_PATHS, NONE, Ints, found_at, new_places, united

KEEP_NS = 3600 * 10**9
"""A link that no flow uses is forgotten after an hour."""
MOST = 1 << 17
"""Largest number of places that are kept: those seen last."""


@dataclass(frozen=True, slots=True)
class ObservedPlaces:
    """What paths show about places, sorted by place."""

    places: Words
    following: Ints
    """The most frequent next node; NONE: unknown, or hosts."""
    flows: Ints
    last_ns: Ints
    latest: npt.NDArray[np.float64]
    """Hop latency of the flow that was seen last, ns; NaN: unknown."""
    highest: npt.NDArray[np.float64]
    """Highest of the latest hop latencies of the flows with a report within the window; else the same as
    `latest`.
    """
    alarm: npt.NDArray[np.bool_]
    edge: dict[int, tuple[int, int]] = field(default_factory=dict)
    """By node: number of flows whose path begins or ends there, and of all flows through it."""


def observe_places(hops: PathHops, window_from_ns: int) -> ObservedPlaces:
    """Group the hops of paths by place. `window_from_ns`: start of the window."""
    order = _order(hops.place)
    place = hops.place[order]
    first = np.flatnonzero(np.append(True, place[1:] != place[:-1])[: len(place)])
    if not len(first):
        none, unknown = np.empty(0, np.int64), np.empty(0)
        return ObservedPlaces(np.empty(0, np.uint64), none, none, none, unknown, unknown, np.empty(0, bool))
    flows = np.diff(np.append(first, len(place)))
    latency = np.where(hops.latency == NONE, np.nan, hops.latency)[order]
    times = hops.time_ns[order]
    newest = np.maximum.reduceat(times, first)
    is_newest = times == np.repeat(newest, flows)
    latest = np.fmax.reduceat(np.where(is_newest, latency, np.nan), first)
    recent = np.fmax.reduceat(np.where(times >= window_from_ns, latency, np.nan), first)
    return ObservedPlaces(
        place[first],
        _most_frequent(hops.following[order], first, flows),
        flows,
        newest,
        latest,
        np.where(np.isnan(recent), latest, recent),
        np.logical_or.reduceat(hops.alarm[order], first),
        _edge(nodes_of(place), (hops.first | hops.last)[order]),
    )


def _order(places: Words) -> Ints:
    """Indices that sort rows by place. Node ids are usually so small that place and row fit into one number:
    then plain numbers are sorted, which takes two thirds of the time of an argsort (29 and 46 ms for
    500,000).
    """
    bits = max(1, len(places)).bit_length()
    if int(places.max(initial=0)) >= 1 << 63 - bits:
        return np.argsort(places)
    return np.sort(places.astype(np.int64) << bits | np.arange(len(places))) & (1 << bits) - 1


def _most_frequent(following: Ints, first: Ints, flows: Ints) -> Ints:
    """The most frequent next node of each group, which nearly always has only one."""
    known = np.where(following == NONE, np.iinfo(np.int64).max, following)
    lowest = np.minimum.reduceat(known, first)
    found = np.maximum.reduceat(following, first)
    for group in np.flatnonzero((found != NONE) & (lowest != found)).tolist():
        members = following[first[group] : first[group] + flows[group]]
        nodes, counts = np.unique(members[members != NONE], return_counts=True)
        found[group] = nodes[np.argmax(counts)]
    return np.asarray(found)


def _edge(node: Ints, end: npt.NDArray[np.bool_]) -> dict[int, tuple[int, int]]:
    first = np.flatnonzero(np.append(True, node[1:] != node[:-1]))
    ends, through = np.add.reduceat(end.astype(np.int64), first), np.diff(np.append(first, len(node)))
    return {
        key: (count, total)
        for key, count, total in zip(node[first].tolist(), ends.tolist(), through.tolist(), strict=True)
    }


class LearnedLinks:
    """Links seen within the last hour. Threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rows = new_places(np.empty(0, np.uint64))
        self._edge: dict[int, tuple[int, int]] = {}

    def learn(self, found: ObservedPlaces, now_ns: int) -> tuple[Records, dict[int, tuple[int, int]]]:
        """Add what paths show; returns PLACE [places] of all known places, without values, and
        `ObservedPlaces.edge` of all their nodes.
        """
        with self._lock:
            before = self._rows[self._rows["last_ns"] >= now_ns - KEEP_NS]
            rows = new_places(united([before["place"], found.places]))
            rows["sources"] = FROM_PATHS
            at, _ = found_at(rows["place"], before["place"])
            for name in ("next", "next_port", "last_ns"):
                rows[name][at] = before[name]
            at, _ = found_at(rows["place"], found.places)
            rows["next"][at] = np.where(found.following == NONE, rows["next"][at], found.following)
            rows["last_ns"][at] = found.last_ns
            if len(rows) > MOST:
                kept = np.sort(np.argpartition(rows["last_ns"], len(rows) - MOST)[-MOST:])
                rows = rows[kept]
            self._rows = rows.copy()
            nodes = set(nodes_of(rows["place"]).tolist()) | set(rows["next"].tolist())
            self._edge = {node: ends for node, ends in (self._edge | found.edge).items() if node in nodes}
            return rows, dict(self._edge)
