"""Events about labels: silent ports, low coverage, paths of tracked flows, and a record of every period.

They have a shard of their own.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from ...detect.flows.flow_id_hash import FlowIdHash
from ...detect.records import (
    EVENT,
    EVENT_VERSION,
    NO_NODE,
    NO_PORT,
    PATH_PART,
    ClearReason,
    Kind,
    Metric,
)
from ...history.writing.journal import JournalWriter
from ...labels.coverage import Ints
from ...labels.state import NEVER
from ...labels.table import Devices, LabelTable, Ports
from ...labels.tracked import Key, Port, TrackedTable
from ...memory.private_file import hash_secret
from ...memory.ring import resume_ring
from ...settings.history import HistorySettings
from ...settings.label import LabelSettings
from ...wire.records import Records
from ..pipeline.event_writer import EventWriter
from ..pipeline.shard import open_journal

SHARD = 1023
"""Number of this shard, above those of all workers; readers of rings know none above it."""
RING_EVENTS = 1 << 14
"""Capacity of the ring of events, 2 MiB."""
PPM = 1_000_000
"""Coverage is counted in parts per million."""
IPV4 = 0xFFFF
"""Upper half of the low word of an IPv4 address, ::ffff:a.b.c.d."""


class LabelEvents:
    """Writes the events of the tables of labels and tracked flows. Call `tick` regularly.

    `data` and `regions` are folders; None: nothing is kept. `start_ns`: the time by the system clock.
    Raises HistoryError and RegionError.
    """

    def __init__(
        self,
        settings: LabelSettings,
        table: LabelTable,
        tracked: TrackedTable,
        history: HistorySettings,
        data: Path | None,
        regions: Path | None,
        notify: Callable[[str], None],
        start_ns: int,
    ) -> None:
        self._table = table
        self._silent_ns = round(settings.silent_seconds * 1e9)
        self._period_ns = round(settings.period_seconds * 1e9)
        self._limit = round(settings.coverage_limit * PPM)
        self._period = 0
        self._time_ns = start_ns  # or that of the last tick, by the system clock
        self._closed = table.coverage.closed
        self._shares: list[float] = []
        self._low = table.region["coverage_low"]
        self.counts: dict[str, int] = {
            kind.label: 0 for kind in (Kind.RAISED, Kind.CLEARED, Kind.PATH_CHANGE, Kind.LABEL_RECORD)
        }
        """Events by kind."""
        ring = None
        if regions is not None:
            ring = resume_ring(regions / f"worker-{SHARD}.events", EVENT, RING_EVENTS, EVENT_VERSION)
        self.journal: JournalWriter | None = (
            None if data is None else open_journal(data, SHARD, history, notify)
        )
        self.writer = EventWriter(SHARD, self.journal, ring, thread=True, notify=notify)
        self._flow_ids = FlowIdHash(hash_secret(data))
        table.on_silent_evict = self._evicted
        tracked.on_path_change = self._path_changed

    @property
    def is_low(self) -> bool:
        """Whether the coverage alarm is raised."""
        return bool(self._low[0])

    @property
    def silent_ports(self) -> int:
        """Number of ports whose alarm is raised."""
        return int(np.count_nonzero(self._table.known["silent"]))

    def tick(self, now_ns: int, ahead_ns: int) -> None:
        """Write what is due; call it several times per telemetry interval. `now_ns` is `ahead_ns` ahead of
        the system clock.
        """
        self._time_ns = now_ns - ahead_ns
        if self._silent_ns:
            self._look_for_silence(now_ns)
        if self._period_ns:
            self._look_at_periods(now_ns)
        self.writer.tick()

    def close(self) -> None:
        """Write the rest of the period and the end of all alarms, and close the journal.

        A process that continues the table raises the alarms again that still apply.
        """
        if self._period_ns:
            self._close_period()
        self._end_alarms()
        self.writer.close()

    def _end_alarms(self) -> None:
        silent = self._table.known["silent"]
        self._clear_ages(*self._table.ports_of(np.flatnonzero(silent)), ClearReason.STOPPED)
        silent[:] = 0
        if self.is_low:
            self._low[0] = 0
            events = self._events(Kind.CLEARED, Metric.LABEL_COVERAGE, 1)
            events["node_id"], events["port"] = NO_NODE, NO_PORT
            events["reason"], events["previous"] = ClearReason.STOPPED, self._limit
            self._write(events)

    def _look_for_silence(self, now_ns: int) -> None:
        table = self._table
        changes = table.silence.tick(table.used, now_ns, self._silent_ns)
        if len(changes.silent):
            events = self._of_ports(Kind.RAISED, Metric.LABEL_AGE, changes.silent)
            events["value"], events["previous"] = changes.ages, self._silent_ns
            self._write(events)
        for rows, reason in ((changes.heard, ClearReason.VALUE), (changes.idle, ClearReason.EXPIRED)):
            if len(rows):
                events = self._of_ports(Kind.CLEARED, Metric.LABEL_AGE, rows)
                events["previous"], events["reason"] = self._silent_ns, reason
                received = table.recorded[rows]
                events["value"] = np.where(received == NEVER, 0, now_ns - received)
                self._write(events)

    def _look_at_periods(self, now_ns: int) -> None:
        rows, self._closed = self._table.coverage.since(self._closed)
        busy = rows[rows["active"] > 0]
        self._shares += (busy["reported"] / busy["active"]).tolist()
        period = now_ns // self._period_ns
        if period != self._period:
            if self._period:
                self._close_period()
            self._period = period

    def _evicted(self, nodes: Devices, ports: Ports) -> None:
        self._clear_ages(nodes, ports, ClearReason.EVICTED)

    def _clear_ages(self, nodes: Devices, ports: Ports, reason: ClearReason) -> None:
        events = self._events(Kind.CLEARED, Metric.LABEL_AGE, len(nodes))
        events["node_id"], events["port"] = nodes, ports
        events["reason"], events["previous"] = reason, self._silent_ns
        self._write(events)

    def _path_changed(self, flow: Key, path: Sequence[Port], previous: Sequence[Port]) -> None:
        """Write PATH_CHANGE of a tracked flow: a record for every 8 switches."""
        src_hi, src_lo, dst_hi, dst_lo, proto, sport, dport = flow
        version = 4 if src_hi == 0 and src_lo >> 32 == IPV4 else 6
        events = self._events(Kind.PATH_CHANGE, Metric.FLOW_PATH, -(-len(path) // PATH_PART))
        for name, value in zip(_FLOW, flow, strict=True):
            events[name] = value
        events["flow_id"] = self._flow_ids.of(
            (src_hi, src_lo), (dst_hi, dst_lo), sport, dport, proto, version
        )
        events["ip_version"], events["node_id"], events["port"] = version, NO_NODE, NO_PORT
        events["value"], events["previous"] = _hash(path), _hash(previous)
        events["hop_count"] = len(path)
        for number, event in enumerate(events):
            event["hop"] = number * PATH_PART
            part = path[number * PATH_PART :][:PATH_PART]
            event["path"][: len(part)] = [node for node, *_ in part]
        self._write(events)

    def _close_period(self) -> None:
        found = self._table.periods.close()
        for metric, name in ((Metric.LABEL_LATENCY, "latency"), (Metric.LABEL_OCCUPANCY, "occupancy")):
            events = self._of_ports(Kind.LABEL_RECORD, metric, found["row"])
            events["value"], events["previous"] = found[name], found[f"highest_{name}"]
            events["ident"] = np.minimum(found["labels"], 2**32 - 1)
            self._write(events)
        shares, self._shares = self._shares, []
        if not shares:
            return
        mean = round(sum(shares) / len(shares) * PPM)
        kinds = [Kind.LABEL_RECORD]
        if self._limit and (mean < self._limit) != self.is_low:
            self._low[0] = mean < self._limit
            kinds.append(Kind.RAISED if self.is_low else Kind.CLEARED)
        events = self._events(kinds, Metric.LABEL_COVERAGE, len(kinds))
        events["node_id"], events["port"], events["value"] = NO_NODE, NO_PORT, mean
        events["previous"] = self._limit
        events["previous"][0], events["ident"][0] = round(min(shares) * PPM), len(shares)
        self._write(events)

    def _of_ports(self, kind: Kind, metric: Metric, rows: Ints) -> Records:
        events = self._events(kind, metric, len(rows))
        events["node_id"], events["port"] = self._table.ports_of(rows)
        return events

    def _events(self, kind: Kind | list[Kind], metric: Metric, count: int) -> Records:
        events = np.zeros(count, EVENT)
        events["kind"], events["metric"], events["time_ns"] = kind, metric, self._time_ns
        return events

    def _write(self, events: Records) -> None:
        if len(events):
            kinds = events["kind"][events["hop"] == 0]  # later hops continue a long path
            for kind, count in zip(*np.unique(kinds, return_counts=True), strict=True):
                self.counts[Kind(int(kind)).label] += int(count)
            self.writer.write(events)


_FLOW = ("src_hi", "src_lo", "dst_hi", "dst_lo", "proto", "sport", "dport")
"""Fields of EVENT in the order of Key."""


def _hash(path: Sequence[Port]) -> int:
    """Hash of a path's switches and ports, 64 bits."""
    return int.from_bytes(hashlib.blake2b(np.array(path, "<u4").tobytes(), digest_size=8).digest(), "little")
