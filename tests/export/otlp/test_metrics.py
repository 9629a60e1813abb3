"""OTLP metrics, read back by OpenTelemetry's own messages after a real collector has passed them on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from opentelemetry.proto.metrics.v1.metrics_pb2 import AGGREGATION_TEMPORALITY_CUMULATIVE, ScopeMetrics
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.samples import Exemplar, Timestamp

from hopscope.base.names import Names
from hopscope.export.counters import DESTINATION, DestinationRow
from hopscope.export.destination import Context
from hopscope.export.metrics.destination import Round
from hopscope.export.metrics.otlp import OtlpMetrics, SeriesStarts, requests
from hopscope.settings.destinations.otlp import OtlpMetricsSettings
from support.servers.bus_make import need
from support.servers.otlp_receiver import OtlpReceiver, rotel
from support.waiting import eventually

HOSTILE = 'leaf "1",\n{x="}\\ größe ' + "y" * 4096
NS = 10**6


def families(count: float) -> list[Metric]:
    """A family of each type; one has a value that is not a number."""
    counter = CounterMetricFamily("hopscope_reports", "Reports.", labels=["worker"])
    counter.add_metric(["0"], count)
    gauge = GaugeMetricFamily("hopscope_age_seconds", "Age.\nLatest.", labels=["node_name", "empty"])
    gauge.add_metric([HOSTILE, ""], 7.5)
    gauge.add_metric(["", ""], float("nan"))
    hops = HistogramMetricFamily("hopscope_hop_latency_seconds", "Hops.", labels=["node"])
    slow = Exemplar({"event_id": "0-7"}, 1.5, Timestamp(1_700_000_000, 123_456_789))
    hops.add_metric(["1"], [("0.5", 1), ("2.0", 3, slow), ("+Inf", 4)], 9.5)
    hops.add_metric(["2"], [("0.5", 0), ("2.0", 0), ("+Inf", 0)], 0.0)
    return [counter, gauge, hops, GaugeMetricFamily("hopscope_none", "")]


def read(contents: bytes) -> dict[str, Any]:
    """Metrics by name."""
    scope = ScopeMetrics()
    scope.ParseFromString(contents)
    return {metric.name: metric for metric in scope.metrics}


def labels(point: Any) -> dict[str, str]:
    return {pair.key: pair.value.string_value for pair in point.attributes}


def check(found: dict[str, Any], count: float, time_ms: int, start_ms: int) -> None:
    """All that `families` has, and nothing else."""
    assert set(found) == {"hopscope_reports", "hopscope_age_seconds", "hopscope_hop_latency_seconds"}
    reports = found["hopscope_reports"]
    assert (reports.description, reports.unit) == ("Reports.", "")
    assert reports.sum.is_monotonic
    assert reports.sum.aggregation_temporality == AGGREGATION_TEMPORALITY_CUMULATIVE
    (point,) = reports.sum.data_points
    assert (labels(point), point.as_double) == ({"worker": "0"}, count)
    assert (point.start_time_unix_nano, point.time_unix_nano) == (start_ms * NS, time_ms * NS)
    age = found["hopscope_age_seconds"]
    assert (age.description, age.unit) == ("Age.\nLatest.", "s")
    (point,) = age.gauge.data_points
    assert (labels(point), point.as_double) == ({"node_name": HOSTILE[:1024]}, 7.5)
    assert point.time_unix_nano == time_ms * NS
    hops = found["hopscope_hop_latency_seconds"].histogram
    assert hops.aggregation_temporality == AGGREGATION_TEMPORALITY_CUMULATIVE
    first, second = hops.data_points
    assert labels(first) == {"node": "1"}
    assert list(first.bucket_counts) == [1, 2, 1]
    assert list(first.explicit_bounds) == [0.5, 2.0]
    assert (first.count, first.sum) == (4, 9.5)
    (slow,) = first.exemplars
    assert {pair.key: pair.value.string_value for pair in slow.filtered_attributes} == {"event_id": "0-7"}
    assert (slow.time_unix_nano, slow.as_double) == (1_700_000_000_123_456_789, 1.5)
    assert (labels(second), second.count, list(second.bucket_counts)) == ({"node": "2"}, 0, [0, 0, 0])
    assert first.start_time_unix_nano <= first.time_unix_nano == time_ms * NS


def test_a_real_collector_passes_on_every_value(tmp_path: Path) -> None:
    """Through rotel: two rounds with their times; the second has the start of the first."""
    need("rotel")
    row = np.zeros(1, DESTINATION)
    with OtlpReceiver() as receiver, rotel(tmp_path, receiver.url) as server:
        given = OtlpMetricsSettings(kind="otlp", url=server.url)
        one = OtlpMetrics(given, Context("lab", "m.1", Names(), DestinationRow(row).count))
        one.connect()
        for at, count in ((1_700_000_000_000, 5.0), (1_700_000_015_000, 8.0)):
            one.send(Round(at, families(count)))
            eventually(lambda: receiver.metrics)
            (resource,) = receiver.metrics.pop().resource_metrics
            about = {pair.key: pair.value.string_value for pair in resource.resource.attributes}
            assert (about["service.name"], about["service.instance.id"]) == ("hopscope", "m.1")
            found = {metric.name: metric for scope in resource.scope_metrics for metric in scope.metrics}
            check(found, count, at, 1_700_000_000_000)
        one.close()
    assert row["bytes_total"][0] > 0
    assert row["failed_total"][0] == 0


def test_a_value_that_falls_is_a_new_start() -> None:
    """A counter that begins again has the time of its last point as its start; one that was away, its own."""
    starts = SeriesStarts()
    for at, count, start in ((1000, 5.0, 1000), (2000, 8.0, 1000), (3000, 2.0, 2000), (4000, 3.0, 2000)):
        (contents,) = requests(Round(at, families(count)), starts)
        check(read(contents), count, at, start)
    list(requests(Round(5000, []), starts))
    (contents,) = requests(Round(6000, families(9.0)), starts)
    check(read(contents), 9.0, 6000, 6000)


def test_a_fall_in_the_second_round_is_a_new_start() -> None:
    """The round before is the first, whose time is the start already: the new start is another one."""
    starts, given = SeriesStarts(), [(1000, 5.0), (2000, 3.0), (3000, 4.0), (4000, 1.0)]
    assert [starts.of("n", (), value, at) for at, value in given] == [1000, 1001, 1001, 3000]


def test_many_points_are_several_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request has a bounded number of points, in the order of the families."""
    monkeypatch.setattr("hopscope.export.metrics.otlp.POINTS", 2)
    bodies = [read(body) for body in requests(Round(1000, families(1.0)), SeriesStarts())]
    assert [list(body) for body in bodies] == [
        ["hopscope_reports", "hopscope_age_seconds"],
        ["hopscope_hop_latency_seconds"],
    ]
