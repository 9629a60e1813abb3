"""The console over 1,280 switches: bytes, updates and processors for viewers; first paint, memory."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from harness.collector import cpu_ns, running, worker_pid
from harness.common import Bench, median
from harness.console_fabric import CHANGED, SWITCHES, ConsoleFabric
from hopscope.capture.udp.listener import UdpSender
from hopscope.runtime.supervisor.process import Supervisor
from support.processes.browser import PROGRAMS, Browser, Chromium

FLOWS = 100_000
RATE = 50_000
"""Reports per second."""
EVENTS = 1000
"""Events per second: CHANGED flows have a slow hop, and then have none, with two events each time."""
PAGES = ("/", "/flows", "/fabric", "/ports", "/events")
COUNTS = (0, 1, 5, 20)
OTHERS, WORKER = 0, 1
"""Processors: that of the sender, the viewers and the other processes, and that of the worker."""
HEAP = """performance.memory.usedJSHeapSize"""


class Traffic:
    """Sends the fabric's reports from a thread of this process, at a fixed rate."""

    def __init__(self, port: int) -> None:
        self._fabric = ConsoleFabric(FLOWS)
        self._sender = UdpSender("127.0.0.1", port, rate=RATE, trains=True)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.sent = 0

    def fill(self) -> None:
        """Every flow once."""
        for _ in range(0, len(self._fabric), 10_000):
            self._sender.send(self._fabric.steady())

    def start(self) -> None:
        """Go on until the end."""
        self._thread.start()

    def _run(self) -> None:
        begin, changes = time.monotonic(), 0
        while not self._over.is_set():
            self.sent += self._sender.send(self._fabric.steady())
            if changes < (time.monotonic() - begin) * EVENTS / (4 * CHANGED):
                self.sent += self._sender.send(self._fabric.changes())
                changes += 1

    def stop(self) -> None:
        """End it."""
        self._over.set()
        self._thread.join()
        self._sender.close()


@dataclass
class Period:
    """What some seconds cost."""

    worker_ns: float
    """Processor time of the worker per report."""
    serve: float
    """Processors that serve took."""
    reports: float
    """Reports per second that were received."""
    events: float
    """Events per second."""
    drops: float
    """Share of the reports that the kernel dropped."""


def pid_of(collector: Supervisor, name: str) -> int:
    """Process id of a role."""
    return next(int(managed.status()["pid"]) for managed in collector.processes if managed.name == name)


def measure(collector: Supervisor, seconds: float) -> Period:
    """Watch the processes for some seconds."""
    pids = worker_pid(collector), pid_of(collector, "serve")
    before, cpu, start = collector.counters(), [cpu_ns(pid) for pid in pids], time.monotonic()
    time.sleep(seconds)
    after, taken = collector.counters(), time.monotonic() - start
    worker, serve = (cpu_ns(pid) - earlier for pid, earlier in zip(pids, cpu, strict=True))
    grown = {name: after[name] - before[name] for name in after}
    got = grown["reports_total"]
    events = sum(value for name, value in grown.items() if name.startswith("events_total"))
    drops = grown["kernel_drops_total"]
    return Period(worker / got, serve / 1e9 / taken, got / taken, events / taken, drops / (got + drops))


@contextmanager
def viewers(url: str, count: int) -> Iterator[list[dict[str, Any]]]:
    """Some viewers, niced; the list has their figures at the end."""
    figures: list[dict[str, Any]] = []
    if not count:
        yield figures
        return
    command = [sys.executable, "-m", "harness.console_viewers", url, str(count)]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parent,
        preexec_fn=lambda: os.nice(10),
    )  # fmt: skip
    time.sleep(3)
    yield figures
    figures += json.loads(process.communicate("")[0])


def load(bench: Bench, collector: Supervisor, rounds: int, seconds: float) -> None:
    """Periods with each number of viewers, in turn."""
    periods: dict[int, list[Period]] = {count: [] for count in COUNTS}
    figures: list[dict[str, Any]] = []
    for _ in range(rounds):
        for count in COUNTS:
            with viewers(str(collector.url), count) as found:
                periods[count].append(measure(collector, seconds))
            if count == max(COUNTS):
                figures += found
    for count, some in periods.items():
        case: dict[str, object] = {"viewers": count}
        reports, events = median(p.reports for p in some), median(p.events for p in some)
        note = f"{reports:,.0f} reports/s, {events:,.0f} events/s"
        bench.row({**case, "what": "worker"}, median(p.worker_ns for p in some), "ns/report", note)
        bench.row({**case, "what": "serve"}, 100 * median(p.serve for p in some), "% of a core")
    pairs = list(zip(periods[0], periods[max(COUNTS)], strict=True))
    costs = sorted(100 * (watched.worker_ns / alone.worker_ns - 1) for alone, watched in pairs)
    spread = f"of {len(costs)} pairs from {costs[0]:.1f} to {costs[-1]:.1f}"
    bench.row({"viewers": max(COUNTS), "what": "cost to the worker"}, median(costs), "%", spread)
    dropped = 100 * max(period.drops for some in periods.values() for period in some)
    bench.row({"viewers": max(COUNTS), "what": "dropped by the kernel, worst period"}, dropped, "%")
    most: dict[str, float] = {}
    for each in figures:
        for path, rate in each["updates"].items():
            most[path] = max(most.get(path, 0.0), rate)
    bench.row(
        {"viewers": max(COUNTS), "what": "bytes to a viewer, most"},
        max(each["bytes"] for each in figures) / 1000,
        "KB/s",
    )
    bench.row(
        {"viewers": max(COUNTS), "what": "bytes to a viewer, mean"},
        float(np.mean([each["bytes"] for each in figures])) / 1000,
        "KB/s",
    )
    for path, rate in sorted(most.items()):
        bench.row({"viewers": max(COUNTS), "what": f"updates of {path}, most"}, rate, "per second")
    refused = sum(count for each in figures for count in each["refused"].values())
    bench.row({"viewers": max(COUNTS), "what": "answers refused"}, refused, "answers")


def paint(bench: Bench, chromium: Chromium, url: str, loads: int) -> None:
    """First contentful paint of each page, without a cache."""
    for page in PAGES:
        times = []
        for _ in range(loads):
            with chromium.page() as browser:
                browser.open(url.rstrip("/") + page)
                times.append(
                    browser.wait("performance.getEntriesByName('first-contentful-paint')[0]?.startTime")
                )
        bench.row({"page": page, "what": "first paint"}, median(times), "ms", f"worst {max(times):.0f}")


def heap(bench: Bench, chromium: Chromium, url: str, minutes: float) -> None:
    """JS heap of a tab on each of two pages, after collecting garbage, over time."""
    for page in ("/", "/flows"):
        with chromium.page() as browser:
            browser.open(url.rstrip("/") + page)
            time.sleep(20)  # until history's parts and fonts are there
            sizes = _sizes(browser, minutes * 60 / 2)
        at, size = np.array(sizes).T
        slope = np.polyfit(at / 60, size / 1e6, 1)[0] * 60
        bench.row(
            {"page": page, "what": "JS heap"},
            float(size[-1]) / 1e6,
            "MB",
            f"after {at[-1] / 60:.1f} min; first {size[0] / 1e6:.2f}",
        )
        bench.row({"page": page, "what": "JS heap, slope"}, float(slope), "MB/hour")


def _sizes(browser: Browser, seconds: float) -> list[tuple[float, float]]:
    browser.call("HeapProfiler.enable")
    start, found = time.monotonic(), []
    while (now := time.monotonic() - start) < seconds:
        browser.call("HeapProfiler.collectGarbage")
        found.append((now, float(browser.call("Runtime.getHeapUsage")["usedSize"])))
        time.sleep(min(10.0, seconds / 20))
    return found


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--minutes", type=float, default=10.0, help="length of the measurement of memory")
    parser.add_argument("--parts", default="load,paint,heap", help="which parts, separated by commas")


def main() -> None:
    """Load, first paint and memory, in one run of a collector."""
    bench, arguments = Bench.start(
        "console_load",
        f"the console with {FLOWS:,} live flows through {SWITCHES:,} switches, {RATE:,} "
        f"reports/s and about {EVENTS:,} events/s: CPU time of the worker and of serve, bytes "
        "and updates of viewers (load generator over WebSockets, without compression), first "
        "paint and JS heap in Chromium.",
        "remote viewers: here the viewers (niced) share a core with the sender and the "
        "collector's other processes; the worker has a core of its own, but shares caches.",
        _arguments,
    )
    rounds, seconds = (1, 4.0) if bench.quick else (6, 6.0)
    minutes = 1.0 if bench.quick else arguments.minutes
    parts = arguments.parts.split(",")
    with (
        running(serve=True, push_seconds=0, ports=262_144, processors=(WORKER,)) as (collector, port),
        tempfile.TemporaryDirectory() as profile,
    ):
        # so are threads and viewers; the collector sees to its own processes
        os.sched_setaffinity(0, {OTHERS})
        traffic = Traffic(port)
        traffic.fill()
        time.sleep(5)
        traffic.start()
        try:
            time.sleep(10)  # the first events of 100,000 flows are on their way to the disk
            url = str(collector.url)
            if "load" in parts:
                load(bench, collector, rounds, seconds)
            program = next(found for name in PROGRAMS if (found := shutil.which(name)))
            os.sched_setaffinity(0, {OTHERS, WORKER})
            with Chromium(program, Path(profile)) as chromium:
                if "paint" in parts:
                    paint(bench, chromium, url, 2 if bench.quick else 5)
                if "heap" in parts:
                    heap(bench, chromium, url, minutes)
        finally:
            traffic.stop()


if __name__ == "__main__":
    main()
