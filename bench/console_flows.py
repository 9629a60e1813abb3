"""Flows in the console: what answers about 100,000 and 1,000,000 live flows take, over HTTP."""

from __future__ import annotations

import json
import time
import urllib.request
from typing import Any

from harness.collector import cpu_ns, running, settle
from harness.common import Bench, median
from harness.console_fabric import SWITCHES, ConsoleFabric
from hopscope.capture.udp.listener import UdpSender
from hopscope.runtime.supervisor.process import Supervisor

CASES = ((100_000, 1 << 18), (1_000_000, 1 << 21))
"""Flows that are reported, and rows of the flow table. At the second, some are lost on the way."""
RATE = 100_000
"""Reports per second while the table is filled."""
QUERIES = {
    "first page, by latency": "?limit=100",
    "first page, by packets": "?limit=100&sort=packets",
    "search: two prefixes": "?limit=100&q=10.0.0.0/16%20%3E%2010.1.0.0/16",
    "search: a port": "?limit=100&q=port:1234",
    "search: a switch of the path": "?limit=100&q=node:7",
    "groups by source network": "/groups?by=src_prefix&limit=100",
    "groups by switch": "/groups?by=switch&limit=100",
    "groups by port": "/groups?by=port&limit=100",
    "groups by path": "/groups?by=path&limit=100",
    "live and past, first page": "?limit=100&state=all",
}


def ask(url: str) -> tuple[float, Any]:
    """Seconds until the whole answer is there, and the answer."""
    begin = time.perf_counter()
    with urllib.request.urlopen(url, timeout=120) as response:
        body = response.read()
    return time.perf_counter() - begin, json.loads(body)


def fill(collector: Supervisor, port: int, flows: int) -> None:
    """Report every flow once."""
    fabric = ConsoleFabric(flows)
    sender = UdpSender("127.0.0.1", port, rate=RATE, trains=True)
    for _ in range(0, flows, 10_000):
        sender.send(fabric.steady())
    sender.close()
    settle(collector)


def measure(bench: Bench, collector: Supervisor, rounds: int) -> None:
    """Every query some times: the first answer, and the usual one."""
    base = f"{str(collector.url).rstrip('/')}/api/v0/flows"
    live = ask(f"{base}/groups?by=proto")[1]["flows"]
    pid = next(int(managed.status()["pid"]) for managed in collector.processes if managed.name == "serve")
    for query, asked in QUERIES.items():
        first, found = ask(base + asked)
        before = cpu_ns(pid)
        times = [ask(base + asked)[0] for _ in range(rounds)]
        spent = (cpu_ns(pid) - before) / 1e6 / rounds
        note = f"first {first * 1000:.0f} ms; {spent:.0f} CPU ms; {found['total']:,} found"
        bench.row({"query": query, "live flows": live}, median(times) * 1000, "ms", note)


def main() -> None:
    """All cases, each in a collector of its own."""
    bench, _ = Bench.start(
        "console_flows",
        "response times of /api/v0/flows over HTTP, with live flows of five hops through "
        f"{SWITCHES:,} switches in the flow table: the median of several, and the first one. "
        "History has the flows' first events.",
        "traffic during the requests, and the time that a browser takes to show an answer.",
    )
    for flows, rows in CASES[:1] if bench.quick else CASES:
        with running(serve=True, flow_rows=rows, push_seconds=0, ports=262_144) as (collector, port):
            fill(collector, port, flows)
            time.sleep(5)  # events are on their way to the disk
            measure(bench, collector, 2 if bench.quick else 7)


if __name__ == "__main__":
    main()
