"""Receives Telemetry Reports at an interface: the ring of `listener`, read as datagrams to one port."""

from __future__ import annotations

import time

import numpy as np

from ..layout import SETUP_SLOTS, Ring, Setup
from ..limits import RateLimit, source_ranges
from .listener import RingListener


class ReportListener(RingListener):
    """Datagrams to one port that arrive at one interface, as frames (Link.UDP_PAYLOAD).

    A frame that is not a plain, complete datagram is left to the decoder (Link.ETHERNET), which finds the
    problem. Trains of datagrams that the kernel merged are split. Checksums are not verified.
    """

    def prepare(self) -> None:
        """Compile and allocate, without a socket."""
        from ...base.kernels.jit import readonly
        from .report_kernel import walk_reports

        settings = self.settings
        limit = RateLimit(settings.rate_limit, settings.rate_burst, ipv6_prefix=settings.rate_ipv6_prefix)
        self._buckets = limit.buckets
        self._allow = readonly(source_ranges(settings.allow))
        self._limits = np.zeros(SETUP_SLOTS, np.uint64)
        self._limits[Setup.PORT] = settings.port
        limit.write_setup(self._limits)
        self._walk_reports = walk_reports
        self._allocate()
        self._fill()

    def _fill(self) -> int:
        return int(
            self._walk_reports(
                self._ring,
                self._frames,
                self._setup,
                self._state,
                self._allow,
                self._buckets,
                self._limits,
                time.monotonic_ns(),
            )
        )

    def counts(self) -> dict[str, int]:
        """Includes datagrams that were not accepted, by key of `detect.counters.COUNTERS`."""
        return {
            **super().counts(),
            "denied_frames_total": int(self._state[Ring.DENIED]),
            "rate_limited_frames_total": int(self._state[Ring.LIMITED]),
        }
