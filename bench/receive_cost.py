"""What a report costs the process that receives it: bare, by `udp://` and by `ring://`, at fixed rates."""

from __future__ import annotations

import argparse
import ctypes
import mmap
import os
import socket
import time
from contextlib import ExitStack, closing
from dataclasses import dataclass
from multiprocessing.connection import Connection

import numpy as np

from harness.collector import cpu_ns, running, settle, worker_pid
from harness.common import Bench, median
from harness.sending import CONTEXT
from hopscope.base.process.loop import Gather
from hopscope.capture.bpf import NOTHING, attach
from hopscope.capture.layout import IOVEC, MMSGHDR
from hopscope.capture.sockets import bind_share
from hopscope.capture.udp.sender import UdpSender
from hopscope.fabric.load import Load
from hopscope.runtime.pipeline.mode import pipeline_of
from hopscope.runtime.processes.worker import ENOUGH, GATHERED
from hopscope.runtime.supervisor.process import Supervisor
from hopscope.settings.collector import Settings
from hopscope.settings.detect import DetectSettings
from hopscope.settings.listen import ListenSettings

HOPS, FIELDS, FLOWS = 6, 8, 100
RATES = (50_000, 200_000, 800_000)
FORMS = {"singles": (1, False), "trains": (1, True), "groups of 4": (4, False)}
"""Reports of a datagram, and whether datagrams are sent in trains (GSO, GRO)."""
ROOM = 65_536 + 320
TURN_SECONDS = 0.01
SETTLE_SECONDS = 0.1
SO_ATTACH_FILTER = 26


@dataclass(frozen=True)
class Run:
    """What a receiver took."""

    ns: float
    """Processor time of a report."""
    sent: int
    got: int
    """Reports."""


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


class Bare:
    """A process that only receives."""

    def __init__(self, sending: Connection) -> None:
        self._sending = sending
        self._channel, other = CONTEXT.Pipe()
        self._process = CONTEXT.Process(target=receive, args=(other,))
        self._process.start()
        self._port = self._channel.recv()

    def _octets(self) -> int:
        self._channel.send(True)
        return int(self._channel.recv())

    def run(self, form: str, rate: int, seconds: float) -> Run:
        """Receive reports of a form at a rate."""
        grouped, _ = FORMS[form]
        octets = Load(hops=HOPS, fields=FIELDS, flows=FLOWS, sources=4, grouped=grouped).datagram_bytes
        pid = self._process.pid
        assert pid is not None
        before, spent = self._octets(), cpu_ns(pid)
        self._sending.send((self._port, form, rate, seconds))
        sent = self._sending.recv()
        spent = cpu_ns(pid) - spent
        time.sleep(SETTLE_SECONDS)
        got = (self._octets() - before) // octets * grouped
        return Run(spent / max(1, got), sent, got)

    def close(self) -> None:
        """End it."""
        self._channel.send(None)
        self._process.join()


@dataclass(frozen=True)
class Collecting:
    """A collector that receives."""

    sending: Connection
    collector: Supervisor
    port: int

    def run(self, form: str, rate: int, seconds: float) -> Run:
        """Receive reports of a form at a rate."""
        worker = worker_pid(self.collector)
        before, spent = settle(self.collector), cpu_ns(worker)
        self.sending.send((self.port, form, rate, seconds))
        sent = self.sending.recv()
        spent = cpu_ns(worker) - spent
        got = settle(self.collector)["reports_total"] - before["reports_total"]
        return Run(spent / max(1, got), sent, got)


def compare(
    bench: Bench, bare: Bare, others: dict[str, Collecting], form: str, rate: int, rounds: int, seconds: float
) -> None:
    """All receivers in turn, several times: medians, and the median of the ratios within a round."""
    found: dict[str, list[Run]] = {"bare": [], **{what: [] for what in others}}
    for _ in range(rounds):
        found["bare"].append(bare.run(form, rate, seconds))
        for what, other in others.items():
            found[what].append(other.run(form, rate, seconds))
    for what, runs in found.items():
        sent, got = sum(run.sent for run in runs), sum(run.got for run in runs)
        note = f"{sent / rounds / seconds:,.0f}/s sent, {loss(sent, got)}"
        if what != "bare":
            ratio = median(run.ns / base.ns for run, base in zip(runs, found["bare"], strict=True))
            note = f"{ratio:.2f} times the bare receiver (median of {rounds} rounds), {note}"
        case: dict[str, object] = {"receiver": what, "reports": form, "reports/s": rate}
        bench.row(case, median(run.ns for run in runs), "ns/report", note)


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
    parser.add_argument("--seconds", type=float, default=1.0, help="length of one run")


def main() -> None:
    """All receivers."""
    bench, chosen = Bench.start(
        "receive_cost",
        f"CPU time per report of the process that receives ({HOPS} hops, {FIELDS} fields, "
        f"{FLOWS} flows, no events): `bare` calls recvmmsg with the pauses of a worker and "
        "reads nothing; `udp` and `ring` are `hopscope collect` (receive, decode, detect); "
        "`memory` decodes and detects only.",
        "a network card: on loopback the kernel's receive work runs on the sender's core, and "
        "so does the ring's copy of a frame.",
        arguments,
    )
    seconds, rounds = (0.5, 1) if bench.quick else (chosen.seconds, 3)
    from_memory(bench, 20)
    sending, other = CONTEXT.Pipe()
    sender = CONTEXT.Process(target=send, args=(other,))
    sender.start()
    with ExitStack() as stack:
        bare = stack.enter_context(closing(Bare(sending)))
        udp = {"udp": Collecting(sending, *stack.enter_context(running()))}
        ring: dict[str, Collecting] = {}
        if not os.geteuid():
            silent = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
            silent.bind(("127.0.0.1", 0))  # or ICMP errors answer the sender
            attach(silent, socket.SOL_SOCKET, SO_ATTACH_FILTER, NOTHING)
            port = silent.getsockname()[1]
            listen = ListenSettings.model_validate({"kind": "ring", "interface": "lo", "port": port})
            collector, _ = stack.enter_context(running(listen=listen))
            ring = {"ring": Collecting(sending, collector, port)}
        for form in FORMS:
            for rate in RATES:
                others = {**udp, **ring} if form == "singles" else udp
                compare(bench, bare, others, form, rate, rounds, seconds)
    sending.send(None)
    sender.join()


if __name__ == "__main__":
    main()
