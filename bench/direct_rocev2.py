"""Direct telemetry access over RoCEv2 in software: translator and NIC as two processes on loopback."""

from __future__ import annotations

import tempfile
import time
from ipaddress import ip_address
from multiprocessing import get_context
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

import numpy as np

from harness.common import Bench, median
from harness.direct import BATCH, KEY_INCREMENT, KEY_WRITE, Feed, uniform
from harness.direct_lists import APPEND, appends
from hopscope.capture.udp.datagram import DatagramSocket
from hopscope.direct.stores.spec import parse_store
from hopscope.runtime.direct.nic import NicProcess
from hopscope.runtime.direct.translator import TranslatorProcess
from hopscope.settings.direct import DirectSettings, NicSettings, TranslatorSettings
from hopscope.wire.encode.encoder import mapped_v4
from hopscope.wire.records import FRAME, FrameBatch, Link
from hopscope.wire.roce.layout import ROCE_PORT as PORT

NIC, TRANSLATOR = "127.0.0.61", "127.0.0.62"
KEYS = 1 << 21
BATCHES = 16
PACKET = 12 + 16 + 8 + 4
"""Bytes of the UDP payload of a WRITE_ONLY of 8 B: BTH, RETH, payload, ICRC."""


def cases() -> dict[str, tuple[str, Feed]]:
    """Store and reports: an operation is a write, an atomic, a write for 16 reports."""
    write = uniform(KEYS, opcode=1, flags=0, redundancy=1)
    add = uniform(KEYS, opcode=3, flags=0, redundancy=1)
    return {
        "Key-Write": ("key-write", Feed(KEY_WRITE, write, BATCHES)),
        "Key-Increment": ("key-increment", Feed(KEY_INCREMENT, add, BATCHES)),
        "Append, batches of 16": ("append,lists=1000", Feed(APPEND, appends(1000), BATCHES)),
    }


def listen(ready: Event, stop: Event, answers: Any) -> None:
    """Count datagrams, and the seconds between the first and the last."""
    socket = DatagramSocket(NIC, PORT)
    socket.open()
    ready.set()
    count, first, last = 0, 0.0, 1.0
    while not stop.is_set():
        batch = socket.receive()
        if batch is not None:
            last = time.perf_counter()
            first = first or last
            count += len(batch)
    answers.put(count / (last - first))


def sockets_alone(bench: Bench) -> None:
    """Datagrams of a write's size from one process to another: what the socket path allows."""
    context = get_context("spawn")
    ready, stop, answers = context.Event(), context.Event(), context.Queue()
    there = context.Process(target=listen, args=(ready, stop, answers), daemon=True)
    there.start()
    ready.wait(120)
    frames = np.zeros(BATCH, FRAME)
    frames["offset"], frames["length"] = np.arange(BATCH) * PACKET, PACKET
    frames["source_lo"], frames["port"] = mapped_v4(np.full(BATCH, int(ip_address(NIC)), np.uint32)), PORT
    frames["link"] = Link.UDP_PAYLOAD
    socket = DatagramSocket(TRANSLATOR, PORT)
    socket.open()
    until = time.perf_counter() + 3
    while time.perf_counter() < until:
        socket.send(FrameBatch(np.zeros(BATCH * PACKET, np.uint8), frames))
    time.sleep(0.2)
    stop.set()
    bench.row(
        {"what": "datagrams of 40 B alone"}, answers.get(), "datagrams/s", "what was received, in trains"
    )
    there.join()
    socket.close()


def nic(folder: str, store: str, ready: Event, stop: Event) -> None:
    """The software NIC, as `hopscope direct serve` runs it."""
    process = NicProcess(DirectSettings(nic=NicSettings(hosts=(NIC,))), Path(folder), [parse_store(store)])
    process.open()
    ready.set()
    process.run(stop)


def send(process: TranslatorProcess, feed: Feed) -> tuple[float, int]:
    """One round until everything is acknowledged: seconds, and packets that carried operations."""
    feed.renew()
    before = int(process.translator.fanout.kinds.sum())
    start = time.perf_counter()
    for batch in feed.batches:
        process.intakes[0].step(batch, time.monotonic_ns())
        process.output.turn()
    while not process.translator.flush() or not process.output.idle():
        process.output.turn()
    return time.perf_counter() - start, int(process.translator.fanout.kinds.sum()) - before


def measure(bench: Bench, what: str, store: str, feed: Feed, rounds: int) -> None:
    """One primitive."""
    context = get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        ready, stop = context.Event(), context.Event()
        there = context.Process(target=nic, args=(f"{folder}/nic", store, ready, stop), daemon=True)
        Path(folder, "nic").mkdir()
        Path(folder, "translator").mkdir()
        there.start()
        settings = DirectSettings(
            translator=TranslatorSettings(
                port=0, form="2", transport="rocev2", collectors=(NIC,), address=TRANSLATOR
            )
        )
        process = TranslatorProcess(settings, Path(folder, "translator"))
        process.batch_timeout_ns = 20_000_000_000
        process.open()
        try:
            ready.wait(120)
            while not process.output.ready or process.translator.fanout.down.any():
                process.output.tick(time.time_ns())
                process.output.turn()
                time.sleep(0.001)
            send(process, feed)
            taken = [send(process, feed) for _ in range(rounds)]
        finally:
            process.close()
            stop.set()
            there.join(20)
    rejected = int(process.translator.rejected[1:].sum())
    seconds = median(second for second, _ in taken)
    operations = float(np.mean([count for _, count in taken]))
    note = f"{operations / seconds / 1e6:.3g} M operations/s, one packet each; {rejected} reports rejected"
    bench.row({"what": what}, len(feed.rows) / seconds, "reports/s", note)


def main() -> None:
    """Sockets alone, then three primitives."""
    bench, _ = Bench.start(
        "direct_rocev2",
        "DTA reports per second from UDP payloads in memory through a translator and RoCEv2 "
        "packets over loopback to a software NIC, in two processes, until the last packet is "
        "acknowledged.",
        "the sockets between reporters and translator.",
    )
    sockets_alone(bench)
    for what, (store, feed) in cases().items():
        measure(bench, what, f"store={store}", feed, 5 if bench.quick else 25)


if __name__ == "__main__":
    main()
