"""Traffic: size distributions, load, arrivals, and that everything follows from the seed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hopscope.fabric.records import PS
from hopscope.fabric.topology import FabricError, FatTree
from hopscope.fabric.traffic import DATA_MINING, SIZES, WEB_SEARCH, SizeDistribution, Traffic, TrafficModel


@pytest.mark.parametrize("sizes", SIZES.values(), ids=lambda s: s.name)
def test_sizes_have_their_distribution(sizes: SizeDistribution) -> None:
    """Drawn sizes have the tabulated probabilities (200,000 draws, within 0.01) and the mean (within 5 %)."""
    drawn = sizes.draw(np.random.default_rng(2).random(200_000))
    for size, probability in zip(sizes.size_bytes, sizes.probability, strict=True):
        assert float((drawn <= size).mean()) == pytest.approx(probability, abs=0.01)
    assert float(drawn.mean()) == pytest.approx(sizes.mean, rel=0.05)
    assert drawn.min() >= 1


def test_biased_sizes() -> None:
    """The mean size of a flow met at a random moment is E[S²] / E[S]."""
    drawn = WEB_SEARCH.draw(np.random.default_rng(3).random(400_000)).astype(float)
    biased = WEB_SEARCH.draw_biased(np.random.default_rng(4), 400_000).astype(float)
    assert biased.mean() == pytest.approx((drawn**2).mean() / drawn.mean(), rel=0.02)


def test_known_means() -> None:
    """The means that papers quote: 1.7 MB for web search, some 13 MB for data mining."""
    assert pytest.approx(1.7e6, rel=0.05) == WEB_SEARCH.mean
    assert pytest.approx(12.7e6, rel=0.1) == DATA_MINING.mean


def test_flows_arrive_as_poisson() -> None:
    """Flows arrive at the rate that keeps the number active, with the variance of a Poisson process."""
    model = TrafficModel(flows=2000, load=0.4)
    traffic = Traffic(FatTree(4), model, 5)
    expected = 16 * 1e9 * 0.4 / 8 / WEB_SEARCH.mean * 0.1
    counts = []
    for window in range(200):
        counts.append(traffic.arrive((window + 1) * PS // 10))
        traffic.table["active"] = 0  # nothing serves them here
    assert float(np.mean(counts)) == pytest.approx(expected, rel=0.05)
    assert float(np.var(counts)) == pytest.approx(expected, rel=0.3)


@pytest.mark.kernel
@pytest.mark.parametrize("load", [0.2, 0.5])
def test_load(load: float) -> None:
    """Hosts send their share of the link rate on the wire, from the first second on, within 8 %.

    4,000 flows: the standard deviation of the number active is 1.6 %.
    """
    from hopscope.fabric.queueing import Network

    topology = FatTree(4)
    traffic, network = Traffic(topology, TrafficModel(flows=4000, load=load), 8), Network(topology)
    for step in range(50):
        traffic.arrive((step + 1) * PS // 100)
        network.step(traffic.table, traffic.paths, (step + 1) * PS // 100, 0.0)
    cards = network.ports[: topology.hosts]
    wire = float(cards["bytes"].sum() + 38 * cards["packets"].sum())
    assert wire * 8 / (16 * 1e9 * 0.5) == pytest.approx(load, rel=0.08)
    assert network.emitted / 0.5 == pytest.approx(traffic.packets_per_second, rel=0.1)
    assert int(traffic.table["active"].sum()) == pytest.approx(4000, rel=0.08)


@pytest.mark.kernel
def test_packets_of_a_flow_add_up() -> None:
    """A flow sends exactly its bytes, in full packets and a last one, and then its row is free."""
    from hopscope.fabric.queueing import Network

    topology = FatTree(4)
    traffic, network = Traffic(topology, TrafficModel(flows=1, load=0.5, udp=0.0), 8), Network(topology)
    traffic.table["remaining"][traffic.table["active"] == 1] = 10_000
    packets = network.step(traffic.table, traffic.paths, PS // 2).packets
    assert sorted((packets["size"].astype(int) - 40).tolist()) == [1240, *[1460] * 6]
    assert not traffic.table["active"].any()
    assert not traffic.table["pending"].any()


def rows_of(traffic: Traffic) -> Any:
    return traffic.table[traffic.table["active"] == 1].tobytes()


def test_the_seed_decides() -> None:
    """The same seed gives the same flows; another one gives others."""
    tables = [Traffic(FatTree(4), TrafficModel(flows=50), seed) for seed in (1, 1, 2)]
    for traffic in tables:
        traffic.arrive(PS // 2)
    assert rows_of(tables[0]) == rows_of(tables[1]) != rows_of(tables[2])


def test_rows_are_used_again() -> None:
    """A row is free when its flow has ended and its packets are through, and not before."""
    traffic = Traffic(FatTree(4), TrafficModel(flows=10), 1)
    size = len(traffic.table)
    traffic.table["active"], traffic.table["pending"] = 0, 1
    flow = traffic.table[:1].copy()
    traffic.add(flow)
    assert len(traffic.table) > size
    traffic.table["active"], traffic.table["pending"] = 0, 0
    traffic.add(flow)
    assert traffic.table["active"][0] == 1


@pytest.mark.parametrize("model", [TrafficModel(flows=0), TrafficModel(load=0.0), TrafficModel(load=1.5)])
def test_impossible_traffic(model: TrafficModel) -> None:
    """No flows, no load, or more than the links carry is rejected."""
    with pytest.raises(FabricError):
        Traffic(FatTree(4), model)
