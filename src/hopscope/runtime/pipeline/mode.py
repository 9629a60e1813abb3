"""The two kinds of collector: one takes reports, the other is an INT sink. Only `mode_of` tells them apart.

Their differences are members of `Mode`: pipeline, forwarding, kernels, memory, rings.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ...detect.counters import counters_of
from ...detect.distributions.region import Distributions
from ...detect.evidence.datagrams import (
    DatagramReader,
    DatagramWriter,
    attach_ring,
    create_ring,
    ring_bytes,
    ring_path,
)
from ...detect.report_queue import (
    QueueReader,
    QueueWriter,
    attach_queue,
    create_queue,
    queue_bytes,
    queue_path,
)
from ...settings.collector import Settings
from ...settings.listen import ListenSettings
from .shard import Shard
from .steps import CountDistributions, HandOver, Pipeline, Stage, TakeCorrections

if TYPE_CHECKING:
    from ...capture.bypass import Heartbeat
    from ...wire.dialect import Dialect
    from ..sink.forward import Forwarder
    from ..sink.wire import WireListener


class Mode(ABC):
    """A kind of collector, with its settings."""

    steps: tuple[str, ...]
    """Steps of `warmup` for the pipeline: the decoder's, then detection's."""
    report_ports: tuple[int, ...] | None = None
    """UDP ports of Telemetry Reports; None: those of the dialect."""
    _distributions_by_default = False

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    @abstractmethod
    def pipeline(self, shard: Shard) -> Pipeline:
        """The pipeline of a shard. Raises RegionError, CaptureError."""

    @property
    def has_detector(self) -> bool:
        """Whether a detector process holds all state, and merges reports of several workers or members."""
        return False

    def hand_over(self, worker: int, regions: Path) -> HandOver:
        """The steps of a worker that hands its reports to the detector. Raises RegionError."""
        queue = QueueWriter(attach_queue(queue_path(regions, worker)))
        share = holding = None
        if self.settings.history.evidence_bytes:
            holding = DatagramWriter(attach_ring(ring_path(regions, worker), writable=True), worker)
        if self.settings.cluster.exchanges:
            from ...detect.postcards.share import Share, attach_slots, given_path

            given = QueueWriter(attach_queue(given_path(regions, worker)))
            share = Share(attach_slots(regions), given)
        return HandOver(counters_of(f"worker-{worker}").open(regions), queue, share, holding)

    def make_queues(self, regions: Path) -> None:
        """Make the queues between workers, detector and cluster, and the rings of datagrams. Raises
        RegionError.
        """
        if self.settings.cluster.enabled:
            from ...detect.moved import open_corrections

            open_corrections(regions)  # before two processes open it
        if not self.has_detector:
            return
        reports = self.settings.detect.queue_reports
        for worker in range(self.settings.workers):
            create_queue(queue_path(regions, worker), reports)
            if self.settings.history.evidence_bytes:
                create_ring(ring_path(regions, worker), reports)
        if self.settings.cluster.exchanges:
            from ...detect.postcards.share import create_slots, given_path, taken_path

            create_slots(regions)
            for worker in range(self.settings.workers):
                create_queue(given_path(regions, worker), reports)
            QueueWriter(create_queue(taken_path(regions), reports)).close()  # until there is a cluster

    def queues(self, regions: Path) -> list[QueueReader]:
        """The queues that the detector reads. Raises RegionError."""
        paths = [queue_path(regions, worker) for worker in range(self.settings.workers)]
        if self.settings.cluster.exchanges:
            from ...detect.postcards.share import taken_path

            paths.append(taken_path(regions))
        return [QueueReader(attach_queue(path)) for path in paths]

    def forwarder(
        self, listen: ListenSettings, count: Callable[[str, int], object], heartbeat: Heartbeat | None = None
    ) -> Forwarder | None:
        """A forwarder for the frames of a listener; None: they are not forwarded. `heartbeat`: the heartbeat
        of the listener's bypass. Raises CaptureError.
        """
        return None

    def wire(
        self,
        listen: ListenSettings,
        dialects: Sequence[Dialect],
        count: Callable[[str, int], object],
        caught_up: Callable[[], bool],
    ) -> WireListener | None:
        """In a sink, receives from an XDP program that forwards the plain frames of a listener; None: there
        is no such program.
        """
        return None

    @property
    def counts_distributions(self) -> bool:
        """Whether workers count distributions."""
        chosen = self.settings.distributions.enabled
        return self._distributions_by_default if chosen is None else chosen

    def state_bytes(self) -> int:
        """Shared memory of all processes."""
        if self.has_detector:
            workers = self.settings.workers
            queues = 2 * workers + 1 if self.settings.cluster.exchanges else workers
            reports = self.settings.detect.queue_reports
            rings = workers if self.settings.history.evidence_bytes else 0
            return self._shard_bytes() + queues * queue_bytes(reports) + rings * ring_bytes(reports)
        return self._shard_bytes() * self.settings.workers

    def evidence_bytes(self) -> int:
        """Size of the copies of evidence in the data folder."""
        return self.settings.history.evidence_bytes * (1 if self.has_detector else self.settings.workers)

    def _shard_bytes(self) -> int:
        """Shared memory of one shard."""
        from ...detect.distributions.region import arrays_of
        from ...detect.flows.tables import memory_bytes
        from ...detect.records import EVENT

        history = self.settings.history
        total = memory_bytes(self.settings.detect) + history.ring_events * EVENT.itemsize
        total += history.evidence_bytes
        if self.counts_distributions:
            arrays = arrays_of(self.settings.distributions.queues).values()
            total += sum(dtype.itemsize * length for dtype, length in arrays)
        return total


class Collector(Mode):
    """Takes reports: joins postcards, detects events by `Detector`."""

    steps = ("decoder", "detector")

    @property
    def has_detector(self) -> bool:
        """True with several workers, since any of them may receive a report about a given flow, queue or
        packet; and if other members of a cluster send postcards.
        """
        return self.settings.workers > 1 or (self.settings.workers > 0 and self.settings.cluster.exchanges)

    def pipeline(self, shard: Shard) -> Pipeline:
        """Joiner, detector, and distributions if they are counted."""
        from ...detect.detector import Detector
        from ...detect.postcards.joiner import Joiner

        settings, stages = self.settings, list[Stage]()
        detector = Detector(settings.detect, shard.regions, shard.number, shard.counters, secret=shard.secret)
        distributions = None
        if self.counts_distributions:
            distributions = Distributions(
                settings.distributions, shard.regions, shard.number, secret=shard.secret
            )
            stages.append(CountDistributions(distributions, shard))
        if settings.cluster.enabled and shard.regions is not None:
            from ...detect.moved import CorrectionReader, open_corrections

            region = open_corrections(shard.regions)
            reader = CorrectionReader(region, detector.tables["sources"]["sources"])
            stages.append(TakeCorrections(reader, shard))
        joiner = Joiner(settings.postcards, shard.counters, held=True, secret=shard.secret)
        datagrams = holding = None
        if shard.keeps_evidence and self.has_detector and shard.regions is not None:
            paths = [ring_path(shard.regions, worker) for worker in range(settings.workers)]
            datagrams = DatagramReader([attach_ring(path) for path in paths])
        elif shard.keeps_evidence:
            ring = create_ring(None, settings.detect.queue_reports)
            datagrams, holding = DatagramReader([ring]), DatagramWriter(ring)
        return Pipeline(
            shard,
            detector,
            stages,
            joining=joiner,
            distributions=distributions,
            datagrams=datagrams,
            holding=holding,
        )


class Sink(Mode):
    """Takes packets: `SinkDetector` finds events and counts distributions; INT-MX postcards only pass."""

    steps = ("decoder", "sink")
    _distributions_by_default = True

    report_ports = ()
    """For a sink, a Telemetry Report on its way to a collector is a packet like any other."""

    def pipeline(self, shard: Shard) -> Pipeline:
        """The sink's detector, adaptation to slow destinations, and reports if they have a receiver."""
        from ...detect.sink.detector import SinkDetector
        from ..sink.adapt import Adapt, EndFlows
        from ..sink.reports import SinkReporter

        sink, stages = self.settings.sink, list[Stage]()
        detector = SinkDetector(
            self.settings, shard.regions, shard.number, shard.counters, secret=shard.secret
        )
        if shard.data is not None and sink.adapt.enabled:
            stages.append(Adapt(shard.data, detector.adaptive))
        stages.append(EndFlows(detector, shard))
        if sink.report.to:
            stages.append(SinkReporter(sink.report, detector, shard.count, shard.number))
        return Pipeline(shard, detector, stages, distributions=detector.distributions)

    def forwarder(
        self, listen: ListenSettings, count: Callable[[str, int], object], heartbeat: Heartbeat | None = None
    ) -> Forwarder | None:
        """A forwarder to the interface `listen.output`, if there is one."""
        from ..sink.forward import to_interface

        return to_interface(listen.output, self.settings.sink, count, heartbeat) if listen.output else None

    def wire(
        self,
        listen: ListenSettings,
        dialects: Sequence[Dialect],
        count: Callable[[str, int], object],
        caught_up: Callable[[], bool],
    ) -> WireListener | None:
        """The XDP program, unless `sink.forwarding` or an `obstacle` rules it out."""
        from ..sink.wire import WireListener, obstacle

        sink = self.settings.sink
        if not listen.output or sink.forwarding == "ring" or obstacle(listen, sink, dialects):
            return None
        required = sink.forwarding == "xdp"
        made = WireListener(listen, dialects[0], count, caught_up, strip=sink.strip, required=required)
        made.open()
        return made

    def _shard_bytes(self) -> int:
        """Includes the rings of sink events and evicted flows."""
        from ...detect.sink.records import EVICTED, SINK_EVENT

        sink = self.settings.sink
        rings = sink.ring_events * SINK_EVENT.itemsize + sink.ring_evictions * EVICTED.itemsize
        return super()._shard_bytes() + rings


def mode_of(settings: Settings) -> Mode:
    """The kind of collector that the settings describe."""
    return Sink(settings) if settings.sink.enabled else Collector(settings)


def pipeline_of(settings: Settings, shard: Shard | None = None) -> Pipeline:
    """The pipeline of the settings' mode; without a shard, in private memory."""
    return mode_of(settings).pipeline(shard or Shard(settings.history))
