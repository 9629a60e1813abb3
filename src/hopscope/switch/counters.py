"""Counters of a switch's programs, and of the process that sends its reports."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..bpf.layout import MAX_PROCESSORS
from ..bpf.tc import pinned_memory
from ..capture.errors import CaptureError
from ..wire.records import Records
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
        rows = pinned_memory(pins / "counters", COUNTERS, MAX_PROCESSORS)
    except CaptureError as error:
        raise CaptureError(f"nothing is attached: {error}") from error
    return counters_of(rows, pinned_memory(pins / "sender", SENDER)[0])


def counters_of(rows: Records, process: np.void) -> Counters:
    """The counters in COUNTERS [processors] of the programs, and in SENDER."""
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
