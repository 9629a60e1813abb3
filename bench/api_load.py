"""The HTTP API of a collector under load: how long answers take, and whether asking costs reports."""

from __future__ import annotations

import time
import urllib.error
import urllib.request
from collections import defaultdict

import numpy as np

from harness.collector import cpu_ns, memory_bytes, running, settle
from harness.common import Bench, median
from harness.storm import FLOWS, Kind, Sending
from hopscope.detect.counters import INDEX
from hopscope.runtime.supervisor.process import Supervisor

LOADS: dict[str, tuple[Kind, float]] = {
    f"200,000 reports/s of {FLOWS:,} flows": ("steady", 200_000.0),
    "10,000 new flows/s": ("new flows", 10_000.0),
    "10,000 new flows/s, made-up sources and switches": ("made up", 10_000.0),
}
QUERIES = {
    "summary": "/api/v0/summary",
    "overview": "/api/v0/overview",
    "flows": "/api/v0/flows?limit=100",
    "groups of flows": "/api/v0/flows/groups?by=src_prefix&limit=100",
    "fabric": "/api/v0/fabric",
    "ports": "/api/v0/ports?limit=100",
    "queues": "/api/v0/queues?limit=100",
    "sources": "/api/v0/sources?limit=100",
    "alarms": "/api/v0/alarms?limit=50",
    "events": "/api/v0/events?limit=100",
    "bottleneck": "/api/v0/bottleneck",
    "heat map of queues": "/api/v0/heatmap?metric=queue_occupancy",
    "heat map of latency": "/api/v0/heatmap?metric=hop_latency",
    "bursts": "/api/v0/bursts",
    "metrics": "/metrics",
}
"""What the console's pages ask, and Prometheus."""
LOST = (
    "kernel_drops_total",
    "denied_frames_total",
    "rate_limited_frames_total",
    "oversized_frames_total",
    *(name for name in INDEX if name.startswith("rejected_reports_total.")),
)
"""Every reason for which a datagram with one report is not among the reports."""
SETTLE_SECONDS = 10.0


def ask(url: str) -> tuple[float, str]:
    """Seconds until the whole answer is there, and its status."""
    begin = time.perf_counter()
    try:
        with urllib.request.urlopen(url, timeout=60) as response:
            status, _ = str(response.status), response.read()
    except urllib.error.HTTPError as error:
        status = str(error.code)
    except OSError as error:
        status = type(error).__name__
    return time.perf_counter() - begin, status


def all_taken(collector: Supervisor, sent: int, before: dict[str, int]) -> tuple[int, int, int]:
    """Reports received, lost for a reason that is counted, and lost without one, once none waits."""
    until = time.monotonic() + SETTLE_SECONDS
    while True:
        after = settle(collector)
        received = after["reports_total"] - before["reports_total"]
        lost = sum(after[name] - before[name] for name in LOST)
        if sent == received + lost or time.monotonic() > until:
            return received, lost, sent - received - lost


class Period:
    """Some seconds of load: what was lost, and what answers took if there were queries."""

    def __init__(self, collector: Supervisor, sending: Sending, seconds: float, url: str = "") -> None:
        self.times: dict[str, list[float]] = defaultdict(list)
        self.statuses: dict[str, set[str]] = defaultdict(set)
        self.most_mib = 0.0
        before, start = settle(collector), time.monotonic()
        sending.start()
        while time.monotonic() - start < seconds:
            if not url:
                time.sleep(0.1)
                continue
            for name, path in QUERIES.items():
                taken, status = ask(url + path)
                self.times[name].append(taken)
                self.statuses[name].add(status)
                self.most_mib = max(self.most_mib, memory_bytes(pid_of(collector)) / 2**20)
                if time.monotonic() - start > seconds:
                    break
        self.seconds = time.monotonic() - start
        self.sent = sending.stop()
        self.received, self.lost, self.missing = all_taken(collector, self.sent, before)


def pid_of(collector: Supervisor) -> int:
    """Process id of the process that answers."""
    return next(int(managed.status()["pid"]) for managed in collector.processes if managed.name == "serve")


def measure(bench: Bench, load: str, seconds: tuple[float, float]) -> None:
    """One load: a period without queries, and one with them."""
    kind, rate = LOADS[load]
    with running(serve=True, flow_rows=8192) as (collector, port):
        serve = pid_of(collector)
        url = str(collector.url).rstrip("/")
        for path in QUERIES.values():
            ask(url + path)  # what is loaded at the first query
        begin = memory_bytes(serve) / 2**20
        sending = Sending(port, kind, rate)
        alone = Period(collector, sending, seconds[0])
        cpu = cpu_ns(serve)
        beside = Period(collector, sending, seconds[1], url)
        cpu = cpu_ns(serve) - cpu
        sending.close()
        case: dict[str, object] = {"load": load}
        for name, times in beside.times.items():
            failed = sorted(beside.statuses[name] - {"200"})
            note = f"of {len(times)} answers" + (f"; also {', '.join(failed)}" if failed else "")
            p95 = float(np.quantile(times, 0.95))
            for value, seconds_taken in (("median", median(times)), ("p95", p95), ("longest", max(times))):
                bench.row({**case, "what": name, "value": value}, 1000 * seconds_taken, "ms", note)
        for what, period in (("without queries", alone), ("with queries", beside)):
            note = f"{period.sent / period.seconds:,.0f} sent per second"
            for value in ("sent", "received", "lost", "missing"):
                bench.row({**case, "what": what, "value": value}, getattr(period, value), "reports", note)
        share = cpu / 1e7 / beside.seconds
        bench.row({**case, "what": "serve", "value": "with queries"}, share, "% of a core")
        memory = {"before": begin, "most": beside.most_mib, "end": memory_bytes(serve) / 2**20}
        for value, mib in memory.items():
            bench.row({**case, "what": "serve", "value": value}, mib, "MiB")


def main() -> None:
    """All loads, each in a collector of its own."""
    bench, _ = Bench.start(
        "api_load",
        "response times of the HTTP API over loopback while a collector with the default "
        "tables takes reports; requests are sent one after the other, all the time. Some "
        "answers are cached; the longest time is always that of a new one. Also the reports "
        "that the collector counts as lost, with and without requests, and those that are "
        "missing without a reason; CPU time and memory of the process that answers.",
        "several viewers at once, and remote senders: the senders share two cores with the collector.",
    )
    seconds = (2.0, 8.0) if bench.quick else (15.0, 30.0)
    for load in LOADS:
        measure(bench, load, seconds)


if __name__ == "__main__":
    main()
