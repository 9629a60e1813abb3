"""Metrics by Prometheus remote write, read back from Prometheus and VictoriaMetrics."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.samples import Exemplar, Timestamp

from hopscope.base.names import Names
from hopscope.export.counters import DESTINATION, DestinationRow
from hopscope.export.destination import Context
from hopscope.export.metrics.destination import MetricsDestination, Round
from hopscope.export.metrics.remote_write import RemoteWrite, request_1, request_2
from hopscope.export.metrics.sender import MetricsSender
from hopscope.memory.region import RegionError
from hopscope.runtime.checks.connect import connections
from hopscope.settings.collector import Settings
from hopscope.settings.destinations.metrics import RemoteWriteSettings
from hopscope.settings.serve import ServeSettings
from support.servers.server_process import NO_TLS, PrometheusServer, VictoriaMetrics, free_port
from support.waiting import HANG_SECONDS, eventually

HOSTILE = 'leaf "1",\n{x="}\\ größe ' + "y" * 4096


def families(value: float) -> list[Metric]:
    """A counter and a gauge, with names that nobody should have chosen."""
    counter = CounterMetricFamily("hopscope_reports", "Reports.", labels=["worker"])
    counter.add_metric(["0"], value)
    gauge = GaugeMetricFamily("hopscope_queue_occupancy", "Cells.\nLatest.", labels=["node_name", "empty"])
    gauge.add_metric([HOSTILE, ""], 7.5)
    return [counter, gauge]


def sender(url: str, **more: Any) -> tuple[MetricsSender, Any]:
    """A sender of `families` that counts on, and its counters."""
    row = np.zeros(1, DESTINATION)
    about, taken = DestinationRow(row), iter(range(1, 1000))
    given = {"kind": "remote_write", "url": url, "labels": {"site": "ams"}, **more}
    one = RemoteWrite(RemoteWriteSettings(**given), Context("lab", "m1", Names(), about.count))
    return MetricsSender(one, lambda: families(next(taken)), about), row


def test_prometheus_has_every_round(tmp_path: Path, tool: Callable[[str], str]) -> None:
    """Labels, values and times; rounds that were taken while the server was away follow in order."""
    server = PrometheusServer(tool("prometheus"), tmp_path)
    server.start()
    try:
        one, row = sender(f"{server.url}/api/v1/write", every_seconds=1)
        one.start()
        eventually(lambda: row["sent_total"][0] >= 1)
        server.kill()
        eventually(lambda: row["retried_total"][0] > 0)
        assert not row["ok"][0]
        server.start()
        eventually(lambda: row["sent_total"][0] >= 4)
        one.finish()
        assert one.ended(HANG_SECONDS)
        rounds = int(row["sent_total"][0])
        assert row["samples_total"][0] == 2 * rounds

        def asked(query: str) -> list[dict[str, Any]]:
            answer = httpx.get(
                f"{server.url}/api/v1/query",
                params={"query": query, "time": str(time.time() + 1)},
                trust_env=False,
                verify=NO_TLS,
            ).json()
            return answer["data"]["result"]

        (series,) = asked("hopscope_reports_total[1h]")
        about = {"__name__": "hopscope_reports_total", "job": "hopscope", "instance": "m1", "site": "ams"}
        assert series["metric"] == {**about, "worker": "0"}
        assert [float(value) for _, value in series["values"]] == list(range(1, rounds + 1))
        times = [at for at, _ in series["values"]]
        assert times == sorted(times)
        (series,) = asked("hopscope_queue_occupancy")
        assert series["metric"]["node_name"] == HOSTILE[:1024]
        assert "empty" not in series["metric"]
        assert float(series["value"][1]) == 7.5
        now = int(time.time())
        slow = Exemplar({"event_id": "0-7", "flow": "00ff"}, 1.5, Timestamp(now, 123_456_789))
        latency = HistogramMetricFamily("hopscope_hop_latency_seconds", "Hops.", labels=["node"])
        latency.add_metric(["1"], [("0.5", 1), ("2.0", 3, slow), ("+Inf", 3)], 4.5)
        one.destination.connect()
        one.destination.send(Round(now * 1000, [latency]))
        one.destination.close()
        span = {"query": f"{latency.name}_bucket", "start": str(now - 60), "end": str(now + 60)}
        answer = httpx.get(
            f"{server.url}/api/v1/query_exemplars", params=span, trust_env=False, verify=NO_TLS
        ).json()
        (series,) = answer["data"]
        assert series["seriesLabels"]["le"] == "2.0"
        (found,) = series["exemplars"]
        assert found == {"labels": slow.labels, "value": "1.5", "timestamp": now + 0.123}
    finally:
        server.kill()


def test_victoria_metrics_has_the_samples(tmp_path: Path, tool: Callable[[str], str]) -> None:
    """The same by VictoriaMetrics; a password that cannot be read is a reason that is shown."""
    server = VictoriaMetrics(tool("victoria-metrics"), tmp_path)
    server.start()
    try:
        one, row = sender(f"{server.url}/api/v1/write", user="x", password="file:/none")
        one.start()
        eventually(lambda: row["retried_total"][0] > 0)
        assert b"/none" in row["problem"][0]
        assert one.ended(HANG_SECONDS, give_up=True)
        assert row["stopped_total"][0] == 2
        one, row = sender(f"{server.url}/api/v1/write")
        one.start()
        one.finish()
        assert one.ended(HANG_SECONDS)
        match = 'hopscope_reports_total{instance="m1"}'
        (series,) = eventually(lambda: server.series(match))
        assert series["values"] == list(range(1, 1 + len(series["values"])))
    finally:
        server.kill()


def test_old_rounds_make_room() -> None:
    """A destination that is away for long loses the oldest rounds, counted by sample."""
    one, row = sender(f"http://127.0.0.1:{free_port()}/", every_seconds=1, queue_rounds=1)
    one.start()
    eventually(lambda: row["queue_full_total"][0] == 2)
    assert one.ended(HANG_SECONDS, give_up=True)


@pytest.mark.parametrize("error", [RegionError("regions/worker-0.flows: replaced"), ValueError("odd")])
def test_a_round_that_cannot_be_taken_is_left_out(error: Exception) -> None:
    """The ones after it are taken and delivered: while the sender waits it takes them, too."""
    rounds: list[float] = []
    values = iter(range(1, 1000))

    class Kept(MetricsDestination):
        def send(self, taken: Round) -> None:
            rounds.extend(sample.value for family in taken.families[:1] for sample in family.samples)

    def take() -> list[Metric]:
        if (value := next(values)) in (1, 3):
            raise error
        return families(value)

    row = np.zeros(1, DESTINATION)
    about = DestinationRow(row)
    settings = RemoteWriteSettings(kind="remote_write", url="http://127.0.0.1:9/", every_seconds=1)
    one = MetricsSender(Kept(settings, Context("lab", "m1", Names(), about.count)), take, about)
    one.start()
    eventually(lambda: len(rounds) >= 2)
    assert one.ended(HANG_SECONDS, give_up=True)
    assert rounds[:2] == [2, 4]
    assert (row["ok"][0], row["retried_total"][0]) == (1, 2)


def read(message: bytes) -> Iterator[tuple[int, Any]]:
    """Field numbers and values of a message, by the wire format of protocol buffers."""
    at = 0

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at, value, shift = at + 1, value | (byte & 127) << shift, shift + 7
            if byte < 128:
                return value

    while at < len(message):
        field, wire = divmod(varint(), 8)
        if wire == 0:
            yield field, varint()
        elif wire == 1:
            yield field, struct.unpack("<d", message[at : at + 8])[0]
            at += 8
        else:
            assert wire == 2
            size = varint()
            yield field, message[at : at + size]
            at += size


def fields(message: bytes, number: int) -> list[Any]:
    """The values of one field."""
    return [value for field, value in read(message) if field == number]


def test_config_check_asks_the_server(tmp_path: Path, tool: Callable[[str], str]) -> None:
    """`config check --connect` says whether the server takes samples."""
    server = VictoriaMetrics(tool("victoria-metrics"), tmp_path)
    server.start()
    try:
        found = []
        for path in ("api/v1/write", "api/v1/none"):
            lab = RemoteWriteSettings(kind="remote_write", url=f"{server.url}/{path}")
            tried = connections(Settings(listen=(), serve=ServeSettings(enabled=False), metrics={"lab": lab}))
            found += [finding.found for finding in tried]
    finally:
        server.kill()
    assert found[0] == "connected"
    assert found[1].startswith("status 4")


@settings(deadline=None)
@given(st.text(max_size=300), st.floats(allow_nan=False), st.integers(0, 2**53))
def test_both_versions_have_the_same_series(name: str, value: float, time_ms: int) -> None:
    """Read by field numbers of the specifications; in version 2 each text is there once."""
    gauge = GaugeMetricFamily("g", "Help.")
    labels = (("__name__", "g"), ("job", name))
    (series,) = fields(request_1([(labels, value, None)], time_ms), 1)
    pairs = [tuple(fields(label, part)[0].decode() for part in (1, 2)) for label in fields(series, 1)]
    assert tuple(pairs) == labels
    (sample,) = fields(series, 2)
    assert (fields(sample, 1), fields(sample, 2)) == ([value], [time_ms])
    body = request_2([(gauge, labels, value, None)] * 2, time_ms)
    texts = [text.decode() for text in fields(body, 4)]
    assert texts[0] == ""
    assert len(set(texts)) == len(texts)
    one = Exemplar({"event_id": name}, value, Timestamp(7, 123_456_789))
    (series,) = fields(request_1([(labels, value, one)], time_ms), 1)
    (found,) = fields(series, 3)
    (label,) = fields(found, 1)
    assert [fields(label, part)[0].decode() for part in (1, 2)] == ["event_id", name]
    assert (fields(found, 2), fields(found, 3)) == ([value], [7123])
    (series,) = fields(request_2([(gauge, labels, value, one)], time_ms), 5)
    (found,) = fields(series, 4)
    assert (fields(found, 2), fields(found, 3)) == ([value], [7123])
    for series in fields(body, 5):
        refs, at = fields(series, 1)[0], 0
        found = []
        while at < len(refs):
            number = refs[at] & 127
            while refs[at] > 127:
                at += 1
                number |= (refs[at] & 127) << 7
            found.append(texts[number])
            at += 1
        assert tuple(found) == ("__name__", "g", "job", name)
        (sample,) = fields(series, 2)
        assert (fields(sample, 1), fields(sample, 2)) == ([value], [time_ms])
        (about,) = fields(series, 5)
        assert fields(about, 1) == [2]
        assert texts[fields(about, 3)[0]] == "Help."
