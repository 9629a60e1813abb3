"""DTA reports over a UDP socket into the translator: the whole command, and its workers by themselves."""

from __future__ import annotations

import argparse
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from harness.common import Bench, median
from hopscope.capture.udp.listener import UdpSender
from hopscope.direct.counters import TRANSLATOR_COUNTERS
from hopscope.direct.reporter import Reporter
from hopscope.runtime.direct.translator import TranslatorProcess
from hopscope.settings.direct import DirectSettings, StoreSettings, TranslatorSettings
from hopscope.wire.dta.forms import Form, Opcode
from hopscope.wire.records import FrameBatch

if TYPE_CHECKING:
    from collections.abc import Iterator

LOSS = 0.001
SWITCHES = 32
EACH = 512
"""Reports of a switch that are sent in turn."""
SEQUENCE = slice(4, 8)
"""Bytes of the sequence number in a report of the form with lengths."""
STORES: dict[str, tuple[str, dict[str, int]]] = {
    "Key-Write": ("key-write", {"data_bytes": 4}),
    "Postcarding": ("postcarding", {}),
    "Append": ("append", {"lists": 1000}),
    "Key-Increment": ("key-increment", {}),
}


class Stream:
    """Reports of many switches without end: keys at random, each switch's numbers going on."""

    def __init__(self, primitive: str, switches: int = SWITCHES, each: int = EACH) -> None:
        rng = np.random.default_rng(1)
        self._next, self._each = 1 + each, each
        self.frames: list[FrameBatch] = []
        for number in range(switches):
            reporter = Reporter(Form.SIZED, first=1, source=f"127.77.{number // 200}.{1 + number % 200}")
            keys, data = rng.integers(0, 256, (each, 8), np.uint8), rng.integers(0, 256, (each, 4), np.uint8)
            match primitive:
                case "Key-Write":
                    self.frames.append(reporter.key_write(keys, data, redundancy=2))
                case "Key-Increment":
                    self.frames.append(reporter.key_increment(keys, np.ones(each, np.uint64), redundancy=2))
                case "Append":
                    self.frames.append(reporter.append(rng.integers(0, 1000, each).astype(np.uint32), data))
                case _:
                    hops = np.arange(each) % 5 + 1
                    paths = keys[np.arange(each) // 5]
                    self.frames.append(
                        reporter.report(Opcode.POSTCARDING, paths, data, hop=hops, path_length=5)
                    )

    def advance(self) -> None:
        """Write the next sequence numbers."""
        numbers = (self._next + np.arange(self._each)).astype(">u4").view(np.uint8).reshape(-1, 4)
        for batch in self.frames:
            width = int(batch.frames["length"][0])
            batch.arena[: self._each * width].reshape(self._each, width)[:, SEQUENCE] = numbers
        self._next += self._each


@contextmanager
def translating(*words: str) -> Iterator[tuple[Path, int]]:
    """`hopscope translate` with these options: the folder of its counters, and its port."""
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="direct-udp-") as folder:
        command = [sys.executable, "-m", "hopscope", "translate", "--data", folder, "--port", "0", *words]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
            assert process.stderr is not None
            try:
                found = (re.search(r"udp://\S+:(\d+)", line) for line in process.stderr)
                yield Path(folder, "direct"), int(next(match for match in found if match)[1])
            finally:
                process.send_signal(signal.SIGINT)
                process.stderr.read()


def settled(folder: Path) -> dict[str, int]:
    """The counters, once no more datagrams come."""
    before = -1
    while True:
        time.sleep(0.3)
        counters = TRANSLATOR_COUNTERS.read(folder)
        now = counters["dta_datagrams_total"]
        if now == before:
            return {
                "received": now,
                "drops": counters["dta_kernel_drops_total"],
                "translated": sum(count for key, count in counters.items() if key.startswith("dta_trans")),
            }
        before = now


def command_rate(bench: Bench, primitive: str, trains: bool, workers: int, seconds: float) -> None:
    """The highest rate at which `hopscope translate` loses less than LOSS; the sender is on this machine."""
    kind, options = STORES[primitive]
    store = ",".join([f"store={kind}", "bytes=32MiB", *(f"{key}={value}" for key, value in options.items())])
    stream, rate = Stream(primitive), 0.0
    with translating("--store", store, "--workers", str(workers)) as (folder, port):
        for _ in range(8):
            before, sent, start = settled(folder), 0, time.perf_counter()
            with ExitStack() as stack:
                if trains:  # a train has one source
                    senders = [
                        stack.enter_context(
                            closing(UdpSender("127.0.0.1", port, rate=rate / SWITCHES, source=source))
                        )
                        for source in (f"127.77.0.{1 + number}" for number in range(SWITCHES))
                    ]
                else:
                    one = UdpSender("127.0.0.1", port, rate=rate, trains=False, by_source=True)
                    senders = [stack.enter_context(closing(one))] * SWITCHES
                while time.perf_counter() - start < seconds:
                    for sender, batch in zip(senders, stream.frames, strict=True):
                        sent += sender.send(batch)
                    stream.advance()
            taken = time.perf_counter() - start
            after = settled(folder)
            got = after["translated"] - before["translated"]
            if 1 - got / sent <= LOSS:
                break
            rate = min(sent / taken * 0.95, got / taken * 1.1)
    case: dict[str, object] = {
        "what": primitive,
        "datagrams": "trains" if trains else "single",
        "workers": workers,
    }
    bound = "as fast as the sender sends" if rate == 0 else "bound by the receiver"
    bench.row(case, got / taken, "reports/s", f"loss {1 - got / sent:.3%}, {bound}")


def opened(primitive: str, workers: int, folder: Path, huge: bool, size: str) -> TranslatorProcess:
    """A translator with one store, resident, whose workers do nothing yet."""
    kind, options = STORES[primitive]
    settings = DirectSettings(
        folder=folder,
        huge_pages=huge,
        stores=(StoreSettings(name="store", primitive=kind, options={"bytes": size, **options}),),
        translator=TranslatorSettings(port=0, workers=workers),
    )
    process = TranslatorProcess(settings, folder)
    process.open()
    process.output.stores.current["store"].region.populate()  # type: ignore[attr-defined]
    return process


def drain_rate(
    bench: Bench, primitive: str, workers: int, rounds: int, folder: Path, huge: bool, size: str
) -> None:
    """How fast workers take what waits in their sockets, while nobody sends: both cores are theirs."""
    process = opened(primitive, workers, folder, huge, size)
    stream = Stream(primitive)
    rates = []
    try:
        with closing(UdpSender("127.0.0.1", process.port, trains=False, by_source=True)) as sender:
            for _ in range(rounds):
                before = sum(intake.datagrams for intake in process.intakes)
                sent = sum(sender.send(batch) for batch in stream.frames)
                stream.advance()
                rates.append(sent / drain(process, before + sent))
    finally:
        process.close()
    case: dict[str, object] = {
        "what": primitive,
        "workers": workers,
        "memory": size,
        "pages": "2 MiB" if huge else "4 KiB",
    }
    note = f"best of {rounds} rounds, median {median(rates) / 1e6:.3g} M"
    bench.row({"measured": "waiting datagrams", **case}, max(rates), "reports/s", note)


def step_times(bench: Bench, primitive: str, rounds: int, folder: Path, huge: bool, size: str) -> None:
    """Processor time of each step of one worker, per report: what other processes do hardly changes it."""
    process = opened(primitive, 1, folder, huge, size)
    (intake,) = process.intakes
    (listener,) = intake.sockets
    stream, write, clock = Stream(primitive), intake._write, time.thread_time
    found: dict[str, list[float]] = {"receive": [], "parse and number": [], "write, one worker at a time": []}

    def timed(*arguments: Any) -> None:
        begin = clock()
        write(*arguments)
        spent["write, one worker at a time"] += clock() - begin

    intake._write = timed
    try:
        with closing(UdpSender("127.0.0.1", process.port, trains=False, by_source=True)) as sender:
            for _ in range(rounds):
                spent = dict.fromkeys(found, 0.0)
                sent = sum(sender.send(batch) for batch in stream.frames)
                stream.advance()
                while True:
                    begin = clock()
                    batch = listener.receive()
                    spent["receive"] += (taken := clock()) - begin
                    if batch is None:
                        break
                    intake.step(batch, time.monotonic_ns())
                    spent["parse and number"] += clock() - taken
                spent["parse and number"] -= spent["write, one worker at a time"]
                for step, seconds in spent.items():
                    found[step].append(seconds / sent * 1e9)
    finally:
        process.close()
    pages = "2 MiB" if huge else "4 KiB"
    for step, times in found.items():
        case: dict[str, object] = {"what": primitive, "step": step, "memory": size, "pages": pages}
        note = f"median of {rounds} rounds, least {min(times):.0f}"
        bench.row({"measured": "processor time", **case}, median(times), "ns/report", note)


def drain(process: TranslatorProcess, until: int) -> float:
    """Seconds in which the workers, a thread each, take all that waits."""
    barrier = threading.Barrier(len(process.intakes) + 1)

    def work(number: int) -> None:
        barrier.wait()
        while process.intakes[number].turn():
            pass
        barrier.wait()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(len(process.intakes))]
    for thread in threads:
        thread.start()
    barrier.wait()
    start = time.perf_counter()
    barrier.wait()
    seconds = time.perf_counter() - start
    for thread in threads:
        thread.join()
    assert sum(intake.datagrams for intake in process.intakes) == until, (
        "datagrams were lost before they waited"
    )
    return seconds


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--huge", type=Path, help="folder in a tmpfs that is mounted with huge=always")
    parser.add_argument("--part", choices=("command", "workers", "steps"), help="only this part")
    parser.add_argument("--seconds", type=float, default=2.0, help="length of one run")


def main() -> None:
    """The command; workers and pages by themselves; the steps of a worker."""
    bench, arguments = Bench.start(
        "direct_udp",
        "DTA reports per second through UDP sockets into `hopscope translate`, with the stores "
        "that it maps, from a process on the same machine at a loss below 0.1 %; how fast its "
        "workers empty their sockets; and the CPU time of each step.",
        "a network card; sender, kernel and two workers share two cores.",
        _arguments,
    )
    primitives = ["Key-Write"] if bench.quick else list(STORES)
    seconds, rounds = (0.5, 5) if bench.quick else (arguments.seconds, 25)
    if arguments.part in (None, "command"):
        for primitive in primitives:
            for trains in (False, True):
                for workers in (1, 2):
                    command_rate(bench, primitive, trains, workers, seconds)
    if arguments.part in (None, "workers"):
        waiting(bench, primitives, rounds, arguments.huge)
    if arguments.part in (None, "steps"):
        for primitive in primitives:
            for place, huge, size in memories(bench, arguments.huge):
                with tempfile.TemporaryDirectory(dir=place, prefix="direct-udp-") as folder:
                    step_times(bench, primitive, rounds, Path(folder), huge, size)


def memories(bench: Bench, huge_folder: Path | None) -> Iterator[tuple[Path, bool, str]]:
    """Folder, whether its pages are huge, and size of a store."""
    for size in ("32MiB",) if bench.quick else ("32MiB", "1GiB"):
        yield Path("/dev/shm"), False, size
        if huge_folder is not None:
            yield huge_folder, True, size


def waiting(bench: Bench, primitives: list[str], rounds: int, huge_folder: Path | None) -> None:
    """Workers, memory and pages."""
    for primitive in primitives:
        for place, huge, size in memories(bench, huge_folder):
            for workers in (1, 2):
                with tempfile.TemporaryDirectory(dir=place, prefix="direct-udp-") as folder:
                    drain_rate(bench, primitive, workers, rounds, Path(folder), huge, size)


if __name__ == "__main__":
    main()
