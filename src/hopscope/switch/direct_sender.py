"""The DTA reporter of a switch: observations from its reports, and from these reports of monitors."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from ..capture.errors import CaptureError
from ..capture.udp.sender import UdpSender
from ..direct.monitors.monitor import Reports, no_reports
from ..direct.monitors.registry import make_monitors
from ..direct.reporter import Reporter
from ..wire.decode.decoder import Decoder
from ..wire.dialect import DEFAULT
from ..wire.dta.forms import Form
from ..wire.observation import OBSERVATION, flow_bytes, fold
from ..wire.reasons import Reason
from ..wire.records import FRAME, Carried, FrameBatch, Have, Records, ReportBatch


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


_MAPPED, _ONES_32 = np.uint64(0xFFFF), np.uint64(0xFFFFFFFF)


def observations_of(batch: ReportBatch, first: int, now_ns: int) -> Records:
    """OBSERVATION records: every hop of every accepted report with a flow, in path order.

    `first`: number of the first report; observations of one packet have the same number. A report with a
    path and a hop of its own comes from a sink.
    """
    carried = batch.reports["carried"]
    reports = batch.reports[(batch.reports["reason"] == Reason.NONE) & (carried & Carried.FLOW != 0)]
    own = (reports["carried"] & Carried.OWN_HOP != 0).astype(np.int64)
    hops = reports["hop_count"].astype(np.int64) + own
    counts = np.maximum(hops, 1)  # a report without hops still shows a packet at its node
    of = np.repeat(np.arange(len(reports)), counts)
    place = np.arange(len(of)) - np.repeat(np.cumsum(counts) - counts, counts)
    report, has = reports[of], hops[of] > 0
    hop = batch.hops[np.where(has, report["first_hop"] + place, 0)] if len(batch.hops) else None
    is_own = place >= report["hop_count"]
    seen = np.zeros(len(of), OBSERVATION)
    seen["time_ns"], seen["packet"] = now_ns, first + of
    for name, source, bit in (
        ("switch", "node_id", Have.NODE_ID), ("hop_latency", "hop_latency", Have.HOP_LATENCY),
        ("queue_depth", "queue_occupancy", Have.QUEUE_OCCUPANCY),
        ("ingress_port", "ingress_port", Have.PORTS), ("egress_port", "egress_port", Have.PORTS),
    ):  # fmt: skip
        if hop is not None:
            known = has & (hop["present"] & bit != 0) & (hop["null"] & bit == 0)
            seen[name] = np.where(known, hop[source], 0)
    seen["switch"][is_own] = report["node_id"][is_own]
    seen["hop"], seen["path_length"] = np.minimum(place + 1, 255), np.minimum(counts[of], 255)
    seen["is_sink"] = is_own & (report["hop_count"] > 0)
    seen["drop_reason"] = np.where(is_own, report["drop_reason"], 0)
    seen["size"], seen["ip_version"] = report["inner_length"], report["ip_version"]
    ends = (_folded(report["src_hi"], report["src_lo"]), _folded(report["dst_hi"], report["dst_lo"]))
    seen["flow"] = flow_bytes(*ends, report["proto"], report["sport"], report["dport"])
    return seen


def _folded(high: npt.NDArray[np.uint64], low: npt.NDArray[np.uint64]) -> npt.NDArray[Any]:
    """Addresses folded to 32 bits; IPv6 addresses are folded one by one."""
    folded = low & _ONES_32
    for row in np.flatnonzero((high != 0) | (low >> np.uint64(32) != _MAPPED)).tolist():
        folded[row] = fold(int(high[row]), int(low[row]))
    return folded
