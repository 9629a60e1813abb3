"""Observations say what INT reports of the same simulation say, switch by switch."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hopscope.fabric.faults import make_fault
from hopscope.fabric.observe import observe
from hopscope.fabric.simulation import Simulation, SimulationModel
from hopscope.fabric.switch import ReportModel
from hopscope.fabric.topology import FatTree
from hopscope.fabric.traffic import TrafficModel
from hopscope.wire.observation import OBSERVATION, addresses, flow_bytes, fold
from hopscope.wire.records import Flag

pytestmark = pytest.mark.kernel
TREE = FatTree(4)
FAULT = make_fault(TREE, "lossy-port", 0.005, "agg-1-0", 1, 0.1, loss=0.05)
MODEL = SimulationModel(
    traffic=TrafficModel(flows=100),
    faults=(FAULT,),
    reports_per_second=0,
    seed=6,
    report=ReportModel(drops_per_switch=0),
)


def test_observations_are_what_int_reports() -> None:
    """Every hop of every report is one observation with the same switch, ports, latency and time."""
    seen = observe(Simulation(TREE, MODEL), 0.02)
    simulation = Simulation(TREE, MODEL)
    expected: list[tuple[int, ...]] = []
    for batch in simulation.run(0.02):
        for report in batch.reports:
            dropped = bool(report["flags"] & Flag.DROPPED)
            first, count = int(report["first_hop"]), int(report["hop_count"])
            hops = batch.hops[first : first + count]
            for number, hop in enumerate(hops, 1):
                expected.append(
                    (int(hop["ingress_time"]), int(hop["node_id"]), int(hop["ingress_port"]),
                     int(hop["egress_port"]), int(hop["hop_latency"]), number, int(number == count))
                )  # fmt: skip
            if dropped:
                hop = batch.hops[first]
                expected.append((0, int(hop["node_id"]), int(hop["ingress_port"]), int(hop["egress_port"])))
    delivered = set(seen["packet"][seen["is_sink"] == 1].tolist())
    got: list[tuple[int, ...]] = [
        (int(o["time_ns"]), int(o["switch"]), int(o["ingress_port"]), int(o["egress_port"]),
         int(o["hop_latency"]), int(o["hop"]), int(o["is_sink"]))
        for o in seen if int(o["packet"]) in delivered
    ]  # fmt: skip
    lost = seen[seen["drop_reason"] > 0]
    got += [(0, int(o["switch"]), int(o["ingress_port"]), int(o["egress_port"])) for o in lost]
    assert len(lost) == simulation.truth.dropped > 10
    assert len(delivered) == simulation.truth.delivered
    assert sorted(got) == sorted(expected)
    assert (np.diff(seen["time_ns"]) >= 0).all()


def test_a_dropped_packet_is_seen_before_its_drop() -> None:
    """A dropped packet has every hop up to the switch that dropped it, in order, later than before."""
    seen = observe(Simulation(TREE, MODEL), 0.02)
    for packet in seen["packet"][seen["drop_reason"] > 0]:
        way = seen[seen["packet"] == packet]
        assert way["hop"].tolist() == list(range(1, len(way) + 1))
        assert (np.diff(way["time_ns"]) > 0).all()
        assert (way["drop_reason"] > 0).tolist() == [False] * (len(way) - 1) + [True]
        assert way["path_length"][0] >= len(way)


def test_a_sample_is_observed_and_every_drop() -> None:
    """Where only some packets carry INT, the others are seen where they are dropped."""
    some = observe(Simulation(TREE, replace(MODEL, reports_per_second=5000)), 0.02)
    every = observe(Simulation(TREE, MODEL), 0.02)
    assert set(some["packet"][some["drop_reason"] > 0]) == set(every["packet"][every["drop_reason"] > 0])
    assert 0 < len(some) < len(every) / 4


def test_flows_are_packed_and_folded() -> None:
    """A flow's 13 bytes in network order; IPv4 addresses as they are, IPv6 ones mixed."""
    flow = flow_bytes(0x0A000001, 0x0A000002, 6, 1234, 80)
    assert flow.tobytes().hex() == "0a0000010a0000020604d20050"
    row = np.zeros(1, OBSERVATION)
    row["flow"] = flow
    assert [int(a[0]) for a in addresses(row)] == [0x0A000001, 0x0A000002]
    assert fold(0, 0xFFFF_0A00_0001) == 0x0A000001
    assert fold(0x20010DB8 << 32, 1) != fold(0x20010DB8 << 32, 2) < 1 << 32
