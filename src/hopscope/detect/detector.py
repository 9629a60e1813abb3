"""The detector: report batches in, event blocks out, state in regions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..base.hash_keys import hash_keys
from ..settings.detect import DetectSettings
from ..wire.records import Records, ReportBatch
from .counters import COUNTERS, INDEX, tally_slots
from .flows.tables import alarms_in, open_tables
from .records import EVENT, HOP_STATE, KEYS, METRICS, NEVER
from .sweep import Sweep
from .switch_limits import overrides, resolve
from .thresholds import open_control, read_tables

EVENT_BUFFER = 8192
MIN_EVENT_BUFFER = 2048
"""One report of 64 hops, or one row of the flow table, can cause almost as many events."""
MAX_CHANGE = 1 << 40
"""A threshold T that no difference exceeds: values are at most 64 times 2^32."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Limits and settings of a detector in the form that its kernels take (`detect_kernel.update_kernel`)."""

    limits: Records
    """THRESHOLD [rows * METRICS]: METRICS of all switches, then of each switch in `overrides`."""
    overrides: npt.NDArray[np.uint64]
    """Switches with limits of their own, see `event_kernel.limits_of`."""
    knobs: npt.NDArray[np.uint64]
    """Hash keys, then settings, uint64 [event_kernel.KNOBS]."""
    changes: int
    """Counter that every change of the limits increases."""


class Detector:
    """State of one shard; turns reports into events.

    `folder` holds the regions `worker-SHARD.flows`, `.ports`, `.sources` and `control.region`; regions that
    exist and have the same settings are continued. None: private memory. `counters` is an array in the
    order of `counters.COUNTERS`; the detector adds to it. The keys of its hash tables, and therefore the
    flow ids, are derived from `secret`, which must not change while state is continued.
    """

    def __init__(
        self,
        settings: DetectSettings,
        folder: Path | None = None,
        shard: int = 0,
        counters: npt.NDArray[np.uint64] | None = None,
        event_buffer: int = EVENT_BUFFER,
        *,
        secret: bytes = b"",
    ) -> None:
        from ..base.kernels.jit import readonly
        from .flows import ahead_kernel, detect_kernel, event_kernel, sweep_kernel
        from .tally_kernel import settle

        if event_buffer < MIN_EVENT_BUFFER:
            raise ValueError(
                f"an event buffer of {event_buffer} is too small; the minimum is {MIN_EVENT_BUFFER}"
            )
        self.settings = settings
        self.counters = np.zeros(len(COUNTERS), np.uint64) if counters is None else counters
        self.control = open_control(folder, settings.limits)
        self.tables = open_tables(settings, folder, shard)
        self._readonly = readonly
        self._kernels: Any = detect_kernel
        self._sweeps: Any = sweep_kernel
        self._events = np.zeros(event_buffer, EVENT)
        self._tally = np.zeros(event_kernel.TALLY, np.uint64)
        self._settle = settle
        self._settled = (self._tally, *tally_slots(flows=event_kernel), self.counters)
        self._knobs = np.zeros(event_kernel.KNOBS, np.uint64)
        self._knobs[:KEYS] = hash_keys(secret, KEYS)
        self._knobs[event_kernel.ENABLED] = settings.enabled
        self._knobs[event_kernel.PORT_QUEUES] = settings.queue_by_port
        self._scratch = (
            np.zeros(2 * int(ahead_kernel.SLOTS), np.uint64),  # hashes, then ways
            np.zeros(64, np.uint32),  # path
            np.zeros(64, np.uint64),  # where
            np.zeros(64, HOP_STATE),  # old_hops
        )
        flows = self.tables["flows"]
        self._flows = (flows["rows"].view(np.uint32), flows["flows"], flows["hops"], flows["pool"])
        self._ports = (self.tables["ports"]["ports"], self.tables["ports"]["shares"])
        self._sources = (self.tables["sources"]["sources"], self.tables["sources"]["shares"])
        for name, count in alarms_in(self.tables).items():
            self.counters[INDEX[f"alarms.{name}"]] = count
        self._sweep = Sweep(settings, len(flows["rows"]), len(self._ports[0]))
        self._bounds = np.zeros(3 * METRICS, np.uint64)
        self._changes = self.control["changes"].data  # four times as fast to read as an array
        self._seen_changes = -1
        self._read_limits()

    def update(self, batch: ReportBatch) -> Iterator[Records]:
        """Process reports; yield blocks of EVENT records, each valid until the next block is requested.

        The writer of the events sets their `sequence` and `shard`. The state is up to date once the iterator
        is exhausted.
        """
        self._read_limits()
        reports, hops = self._readonly(batch.reports), self._readonly(batch.hops)
        at = 0
        while at < len(reports):
            at, count = self._kernels.update_kernel(
                reports,
                at,
                hops,
                *self._flows,
                *self._ports,
                *self._sources,
                self._limits,
                self._overrides,
                self._bounds,
                self._knobs,
                self._events,
                self._tally,
                *self._scratch,
            )
            yield from self._block(count)

    @property
    def comparison(self) -> Comparison:
        """The limits and settings in force."""
        self._read_limits()
        return Comparison(self._limits, self._overrides, self._knobs, self._seen_changes)

    def tick(self, now_ns: int) -> Iterator[Records]:
        """Push live values, expire idle keys, report silent sources: a slice of each table per call.

        Call it about every 100 ms, or after every batch; `now_ns` is on the clock of the reports' `time_ns`.
        """
        idle = int(self.settings.idle_seconds * 1e9)
        push = self._sweep.due_ns
        events, tally, knobs, path = self._events, self._tally, self._knobs, self._scratch[1]
        rows, ports, sources = self._sweep.advance(now_ns)
        for start, end in rows:
            at = start
            while at < end:
                at, count = self._sweeps.sweep_flows(
                    *self._flows, at, end, now_ns, idle, push, events, tally, knobs, path
                )
                yield from self._block(count)
        for start, end in ports:
            at = start
            while at < end:
                at, count = self._sweeps.sweep_ports(
                    *self._ports, at, end, now_ns, idle, push, events, tally, knobs
                )
                yield from self._block(count)
        at = 0
        silent = int(self.settings.silent_seconds * 1e9)
        while sources and at < len(self._sources[0]):
            at, count = self._sweeps.sweep_sources(self._sources[0], at, now_ns, silent, events, tally)
            yield from self._block(count)

    def end(self, now_ns: int) -> Iterator[Records]:
        """Remove all flows and end all alarms: yield a flow record of every live flow, and CLEARED of every
        alarm.
        """
        events, tally, knobs, path = self._events, self._tally, self._knobs, self._scratch[1]
        at = 0
        while at < len(self.tables["flows"]["rows"]):
            at, count = self._sweeps.sweep_flows(
                *self._flows, at, len(self.tables["flows"]["rows"]), now_ns, -1, 0, events, tally, knobs, path
            )
            yield from self._block(count)
        at = 0
        while at < len(self._ports[0]):
            at, count = self._sweeps.sweep_ports(
                *self._ports, at, len(self._ports[0]), now_ns, -1, 0, events, tally, knobs
            )
            yield from self._block(count)

    def _block(self, count: int) -> Iterator[Records]:
        """Add the tally to the counters; yield the events, if there are any."""
        self._settle(*self._settled)
        if count:
            yield self._events[: int(count)]

    def _read_limits(self) -> None:
        """Prepare the limits for the kernel if they have changed."""
        changes = self._changes[0]
        if changes == self._seen_changes:
            return
        self._seen_changes = changes
        table, nodes = resolve(*read_tables(self.control))
        span = np.minimum(table["change"].min(axis=0), np.uint64(MAX_CHANGE))
        above = table["raise_above"].min(axis=0)
        self._bounds[:] = np.stack([span, span * np.uint64(2), above], axis=1).reshape(-1)
        change = table["change"]
        change[:] = np.where(change == NEVER, change, change + np.uint64(1))
        if not self.settings.enabled:
            change[:] = 0
        self._limits, self._overrides = table.reshape(-1), overrides(nodes)
        ports = self._ports[0]
        ports["width"][ports["state"] != 0] = 0
