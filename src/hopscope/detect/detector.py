"""The detector: report batches in, event blocks out, state in regions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..settings.collector import DetectSettings
from ..wire.records import Records, ReportBatch
from .counters import COUNTERS, INDEX
from .flows.state import StateReader
from .flows.tables import memory_bytes, open_tables
from .records import EVENT, HOP_STATE, METRICS, NEVER, Kind
from .thresholds import Table, open_control, read_limits

__all__ = ["Detector", "StateReader", "memory_bytes"]

EVENT_BUFFER = 8192
SMALLEST_BUFFER = 1024
"""One report of 64 hops, or one row of the flow table, can cause most of so many events."""
SLICES = 8
"""A table is swept so many times in a push period."""

NARROW = 1 << 40
"""A T that no difference reaches: values are at most 64 times 2^32."""

_TALLIED = (
    "values_total",
    "flow_evictions_total",
    "flow_expiries_total",
    "port_table_full_total",
    "source_table_full_total",
    "hop_pool_full_total",
    "hops_without_node_id_total",
    "lost_reports",
    "duplicate_reports_total",
    "reordered_reports_total",
)
_SLOTS = np.array([INDEX[f"events_total.{kind.label}"] for kind in Kind] + [INDEX[key] for key in _TALLIED])


class Detector:
    """State of one shard, and the events that reports cause in it.

    `folder` holds the regions `worker-SHARD.flows`, `.ports`, `.sources` and `control.region`; existing
    ones of the same settings are continued.  None: private memory.  `counters` is a block in the order of
    `metrics.COUNTERS`, which is added to.  Set `next_sequence` before the first update to continue a
    journal.
    """

    def __init__(
        self,
        settings: DetectSettings,
        folder: Path | None = None,
        shard: int = 0,
        counters: npt.NDArray[np.uint64] | None = None,
        event_buffer: int = EVENT_BUFFER,
    ) -> None:
        from ..base.jit import readonly
        from .flows import detect_kernel, event_kernel, sweep_kernel

        if event_buffer < SMALLEST_BUFFER:
            raise ValueError(
                f"an event buffer of {event_buffer} is too small; {SMALLEST_BUFFER} is the least"
            )
        self.settings = settings
        self.counters = np.zeros(len(COUNTERS), np.uint64) if counters is None else counters
        self.next_sequence = 0
        self.control = open_control(folder, settings.thresholds)
        self.tables = open_tables(settings, folder, shard)
        self._readonly = readonly
        self._kernels: Any = detect_kernel
        self._sweeps: Any = sweep_kernel
        self._events = np.zeros(event_buffer, EVENT)
        self._tally = np.zeros(event_kernel.TALLY, np.uint64)
        self._knobs = np.zeros(event_kernel.KNOBS, np.uint64)
        self._knobs[event_kernel.ENABLED] = settings.enabled
        self._knobs[event_kernel.PORT_QUEUES] = settings.queue_key == "switch-port-queue"
        self._knobs[event_kernel.SHARD] = shard
        self._sequence_knob = event_kernel.SEQUENCE
        self._scratch = (
            np.zeros(2 * detect_kernel.BLOCK, np.uint64),  # hashes, then ways
            np.zeros(64, np.uint32),  # path
            np.zeros(64, np.uint64),  # where
            np.zeros(64, HOP_STATE),  # spare
        )
        flows = self.tables["flows"]
        self._rows = flows["rows"].view(np.uint32)
        self._flows = (self._rows, flows["flows"], flows["hops"], flows["pool"])
        self._ports = self.tables["ports"]["ports"]
        self._sources = self.tables["sources"]["sources"]
        self._sweep = Sweep(settings, len(flows["rows"]), len(self._ports))
        self._seen_limits = b""
        self._limits = read_limits(self.control)
        self._quiet = np.zeros(3 * METRICS, np.uint64)

    @property
    def thresholds(self) -> Table:
        """THRESHOLD[METRICS] in force, read at every update; read-only where the supervisor owns it."""
        table: Table = self.control["thresholds"]
        return table

    def update(self, batch: ReportBatch) -> Iterator[Records]:
        """Take reports in; yield blocks of EVENT records, each valid until the next is asked for.

        The state is up to date once the iterator is exhausted.
        """
        self._read_limits()
        reports, hops = self._readonly(batch.reports), self._readonly(batch.hops)
        at = 0
        while at < len(reports):
            self._knobs[self._sequence_knob] = self.next_sequence
            at, count = self._kernels.update_kernel(
                reports,
                at,
                hops,
                *self._flows,
                self._ports,
                self._sources,
                self._limits,
                self._quiet,
                self._knobs,
                self._events,
                self._tally,
                *self._scratch,
            )
            yield from self._block(count)

    def tick(self, now_ns: int) -> Iterator[Records]:
        """Push live values, expire idle keys, tell silent sources: slices of the tables, by the time passed.

        Call it about every 100 ms, or after every batch; `now_ns` is on the clock of the reports' `time_ns`.
        """
        idle = int(self.settings.idle_seconds * 1e9)
        push = self._sweep.due_ns
        events, tally, knobs, path = self._events, self._tally, self._knobs, self._scratch[1]
        rows, ports, sources = self._sweep.advance(now_ns)
        for start, end in rows:
            at = start
            while at < end:
                knobs[self._sequence_knob] = self.next_sequence
                at, count = self._sweeps.sweep_flows(
                    *self._flows, at, end, now_ns, idle, push, events, tally, knobs, path
                )
                yield from self._block(count)
        for start, end in ports:
            at = start
            while at < end:
                knobs[self._sequence_knob] = self.next_sequence
                at, count = self._sweeps.sweep_ports(
                    self._ports, at, end, now_ns, idle, push, events, tally, knobs
                )
                yield from self._block(count)
        at = 0
        silent = int(self.settings.silent_seconds * 1e9)
        while sources and at < len(self._sources):
            knobs[self._sequence_knob] = self.next_sequence
            at, count = self._sweeps.sweep_sources(self._sources, at, now_ns, silent, events, tally, knobs)
            yield from self._block(count)

    def _block(self, count: int) -> Iterator[Records]:
        """Fold the tally into the counters; yield the events, if there are any."""
        self.counters[_SLOTS] += self._tally[1:]  # a wrapped negative number subtracts
        self._tally[:] = 0
        self.next_sequence += int(count)
        if count:
            yield self._events[: int(count)]

    def _read_limits(self) -> None:
        """Make the limits that the kernel reads from the thresholds, where these have changed."""
        raw = self.thresholds.tobytes()
        if raw == self._seen_limits:
            return
        table = read_limits(self.control)
        span = np.minimum(table["change"], np.uint64(NARROW))
        self._quiet[:] = np.stack([span, span * np.uint64(2), table["raise_above"]], axis=1).reshape(-1)
        self._seen_limits = table.tobytes()
        self._limits = table
        change = table["change"]
        change[:] = np.where(change == NEVER, change, change + np.uint64(1))
        if not self.settings.enabled:
            change[:] = 0


class Sweep:
    """Which rows of the tables are due, so that each is swept `SLICES` times in a push period."""

    def __init__(self, settings: DetectSettings, rows: int, ports: int) -> None:
        period = min(settings.push_seconds or settings.idle_seconds, settings.idle_seconds) / SLICES
        self.period_ns = max(int(period * 1e9), 1)
        self.due_ns = max(int(settings.push_seconds * 1e9) - self.period_ns // 2, 0)
        self._silent_ns = int(settings.silent_seconds * 1e9)
        self._lengths = (rows, ports)
        self._last_ns: int | None = None
        self._looked_ns = 0
        self._done = 0.0

    def advance(self, now_ns: int) -> tuple[list[tuple[int, int]], list[tuple[int, int]], bool]:
        """Slices of the flow rows and of the port rows since the last call, and whether sources are due."""
        last = now_ns if self._last_ns is None else self._last_ns
        self._last_ns = now_ns
        share = min(max(now_ns - last, 0) / self.period_ns, 1.0)
        begin, self._done = self._done, self._done + share
        slices: list[list[tuple[int, int]]] = []
        for length in self._lengths:
            first, stop = int(begin * length), int(self._done * length)
            slices.append(
                [(first, min(stop, length)), (0, stop - length)] if stop > length else [(first, stop)]
            )
        self._done %= 1.0
        sources = self._silent_ns > 0 and abs(now_ns - self._looked_ns) >= self._silent_ns // 16
        if sources:
            self._looked_ns = now_ns
        return slices[0], slices[1], sources
