"""Twenty viewers at a fixed rate of reports: what they cost the worker, and whether anything is lost."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import httpx

from harness.collector import running, settle
from harness.common import Bench, median
from hopscope.capture.udp.listener import UdpSender
from hopscope.runtime.supervisor.process import Supervisor
from udp_end_to_end import Stream

RATE = 300_000
CLIENTS = 20
PATHS = (
    "/api/v0/flows?limit=50",
    "/api/v0/queues",
    "/api/v0/ports",
    "/api/v0/switches",
    "/api/v0/events?limit=100",
    "/metrics",
    "/",
)


async def poll(url: str, number: int) -> None:
    """One viewer: a page or an answer, twice a second, for ever."""
    async with httpx.AsyncClient(base_url=url, timeout=30) as client:
        turn = number
        while True:
            answer = await client.get(PATHS[turn % len(PATHS)])
            print(answer.status_code, flush=True)
            turn += 1
            await asyncio.sleep(0.5)


async def viewers(url: str) -> None:
    """All of them."""
    await asyncio.gather(*(poll(url, number) for number in range(CLIENTS)))


def worker_cpu_ns(collector: Supervisor) -> int:
    """Processor time of the worker so far, user and system; the kernel counts in ticks of 10 ms."""
    process = next(managed.process for managed in collector.processes if managed.role == "worker")
    assert process is not None
    fields = Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) * 1_000_000_000 // os.sysconf("SC_CLK_TCK")


@dataclass
class Period:
    """Some seconds at the fixed rate."""

    cpu_ns: float
    """Processor time of the worker a report."""
    busy_ns: float
    """Time from taking a batch to being done with it, a report: also what others took the processor for."""
    loss: float


def period(collector: Supervisor, sender: UdpSender, stream: Stream, seconds: float) -> Period:
    """Send for some seconds at the fixed rate."""
    before, cpu = settle(collector), worker_cpu_ns(collector)
    sent, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        sent += sender.send(stream.frames)
        stream.advance()
    after = settle(collector)
    got = after["reports_total"] - before["reports_total"]
    busy = after["busy_ns_total"] - before["busy_ns_total"]
    return Period((worker_cpu_ns(collector) - cpu) / got, busy / got, 1 - got / sent)


def main() -> None:
    """Periods without and with viewers, in turn."""
    bench, _ = Bench.start(
        "viewers",
        f"the worker's ns per report at {RATE:,} reports/s, without and with {CLIENTS} viewers at 2 Hz.",
        "remote viewers: here they run niced, on the two cores that the sender uses.",
    )
    rounds, seconds = (2, 2.0) if bench.quick else (6, 5.0)
    stream = Stream(3, 8, 1000)
    without: list[Period] = []
    watched: list[Period] = []
    answers = 0
    with running(serve=True) as (collector, port):
        assert collector.url
        sender = UdpSender("127.0.0.1", port, rate=RATE, trains=False)
        period(collector, sender, stream, 1.0)
        for _ in range(rounds):
            without.append(period(collector, sender, stream, seconds))
            command = [sys.executable, __file__, "--viewers", collector.url]
            clients = subprocess.Popen(command, stdout=subprocess.PIPE, preexec_fn=lambda: os.nice(10))
            time.sleep(1.5)
            watched.append(period(collector, sender, stream, seconds))
            clients.terminate()
            answers += clients.communicate()[0].split().count(b"200")
        sender.close()
    for viewing, periods in ((0, without), (CLIENTS, watched)):
        case: dict[str, object] = {"viewers": viewing}
        bench.row({**case, "what": "processor time"}, median(p.cpu_ns for p in periods), "ns/report")
        bench.row({**case, "what": "time in a batch"}, median(p.busy_ns for p in periods), "ns/report")
    pairs = list(zip(without, watched, strict=True))
    note = f"{answers} answers"
    bench.row({"what": "processor time, ratio"}, median(b.cpu_ns / a.cpu_ns for a, b in pairs), "times", note)
    bench.row({"what": "time in a batch, ratio"}, median(b.busy_ns / a.busy_ns for a, b in pairs), "times")
    bench.row({"what": "worst loss of a period"}, 100 * max(p.loss for p in without + watched), "%")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--viewers"]:
        asyncio.run(viewers(sys.argv[2]))
    else:
        main()
