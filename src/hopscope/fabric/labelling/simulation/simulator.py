"""INT-label on a simulated network, packet by packet."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from ....labels.records import EVERY
from ....settings.label import AdaptiveSettings, LabellingSettings
from ....wire.label.records import LABEL
from ....wire.records import Records
from ...ports import FabricError, Ints, Topology
from ...records import PS, PS_NS
from .counts import TrafficCounts
from .engine import Engine, compile_chance, switch_active
from .network import (
    NetworkModel,
    chance_table,
    lookahead,
    loss_threshold,
    port_states,
    setup_row,
    to_ps,
)
from .records import IP_HEADER, RECEIVED_LABEL, Count, PortFlag, SourceFlag
from .sources import Sources, check, unicast_routes

NO_TURN = -1
"""Time of the next turn without a controller."""


class SimulatedController(Protocol):
    """Decides on S in simulated time; see `labels.controller.Controller`."""

    turn_ns: int
    """Interval between its turns."""

    def receive(self, labels: Records, now_ns: int, /) -> None:
        """Process LABEL records that arrived since the last turn, in order of arrival."""

    def turn(self, now_ns: int, /) -> tuple[npt.ArrayLike, npt.ArrayLike]:
        """Changes to make now: port rows, and the S of each (0 or 1 with `one-bit`)."""


class LabelSimulation:
    """A network, its traffic, and switches that label.

    Changes of registers, loss and failures affect packets that arrive at a port later, not those in its
    queue. The result depends on the seed, not on the calls of `run` or the order of sources. Counts cover
    arrivals at ports before `now`; a packet counts as delivered when the last port has sent it.
    """

    def __init__(
        self,
        topology: Topology,
        sources: Sources,
        labelling: LabellingSettings,
        *,
        network: NetworkModel = NetworkModel(),  # noqa: B008 - frozen
        adaptive: AdaptiveSettings | None = None,
        chance: Callable[..., Any] | None = None,
        seed: int = 1,
        telemetry: float = 0.1,
        controller: SimulatedController | None = None,
    ) -> None:
        """`telemetry`: telemetry interval, s. `adaptive` only selects whether Reg2 is S or the flag.

        `chance`: f(count, max_hop, elapsed, interval), times in ps: a probability for Base B that replaces
        the one in the settings. Numba compiles it, which takes some seconds.
        """
        check(topology, sources)
        self.topology, self.network, self.labelling = topology, network, labelling
        self.telemetry = telemetry
        """Telemetry interval, s."""
        self.now = 0
        """Current time, ps: all earlier arrivals are served."""
        self._sources = sources
        adaptive = adaptive or AdaptiveSettings()
        self._one_bit = adaptive.mode == "one-bit"
        self._controller = controller
        self._turn = NO_TURN if controller is None else controller.turn_ns * PS_NS
        custom = compile_chance(chance)
        setup = setup_row(labelling, network, seed=seed, telemetry=telemetry, custom=custom is not None)
        self.ports = port_states(topology, network)
        """LABELLING_PORT [ports]: registers and counters."""
        cut = labelling.too_long == "fragment"  # a second fragment may have one byte
        smallest = IP_HEADER + 1 if cut else int(sources.records["size"].min())
        ahead = lookahead(self.ports, network, smallest)
        self._engine = Engine(setup, self.ports, sources, ahead, custom, chance_table(labelling))
        self._switch = topology.ports["switch"] >= 0
        self._exported = np.zeros(0, RECEIVED_LABEL)
        self._received: list[Records] = []
        self._unreported: list[Records] = []
        self._scheduled: list[tuple[int, int, Callable[[], None]]] = []
        self._schedule_count = 0

    # ------------------------------------------------------------------------------------------- running

    def run(self, until_s: float, progress: Callable[[float], object] | None = None) -> None:
        """Simulate until this time, s; `progress` is called with the current time, s."""
        until = to_ps(until_s)
        step = max(1, round(self.telemetry * PS)) if progress else until
        while self.now < until:
            stop = min(until, self.now + step, *(t for t in (self._turn,) if t != NO_TURN))
            if self._scheduled:
                stop = min(stop, self._scheduled[0][0])
            self._advance(max(stop, self.now))
            while self._scheduled and self._scheduled[0][0] <= self.now:
                heapq.heappop(self._scheduled)[2]()
            if self._turn == self.now:
                self._run_controller()
            if progress:
                progress(self.now / PS)

    def _advance(self, until: int) -> None:
        parts = [self._exported, *self._engine.advance(until)]
        self.now = until
        exported = np.concatenate(parts) if len(parts) > 1 else parts[0]
        due = exported["received"] <= until
        arrived = exported[due]
        self._exported = exported[~due]
        if len(arrived):
            self._received.append(arrived[np.argsort(arrived["received"], kind="stable")])
            if self._controller is not None:
                self._unreported.append(self._received[-1])

    def _at(self, time: int, action: Callable[[], None]) -> None:
        """Run an action at a time, ps, or now if the time has passed."""
        if time <= self.now:
            action()
            return
        self._schedule_count += 1
        heapq.heappush(self._scheduled, (time, self._schedule_count, action))

    # ---------------------------------------------------------------------------------------- results

    @property
    def received(self) -> Records:
        """RECEIVED_LABEL of every label that has reached the controller, in order of arrival."""
        if len(self._received) > 1:
            self._received = [np.concatenate(self._received)]
        return self._received[0] if self._received else np.zeros(0, RECEIVED_LABEL)

    def take(self) -> Records:
        """Return `received`, and clear it."""
        received = self.received
        self._received = []
        return received

    @property
    def active(self) -> npt.NDArray[np.bool_]:
        """Switch ports that sent traffic in each complete telemetry interval, bool [intervals, ports]."""
        return switch_active(self._engine.active, self.now // round(self.telemetry * PS), self._switch)

    @property
    def counts(self) -> TrafficCounts:
        """Counts of traffic."""
        return TrafficCounts.from_array(self._engine.counts[: int(Count.PROBES)])

    @property
    def probe_counts(self) -> TrafficCounts:
        """Counts of probes."""
        return TrafficCounts.from_array(self._engine.counts[int(Count.PROBES) :])

    @property
    def histogram(self) -> Ints:
        """Packets by switches passed and labels, int64 [switches, labels]; the last ones mean `or more`."""
        return self._engine.histogram

    @property
    def in_flight(self) -> tuple[int, int]:
        """Packets and labels in the network."""
        return self._engine.packets, self._engine.labels

    @property
    def packet_hops(self) -> int:
        """Packets sent by ports, counted at every hop, including host interfaces."""
        return self.counts.hops + self.probe_counts.hops

    @property
    def nbytes(self) -> dict[str, int]:
        """Memory of the engine by purpose, bytes: packets, labels, ports, sources, calendar."""
        return self._engine.nbytes

    # ------------------------------------------------------------------------------------------- changes

    def set_loss(self, port: npt.ArrayLike, chance: float, *, at_s: float | None = None) -> None:
        """Set the loss probability of the links of ports (rows), now or at a time."""
        loss, flag = loss_threshold(chance)
        rows = np.asarray(port, np.int64)

        def change() -> None:
            self.ports["loss"][rows] = loss
            self.ports["flags"][rows] = self.ports["flags"][rows] & (255 ^ int(PortFlag.LOSE_ALL)) | flag

        self._at(self.now if at_s is None else to_ps(at_s), change)

    def set_interval_shift(self, port: npt.ArrayLike, shift: npt.ArrayLike) -> None:
        """Set Reg2 of ports (rows): S, 0 to 40; with `one-bit`, 1 labels every packet."""
        value = np.asarray(shift, np.int64)
        if ((value < 0) | (value > (1 if self._one_bit else 40))).any():
            raise FabricError(f"S is 0 to {1 if self._one_bit else 40}, not {shift!r}")
        self.ports["shift"][np.asarray(port)] = np.where(value > 0, EVERY, 0) if self._one_bit else value

    def send(self, sources: npt.ArrayLike, times: npt.ArrayLike, labels: Records) -> None:
        """Send a packet of each of these sources (rows) with one LABEL_NODE, at times, ps, not before
        `now`.
        """
        rows, when = np.asarray(sources, np.int64), np.asarray(times, np.int64)
        if not len(rows) == len(when) == len(labels) or (when < self.now).any():
            raise FabricError(f"expected packets at {self.now} ps or later, each with a label")
        if ((rows < 0) | (rows >= len(self._engine.sources))).any():
            raise FabricError(f"unknown source; expected 0 to {len(self._engine.sources) - 1}")
        self._engine.send(rows, when, labels)

    def fail_link(self, *ports: int, at_s: float | None = None, reroute_s: float = 0.0) -> None:
        """Fail the links of these ports (rows) in both directions; ECMP avoids them after `reroute_s`."""
        self._change_links(ports, True, at_s, reroute_s)

    def repair_link(self, *ports: int, at_s: float | None = None, reroute_s: float = 0.0) -> None:
        """Repair the links of these ports; ECMP uses them after `reroute_s`. This also adds a switch."""
        self._change_links(ports, False, at_s, reroute_s)

    def links_of(self, switch: int | str) -> list[int]:
        """Port rows of all links of a switch, by node id or name."""
        index = next((i for i, s in enumerate(self.topology.switches) if switch in (s.node_id, s.name)), None)
        if index is None:
            raise FabricError(f"{self.topology.name} has no switch {switch!r}")
        return [int(row) for row in np.nonzero(self.topology.ports["switch"] == index)[0]]

    def _change_links(self, ports: tuple[int, ...], down: bool, at_s: float | None, reroute_s: float) -> None:
        time = self.now if at_s is None else to_ps(at_s)
        rows = np.array(ports, np.int64)
        wrong = rows[(rows < 0) | (rows >= len(self.ports))]
        if len(wrong):
            raise FabricError(f"{self.topology.name} has ports 0 to {len(self.ports) - 1}, not {wrong[0]}")
        rows = np.concatenate([rows, self.topology.ports["reverse"][rows]])

        def change() -> None:
            flags = self.ports["flags"][rows] & (255 ^ int(PortFlag.DOWN))
            self.ports["flags"][rows] = flags | (int(PortFlag.DOWN) if down else 0)

        self._at(time, change)
        self._at(time + to_ps(reroute_s), self._reroute)

    def _reroute(self) -> None:
        """Give every source its current ECMP path; it keeps the old one if there is none."""
        sources, engine = self._sources, self._engine
        down = (self.ports["flags"] & int(PortFlag.DOWN)) != 0
        rows = np.nonzero(sources.pairs[:, 0] >= 0)[0]
        ends = sources.pairs[rows]
        paths, lost = self.topology.try_paths(ends[:, 0], ends[:, 1], sources.hashes[rows], down)
        rows, paths = rows[~lost], paths[~lost]
        if not len(rows):
            return
        nodes, starts = unicast_routes(self.topology, paths)
        old = np.repeat(engine.starts[rows] - starts, np.diff(starts, append=len(nodes))) + np.arange(
            len(nodes)
        )
        old = np.minimum(old, len(engine.routes) - 1)
        moved = np.logical_or.reduceat(nodes["port"] != engine.routes["port"][old], starts)
        if not moved.any():
            return
        rows = rows[moved]
        nodes, starts = unicast_routes(self.topology, paths[moved])
        nodes["next"][nodes["next"] >= 0] += len(engine.routes)
        engine.starts = engine.starts.copy()
        engine.starts[rows] = starts + len(engine.routes)
        engine.routes = np.concatenate([engine.routes, nodes])

    # ------------------------------------------------------------------------------------------- controller

    def _run_controller(self) -> None:
        assert self._controller is not None
        now_ns = self.now // PS_NS
        unreported = np.concatenate([np.zeros(0, RECEIVED_LABEL), *self._unreported])
        self._unreported = []
        self._controller.receive(self.as_labels(unreported), now_ns)
        ports, values = (np.asarray(a, np.int64) for a in self._controller.turn(now_ns))
        if len(ports):
            self._at(
                self.now + self.network.control_ns * PS_NS, lambda: self.set_interval_shift(ports, values)
            )
        self._turn += max(1, self._controller.turn_ns) * PS_NS

    def as_labels(self, received: Records) -> Records:
        """Convert RECEIVED_LABEL to a decoder's LABEL records; `packet` numbers the packets among them."""
        links = self.topology.ports[received["port"]]
        labels = np.zeros(len(received), LABEL)
        labels["time_ns"] = received["labelled"] // PS_NS
        labels["node_id"], labels["egress_port"] = links["node_id"], links["number"]
        labels["ingress_port"] = received["ingress"]
        labels["latency_ns"], labels["occupancy"] = received["latency"], received["occupancy"]
        if len(received):
            labels["packet"] = np.cumsum(
                np.concatenate([[0], received["packet"][1:] != received["packet"][:-1]])
            )
        labels["position"], labels["count"] = (np.minimum(received[f], 255) for f in ("position", "count"))
        labels["tracked"] = (received["flags"] & int(SourceFlag.TRACKED)) != 0
        return labels
