"""Counters of a switch's programs, and of the process that sends its reports."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ..bpf.layout import MAX_PROCESSORS
from ..bpf.map_shape import mapped
from ..bpf.tc import pinned
from ..capture.errors import CaptureError
from .layout import COUNTERS, SENDER, ReportCount, SwitchCount


@dataclass(frozen=True, slots=True)
class Counters:
    """Counters since the first `attach`."""

    packets: dict[SwitchCount, int]
    """Packets by outcome."""
    reports: dict[ReportCount, int]
    """Reports by outcome."""

    def rows(self) -> Iterator[tuple[str, int]]:
        """(name, value) of each counter."""
        yield from ((count.label, number) for count, number in self.packets.items())
        yield from ((count.label, number) for count, number in self.reports.items())


def read_counters(pins: Path) -> Counters:
    """Counters of the attached programs. Raises CaptureError if none is attached."""
    try:
        descriptor = pinned(pins / "counters")
    except CaptureError as error:
        raise CaptureError(f"nothing is attached: {error}") from error
    sender = pinned(pins / "sender")
    try:
        return counters_of(descriptor, sender)
    finally:
        os.close(descriptor)
        os.close(sender)


def counters_of(counters: int, sender: int) -> Counters:
    """Counters in two maps, given by their descriptors. Raises CaptureError."""
    rows = mapped(counters, COUNTERS, MAX_PROCESSORS, "counters").copy()
    (process,) = mapped(sender, SENDER, 1, "sender").copy()
    packets, reports = rows["packets"].sum(axis=0), rows["reports"].sum(axis=0)
    sent = {
        ReportCount.SENT: int(process["reports"]),
        ReportCount.DATAGRAMS: int(process["datagrams"]),
        ReportCount.FAILED: int(process["failed"]),
    }
    return Counters(
        {count: int(packets[count]) for count in SwitchCount},
        {count: sent[count] if count in sent else int(reports[count]) for count in ReportCount},
    )
