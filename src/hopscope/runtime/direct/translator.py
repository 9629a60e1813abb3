"""The translator as a process: DTA reports from a UDP socket into stores of this machine.

One thread does everything, a turn after the other; a turn never waits. Nothing wakes it per datagram.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from ...base.stop import Stop
from ...capture.udp.datagram import DatagramSocket
from ...direct.counters import EXTENSION, OPCODE_LABELS, TranslatorCounters
from ...direct.primitives.append import AppendWriter
from ...direct.primitives.key_write import KeyWriteWriter
from ...direct.primitives.key_write_adaptive import AdaptiveCopies
from ...direct.primitives.postcarding import PostcardingWriter
from ...direct.translation.path_sum_entries import SlowPaths
from ...direct.translation.translator import Translator
from ...rdma.records import Verb
from ...settings.direct import DirectSettings
from ...wire.dta.codec import Opcode
from ...wire.reasons import DtaReason
from ...wire.records import FrameBatch
from .local import FORMS, Checks, LocalStores, Output
from .warm import warm_translator

TICK_NS = 100_000_000
NAP_SECONDS = 0.0005
"""Sleep after a turn that found little."""
FEW = 64
PATIENCE_NS = 100_000_000
"""The most that a batch waits for collectors that are busy: some retransmissions. The socket's buffer fills
meanwhile.
"""
WAIT_SECONDS = 0.0001
TAKE_SECONDS = 1.0
"""The most that a stop goes on taking reports, which may never end."""
DRAIN_SECONDS = 5.0
"""The most that a stop waits for collectors."""


class TranslatorProcess:
    """A translator with its socket, its counters and what is behind it.

    `folder`: of the stores and counters, `DATA/direct`. `output`: what is behind it, where that is not what
    the settings say. `notify` gets a line about every collector that comes or goes. Raises StoreError,
    RegionError, CaptureError, and ValueError for an address that is none.
    """

    def __init__(
        self,
        settings: DirectSettings,
        folder: Path,
        *,
        output: Output | None = None,
        notify: Callable[[str], object] | None = None,
    ) -> None:
        from ...wire.dta.parser import DtaParser

        self.settings = settings
        one = settings.translator
        self.counted = TranslatorCounters(folder)
        """Brought up to date ten times a second."""
        if output is None:
            output = _output(settings, folder, notify or (lambda _: None))
        self.output = output
        self.parser = DtaParser(FORMS[one.form])
        self._socket = DatagramSocket(one.host, one.port, allow=one.allow, wildcard=True)
        self.patience_ns = PATIENCE_NS
        """The most that a batch waits for collectors that are busy."""
        self._datagrams = self._bytes = 0
        self._flush_ns = one.flush_ms * 1_000_000
        self._due_ns = self._next_flush_ns = self._patience_ns = 0
        self.slow_paths = _slow_paths(settings)
        """With `path_sum`."""
        self._prepared: Translator | None = None
        self._prepare()

    def open(self) -> None:
        """Compile, then bind: reports are taken from now on. Raises CaptureError."""
        warm_translator([route.layout for route in self.translator.routes], self.parser.form)
        self._socket.open()

    @property
    def translator(self) -> Translator:
        """The output's."""
        return self.output.translator

    @property
    def port(self) -> int:
        """UDP port, also where the kernel chose it."""
        return self._socket.port

    def notes(self) -> list[str]:
        """What the user should know at the start."""
        return self._socket.notes()

    def turn(self) -> int:
        """Take what has come, once; how many datagrams."""
        batch = self._socket.receive()
        count = 0
        now = time.monotonic_ns()
        if batch is not None:
            count = len(batch)
            self.step(batch, now)
        count += self.output.turn()
        if now >= self._next_flush_ns:
            self.translator.flush(now)
            self._next_flush_ns = now + self._flush_ns // 2
        if now >= self._due_ns:
            self._due_ns = now + TICK_NS
            self.output.tick(time.time_ns())
            self.count()
        return count

    def step(self, batch: FrameBatch, now_ns: int) -> None:
        """Translate datagrams, and answer; `now_ns` on a clock that never goes back."""
        reports = self.parser.parse(batch)
        self._datagrams += len(batch)
        self._bytes += int(batch.frames["length"].sum())
        if self.translator is not self._prepared:
            self._prepare()
        if not self.output.ready:
            reports["reason"][reports["reason"] == DtaReason.NONE] = DtaReason.NO_COLLECTOR
        self._patience_ns = now_ns + self.patience_ns
        self.translator.make_room = self._make_room
        answers = self.translator.translate(reports, batch.arena, self.parser.frames, now_ns)
        if answers is not None:
            self._socket.send(answers)
        if self.slow_paths is not None:
            self.slow_paths.append(self.translator, now_ns)

    def _prepare(self) -> None:
        """What the settings ask of a translator and its writers, once it knows its stores."""
        self._prepared = translator = self.translator
        for writer in translator.writers:
            if isinstance(writer, AppendWriter | PostcardingWriter):
                writer.idle_ns = self._flush_ns
            elif isinstance(writer, KeyWriteWriter) and self.settings.translator.adaptive_copies:
                writer.adaptive = AdaptiveCopies(
                    writer.layout.slots, writer.layout.copies, writer.layout.collectors
                )
        if self.slow_paths is not None and translator.routes:
            self.slow_paths.watch(translator)

    def _make_room(self) -> bool:
        """Move packets while a collector is busy; for a batch no longer than is worth it."""
        if not self.output.turn():
            time.sleep(WAIT_SECONDS)
        return time.monotonic_ns() < self._patience_ns

    def run(self, stop: Stop) -> None:
        """Take reports until `stop` is set; then write what waits, and wait for the collectors."""
        try:
            while not stop.is_set():
                if self.turn() < FEW:
                    time.sleep(NAP_SECONDS)
        finally:
            self.close()

    def close(self) -> None:
        """Take what is in the socket, flush caches and batches, drain, count, close."""
        until = time.monotonic() + TAKE_SECONDS
        while self.turn() and time.monotonic() < until:
            pass
        self.count()
        self._socket.close()
        until = time.monotonic() + DRAIN_SECONDS  # however long reports kept coming
        while not self.translator.flush() and time.monotonic() < until:
            self.output.turn()
        while not self.output.idle() and time.monotonic() < until:
            if not self.output.turn():
                time.sleep(NAP_SECONDS)
        self.output.close()
        self.count()

    def count(self) -> None:
        """Bring the counters up to date."""
        counted, translator = self.counted, self.translator
        counted.put("dta_datagrams_total", self._datagrams)
        counted.put("dta_bytes_total", self._bytes)
        for key, count in self._socket.counts().items():
            if key in _SOCKET:
                counted.put(_SOCKET[key], count)
        for reason in DtaReason:
            if reason:
                counted.put(f"dta_rejected_total.{reason.label}", int(translator.rejected[reason]))
        known = 0
        for opcode, label in OPCODE_LABELS.items():
            known += int(translator.translated[opcode])
            counted.put(f"dta_translated_total.{label}", int(translator.translated[opcode]))
        counted.put(f"dta_translated_total.{EXTENSION}", int(translator.translated.sum()) - known)
        fanout = translator.fanout
        for verb in Verb:
            counted.put(f"dta_verbs_total.{verb.name.lower()}", int(fanout.kinds[verb]))
        counted.put("dta_verb_bytes_total", fanout.payload_bytes)
        counted.put("dta_undelivered_verbs_total", fanout.undelivered)
        counted.put("dta_collectors", int(np.count_nonzero(fanout.down == 0)))
        self._count_writers()
        self.output.count(counted)

    def _count_writers(self) -> None:
        """What caches and batches did."""
        translator = self.translator
        writers = list(zip(translator.routes, translator.writers, strict=True))
        for key, (opcode, name) in _WRITERS.items():
            counters = (
                getattr(one, "counters", {}) for route, one in writers if route.layout.opcode == opcode
            )
            self.counted.put(key, sum(each.get(name, 0) for each in counters))
        if self.slow_paths is not None:
            for name in ("above", "below", "unanswered"):
                self.counted.put(f"dta_path_sums_total.{name}", self.slow_paths.sums.counters[name])
            self.counted.put("dta_reported_paths_total", self.slow_paths.appended)
        if (answered := translator.acknowledger) is not None:
            self.counted.put("dta_acks_total", answered.acks)
            self.counted.put("dta_nacks_total", answered.nacks)
            counts = answered.tracker.counts
            for name in ("late", "restarts", "untracked"):
                self.counted.put(f"dta_{name}_total", counts[name])
            self.counted.put("dta_lost_reports", counts["lost"])
        self.counted.put("dta_unsendable_total", self._socket.unsendable)


_SOCKET = {
    "kernel_drops_total": "dta_kernel_drops_total",
    "denied_frames_total": "dta_denied_total",
    "oversized_frames_total": "dta_oversized_total",
}
_WRITERS = {
    **{
        f"dta_paths_total.{name}": (Opcode.POSTCARDING, name)
        for name in ("completed", "early", "aged", "flushed")
    },
    "dta_duplicate_postcards_total": (Opcode.POSTCARDING, "duplicates"),
    "dta_waiting_paths": (Opcode.POSTCARDING, "waiting"),
    **{f"dta_batches_total.{name}": (Opcode.APPEND, name) for name in ("full", "aged", "partial")},
    "dta_waiting_entries": (Opcode.APPEND, "waiting"),
}
"""Counter to the primitive whose writer has it among its `counters`, and its name there."""


def _slow_paths(settings: DirectSettings) -> SlowPaths | None:
    asked = settings.translator.path_sum
    if asked is None:
        return None
    return SlowPaths(
        asked.threshold, hops=asked.hops, latency_bits=asked.latency_bits, list_number=asked.list
    )


def _output(settings: DirectSettings, folder: Path, notify: Callable[[str], object]) -> Output:
    if settings.translator.transport == "memory":
        return LocalStores(settings, folder, Checks.of(settings))
    from .remote import RemoteStores

    return RemoteStores(settings, Checks.of(settings), notify)
