"""The work of `hopscope switch run`: sends reports (also as DTA) and labels, and follows the clock."""

from __future__ import annotations

from ..base.process.loop import Process
from ..settings.section import host_and_port
from ..wire.records import FrameBatch
from .clock import ClockFollower
from .direct_sender import DirectSender, Outlet
from .labels.sender import LabelSender
from .sender import ReportSender
from .settings import SwitchSettings


class Senders:
    """All senders that the settings name, as one."""

    def __init__(self, settings: SwitchSettings, outlet: Outlet | None = None) -> None:
        """`outlet`: destination of DTA. Raises CaptureError if nothing is attached, another process sends, or
        a name is unknown.
        """
        self._senders: list[Process] = [ClockFollower(settings.pins)]
        self.rings: list[int] = []
        """Descriptors of their rings."""
        self.places: list[str] = []
        """Lines for people that say which data is sent where."""
        to, direct, label = settings.collector, settings.direct, settings.label
        reporter = None
        if outlet is not None and direct is not None:
            reporter = DirectSender(direct.monitors, outlet, int_port=settings.port)
            self.places.append(f"DTA goes to {direct.place}")
        if to or reporter is not None:
            place = host_and_port(to) if to else ("", 0)
            also = _nothing if reporter is None else reporter.take
            reports = ReportSender(settings.pins, settings.node_id, *place, also=also)
            self._add(reports, reports.ring, f"reports go to {to}" if to else "")
        if reporter is not None:
            self._senders.append(reporter)  # it must close after the senders that feed it
        if label is not None and label.collector:
            labels = LabelSender(settings.pins, *host_and_port(label.collector))
            self._add(labels, labels.ring, f"labels go to {label.collector}")

    def _add(self, sender: Process, ring: int, place: str) -> None:
        self._senders.append(sender)
        self.rings.append(ring)
        self.places += [place] if place else []

    def turn(self) -> int:
        """Send everything that waits; returns how much was sent."""
        return sum(sender.turn() for sender in self._senders)

    def drain(self) -> None:
        """Send the rest."""
        for sender in self._senders:
            sender.drain()

    def close(self) -> None:
        """Release rings and sockets."""
        for sender in self._senders:
            sender.close()


def _nothing(_: FrameBatch) -> None:
    """For reports that go only to the collector."""
