"""What [cluster] and [lake] cost capture, with their servers alive and killed; one collector, and three."""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from harness.collector import cpu_ns
from harness.common import Bench, median
from hopscope.capture.udp.listener import UdpSender
from hopscope.fabric.load import Load
from hopscope.present.collector_state import CollectorState
from support.processes.collector_process import Collector
from support.servers.cluster_servers import ClusterServers

BATCH = 2048
SENDER, WORKER = 0, 1
"""Processors: that of the sender, the servers and all helper processes, and that of the workers."""


class Watched:
    """A collector whose worker is alone on a processor, and what it has counted."""

    def __init__(self, root: Path, name: str, flags: Sequence[str]) -> None:
        (root / name).mkdir()
        fixed = ["--no-serve", "--listen", "udp://127.0.0.1:0", "--set", f"processors=[{WORKER}]"]
        self.collector = Collector(root / name / "data", *fixed, *flags)
        self.collector.start()
        self.state = CollectorState(self.collector.data, fresh_seconds=0)
        self.load = Load(hops=3, flows=10_000, sources=16, run=64)
        self.sender = UdpSender("127.0.0.1", self.collector.port, trains=True)
        self._pid = int(self.collector.status()["worker-0"]["pid"])

    def counters(self) -> dict[str, int]:
        """Counters once they no longer move, and the processor time of the worker."""
        names = ("reports_total", "kernel_drops_total")
        before = -1
        while True:
            found = self.state.counters()
            if found["frames_total"] == before:
                return {name: int(found[name]) for name in names} | {"cpu_ns": cpu_ns(self._pid)}
            before = found["frames_total"]
            time.sleep(0.2)

    def burst(self, seconds: float, events: float) -> dict[str, float]:
        """Send for some seconds, as many reports as go; so many events a second."""
        before = self.counters()
        sent, caused, begin = 0, 0, time.perf_counter()
        while (taken := time.perf_counter() - begin) < seconds:
            batch = self.load.next(BATCH, int(events * taken) - caused)
            caused = max(caused, int(events * taken))
            sent += self.sender.send(batch)
        taken = time.perf_counter() - begin
        after = self.counters()
        took = after["reports_total"] - before["reports_total"]
        return {
            "rate": took / taken,
            "ns": (after["cpu_ns"] - before["cpu_ns"]) / took,
            "lost": 1 - took / sent,
        }

    def close(self) -> None:
        """End it."""
        self.sender.close()
        self.collector.stop()


@contextmanager
def site() -> Iterator[tuple[Path, ClusterServers]]:
    """A folder, and servers, on the sender's processor."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        servers = ClusterServers(
            lambda *names: shutil.which(names[0]) or names[0],
            root,
            str(Path(sys.executable).with_name("weed")),
        )
        os.sched_setaffinity(0, {SENDER})
        servers.make()
        os.sched_setaffinity(0, {SENDER, WORKER})
        try:
            yield root, servers
        finally:
            servers.kill()


def rounds(
    off: Watched, on: Watched, count: int, given: argparse.Namespace
) -> dict[str, list[dict[str, float]]]:
    """Bursts to both, in turns."""
    found: dict[str, list[dict[str, float]]] = {"off": [], "on": []}
    for number in range(count):
        order = [("off", off), ("on", on)]
        for name, each in order[:: 1 if number % 2 else -1]:
            found[name].append(each.burst(given.seconds, given.events))
    return found


def compare(bench: Bench, given: argparse.Namespace, count: int) -> None:
    """Off against on, with the servers alive, killed, and back."""
    with site() as (root, servers):
        off, on = Watched(root, "off", ()), Watched(root, "on", servers.flags("c1"))
        os.sched_setaffinity(0, {SENDER})
        for each in (off, on):  # flows become known
            each.burst(given.seconds, given.events)
        for servers_are in ("alive", "killed", "back"):
            if servers_are == "killed":
                servers.kill()
            elif servers_are == "back":
                servers.start()
            found = rounds(off, on, count, given)
            for name, bursts in found.items():
                case: dict[str, object] = {"servers": servers_are, "cluster and lake": name}
                rate, lost = (median(each[what] for each in bursts) for what in ("rate", "lost"))
                bench.row({**case, "what": "reports"}, rate, "reports/s", f"{lost:.0%} more were sent")
                bench.row({**case, "what": "worker"}, median(each["ns"] for each in bursts), "ns/report")
            pairs = list(zip(found["off"], found["on"], strict=True))
            for what, ratios in (
                ("reports", [b["rate"] / a["rate"] for a, b in pairs]),
                ("per core", [a["ns"] / b["ns"] for a, b in pairs]),
            ):
                case = {"servers": servers_are, "what": f"{what}, on / off"}
                quarter, _, three_quarters = statistics.quantiles(ratios, n=4)
                note = f"half of {len(ratios)} rounds: {quarter:.3f} to {three_quarters:.3f}"
                bench.row(case, median(ratios), "ratio", note)
        on.close()
        off.close()


def three(bench: Bench, given: argparse.Namespace, count: int) -> None:
    """A collector alone, and beside two others of its cluster, each on the same processor in its turn."""
    with site() as (root, servers):
        first = Watched(root, "c1", servers.flags("c1"))
        os.sched_setaffinity(0, {SENDER})
        first.burst(given.seconds, given.events)
        alone = [first.burst(given.seconds, given.events) for _ in range(count)]
        bench.row({"collectors": 1, "what": "worker"}, median(each["ns"] for each in alone), "ns/report")
        os.sched_setaffinity(0, {SENDER, WORKER})
        members = [first, *(Watched(root, name, servers.flags(name)) for name in ("c2", "c3"))]
        os.sched_setaffinity(0, {SENDER})
        for each in members[1:]:
            each.burst(given.seconds, given.events)
        found = [[each.burst(given.seconds, given.events) for each in members] for _ in range(count)]
        cost = median(one["ns"] for bursts in found for one in bursts)
        bench.row({"collectors": 3, "what": "worker"}, cost, "ns/report", "median of all three")
        ratio = median(each["ns"] for each in alone) / cost
        bench.row({"collectors": 3, "what": "per core, 3 / 1"}, ratio, "ratio")
        for each in members:
            each.close()


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seconds", type=float, default=0.5, help="length of one burst")
    parser.add_argument("--events", type=float, default=5000, help="events per second")
    parser.add_argument("--part", choices=("compare", "three", "all"), default="all")


def main() -> None:
    """Both parts."""
    bench, given = Bench.start(
        "cluster_ingest",
        "collectors with and without [cluster] and [lake], in alternating runs, fed over "
        "loopback UDP with more reports than they can take: reports per second, and CPU time "
        "of the worker (receive, decode, detect, journal), which has a core of its own.",
        "a network card; NATS, PostgreSQL, S3 and helper processes, which share the sender's "
        "core. Two cores cannot show the rate of three collectors at once, only the cost of "
        "each.",
        _arguments,
    )
    count = 3 if bench.quick else 16
    if given.part in ("compare", "all"):
        compare(bench, given, count)
    if given.part in ("three", "all"):
        three(bench, given, count)


if __name__ == "__main__":
    main()
