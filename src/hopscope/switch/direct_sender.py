"""The DTA reporter of a switch: turns reports of its programs into reports of monitors to a translator."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Protocol

import numpy as np

from ..capture.errors import CaptureError
from ..capture.udp.sender import UdpSender
from ..direct.monitors.monitor import Reports, no_reports
from ..direct.monitors.registry import make_monitors
from ..direct.reporter import Reporter
from ..wire.decode.decoder import Decoder
from ..wire.dialect import DEFAULT
from ..wire.dta.forms import Form
from ..wire.records import FRAME, FrameBatch
from .observations import observations_of


class Outlet(Protocol):
    """Destination of monitors' reports."""

    def take(self, reports: Reports) -> int:
        """Send them; returns how many were sent."""

    def turn(self) -> int:
        """Do the work that is due; returns how much was done."""

    def close(self) -> None:
        """Send reports that are held back, and close."""


class DtaOutlet:
    """DTA packets in Hopscope's form over UDP, to `hopscope translate`."""

    def __init__(self, host: str, port: int) -> None:
        """Raises CaptureError if the name is unknown."""
        self._reporter, none = Reporter(Form.SIZED), no_reports()
        self._reporter.send(none.records, none.arena)  # loads the kernels
        self._udp = UdpSender(host, port)

    def take(self, reports: Reports) -> int:
        """Send them; returns how many were sent."""
        before = self._udp.sent
        with suppress(CaptureError):  # no route at present: later reports may have one
            self._udp.send(self._reporter.send(reports.records, reports.arena))
        return self._udp.sent - before

    def turn(self) -> int:
        """Does nothing: nothing is ever due."""
        return 0

    def close(self) -> None:
        """Close the socket."""
        self._udp.close()


class DirectSender:
    """Takes the switch's datagrams of Telemetry Report 2.0, and passes their contents to monitors."""

    def __init__(self, monitors: Sequence[str], outlet: Outlet, *, int_port: int | None = None) -> None:
        """`int_port`: UDP port that announces INT. Raises MonitorError for an unknown monitor."""
        self._monitors = list(make_monitors(monitors).values())
        self._outlet = outlet
        ports = () if int_port is None else (int_port,)
        self._decoder = Decoder(replace(DEFAULT, int_ports=ports))
        self._decoder.decode(FrameBatch(np.zeros(0, np.uint8), np.zeros(0, FRAME)))  # loads the kernel
        self._packets = 0
        self.made = 0
        """Number of reports that monitors made."""
        self.sent = 0
        """Number of reports that were sent."""

    def take(self, datagrams: FrameBatch) -> None:
        """Pass the contents of these datagrams to the monitors, and send their reports."""
        batch = self._decoder.decode(datagrams)
        seen = observations_of(batch, self._packets, time.time_ns())
        self._packets += len(batch.reports)
        for monitor in self._monitors:
            reports = monitor.observe(seen)
            if not len(reports):
                continue
            if monitor.first_list:
                reports.number_lists_from(monitor.first_list)
            self.made += len(reports)
            self.sent += self._outlet.take(reports)

    def turn(self) -> int:
        """Let the outlet do the work that is due; returns how much was done."""
        return self._outlet.turn()

    def drain(self) -> None:
        """Does nothing: only the outlet holds reports back."""

    def close(self) -> None:
        """Close the outlet."""
        self._outlet.close()
