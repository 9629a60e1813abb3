"""The packets of `int_packets` through a veth pair into a sink, at the highest rate without loss."""

from __future__ import annotations

import multiprocessing
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
import numpy.typing as npt

from hopscope.capture.ring.listener import RingListener, RingSender
from hopscope.detect.distributions.reader import DistributionReader, ShardCounts
from hopscope.detect.sink.detector import SinkDetector
from hopscope.detect.sink.rings import SinkEvents
from hopscope.settings.listen import ListenSettings
from hopscope.wire.decode.decoder import Decoder
from support.packets.int_packets import IntPackets, Workload

CONTEXT = multiprocessing.get_context("spawn")
BLOCK, BURST = 4096, 256
TRIES = 12
PACED = 100_000
"""Packets a second, for delays."""
NAP, FEW = 0.001, 256  # as a worker does


@dataclass(frozen=True)
class Passage:
    """What went through."""

    sent: int
    received: int
    kernel_drops: int
    rate: float
    """Packets a second."""
    counts: ShardCounts
    """Distributions of what was received."""


def send(channel: Connection, workload: Workload) -> None:
    """A process that sends packets 0, 1 … : given (rate, packets), it answers (sent, seconds)."""
    sender, block = RingSender("far", bypass=True), IntPackets(workload, BLOCK)
    block.fill(0)
    length, frames = int(block.frames["length"][0]), block.arena.reshape(BLOCK, -1)
    lengths = np.full(BURST, length, np.uint32)
    base, second = sender.slots(2).tolist()
    slot = second - base
    rows = sender.arena.reshape(-1, slot)
    channel.send(True)
    for rate, packets in iter(channel.recv, None):
        given, before, start = 0, sender.sent, time.perf_counter()
        while given < packets:
            due = min(packets, int(rate * (time.perf_counter() - start))) if rate else packets
            at = given % BLOCK
            if block.first != given - at:
                block.fill(given - at)
            places = sender.slots(max(0, min(BURST, due - given, BLOCK - at)))
            if not len(places):
                sender.flush()
                continue
            row = int(places[0]) // slot
            n = min(len(places), len(rows) - row)
            rows[row : row + n, base : base + length] = frames[at : at + n, :length]
            sender.send(lengths[:n])
            given += n
        while sender.waiting:
            sender.flush()
        channel.send((sender.sent - before, time.perf_counter() - start))
    sender.close()


class _Passing:
    """The sending process, and what receives."""

    def __init__(self, workload: Workload, decoder: Decoder, output: str = "") -> None:
        self.channel, other = CONTEXT.Pipe()
        self._process = CONTEXT.Process(target=send, args=(other, workload))
        self._process.start()
        self.channel.recv()
        self._decoder = decoder
        self._listener = RingListener(ListenSettings(kind="mirror", interface="near", output=output))
        self._listener.open()

    def run(
        self, detector: SinkDetector, rate: float, packets: int, seen: Callable[[], None] = lambda: None
    ) -> tuple[int, int, int, float]:
        """Send packets 0, 1 … and receive as a worker does: (sent, received, kernel drops, rate).

        `seen` is called after every batch.
        """
        before = self._listener.counts()["kernel_drops_total"]
        self.channel.send((rate, packets))
        received, last = 0, 1
        sent: tuple[int, float] | None = None
        while sent is None or last:
            if sent is None and self.channel.poll():
                sent = self.channel.recv()
                time.sleep(0.05)  # what is left in a block comes after 16 ms
            frames = self._listener.receive()
            last = 0
            if frames is not None:
                last = len(frames)
                for _ in detector.update(self._decoder.decode(frames)):
                    pass
                seen()
            received += last
            if last < FEW:
                time.sleep(NAP)
        drops = self._listener.counts()["kernel_drops_total"] - before
        return sent[0], received, drops, sent[0] / sent[1]

    def close(self) -> None:
        """End the process."""
        self.channel.send(None)
        self._process.join()
        self._listener.close()


def send_through(
    workload: Workload, packets: int, decoder: Decoder, new_sink: Callable[[Path], SinkDetector]
) -> Passage:
    """Find the highest rate without loss with a tenth of the packets, then send all at it.

    Where these lose some, the rate falls by a tenth, three times at most.
    """
    passing = _Passing(workload, decoder)
    try:
        with tempfile.TemporaryDirectory() as folder:
            trial = new_sink(Path(folder))
            passing.run(trial, 10_000, 2000)  # touches everything once
            rate = 0.0
            for _ in range(TRIES):
                sent, received, _, reached = passing.run(trial, rate, packets // 10)
                rate = reached * min(0.95, received / sent)
                if received == sent:
                    rate = reached
                    break
        for _ in range(4):
            with tempfile.TemporaryDirectory() as folder:
                sent, received, drops, reached = passing.run(new_sink(Path(folder)), rate, packets)
                counts = DistributionReader.attach(Path(folder)).counts()[0]
            if received == sent:
                break
            rate = reached * 0.9
        return Passage(sent, received, drops, reached, counts)
    finally:
        passing.close()


def arrival_to_event(
    workload: Workload, decoder: Decoder, new_sink: Callable[[Path], SinkDetector], forwards: bool
) -> tuple[npt.NDArray[np.int64], float]:
    """From the kernel's time stamp of a packet until its event is in the ring, ns [events], and packets/s.

    `forwards`: with the ring's blocks as a worker has them whose frames go on.
    """
    passing = _Passing(workload, decoder, "far" if forwards else "")
    delays: list[npt.NDArray[np.int64]] = []
    try:
        with tempfile.TemporaryDirectory() as folder:
            detector = new_sink(Path(folder))
            ring = SinkEvents(folder)

            def seen() -> None:
                now = time.time_ns()
                while len(records := ring.read()[0]):
                    delays.append(now - records["time_ns"])

            passing.run(detector, PACED, PACED // 10)
            seen()  # what came before
            delays.clear()
            rate = passing.run(detector, PACED, 5 * PACED, seen)[3]
        return np.concatenate(delays), rate
    finally:
        passing.close()
