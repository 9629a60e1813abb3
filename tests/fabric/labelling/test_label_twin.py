"""The engine against a simulation from a heap, event by event, on small random networks."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest

from hopscope.fabric.labelling.simulation import engine
from hopscope.fabric.labelling.simulation.network import NetworkModel
from hopscope.fabric.labelling.simulation.records import SourceFlag
from hopscope.fabric.labelling.simulation.simulator import LabelSimulation
from hopscope.fabric.labelling.simulation.sources import (
    Sources,
    from_hosts,
    join,
    on_routes,
    tree,
    unicast_routes,
)
from hopscope.fabric.topology import NO_PORT, FabricError, Topology, parse_topology
from hopscope.settings.label import LabellingSettings
from oracle.label_simulation import PS, Twin

pytestmark = pytest.mark.kernel

UNTIL = 3_000_000_000
"""ps"""


def some_trail(topology: Topology, rng: np.random.Generator, length: int) -> list[int]:
    """Ports of a walk from switch to switch."""
    links = topology.ports
    ports = [int(rng.choice(np.nonzero((links["switch"] >= 0) & (links["peer_switch"] >= 0))[0]))]
    while len(ports) < length:
        here = links["peer_switch"][ports[-1]]
        ports.append(int(rng.choice(np.nonzero((links["switch"] == here) & (links["peer_switch"] >= 0))[0])))
    return ports


def some_tree(topology: Topology, rng: np.random.Generator, port: int, depth: int) -> dict[int, Any]:
    """Branches after a port: some of the ports of the switch there."""
    here = topology.ports["peer_switch"][port]
    ports: Any = np.nonzero(topology.ports["switch"] == here)[0] if here >= 0 and depth else []
    return {int(p): some_tree(topology, rng, int(p), depth - 1) for p in ports if rng.random() < 0.7}


def some_sources(topology: Topology, rng: np.random.Generator) -> Sources:
    """Traffic of some hosts, equal gaps and random ones; a probe on a long trail; one that is copied."""
    seed = int(rng.integers(1, 1 << 30))
    hosts = rng.choice(topology.hosts, 3, replace=False)
    first = some_trail(topology, rng, 1)[0]
    always = SourceFlag.PROBE | SourceFlag.LABEL_ALWAYS
    return join(
        from_hosts(topology, hosts, 200e6, size=int(rng.integers(60, 1400)), tracked=17, seed=seed),
        from_hosts(topology, hosts[:2], 400e6, size=1000, random=False, flows=2, seed=seed + 1),
        from_hosts(topology, hosts[1:], 300e6, size=1480, seed=seed + 2, packets=50),
        on_routes(
            [unicast_routes(topology, [some_trail(topology, rng, 40)])[0]], 2e-4, size=60,
            flags=always,
        ),
        on_routes(
            [tree(topology, first, some_tree(topology, rng, first, 3))], 3e-5, size=64,
            flags=int(rng.choice([always, SourceFlag.PROBE, SourceFlag.LABEL_NEVER])),
        ),
    )  # fmt: skip


def settings(rng: np.random.Generator) -> LabellingSettings:
    """Any algorithm."""
    return LabellingSettings.model_validate(
        {
            "algorithm": "base-a" if rng.random() < 0.2 else "base-b",
            "chance": str(rng.choice(["f1", "f2", "f2-listing", "f3"])),
            "interval": float(rng.choice([5e-5, 2e-4, 1e-3])),
            "rest": float(rng.choice([0, 0.5])),
            "too_long": str(rng.choice(["skip", "fragment"])),
        }
    )


CUT = 3
"""Seeds of the twin's test with packets that are fragmented alone."""


@pytest.mark.parametrize("seed", range(24))
def test_the_engine_agrees_with_a_heap_of_events(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every label at its time, every drop, every byte: equal, whatever is cut, lost, copied or fragmented,
    and when pools that are too small grow on the path.
    """
    if seed % 2:
        monkeypatch.setattr(engine, "POOL", 4)
    rng = np.random.default_rng(seed)
    topology = parse_topology(str(rng.choice(["leaf-spine:2x2x2", "fat-tree:4", "paper"])))
    sources, labelling = some_sources(topology, rng), settings(rng)
    if seed < CUT:  # nothing shorter than what is cut off, whose front part is dropped now and then
        hosts = np.arange(topology.hosts)
        sources = from_hosts(topology, hosts, 300e6, size=1480, tracked=5, seed=seed + 1)
        labelling = labelling.model_copy(update={"too_long": "fragment", "interval": 1e-5})
    network = NetworkModel(
        buffer_bytes=3200 if seed < CUT else int(rng.choice([6000, 1_500_000])),
        jitter_ns=int(rng.choice([0, 3000])),
        loss=float(rng.choice([0, 0.02, 1])) if seed % 3 else 0.0,
        propagation_ns=int(rng.integers(0, 3000)),
    )
    sim = LabelSimulation(topology, sources, labelling, network=network, seed=seed, telemetry=1e-3)
    twin = Twin(topology, sources, labelling, network, seed)
    twin.sources.records["remaining"] = np.minimum(twin.sources.records["remaining"], 1 << 30)
    for cut in [*np.sort(rng.integers(1, UNTIL, 5)), UNTIL]:
        row = int(rng.integers(topology.hosts, len(topology.ports)))
        sim.run(cut / PS)
        twin.run(sim.now)
        change = rng.integers(3)
        if change == 0:
            sim.fail_link(row, reroute_s=1)
            twin.ports[row].down = twin.ports[int(topology.ports["reverse"][row])].down = True
        elif change == 1:
            sim.set_interval_shift(row, 3)
            twin.ports[row].shift = 3
        else:
            sim.set_loss(row, 0.3)
            twin.ports[row].loss = 0.3
    both = [sim.counts, sim.probe_counts]
    for name, key in {
        "emitted": "emitted", "delivered": "delivered", "tail_drops": "tail", "lost": "lost",
        "link_down": "down",
        "copies": "copies", "fragments": "fragments", "labelled": "labelled", "labels": "labels",
        "labels_lost": "labels lost", "skipped": "skipped", "hops": "hops", "bytes": "bytes",
        "label_bytes": "label bytes",
    }.items():  # fmt: skip
        assert sum(getattr(c, name) for c in both) == twin.counts[key], name
    due = [entry for entry in twin.log if entry[2] <= sim.now]
    got = [tuple(int(v) for v in cast(Any, row)) for row in sim.received]
    assert sorted(got) == sorted(due)
    assert [entry[2] for entry in got] == sorted(entry[2] for entry in got)
    busy = {(start // 10**9, port) for start, port in twin.sent if start < len(sim.active) * 10**9}
    assert {(int(i), int(p)) for i, p in zip(*np.nonzero(sim.active), strict=True)} == busy
    if seed == 0:
        assert twin.counts["labels"] > 100
    assert NO_PORT not in sim.received["port"]


def test_seeds_have_nothing_in_common() -> None:
    """Neighbouring seeds lose other packets, and as many as independent chances do: their counts spread."""
    topology = parse_topology("paper")
    lost = []
    for seed in range(1, 9):
        sources = from_hosts(topology, [0, 7], 50e6, seed=1, packets=2048)
        sim = LabelSimulation(
            topology, sources, LabellingSettings(), network=NetworkModel(loss=0.1), seed=seed
        )
        sim.run(1)
        assert sim.counts.emitted == 4096
        lost.append(sim.counts.lost)
    assert len(set(lost)) > 4
    assert 5 < np.std(lost) < 60  # that of 4096 packets with a chance of about a quarter is 28


def test_packets_of_the_same_ps_are_served_by_number() -> None:
    """Fifty sources of one host in step, and a flood whose copies arrive together: as from the heap."""
    topology = parse_topology("fat-tree:4")
    tick = [from_hosts(topology, [0, 5], 1e6, size=100, random=False, seed=seed) for seed in range(25)]
    up = next(topology.links())
    flood = on_routes(
        [tree(topology, up, some_tree(topology, np.random.default_rng(2), up, 4))] * 9, 1e-3, size=64
    )
    sources = join(*tick, flood)
    sources.records["next"] = 0
    labelling, network = LabellingSettings(interval=1e-4), NetworkModel()
    sim = LabelSimulation(topology, sources, labelling, network=network, seed=3)
    twin = Twin(topology, sources, labelling, network, 3)
    sim.run(UNTIL / PS)
    twin.run(sim.now)
    got = [tuple(int(v) for v in cast(Any, row)) for row in sim.received]
    assert sorted(got) == sorted(entry for entry in twin.log if entry[2] <= sim.now)
    assert sim.counts.copies == twin.counts["copies"] > 100


@pytest.mark.parametrize(
    ("table", "field", "value"),
    [
        ("routes", "port", 10_000), ("routes", "port", -1), ("routes", "next", 0), ("routes", "copies", 9),
        ("records", "size", 70_000), ("records", "routes_first", 3),
        ("records", "gap", 0), ("records", "next", -1),
    ],
)  # fmt: skip
def test_routes_and_sources_are_checked(table: str, field: str, value: int) -> None:
    """What would lead out of a table is rejected before anything is simulated."""
    topology = parse_topology("leaf-spine:2x2x2")
    sources = from_hosts(topology, [0], 1e6)
    getattr(sources, table)[field][2 if table == "routes" else 0] = value
    with pytest.raises(FabricError):
        LabelSimulation(topology, sources, LabellingSettings())


def test_times_that_do_not_fit_are_rejected() -> None:
    """Times are ps in 64 bits."""
    topology = parse_topology("leaf-spine:2x2x2")
    sources = from_hosts(topology, [0], 1e-9)
    with pytest.raises(FabricError):
        LabelSimulation(topology, sources, LabellingSettings(), telemetry=0)
    sim = LabelSimulation(topology, sources, LabellingSettings())
    for until in (1e9, float("nan"), -1.0):
        with pytest.raises(FabricError):
            sim.run(until)
