"""The translator as a process: DTA reports from a UDP socket into stores of this machine, or of collectors.

One thread does everything, turn after turn; a turn never waits. Nothing wakes it per datagram.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np

from ...base import loop
from ...base.stop import Stop
from ...capture.udp.datagram import DatagramSocket
from ...direct.counters import EXTENSION, OPCODE_LABELS, TranslatorCounters
from ...direct.translation.translator import Translator
from ...settings.direct import DirectSettings
from ...wire.reasons import DtaReason
from ...wire.records import FrameBatch
from .local import LocalStores
from .output import FORMS, Output, TranslatorOptions
from .stores import store_specs
from .warm import warm_translator

TICK_NS = 100_000_000
PAUSE = loop.Pause(seconds=0.0005, below=64)
BATCH_TIMEOUT_NS = 100_000_000
"""Longest wait of a batch for busy collectors: some retransmissions. The socket's buffer fills meanwhile."""
WAIT_SECONDS = 0.0001
DRAIN_SECONDS = 1.0
"""Maximum time after a stop to process reports that still arrive."""
FLUSH_SECONDS = 5.0
"""Longest time that a stop waits for collectors."""


class TranslatorProcess:
    """A translator with its socket, its counters and its output.

    `folder`: of the stores and counters, `DATA/direct`. `notify` gets a line about every collector that
    connects or disconnects. Raises StoreError, RegionError, CaptureError, and ValueError for a bad address.
    """

    def __init__(
        self, settings: DirectSettings, folder: Path, *, notify: Callable[[str], object] | None = None
    ) -> None:
        from ...wire.dta.parser import DtaParser

        translator = settings.translator
        self.counted = TranslatorCounters(folder)
        """Updated ten times per second."""
        self.options = TranslatorOptions.of(settings, self._make_room)
        self.output = self._open_output(settings, folder, notify or (lambda _: None))
        self.parser = DtaParser(FORMS[translator.form])
        self.socket = DatagramSocket(translator.host, translator.port, allow=translator.allow, wildcard=True)
        self.batch_timeout_ns = BATCH_TIMEOUT_NS
        """Longest wait of a batch for busy collectors."""
        self.datagrams = self.bytes = 0
        """Taken from the socket."""
        self._tick = loop.Timer(TICK_NS)
        self._flush = loop.Timer(self.options.flush_ns // 2)
        self._wait_until_ns = 0

    def _open_output(self, settings: DirectSettings, folder: Path, notify: Callable[[str], object]) -> Output:
        if settings.translator.transport == "memory":
            return LocalStores(settings, folder, self.options)
        from .remote import RemoteStores

        return RemoteStores(settings, self.options, notify)

    def open(self) -> None:
        """Compile, then bind: reports are taken from now on. Raises CaptureError."""
        layouts = [route.layout for route in self.translator.routes]
        if not layouts:  # collectors announce theirs once they are connected
            layouts = [spec.layout for spec in store_specs(DirectSettings())]
        warm_translator(layouts, self.parser.form)
        self.socket.open()

    @property
    def late_kernels(self) -> int:
        """Kernels that its turns called for the first time."""
        return loop.late_kernels()

    @property
    def translator(self) -> Translator:
        """The output's."""
        return self.output.translator

    @property
    def port(self) -> int:
        """UDP port, even if the kernel chose it."""
        return self.socket.port

    def notes(self) -> list[str]:
        """Lines for the log at startup."""
        return self.socket.notes()

    def turn(self) -> int:
        """Take what has come, once; how many datagrams."""
        batch = self.socket.receive()
        count = 0
        now = time.monotonic_ns()
        if batch is not None:
            count = len(batch)
            self.step(batch, now)
        count += self.output.turn()
        if self._flush(now):
            self.translator.flush(now)
        if self._tick(now):
            self.output.tick(time.time_ns())
            self.counted.collect(self)
        return count

    def step(self, batch: FrameBatch, now_ns: int) -> None:
        """Translate datagrams, and answer; `now_ns` on a monotonic clock."""
        reports = self.parser.parse(batch)
        self.datagrams += len(batch)
        self.bytes += int(batch.frames["length"].sum())
        if not self.output.ready:
            reports["reason"][reports["reason"] == DtaReason.NONE] = DtaReason.NO_COLLECTOR
        self._wait_until_ns = now_ns + self.batch_timeout_ns
        answers = self.translator.translate(reports, batch.arena, self.parser.frames, now_ns)
        if answers is not None:
            self.socket.send(answers)
        if self.options.slow_paths is not None:
            self.options.slow_paths.append(self.translator, now_ns)

    def _make_room(self) -> bool:
        """Move packets while a collector is busy; False once the batch has waited for too long."""
        if not self.output.turn():
            time.sleep(WAIT_SECONDS)
        return time.monotonic_ns() < self._wait_until_ns

    def run(self, stop: Stop) -> None:
        """Take reports until `stop` is set; then write what waits, and wait for the collectors."""
        loop.run(self, stop, PAUSE)

    def drain(self) -> None:
        """Process what is left in the socket."""
        loop.drain(self.turn, DRAIN_SECONDS)

    def close(self) -> None:
        """Flush caches and batches, wait for the collectors, count, close."""
        self.counted.collect(self)
        self.socket.close()
        until = time.monotonic() + FLUSH_SECONDS
        while not self.translator.flush() and time.monotonic() < until:
            self.output.turn()
        while not self.output.idle() and time.monotonic() < until:
            if not self.output.turn():
                time.sleep(PAUSE.seconds)
        self.output.close()
        self.counted.collect(self)

    @property
    def translated(self) -> dict[str, int]:
        """Reports by primitive."""
        translated = self.translator.translated
        known = {label: int(translated[opcode]) for opcode, label in OPCODE_LABELS.items()}
        return known | {EXTENSION: int(translated.sum()) - sum(known.values())}

    @property
    def writers(self) -> dict[str, Counter[str]]:
        """What caches and batches counted, by primitive."""
        sums = {label: Counter[str]() for label in OPCODE_LABELS.values()}
        for route, writer in zip(self.translator.routes, self.translator.writers, strict=True):
            if route.layout.opcode in OPCODE_LABELS:
                sums[OPCODE_LABELS[route.layout.opcode]].update(getattr(writer, "counters", {}))
        return sums

    @property
    def collectors(self) -> int:
        """Collectors that are connected."""
        return int(np.count_nonzero(self.translator.fanout.down == 0))
