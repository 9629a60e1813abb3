"""How long a report waits until a worker takes it, among others at several rates, and what that costs."""

from __future__ import annotations

import argparse
import random
import time
from multiprocessing.connection import Connection

import numpy as np

from harness.collector import cpu_ns, running, settle, worker_pid
from harness.common import Bench
from harness.sending import CONTEXT
from hopscope.capture.udp.sender import UdpSender
from hopscope.detect.records import Kind
from hopscope.fabric.load import Load
from hopscope.history.files.journal_file import read_journals

RATES = (0, 100, 1_000, 10_000, 50_000, 200_000)
TURN_SECONDS = 0.001
PROBES = 40
"""Queue reports a second, at random times: each is an event."""


def send(channel: Connection) -> None:
    """A process that sends: asked (port, rate, seconds), it answers when it sent each probe, ns."""
    for port, rate, seconds in iter(channel.recv, None):
        load = Load(hops=3, flows=100, sources=1)
        sender = UdpSender("127.0.0.1", port)
        times: list[int] = []
        begin = due = time.monotonic()
        sent = 0
        while (now := time.monotonic()) - begin < seconds:
            if now >= due:
                batch = load.next(1, events=1)
                times.append(time.time_ns())
                sender.send(batch)
                due = now + random.uniform(0.5, 1.5) / PROBES
            if behind := int((now - begin) * rate) - sent:
                sent += sender.send(load.next(behind))
            time.sleep(TURN_SECONDS if rate else max(0.0, min(due - time.monotonic(), 0.01)))
        sender.close()
        channel.send(times)


def arguments(parser: argparse.ArgumentParser) -> None:
    """Of this benchmark."""
    parser.add_argument("--seconds", type=float, default=3.0, help="length of one run")


def main() -> None:
    """All rates."""
    bench, chosen = Bench.start(
        "event_delay",
        "time from the call that sends a report to the end of the worker's receive call that "
        f"takes it, which is the time of its event. {PROBES} such reports per second are sent "
        "at random times, in addition to other reports at a constant rate.",
        "a network card; processors with deeper sleep states than those of a virtual machine.",
        arguments,
    )
    sending, other = CONTEXT.Pipe()
    process = CONTEXT.Process(target=send, args=(other,))
    process.start()
    for rate in RATES[::2] if bench.quick else RATES:
        with running() as (collector, port):
            worker = worker_pid(collector)
            settle(collector)
            spent, begin = cpu_ns(worker), time.monotonic()
            sending.send((port, rate, chosen.seconds))
            sent = sending.recv()
            share = (cpu_ns(worker) - spent) / 1e9 / (time.monotonic() - begin)
            settle(collector)
            events = read_journals(collector.settings.data)
        taken = events["time_ns"][events["kind"] == Kind.QUEUE_REPORT]
        delays = (taken - np.array(sent))[1:] / 1e6
        case: dict[str, object] = {"reports/s": rate}
        bench.row({"what": "delay, median", **case}, float(np.median(delays)), "ms")
        bench.row({"what": "delay, 99th percentile", **case}, float(np.percentile(delays, 99)), "ms")
        bench.row({"what": "worker", **case}, 100 * share, "% of a core")
    sending.send(None)
    process.join()


if __name__ == "__main__":
    main()
