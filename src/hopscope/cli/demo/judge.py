"""Decides when and where each fault was found, from the collector's events alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from ...detect.records import NO_PORT, Kind, Metric
from ...fabric.faults import Fault, FaultKind
from ...fabric.topology import Topology
from ...wire.records import Records

GRACE_SECONDS = 1.0
"""How long after a fault's end its events may still arrive, while queues drain."""

Place = tuple[int, int]
"""Node id and port number."""

SIGNS = {
    FaultKind.MICROBURST: (Kind.RAISED, Metric.QUEUE_OCCUPANCY),
    FaultKind.SLOW_HOP: (Kind.RAISED, Metric.HOP_LATENCY),
    FaultKind.LOSSY_PORT: (Kind.DROP, None),
    FaultKind.PATH_CHANGE: (Kind.PATH_CHANGE, None),
}
"""The kinds of events that reveal each fault."""


@dataclass(slots=True)
class Verdict:
    """What the collector found about one fault."""

    fault: Fault
    begun_ns: int
    """When it began, by the sender's clock."""
    ended_ns: int
    events: int = 0
    """Events that reveal it."""
    votes: Counter[Place] = field(default_factory=Counter)
    """Number of events by named port; a flow that changed its path names every link that it left."""
    first_ns: dict[Place, int] = field(default_factory=dict)

    @property
    def place(self) -> Place | None:
        """The port that most events name; None without events, or if two ports tie."""
        top = self.votes.most_common(2)
        if not top or (len(top) == 2 and top[0][1] == top[1][1]):
            return None
        return top[0][0]

    @property
    def found(self) -> bool:
        """Whether it was found at its port."""
        return self.place == (self.fault.node_id, self.fault.number)

    @property
    def after_seconds(self) -> float | None:
        """Time from its beginning to the first event at the port that most events name."""
        place = self.place
        return None if place is None else (self.first_ns[place] - self.begun_ns) / 1e9


class Judge:
    """Takes events as the collector publishes them, and keeps those that reveal a fault in progress."""

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        self._paths: dict[int, tuple[int, ...]] = {}
        self._early: list[tuple[int, Kind, int, list[Place]]] = []
        self.verdicts: list[Verdict] = []

    def begin(self, fault: Fault, time_ns: int) -> Verdict:
        """A fault begins; matching events are counted for it, including those that have already arrived."""
        verdict = Verdict(fault, time_ns, time_ns + round(fault.duration * 1e9))
        self.verdicts.append(verdict)
        for sign in self._early:
            self._vote(verdict, *sign)
        return verdict

    def end(self, fault: Fault, time_ns: int) -> None:
        """A fault has ended, perhaps early, because a late sender catches up."""
        for verdict in self.verdicts:
            if verdict.fault == fault:
                verdict.ended_ns = min(verdict.ended_ns, time_ns)

    def take(self, events: Records) -> None:
        """EVENT records, in order."""
        kinds, metrics = events["kind"], events["metric"]
        paths = (metrics == Metric.FLOW_PATH) & np.isin(kinds, (Kind.NEW_KEY, Kind.PATH_CHANGE, Kind.PUSH))
        signs = (kinds == Kind.RAISED) | (kinds == Kind.DROP)
        latest = int(events["time_ns"][-1]) if len(events) else 0
        for event in events[paths | signs]:
            kind, metric = Kind(int(event["kind"])), int(event["metric"])
            places = list(self._places(event, kind))
            sign = (int(event["time_ns"]), kind, metric, places)
            if places:
                self._early.append(sign)
                for verdict in self.verdicts:
                    self._vote(verdict, *sign)
        self._early = [sign for sign in self._early if sign[0] > latest - 2_000_000_000]

    def _places(self, event: np.void, kind: Kind) -> Iterator[Place]:
        if kind in (Kind.RAISED, Kind.DROP):
            if not 1 <= int(event["node_id"]) <= len(self._topology.switches):
                return  # a port of the edge
            port = int(event["port"])
            yield int(event["node_id"]), int(event["ident"]) if port == NO_PORT else port
            return
        if event["hop"]:
            return  # the rest of a long path
        flow, path = int(event["flow_id"]), tuple(event["path"][: int(event["hop_count"])].tolist())
        old = self._paths.get(flow)
        self._paths[flow] = path
        if kind is Kind.PATH_CHANGE and old is not None:
            now = set(self._links(path))
            yield from (self._end_of(link) for link in self._links(old) if link not in now)

    def _links(self, path: tuple[int, ...]) -> list[int]:
        """Links of a path, as the port row of their lower end: a link fails in both directions."""
        rows = (self._topology.link_between(a, b) for a, b in pairwise(path))
        reverse = self._topology.ports["reverse"]
        return [min(row, int(reverse[row])) for row in rows if row >= 0]

    def _end_of(self, link: int) -> Place:
        port = self._topology.ports[link]
        return int(port["node_id"]), int(port["number"])

    def _vote(self, verdict: Verdict, seen_ns: int, kind: Kind, metric: int, places: list[Place]) -> None:
        wanted, of = SIGNS[verdict.fault.kind]
        if kind is not wanted or (of is not None and metric != of) or seen_ns < verdict.begun_ns:
            return
        # flows that return to a repaired link cause path changes, too
        grace = 0 if kind is Kind.PATH_CHANGE else round(GRACE_SECONDS * 1e9)
        if seen_ns > verdict.ended_ns + grace:
            return
        verdict.events += 1
        for place in places:
            verdict.votes[place] += 1
            verdict.first_ns[place] = min(seen_ns, verdict.first_ns.get(place, seen_ns))
