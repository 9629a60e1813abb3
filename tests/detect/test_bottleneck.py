"""Who is to blame: shares against brute force on raw hops, and the fault of a simulation is found."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
import pytest

from hopscope.detect.bottleneck.place_sums import PlaceSums, gauges_of
from hopscope.detect.bottleneck.shares import (
    Gauge,
    Queues,
    Sums,
    of_flow,
    of_network,
    of_sums,
    quantile,
    slow_above,
)
from hopscope.detect.detector import Detector
from hopscope.detect.distributions.quantiles import Distribution
from hopscope.detect.distributions.reader import copy_region
from hopscope.detect.distributions.region import Distributions
from hopscope.detect.flows.reading.flow_hops import FlowHops, flow_hops, hops_of_flows
from hopscope.detect.flows.reading.state import StateReader
from hopscope.detect.flows.tables import open_tables
from hopscope.detect.places import Place, keys_of_places
from hopscope.detect.records import FLOW, HOP_STATE, PORT, Kind, PortKind
from hopscope.detect.sink.records import Measure
from hopscope.fabric.faults import make_fault
from hopscope.fabric.simulation import Simulation, SimulationModel
from hopscope.fabric.topology import parse_topology
from hopscope.fabric.traffic import TrafficModel
from hopscope.settings.detect import DetectSettings
from hopscope.settings.sink import DistributionSettings
from hopscope.wire.records import Have, ReportBatch

NODE, NUMBER = "leaf-1", 2


def raw_hops(batches: list[ReportBatch]) -> list[tuple[Place, int, int, int]]:
    """(place, latency, occupancy, report's flow port) of every hop that carries a latency."""
    found = []
    for batch in batches:
        places = [batch.hops[name].tolist() for name in ("node_id", "egress_port", "queue_id")]
        values = [batch.hops[name].tolist() for name in ("hop_latency", "queue_occupancy")]
        hops = list(zip(zip(*places, strict=True), *values, strict=True))
        reports = batch.reports
        timed = (batch.hops["present"] & int(Have.HOP_LATENCY)).tolist()
        for first, count, sport in zip(
            *(reports[name].tolist() for name in ("first_hop", "hop_count", "sport")), strict=True
        ):
            assert all(timed[first : first + count])
            found += [(place, latency, depth, sport) for place, latency, depth in hops[first : first + count]]
    return found


def simulated(kind: str, seconds: float = 0.06, **strength: float) -> tuple[Simulation, list[ReportBatch]]:
    """Reports of a fabric with a fault from 0.01 s on at leaf-1's port 2 or a spine's."""
    topology = parse_topology("leaf-spine:4x2x4")
    fault = make_fault(topology, kind, 0.01, NODE, NUMBER, 1.0, **strength)
    traffic = TrafficModel(flows=120, load=0.3)
    simulation = Simulation(
        topology, SimulationModel(traffic=traffic, faults=(fault,), seed=3, reports_per_second=0)
    )
    return simulation, [simulation.step(0.01 * (k + 1)) for k in range(round(seconds * 100))]


def counted(batches: list[ReportBatch]) -> list[Distribution]:
    """Distributions of these reports."""
    counts = Distributions(DistributionSettings(queues=1024))
    for batch in batches:
        assert counts.update(batch) == 0
    return copy_region(counts.region, 0).distributions()


@pytest.mark.kernel
@pytest.mark.parametrize(
    ("kind", "strength"), [("slow-hop", {"delay_ns": 800_000}), ("microburst", {"fill": 0.8})]
)
def test_the_faulty_queue_is_named(tmp_path: Path, kind: str, strength: dict[str, float]) -> None:
    """The fault's place is first in the network and in its flows; every number is brute force's."""
    simulation, batches = simulated(kind, **strength)
    raw = raw_hops(batches)
    truth = int(simulation.topology.ports["node_id"][simulation.model.faults[0].port])
    queues = Queues(counted(batches))
    shares = of_network(queues)
    assert shares[0].place == (truth, NUMBER, NUMBER)
    by_place: dict[Place, list[tuple[int, int]]] = defaultdict(list)
    for place, latency, occupancy, _ in raw:
        by_place[place].append((latency, occupancy))
    total = sum(latency for _, latency, _, _ in raw)
    assert {one.place for one in shares} == set(by_place)
    for one in shares:
        latencies = sorted(latency for latency, _ in by_place[one.place])
        occupancies = [occupancy for _, occupancy in by_place[one.place]]
        assert (one.latency_sum_ns, one.packets) == (sum(latencies), len(latencies))
        assert one.share == pytest.approx(sum(latencies) / total)
        assert one.mean_ns == pytest.approx(sum(latencies) / len(latencies))
        for found, q in ((one.median_ns, 0.5), (one.p99_ns, 0.99)):
            assert found is not None
            value = latencies[max(0, int(np.ceil(q * len(latencies))) - 1)]
            assert found.lower <= value <= (found.upper or value)
        assert one.occupancy.mean == pytest.approx(np.mean(occupancies))
        assert one.occupancy.highest == max(occupancies)
    _flows_blame_it(tmp_path, batches, raw, queues, (truth, NUMBER, NUMBER))


def _flows_blame_it(
    folder: Path,
    batches: list[ReportBatch],
    raw: list[tuple[Place, int, int, int]],
    queues: Queues,
    place: Place,
) -> None:
    detector = Detector(DetectSettings(flow_rows=64), folder)
    for batch in batches:
        for _ in detector.update(batch):
            pass
    reader = StateReader.attach(folder)
    means: dict[int, dict[Place, list[int]]] = defaultdict(lambda: defaultdict(list))
    for at, latency, _, sport in raw:
        means[sport][at].append(latency)
    sums = PlaceSums(queues, 300_000)
    blamed = slow = 0
    for block in reader.paths():
        sums.add(block)
    for flow in reader.flows():
        path = reader.path_of(flow)
        assert path is not None
        shares = of_flow(path, queues, by="mean")
        known = means[int(flow["sport"])]
        assert {one.place for one in shares} == set(known)
        total = sum(np.mean(known[one.place]) for one in shares)
        for one in shares:
            assert one.mean_ns == pytest.approx(np.mean(known[one.place]))
            assert one.share_mean == pytest.approx(np.mean(known[one.place]) / total)
            assert one.latest_ns == known[one.place][-1]
            latencies = queues.at(one.place)[Measure.HOP_LATENCY]
            assert one.quantile == quantile(latencies, known[one.place][-1])
            assert one.quantile is not None
            assert one.quantile.lower < one.quantile.upper
        if flow["latency_latest"] > 300_000:
            slow += 1
            blamed += place in known
        if place in known and len(known[place]) > 20 and max(known[place]) > 300_000:
            assert shares[0].place == place
    found = sums.sums()
    assert (sums.slow_flows, (found.slow or {}).get(place, 0)) == (slow, blamed)
    exact = of_sums(found)
    assert [(one.place, one.latency_sum_ns, one.packets) for one in exact] == [
        (one.place, one.latency_sum_ns, one.packets) for one in of_network(queues)
    ]


@pytest.mark.kernel
def test_the_lossy_port_is_named() -> None:
    """Its share of the drops is first, and as many are counted as its drop reports told."""
    simulation, batches = simulated("lossy-port", loss=0.2)
    truth = int(simulation.topology.ports["node_id"][simulation.model.faults[0].port])
    detector = Detector(DetectSettings(flow_rows=64), None)
    drops: Counter[Place] = Counter()
    for batch in batches:
        for events in detector.update(batch):
            lost = events[events["kind"] == Kind.DROP]
            drops.update(lost[["node_id", "port", "ident"]].tolist())
    assert max(drops, key=drops.__getitem__) == (truth, NUMBER, NUMBER)
    assert drops.total() == simulation.truth.drop_reports


def test_queues_that_are_not_known() -> None:
    """A hop without a queue is compared with its port's only one, and with none where there are two."""
    one, two = np.array([1], np.uint64), np.array([2], np.uint64)
    parts = [
        Distribution(Measure.HOP_LATENCY, one, two, two, 3, 2, node=1, port=2, queue=queue)
        for queue in (0, 7)
    ]
    assert Queues(parts[1:]).resolve((1, 2, None)) == (1, 2, 7)
    assert Queues(parts).resolve((1, 2, None)) == (1, 2, None)
    assert Queues(parts).resolve((1, 2, 0)) == (1, 2, 0)
    assert Queues([]).resolve((1, None, None)) == (1, None, None)
    empty = Distribution(Measure.HOP_LATENCY, one[:0], one[:0], one[:0], 0, 0)
    assert quantile(empty, 5) is None
    assert quantile(parts[0], 3) is not None


def sums_of(places: dict[Place, tuple[int, int]]) -> Sums:
    """Sums of (latency, packets) by place."""
    keys = keys_of_places(list(places))
    latency, packets = np.array(list(places.values()), np.uint64).reshape(-1, 2).T
    order = np.argsort(keys)
    return Sums(keys[order], latency[order], packets[order])


def test_sums_equal_those_of_single_hops() -> None:
    """Latency, packets, slow flows and order of places are those of one hop after the other: over blocks,
    also of places of which the port or queue is unknown, and of a place that is twice in a path.
    """
    rng = np.random.default_rng(7)
    one = np.array([1], np.uint64)
    parts = [
        Distribution(Measure.HOP_LATENCY, one, one, one, 3, 2, node=node, port=2, queue=queue)
        for node, queue in ((1, 5), (2, 0), (2, 7))
    ]
    queues = Queues(parts)
    sums = PlaceSums(queues, 700)
    latency: Counter[Place] = Counter()
    packets: Counter[Place] = Counter()
    slow: dict[Place, set[int]] = defaultdict(set)
    all_slow = set()
    for number in range(3):
        flows = np.zeros(200, FLOW)
        flows["latency_latest"], flows["state"] = rng.integers(0, 1000, 200), rng.integers(0, 4, 200)
        flows["flow_id"] = np.arange(200) + 200 * number
        owner = np.repeat(np.arange(200), 6)
        hops = np.zeros(1200, HOP_STATE)
        hops["node_id"], hops["egress_port"] = rng.integers(1, 4, 1200), rng.choice([0, 2, 0xFFFF], 1200)
        hops["node_id"][::50] = 0xFFFFFFFE
        hops["latency_sum"], hops["samples"] = rng.integers(0, 1 << 40, 1200), rng.integers(0, 3, 1200)
        hops["state"] = rng.integers(0, 2, 1200)
        queue = rng.choice([-1, 0, 5, 255], 1200)
        sums.add(FlowHops(flows, hops, owner, np.tile(np.arange(6), 200), queue))
        for hop, of, at in zip(hops, owner.tolist(), queue.tolist(), strict=True):
            port = None if hop["egress_port"] == 0xFFFF else int(hop["egress_port"])
            place = queues.resolve((int(hop["node_id"]), port, None if at < 0 else at))
            latency[place] += int(hop["latency_sum"]) * int(hop["state"])
            packets[place] += int(hop["samples"]) * int(hop["state"])
            if flows["state"][of] & 2 and flows["latency_latest"][of] > 700:
                slow[place].add(int(flows["flow_id"][of]))
        all_slow |= set(flows["flow_id"][(flows["state"] & 2 > 0) & (flows["latency_latest"] > 700)].tolist())
    assert (1, 2, 5) in slow
    assert (2, 2, None) in slow
    order = sorted(
        (place for place in packets if packets[place]),
        key=lambda place: (-latency[place], [-1 if part is None else part for part in place]),
    )
    total = sum(latency[place] for place in order)
    expected = [
        (place, latency[place] / total, latency[place], packets[place], latency[place] / packets[place],
         len(slow[place]))
        for place in order
    ]  # fmt: skip
    assert sums.slow_flows == len(all_slow)
    assert sums.sums().count == len(order)
    for limit in (None, 5):
        found = [
            (each.place, each.share, each.latency_sum_ns, each.packets, each.mean_ns, each.slow_flows)
            for each in of_sums(sums.sums(), limit)
        ]
        assert found == expected[:limit]
    alike = of_sums(sums_of({(2, None, 1): (5, 1), (1, 9, None): (5, 1), (1, None, 3): (5, 1)}))
    assert [each.place for each in alike] == [(1, None, 3), (1, 9, None), (2, None, 1)]
    assert alike[0].slow_flows is None


def test_hops_without_values() -> None:
    """A hop without a latency comes last and has no share; latencies of 0 share nothing; null gauges are
    none.
    """
    hops = np.zeros(3, HOP_STATE)
    hops["node_id"], hops["egress_port"] = (1, 2, 3), (5, 0xFFFF, 6)
    hops["state"], hops["samples"] = (0, 1, 1), (0, 4, 4)
    hops["latency_latest"], hops["latency_sum"] = (9, 0, 70), (9, 0, 400)
    hops["queue_latest"], hops["utilization_latest"] = 0xFFFFFFFF, (0, 1, 2)
    path = FlowHops(np.zeros(1, FLOW), hops, np.zeros(3, np.int64), np.arange(3), np.full(3, -1))
    shares = of_flow(path, Queues([]))
    assert [(one.hop, one.share_latest, one.share_mean) for one in shares] == [
        (2, 1.0, 1.0), (1, 0.0, 0.0), (0, None, None)
    ]  # fmt: skip
    assert shares[0].mean_ns == 100
    assert shares[1].place == (2, None, None)
    assert shares[0].occupancy == Gauge()
    assert shares[0].utilization == Gauge(2)
    hops["latency_latest"] = 0
    assert {one.share_latest for one in of_flow(path, Queues([]))} == {None, 0.0}
    assert of_sums(sums_of({})) == []
    assert of_sums(sums_of({(1, 2, 3): (0, 0)})) == []
    assert of_sums(sums_of({(1, 2, 3): (0, 5)}))[0].share == 0


def test_what_is_slow() -> None:
    """Above 95 % of all packets; where more of them are slow, above eight times the median."""
    lower = np.array([100, 1000, 50_000], np.uint64)

    def limit(*counts: int) -> int | None:
        many = np.array(counts, np.uint64)
        return slow_above(Distribution(Measure.END_TO_END, lower, lower, many, 1, 50_000))

    assert limit(90, 9, 1) == 800
    assert limit(10, 90, 0) == 1000
    assert limit(70, 0, 30) == 800
    assert limit(0, 0, 0) is None
    assert slow_above(None) is None


def test_gauges() -> None:
    """Occupancy by queue, whether or not its key has its port in it, and utilisation by port."""
    rows = np.zeros(4, PORT)
    rows["kind"] = (PortKind.QUEUE, PortKind.QUEUE, PortKind.EGRESS, PortKind.BUFFER)
    rows["node_id"], rows["ident"], rows["port"], rows["state"] = (1, 2, 1, 1), (7, 7, 5, 7), 5, 1
    rows["latest"][:, 0], rows["highest"][:, 0] = (10, 20, 30, 40), (11, 21, 31, 41)
    rows["key"] = rows["ident"].astype(np.uint64) << np.uint64(32) | rows["node_id"]
    assert gauges_of(rows, [(1, 6, 7)])[1, 6, 7] == (Gauge(10, None, 11), Gauge())
    rows["key"] |= np.uint64(5 << 40)
    assert gauges_of(rows, [(1, 6, 7)])[1, 6, 7] == (Gauge(), Gauge())
    found = gauges_of(rows, [(1, 5, 7), (2, 5, 7), (3, None, None)])
    assert found[1, 5, 7] == (Gauge(10, None, 11), Gauge(30, None, 31))
    assert found[2, 5, 7] == (Gauge(20, None, 21), Gauge())
    assert found[3, None, None] == (Gauge(), Gauge())
    rows["ident"][2] = 65_536 + 5  # of an ifIndex of sFlow, which is no port of INT
    assert gauges_of(rows, [(1, 5, 7)])[1, 5, 7] == (Gauge(10, None, 11), Gauge())


def test_hops_of_a_table() -> None:
    """Long paths are whole, hops without a node are left out; a queue is the sink's, or the collector's
    row.
    """
    tables = open_tables(DetectSettings(flow_rows=4, hop_pool=2, ports=16), None, 0)
    table, ports = tables["flows"], tables["ports"]["ports"]
    table["rows"]["tag"][1, 3] = table["rows"]["tag"][2, 0] = 9
    flows, hops = table["flows"], table["hops"]
    flows["flow_id"][15], flows["hop_count"][15] = 1, 3
    flows["flow_id"][24], flows["hop_count"][24], flows["pool_block"][24] = 2, 10, 2
    table["pool"][0] -= 1
    hops["node_id"] = np.arange(len(hops)) + 1
    hops["node_id"][15 * 8 + 1] = 0xFFFFFFFF
    hops["state"], hops["buffer_slot"], hops["queue_slot"] = 3, 5, 7
    hops["state"][15 * 8 :][:3] = 1
    ports["kind"][7], ports["node_id"][7], ports["ident"][7] = PortKind.QUEUE, 15 * 8 + 3, 4
    (block,) = flow_hops(tables["flows"], tables["ports"])
    pool = 4 * 12 * 8 + 56
    nodes = [121, 123, *(24 * 8 + np.arange(8) + 1), pool + 1, pool + 2]
    assert block.hops["node_id"].tolist() == nodes
    assert block.owner.tolist() == [0, 0, *[1] * 10]
    assert block.number.tolist() == [0, 2, *range(10)]
    assert block.queue.tolist() == [-1, 4, *[5] * 10]
    assert block.of(1).hops["node_id"].tolist() == nodes[2:]
    found = hops_of_flows(tables["flows"], tables["ports"], flows["flow_id"][[24]])
    assert found.queue.tolist() == [5] * 10
    both = hops_of_flows(tables["flows"], tables["ports"], np.array([2, 3, 1], np.uint64))
    assert both.hops["node_id"].tolist() == nodes
    assert both.owner.tolist() == block.owner.tolist()
    none = hops_of_flows(tables["flows"], tables["ports"], np.array([6, 5], np.uint64))
    assert (len(none.flows), len(none.hops)) == (0, 0)
