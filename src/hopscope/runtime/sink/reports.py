"""Telemetry Reports that a sink sends to another collector: about packets, events, or flows.

Reports of packets and events hold the packet itself with its INT (`wire.enclose`), those of flows an
aggregate (`detect.sink.flow_report`). The sink does not wait for the socket: reports that it does not take at
once are dropped and counted; the collector sees a gap in the sequence numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Protocol

import numpy as np
import numpy.typing as npt

from ...capture.errors import CaptureError
from ...capture.udp.sender import UdpSender
from ...detect.sink.flow_report import flow_reports
from ...detect.sink.live import LiveFlows
from ...memory.region import Region
from ...settings.section import host_and_port
from ...settings.sink import SinkReportSettings
from ...wire.encode.encapsulate import carries_stack, enclose
from ...wire.records import FRAME, REPORT, FrameBatch, Records, ReportBatch
from ...wire.versions import REPORT_VERSIONS
from ..pipeline.steps import Stage

_HW_IDS = 64
_MAX_REPORTS = 4096
"""How many reports are built at a time."""


class Findings(Protocol):
    """The findings of a `SinkDetector` that are reported."""

    @property
    def event_rows(self) -> npt.NDArray[np.uint32]:
        """Rows of the last batch that caused events, without duplicates."""

    @property
    def tables(self) -> Mapping[str, Region]:
        """The detector's tables; `flows` is the flow table."""

    on_eviction: Callable[[Records], object] | None
    """Called with each block of EVICTED records, which is valid during the call."""


class SinkReporter(Stage):
    """Sends the reports of one worker: of packets, events or flows, as `settings.when` says.

    Its sequence numbers begin with 0; its hw id is the number of the worker, so that each has a sequence
    space of its own. `count` adds to a counter of `detect.counters.COUNTERS`. Raises CaptureError if the
    collector's name cannot be resolved.
    """

    def __init__(
        self,
        settings: SinkReportSettings,
        detector: Findings,
        count: Callable[[str, int], object],
        shard: int = 0,
    ) -> None:
        self._when = settings.when
        self._detector = detector
        self._count = count
        self._version, self._node = REPORT_VERSIONS[settings.version], settings.node
        self._hw_id = shard % _HW_IDS
        self._unreachable = 0
        self._live: LiveFlows | None = None
        self._evicted: list[Records] = []
        if self._when == "flow":
            detector.on_eviction = self._evict
            if settings.flow_seconds:
                self._live = LiveFlows(detector.tables["flows"], settings.flow_seconds, shard)
        self.sequence = 0
        """Number of the next report, unbounded: its low 22 bits are sent in version 2.0, 32 in the others."""
        host, port = host_and_port(settings.to, least=1)
        self._sender = UdpSender(host, port)
        nothing = FrameBatch(np.zeros(0, np.uint8), np.zeros(0, FRAME))  # loads the kernel
        enclose(nothing, np.zeros(0, REPORT), version=self._version, node_id=0, hw_id=0, sequence=0)

    def update(self, batch: ReportBatch, frames: FrameBatch | None) -> None:
        """Report packets of the batch that the detector took last, decoded from `frames`."""
        if self._when == "flow" or frames is None:
            return
        rows = batch.reports if self._when == "packet" else batch.reports[self._detector.event_rows]
        self._send(partial(enclose, frames), rows[carries_stack(rows)])

    def tick(self, now_ns: int) -> None:
        """Report evicted flows, and live ones that are due at `now_ns` (ns since the epoch)."""
        if self._when != "flow":
            return
        self._send_evicted()
        if self._live is not None:
            self._send(flow_reports, self._live.due(now_ns))

    def _evict(self, flows: Records) -> None:
        """Keep a copy until the next tick, or report at once if there are many."""
        self._evicted.append(flows.copy())
        if sum(map(len, self._evicted)) >= _MAX_REPORTS:
            self._send_evicted()

    def _send_evicted(self) -> None:
        if self._evicted:
            evicted, self._evicted = np.concatenate(self._evicted), []
            self._send(flow_reports, evicted)

    def close(self) -> None:
        """Report the flows that the detector evicted when it ended, and close the socket."""
        self._live = None
        self.tick(0)
        self._sender.close()

    def _send(self, made: Callable[..., FrameBatch], records: Records) -> None:
        """Hand reports to the socket; dropped reports use up their sequence numbers."""
        for at in range(0, len(records), _MAX_REPORTS):
            reports = made(
                records[at : at + _MAX_REPORTS],
                version=self._version,
                node_id=self._node,
                hw_id=self._hw_id,
                sequence=self.sequence,
            )
            self.sequence += len(reports)
            before = self._sender.sent
            with suppress(CaptureError):  # no route, or the interface is down: tried again with the next
                self._sender.send(reports, wait=False)
            sent = self._sender.sent - before
            self._count("sink_reports_total", sent)
            self._count("sink_report_drops_total", len(reports) - sent)
        self._count("sink_reports_unreachable_total", self._sender.unreachable - self._unreachable)
        self._unreachable = self._sender.unreachable
