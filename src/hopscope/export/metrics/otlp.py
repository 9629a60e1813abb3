"""OTLP metrics (opentelemetry/proto/metrics/v1): gauges, cumulative sums and histograms, over HTTP."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from prometheus_client.core import Metric
from prometheus_client.samples import Exemplar, Sample, Timestamp

from ...settings.destinations.otlp import OtlpMetricsSettings
from ..destination import Context, DeliveryError
from ..otlp.client import OtlpClient, attribute
from ..protobuf import bytes_field, double_field, fixed_field, number_field, text_field
from .destination import MetricsDestination, Round

POINTS = 5000
"""Maximum number of points in one request, unless a single metric has more."""
TEXT = 1024
"""Maximum length of an attribute's value."""
_METRICS = 2
"""Field of ScopeMetrics."""
_GAUGE, _SUM, _HISTOGRAM = 5, 7, 9
"""Fields of Metric."""
_CUMULATIVE = 2
"""AggregationTemporality."""
_UNITS = {"_seconds": "s", "_bytes": "By", "_ratio": "1"}
"""Unit (UCUM) by the end of a metric's name."""
Labels = tuple[tuple[str, str], ...]


class OtlpMetrics(MetricsDestination):
    """One receiver."""

    _client: OtlpClient

    def __init__(self, settings: OtlpMetricsSettings, context: Context) -> None:
        super().__init__(settings, context)
        self._starts = SeriesStarts()

    def connect(self) -> None:
        """Check with an empty request whether the receiver accepts metrics."""
        self.close()
        settings = self.settings
        self._client = OtlpClient(settings, "metrics", self.context.member, settings.timeout_seconds)
        self._client.send(b"")

    def send(self, taken: Round) -> None:
        """Post the metrics of a round, a few thousand points at a time."""
        rejected, problem = 0, ""
        for metrics in requests(taken, self._starts):
            sent, more, reason = self._client.post(metrics, {})
            self.context.count("bytes_total", sent)
            if more:
                rejected, problem = rejected + more, reason
        if rejected:
            raise DeliveryError(problem, again=False, rejected=rejected)


class SeriesStarts:
    """The start of each cumulative series: its first round, and a new start whenever its value falls.

    For receivers, a first point whose start equals its own time has an unknown start (OpenTelemetry metrics
    data model, "Cumulative streams: handling unknown start time").
    """

    def __init__(self) -> None:
        self._known: dict[tuple[str, Labels], tuple[int, int, float]] = {}

    def of(self, name: str, labels: Labels, value: float, time_ms: int) -> int:
        """The start, in ms, of the series with this value at `time_ms`."""
        start, last_ms, last = self._known.get((name, labels), (time_ms, time_ms, -math.inf))
        if value < last:
            start = max(last_ms, start + 1)  # a new start, even if the value fell in the second round
        if time_ms >= last_ms:
            self._known[name, labels] = start, time_ms, value
        return start

    def forget(self, time_ms: int) -> None:
        """Forget the series that were absent from the round at this time."""
        self._known = {key: known for key, known in self._known.items() if known[1] >= time_ms}


def requests(taken: Round, starts: SeriesStarts) -> Iterator[bytes]:
    """Metrics of a round, as fields of a ScopeMetrics for each request."""
    metrics: list[bytes] = []
    count = 0
    for family in taken.families:
        points = list(_points(family, taken.time_ms, starts))
        if not points:
            continue
        if metrics and count + len(points) > POINTS:
            yield b"".join(metrics)
            metrics, count = [], 0
        metrics.append(_metric(family, points))
        count += len(points)
    starts.forget(taken.time_ms)
    if metrics:
        yield b"".join(metrics)


def _metric(family: Metric, points: Sequence[bytes]) -> bytes:
    about = text_field(1, family.name) + text_field(2, family.documentation)
    about += b"".join(text_field(3, unit) for end, unit in _UNITS.items() if family.name.endswith(end))
    values = b"".join(bytes_field(1, point) for point in points)
    if family.type == "histogram":
        return bytes_field(_METRICS, about + bytes_field(_HISTOGRAM, values + number_field(2, _CUMULATIVE)))
    if family.type == "counter":
        values += number_field(2, _CUMULATIVE) + number_field(3, 1)
        return bytes_field(_METRICS, about + bytes_field(_SUM, values))
    return bytes_field(_METRICS, about + bytes_field(_GAUGE, values))


def _points(family: Metric, time_ms: int, starts: SeriesStarts) -> Iterator[bytes]:
    """A NumberDataPoint or HistogramDataPoint for each series, except for values that are not numbers."""
    if family.type == "histogram":
        yield from _histograms(family, time_ms, starts)
        return
    for sample in family.samples:
        labels, value = _labels(sample), float(sample.value)
        if not math.isfinite(value):
            continue
        point = b"".join(attribute(7, *label) for label in labels) + fixed_field(3, time_ms * 10**6)
        if family.type == "counter":
            point += fixed_field(2, starts.of(family.name, labels, value, time_ms) * 10**6)
        yield point + double_field(4, value)


def _histograms(family: Metric, time_ms: int, starts: SeriesStarts) -> Iterator[bytes]:
    for labels, samples in _by_series(family.samples):
        bounds, below, total, exemplars = [], [0], 0.0, b""
        for sample in samples:
            if sample.exemplar is not None:
                exemplars += bytes_field(8, _exemplar(sample.exemplar))
            if sample.name.endswith("_bucket"):
                bounds.append(float(sample.labels["le"]))
                below.append(int(sample.value))
            elif sample.name.endswith("_sum"):
                total = float(sample.value)
        counts = [high - low for low, high in pairwise(below)]
        start = starts.of(family.name, labels, below[-1], time_ms)
        yield (
            b"".join(attribute(9, *label) for label in labels)
            + fixed_field(2, start * 10**6)
            + fixed_field(3, time_ms * 10**6)
            + fixed_field(4, below[-1])
            + double_field(5, total)
            + bytes_field(6, struct.pack(f"<{len(counts)}Q", *counts))
            + bytes_field(7, struct.pack(f"<{len(bounds) - 1}d", *bounds[:-1]))
            + exemplars
        )


def _exemplar(one: Exemplar) -> bytes:
    """The content of an Exemplar; its labels are filtered attributes."""
    assert isinstance(one.timestamp, Timestamp)
    labels = b"".join(attribute(7, *label) for label in one.labels.items())
    time_ns = one.timestamp.sec * 10**9 + one.timestamp.nsec
    return labels + fixed_field(2, time_ns) + double_field(3, one.value)


def _by_series(samples: Iterable[Sample]) -> Iterator[tuple[Labels, list[Sample]]]:
    """Samples of a histogram, by their labels other than the bucket's."""
    found: dict[Labels, list[Sample]] = {}
    for sample in samples:
        found.setdefault(_labels(sample), []).append(sample)
    yield from found.items()


def _labels(sample: Sample) -> Labels:
    """Nonempty labels, except the bucket's."""
    return tuple((name, text[:TEXT]) for name, text in sample.labels.items() if text and name != "le")
