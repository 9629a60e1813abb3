"""INT-label simulated: packet-hops a second on one core, and memory, by the size of the fat tree."""

from __future__ import annotations

import argparse
import statistics
import time

from harness.common import Bench
from hopscope.fabric.labelling.simulation.records import PACKET
from hopscope.fabric.labelling.simulation.simulator import LabelSimulation
from hopscope.fabric.labelling.simulation.sources import uniform
from hopscope.fabric.topology import parse_topology
from hopscope.settings.label import LabellingSettings

CASES = {4: 0.05, 8: 0.01, 16: 0.002, 32: 0.0005}
"""Simulated seconds of one round, by k: some hundred thousand packet-hops each."""
HOST_RATE = 300e6
"""Bits a second that every host sends, of 1 Gbit/s."""
SIZE = 1000
DESTINATIONS = 16
"""Hosts that every host sends to."""
INTERVAL, TELEMETRY = 0.002, 0.004
LINK = 4
"""Bytes of a packet's place in the calendar."""


def simulation(k: int, algorithm: str) -> LabelSimulation:
    """Uniform traffic with exponential gaps on a fat tree."""
    topology = parse_topology(f"fat-tree:{k}")
    sources = uniform(topology, HOST_RATE, size=SIZE, destinations=DESTINATIONS)
    labelling = LabellingSettings.model_validate({"algorithm": algorithm, "interval": INTERVAL})
    return LabelSimulation(topology, sources, labelling, telemetry=TELEMETRY)


def measure(bench: Bench, k: int, algorithm: str, rounds: int) -> None:
    """One row: the median round, its best one, and what a packet takes in memory."""
    sim = simulation(k, algorithm)
    step = CASES[k]
    sim.run(2 * step)  # the pools have grown, queues are filled
    rates, clock = [], []
    for number in range(rounds):
        before, used, start = sim.packet_hops, time.process_time(), time.perf_counter()
        sim.run((3 + number) * step)
        clock.append((sim.packet_hops - before) / (time.perf_counter() - start))
        rates.append((sim.packet_hops - before) / (time.process_time() - used))
    packets, _ = sim.in_flight
    memory = sim.nbytes
    note = (
        f"best {max(rates) / 1e6:.1f} M, by the clock {statistics.median(clock) / 1e6:.1f} M; "
        f"{sim.counts.labels / sim.counts.emitted:.2f} labels per packet; {packets:,} packets in flight, "
        f"{PACKET.itemsize + LINK} B each; pools {(memory['packets'] + memory['labels']) / 1e6:.1f} MB, "
        f"ports and routes {(memory['ports'] + memory['sources']) / 1e6:.1f} MB"
    )
    case: dict[str, object] = {"k": k, "switches": 5 * k * k // 4, "algorithm": algorithm}
    bench.row(case, statistics.median(rates), "hops/s", note)


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--only", help="values of k, as 4,8; default all of 4, 8, 16, 32")


def main() -> None:
    """All sizes, Base A and Base B."""
    bench, args = Bench.start(
        "label_rate",
        "packet-hops (a packet passes one port) per CPU second on one core: every host sends "
        f"{HOST_RATE / 1e6:.0f} of 1000 Mbit/s in packets of {SIZE} bytes to {DESTINATIONS} "
        f"other hosts, with labels every {INTERVAL * 1e3:.0f} ms.",
        "compiling, building routes, growing pools, and the processing of labels afterwards.",
        arguments,
    )
    chosen = [int(k) for k in args.only.split(",")] if args.only else [*CASES]
    for k in chosen:
        for algorithm in ("base-b",) if bench.quick else ("base-a", "base-b"):
            measure(bench, k, algorithm, 5 if bench.quick else 25)


if __name__ == "__main__":
    main()
