"""The two kinds of collector, of reports and as an INT sink. Only here is it asked which one runs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING

from ..detect.distributions.region import Distributions
from ..settings.collector import ListenSettings, Settings
from .pipeline import CountDistributions, Pipeline, Stage
from .shard import Shard

if TYPE_CHECKING:
    from .sink.forward import Forwarder


class Mode(ABC):
    """A kind of collector, with its settings."""

    report_ports: tuple[int, ...] | None = None
    """UDP ports of Telemetry Reports; None: as the dialect says."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    @abstractmethod
    def pipeline(self, shard: Shard) -> Pipeline:
        """The pipeline of a shard. Raises RegionError, CaptureError."""

    def forwarder(self, listen: ListenSettings, count: Callable[[str, int], object]) -> Forwarder | None:
        """Where the frames of a listener go on; None: nowhere. Raises CaptureError."""
        return None


class Collector(Mode):
    """Takes reports: postcards are joined, events found by `Detector`."""

    def pipeline(self, shard: Shard) -> Pipeline:
        """Joiner, detector, and distributions if they are counted."""
        from ..detect.detector import Detector
        from ..detect.postcards.joiner import Joiner

        settings, stages = self.settings, list[Stage]()
        detector = Detector(settings.detect, shard.regions, shard.number, shard.counters)
        distributions = None
        if settings.counts_distributions:
            distributions = Distributions(settings.distributions, shard.regions, shard.number)
            stages.append(CountDistributions(distributions, shard))
        joiner = Joiner(settings.postcards, shard.counters, held=True)
        return Pipeline(shard, detector, stages, joining=joiner, distributions=distributions)


class Sink(Mode):
    """Takes packets: events and distributions come from `SinkDetector`, INT-MX postcards only pass."""

    report_ports = ()
    """To a sink, a Telemetry Report on its way to a collector is a packet like others."""

    def pipeline(self, shard: Shard) -> Pipeline:
        """The sink's detector, adaptation to slow destinations, and its own reports if they are asked for."""
        from ..detect.sink.detector import SinkDetector
        from .sink.adapt import Adapt, EndFlows
        from .sink.reports import SinkReporter

        sink, stages = self.settings.sink, list[Stage]()
        detector = SinkDetector(self.settings, shard.regions, shard.number, shard.counters)
        if shard.data is not None and sink.adapt.enabled:
            stages.append(Adapt(shard.data, detector.adaptive))
        stages.append(EndFlows(detector))
        if sink.report.to:
            stages.append(SinkReporter(sink.report, detector, shard.count, shard.number))
        return Pipeline(shard, detector, stages, distributions=detector.distributions)

    def forwarder(self, listen: ListenSettings, count: Callable[[str, int], object]) -> Forwarder | None:
        """The interface `listen.output`, if there is one."""
        from .sink.forward import to_interface

        return to_interface(listen.output, self.settings.sink, count) if listen.output else None


def mode_of(settings: Settings) -> Mode:
    """What the settings ask for."""
    return Sink(settings) if settings.sink.enabled else Collector(settings)


def pipeline_of(settings: Settings, shard: Shard | None = None) -> Pipeline:
    """The pipeline that the settings ask for; without a shard, in private memory."""
    return mode_of(settings).pipeline(shard or Shard(settings.history))
