"""In-band postcards: they travel to the collector's host over the links that they measure.

Instead of writing a label, the switch of a port sends a postcard a moment later: for marked packets
(`tracked` of the sources) at every switch of the path, else once per interval and port. So there is a
postcard even if its packet is lost later; but it occupies queues, and can be lost itself.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from ....base.hash_rows import mix64
from ....settings.label import LabellingSettings
from ....wire.records import Records
from ...ports import FabricError, Ints, Topology, seed_bits
from ...records import PS
from ..simulation.counts import TrafficCounts
from ..simulation.network import NetworkModel, to_ps
from ..simulation.records import LABEL_NODE, NO_ROW, RECEIVED_LABEL, SOURCE, SourceFlag
from ..simulation.simulator import LabelSimulation
from ..simulation.sources import Sources, join, unicast_routes
from .postcards import POSTCARD
from .rival import ETHERNET, ITEM, between

POSTCARD_DELAY = 1e-4
"""Time from a packet's first bit to its postcard, s (assumed); the simulation adds postcards in windows of
this length.
"""


def paths_to(topology: Topology, host: int, *, seed: int = 1) -> list[list[int]]:
    """A shortest path (port rows) from the switch of each port to a host; if there are several, a hash of the
    port chooses one.

    There is one list for each row of the topology's ports; it is empty for ports of hosts.
    """
    if not 0 <= host < topology.hosts:
        raise FabricError(f"{topology.name} has hosts 0 to {topology.hosts - 1}, not {host}")
    ports, inner = topology.ports, between(topology)
    leaving: dict[int, list[int]] = {}
    for row in inner:
        leaving.setdefault(int(ports["switch"][row]), []).append(int(row))
    last = int(topology.host_switch[host])
    distance = topology.links_to(last).tolist()
    draws = mix64(mix64(np.arange(len(ports), dtype=np.uint64)) ^ seed_bits(seed))
    found: list[list[int]] = []
    for row, draw in enumerate(draws.tolist()):
        at, path = int(ports["switch"][row]), list[int]()
        while at not in (last, NO_ROW):
            nearer = [out for out in leaving[at] if distance[int(ports["peer_switch"][out])] < distance[at]]
            path.append(nearer[draw % len(nearer)])
            draw //= len(nearer)
            at = int(ports["peer_switch"][path[-1]])
        found.append([*path, int(topology.host_port[host])] if at == last else [])
    return found


def postcard_sources(topology: Topology, host: int, *, item: int = ITEM, seed: int = 1) -> Sources:
    """A source for each switch port, in order, which sends only on `LabelSimulation.send`."""
    paths = [path for path in paths_to(topology, host, seed=seed) if path]
    width = max(len(path) for path in paths)
    nodes, starts = unicast_routes(topology, [path + [NO_ROW] * (width - len(path)) for path in paths])
    records = np.zeros(len(paths), SOURCE)
    records["gap"], records["size"] = 1, POSTCARD - ETHERNET + item
    records["flags"] = SourceFlag.PROBE | SourceFlag.LABEL_NEVER
    records["routes_first"], records["routes_count"] = np.arange(len(paths)), 1
    none = np.full((len(paths), 2), NO_ROW, np.int64)
    return Sources(records, starts, nodes, none, np.zeros(len(paths), np.uint64))


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
        delay: float = POSTCARD_DELAY,
    ) -> None:
        """`collector`: the host that receives them; `delay`: time until a postcard is sent, s."""
        self._window = to_ps(delay)
        if self._window < 1:
            raise FabricError(f"a postcard needs a positive delay, not {delay} s")
        # Labels of length 0 are what switches see; the collector gets what its switch delivers
        model = replace(network, item_bytes=0, option_bytes=0, export_ns=0)
        cards = postcard_sources(topology, collector, item=item, seed=seed)
        self.simulation = LabelSimulation(
            topology, join(sources, cards), labelling, network=model, seed=seed, telemetry=telemetry
        )
        """The network. Its labels are those of postcards and, with length 0, those of delivered marked
        packets.
        """
        self._rows = np.flatnonzero(topology.ports["switch"] >= 0)
        self._first = len(sources.records)
        self._reported = self._label_counts()

    def _label_counts(self) -> Ints:
        return np.asarray(self.simulation.ports["labels"][self._rows], np.int64)

    def run(self, until_s: float) -> None:
        """Simulate until this time, s, in windows so short that no postcard becomes due in the window in
        which it arises.
        """
        until = to_ps(until_s)
        simulation = self.simulation
        while simulation.now < until:
            # Windows end at multiples of their length, whatever the calls
            simulation.run(min(until, (simulation.now // self._window + 1) * self._window) / PS)
            if simulation.now % self._window:
                continue
            counts = self._label_counts()
            more = counts - self._reported
            self._reported = counts
            if not more.any():
                continue
            # Several packets of one port in one window: all postcards follow the last one
            at = np.repeat(np.flatnonzero(more), more[more > 0])
            labels = np.zeros(len(at), LABEL_NODE)
            labels["port"] = self._rows[at]
            labels["time"] = simulation.ports["last"][self._rows[at]]
            due = np.maximum(labels["time"] + self._window, simulation.now)
            simulation.send(self._first + at, due, labels)

    @property
    def received(self) -> Records:
        """RECEIVED_LABEL of the postcards that the collector has received, in order; latency and occupancy
        are 0.
        """
        labels = self.simulation.received
        cards: npt.NDArray[np.void] = labels[(labels["flags"] & int(SourceFlag.PROBE)) != 0]
        assert cards.dtype == RECEIVED_LABEL
        return cards

    @property
    def counts(self) -> TrafficCounts:
        """Counts of traffic."""
        return self.simulation.counts

    @property
    def probe_counts(self) -> TrafficCounts:
        """Counts of postcards."""
        return self.simulation.probe_counts
