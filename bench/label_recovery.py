"""A link fails, a switch is added: how soon all ports are heard of again, against INT-path's replanning."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.common import Bench, median
from harness.figures import Sheet, legend
from hopscope.fabric.labelling.rivals import int_path
from hopscope.fabric.labelling.rivals.rival import Probes, between, chain, probe_sources
from hopscope.fabric.labelling.simulation.network import NetworkModel
from hopscope.fabric.labelling.simulation.simulator import LabelSimulation
from hopscope.fabric.labelling.simulation.sources import Sources, join, uniform
from hopscope.fabric.topology import FatTree
from hopscope.settings.label import LabellingSettings
from hopscope.wire.records import Records

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs" / "images" / "label"
INTERVAL = 0.05
"""T of INT-label, and time between the probes of INT-path, s."""
TELEMETRY = 0.1
CHANGE = 1.02
END = 1.6
NOTICED = 0.01
"""From the change until routing, and INT-path's controller, know of it, s: the same for both."""
INSTALL = 0.001
"""What telling one generator of probes its new route takes, s; one after the other."""
RATE = 8 * 1000 / (0.01 * INTERVAL)
"""Of each host, bit/s: T_s / T = 0.01 with packets of 1000 bytes."""
PS = 1e12
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Change:
    """What happens at CHANGE."""

    name: str
    ports: tuple[int, ...]
    """Ports of the links that fail, or are added."""
    added: bool

    def apply(self, simulation: LabelSimulation) -> None:
        """Order it."""
        if self.added:
            simulation.fail_link(*self.ports)
            simulation.repair_link(*self.ports, at_s=CHANGE, reroute_s=NOTICED)
        else:
            simulation.fail_link(*self.ports, at_s=CHANGE, reroute_s=NOTICED)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the controller heard."""

    first: float
    """From the change until something written after it had been heard of every port, s."""
    silence: float
    """Longest time without a word of a port, s; of a new port from the change on."""
    silent: int
    """Ports without a word for more than a telemetry interval."""
    times: npt.NDArray[np.float64]
    """After the change, s."""
    share: npt.NDArray[np.float64]
    """Of the ports, heard of in the telemetry interval before each of these times."""


def outcome(labels: Records, ports: Ints) -> Outcome:
    """How `ports` were heard of after the change."""
    first, silence = np.full(len(ports), np.inf), np.full(len(ports), np.inf)
    recent = labels[labels["received"] >= (CHANGE - TELEMETRY) * PS]
    recent = recent[np.argsort(recent["port"], kind="stable")]
    bounds = np.searchsorted(recent["port"], [ports, ports + 1])
    for place, (begin, end) in enumerate(bounds.T):
        own = recent[begin:end]
        heard = own["received"] / PS - CHANGE
        since = heard if len(heard) and heard[0] < 0 else np.r_[0.0, heard]
        silence[place] = np.diff(np.r_[since, END - CHANGE]).max()
        after = heard[own["labelled"] >= CHANGE * PS]
        first[place] = after.min() if len(after) else np.inf
    times = np.arange(-0.1, END - CHANGE - 0.05, 0.01)
    share = np.zeros(len(times))
    for place, time in enumerate(times + CHANGE):
        heard = labels["port"][
            (labels["received"] <= time * PS) & (labels["received"] > (time - TELEMETRY) * PS)
        ]
        share[place] = np.isin(ports, heard).mean()
    silent = int((silence > TELEMETRY).sum())
    return Outcome(float(first.max()), float(silence.max()), silent, times, share)


def by_labels(topology: FatTree, change: Change) -> tuple[Outcome, Ints]:
    """INT-label; the ports are those to switches that have traffic in every telemetry interval afterwards."""
    simulation = LabelSimulation(
        topology, uniform(topology, RATE), LabellingSettings(interval=INTERVAL), telemetry=TELEMETRY
    )
    change.apply(simulation)
    simulation.run(END)
    busy = simulation.active[int(CHANGE / TELEMETRY) + 1 :].all(axis=0)
    ports = between(topology)
    ports = ports[np.asarray(busy)[ports]]
    return outcome(simulation.received, ports), ports


def routes(topology: FatTree, trails: list[list[int]]) -> Probes:
    """Probes there and back along these trails, so that both ports of a link are seen."""
    back = [[int(topology.ports["reverse"][row]) for row in trail[::-1]] for trail in trails]
    return Probes([chain(trail) for trail in trails + back], int_path.PROBE, int_path.INT_ITEM)


def sending(topology: FatTree, probes: Probes, since: float, until: float) -> Sources:
    """These probes from a time to another: each route at a phase of its own, or new ones at once."""
    sources = probe_sources(topology, probes, INTERVAL)
    records = sources.records
    if since:
        first = round(since * PS)
        records["next"] = first
    left = np.ceil((until * PS - records["next"]) / records["gap"])
    records["remaining"] = np.maximum(left, 0).astype(np.int64)
    return sources


@dataclass(frozen=True, slots=True)
class Replanned:
    """INT-path after the change."""

    heard: Outcome
    planning: float
    """s, median of several."""
    installing: float
    generators: int
    longest: int
    """Hops of the longest trail."""


def by_probes(topology: FatTree, change: Change, ports: Ints, most: int | None) -> Replanned:
    """INT-path: old trails until the new ones are planned and installed."""
    down = np.zeros(len(topology.ports), bool)
    rows = np.array(change.ports)
    down[np.concatenate([rows, topology.ports["reverse"][rows]])] = True
    before, after = (down, None) if change.added else (None, down)
    old = int_path.plan(topology, before, max_hops=most)
    plans = [int_path.plan(topology, after, max_hops=most) for _ in range(5)]
    planning, trails = median(p.seconds for p in plans), plans[0].trails
    installing = INSTALL * 2 * len(trails)
    ready = CHANGE + NOTICED + planning + installing
    sources = join(
        sending(topology, routes(topology, old.trails), 0.0, ready),
        sending(topology, routes(topology, trails), ready, END),
    )
    model = NetworkModel(item_bytes=int_path.INT_ITEM, option_bytes=0)
    simulation = LabelSimulation(topology, sources, LabellingSettings(), network=model, telemetry=TELEMETRY)
    change.apply(simulation)
    simulation.run(END)
    longest = max(len(trail) for trail in trails)
    return Replanned(
        outcome(simulation.received, ports), planning, installing, 2 * len(trails), longest
    )  # fmt: skip


def changes(topology: FatTree) -> list[Change]:
    """A link in the middle of the fabric fails; a pod gets its last aggregation switch."""
    simulation = LabelSimulation(topology, uniform(topology, RATE, destinations=1), LabellingSettings())
    link = topology.link_between(
        topology.switches[topology.k * topology.half].node_id, topology.switches[-(topology.half**2)].node_id
    )
    return [
        Change("a link fails", (link,), False),
        Change("a switch is added", tuple(simulation.links_of(f"agg-0-{topology.half - 1}")), True),
    ]


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--output", type=Path, help="folder; default docs/images/label, --quick: bench/out")


def recovery(bench: Bench) -> Sheet:
    """Both systems, both changes, by size of the fabric."""
    rows: list[dict[str, object]] = []
    sizes = (4, 6) if bench.quick else (4, 8, 16)
    for k in sizes:
        topology = FatTree(k)
        for change in changes(topology):
            ours, ports = by_labels(topology, change)
            found: list[tuple[str, Outcome, str]] = [
                ("INT-label", ours, f"of {len(ports)} ports; nothing is reconfigured")
            ]
            for name, most in (("INT-path, longest trails", None), ("INT-path, 64 hops", 64)):
                other = by_probes(topology, change, ports, most)
                word = (
                    f"planned in {other.planning * 1e3:.1f} ms, {other.generators} generators installed in "
                    f"{other.installing * 1e3:.0f} ms, {other.longest} hops"
                )
                found.append((name, other.heard, word))
            for system, heard, word in found:
                case: dict[str, object] = {"k": k, "change": change.name, "system": system}
                said = f"{heard.silent} ports silent for more than {TELEMETRY * 1e3:.0f} ms"
                bench.row({**case, "what": "news of every port"}, heard.first * 1e3, "ms", word)
                bench.row({**case, "what": "longest silence"}, heard.silence * 1e3, "ms", said)
                rows += [
                    {"k": k, "change": change.name, "system": system, "ms": float(t * 1e3), "share": float(s)}
                    for t, s in zip(heard.times, heard.share, strict=True)
                ]

    def draw(figure: Any) -> None:
        both = figure.subplots(1, 2, sharey=True)
        for axes, change in zip(both, ("a link fails", "a switch is added"), strict=True):
            for number, system in enumerate(("INT-label", "INT-path, longest trails", "INT-path, 64 hops")):
                shown = [r for r in rows if (r["k"], r["change"], r["system"]) == (sizes[-1], change, system)]
                axes.plot(
                    [float(str(r["ms"])) for r in shown], [float(str(r["share"])) for r in shown],
                    color=f"C{number}", label=system,
                )  # fmt: skip
            axes.axvline(0, color="0.6", linewidth=1)
            axes.set_title(f"{change}, k = {sizes[-1]}", fontsize=10)
            axes.set_xlabel("time after the change [ms]")
        both[0].set_ylabel("ports heard of in the last 100 ms")
        legend(both[1], loc="lower right")

    return Sheet("recovery", "Ports that the controller hears of", draw, rows, width=9.0)


def main() -> None:
    """Measure, and write the picture and its table."""
    bench, args = Bench.start(
        "label_recovery",
        "time from a change until the controller has news of every port with traffic again. T "
        f"and INT-path's probe interval are {INTERVAL * 1e3:.0f} ms; routing and INT-path's "
        f"controller learn of the change after {NOTICED * 1e3:.0f} ms; then comes planning, "
        f"whose time is measured, and each generator is notified in {INSTALL * 1e3:.0f} ms "
        "(assumed).",
        "INT-path's topology collection, which is assumed to be a message from the switch next "
        "to the change.",
        arguments,
    )
    sheet = recovery(bench)
    sheet.save(args.output or (ROOT / "bench" / "out" if bench.quick else DOCS))


if __name__ == "__main__":
    main()
