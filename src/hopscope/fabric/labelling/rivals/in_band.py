"""Postcards over the fabric's own links: they cross what they measure, and meet at the collector's host.

Where a port would write a label, its switch makes a postcard instead, a moment later: for packets that are
marked (`tracked` of the sources) at every switch of the way, else once an interval by port. So a postcard is
there even if its packet is lost further on; but it takes a place in queues, and can be lost itself.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from ....settings.label import LabellingSettings
from ....wire.records import Records
from ...ports import FabricError, Ints, Topology, mix64, seed_bits
from ...records import PS
from ..simulation.counts import Counts
from ..simulation.network import NetworkModel, ps_of
from ..simulation.records import LABEL_NODE, LABELLED, NONE, SOURCE, SourceFlag
from ..simulation.simulator import LabelSimulation
from ..simulation.sources import Sources, chains, join
from .postcards import POSTCARD
from .rival import ETHERNET, ITEM, between

MAKING = 1e-4
"""From a packet's first bit to its postcard, s: assumed; the simulation feeds back in such windows."""


def ways_to(topology: Topology, host: int, *, seed: int = 1) -> list[list[int]]:
    """A shortest way, port rows, from each port's switch to a host: by hash of the port where several are.

    One list for each row of the topology's ports; empty for those of hosts.
    """
    if not 0 <= host < topology.hosts:
        raise FabricError(f"{topology.name} has hosts 0 to {topology.hosts - 1}, not {host}")
    ports, inner = topology.ports, between(topology)
    leaving: dict[int, list[int]] = {}
    for row in inner:
        leaving.setdefault(int(ports["switch"][row]), []).append(int(row))
    last = int(topology.host_switch[host])
    far = topology.links_to(last).tolist()
    draws = mix64(mix64(np.arange(len(ports), dtype=np.uint64)) ^ seed_bits(seed))
    found: list[list[int]] = []
    for row, draw in enumerate(draws.tolist()):
        at, way = int(ports["switch"][row]), list[int]()
        while at not in (last, NONE):
            nearer = [out for out in leaving[at] if far[int(ports["peer_switch"][out])] < far[at]]
            way.append(nearer[draw % len(nearer)])
            draw //= len(nearer)
            at = int(ports["peer_switch"][way[-1]])
        found.append([*way, int(topology.host_port[host])] if at == last else [])
    return found


def postcard_sources(topology: Topology, host: int, *, item: int = ITEM, seed: int = 1) -> Sources:
    """A source for each switch port, in their order, which sends nothing until it is told to."""
    ways = [way for way in ways_to(topology, host, seed=seed) if way]
    width = max(len(way) for way in ways)
    nodes, starts = chains(topology, [way + [NONE] * (width - len(way)) for way in ways])
    records = np.zeros(len(ways), SOURCE)
    records["gap"], records["size"] = 1, POSTCARD - ETHERNET + item
    records["flags"] = SourceFlag.PROBE | SourceFlag.NEVER
    records["routes_first"], records["routes_count"] = np.arange(len(ways)), 1
    none = np.full((len(ways), 2), NONE, np.int64)
    return Sources(records, starts, nodes, none, np.zeros(len(ways), np.uint64))


class InBandPostcards:
    """A network whose switches send postcards in place of labels."""

    def __init__(
        self,
        topology: Topology,
        sources: Sources,
        labelling: LabellingSettings,
        *,
        collector: int = 0,
        item: int = ITEM,
        network: NetworkModel = NetworkModel(),  # noqa: B008 - frozen
        seed: int = 1,
        telemetry: float = 0.1,
        making: float = MAKING,
    ) -> None:
        """`collector`: the host that takes them; `making`: until a postcard is made, s."""
        self._window = ps_of(making)
        if self._window < 1:
            raise FabricError(f"a postcard is made after its packet was seen, not {making} s")
        # Labels of no length stand for what switches see; the collector has what its switch sends
        model = replace(network, item_bytes=0, option_bytes=0, export_ns=0)
        cards = postcard_sources(topology, collector, item=item, seed=seed)
        self.simulation = LabelSimulation(
            topology, join(sources, cards), labelling, network=model, seed=seed, telemetry=telemetry
        )
        """The network; its labels are postcards' and, of no length, those of marked packets that arrived."""
        self._rows = np.flatnonzero(topology.ports["switch"] >= 0)
        self._first = len(sources.records)
        self._told = self._written()

    def _written(self) -> Ints:
        return np.asarray(self.simulation.ports["labels"][self._rows], np.int64)

    def run(self, until_s: float) -> None:
        """Go on until then, s, in windows in which no postcard can be due that is not known yet."""
        until = ps_of(until_s)
        simulation = self.simulation
        while simulation.now < until:
            # Windows end at multiples of their length, however time is cut into calls
            simulation.run(min(until, (simulation.now // self._window + 1) * self._window) / PS)
            if simulation.now % self._window:
                continue
            written = self._written()
            more = written - self._told
            self._told = written
            if not more.any():
                continue
            # Several packets of one port in one window: all postcards follow the last of them
            at = np.repeat(np.flatnonzero(more), more[more > 0])
            labels = np.zeros(len(at), LABEL_NODE)
            labels["port"] = self._rows[at]
            labels["time"] = simulation.ports["last"][self._rows[at]]
            due = np.maximum(labels["time"] + self._window, simulation.now)
            simulation.send(self._first + at, due, labels)

    @property
    def received(self) -> Records:
        """LABELLED of the postcards that the collector has, in order; latency and occupancy are 0."""
        labels = self.simulation.received
        cards: npt.NDArray[np.void] = labels[(labels["flags"] & int(SourceFlag.PROBE)) != 0]
        assert cards.dtype == LABELLED
        return cards

    @property
    def counts(self) -> Counts:
        """What happened to traffic."""
        return self.simulation.counts

    @property
    def probe_counts(self) -> Counts:
        """What happened to postcards."""
        return self.simulation.probe_counts
