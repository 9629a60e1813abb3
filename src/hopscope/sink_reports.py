"""Telemetry Reports that a sink sends to another collector: of packets, of events, or of flows.

Reports of packets and events hold the packet itself with its INT (`wire.enclose`), those of flows an
aggregate (`detect.sink.flow_report`).  Nothing waits for the socket: what it does not take at once is
dropped, counted, and seen by the collector as a gap in the sequence numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from urllib.parse import urlsplit

import numpy as np
import numpy.typing as npt

from .capture.errors import CaptureError
from .capture.udp_sender import UdpSender
from .config_sink import SinkReportSettings
from .metrics import INDEX
from .wire.enclose import carries_stack, enclose
from .wire.records import FrameBatch, Records, ReportBatch

_VERSIONS = {"0.5": 5, "1.0": 10, "2.0": 20}
_HW_IDS = 64
_MOST = 4096
"""Reports built at once."""


def collector_address(text: str) -> tuple[str, int]:
    """Host and port of `192.0.2.1:32766`, `[2001:db8::1]:32766` or `collector:32766`. Raises CaptureError."""
    try:
        parts = urlsplit(f"//{text}")
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
    if not host or not port or parts.path or parts.username is not None:
        raise CaptureError(f"sink.report.to: found {text!r}, expected HOST:PORT, as 192.0.2.1:32766")
    return host, port


class SinkReporter:
    """Sends the reports of one worker; only those of `settings.when`, so a worker may offer it everything.

    Its sequence numbers begin with 0; its hw id is the number of the worker (its low 6 bits), so that each
    has a sequence space of its own.  `counters` is a block in the order of `metrics.COUNTERS`.  `live` gives
    EVICTED records of living flows that are due at a time (`detect.sink.live`).  Raises CaptureError where
    the collector's name cannot be resolved.
    """

    def __init__(
        self,
        settings: SinkReportSettings,
        counters: npt.NDArray[np.uint64],
        shard: int = 0,
        live: Callable[[int], Records] | None = None,
    ) -> None:
        self._when = settings.when
        self._version = _VERSIONS[settings.version]
        self._node = settings.node
        self._hw_id = shard % _HW_IDS
        self._counters = counters
        self._live = live if settings.flow_seconds else None
        self._refused = 0
        self.sequence = 0
        """Of the next report, without a bound: 22 bits of it are sent in 2.0, 32 in the others."""
        host, port = collector_address(settings.to)
        self._sender = UdpSender(host, port)

    def packets(self, frames: FrameBatch, batch: ReportBatch) -> None:
        """Report packets with INT-MD of a batch, which was decoded from `frames`."""
        if self._when == "packet":
            self._enclose(frames, batch.reports)

    def events(self, frames: FrameBatch, batch: ReportBatch, rows: npt.NDArray[np.uint32]) -> None:
        """Report packets that caused an event: `rows` of the batch (`SinkDetector.event_rows`), each once."""
        if self._when == "event" and len(rows):
            self._enclose(frames, batch.reports[rows])

    def flows(self, records: Records) -> None:
        """Report flows that left: EVICTED records."""
        if self._when != "flow":
            return
        from .detect.sink.flow_report import flow_reports

        for at in range(0, len(records), _MOST):
            part = records[at : at + _MOST]
            self._send(
                flow_reports(
                    part,
                    version=self._version,
                    node_id=self._node,
                    hw_id=self._hw_id,
                    sequence=self.sequence,
                )
            )

    def tick(self, now_ns: int) -> None:
        """Report living flows that are due at `now_ns` (ns since the epoch)."""
        if self._when == "flow" and self._live is not None:
            self.flows(self._live(now_ns))

    def close(self) -> None:
        """Close the socket; what was sent is on its way."""
        self._sender.close()

    def _enclose(self, frames: FrameBatch, rows: Records) -> None:
        rows = rows[carries_stack(rows)]
        for at in range(0, len(rows), _MOST):
            part = rows[at : at + _MOST]
            self._send(
                enclose(
                    frames,
                    part,
                    version=self._version,
                    node_id=self._node,
                    hw_id=self._hw_id,
                    sequence=self.sequence,
                )
            )

    def _send(self, reports: FrameBatch) -> None:
        """Hand reports to the socket; their numbers are used up whether it takes them or not."""
        self.sequence += len(reports)
        before = self._sender.sent
        with suppress(CaptureError):  # no route, or the interface is down: tried again with the next
            self._sender.send(reports, wait=False)
        sent = self._sender.sent - before
        self._count("sink_reports_total", sent)
        self._count("sink_report_drops_total", len(reports) - sent)
        self._count("sink_report_refusals_total", self._sender.refused - self._refused)
        self._refused = self._sender.refused

    def _count(self, key: str, more: int) -> None:
        self._counters[INDEX[key]] += np.uint64(more)
