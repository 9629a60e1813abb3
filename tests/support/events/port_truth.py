"""What happened at the ports of a simulated network, as its queues count it."""

from __future__ import annotations

import numpy as np

from hopscope.fabric.simulation import Simulation


def highest_occupancy(simulation: Simulation) -> dict[tuple[int, int], int]:
    """Maximum queued bytes of each switch port since the last call, by (node id, port number)."""
    ports, state = simulation.topology.ports, simulation.network.ports
    switched = np.nonzero(ports["switch"] >= 0)[0]
    found = {(int(ports["node_id"][r]), int(ports["number"][r])): int(state["highest"][r]) for r in switched}
    state["highest"] = 0
    return found


def dropped_at(simulation: Simulation) -> dict[tuple[int, int], int]:
    """Packets dropped so far, by (node id, port number), without zeros."""
    ports, lost = simulation.topology.ports, simulation.network.ports["dropped"]
    return {(int(ports["node_id"][r]), int(ports["number"][r])): int(lost[r]) for r in np.nonzero(lost)[0]}
