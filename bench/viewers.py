"""Twenty viewers at a fixed rate of reports: what they cost the worker, and whether anything is lost."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time

import httpx

from collector import running, settle
from common import Bench, median
from hopscope.capture.udp import UdpSender
from hopscope.supervisor import Supervisor
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


def period(
    collector: Supervisor, sender: UdpSender, stream: Stream, seconds: float
) -> tuple[float, float, float]:
    """Send for some seconds at the fixed rate; ns a report of the worker, loss, reports a second."""
    before = settle(collector)
    sent, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        sent += sender.send(stream.frames)
        stream.advance()
    taken = time.perf_counter() - start
    after = settle(collector)
    got = after["reports_total"] - before["reports_total"]
    busy = after["busy_ns_total"] - before["busy_ns_total"]
    return busy / got, 1 - got / sent, got / taken


def main() -> None:
    """Periods without and with viewers, in turn."""
    bench, _ = Bench.start(
        "viewers",
        f"the worker's ns a report at {RATE:,} reports/s, without and with {CLIENTS} viewers at 2 Hz.",
        "remote viewers: they run on the same two cores, niced, beside the sender.",
    )
    rounds, seconds = (2, 2.0) if bench.quick else (6, 5.0)
    stream = Stream(3, 8, 1000)
    without, with_viewers, losses, answers = [], [], [], 0
    with running(serve=True) as (collector, port):
        assert collector.url
        sender = UdpSender("127.0.0.1", port, rate=RATE, trains=False)
        period(collector, sender, stream, 1.0)
        for _ in range(rounds):
            spent, loss, _ = period(collector, sender, stream, seconds)
            without.append(spent)
            losses.append(loss)
            command = [sys.executable, __file__, "--viewers", collector.url]
            clients = subprocess.Popen(command, stdout=subprocess.PIPE, preexec_fn=lambda: os.nice(10))
            time.sleep(1.5)
            spent, loss, _ = period(collector, sender, stream, seconds)
            clients.terminate()
            output = clients.communicate()[0].split()
            answers += output.count(b"200")
            with_viewers.append(spent)
            losses.append(loss)
        sender.close()
    bench.row({"viewers": 0}, median(without), "ns/report")
    bench.row({"viewers": CLIENTS}, median(with_viewers), "ns/report", f"{answers} answers")
    ratios = [b / a for a, b in zip(without, with_viewers, strict=True)]
    bench.row({"what": "with against without"}, median(ratios), "times")
    bench.row({"what": "worst loss of a period"}, 100 * max(losses), "%")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--viewers"]:
        asyncio.run(viewers(sys.argv[2]))
    else:
        main()
