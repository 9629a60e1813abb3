"""OBSERVATION records for monitors: each switch's view of each packet of a simulated fabric."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ..wire.observation import ACK, OBSERVATION, TCP, flow_bytes
from ..wire.records import Records
from .queueing import Departures
from .records import PS_NS, WIRE_OVERHEAD
from .simulation import Simulation
from .topology import Topology


def observe(simulation: Simulation, seconds: float, window: float = 0.01) -> Records:
    """Run a simulation to `seconds`:

    OBSERVATION of every hop of packets with INT, and of drops. With `reports_per_second=0` in its model these
    are all packets that reached their host or were dropped. The traffic is open loop: its TCP flows have
    sequence numbers from 0, no handshake and no retransmissions (`tcp.TcpSimulation` has).
    """
    parts: list[Records] = []
    ports, epoch_ns = simulation.network.ports, simulation.model.report.epoch_ns

    def take(departures: Departures, flows: Records) -> None:
        packets = departures.packets
        observations = _of_flows(packets, flows[packets["flow"]])
        parts.append(
            spread(
                simulation.topology,
                ports,
                packets,
                departures.paths,
                departures.traces,
                observations,
                epoch_ns,
            )
        )

    before, simulation.on_departures = simulation.on_departures, take
    try:
        for _ in simulation.run(seconds, window):
            pass
    finally:
        simulation.on_departures = before
    return in_order(parts)


def in_order(parts: Sequence[Records]) -> Records:
    """Observations of several windows in order of time."""
    joined = np.concatenate([np.zeros(0, OBSERVATION), *parts])
    return joined[np.lexsort((joined["hop"], joined["packet"], joined["time_ns"]))]


def spread(
    topology: Topology,
    state: Records,
    packets: Records,
    path: npt.NDArray[np.int32],
    traces: Records,
    observations: Records,
    epoch_ns: int,
) -> Records:
    """OBSERVATION records by packet, of every switch that it passed, and of the one that dropped it.

    `path` has their paths, int32 [packets, stages], `traces` is TRACE [packets, stages], `state` PORT_STATE;
    `observations` has one OBSERVATION per packet,
    with the fields that do not depend on the switch.
    """
    stages = np.arange(path.shape[1])
    dropped = packets["drop_reason"] > 0
    used = (path >= 0) & (stages > 0)
    end = np.where(dropped, packets["drop_stage"], len(stages))[:, None]
    seen = used & ((stages < end) & (packets["trace"] >= 0)[:, None] | (stages == end))
    which, stage = np.nonzero(seen)
    egress = path[which, stage]
    before = last_used(path)[which, stage]
    sender = path[which, before]
    ports, trace = topology.ports, traces[which, stage]
    here = observations[which].copy()
    lost = stage == end[which, 0]
    sent = (packets["size"][which].astype(np.int64) + WIRE_OVERHEAD) * state["ps_per_byte"][sender]
    traced = packets["trace"][which] >= 0
    left = traces["egress"][which, before] + sent + state["propagation"][sender]
    cut = np.where(traced, left, packets["time"][which] - state["pipeline"][egress])
    arrival = np.where(lost, cut, trace["ingress"])
    here["time_ns"] = epoch_ns + arrival // PS_NS
    here["switch"] = ports["node_id"][egress]
    here["ingress_port"] = ports["peer_number"][sender]
    here["egress_port"] = ports["number"][egress]
    here["hop"] = np.cumsum(used, axis=1)[which, stage]
    here["path_length"] = used.sum(axis=1)[which]
    here["hop_latency"] = np.where(lost, 0, trace["egress"] // PS_NS - trace["ingress"] // PS_NS)
    here["queue_depth"] = np.where(lost, 0, trace["occupancy"])
    here["drop_reason"] = np.where(lost, packets["drop_reason"][which], 0)
    here["is_sink"] = ~lost & (stage == len(stages) - 1)
    return here


def last_used(path: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
    """Previous stage on the path by stage, int64 [packets, stages]; 0 for stage 0."""
    stages = np.maximum.accumulate(np.where(path >= 0, np.arange(path.shape[1]), 0), axis=1)
    return np.concatenate([np.zeros((len(path), 1), np.int64), stages[:, :-1]], axis=1, dtype=np.int64)


def _of_flows(packets: Records, flows: Records) -> Records:
    """One OBSERVATION per packet, with the fields given by its flow and its number."""
    observations = np.zeros(len(packets), OBSERVATION)
    observations["packet"] = packets["number"]
    observations["flow"] = flow_bytes(
        flows["src_address"], flows["dst_address"], flows["proto"], flows["sport"], flows["dport"]
    )
    observations["size"] = packets["size"]
    observations["payload"] = packets["size"] - flows["headers"]
    is_tcp = flows["proto"] == TCP
    number = packets["number"] & np.uint64(0xFFFFFFFF)
    observations["sequence"] = np.where(is_tcp, number * flows["payload"] & np.uint64(0xFFFFFFFF), 0)
    observations["flags"] = np.where(is_tcp, ACK, 0)
    observations["ip_version"] = 4
    return observations
