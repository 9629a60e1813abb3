"""Queueing: against a brute-force event simulation, closed forms and conservation."""

from __future__ import annotations

import heapq
from collections import defaultdict
from typing import Any

import numpy as np
import pytest

from hopscope.fabric.graph import Cable, Graph, Host
from hopscope.fabric.ports import Switch
from hopscope.fabric.queueing import MAX_WINDOW, LinkModel, Network, flow_table, sorting
from hopscope.fabric.records import FLOW, PACKET, PS
from hopscope.fabric.topology import FatTree, LeafSpine, Topology, flow_hash
from hopscope.fabric.traffic import Traffic, TrafficModel, endpoints

pytestmark = pytest.mark.kernel
WIRE = 38


def random_traffic(topology: Topology, flows: int = 60, load: float = 0.6, seed: int = 3) -> Traffic:
    return Traffic(topology, TrafficModel(flows=flows, load=load), seed)


def run(network: Network, traffic: Traffic, seconds: float, window: float) -> list[tuple[Any, ...]]:
    """(number, time, drop reason, hop records) of every packet reported, in order."""
    found: list[tuple[Any, ...]] = []
    for step in range(round(seconds / window)):
        until = round((step + 1) * window * PS)
        traffic.arrive(until)
        departures = network.step(traffic.table, traffic.paths, until)
        for packet, path, trace in zip(departures.packets, departures.paths, departures.traces, strict=True):
            used = path >= 0
            if packet["drop_reason"]:
                used &= np.arange(len(used)) < packet["drop_stage"]
            hops = tuple(trace[used][["ingress", "egress", "occupancy"]].tolist())
            found.append((int(packet["number"]), int(packet["time"]), int(packet["drop_reason"]), hops))
    return found


class Recorder:
    """Wraps a network's emission: every packet that hosts send, as (time, number, size, path)."""

    def __init__(self, network: Network, traffic: Traffic) -> None:
        self.packets: list[tuple[int, int, int, list[int]]] = []
        emit, network_ = network._emit, network

        def recorded(flows: Any, until: int, sample: float) -> None:
            before = network_.in_flight
            emit(flows, until, sample)
            for packet in network_._packets[before : network_.in_flight]:
                path = [int(p) for p in traffic.paths[packet["route"]] if p >= 0]
                self.packets.append((int(packet["time"]), int(packet["number"]), int(packet["size"]), path))

        network._emit = recorded  # type: ignore[method-assign]


def brute_force(
    network: Network, packets: list[tuple[int, int, int, list[int]]]
) -> dict[int, tuple[Any, ...]]:
    """The same network as a heap of arrival events; queues hold what has not left yet, bit for bit."""
    ports = network.ports
    free: dict[int, int] = defaultdict(int)
    ready: dict[int, int] = defaultdict(int)
    events: list[tuple[Any, ...]] = [
        (time, number, 0, size, path, ()) for time, number, size, path in packets
    ]
    heapq.heapify(events)
    done: dict[int, tuple[Any, ...]] = {}
    while events:
        time, number, at, size, path, hops = heapq.heappop(events)
        port = ports[path[at]]
        ready[path[at]] = max(ready[path[at]], time + int(port["pipeline"]))
        begin = max(ready[path[at]], free[path[at]])
        queued = -(-(begin - ready[path[at]]) // int(port["ps_per_byte"]))
        if queued + size + WIRE > int(port["buffer"]):
            done[number] = (ready[path[at]], 71, hops)
            continue
        service = (size + WIRE) * int(port["ps_per_byte"])
        free[path[at]] = begin + service
        hops = (*hops, (time, begin, queued))
        if at + 1 == len(path):
            done[number] = (begin, 0, hops)
        else:
            heapq.heappush(
                events, (begin + service + int(port["propagation"]), number, at + 1, size, path, hops)
            )
    return done


GRID = Graph(
    "grid",
    [Switch(10 * row, f"s{row}") for row in range(1, 7)],
    [
        Cable(ends, numbers, rate, delay)
        for ends, numbers, rate, delay in (
            ((0, 1), (1, 1), 10**9, -1), ((1, 2), (2, 1), 10**9, 0), ((3, 4), (1, 1), 10**10, 3000),
            ((4, 5), (2, 1), 10**9, -1), ((0, 3), (2, 2), 10**9, -1), ((1, 4), (3, 3), 10**9, 70_000),
            ((2, 5), (2, 2), 10**9, -1), ((2, 5), (3, 3), 4 * 10**9, -1),
        )
    ],
    [Host(f"h{row}", 10 * row, row % 6, 10 + row, 10**9) for row in range(12)],
)  # fmt: skip
"""Two rows of three switches, whose packets may pass the same ports in any order."""


@pytest.mark.parametrize("topology", [FatTree(4), LeafSpine(4, 2), GRID], ids=lambda t: t.name)
@pytest.mark.parametrize("buffer_bytes", [1_500_000, 6_000])
def test_against_brute_force(topology: Topology, buffer_bytes: int) -> None:
    """Every packet has the arrival, departure, occupancy and fate that an event simulation gives it."""
    network = Network(topology, LinkModel(buffer_bytes=buffer_bytes))
    traffic = random_traffic(topology, load=0.7)
    recorder = Recorder(network, traffic)
    found = run(network, traffic, 0.004, 0.001)
    assert len(found) > 1000
    expected = brute_force(network, recorder.packets)
    for number, time, reason, hops in found:
        assert (time, reason, hops) == expected[number]
    if buffer_bytes < 10_000:
        assert any(reason == 71 for _, _, reason, _ in found)


@pytest.mark.parametrize("until", [1, 1000, 20_000_000_000, MAX_WINDOW])
@pytest.mark.parametrize("packets", [0, 1, 2, 3000])
def test_arrivals_are_sorted(packets: int, until: int) -> None:
    """Keys are those of the stage before the end, by time and number, as NumPy sorts them."""
    from hopscope.fabric.queueing_kernel import ROW_BITS, arrivals

    random = np.random.default_rng(packets)
    start = 7 * PS
    for crowd in (1, 50, 2 * until):
        pool = np.zeros(packets, PACKET)
        pool["time"] = start + random.integers(0, crowd, packets)
        pool["number"] = random.permutation(packets)
        pool["stage"] = random.integers(0, 3, packets)
        found, ends, keys = sorting(packets)
        count = arrivals(pool, packets, 1, start, start + until, found, ends, keys)
        rows = np.flatnonzero((pool["stage"] == 1) & (pool["time"] < start + until))
        expected = rows[np.lexsort((pool["number"][rows], pool["time"][rows]))]
        assert (keys[:count] & np.uint64((1 << ROW_BITS) - 1)).tolist() == expected.tolist()


def test_windows_do_not_matter() -> None:
    """Cutting time into windows of another length changes nothing."""
    runs = []
    for window in (0.0005, 0.004):
        topology = FatTree(4)
        network = Network(topology, LinkModel(buffer_bytes=20_000))
        runs.append(run(network, random_traffic(topology), 0.008, window))
    assert len(runs[0]) > 1000
    assert sorted(runs[0]) == sorted(runs[1])


def test_conservation() -> None:
    """What hosts sent was delivered, dropped, or is in flight, and the ports counted the drops."""
    topology = FatTree(4)
    network = Network(topology, LinkModel(buffer_bytes=5_000))
    traffic = random_traffic(topology, load=0.8)
    run(network, traffic, 0.02, 0.005)
    assert network.emitted == network.delivered + network.dropped + network.in_flight
    assert network.dropped > 0
    assert network.dropped == int(network.ports["dropped"].sum())
    assert int(traffic.table["pending"].sum()) == network.in_flight


def poisson(topology: Topology, load: float, payload: int) -> tuple[Any, Any]:
    """Table and paths of one flow of fixed-size packets with exponential gaps through an idle fabric."""
    flow = endpoints(topology, [0], [1], [True])
    flow["payload"], flow["random"], flow["tracked"], flow["active"] = payload, 1, 1, 1
    flow["remaining"] = 1 << 60
    flow["serial"] = 5
    size = payload + 28 + WIRE
    flow["ps_per_byte"] = size * 8000 / load / payload
    path = topology.paths(flow["src_host"], flow["dst_host"], flow_hash(1, 2, 17, 4, 5))
    table = flow_table(4)
    table[0] = flow[0]
    assert table.dtype == FLOW
    return table, np.repeat(path, 4, axis=0)


@pytest.mark.parametrize("load", [0.3, 0.6, 0.8])
def test_mean_wait_of_m_d_1(load: float) -> None:
    """Poisson arrivals at a host's card wait as M/D/1 does: rho / (2 (1 - rho)) services.

    300,000 packets; within 5 % (the standard error of the mean at load 0.8 is about 1 %).
    """
    topology = FatTree(4)
    network = Network(topology)
    size = 1000 + 28 + WIRE
    flows = poisson(topology, load, 1000)
    waits: list[Any] = []
    until = 0
    while sum(len(part) for part in waits) < 300_000:
        until += PS // 10
        departures = network.step(*flows, until)
        card = departures.traces[:, 0]
        waits.append((card["egress"] - card["ingress"]) / (size * 8000))
    mean = float(np.concatenate(waits).mean())
    assert mean == pytest.approx(load / (2 * (1 - load)), rel=0.05)


def test_utilization_is_the_load() -> None:
    """A port's tx utilisation, per mille over 10 ms, is the load offered to it, within 5 %."""
    topology = FatTree(4)
    network = Network(topology)
    flows = poisson(topology, 0.5, 1000)
    seen = []
    for step in range(20):
        departures = network.step(*flows, (step + 1) * PS // 20)
        seen.append(departures.traces["utilization"][:, -1][-1])
    assert float(np.mean(seen[2:])) == pytest.approx(500, rel=0.05)


def test_an_idle_fabric_has_pipeline_latency_only() -> None:
    """Without contention a hop's latency is the pipeline's delay, and its queue is empty."""
    topology = FatTree(4)
    network = Network(topology, LinkModel(pipeline_ns=700))
    table, paths = poisson(topology, 0.01, 100)
    table["random"] = 0
    departures = network.step(table, paths, PS // 20)
    switched = departures.paths[:, 1:] >= 0
    hops = departures.traces[:, 1:][switched]
    assert len(hops) > 0
    assert set((hops["egress"] - hops["ingress"]).tolist()) == {700_000}
    assert not hops["occupancy"].any()


def test_blocks_grow() -> None:
    """More packets and traces than the first blocks hold are simulated all the same."""
    topology = FatTree(4)
    network = Network(topology)
    traffic = random_traffic(topology, flows=400, load=0.9)
    traffic.arrive(PS // 10)
    departures = network.step(traffic.table, traffic.paths, PS // 10)
    found = len(departures.packets)
    assert found > 20_000
    assert found == len(departures.traces) == network.delivered + network.dropped


def test_windows_too_long() -> None:
    """A window that a sort key cannot hold, or none at all, is rejected."""
    network, paths = Network(FatTree(4)), np.zeros((1, 6), np.int32)
    with pytest.raises(ValueError, match="window"):
        network.step(flow_table(1), paths, MAX_WINDOW + 1)
    with pytest.raises(ValueError, match="window"):
        network.step(flow_table(1), paths, 0)
