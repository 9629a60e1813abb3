"""What `hopscope switch run` sends: reports of INT, and labels."""

from __future__ import annotations

from ..base.loop import Process
from ..settings.section import host_and_port
from ..wire.records import FrameBatch
from .direct_sender import DirectSender, DtaOutlet
from .label_sender import LabelSender
from .sender import ReportSender
from .settings import SwitchSettings


class Senders:
    """The senders of the settings, as one."""

    def __init__(self, settings: SwitchSettings) -> None:
        """Raises CaptureError: nothing is attached, another process sends, or a name is not known."""
        self._senders: list[Process] = []
        self._direct: DirectSender | None = None
        self.rings: list[int] = []
        """Descriptors of their rings."""
        self.places: list[str] = []
        """What goes where, for people."""
        to, direct = settings.collector, _direct(settings)
        if to or direct is not None:
            if direct is not None and settings.direct is not None:
                self._direct = direct
                self.places.append(f"DTA goes to {settings.direct.translator}")
            place = host_and_port(to) if to else ("", 0)
            also = direct.take if direct is not None else _nothing
            reports = ReportSender(settings.pins, settings.node_id, *place, also=also)
            self._add(reports, reports.ring, f"reports go to {to}" if to else "")
        if settings.label is not None and settings.label.collector:
            labels = LabelSender(settings.pins, *host_and_port(settings.label.collector))
            self._add(labels, labels.ring, f"labels go to {settings.label.collector}")

    def _add(self, sender: Process, ring: int, place: str) -> None:
        self._senders.append(sender)
        self.rings.append(ring)
        self.places += [place] if place else []

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
        if self._direct is not None:
            self._direct.close()


def _nothing(_: FrameBatch) -> None:
    """Reports go to the collector alone."""


def _direct(settings: SwitchSettings) -> DirectSender | None:
    """The reporter of DTA, if there is a translator."""
    if settings.direct is None or not settings.direct.translator:
        return None
    outlet = DtaOutlet(*host_and_port(settings.direct.translator))
    return DirectSender(settings.direct.monitors, outlet, int_port=settings.port)
