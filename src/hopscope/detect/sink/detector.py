"""The sink's side of detection: packets in, flows, distributions, events and evictions out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt

from ...memory.ring import RingReader, RingWriter, continue_ring
from ...settings.collector import Settings
from ...settings.sink import DistributionSettings
from ...wire.records import Records, ReportBatch
from ..counters import COUNTERS, INDEX
from ..detector import Sweep
from ..distributions.region import Distributions
from ..flows.tables import open_tables
from ..records import EVENT, HOP_STATE, NO_NODE, NO_PORT, Kind
from ..thresholds import open_control, read_sink_limits
from .adaptive import Adaptive
from .limits import for_kernel, overrides
from .quota import Buckets
from .records import EVICTED, EVICTED_VERSION, SINK_EVENT, SINK_EVENT_VERSION, Type, Why

TOLD_BUFFER = 8192
JOURNAL_BUFFER = 16_384
GONE_BUFFER = 1024
"""Records of each kind that one call of a kernel can write; a block of packets fits each."""

_TALLIED = {
    "VALUES": "values_total",
    "EVICTIONS": "flow_evictions_total",
    "EXPIRIES": "flow_expiries_total",
    "PORTS_FULL": "port_table_full_total",
    "POOL_FULL": "hop_pool_full_total",
    "NAMELESS": "hops_without_node_id_total",
    "PACKETS": "sink_packets_total",
    "HELD_JOURNAL": "sink_journal_throttled_events_total",
    "QUEUES_FULL": "distribution_table_full_total",
}
"""Slots of the kernels' tally by name, and their counters."""


class SinkDetector:
    """State of one shard of the sink (SmartNIC INT sink, III-B and III-C). Takes the place of `Detector`.

    `folder` holds the regions `worker-SHARD.flows`, `.distributions`, the rings `.sink-events` and
    `.evictions`, and `control.region`; existing ones of the same settings are continued.  None: private
    memory.  `counters` is a block in the order of `metrics.COUNTERS`, which is added to.

    A packet is a row that no report brought, with a flow and a stack of INT metadata.  The means of a hop
    are of the packets since its set of measures was last another one: `state` in HOP_STATE says which they
    are, `samples` how many packets.  A hop that the path lost is forgotten.  The rings are never waited for:
    what is overwritten before it was read is lost to the reader, and only the reader can know and count it.
    """

    def __init__(
        self,
        settings: Settings,
        folder: Path | None = None,
        shard: int = 0,
        counters: npt.NDArray[np.uint64] | None = None,
    ) -> None:
        from ...base.jit import readonly
        from ..flows import event_kernel, sweep_kernel
        from . import event_kernel as tell_kernel
        from . import eviction_kernel as leave_kernel
        from . import port_rows_kernel, sink_kernel

        self.settings = settings.detect
        self.sink = settings.sink
        self._told_since = 0
        self.counters = np.zeros(len(COUNTERS), np.uint64) if counters is None else counters
        self.next_sequence = 0
        """Of the events that go into the journal."""
        self.control = open_control(folder, settings.detect.thresholds, settings.sink)
        self.tables = open_tables(settings.detect, folder, shard)
        counted = settings.distributions.enabled is not False
        self.distributions = (
            Distributions(settings.distributions, folder, shard)
            if counted
            else Distributions(DistributionSettings(queues=16))
        )
        self.adaptive = Adaptive(self.sink.adapt)
        self.event_rows = np.empty(0, np.uint32)
        """Rows of the last update's batch that caused events, uint32, rising."""

        def path(name: str) -> Path | None:
            return None if folder is None else folder / f"worker-{shard}.{name}"

        self._event_ring = continue_ring(
            path("sink-events"), SINK_EVENT, self.sink.ring_events, SINK_EVENT_VERSION
        )
        self._eviction_ring = continue_ring(
            path("evictions"), EVICTED, self.sink.ring_evictions, EVICTED_VERSION
        )
        self._gone_reader = RingReader(self._eviction_ring)
        self._events, self._evictions = RingWriter(self._event_ring), RingWriter(self._eviction_ring)
        self._readonly = readonly
        self._kernels: Any = sink_kernel
        self._leaving: Any = leave_kernel
        self._ports: Any = port_rows_kernel
        self._sweeps: Any = sweep_kernel
        self._told = np.zeros(TOLD_BUFFER, SINK_EVENT)
        self._journal = np.zeros(JOURNAL_BUFFER, EVENT)
        self._gone = np.zeros(GONE_BUFFER, EVICTED)
        self._marked = np.zeros(4096, np.uint32)
        knob: Any = SimpleNamespace(
            **vars(event_kernel) | vars(tell_kernel)
        )  # those of flows, and the sink's own
        self._tally = np.zeros(tell_kernel.SINK_TALLY, np.uint64)
        self._slots = _slots(knob)
        self._knob = knob
        knobs = self._knobs = np.zeros(knob.SINK_KNOBS, np.uint64)
        knobs[knob.ENABLED] = 1
        knobs[knob.PORT_QUEUES] = self.settings.queue_key == "switch-port-queue"
        knobs[knob.SHARD] = shard
        knobs[knob.COUNTED] = counted
        knobs[knob.LIMITED] = self.sink.quota > 0
        rates = [self.sink.journal_events, *[self.sink.quota] * len(Type)]
        self._buckets = Buckets(knobs[int(knob.JOURNAL) :], rates)
        self._scratch = (
            np.zeros(2 * int(sink_kernel.SLOTS), np.uint64),  # hashes, then ways
            np.zeros(64, np.uint32),  # path
            np.zeros(64, np.uint64),  # where
            np.zeros(64, HOP_STATE),  # spare
        )
        flows = self.tables["flows"]
        self._flows = (flows["rows"].view(np.uint32), flows["flows"], flows["hops"], flows["pool"])
        counts = self.distributions
        self._counts = (counts.rows, counts.bins, counts.edges)
        self._port_rows = self.tables["ports"]["ports"]
        self._shown = np.zeros(2 * len(counts.rows), np.uint64)
        self._shown_ns = 0
        slow = self.settings.model_copy(update={"push_seconds": 0.0})
        self._sweep = Sweep(slow, len(flows["rows"]), len(self._port_rows))
        self._seen_changes = -1
        self._limits = self._overrides = np.zeros(0, np.uint64)

    def update(self, batch: ReportBatch) -> Iterator[Records]:
        """Take packets in: flow table, distributions, rings.

        Yields blocks of EVENT records for the journal, at most `sink.journal_events` a second; what is held
        back is counted, and in the ring all the same.  The state is up to date once the iterator is
        exhausted.
        """
        self._read_limits()
        reports, hops = self._readonly(batch.reports), self._readonly(batch.hops)
        if len(reports) > len(self._marked):
            self._marked = np.zeros(len(reports), np.uint32)
        self._knobs[self._knob.MARKED] = 0
        at = 0
        while at < len(reports):
            self._number()
            at, told, journal, gone = self._kernels.update_kernel(
                reports, at, hops, *self._flows, *self._counts, self._limits, self._overrides, self._knobs,
                self._told, self._journal, self._gone, self._marked, self._tally, *self._scratch,
            )  # fmt: skip
            yield from self._pass_on(told, journal, gone)
        self.event_rows = self._marked[: int(self._knobs[self._knob.MARKED])]

    def tick(self, now_ns: int) -> Iterator[Records]:
        """Expire idle flows, adapt the thresholds, show queues and ports: every 100 ms or oftener.

        `now_ns` is on the clock of the packets' `time_ns`.
        """
        self._buckets.refill(now_ns)
        idle = int(self.settings.idle_seconds * 1e9)
        rows, ports, _ = self._sweep.advance(now_ns)
        for start, end in rows:
            self._let_leave(start, end, now_ns, idle, Why.EXPIRED)
        self._shown_ns = self._ports.show_rows(
            *self._counts[:2],
            min(self._shown_ns, now_ns),  # the clock may have been set back
            self._port_rows, self._shown, self._knobs, self._tally,
        )  # fmt: skip
        for start, end in ports:
            self._sweeps.sweep_ports(
                self._port_rows, start, end, now_ns, idle, 0, self._journal, self._tally, self._knobs
            )
        self._count()
        step = self.adaptive.step(now_ns, self._told_since)
        self._told_since = 0
        if step is not None:
            self._seen_changes = -1
            yield self._adapted(now_ns, *step)

    def take_gone(self) -> tuple[Records, int]:
        """EVICTED records since the last call, at most those that the ring holds, and how many were lost."""
        return self._gone_reader.read(self._evictions.capacity)

    def close(self, now_ns: int) -> None:
        """Put every live flow into the eviction ring (Why.ENDED)."""
        self._let_leave(0, len(self.tables["flows"]["rows"]), now_ns, -1, Why.ENDED)
        self._count()

    def _let_leave(self, start: int, end: int, now_ns: int, idle_ns: int, why: Why) -> None:
        at = start
        while at < end:
            self._number()
            at, gone = self._leaving.sweep_idle(
                *self._flows, at, end, now_ns, idle_ns, int(why), self._gone, self._tally, self._knobs
            )
            self._evictions.write(self._gone[: int(gone)])

    def _number(self) -> None:
        """Tell the kernels the numbers of the next records."""
        self._knobs[self._knob.SEQUENCE] = self.next_sequence
        self._knobs[self._knob.TOLD] = self._events.head
        self._knobs[self._knob.GONE] = self._evictions.head

    def _pass_on(self, told: int, journal: int, gone: int) -> Iterator[Records]:
        """Put records into the rings and count; yield those for the journal, if there are any."""
        if told:
            self._events.write(self._told[: int(told)])
            self._told_since += int(told)
        if gone:
            self._evictions.write(self._gone[: int(gone)])
        self._count()
        self.next_sequence += int(journal)
        if journal:
            yield self._journal[: int(journal)]

    def _count(self) -> None:
        self.counters[self._slots[1]] += self._tally[self._slots[0]]
        self._tally[:] = 0

    def _adapted(self, now_ns: int, before: float, after: float) -> Records:
        """The ADAPTED event of a step."""
        event = np.zeros(1, EVENT)
        event["sequence"], event["time_ns"], event["kind"] = self.next_sequence, now_ns, Kind.ADAPTED
        event["value"], event["previous"] = round(after * 1000), round(before * 1000)
        event["node_id"], event["port"], event["shard"] = NO_NODE, NO_PORT, self._knobs[self._knob.SHARD]
        self.next_sequence += 1
        self.counters[INDEX[f"events_total.{Kind.ADAPTED.label}"]] += np.uint64(1)
        return event

    def _read_limits(self) -> None:
        """Make the limits that the kernel reads, where those in force or their scale have changed."""
        changes = int(self.control["changes"][0])
        if changes == self._seen_changes:
            return
        self._seen_changes = changes
        table, nodes = read_sink_limits(self.control)
        self._limits = for_kernel(table, self.adaptive.scale)
        self._overrides = overrides(nodes)
        raised = round(self.adaptive.scale * 1000) - 1000
        self.counters[INDEX["sink_threshold_increase_permille"]] = raised


def _slots(kernel: Any) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Slots of the kernels' tally, and of the counters that they are added to."""
    pairs = [(int(kind), f"events_total.{kind.label}") for kind in Kind]
    pairs += [(int(getattr(kernel, name)), key) for name, key in _TALLIED.items()]
    for k, kind in enumerate(Type):
        pairs.append((int(kernel.OF_TYPE) + k, f"sink_events_total.{kind.label}"))
        pairs.append((int(kernel.HELD_TYPE) + k, f"sink_throttled_events_total.{kind.label}"))
    return np.array([slot for slot, _ in pairs]), np.array([INDEX[key] for _, key in pairs])
