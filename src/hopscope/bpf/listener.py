"""Receives reports that an XDP program takes from an interface before the network stack sees them."""

from __future__ import annotations

import socket
import struct
import time
from typing import TYPE_CHECKING

from ..base.log import logger
from ..capture.errors import CaptureError
from ..settings.listen import ListenSettings
from ..settings.source import url
from ..wire.dialect import Dialect
from ..wire.records import FrameBatch
from .layout import Count
from .program import XdpProgram
from .ring import BpfRing

if TYPE_CHECKING:
    from ..detect.detector import Detector
    from .filter import Filter

_SOL_PACKET, _ADD_MEMBERSHIP, _PROMISCUOUS = 263, 1, 1  # SOL_PACKET, PACKET_ADD_MEMBERSHIP, PACKET_MR_PROMISC
LOOK_NS = 1_000_000_000
"""Interval, ns, at which it checks whether the interface was deleted and created again."""


class XdpListener:
    """Receives datagrams to the port of reports on one interface, with any destination IP address: in frames
    addressed to this machine, or in all frames if the interface is promiscuous.

    The program is attached while this process has it open; other frames pass to the network stack. UDP
    checksums are not verified. With a detector, the program counts reports that change only counts, and does
    not pass them on.
    """

    def __init__(
        self, settings: ListenSettings, detector: Detector | None = None, dialect: Dialect | None = None
    ) -> None:
        """`detector` must get all reports that this listener receives, in `dialect`, and no others."""
        self.settings = settings
        self.filter: Filter | None = None
        """Decodes the reports that pass the program's filter; None: the program does not filter."""
        self._detector, self._dialect = detector, dialect
        self._native = self._finished = False
        self._member: socket.socket | None = None
        """Keeps the interface promiscuous."""
        self._due_ns = 0
        self._seen_ns = 0
        """Time at which the program was last seen attached to the interface."""
        self._returns = self._gap_ns = 0
        self._trouble = ""
        """Why the program could not be attached again; empty: no failure."""

    def open(self) -> None:
        """Load the kernels, then the program, and attach it. Raises CaptureError."""
        detect = self._detector.settings if self._detector is not None else None
        self.prepare()
        self._program = XdpProgram(self.settings, detect)
        try:
            self._ring.map(self._program.ring, self._program.ring_bytes)
            if self._detector is not None and self._dialect is not None:
                from .filter import Filter

                self.filter = Filter(self._program, self._ring, self._detector, self._dialect)
            self._native = self._program.attach()
            self._join()
        except CaptureError:
            self._program.close()
            raise
        self._seen_ns = time.monotonic_ns()

    def _join(self) -> None:
        """Make the interface promiscuous, if the settings say so. Raises CaptureError."""
        if not self.settings.promiscuous:
            return
        try:
            if self._member is None:
                self._member = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
            member = struct.pack("<iHH8x", self._program.index, _PROMISCUOUS, 0)
            self._member.setsockopt(_SOL_PACKET, _ADD_MEMBERSHIP, member)
        except OSError as error:
            raise CaptureError(f"{url(self.settings)}: promiscuous: {error.strerror}") from error

    def prepare(self) -> None:
        """Load the kernel that reads the ring."""
        self._ring = BpfRing(self._detector.settings.sources if self._detector is not None else 1)

    def receive(self) -> FrameBatch | None:
        """Up to 4096 datagrams; None if none arrived. Valid until the next call."""
        if not self._finished:
            self._look(time.monotonic_ns())
        if self.filter is None:
            return self._ring.receive()
        batch = self.filter.receive()
        if batch is None and self._finished:
            self.filter.merge()
        return batch

    def _look(self, now_ns: int) -> None:
        """Attach the program to an interface that was deleted and created again."""
        if now_ns < self._due_ns:
            return
        self._due_ns = now_ns + LOOK_NS
        try:
            index = socket.if_nametoindex(self.settings.interface)
            if index != self._program.index:
                self._program.detach()
                self._native = self._program.attach()
                self._join()
                self._returns += 1
                self._gap_ns += now_ns - self._seen_ns
            self._program.look()
        except OSError:  # the interface is not back yet
            return
        except CaptureError as error:
            self._program.detach()
            if str(error) != self._trouble:
                self._trouble = str(error)
                logger("xdp").warning(
                    "interface is back, but its program is not; trying again", reason=str(error)
                )
            return
        self._trouble = ""
        self._seen_ns = now_ns

    def finish(self) -> None:
        """Detach the program; datagrams that are already in the ring can still be received."""
        self._finished = True
        self._program.detach()

    def counts(self) -> dict[str, int]:
        """Counts since `open` by key of `detect.counters`: datagrams by outcome, returns of the interface."""
        counts = self._program.counts()
        return {
            "kernel_drops_total": counts[Count.RING_FULL],
            "oversized_frames_total": counts[Count.OVERSIZED],
            "interface_returns_total": self._returns,
            "interface_gap_ns_total": self._gap_ns,
            **{f"xdp_{count.label}": counts[count] for count in counts},
        }

    def fileno(self) -> int:
        """File descriptor of the ring, readable when a datagram has arrived."""
        return self._program.ring

    @property
    def buffer_bytes(self) -> int:
        """Size of the ring, bytes; available once open."""
        return self._program.ring_bytes

    def notes(self) -> list[str]:
        """Lines for the log at the start."""
        where = "in the driver (native)" if self._native else "in the network stack (generic)"
        what = "filters reports" if self.filter is not None else "passes all reports up"
        return [f"{url(self.settings)}: the XDP program runs {where} and {what}"]

    def close(self) -> None:
        """Detach the program and free it."""
        self._program.close()
        if self._member is not None:
            self._member.close()
