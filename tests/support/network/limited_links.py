"""INT-label on links of a limited rate: how much traffic is lost, with and without labels."""

from __future__ import annotations

from dataclasses import replace
from math import inf

from hopscope.fabric.labelling.rivals import hula
from hopscope.fabric.labelling.rivals.rival import Probes, edge_switches, probe_sources
from hopscope.fabric.labelling.simulation.network import NetworkModel
from hopscope.fabric.labelling.simulation.simulator import LabelSimulation
from hopscope.fabric.labelling.simulation.sources import Sources, from_hosts, join
from hopscope.fabric.ports import Topology
from hopscope.fabric.topology import parse_topology
from hopscope.settings.label import LabellingSettings

RATE = 2.5e6
"""Traffic of a host, bit/s."""
QUEUE = 100
"""Packets of a port's queue: `MAX_Q_SIZE` of the published code's Mininet links."""
SECONDS = 20.0
WIRE = 38
"""Bytes of preamble, gap, Ethernet and check sequence."""


def limited(rate: int) -> Topology:
    """The paper's topology whose switch ports send at most so fast; hosts send as fast as they like."""
    topology = parse_topology("paper", rate)
    topology.ports["rate"][: topology.hosts] = 10**9
    return topology


def lost(
    rate: int, labelling: LabellingSettings | None, seed: int, every: float = inf, seconds: float = SECONDS
) -> float:
    """Share of traffic that is lost; `every`: time between the probes of a server, of which all eight send
    probes (the published `topology/clos.py` for HULA), and each costs as much as a packet of traffic.

    Labels take their bytes on the links; `labelling` None: traffic alone, and probes, have none.  bmv2's own
    limits (`set_queue_rate`, `set_queue_depth`) count packets, whatever their length.
    """
    topology = limited(rate)
    sources: Sources = from_hosts(topology, [0, topology.hosts - 1], RATE, random=False, seed=seed)
    if every < inf:
        trees = [*hula.probes(topology).routes] * (topology.hosts // edge_switches(topology))
        sources = join(sources, probe_sources(topology, Probes(trees, 1000, 0), every, seed=seed))
    network = NetworkModel(buffer_bytes=QUEUE * (1000 + WIRE))
    if labelling is None:  # every port labels its first packet even so, which may cost nothing here
        labelling = LabellingSettings(algorithm="base-a", interval=1e4)
        network = replace(network, item_bytes=0, option_bytes=0)
    simulation = LabelSimulation(topology, sources, labelling, network=network, seed=seed)
    simulation.run(seconds)
    counts = simulation.counts
    return counts.dropped / max(1, counts.dropped + counts.delivered)
