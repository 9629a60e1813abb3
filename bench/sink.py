"""The INT sink's speed on one core, beside figures 3 to 5 of the SmartNIC INT sink's paper."""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from harness.common import Bench
from harness.figures import Sheet, Stated, legend
from harness.sink import CHUNK, Rates, above, measure, operations, settings
from hopscope.detect.sink.records import SINK_EVENT_VERSION
from hopscope.memory.ring import RingReader, attach_ring
from support.packets.int_packets import Workload

DOCS = Path(__file__).parents[1] / "docs" / "images" / "sink"
NAMES = {1: "node id", 2: "+ latency", 3: "+ occupancy", 4: "+ utilisation"}
PAPER_3A = {(1, 1): 11.0, (5, 4): 6.57}
"""Mpps of 54 engines, by (nodes, instructions)."""
PAPER_3B = ((0.6, 6.57), (0.8, 6.57), (1.6, 5.3))
"""(M events/s, Mpps) of 54 engines, 5 nodes and 4 instructions."""
SHARES = (0.01, 0.03, 0.06, 0.1, 0.2)
"""Shares of queue occupancies that are above the limit; a packet has five."""
ROWS = 1 << 15
"""Of the table where 100,000 flows are offered: all fit."""
WARM = 12
"""Chunks in front of what is measured."""
KINDS = ("update", "update, notify", "update, evict", "update, new flow")

_WRITER = """
import sys, time
import numpy as np
from pathlib import Path
from hopscope.detect.sink.records import SINK_EVENT, SINK_EVENT_VERSION
from hopscope.memory.ring import RingWriter, create_ring
rate, seconds = float(sys.argv[2]), float(sys.argv[3])
writer = RingWriter(create_ring(Path(sys.argv[1]), SINK_EVENT, 65_536, SINK_EVENT_VERSION))
events = np.zeros(1024, SINK_EVENT)
print("ready", flush=True)
sys.stdin.readline()
start = time.perf_counter()
written = 0
while (now := time.perf_counter() - start) < seconds:
    while written < now * rate:
        events["sequence"] = np.arange(written, written + len(events))
        writer.write(events)
        written += len(events)
print(written, time.perf_counter() - start, flush=True)
"""


def add_rows(case: dict[str, object], rates: Rates, bench: Bench) -> None:
    """Two rows: without and with stripping."""
    events = f", {rates.events * rates.plain / 1e6:.2f} M events/s" if rates.events else ""
    note = f"decode {rates.decode:.0f} ns, update {rates.update:.0f} ns, {rates.hits:.1%} hits{events}"
    bench.row({"what": "decode, update", **case}, rates.plain, "packets/s", note)
    bench.row({"what": "… and strip", **case}, rates.stripped, "packets/s", f"strip {rates.strip:.0f} ns")


def row_of(figure: str, nodes: int, instructions: int, flows: int, rates: Rates) -> dict[str, object]:
    """A row of the CSV."""
    return {
        "figure": figure, "nodes": nodes, "instructions": instructions, "flows": flows,
        "mpps": rates.plain / 1e6, "mpps_strip": rates.stripped / 1e6,
        "mevents": rates.events * rates.plain / 1e6, "hits": rates.hits,
    }  # fmt: skip


def figure_3(bench: Bench, chunks: int) -> list[dict[str, object]]:
    """Speed by nodes and instructions, by rate of events, by flows."""
    rows = []
    grid = [(5, 4), (1, 1)] if bench.quick else [(n, i) for n in range(1, 6) for i in range(1, 5)]
    for nodes, instructions in grid:
        rates = measure(Workload(nodes, instructions), settings(ROWS), WARM, chunks)
        add_rows({"nodes": nodes, "instructions": instructions, "flows": 100_000}, rates, bench)
        rows.append(row_of("3a", nodes, instructions, 100_000, rates))
    for share in SHARES[1::2] if bench.quick else SHARES:
        limit = above(share)
        rates = measure(Workload(), settings(ROWS, queue_occupancy={"raise_above": limit}), WARM, chunks)
        add_rows({"nodes": 5, "instructions": 4, "flows": 100_000, "occupancy above": limit}, rates, bench)
        rows.append(row_of("3b", 5, 4, 100_000, rates))
    sizes = [(1000, 19), (1_000_000, 12)] if bench.quick else [
        *((flows, 19) for flows in (1000, 10_000, 100_000, 1_000_000, 6_000_000)),
        *((6_000_000, size) for size in (16, 13, 10)),
    ]  # fmt: skip
    for flows, size in sizes:
        rates = measure(Workload(flows=flows), settings(1 << size), WARM, chunks)
        add_rows({"nodes": 5, "instructions": 4, "flows": flows, "table rows": f"2^{size}"}, rates, bench)
        rows.append(row_of(f"flows 2^{size}", 5, 4, flows, rates))
    return rows


def figure_4(bench: Bench) -> None:
    """Events a second that one reader takes from a ring without a loss, in steps."""
    steps = (1.6e6, 6.4e6) if bench.quick else (0.8e6, 1.6e6, 3.2e6, 4.8e6, 6.4e6, 9.6e6, 12.8e6)
    for rate in steps:
        with TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:
            path = f"{folder}/ring"
            child = subprocess.Popen(
                [sys.executable, "-c", _WRITER, path, str(rate), "1.0"],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            )  # fmt: skip
            assert child.stdin is not None
            assert child.stdout is not None
            child.stdout.readline()
            reader = RingReader(attach_ring(path, SINK_EVENT_VERSION), "oldest")
            child.stdin.write("go\n")
            child.stdin.flush()
            read = lost = latest = 0
            busy = 0.0
            while child.poll() is None or reader.head > read + lost:
                start = time.perf_counter()
                events, missed = reader.read(8192)
                if len(events):
                    latest = max(latest, int(events["latency"].max()))
                    busy += time.perf_counter() - start
                read += len(events)
                lost += missed
            written, seconds = child.stdout.read().split()
            note = (
                f"{int(written):,} written, {lost:,} lost, {busy / float(seconds):.0%} of the reader's time"
            )
            case: dict[str, object] = {"what": "one reader of a ring", "offered": f"{rate:,.0f}"}
            bench.row(case, read / float(seconds), "events/s", note)


def figure_5(bench: Bench) -> None:
    """Time of a packet inside the kernel, by what it causes."""
    chosen = settings(1 << 12, queue_occupancy={"raise_above": above(0.013)})
    taken, caused, bare = operations(chosen, Workload(), 4, 2 if bench.quick else 8)
    for number, name in enumerate(KINDS):
        ns = taken[caused == number]
        if len(ns) < 1000:
            continue
        middle, late = np.percentile(ns, [50, 99.9])
        note = f"99.9th percentile {late:,.0f} ns, {len(ns):,} packets; {bare:.0f} ns are the stamps"
        bench.row({"what": f"one packet: {name}"}, float(middle), "ns, median", note)


def draw(rows: list[dict[str, object]]) -> Any:
    """What draws the rows of `figure_3`."""

    def of(figure: str, x: str, **fixed: object) -> tuple[list[Any], list[Any], list[Any]]:
        chosen = [r for r in rows if str(r["figure"]).startswith(figure)]
        chosen = [r for r in chosen if all(r[key] == value for key, value in fixed.items())]
        return [r[x] for r in chosen], [r["mpps"] for r in chosen], [r["mpps_strip"] for r in chosen]

    def onto(figure: Any) -> None:
        left, middle, right = figure.subplots(1, 3)
        for count, name in NAMES.items():
            x, y, _ = of("3a", "nodes", instructions=count)
            left.plot(x, y, "o-", label=f"{count}: {name}")
        x, _, y = of("3a", "nodes", instructions=4)
        left.plot(x, y, "k--", label="4, stripped")
        left.plot([n for n, _ in PAPER_3A], list(PAPER_3A.values()), "k*", markersize=10, label="paper")
        left.set(xlabel="INT nodes", ylabel="M packets/s, one core")
        legend(left, "instructions")
        x, y, z = of("3b", "mevents")
        middle.plot(x, y, "o-", label="ours")
        middle.plot(x, z, "k--", label="ours, stripped")
        middle.plot(*zip(*PAPER_3B, strict=True), "k*", markersize=10, label="paper, 54 engines")
        middle.set(xlabel="M events/s")
        legend(middle)
        x, y, z = of("flows 2^19", "flows")
        right.semilogx(x, y, "o-", label="ours")
        right.semilogx(x, z, "k--", label="ours, stripped")
        right.set(xlabel="flows offered, table of 2^19 rows")
        legend(right)
        for axes in (left, middle, right):
            axes.set_ylim(bottom=0)

    return onto


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--only", default="3,4,5", help="figures: of 3, 4, 5; default all")
    parser.add_argument("--output", type=Path, help="folder of the plot; default docs/images/sink")


def main() -> None:
    """Figures 3, 4 and 5."""
    bench, args = Bench.start(
        "sink",
        "INT packets per second through decoder and sink with distributions, and the stripper, "
        f"on one core; chunks of {CHUNK:,} packets in memory, medians over chunks. The paper's "
        "figures are of 54 engines and 10 Gbit/s ports.",
        "sockets and rings of packets, the journal, exporters, and making the packets.",
        arguments,
    )
    only = args.only.split(",")
    if "3" in only:
        rows = figure_3(bench, 3 if bench.quick else 6)
        if not bench.quick:
            whole = next(r for r in rows if (r["nodes"], r["instructions"]) == (5, 4))
            stated = Stated("5 nodes, 4 instructions", "6.57 Mpps, 54 engines", f"{whole['mpps']:.3g} Mpps")
            title = "The INT sink on one core, and the paper's SmartNIC"
            Sheet("throughput", title, draw(rows), rows, [stated], 11).save(args.output or DOCS)
    if "4" in only:
        figure_4(bench)
    if "5" in only:
        figure_5(bench)


if __name__ == "__main__":
    main()
