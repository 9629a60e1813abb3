"""Relays between processes that lose, reorder and double datagrams, seeded; and the processes themselves."""

from __future__ import annotations

import signal
import threading
import time
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np

from hopscope.capture.udp.datagram import DatagramSocket
from hopscope.settings.direct import DirectSettings
from hopscope.wire.address import number_of
from hopscope.wire.dta.layout import DTA_PORT
from hopscope.wire.reasons import RoceReason
from hopscope.wire.records import FRAME, FrameBatch, Records
from hopscope.wire.roce.frames import RoceFrames
from hopscope.wire.roce.layout import ROCE_PORT

NIC, NIC_SIDE = "127.3.0.1", "127.3.0.2"
TRANSLATOR, TRANSLATOR_SIDE = "127.3.0.3", "127.3.0.4"
REPORTS_SIDE = "127.3.0.5"
FAR = 64
"""Frames by which a late one is late at the most, and then it waits for the next batch."""


def compact(frames: Records, arena: np.ndarray) -> FrameBatch:
    """A copy of frames with an arena of their own."""
    frames = frames.copy()
    lengths = frames["length"].astype(np.int64)
    begins = np.cumsum(lengths) - lengths
    index = np.repeat(frames["offset"].astype(np.int64) - begins, lengths) + np.arange(lengths.sum())
    frames["offset"] = begins
    return FrameBatch(arena[index], frames)


class Mangler:
    """Each frame is lost, doubled or late with a probability of `rate`, independently."""

    def __init__(self, rate: float, seed: int) -> None:
        self.rate = rate
        self.lost = self.doubled = self.late = 0
        self._rng = np.random.default_rng(seed)
        self._held = FrameBatch(np.zeros(0, np.uint8), np.zeros(0, FRAME))

    def through(self, batch: FrameBatch | None) -> FrameBatch | None:
        """The datagrams that come out now; without a batch, those that are late."""
        held = self._held
        if batch is None:
            self._held = FrameBatch(np.zeros(0, np.uint8), np.zeros(0, FRAME))
            return held if len(held) else None
        if not self.rate:
            return batch
        count = len(batch)
        lost, doubled, late = self._rng.random((3, count)) < self.rate
        moved = np.where(late, self._rng.integers(1, FAR, count), 0)
        times = np.where(lost, 0, 1 + doubled)
        self.lost += int(lost.sum())
        self.doubled += int((doubled & ~lost).sum())
        self.late += int((late & ~lost).sum())
        places = np.repeat(np.arange(count) + moved, times)
        rows = np.repeat(batch.frames, times)[np.argsort(places, kind="stable")]
        places.sort()
        self._held = compact(rows[places >= count], batch.arena)
        rows = rows[places < count]
        if not len(held):
            return FrameBatch(batch.arena, rows)
        held.frames["offset"] += len(batch.arena)
        arena = np.concatenate([batch.arena, held.arena])
        at = min(len(rows), FAR // 2)
        return FrameBatch(arena, np.concatenate([rows[:at], held.frames, rows[at:]]))


class ReportRelay:
    """From a reporter to the translator; knows which sequence numbers went on (form with lengths)."""

    def __init__(self, reports: int, rate: float, seed: int) -> None:
        self.passed = np.zeros(reports, np.uint8)
        """How often each report was sent on, by sequence number."""
        self.received = 0
        """Reports that came; all but the late ones have been sent on."""
        self.idle = False
        """Whether nothing came and nothing is held back."""
        self._socket = DatagramSocket(REPORTS_SIDE, DTA_PORT)
        self._socket.open()
        self._mangler = Mangler(rate, seed)
        self._to = number_of(TRANSLATOR)
        self.mangler = self._mangler

    def turn(self) -> int:
        """Once; datagrams that came."""
        batch = self._socket.receive()
        out = self._mangler.through(batch)
        self.idle = batch is None and out is None
        if out is not None:
            at = out.frames["offset"].astype(np.int64)
            numbers = sum(out.arena[at + 4 + i].astype(np.int64) << (24 - 8 * i) for i in range(4))
            np.add.at(self.passed, numbers, 1)
            frames = out.frames.copy()
            frames["source_hi"], frames["source_lo"] = self._to >> 64, self._to & (1 << 64) - 1
            frames["port"] = DTA_PORT
            self._socket.send(FrameBatch(out.arena, frames))
        count = 0 if batch is None else len(batch)
        self.received += count
        return count


class RoceRelay:
    """Between translator and NIC, both ways. The ICRC covers addresses, so it is computed again."""

    def __init__(self, rate: float, seed: int) -> None:
        ends = ((TRANSLATOR_SIDE, NIC), (NIC_SIDE, TRANSLATOR))
        self._sockets = [DatagramSocket(own, ROCE_PORT) for own, _ in ends]
        for one in self._sockets:
            one.open()
        self._codecs = [RoceFrames(own) for own, _ in ends]
        self._to = [number_of(to) for _, to in ends]
        self.manglers = [Mangler(rate, seed + i) for i in range(2)]

    def turn(self) -> int:
        """Once, both ways; datagrams that came."""
        count = 0
        for way in range(2):
            batch = self._sockets[way].receive()
            count += 0 if batch is None else len(batch)
            out = self.manglers[way].through(batch)
            if out is None:
                continue
            rows = self._codecs[way].parse(out)
            rows = rows[rows["reason"] == RoceReason.NONE]
            rows["source_hi"], rows["source_lo"] = self._to[way] >> 64, self._to[way] & (1 << 64) - 1
            self._sockets[1 - way].send(self._codecs[1 - way].build(rows, out.arena))
        return count


def stopper() -> threading.Event:
    """Set by SIGTERM; a child's interrupt is its parent's business."""
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    return stop


def serve_nic(settings: DirectSettings, folder: Path, channel: Connection) -> None:
    """Process: the software NIC."""
    from hopscope.runtime.direct.nic import NicProcess
    from hopscope.runtime.direct.stores import store_specs

    stop = stopper()
    nic = NicProcess(settings, folder, store_specs(settings))
    nic.open()
    channel.send("ready")
    nic.run(stop)


def translate(settings: DirectSettings, folder: Path, channel: Connection) -> None:
    """Process: the translator; says ready when its collector is connected."""
    from hopscope.runtime.direct.translator import TranslatorProcess

    stop = stopper()
    process = TranslatorProcess(settings, folder)
    process.open()
    while not process.output.ready and not stop.is_set():
        process.turn()
        time.sleep(0.001)
    channel.send("ready")
    process.run(stop)


class Relaying:
    """Relays in a thread of this process, until it is left."""

    def __init__(self, *relays: ReportRelay | RoceRelay) -> None:
        self._relays = relays
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        while not self._stop.is_set():
            if not sum(relay.turn() for relay in self._relays):
                time.sleep(0.0002)

    def __enter__(self) -> Relaying:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
