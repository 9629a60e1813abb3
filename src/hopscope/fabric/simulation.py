"""The simulated fabric in steps of time: its reports, and the ground truth."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from ..wire.encode.encoder import encode_reports
from ..wire.records import FrameBatch, Link, Records, ReportBatch
from . import faults as faults_module
from .faults import Fault, FaultKind
from .queueing import MAX_WINDOW, Departures, LinkModel, Network
from .records import PS
from .switch import ReportModel, Switches
from .topology import FabricError, Topology
from .traffic import Traffic, TrafficModel


@dataclass(frozen=True)
class SimulationModel:
    """All parameters of a simulation; the same model gives the same bytes."""

    traffic: TrafficModel = field(default_factory=TrafficModel)
    link: LinkModel = field(default_factory=LinkModel)
    report: ReportModel = field(default_factory=ReportModel)
    faults: tuple[Fault, ...] = ()
    seed: int = 1
    reports_per_second: float = 20_000
    """INT reports per second, from a random sample of the tracked flows' packets; 0: all packets."""


@dataclass(slots=True)
class Truth:
    """Ground truth of a simulation so far."""

    emitted: int = 0
    """Packets sent by hosts."""
    delivered: int = 0
    dropped: int = 0
    in_flight: int = 0
    hops: int = 0
    """Packets served by ports, including hosts' interfaces."""
    reports: int = 0
    drop_reports: int = 0
    suppressed: int = 0
    """Reports suppressed by a switch's limit."""
    rerouted: int = 0
    """Flows moved by link failures and repairs."""


class Simulation:
    """A topology, its traffic, queues, switches and faults, moved forward window by window."""

    def __init__(self, topology: Topology, model: SimulationModel = SimulationModel()) -> None:
        self.topology, self.model = topology, model
        self.traffic = Traffic(topology, model.traffic, model.seed)
        self.network = Network(topology, model.link)
        self.switches = Switches(topology, self.network.ports, model.report)
        self.truth = Truth()
        tracked = self.traffic.packets_per_second * model.traffic.tracked
        self.sample = min(1.0, model.reports_per_second / tracked) if model.reports_per_second else 1.0
        """Share of the packets of tracked flows that carry INT."""
        self.on_change: Callable[[Fault, bool], object] = lambda fault, begins: None
        """Called when a fault begins (True) and when it ends."""
        self.on_departures: Callable[[Departures, Records], object] = lambda departures, flows: None
        """Called with the packets that left the network in each window, and the flow table."""
        self._changes = sorted(
            [(round(f.start * PS), True, f) for f in model.faults]
            + [(round(f.end * PS), False, f) for f in model.faults],
            key=lambda change: (change[0], change[1], change[2].port),
        )
        self._check()

    @property
    def now(self) -> float:
        """Simulated time, s."""
        return self.network.now / PS

    def step(self, until: float) -> ReportBatch:
        """Advance to `until` (s of simulated time); the reports of this window, in order of time."""
        target = round(until * PS)
        if target <= self.network.now:
            raise ValueError(f"the simulation is at {self.now} s already")
        parts = []
        while self.network.now < target:
            while self._changes and self._changes[0][0] <= self.network.now:
                self._change(*self._changes.pop(0)[1:])
            end = min(target, self.network.now + MAX_WINDOW, *(at for at, _, _ in self._changes[:1]))
            parts.append(self._window(end))
        return parts[0] if len(parts) == 1 else _join(parts)

    def run(self, seconds: float, window: float = 0.01) -> Iterator[ReportBatch]:
        """Windows of `window` s until `seconds`; the last one may be shorter."""
        first, last = round(self.now / window), round(seconds / window, 9)
        for number in range(first + 1, int(last) + 1):
            yield self.step(number * window)
        if last % 1 and seconds > self.now:
            yield self.step(seconds)

    def frames(self, reports: ReportBatch, link: Link = Link.UDP_PAYLOAD, port: int = 32766) -> FrameBatch:
        """Reports as frames: payloads of UDP with their source, or complete Ethernet frames for a capture."""
        return encode_reports(reports, link=link, port=port)

    def rehearse(self) -> FrameBatch:
        """Frames of a copy's first ms, to compile all kernels before real time starts."""
        copy = Simulation(self.topology, replace(self.model, faults=(), reports_per_second=0))
        return copy.frames(copy.step(0.001))

    def _window(self, end: int) -> ReportBatch:
        begin = self.network.now
        self.traffic.arrive(end)
        departures = self.network.step(self.traffic.table, self.traffic.paths, end, self.sample)
        self.on_departures(departures, self.traffic.table)
        reports = self.switches.report(departures, self.traffic.table, end - begin)
        truth, network = self.truth, self.network
        truth.emitted, truth.hops, truth.in_flight = network.emitted, network.hops, network.in_flight
        truth.delivered, truth.dropped = network.delivered, network.dropped
        truth.suppressed = self.switches.suppressed
        truth.reports += len(reports)
        truth.drop_reports += int((reports.reports["drop_reason"] > 0).sum())
        return reports

    def _change(self, begins: bool, fault: Fault) -> None:
        self.on_change(fault, begins)
        if fault.kind is FaultKind.PATH_CHANGE:
            faults_module.set_link(self.topology, self.traffic.down, fault.port, begins)
            self.truth.rerouted += self.traffic.reroute()
        elif fault.kind is FaultKind.MICROBURST:
            if begins:
                self.traffic.add(self._incast(fault))
        else:
            faults_module.apply(fault, self.network.ports, begins)

    def _incast(self, fault: Fault) -> np.ndarray[tuple[int], np.dtype[np.void]]:
        random = np.random.default_rng((self.model.seed, fault.port, round(fault.start * PS)))
        return faults_module.incast(self.topology, fault, self.network.ports, self.model.traffic.load, random)

    def _check(self) -> None:
        """Reject invalid faults, and paths that are too long for INT, at the start."""
        down = np.zeros(len(self.topology.ports), bool)
        self._check_length(down)
        for _, begins, fault in self._changes:
            if fault.kind is FaultKind.MICROBURST and begins:
                self._incast(fault)
            if fault.kind is FaultKind.PATH_CHANGE:
                faults_module.set_link(self.topology, down, fault.port, begins)
                self.topology.check_paths(down)
                self._check_length(down)

    def _check_length(self, down: npt.NDArray[np.bool_]) -> None:
        most = self.switches.max_hops
        if self.topology.stages - 1 <= most:
            return
        longest = self.topology.check_paths(down)
        if longest > most:
            when = " during a path-change" if down.any() else ""
            raise FabricError(
                f"{self.topology.name}: a path has {longest} switches{when}, and INT-MD holds the metadata "
                f"of at most {most}: use mode mx or xd, whose switches send postcards"
            )


def _join(parts: list[ReportBatch]) -> ReportBatch:
    """Batches as one; hops keep their order."""
    at = 0
    for part in parts:
        part.reports["first_hop"] += at
        at += len(part.hops)
    reports = np.concatenate([part.reports for part in parts])
    return ReportBatch(reports, np.concatenate([part.hops for part in parts]), parts[0].first_packet)
