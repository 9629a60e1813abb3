"""The steps of a collector: frames → reports → events → journal → ring, with every step counted.

`Pipeline` has all steps: a single worker, `replay` and the library use it. If there are several workers, each
has a `HandOver`, which ends with the reports; the detector process has a `Pipeline`, which begins with them.
`mode` composes both.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from types import ModuleType
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt

from ...detect.counters import INDEX
from ...detect.distributions.region import Distributions
from ...detect.evidence.datagrams import BatchDatagrams, DatagramReader, DatagramWriter
from ...detect.flows.tables import live_flows, set_times
from ...detect.report_queue import QueueWriter
from ...memory.counter_region import CounterRegion
from ...memory.region import Region
from ...wire import timing
from ...wire.dialect import DEFAULT, Clock, Dialect
from ...wire.reasons import Place, Reason
from ...wire.records import FRAME, HOP, REPORT, FrameBatch, Records, ReportBatch
from .shard import Cause, Shard

if TYPE_CHECKING:
    from ...detect.moved import CorrectionReader
    from ...detect.postcards.share import Share
    from ...wire.decode.decoder import Decoder
    from ..sink.forward import Forward
    from .source_decoder import SourceDecoder

END_SECONDS = 6.0
"""How long writing flow records may take at the end; a supervisor waits longer (STOP_SECONDS)."""
SECOND_NS = 1_000_000_000
_NO_FRAMES = FrameBatch(np.zeros(0, np.uint8), np.zeros(0, FRAME))
_COUNTED = ("frames_total", "frame_bytes_total", "reports_total", "packets_total", "hops_total")
"""Counters in the order of the first slots of `count_kernel`."""


NO_REPORTS: Records = np.zeros(0, REPORT)
NO_HOPS: Records = np.zeros(0, HOP)


class Detection(Protocol):
    """Keeps the state of one shard and finds events: a `Detector`, or a `SinkDetector`."""

    tables: dict[str, Region]
    """`flows`, `ports` and `sources`, as `detect.flows.tables` opens them."""

    def update(self, batch: ReportBatch) -> Iterator[Records]:
        """Take reports; yield blocks of EVENT records, each valid until the next."""

    def tick(self, now_ns: int) -> Iterator[Records]:
        """Yield the events that are due by time: pushes, expired flows, silent sources."""

    def end(self, now_ns: int) -> Iterator[Records]:
        """No more reports will come: yield a flow record of every live flow."""


class Joining(Protocol):
    """Holds reports back until they are complete: a `Joiner` of postcards."""

    def update(self, batch: ReportBatch, clock: Clock) -> Iterable[ReportBatch]:
        """Take a batch; yield what is complete now, each batch valid until the next is requested."""

    def tick(self, now_ns: int) -> Iterable[ReportBatch]:
        """Yield what has waited long enough."""

    def flush(self) -> Iterable[ReportBatch]:
        """Yield everything that waits."""


class Stage:
    """A step after detection. Each hook does nothing unless a stage overrides it."""

    def update(self, batch: ReportBatch, frames: FrameBatch | None) -> None:
        """Take a batch that detection has seen, and the frames it was decoded from (None: joined reports)."""

    def tick(self, now_ns: int) -> None:
        """Called ten times per second after detection, ns since the epoch."""

    def close(self) -> None:
        """No more batches will come."""


class CountDistributions(Stage):
    """Counts the values of all hops."""

    def __init__(self, distributions: Distributions, shard: Shard) -> None:
        self._distributions, self._shard = distributions, shard
        distributions.update(ReportBatch(NO_REPORTS, NO_HOPS))  # loads the kernel

    def update(self, batch: ReportBatch, frames: FrameBatch | None) -> None:
        """Count the values, the hops without a place in the table, and the rows that made room for others."""
        evictions = self._distributions.evictions
        self._shard.count("distribution_table_full_total", self._distributions.update(batch))
        self._shard.count("distribution_evictions_total", self._distributions.evictions - evictions)


class TakeCorrections(Stage):
    """Corrects losses: reports that seemed lost reached other members of the cluster."""

    def __init__(self, corrections: CorrectionReader, shard: Shard) -> None:
        self._corrections, self._shard = corrections, shard
        self._due_ns = 0

    def tick(self, now_ns: int) -> None:
        """Take the corrections once a second."""
        if 0 <= self._due_ns - now_ns <= SECOND_NS:
            return
        self._due_ns = now_ns + SECOND_NS
        if moved := self._corrections.take():
            self._shard.count("moved_reports_total", moved)
            self._shard.count("lost_reports", -min(moved, self._shard.counted["lost_reports"]))


class Steps(ABC):
    """Decodes frames and counts; subclasses continue in `take`."""

    def __init__(self, counted: CounterRegion) -> None:
        from ...base.kernels.jit import readonly
        from . import count_kernel

        self.counted, self.count = counted, counted.add
        self._decoders: dict[Dialect, Decoder] = {}
        self._last: tuple[Dialect | None, Decoder | None] = (None, None)
        self._dialect = ""
        """Name of the dialect of the newest frames."""
        self._readonly, self._kernel = readonly, count_kernel
        self._counting = (np.zeros(count_kernel.TALLY, np.uint64), *_tallied(count_kernel), counted.values)
        self._count(_NO_FRAMES, ReportBatch(NO_REPORTS, NO_HOPS))

    @abstractmethod
    def take(
        self, batch: ReportBatch, clock: Clock, frames: FrameBatch | None = None, decode_ns: int = 0
    ) -> None:
        """Take decoded reports, whose times are in ns of `clock`, with the frames that they came in."""

    @abstractmethod
    def tick(self, now_ns: int, step_ns: int = 0) -> None:
        """Called ten times per second; `now_ns` since the epoch, by a clock that was set by `step_ns` since
        the last call.
        """

    @abstractmethod
    def close(self) -> None:
        """No more frames will come."""

    def release(self) -> None:
        """Close for a take-over: another process takes the next frames, and continues the state."""
        self.close()

    def step(
        self,
        frames: FrameBatch,
        dialect: Dialect = DEFAULT,
        forward: Forward | None = None,
        source: SourceDecoder | None = None,
        *,
        heads: bool = False,
    ) -> int:
        """Take frames through all steps; returns how many reports were accepted.

        `forward` gets the frames and their raw reports first, so that forwarded packets do not wait. `source`
        decodes frames that are not Telemetry Reports. `heads`: these are only heads of frames, which the
        listener counts itself.
        """
        begin = time.perf_counter_ns()
        self._dialect = dialect.name
        decoder = source or self._decoder(dialect)
        batch: ReportBatch = decoder.decode(frames, trails=forward is not None)
        decoded = time.perf_counter_ns()
        if forward is not None:
            forward(frames, batch, dialect)
        accepted = self._count(_NO_FRAMES if heads else frames, batch)
        timing.apply(batch, dialect.clock)
        self.take(batch, dialect.clock, frames, decoded - begin)
        return accepted

    def _decoder(self, dialect: Dialect) -> Decoder:
        """The decoder of a dialect. The last one is kept: hashing a dialect takes as long as ten reports."""
        last, decoder = self._last
        if last is not dialect or decoder is None:
            decoder = self._decoders.get(dialect)
            if decoder is None:
                from ...wire.decode.decoder import Decoder

                decoder = self._decoders[dialect] = Decoder(dialect)
            self._last = dialect, decoder
        return decoder

    def _count(self, frames: FrameBatch, batch: ReportBatch) -> int:
        accepted, postcards = self._kernel.count_batch(
            self._readonly(frames.frames), self._readonly(batch.reports), *self._counting
        )
        if batch.other or batch.unknown_int:
            self.count("other_frames_total", batch.other)
            self.count("unknown_int_packets_total", batch.unknown_int)
        batch.postcards = bool(postcards)
        return int(accepted)


def _tallied(kernel: ModuleType) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Slots of `count_kernel`, and the indices in COUNTERS to which they are added."""
    places = dict(enumerate(INDEX[key] for key in _COUNTED))
    for reason in Reason:
        if reason:
            places[kernel.REASONS + reason] = INDEX[f"rejected_reports_total.{reason.label}"]
    for header in Place:
        if header:
            places[kernel.PLACES + header] = INDEX[f"rejected_headers_total.{header.name.lower()}"]
    return np.array([*places], np.int64), np.array([*places.values()], np.int64)


class Pipeline(Steps):
    """Decodes frames, joins postcards (if `joining`), detects, runs the stages, writes the events to `shard`.

    `distributions`: those that detection or a stage counts, for readers at the end. `datagrams`: datagrams
    held as evidence by the workers, or by `holding`, which gets all batches with postcards.
    """

    def __init__(
        self,
        shard: Shard,
        detection: Detection,
        stages: Sequence[Stage] = (),
        *,
        joining: Joining | None = None,
        distributions: Distributions | None = None,
        datagrams: DatagramReader | None = None,
        holding: DatagramWriter | None = None,
    ) -> None:
        super().__init__(shard.counted)
        self.shard, self.detection, self.distributions = shard, detection, distributions
        self._stages = stages
        self.joining = joining
        self._now_ns = time.time_ns()
        self._cause: Cause | None = None
        """The reports in which detection is finding events."""
        self._datagrams, self._holding = datagrams, holding

    def take(
        self, batch: ReportBatch, clock: Clock, frames: FrameBatch | None = None, decode_ns: int = 0
    ) -> None:
        """Take reports through all steps after decoding."""
        if self._holding is not None and frames is not None and batch.postcards:
            self._holding.hold(frames, batch, self._dialect)
        if self.joining is None:
            events = self._detect([batch], frames, batch)
        else:
            events = self._detect(self.joining.update(batch, clock), frames, batch)
        self._write(events, decode_ns)

    def tick(self, now_ns: int, step_ns: int = 0) -> None:
        """Run pushes, expiry, silent sources, stages, the journal's rotation; `now_ns` since the epoch."""
        self.count("ticks_total", 1)
        self._now_ns = now_ns
        if step_ns:
            set_times(self.detection.tables, now_ns, step_ns)
        due = () if self.joining is None else self.joining.tick(now_ns)
        self._write(chain(self._detect(due), self.detection.tick(now_ns)))
        for stage in self._stages:
            stage.tick(now_ns)
        self.shard.tick()

    def flush(self) -> None:
        """Take the postcards that still wait for the rest of their path: no more reports will come."""
        if self.joining is not None:
            self._write(self._detect(self.joining.flush()))

    def release(self) -> None:
        """Close the journal; flows, alarms and distributions stay in the regions, for another process."""
        self.flush()
        self.shard.close()

    def close(self) -> None:
        """Flush, record the live flows, end the stages, and close the journal, after which all accepted
        events are on disk.
        """
        self.flush()
        if self.shard.data is not None:
            self._end_flows()
        for stage in self._stages:
            stage.close()
        self.shard.close()

    def _end_flows(self) -> None:
        """Write flow records of all live flows, for END_SECONDS at most; the remaining flows are counted."""
        self.shard.write_directly()
        until = time.monotonic() + END_SECONDS
        for events in self.detection.end(self._now_ns):
            self.shard.write(events)
            if time.monotonic() > until:
                break
        flows, packets = live_flows(self.detection.tables)
        self.count("unrecorded_flows_total", flows)
        self.count("unrecorded_flow_packets_total", packets)

    def _detect(
        self,
        batches: Iterable[ReportBatch],
        frames: FrameBatch | None = None,
        decoded: ReportBatch | None = None,
    ) -> Iterator[Records]:
        """The events of batches. `frames` belong to the batch `decoded`; joined paths have no frames."""
        for batch in batches:
            own = frames if batch is decoded else None
            if own is None or (self._holding is not None and batch.postcards):
                self._cause = None if self._datagrams is None else (batch, self._datagrams)
            else:
                self._cause = batch, BatchDatagrams(own, self._dialect)
            yield from self.detection.update(batch)
            self._cause = None
            for stage in self._stages:
                stage.update(batch, own)

    def _write(self, blocks: Iterable[Records], decode_ns: int = 0) -> None:
        """Write blocks of events as detection finds them; count the time that each step took."""
        detect_ns = journal_ns = 0
        begin = time.perf_counter_ns()
        for events in blocks:
            found = time.perf_counter_ns()
            detect_ns += found - begin
            if len(events):
                self.shard.write(events, self._cause)
            begin = time.perf_counter_ns()
            journal_ns += begin - found
        detect_ns += time.perf_counter_ns() - begin
        self.count("busy_decode_ns_total", decode_ns)
        self.count("busy_detect_ns_total", detect_ns)
        self.count("busy_journal_ns_total", journal_ns)
        self.count("busy_ns_total", decode_ns + detect_ns + journal_ns)


class HandOver(Steps):
    """Decodes frames and hands the reports to the detector: the steps of one of several workers."""

    def __init__(
        self,
        counted: CounterRegion,
        queue: QueueWriter,
        share: Share | None = None,
        holding: DatagramWriter | None = None,
    ) -> None:
        """`share`: sends postcards to the members of the cluster that own their flows; `holding`: holds
        datagrams as evidence.
        """
        super().__init__(counted)
        self._queue, self._share, self._holding = queue, share, holding
        self._lost = 0

    def take(
        self, batch: ReportBatch, clock: Clock, frames: FrameBatch | None = None, decode_ns: int = 0
    ) -> None:
        """Put reports into the queue; those that do not fit are lost, and counted."""
        begin = time.perf_counter_ns()
        if self._holding is not None and frames is not None:
            self._holding.hold(frames, batch, self._dialect)
        if self._share is not None and batch.postcards is not False:
            given, lost = self._share.give(batch, clock, time.monotonic_ns())
            self.count("given_postcards_total", given)
            self.count("given_postcards_lost_total", lost)
        lost = self._queue.put(batch, clock, time.monotonic_ns())
        self._lost += lost
        self.count("detector_lost_reports_total", lost)
        spent = time.perf_counter_ns() - begin
        self.count("busy_decode_ns_total", decode_ns)
        self.count("busy_handover_ns_total", spent)
        self.count("busy_ns_total", decode_ns + spent)

    def advance(self, horizon_ns: int) -> None:
        """Tell the detector that no later frame was received before `horizon_ns`, ns since the epoch."""
        self._queue.advance(horizon_ns)

    def wait(self) -> None:
        """Tell the detector not to wait for this worker: it receives nothing until `wake`."""
        self._queue.wait()

    def wake(self) -> None:
        """Tell the detector that frames may be received from now on."""
        self._queue.wake()

    def tick(self, now_ns: int, step_ns: int = 0) -> None:
        """Update the counters of the queue, and note whether it lost reports since the last tick."""
        self.count("ticks_total", 1)
        if self._share is not None:
            self._share.look(time.monotonic_ns())
        self.counted.put("detector_waiting_reports", self._queue.waiting)
        self.counted.put("detector_queue_full", self._lost > 0)
        self._lost = 0

    def close(self) -> None:
        """Tell the detector to wait for nothing more."""
        self._queue.close()
