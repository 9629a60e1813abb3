"""The process that sends the reports of a switch from the ring of its programs to the collector."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np

from ..bpf.ring import FRAMES, BpfRing
from ..bpf.tc import pinned, pinned_memory
from ..capture.errors import CaptureError
from ..capture.udp.sender import UdpSender
from ..wire.records import FRAME, FrameBatch, Records
from .counters import read_counters
from .layout import REPORT_RING_BYTES, SENDER, ReportCount

MAX_BYTES = 1400
"""Longest datagram with several reports: with all headers it fits into an MTU of 1500."""
PAUSE_SECONDS = 0.005
"""Pause between turns with little work."""
BUSY = FRAMES // 4
"""After a turn with this many reports, the next turn follows without a pause."""


class ReportSender:
    """Sends the reports that the programs put into the ring, until `close`; they make reports meanwhile."""

    def __init__(
        self,
        pins: Path,
        node_id: int,
        host: str,
        port: int,
        also: Callable[[FrameBatch], object] = lambda datagrams: None,
    ) -> None:
        """`host` and `port`: of the collector; none if `host` is empty. `also` gets the same datagrams.
        Raises CaptureError if nothing is attached, another process sends, or the collector's name is unknown.
        """
        from ..base.kernels.jit import readonly
        from .report_kernel import GROUP_BYTES, pack

        self._pins = pins
        self._node_id = np.uint64(node_id)
        self._lock = _locked(pins)
        self._ring = BpfRing()
        self.ring = pinned(pins / "reports")
        """Descriptor of the ring."""
        self._ring.map(self.ring, REPORT_RING_BYTES)
        self._state = pinned_memory(pins / "sender", SENDER)[0]
        """Values that programs and `status` read, SENDER."""
        self._udp = UdpSender(host, port) if host else None
        self._also = also
        self._out = np.zeros(REPORT_RING_BYTES + FRAMES * GROUP_BYTES, np.uint8)
        self._datagrams: Records = np.zeros(FRAMES, FRAME)
        none = readonly(np.zeros(0, np.uint8)), readonly(np.zeros(0, FRAME))
        self._readonly, self._pack = readonly, pack
        pack(*none, self._out, self._datagrams, self._node_id, np.uint64(0), np.uint64(MAX_BYTES))
        self._alive()

    def _alive(self) -> None:
        self._state["alive_ns"] = time.monotonic_ns()

    def turn(self) -> int:
        """Send the reports in the ring; returns how many."""
        self._alive()
        batch = self._ring.receive()
        if batch is None:
            return 0
        self._skip_lost()
        given = self._readonly(batch.arena), self._readonly(batch.frames)
        numbers = self._node_id, np.uint64(self._state["sequence"]), np.uint64(MAX_BYTES)
        count = int(self._pack(*given, self._out, self._datagrams, *numbers))
        self._state["sequence"] += np.uint64(count)
        sent = self._send(FrameBatch(self._out, self._datagrams[:count], 0))
        self._state["datagrams"] += np.uint64(sent)
        self._state["failed"] += np.uint64(count - sent)
        self._state["reports"] += np.uint64(len(batch))
        return len(batch)

    def _send(self, batch: FrameBatch) -> int:
        self._also(batch)
        if self._udp is None:
            return len(batch)
        before = self._udp.sent
        with suppress(CaptureError):  # no route at present: later datagrams may have one
            self._udp.send(batch)
        return self._udp.sent - before

    def _skip_lost(self) -> None:
        """Skip sequence numbers for reports that found no room in the ring, so that the collector counts
        them.
        """
        lost = read_counters(self._pins).reports[ReportCount.RING_FULL]
        self._state["sequence"] += np.uint64(lost - int(self._state["lost"]))
        self._state["lost"] = lost

    def drain(self) -> None:
        """Send the rest."""
        while self.turn():
            pass

    def close(self) -> None:
        """Stop the programs from making reports, and release the ring."""
        self._state["alive_ns"] = 0
        if self._udp is not None:
            self._udp.close()
        os.close(self.ring)
        self._lock.close()


def _locked(pins: Path) -> socket.socket:
    """A lock that only one sending process can hold: a ring has one reader. Raises CaptureError."""
    lock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        folder = pins.stat()
        lock.bind(f"\0hopscope-switch-{folder.st_dev}-{folder.st_ino}")
    except FileNotFoundError as error:
        lock.close()
        raise CaptureError(f"nothing is attached: {pins}: {error.strerror}") from error
    except OSError as error:
        lock.close()
        raise CaptureError(f"{pins}: another process sends its reports") from error
    return lock
