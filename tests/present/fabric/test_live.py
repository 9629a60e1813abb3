"""Links and values of the live map, against the reports that made them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from hopscope.base.names import Names
from hopscope.control.topology import Link
from hopscope.detect.flows.reading.path_hops import NO_HOPS
from hopscope.detect.places import keys_of, nodes_of, parts_of
from hopscope.detect.records import NO_PORT, PORT, PortKind
from hopscope.fabric.topology import parse_topology
from hopscope.present.collector_state import CollectorState
from hopscope.present.fabric import live
from hopscope.present.fabric.learned import KEEP_NS, LearnedLinks, observe_places
from hopscope.present.fabric.live import LiveFabric
from hopscope.present.fabric.places import FROM_LLDP, FROM_PATHS, METRICS, NONE, new_places
from hopscope.present.fabric.view import network_of, port_objects, shown, view_object
from hopscope.wire.records import ReportBatch
from support.events.fabric_state import FabricCollector

FLOWS = 600
HOT = (3, 3)
"""`edge-1-0` to its first aggregation switch."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[FabricCollector, ReportBatch]]:
    """A fat tree whose flows have just reported, with a hot port."""
    collector = FabricCollector(
        tmp_path_factory.mktemp("fabric") / "data", parse_topology("fat-tree:4"), FLOWS
    )
    batch = collector.report(time.time_ns(), hot=[HOT])
    yield collector, batch
    collector.close()


def by_hand(batch: ReportBatch) -> dict[tuple[int, int], tuple[set[int], list[int], int, int, int]]:
    """By node and port: next nodes, latencies, number of flows, highest and last utilisation."""
    found: dict[tuple[int, int], tuple[set[int], list[int], int, int, int]] = {}
    for report in batch.reports:
        first, count = int(report["first_hop"]), int(report["hop_count"])
        for at in range(first, first + count):
            hop = batch.hops[at]
            key = int(hop["node_id"]), int(hop["egress_port"])
            nexts, latencies, flows, highest, _ = found.get(key, (set(), [], 0, 0, 0))
            nexts |= {int(batch.hops[at + 1]["node_id"])} if at + 1 < first + count else set()
            used = int(hop["tx_utilization"])
            found[key] = (nexts, [*latencies, int(hop["hop_latency"])], flows + 1, max(highest, used), used)
    return found


def test_places_and_values_are_those_of_the_reports(made: tuple[FabricCollector, ReportBatch]) -> None:
    """Every port that a report names, where it leads, its flows, and the highest and last values."""
    collector, batch = made
    rows = LiveFabric(CollectorState(collector.folder)).snapshot().rows
    expected = by_hand(batch)
    nodes, ports, _ = parts_of(rows["place"])
    places = list(zip(nodes.tolist(), ports.tolist(), strict=True))
    assert places == sorted(expected)
    latency, used = METRICS.index("hop_latency"), METRICS.index("link_utilization")
    for row, place in zip(rows, places, strict=True):
        nexts, latencies, flows, _, last = expected[place]
        assert {int(row["next"])} == (nexts or {NONE})
        assert row["flows"] == flows
        assert row["highest"][latency] == max(latencies)
        assert row["latest"][latency] in latencies
        assert row["latest"][used] == last
    hot = rows[places.index(HOT)]
    assert hot["alarm"][latency]
    assert rows["alarm"][:, latency].sum() == 1


def test_pods_have_the_worst_of_their_switches(made: tuple[FabricCollector, ReportBatch]) -> None:
    """By pod: the worst value, the number of hot ports, and all links between pods and planes."""
    collector, batch = made
    network = network_of(LiveFabric(CollectorState(collector.folder)).snapshot(), collector.names)
    view = shown(network, collector.names, "pod", None)
    found = view_object(network, view, collector.names, "hop_latency", 1_000_000, None)
    names = [node["name"] for node in found["structure"]["nodes"]]
    assert names == ["pod-0", "pod-1", "pod-2", "pod-3", "plane-of-17", "plane-of-19"]
    worst: dict[int, int] = {}
    for (node, _), (_, latencies, *_) in by_hand(batch).items():
        pod = (node - 1) % 8 // 2 if node <= 16 else 4 + (node - 17) // 2
        worst[pod] = max(worst.get(pod, 0), *latencies)
    assert found["values"]["nodes"] == [worst[i] for i in range(6)]
    assert found["values"]["nodes_hot"] == [0, 1, 0, 0, 0, 0]
    links = found["structure"]["links"]
    assert sorted(zip(links["from"], links["to"], links["count"], strict=True)) == sorted(
        (a, b, 2) for pod in range(4) for plane in (4, 5) for a, b in ((pod, plane), (plane, pod))
    )
    assert sum(len(cells) for cells in found["values"]["cells"]) == 20
    again = view_object(network, view, collector.names, "hop_latency", 1_000_000, found["version"])
    assert again["structure"] is None
    assert again["values"] == found["values"]


def test_a_pod_opens_to_its_switches_and_the_planes_above(made: tuple[FabricCollector, ReportBatch]) -> None:
    """Four switches and two planes; ports to hosts are counted; another name is an error that lists pods."""
    collector, _ = made
    network = network_of(LiveFabric(CollectorState(collector.folder)).snapshot(), collector.names)
    view = shown(network, collector.names, None, "pod-1")
    found = view_object(network, view, collector.names, "hop_latency", None, None)
    names = [node["name"] for node in found["structure"]["nodes"]]
    assert names == ["edge-1-0", "edge-1-1", "agg-1-0", "agg-1-1", "plane-of-17", "plane-of-19"]
    assert [node["host_ports"] for node in found["structure"]["nodes"]] == [2, 2, 0, 0, 0, 0]
    with pytest.raises(ValueError, match="pod-0, pod-1"):
        shown(network, collector.names, None, "pod-9")


def test_links_stay_while_flows_go(made: tuple[FabricCollector, ReportBatch]) -> None:
    """What was learned stays for an hour after its last flow, then it is forgotten."""
    collector, _ = made
    hops = CollectorState(collector.folder).path_hops()
    learned, now = LearnedLinks(), int(hops.time_ns.max())
    rows, edge = learned.learn(observe_places(hops, 0), now)
    nothing = observe_places(NO_HOPS, 0)
    assert len(nothing.places) == 0
    later, _ = learned.learn(nothing, now + KEEP_NS - 1)
    assert np.array_equal(later["place"], rows["place"])
    assert np.array_equal(later["next"], rows["next"])
    assert set(edge) == set(range(1, 21))
    gone, edge = learned.learn(nothing, now + KEEP_NS + 10**9)
    assert len(gone) == len(edge) == 0


def test_a_folder_without_a_collector_has_an_empty_map(tmp_path: Path) -> None:
    """No region: no node, no error."""
    network = network_of(LiveFabric(CollectorState(tmp_path)).snapshot(), Names())
    found = view_object(network, shown(network, Names(), None, None), Names(), "drops", None, None)
    assert found["structure"]["nodes"] == []
    assert found["highest"] is None


def test_made_up_switches_leave_the_map_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """200,000 switches with a flow each, and three with two: the three stay, with the link between two of
    them; a port that leads to a switch that is left out leads nowhere.
    """
    made_up = np.arange(1000, 201_000, dtype=np.int64)
    nodes = np.append([1, 2, 3], made_up)
    rows = new_places(keys_of(nodes, np.ones(len(nodes), np.int64)))
    rows["flows"], rows["sources"] = 1, FROM_PATHS
    rows["flows"][:3], rows["next"][:3] = 2, (2, 200_999, NONE)
    rows["sources"][-1] = FROM_LLDP
    monkeypatch.setattr(live, "MAX_SWITCHES", 5)
    found = live.bounded(live.Snapshot(0, rows))
    switches = nodes_of(found.rows["place"]).tolist()
    assert (len(switches), switches[:3], switches[-1]) == (5, [1, 2, 3], 200_999)
    assert found.rows["next"][:3].tolist() == [2, 200_999, NONE]
    assert found.left_off == 200_003 - 5
    rows["sources"][-1] = FROM_PATHS
    rows["next"][1] = switches[3] + 1
    found = live.bounded(live.Snapshot(0, rows))
    assert found.rows["next"][:3].tolist() == [2, NONE, NONE]


def test_more_places_than_are_learned_are_left_out(
    made: tuple[FabricCollector, ReportBatch], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Paths name more places than are kept: the map has those, with the values that all others see."""
    collector, _ = made
    whole = LiveFabric(CollectorState(collector.folder)).read().rows
    learn = LearnedLinks.learn
    monkeypatch.setattr(LearnedLinks, "learn", lambda *of: (learn(*of)[0][:5], {}))
    monkeypatch.setattr(CollectorState, "ports", lambda _: np.empty(0, PORT))
    rows = LiveFabric(CollectorState(collector.folder)).read().rows
    assert len(rows) == 5
    same = whole[np.isin(whole["place"], rows["place"])]
    assert rows["flows"].tolist() == same["flows"].tolist()
    assert rows["highest"][:, 0].tolist() == same["highest"][:, 0].tolist()


def test_ports_that_are_large_ifindexes_are_ports_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ports 70000 and 436207616 of switch 1, and port 4464 of switch 2 (70000 less 65536): each has its own
    utilisation, its link and its name. A queue whose port reports do not state belongs to no port.
    """
    used = {(1, 70_000): 900, (1, 436_207_616): 700, (2, 4464): 100}
    ports = np.zeros(len(used) + 1, PORT)
    for row, ((node, port), value) in zip(ports, used.items(), strict=False):
        row["node_id"], row["ident"], row["kind"], row["state"] = node, port, PortKind.EGRESS, 1
        row["port"] = NO_PORT if port > NO_PORT else port
        row["latest"][0] = row["highest"][0] = value
        row["alarm"] = value == 900
    ports[-1]["node_id"], ports[-1]["kind"], ports[-1]["port"] = 1, PortKind.QUEUE, NO_PORT
    monkeypatch.setattr(CollectorState, "ports", lambda _: ports)
    links = (Link(1, 70_000, 2, 7, "", ("file",)), Link(1, 436_207_616, 3, None, "", ("file",)))
    monkeypatch.setattr(LiveFabric, "_known_links", lambda _: links)
    names = Names({}, {(1, 436_207_616): "Ethernet1/1"})
    network = network_of(LiveFabric(CollectorState(tmp_path)).snapshot(), names)
    found = view_object(network, shown(network, names, "switch", None), names, "link_utilization", 800, None)
    structure, values = found["structure"], found["values"]
    assert [node["id"] for node in structure["nodes"]] == [1, 2, 3]
    assert [node["host_ports"] for node in structure["nodes"]] == [0, 1, 0]
    links_shown = structure["links"]
    assert (links_shown["from"], links_shown["to"]) == ([0, 0], [1, 2])
    assert links_shown["port"] == [70_000, 436_207_616]
    assert (values["links"], values["links_hot"]) == ([900, 700], [1, 0])
    assert (values["nodes"], found["ports"]) == ([900, 100, None], 3)
    assert (found["hot"], found["above"]) == (1, 1)
    rows = port_objects(network, names, np.array([1, 2]))
    assert [(row["node"]["id"], row["port"]["id"], row["port"]["name"]) for row in rows] == [
        (1, 70_000, None), (1, 436_207_616, "Ethernet1/1"), (2, 4464, None),
    ]  # fmt: skip
    assert [row["values"]["link_utilization"]["latest"] for row in rows] == [900, 700, 100]
    assert [row["next"] and row["next"]["id"] for row in rows] == [2, 3, None]


def test_a_hop_without_a_port_is_of_its_switch_and_of_no_port(tmp_path: Path) -> None:
    """Reports without ports: the switches have latencies, and no port 65535."""
    rows = new_places(keys_of(np.array([1, 2]), np.array([-1, 3])))
    rows["latest"][:, 0] = rows["highest"][:, 0] = (5000, 800)
    network = network_of(live.Snapshot(0, rows), Names())
    found = view_object(network, shown(network, Names(), None, None), Names(), "hop_latency", None, None)
    assert (found["values"]["nodes"], found["values"]["hosts"]) == ([5000, 800], [None, 800])
    assert (found["ports"], [node["host_ports"] for node in found["structure"]["nodes"]]) == (1, [0, 1])
    assert [row["port"] for row in port_objects(network, Names(), np.array([1, 2]))] == [
        None,
        {"id": 3, "name": None},
    ]


def test_hot_ports_above_the_limit_are_counted_apart() -> None:
    """A port above the limit, one whose alarm is not cleared yet, one with both, and one with neither."""
    rows = new_places(keys_of(np.arange(1, 5), np.ones(4, np.int64)))
    rows["highest"][:, 0], rows["alarm"][:, 0] = (900, 500, 901, 500), (False, True, True, False)
    network = network_of(live.Snapshot(0, rows), Names())
    view = shown(network, Names(), None, None)
    for limit, above in ((800, 2), (900, 1), (None, 0)):
        found = view_object(network, view, Names(), "hop_latency", limit, None)
        assert (found["hot"], found["above"]) == (2 + (limit == 800), above)
