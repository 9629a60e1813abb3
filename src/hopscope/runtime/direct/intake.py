"""The receiving side of one translator worker: sockets, the form of reports, sequence numbers."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence

from ...capture.udp.datagram import DatagramSocket
from ...direct.translation.acknowledge import Acknowledger
from ...wire.dta.forms import Form
from ...wire.records import FrameBatch, Records

Write = Callable[[Records, FrameBatch, Records, int], object]
"""Translates reports: (reports, batch of datagrams, FRAME record of each report, monotonic time in ns)."""


class Intake:
    """Receives datagrams, checks the sequence numbers of their reports, passes reports on, and answers.

    The kernel chooses the worker by the reporter's address, so a reporter and its numbers stay with one
    worker. All workers call `write` under `lock`: stores, caches and connections have one user at a time.
    """

    def __init__(
        self, form: Form, acknowledger: Acknowledger | None, write: Write, lock: threading.Lock
    ) -> None:
        from ...wire.dta.parser import DtaParser

        self.parser = DtaParser(form)
        self.acknowledger = acknowledger
        """None: this form of report has no sequence numbers."""
        self.sockets: list[DatagramSocket] = []
        self.datagrams = self.bytes = 0
        """Received from the sockets."""
        self._write, self._lock = write, lock

    def open(self, sockets: Sequence[DatagramSocket]) -> None:
        """Bind: from now on reports are taken. Raises CaptureError."""
        for each in sockets:
            each.open()
            self.sockets.append(each)

    def files(self) -> list[int]:
        """Descriptors of its sockets."""
        return [each.fileno() for each in self.sockets]

    def turn(self) -> int:
        """Receive once from each socket; returns the number of datagrams."""
        count = 0
        for each in self.sockets:
            batch = each.receive()
            if batch is not None:
                count += len(batch)
                answers = self.step(batch, time.monotonic_ns())
                if answers is not None:
                    each.send(answers)
        return count

    def step(self, batch: FrameBatch, now_ns: int) -> FrameBatch | None:
        """Translate datagrams; `now_ns` on a monotonic clock. Returns the answers to reporters."""
        reports, frames = self.parser.parse(batch), self.parser.frames
        self.datagrams += len(batch)
        self.bytes += int(batch.frames["length"].sum())
        if self.acknowledger is not None:
            self.acknowledger.track(reports, frames)
        with self._lock:
            self._write(reports, batch, frames, now_ns)
        return None if self.acknowledger is None else self.acknowledger.answers(reports, frames)

    def close(self) -> None:
        """Close the sockets."""
        for each in self.sockets:
            each.close()


_COUNTED = (
    "datagrams", "bytes", "acks", "nacks", "late", "lost", "restarts", "untracked", "replaced",
    "unsendable",
    "kernel_drops_total", "denied_frames_total", "oversized_frames_total",
)  # fmt: skip


def counts(intakes: Sequence[Intake]) -> dict[str, int]:
    """Sums over all workers: datagrams, bytes, answers, sequence errors, and losses of sockets."""
    total = Counter(dict.fromkeys(_COUNTED, 0))
    for intake in intakes:
        total.update(datagrams=intake.datagrams, bytes=intake.bytes)
        if intake.acknowledger is not None:
            total.update(acks=intake.acknowledger.acks, nacks=intake.acknowledger.nacks)
            total.update(intake.acknowledger.tracker.counts)
        for each in intake.sockets:
            total.update(each.counts())
            total.update(unsendable=each.unsendable)
    return dict(total)
