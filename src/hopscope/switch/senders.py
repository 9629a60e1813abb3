"""What `hopscope switch run` sends: reports of INT, and labels."""

from __future__ import annotations

from ..base.loop import Process
from ..settings.section import host_and_port
from .label_sender import LabelSender
from .sender import ReportSender
from .settings import SwitchSettings


class Senders:
    """The senders of the settings, as one."""

    def __init__(self, settings: SwitchSettings) -> None:
        """Raises CaptureError: nothing is attached, another process sends, or a name is not known."""
        self._senders: list[Process] = []
        self.rings: list[int] = []
        """Descriptors of their rings."""
        self.places: list[str] = []
        """What goes where, for people."""
        if settings.collector:
            reports = ReportSender(settings.pins, settings.node_id, *host_and_port(settings.collector))
            self._add(reports, reports.ring, f"reports go to {settings.collector}")
        if settings.label is not None and settings.label.collector:
            labels = LabelSender(settings.pins, *host_and_port(settings.label.collector))
            self._add(labels, labels.ring, f"labels go to {settings.label.collector}")

    def _add(self, sender: Process, ring: int, place: str) -> None:
        self._senders.append(sender)
        self.rings.append(ring)
        self.places.append(place)

    def turn(self) -> int:
        """Send what is there; returns how much."""
        return sum(sender.turn() for sender in self._senders)

    def drain(self) -> None:
        """Send the rest."""
        for sender in self._senders:
            sender.drain()

    def close(self) -> None:
        """Let go of rings and sockets."""
        for sender in self._senders:
            sender.close()
