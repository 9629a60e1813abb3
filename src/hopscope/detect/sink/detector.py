"""The sink's detector: packets in; flows, distributions, events and evictions out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ...base.hash_keys import hash_keys
from ...memory.ring import RingWriter, resume_ring
from ...settings.collector import Settings
from ...settings.sink import DistributionSettings
from ...wire.records import Records, ReportBatch
from ..counters import COUNTERS, INDEX, tally_slots
from ..distributions.region import Distributions
from ..flows.tables import alarms_in, open_tables
from ..records import BINS, DISTRIBUTED, EVENT, HOP_STATE, KEYS, NO_NODE, NO_PORT, Kind
from ..sweep import Sweep
from ..switch_limits import overrides, resolve
from ..thresholds import open_control, read_tables
from .adaptive import AdaptiveThresholds
from .limits import METRICS, bounds_of, for_kernel
from .quota import Buckets
from .records import EVICTED, EVICTED_VERSION, SINK_EVENT, SINK_EVENT_VERSION, EvictionReason, Measure, Type
from .rings import EVENT_RING, EVICTION_RING

EVENT_BUFFER = 8192
JOURNAL_BUFFER = 32_768
EVICTION_BUFFER = 1024
RECORD_BUFFER = 8192
"""Room for the records of each kind that one call of a kernel writes."""


class SinkDetector:
    """State of one shard of the sink (SmartNIC INT sink, III-B and III-C). Used instead of `Detector`.

    `folder` holds the regions `worker-SHARD.flows`, `.distributions`, the rings `.sink-events` and
    `.evictions`, and `control.region`; files that exist and have the same settings are continued. None:
    private memory. `counters` is an array in the order of `counters.COUNTERS`; the detector adds to it.

    A packet is a row without a report, with a flow and a stack of INT metadata. The means of a hop cover the
    packets since its set of measures last changed: `state` in HOP_STATE has the set, `samples` the number of
    packets. A hop that left the path is forgotten. The rings never wait for readers: a reader loses records
    that are overwritten before it reads them, and counts the loss itself.
    """

    def __init__(
        self,
        settings: Settings,
        folder: Path | None = None,
        shard: int = 0,
        counters: npt.NDArray[np.uint64] | None = None,
        *,
        secret: bytes = b"",
    ) -> None:
        from ...base.kernels.jit import readonly
        from ..flows import ahead_kernel, sweep_kernel
        from ..flows import event_kernel as flow_events
        from ..tally_kernel import settle
        from . import event_kernel, eviction_kernel, flow_record_kernel, port_rows_kernel, sink_kernel

        self.settings = settings.detect
        self.sink = settings.sink
        self.counters = np.zeros(len(COUNTERS), np.uint64) if counters is None else counters
        self.control = open_control(folder, settings.limits)
        self.tables = open_tables(settings.detect, folder, shard)
        counted = settings.distributions.enabled is not False
        self.distributions = (
            Distributions(settings.distributions, folder, shard, secret=secret)
            if counted
            else Distributions(DistributionSettings(queues=16))
        )
        self.adaptive = AdaptiveThresholds(self.sink.adapt)
        self.event_rows = np.empty(0, np.uint32)
        """Rows of the last update's batch that caused events, uint32, ascending."""
        self.on_eviction: Callable[[Records], object] | None = None
        """Called with each block of EVICTED records, which is valid during the call."""

        def ring(kind: str, record: npt.DTypeLike, capacity: int, version: int) -> RingWriter:
            path = None if folder is None else folder / f"worker-{shard}.{kind}"
            return RingWriter(resume_ring(path, record, capacity, version))

        self.event_ring = ring(EVENT_RING, SINK_EVENT, self.sink.ring_events, SINK_EVENT_VERSION)
        self.eviction_ring = ring(EVICTION_RING, EVICTED, self.sink.ring_evictions, EVICTED_VERSION)
        self._shard = shard
        self._period_events = 0
        self._readonly = readonly
        self._kernels: Any = sink_kernel
        self._eviction: Any = eviction_kernel
        self._recording: Any = flow_record_kernel
        self._port_copy: Any = port_rows_kernel
        self._sweeps: Any = sweep_kernel
        self._events = np.zeros(EVENT_BUFFER, SINK_EVENT)
        self._journal = np.zeros(JOURNAL_BUFFER, EVENT)
        self._evicted = np.zeros(EVICTION_BUFFER, EVICTED)
        self._rows = np.zeros(4096, np.uint32)
        self._tally = np.zeros(event_kernel.SINK_TALLY, np.uint64)
        self._flow_records = np.zeros(RECORD_BUFFER, EVENT)
        self._recording.record_flows(
            self._evicted[:0], 0, self._flow_records, self._tally
        )  # loads the kernel
        self._settle = settle
        self._settled = (self._tally, *tally_slots(flows=flow_events, sink=event_kernel), self.counters)
        knobs = self._knobs = np.zeros(event_kernel.SINK_KNOBS, np.uint64)
        knobs[:KEYS] = hash_keys(secret, KEYS)
        knobs[flow_events.ENABLED] = 1
        knobs[flow_events.PORT_QUEUES] = self.settings.queue_by_port
        knobs[event_kernel.COUNTED] = counted
        knobs[event_kernel.LIMITED] = self.sink.quota > 0
        self._row_count, self._alarmed = int(event_kernel.EVENT_ROWS), int(event_kernel.ALARMED)
        self._alarms = [INDEX[f"alarms.{metric.label}"] for metric in METRICS]
        rates = [self.sink.journal_events, *[self.sink.quota] * len(Type)]
        self._buckets = Buckets(knobs[int(event_kernel.JOURNAL) :], rates)
        self._scratch = (
            np.zeros(2 * int(ahead_kernel.SLOTS), np.uint64),  # hashes, then ways
            np.zeros(64, np.uint32),  # path
            np.zeros(64, np.uint64),  # where
            np.zeros(64, HOP_STATE),  # old_hops
        )
        self._flow_tokens = np.zeros(1, np.uint64)
        self._flow_bucket = Buckets(self._flow_tokens, [self.sink.journal_flows])
        flows = self.tables["flows"]
        self._flows = (flows["rows"].view(np.uint32), flows["flows"], flows["hops"], flows["pool"])
        counts = self.distributions
        self._counts = (counts.rows, counts.bins, counts.edges)
        self._flow_rows = len(flows["rows"])
        self._ports = (self.tables["ports"]["ports"], self.tables["ports"]["shares"])
        self._copied = _counted_so_far(counts)
        self._copied_ns = 0
        without_push = self.settings.model_copy(update={"push_seconds": 0.0})
        self._sweep = Sweep(without_push, len(flows["rows"]), len(self._ports[0]))
        self._seen_changes = -1
        self._limits = self._overrides = np.zeros(0, np.uint64)
        self._bounds = np.zeros(0, np.uint32)
        for name, count in alarms_in(self.tables).items():
            self.counters[INDEX[f"alarms.{name}"]] = count
        self._note_alarms()

    def update(self, batch: ReportBatch) -> Iterator[Records]:
        """Process packets: flow table, distributions, rings.

        Yields blocks of EVENT records for the journal, at most `sink.journal_events` per second, and flow
        records of at most `sink.journal_flows` flows. Suppressed records are counted, and are still in the
        rings. The journal sets `sequence` and `shard`. The state is up to date once the iterator is
        exhausted.
        """
        self._read_limits()
        reports, hops = self._readonly(batch.reports), self._readonly(batch.hops)
        if len(reports) > len(self._rows):
            self._rows = np.zeros(len(reports), np.uint32)
        self._knobs[self._row_count] = 0
        ring_events = INDEX["sink_ring_events_total"]
        at = 0
        while at < len(reports):
            at, events, journal, evicted = self._kernels.update_kernel(
                reports, at, hops, *self._flows, *self._counts, *self._ports, self._limits, self._overrides,
                self._bounds, self._knobs,
                self._events, self._journal, self._evicted, self._rows, self._tally, *self._scratch,
            )  # fmt: skip
            self._publish(self.event_ring, self._events[: int(events)])
            self.counters[ring_events] += np.uint64(events)
            self._period_events += int(events)
            gone = self._evict(int(evicted))
            self._count()
            if journal:
                yield self._journal[: int(journal)]
            yield from self._record(gone)
        self.event_rows = self._rows[: int(self._knobs[self._row_count])]

    def tick(self, now_ns: int) -> Iterator[Records]:
        """Expire idle flows, adapt the thresholds, copy queues and ports. Call this at least every 100 ms.

        `now_ns` is on the clock of the packets' `time_ns`.
        """
        self._buckets.refill(now_ns)
        self._flow_bucket.refill(now_ns)
        idle = int(self.settings.idle_seconds * 1e9)
        rows, ports, _ = self._sweep.advance(now_ns)
        for start, end in rows:
            yield from self._remove_idle(start, end, now_ns, idle, EvictionReason.EXPIRED)
        self._copied_ns = self._port_copy.update_ports(
            *self._counts[:2],
            min(self._copied_ns, now_ns),  # the clock may have been set back
            *self._ports, self._copied, self._journal, self._knobs, self._tally,
        )  # fmt: skip
        for start, end in ports:
            yield from self._sweep_ports(start, end, now_ns, idle)
        self._count()
        step = self.adaptive.step(now_ns, self._period_events)
        self._period_events = 0
        if step is not None:
            self._seen_changes = -1
            yield self._adapted(now_ns, *step)

    def _sweep_ports(self, start: int, end: int, now_ns: int, idle_ns: int) -> Iterator[Records]:
        """Expire rows of the port table; yield CLEARED of their alarms."""
        at = start
        while at < end:
            at, cleared = self._sweeps.sweep_ports(
                *self._ports, at, end, now_ns, idle_ns, 0, self._journal, self._tally, self._knobs
            )
            if cleared:
                yield self._journal[: int(cleared)]

    def end(self, now_ns: int) -> Iterator[Records]:
        """Evict every live flow (EvictionReason.ENDED); yield flow records, and CLEARED of every alarm."""
        yield from self._remove_idle(0, self._flow_rows, now_ns, -1, EvictionReason.ENDED)
        yield from self._sweep_ports(0, len(self._ports[0]), now_ns, -1)
        self._count()

    def close(self, now_ns: int) -> Iterator[Records]:
        """Evict every flow that is still live, without flow records; yield CLEARED of every alarm."""
        yield from self._remove_idle(0, self._flow_rows, now_ns, -1, EvictionReason.ENDED, recorded=False)
        yield from self._sweep_ports(0, len(self._ports[0]), now_ns, -1)
        self._count()

    def _remove_idle(
        self, start: int, end: int, now_ns: int, idle_ns: int, reason: EvictionReason, recorded: bool = True
    ) -> Iterator[Records]:
        """Evict flows; yield CLEARED of their alarms, and flow records if they are `recorded`."""
        at = start
        while at < end:
            at, evicted, cleared = self._eviction.sweep_idle(
                *self._flows, at, end, now_ns, idle_ns, int(reason), self._evicted, self._journal,
                self._tally, self._knobs,
            )  # fmt: skip
            gone = self._evict(int(evicted))
            if cleared:
                yield self._journal[: int(cleared)]
            if recorded:
                yield from self._record(gone, limited=reason != EvictionReason.ENDED)

    def _evict(self, count: int) -> Records:
        """Publish the first `count` records of evicted flows, and return them."""
        records = self._evicted[:count]
        self._publish(self.eviction_ring, records)
        if count and self.on_eviction is not None:
            self.on_eviction(records)
        return records

    def _record(self, evicted: Records, limited: bool = True) -> Iterator[Records]:
        """Flow records for EVICTED records, within the quota of flows; flows beyond it are counted."""
        if not len(evicted):
            return
        heads = np.flatnonzero(evicted["first_hop"] == 0)
        allowed = min(int(self._flow_tokens[0]), len(heads)) if limited else len(heads)
        if limited:
            self._flow_tokens[0] -= np.uint64(allowed)
        end = len(evicted) if allowed == len(heads) else int(heads[allowed])
        rest = evicted[end:]
        self.counters[INDEX["unrecorded_flows_total"]] += np.uint64(len(heads) - allowed)
        self.counters[INDEX["unrecorded_flow_packets_total"]] += rest["packets"].sum(dtype=np.uint64)
        at = 0
        while at < end:
            at, events = self._recording.record_flows(evicted[:end], at, self._flow_records, self._tally)
            self._count()
            yield self._flow_records[: int(events)]

    def _publish(self, ring: RingWriter, records: Records) -> None:
        """Number records, and write them into their ring."""
        if len(records):
            records["sequence"] = np.arange(ring.head, ring.head + len(records), dtype=np.uint64)
            records["shard"] = self._shard
            ring.write(records)

    def _count(self) -> None:
        self._settle(*self._settled)
        if self._knobs[self._alarmed]:
            self._note_alarms()

    def _note_alarms(self) -> None:
        """Tell the kernels which measures have a raised alarm."""
        raised = self.counters[self._alarms] > 0
        self._knobs[self._alarmed] = np.packbits(raised, bitorder="little")[0]

    def _adapted(self, now_ns: int, before: float, after: float) -> Records:
        """The ADAPTED event of a step."""
        event = np.zeros(1, EVENT)
        event["time_ns"], event["kind"] = now_ns, Kind.ADAPTED
        event["value"], event["previous"] = round(after * 1000), round(before * 1000)
        event["node_id"], event["port"] = NO_NODE, NO_PORT
        self.counters[INDEX[f"events_total.{Kind.ADAPTED.label}"]] += np.uint64(1)
        return event

    def _read_limits(self) -> None:
        """Prepare the limits for the kernel if the current ones or their factor have changed."""
        changes = int(self.control["changes"][0])
        if changes == self._seen_changes:
            return
        self._seen_changes = changes
        table, nodes = resolve(*read_tables(self.control))
        self._limits = for_kernel(table, self.adaptive.scale)
        self._bounds = bounds_of(self._limits)
        self._overrides = overrides(nodes)
        raised = round(self.adaptive.scale * 1000) - 1000
        self.counters[INDEX["sink_threshold_increase_permille"]] = raised


def _counted_so_far(counts: Distributions) -> npt.NDArray[np.uint64]:
    """`seen` of `port_rows_kernel`, so that a worker that continues existing state copies nothing twice."""
    totals = counts.bins.reshape(len(counts.rows), DISTRIBUTED, BINS).sum(axis=2, dtype=np.uint64)
    places = [totals[:, Measure.QUEUE_OCCUPANCY], totals[:, Measure.LINK_UTILIZATION], counts.rows["key"]]
    return np.stack(places, axis=1, dtype=np.uint64).reshape(-1)
