"""The translator as a process: takes DTA reports from a UDP socket, and writes to local or remote stores.

One thread runs everything in turns, which never block; it is not woken for each datagram. Further workers are
threads with sockets of their own: most of the time goes into system calls, which release Python's lock.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ...base.process import loop
from ...base.process.stop import Stop
from ...capture.udp.datagram import DatagramSocket
from ...direct.counters import EXTENSION, OPCODE_LABELS, TRANSLATOR_COUNTERS
from ...direct.translation.translator import Translator
from ...settings.direct import DirectSettings
from ...wire.reasons import DtaReason
from ...wire.records import FrameBatch, Records
from .intake import Intake, counts
from .local import LocalStores
from .output import Output, TranslatorOptions
from .stores import store_specs
from .warm import warm_translator

if TYPE_CHECKING:
    from ...cluster.owners.table import OwnerTable

TICK_NS = 100_000_000
PAUSE = loop.Pause(seconds=0.0005, below=64)
BATCH_TIMEOUT_NS = 100_000_000
"""How long a batch may wait for busy collectors, enough for some retransmissions. The socket buffer fills."""
WAIT_SECONDS = 0.0001
DRAIN_SECONDS = 1.0
"""Maximum time after a stop to process reports that still arrive."""
FULL_NS = 60_000_000_000
"""Time for which the table of reporters counts as full after a report that was not tracked."""
FLUSH_SECONDS = 5.0
"""How long a stop may wait for collectors."""


class TranslatorProcess:
    """A translator with its workers' sockets, its counters and its output.

    `folder`: holds stores, counters and sequence numbers, `DATA/direct`. `notify` gets a line when a
    collector connects or disconnects, and when the table of reporters is full. `owners`: the table of owners,
    if the collectors are the members of a cluster. Raises StoreError, RegionError, RouteError, CaptureError,
    and ValueError for a bad address.
    """

    def __init__(
        self,
        settings: DirectSettings,
        folder: Path,
        *,
        notify: Callable[[str], object] | None = None,
        owners: Callable[[], OwnerTable | None] | None = None,
    ) -> None:
        self._settings = settings.translator
        self.counted = TRANSLATOR_COUNTERS.open(folder)
        """Updated ten times per second."""
        self.options = TranslatorOptions.of(settings, self._make_room)
        self._findings = self.options.findings
        self.output = self._open_output(settings, folder, notify or (lambda _: None), owners)
        self._lock = threading.Lock()
        self.intakes = [
            Intake(self.options.form, acknowledger, self._write, self._lock)
            for acknowledger in self.options.acknowledgers(folder, self._settings.workers)
        ]
        """By worker; the loop runs the first, a thread each of the others."""
        self.batch_timeout_ns = BATCH_TIMEOUT_NS
        """See BATCH_TIMEOUT_NS."""
        self._tick = loop.Timer(TICK_NS)
        self._flush = loop.Timer(self.options.flush_ns // 2)
        self._wait_until_ns = 0
        self._notify = notify or (lambda _: None)
        self.reporters_full = False
        """Whether the table of reporters lacked room within the last FULL_NS."""
        self._untracked = self._full_until_ns = 0
        self._threads: list[threading.Thread] = []
        self._ending = threading.Event()
        self._failure: BaseException | None = None

    def _open_output(
        self,
        settings: DirectSettings,
        folder: Path,
        notify: Callable[[str], object],
        owners: Callable[[], OwnerTable | None] | None,
    ) -> Output:
        if settings.translator.transport == "memory":
            return LocalStores(settings, folder, self.options)
        if owners is not None:
            from .following import FollowingStores

            return FollowingStores(settings, self.options, notify, owners)
        from .remote import RemoteStores

        return RemoteStores(settings, self.options, notify)

    def open(self) -> None:
        """Compile, then bind: reports are received from now on. Raises CaptureError."""
        layouts = [route.layout for route in self.translator.routes]
        if not layouts:  # collectors announce theirs once they are connected
            layouts = [spec.layout for spec in store_specs(DirectSettings())]
        warm_translator(layouts, self.options.form, combined=self.options.combine_increments)
        ports = [self._settings.port]
        ports += sorted({rule.port for rule in self.options.rules} - {0, *ports})
        for worker, intake in enumerate(self.intakes):
            intake.open([self._socket(port, worker) for port in ports])
            ports[0] = self.port  # the kernel may have chosen it

    def _socket(self, port: int, worker: int) -> DatagramSocket:
        return DatagramSocket(
            self._settings.host,
            port,
            allow=self._settings.allow,
            wildcard=True,
            worker=worker,
            workers=self._settings.workers,
        )

    @property
    def late_kernels(self) -> int:
        """How many kernels were first called by a turn, and so loaded late."""
        return loop.late_kernels()

    @property
    def translator(self) -> Translator:
        """The translator of the output."""
        return self.output.translator

    @property
    def port(self) -> int:
        """UDP port, even if the kernel chose it."""
        return self.intakes[0].sockets[0].port

    def notes(self) -> list[str]:
        """Lines for the log at startup."""
        return self.intakes[0].sockets[0].notes()

    def turn(self) -> int:
        """Receive once for the first worker, and do what is due; returns the number of datagrams."""
        if self._failure is not None:
            raise self._failure
        count, now = self.intakes[0].turn(), time.monotonic_ns()
        with self._lock:
            count += self.output.turn()
            if self._flush(now):
                self.translator.flush(now)
            if self._tick(now):
                self.output.tick(time.time_ns())
                self._check_reporters(now)
                self.counted.collect(self)
        return count

    def _write(self, reports: Records, batch: FrameBatch, frames: Records, now_ns: int) -> None:
        """Translate the reports of one worker; the others wait."""
        if not self.output.ready:
            reports["reason"][reports["reason"] == DtaReason.NONE] = DtaReason.NO_COLLECTOR
        self._wait_until_ns = now_ns + self.batch_timeout_ns
        self.translator.translate(reports, batch.arena, frames, now_ns)
        for each in self._findings:
            each.append(self.translator, now_ns)

    def _check_reporters(self, now_ns: int) -> None:
        """Update `reporters_full`; notify when it becomes true."""
        untracked = self.received["untracked"]
        if untracked > self._untracked:
            if not self.reporters_full:
                self._notify("the table of reporters is full: some sequence numbers are not checked")
            self._untracked, self._full_until_ns = untracked, now_ns + FULL_NS
        self.reporters_full = now_ns < self._full_until_ns

    def _make_room(self) -> bool:
        """Send and receive while a collector is busy; False once the batch has waited for too long."""
        if not self.output.turn():
            time.sleep(WAIT_SECONDS)
        return time.monotonic_ns() < self._wait_until_ns

    def run(self, stop: Stop) -> None:
        """Take reports until `stop` is set; then write what is pending, and wait for the collectors."""
        for number, intake in enumerate(self.intakes[1:], 1):
            thread = threading.Thread(target=self._work, args=(intake,), name=f"translate-{number}")
            self._threads.append(thread)
            thread.start()
        remote = self._settings.transport != "memory"  # acknowledgements arrive on another socket
        loop.run(self, stop, PAUSE if remote else loop.IdleWait(PAUSE, self.intakes[0].files))

    def _work(self, intake: Intake) -> None:
        """A worker's thread: receives until the process ends, then drains the sockets."""
        try:
            pause = loop.IdleWait(PAUSE, intake.files)
            while not self._ending.is_set():
                pause(intake.turn())
            loop.drain(intake.turn, DRAIN_SECONDS)
        except BaseException as error:  # the loop raises it, which ends the process
            self._failure = error

    def drain(self) -> None:
        """Process the datagrams that are still in the sockets."""
        loop.drain(self.turn, DRAIN_SECONDS)

    def close(self) -> None:
        """Flush caches and batches, wait for the collectors, count, close."""
        self._ending.set()
        for thread in self._threads:
            thread.join()
        self.counted.collect(self)
        for intake in self.intakes:
            intake.close()
        until = time.monotonic() + FLUSH_SECONDS
        while not self.translator.flush() and time.monotonic() < until:
            self.output.turn()
        while not self.output.idle() and time.monotonic() < until:
            if not self.output.turn():
                time.sleep(PAUSE.seconds)
        self.output.close()
        self.counted.collect(self)

    @property
    def received(self) -> dict[str, int]:
        """See `intake.counts`."""
        return counts(self.intakes)

    @property
    def translated(self) -> dict[str, int]:
        """Reports by primitive."""
        translated = self.translator.translated
        known = {label: int(translated[opcode]) for opcode, label in OPCODE_LABELS.items()}
        return known | {EXTENSION: int(translated.sum()) - sum(known.values())}

    @property
    def writers(self) -> dict[str, Counter[str]]:
        """Counters of caches and batches, by primitive."""
        sums = {label: Counter[str]() for label in OPCODE_LABELS.values()}
        for route, writer in zip(self.translator.routes, self.translator.writers, strict=True):
            if route.layout.opcode in OPCODE_LABELS:
                sums[OPCODE_LABELS[route.layout.opcode]].update(getattr(writer, "counters", {}))
        return sums

    @property
    def collectors(self) -> int:
        """Collectors that are connected."""
        return int(np.count_nonzero(self.translator.fanout.down == 0))
