"""What a report costs the process that receives it: bare, by `udp://` and by `ring://`, at fixed rates."""

from __future__ import annotations

import argparse
import ctypes
import mmap
import os
import socket
import time
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np

from harness.collector import running, settle, worker_pid
from harness.common import Bench, median
from harness.sending import CONTEXT
from hopscope.base.loop import Gather
from hopscope.capture.bpf import NOTHING, attach
from hopscope.capture.layout import IOVEC, MMSGHDR
from hopscope.capture.sockets import bind_share
from hopscope.capture.udp.sender import UdpSender
from hopscope.fabric.load import Load
from hopscope.runtime.mode import pipeline_of
from hopscope.runtime.supervisor import Supervisor
from hopscope.runtime.worker import ENOUGH, GATHERED
from hopscope.settings.collector import DetectSettings, ListenSettings, Settings

HOPS, FIELDS, FLOWS = 6, 8, 100
RATES = (50_000, 200_000, 800_000)
FORMS = {"singles": (1, False), "trains": (1, True), "groups of 4": (4, False)}
"""Reports of a datagram, and whether datagrams are sent in trains (GSO, GRO)."""
ROOM = 65_536 + 320
TURN_SECONDS = 0.01
SETTLE_SECONDS = 0.1
SO_ATTACH_FILTER = 26
Costs = dict[tuple[str, int], float]
"""Ns a report, by form and rate."""


def send(channel: Connection) -> None:
    """A process that sends: asked (port, form, reports per second, seconds), it answers the reports sent."""
    for port, form, rate, seconds in iter(channel.recv, None):
        grouped, trains = FORMS[form]
        load = Load(
            hops=HOPS, fields=FIELDS, flows=FLOWS, sources=4, grouped=grouped, run=64 if trains else 1
        )
        sender = UdpSender("127.0.0.1", port, rate=rate / grouped, trains=trains, by_source=True)
        begin = time.monotonic()
        while time.monotonic() - begin < seconds:
            sender.send(load.next(max(64, int(rate / grouped * TURN_SECONDS))))
        channel.send(grouped * sender.sent)
        sender.close()


def receive(channel: Connection) -> None:
    """A process that only receives, many datagrams a call, with the pauses of a worker: reads no byte."""
    settings = ListenSettings(port=0)
    handle = bind_share(settings)
    libc = ctypes.CDLL(None)
    arena = np.frombuffer(mmap.mmap(-1, ENOUGH * ROOM), np.uint8)
    arena[::4096] = 0
    iovecs, messages = np.zeros(ENOUGH, IOVEC), np.zeros(ENOUGH, MMSGHDR)
    iovecs["base"] = arena.ctypes.data + np.arange(ENOUGH, dtype=np.uint64) * np.uint64(ROOM)
    iovecs["length"] = ROOM
    messages["iov"] = iovecs.ctypes.data + np.arange(ENOUGH, dtype=np.uint64) * np.uint64(IOVEC.itemsize)
    messages["iov_count"] = 1
    pause = Gather(GATHERED, ENOUGH, Settings().pause_ms / 1000)
    channel.send(handle.getsockname()[1])
    file, address, octets = handle.fileno(), messages.ctypes.data, 0
    lengths = messages["length"]
    looks = 0
    while True:
        got = libc.recvmmsg(file, ctypes.c_void_p(address), ENOUGH, socket.MSG_DONTWAIT, None)
        if got > 0:
            octets += int(lengths[:got].sum())
        pause(max(0, got))
        looks += 1
        if got <= 0 and looks % 16 == 0 and channel.poll():
            if channel.recv() is None:
                return
            channel.send(octets)


def cpu_ns(pid: int) -> int:
    """Processor time of all threads of a process, ns (/proc/PID/task/TID/schedstat)."""
    return sum(
        int((task / "schedstat").read_text().split()[0]) for task in Path(f"/proc/{pid}/task").iterdir()
    )


def by_collector(
    bench: Bench,
    sending: Connection,
    collector: Supervisor,
    port: int,
    what: str,
    seconds: float,
    bare: Costs,
) -> None:
    """All forms and rates, received by a collector."""
    worker = worker_pid(collector)
    for form in FORMS if what == "udp" else ("singles",):
        for rate in RATES:
            before, spent = settle(collector), cpu_ns(worker)
            sending.send((port, form, rate, seconds))
            sent = sending.recv()
            spent = cpu_ns(worker) - spent
            after = settle(collector)
            got = after["reports_total"] - before["reports_total"]
            ns = spent / max(1, got)
            note = f"{ns / bare[form, rate]:.2f} times the bare receiver, {loss(sent, got)}"
            bench.row({"receiver": what, "reports": form, "reports/s": rate}, ns, "ns/report", note)


def by_bare(bench: Bench, sending: Connection, seconds: float) -> Costs:
    """All forms and rates, only received."""
    channel, other = CONTEXT.Pipe()
    process = CONTEXT.Process(target=receive, args=(other,))
    process.start()
    assert process.pid is not None
    port, costs = channel.recv(), {}
    for form, (grouped, _) in FORMS.items():
        octets = Load(hops=HOPS, fields=FIELDS, flows=FLOWS, sources=4, grouped=grouped).datagram_bytes
        for rate in RATES:
            channel.send(True)
            before, spent = channel.recv(), cpu_ns(process.pid)
            sending.send((port, form, rate, seconds))
            sent = sending.recv()
            spent = cpu_ns(process.pid) - spent
            time.sleep(SETTLE_SECONDS)
            channel.send(True)
            got = (channel.recv() - before) // octets * grouped
            costs[form, rate] = spent / max(1, got)
            case = {"receiver": "bare", "reports": form, "reports/s": rate}
            bench.row(case, costs[form, rate], "ns/report", loss(sent, got))
    channel.send(None)
    process.join()
    return costs


def loss(sent: int, got: int) -> str:
    """Share of the reports that were lost."""
    return f"{1 - got / sent:.2%} of {sent:,} lost"


def from_memory(bench: Bench, rounds: int) -> None:
    """Decoding and detection of the same reports, in batches as large as those of a worker."""
    pipeline = pipeline_of(Settings(detect=DetectSettings(flow_rows=32_768, push_seconds=0)))
    load, times = Load(hops=HOPS, fields=FIELDS, flows=FLOWS, sources=4), []
    for _ in range(rounds):
        start, taken = time.thread_time_ns(), 0
        while taken < len(load.octets):
            batch = load.next(ENOUGH)
            pipeline.step(batch)
            taken += len(batch)
        times.append((time.thread_time_ns() - start) / taken)
    bench.row({"receiver": "memory", "reports": "singles"}, median(times), "ns/report")


def arguments(parser: argparse.ArgumentParser) -> None:
    """Of this benchmark."""
    parser.add_argument("--seconds", type=float, default=2.0, help="length of one run")


def main() -> None:
    """All receivers."""
    bench, chosen = Bench.start(
        "receive_cost",
        f"processor time of the process that receives, a report ({HOPS} hops, {FIELDS} fields, {FLOWS} flows,"
        " no events): `bare` calls recvmmsg with the pauses of a worker and reads nothing; `udp` and `ring`"
        " are `hopscope collect` (receive, decode, detect); `memory` decodes and detects only.",
        "a network card: on loopback the kernel's receive work runs on the sender's core, and the ring's copy"
        " of a frame with it.",
        arguments,
    )
    seconds = 0.5 if bench.quick else chosen.seconds
    from_memory(bench, 20)
    sending, other = CONTEXT.Pipe()
    sender = CONTEXT.Process(target=send, args=(other,))
    sender.start()
    bare = by_bare(bench, sending, seconds)
    with running() as (collector, port):
        by_collector(bench, sending, collector, port, "udp", seconds, bare)
    if not os.geteuid():
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:  # or ICMP errors answer the sender
            silent.bind(("127.0.0.1", 0))
            attach(silent, socket.SOL_SOCKET, SO_ATTACH_FILTER, NOTHING)
            port = silent.getsockname()[1]
            ring = ListenSettings.model_validate({"kind": "ring", "interface": "lo", "port": port})
            with running(listen=ring) as (collector, _):
                by_collector(bench, sending, collector, port, "ring", seconds, bare)
    sending.send(None)
    sender.join()


if __name__ == "__main__":
    main()
