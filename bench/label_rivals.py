"""INT-label and its rivals on one fabric beside the same traffic: coverage, bandwidth, loss they cause."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from harness.common import Bench
from harness.figures import Sheet
from hopscope.fabric.labelling.rivals import on_traffic
from hopscope.fabric.labelling.rivals.on_traffic import SYSTEMS, Scenario, SystemResult, generators
from hopscope.fabric.labelling.rivals.rival import between
from hopscope.fabric.labelling.rivals.sampled_int import samples_for
from hopscope.fabric.labelling.simulation.network import NetworkModel
from hopscope.fabric.labelling.simulation.sources import Sources, uniform
from hopscope.fabric.ports import Topology
from hopscope.fabric.records import WIRE_OVERHEAD
from hopscope.fabric.topology import parse_topology

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs" / "images" / "label"
FABRICS = ("paper", "fat-tree:4", "fat-tree:8")
LINK = 20_000_000
"""Of every link, bit/s: some 100 packets of 1000 bytes in T, as in the paper's setting."""
SIZE = 1000
LOADS = (0.9, 1.0, 1.1)
"""Of the busiest port between switches, by traffic alone."""
QUEUE = 100
"""Packets of a port's queue, as in Figure 14."""
FLOWS = 4
"""Between two hosts, each with a way of its own by ECMP."""
TELEMETRY = 0.1
SAMPLED = 0.99
"""Coverage for which packets are sampled, and marked for postcards, by the closed form."""
RUN: dict[str, Callable[[Scenario], SystemResult]] = {
    **SYSTEMS,
    "PINT": partial(on_traffic.run_pint, flows_from=2, measured=1),
}


def busiest(topology: Topology, traffic: Sources) -> float:
    """Packets a second at the busiest port between switches, where every source sends one a second."""
    each = np.repeat(1 / traffic.records["routes_count"], traffic.records["routes_count"])
    lengths = np.diff(traffic.starts, append=len(traffic.routes))
    use = np.bincount(traffic.routes["port"], np.repeat(each, lengths), minlength=len(topology.ports))
    return float(use[between(topology)].max())


def scene(name: str, load: float, seed: int, intervals: int) -> Scenario:
    """All hosts send to random others, so fast that the busiest port between switches has this load."""
    topology = parse_topology(name, LINK)
    most = busiest(topology, uniform(topology, 1e6, size=SIZE, flows=FLOWS, seed=seed))
    packets = load * LINK / (8 * (SIZE + WIRE_OVERHEAD)) / most
    traffic = uniform(topology, 8 * SIZE * packets, size=SIZE, flows=FLOWS, seed=seed)
    every = round(packets * topology.hosts * TELEMETRY / samples_for(topology, SAMPLED))
    network = NetworkModel(buffer_bytes=QUEUE * (SIZE + WIRE_OVERHEAD))
    return Scenario(
        topology, traffic, network, telemetry=TELEMETRY, intervals=intervals, sampled=max(1, every), seed=seed
    )


def note(name: str, runs: list[SystemResult]) -> str:
    """What else a system's runs have shown."""
    ways = [way.packets for seen in runs for way in seen.paths]
    if ways:
        known = [packets for packets in ways if packets]
        return (
            f"coverage: ports on paths known from the packets of one interval; of all paths of the run "
            f"{100 * len(known) / len(ways):.0f} % are known, after {np.mean(known):.1f} packets"
        )
    lost = sum(seen.probes.dropped for seen in runs) / max(1, sum(seen.probes.emitted for seen in runs))
    if name.startswith("postcards"):
        return f"{100 * lost:.1f} % of the postcards are lost"
    return "sees paths, not single ports" if name == "Pingmesh" else ""


def measured(bench: Bench, name: str, load: float, seeds: int, intervals: int) -> list[dict[str, object]]:
    """One fabric at one load: a row for each system, means over seeds."""
    scenes = [scene(name, load, seed, intervals) for seed in range(1, seeds + 1)]
    bare = [on_traffic.run_without_telemetry(one) for one in scenes]
    topology = scenes[0].topology
    capacity = float(topology.ports["rate"][topology.ports["switch"] >= 0].sum())
    alone = 100 * float(np.mean([one.lost for one in bare]))
    found: list[dict[str, object]] = []
    for system, run in RUN.items():
        runs = [run(one) for one in scenes]
        extra = [100 * (seen.lost - one.lost) for seen, one in zip(runs, bare, strict=True)]
        row: dict[str, object] = {
            "fabric": name, "load": load, "system": system, "generators": generators(system, scenes[0]),
            "added_mbit_s": float(np.mean([seen.link_bits for seen in runs])) / 1e6,
            "added_percent": 100 * float(np.mean([seen.link_bits for seen in runs])) / capacity,
            "coverage": float(np.mean([seen.coverage.mean() for seen in runs])),
            "coverage_min": float(np.min([seen.coverage.min() for seen in runs])),
            "lost_alone_percent": alone, "lost_more_percent": float(np.mean(extra)),
            "lost_more_sd": float(np.std(extra)),
        }  # fmt: skip
        case: dict[str, object] = {
            "fabric": name, "load": load, "loss without, %": f"{alone:.3f}", "system": system,
            "generators": row["generators"], "added, Mbit/s": f"{row['added_mbit_s']:.3g}",
            "of capacity, %": f"{row['added_percent']:.3g}",
            "more loss, points": f"{np.mean(extra):.3f} ± {np.std(extra):.3f}",
        }  # fmt: skip
        bench.row(case, 100 * float(str(row["coverage"])), "% of ports covered", note(system, runs))
        found.append(row)
    return found


def draw(rows: list[dict[str, object]], figure: Any) -> None:
    """Bandwidth, loss and coverage at the highest load, by system and fabric."""
    names = list(RUN)[::-1]
    fabrics = list(dict.fromkeys(str(row["fabric"]) for row in rows))
    load = rows[-1]["load"]
    panels = (
        ("added_percent", "added, % of links' capacity"),
        ("lost_more_percent", "traffic lost besides [% points]"),
        ("coverage", "ports between switches covered"),
    )
    every = figure.subplots(1, 3, sharey=True)
    for axes, (column, label) in zip(every, panels, strict=True):
        for place, fabric in enumerate(fabrics):
            here = [row for row in rows if (row["fabric"], row["load"]) == (fabric, load)]
            chosen = {str(row["system"]): float(str(row[column])) for row in here}
            at = np.arange(len(names)) + 0.25 * (len(fabrics) / 2 - 0.5 - place)
            axes.barh(at, [chosen[name] for name in names], 0.25, color=f"C{place}", label=fabric)
        axes.set_xlabel(label)
        axes.set_yticks(np.arange(len(names)), names)
    every[0].set_xscale("log")
    every[1].set_xscale("symlog", linthresh=0.1)
    every[0].legend(loc="upper right")


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--output", type=Path, help="folder; default docs/images/label, --quick: bench/out")


def main() -> None:
    """Measure, and write the picture and its table."""
    bench, args = Bench.start(
        "label_rivals",
        f"coverage in telemetry intervals of {TELEMETRY * 1e3:.0f} ms, bandwidth, and loss in "
        f"addition to that of the same traffic without telemetry; links of {LINK / 1e6:.0f} "
        f"Mbit/s, T and probe gap of 50 ms, queues of {QUEUE} packets, packets sampled for a "
        f"coverage of {100 * SAMPLED:.0f} % by the closed form.",
        "senders that slow down where packets are lost: traffic is open-loop.",
        arguments,
    )
    rows: list[dict[str, object]] = []
    for name in FABRICS[:2] if bench.quick else FABRICS:
        for load in LOADS[1:2] if bench.quick else LOADS:
            rows += measured(bench, name, load, 1 if bench.quick else 3, 5 if bench.quick else 20)
    title = f"All systems beside the same traffic, load {rows[-1]['load']}"
    sheet = Sheet("rivals", title, lambda figure: draw(rows, figure), rows, width=10.0)
    sheet.save(args.output or (ROOT / "bench" / "out" if bench.quick else DOCS))


if __name__ == "__main__":
    main()
