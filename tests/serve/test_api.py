"""The API over real regions, a real ring and a real history."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics_families
from prometheus_client.parser import text_string_to_metric_families

from hopscope.detect.counters import INDEX
from hopscope.detect.distributions.quantiles import Distribution
from hopscope.detect.records import OWNERS, SOURCE
from hopscope.detect.sink.records import Measure
from hopscope.direct.counters import TRANSLATOR_COUNTERS
from hopscope.history.writing.periods import PeriodArchive
from hopscope.labels.counters import LABEL_COUNTERS
from hopscope.labels.state import FILE_NAME as LABELS
from hopscope.labels.state import LabelRule
from hopscope.labels.table import LabelTable
from hopscope.present.collector_state import CollectorState
from hopscope.rdma.counters import NIC_COUNTERS
from hopscope.serve.readiness import reporters
from hopscope.wire.address import number_of

pytestmark = pytest.mark.kernel
Use = Callable[[httpx.AsyncClient], Coroutine[Any, Any, Any]]


def run(api: Any, folder: Any, use: Use, **more: Any) -> Any:
    """Run one conversation with the API."""

    async def talk() -> Any:
        async with api(folder, **more) as client:
            return await use(client)

    return asyncio.run(talk())


def test_flows_are_sorted_filtered_and_paged(api: Any, collector: Any) -> None:
    """Filters keep what matches, `total` counts it, paging covers it once, addresses are text."""

    async def use(client: httpx.AsyncClient) -> None:
        whole = (await client.get("/api/v0/flows?sort=packets")).json()
        assert whole["total"] == 3
        assert {item["flow"]["dst"] for item in whole["items"]} == {"10.1.0.0", "10.1.0.1", "10.1.0.2"}
        assert whole["items"][0]["latency_ns"] == 3000
        pages = [(await client.get(f"/api/v0/flows?limit=1&offset={i}")).json()["items"][0] for i in range(3)]
        assert len({page["flow"]["id"] for page in pages}) == 3
        for query, count in (
            ("dst=10.1.0.2", 1),
            ("prefix=10.1.0.0/31", 2),
            ("src=192.0.2.1", 0),
            ("port=4001", 1),
            ("proto=tcp&port=80", 3),
            ("proto=17", 0),
            ("node=spine-1", 3),
            ("node=99", 0),
        ):
            assert (await client.get(f"/api/v0/flows?{query}")).json()["total"] == count, query

    run(api, collector.folder, use)


def test_a_flow_shows_its_path_with_names_and_hops(api: Any, collector: Any) -> None:
    """One flow has every hop in path order, with names beside ids; an unknown one is 404 in one line."""

    async def use(client: httpx.AsyncClient) -> None:
        flow = (await client.get("/api/v0/flows?limit=1")).json()["items"][0]["flow"]["id"]
        detail = (await client.get(f"/api/v0/flows/{flow}")).json()
        assert [hop["node"]["name"] for hop in detail["path"]] == ["leaf-1", "spine-1", "leaf-2"]
        assert detail["path"][2]["egress_port"] == {"id": 3, "name": "to host-9"}
        assert [hop["latency_ns"] for hop in detail["path"]] == [1000] * 3
        missing = await client.get(f"/api/v0/flows/{'0' * 16}")
        assert missing.status_code == 404
        assert "\n" not in missing.json()["error"]

    run(api, collector.folder, use)


def test_distributions_with_quantiles(api: Any, collector: Any) -> None:
    """What workers count, and what periods have of it, by switch and over the network; a page of it; wrong
    parameters are told in one line.
    """
    PeriodArchive(collector.folder, collector.folder / "regions", 10).take(time.time_ns())
    collector.report(occupancy=900)

    async def use(client: httpx.AsyncClient) -> None:
        found = (await client.get("/api/v0/distributions?measure=queue_occupancy&node=leaf-2")).json()
        (one,) = found["items"]
        assert (found["total"], one["node"]["name"], one["port"], one["count"]) == (1, "leaf-2", None, 6)
        assert [(each["lower"], each["upper"], each["count"]) for each in one["bins"]] == [
            (7, 7, 3),
            (896, 1023, 3),
        ]
        assert one["quantiles"][-1] == {
            "q": 0.999,
            "lower": 896,
            "upper": 900,
            "estimate": pytest.approx(899.3, abs=1),
        }
        network = (await client.get("/api/v0/distributions?by=network&bins=false")).json()["items"]
        assert [(each["measure"], each["count"], each["bins"]) for each in network] == [
            ("hop_latency", 18, None),
            ("queue_occupancy", 18, None),
            ("link_utilization", 18, None),
            ("end_to_end", 6, None),
        ]
        assert network[3]["mean"] == 3000
        page = (await client.get("/api/v0/distributions?by=queue&limit=2&offset=1&since=5m")).json()
        assert (page["total"], len(page["items"]), page["items"][0]["port"]["id"]) == (10, 2, 3)
        assert (await client.get("/api/v0/distributions?until=2000-01-01")).json()["items"] == []
        for wrong in ("measure=delay", "by=rack", "node=nowhere", "since=soon", "port=x"):
            answer = await client.get(f"/api/v0/distributions?{wrong}")
            assert answer.status_code == 400, wrong
            assert "\n" not in answer.json()["error"]

    run(api, collector.folder, use)


@pytest.mark.parametrize(("order", "sign"), [("asc", 1), ("desc", -1)])
def test_sources_by_address(
    api: Any, collector: Any, monkeypatch: pytest.MonkeyPatch, order: str, sign: int
) -> None:
    """By all of an address, IPv4 first; those of one address by switch."""
    texts = ("192.0.2.1", "2001:db8::1:0:0:9", "2001:db8::1:0:0:9", "2001:db8:1::1")
    rows = np.zeros(4, SOURCE)
    for row, text in zip(rows, texts, strict=True):
        number = number_of(text)
        row["source_hi"], row["source_lo"] = number >> 64, number & (1 << 64) - 1
    rows["node_id"] = [1, 2, 3, 4]
    monkeypatch.setattr(CollectorState, "sources", lambda _: rows[[3, 2, 0, 1]])

    async def use(client: httpx.AsyncClient) -> Any:
        return (await client.get(f"/api/v0/sources?sort=address&order={order}")).json()["items"]

    found = [(each["address"], each["node"]["id"]) for each in run(api, collector.folder, use)]
    expected = sorted(
        zip(texts, (1, 2, 3, 4), strict=True), key=lambda one: (sign * number_of(one[0]), one[1])
    )
    assert found == expected


def test_switches_ports_queues_and_sources(api: Any, collector: Any) -> None:
    """Queues and ports of every switch, a switch by id or name, and loss by sequence space."""
    collector.report(skip=4, occupancy=900)

    async def use(client: httpx.AsyncClient) -> None:
        switches = (await client.get("/api/v0/switches")).json()
        assert [s["node"]["name"] for s in switches["items"]] == ["leaf-1", "spine-1", "leaf-2"]
        by_name = (await client.get("/api/v0/switches/leaf-2")).json()
        assert by_name == (await client.get("/api/v0/switches/13")).json()
        assert by_name["highest_occupancy"] == 900
        assert by_name["alarms"] == ["queue_occupancy"]
        assert by_name["port_states"][0]["link_utilization"] == 40
        hottest = (await client.get("/api/v0/queues?limit=1")).json()["items"][0]
        assert (hottest["node"]["id"], hottest["id"], hottest["occupancy"]) == (13, 2, 900)
        assert (await client.get("/api/v0/ports?node=11")).json()["total"] == 1
        source = (await client.get("/api/v0/sources")).json()["items"][0]
        assert (source["address"], source["received"], source["lost"]) == ("192.0.2.1", 6, 4)
        summary = (await client.get("/api/v0/summary")).json()
        assert (summary["reports"], summary["lost"], summary["flows"]) == (6, 4, 3)

    run(api, collector.folder, use)


def test_moved_reports_are_the_same_in_every_view(api: Any, collector: Any) -> None:
    """Reports that other members received are in the summary, the console's totals and the metrics."""
    collector.report()
    collector.pipeline.count("moved_reports_total", 3)
    collector.pipeline.tick(time.time_ns())

    async def use(client: httpx.AsyncClient) -> None:
        assert (await client.get("/api/v0/summary")).json()["moved"] == 3
        assert (await client.get("/api/v0/overview")).json()["totals"]["moved"] == 3
        metrics = (await client.get("/metrics")).text
        assert 'hopscope_moved_reports_total{worker="0"} 3.0' in metrics
        assert re.search(r'hopscope_source_moved_reports\{.*source="192.0.2.1"\} 0', metrics)

    run(api, collector.folder, use)


def test_events_are_filtered_and_paged_fresh_ones_included(api: Any, collector: Any) -> None:
    """What has just happened is found by kind, metric, switch, flow, prefix and time; pages join."""
    collector.report(occupancy=900)

    async def use(client: httpx.AsyncClient) -> None:
        answer = await client.get("/api/v0/events?kind=raised")
        assert answer.status_code == 200, answer.text
        raised = answer.json()["items"]
        assert [(e["metric"], e["node"]["name"], e["queue"], e["value"]) for e in raised] == [
            ("queue_occupancy", "leaf-2", 2, 900)
        ]
        assert raised[0]["previous"] == 500
        flow = (await client.get("/api/v0/flows?limit=1")).json()["items"][0]["flow"]["id"]
        whole = (await client.get("/api/v0/events?limit=10000")).json()
        assert whole["next"] is None
        for query in (f"flow={flow}", "metric=flow_path", "node=leaf-1", "prefix=10.1.0.1/32", "since=-5m"):
            found = (await client.get(f"/api/v0/events?limit=10000&{query}")).json()["items"]
            assert 0 < len(found) <= len(whole["items"]), query
        node, port = raised[0]["node"]["id"], raised[0]["port"]["id"]
        at_port = [
            e for e in whole["items"] if e["node"] and e["node"]["id"] == node and e["port"] is not None
        ]
        for each in (port, port + 1):
            answer = await client.get(f"/api/v0/events?limit=10000&node={node}&port={each}")
            found = [e["id"] for e in answer.json()["items"]]
            assert found == [e["id"] for e in at_port if e["port"]["id"] == each]
        assert not (await client.get("/api/v0/events?until=2020-01-01T00:00:00Z")).json()["items"]
        ids: list[str] = []
        query = ""
        while True:
            page = (await client.get(f"/api/v0/events?limit=7{query}")).json()
            ids += [event["id"] for event in page["items"]]
            if page["next"] is None:
                break
            query = f"&after={page['next']}"
        assert ids == [event["id"] for event in whole["items"]]

    run(api, collector.folder, use)


def test_numbers_that_a_double_would_round_are_text(api: Any, collector: Any) -> None:
    """A 64-bit hash comes as decimal text, small numbers as numbers."""

    async def use(client: httpx.AsyncClient) -> None:
        body = {"sql": "SELECT max(flow_id) AS large, 7 AS small FROM events"}
        table = (await client.post("/api/v0/sql", json=body)).json()
        assert table["columns"] == ["large", "small"]
        assert isinstance(table["rows"][0][0], str)
        assert int(table["rows"][0][0]) > 2**53
        assert table["rows"][0][1] == 7

    run(api, collector.folder, use)


def test_sql_reads_and_does_nothing_else(api: Any, collector: Any) -> None:
    """A SELECT answers within the row limit; writing, files and nonsense are refused in one line with 400."""

    async def use(client: httpx.AsyncClient) -> None:
        rows = (await client.post("/api/v0/sql", json={"sql": "SELECT kind FROM events", "limit": 2})).json()
        assert len(rows["rows"]) == 2
        assert rows["truncated"]
        for text in (
            "DROP VIEW events",
            "SELECT * FROM read_csv('/etc/passwd')",
            "COPY (SELECT 1) TO '/tmp/x'",
            "nonsense",
        ):
            refused = await client.post("/api/v0/sql", json={"sql": text})
            assert refused.status_code == 400, text
            assert "\n" not in refused.json()["error"]

    run(api, collector.folder, use)


def test_limits_are_read_and_changed_in_the_workers_region(api: Any, collector: Any) -> None:
    """PATCH changes what is given, PUT everything; the limits that workers read follow; nonsense is 400."""

    async def use(client: httpx.AsyncClient) -> None:
        url = "/api/v0/limits/hop_latency"
        assert (await client.get("/api/v0/limits")).json()["general"]["queue_occupancy"]["raise_above"] == 500
        patched = (await client.patch(url, json={"raise_above": 5000})).json()
        assert patched == {"change": 20000, "raise_above": 5000, "clear_below": None}
        put = (await client.put(url, json={"change": None, "raise_above": 9, "clear_below": 3})).json()
        assert put == {"change": None, "raise_above": 9, "clear_below": 3}
        bad: list[Any] = [{"clear_below": 10}, {"change": -1}, {"change": "much"}, {"raise": 3}, []]
        for body in bad:
            assert (await client.patch(url, json=body)).status_code == 400, body
        assert (await client.patch("/api/v0/limits/flow_path", json={})).status_code == 404

    run(api, collector.folder, use)
    limits = to_limits(collector)
    assert (limits.change, limits.raise_above, limits.clear_below) == (None, 9, 3)


def to_limits(collector: Any) -> Any:
    """What the workers read of hop_latency."""
    from hopscope.detect.thresholds import read_limits

    return read_limits(collector.control).general.hop_latency


def test_limits_by_switch_are_read_and_changed(api: Any, collector: Any) -> None:
    """PATCH also changes those of one switch, in a sink of fewer metrics; DELETE undoes it; who did it is
    shown.
    """
    from hopscope.detect.thresholds import read_limits

    async def use(client: httpx.AsyncClient) -> None:
        url = "/api/v0/limits"
        before = (await client.get(url)).json()
        assert (before["switches"], before["changed"]) == ({}, None)
        body = {
            "general": {"flow_latency": {"raise_above": 9}},
            "switches": {"7": {"hop_latency": {"change": None}}},
        }
        buffers = {"switches": {"7": {"buffer_occupancy": {"change": 1}}}}
        assert (await client.patch(url, json=buffers)).json()["switches"] == buffers["switches"]
        assert (await client.delete(url)).json()["switches"] == {}
        collector.become_sink()
        after = (await client.patch(url, json=body)).json()
        assert after["general"].keys() == before["general"].keys() - {"queue_congestion", "buffer_occupancy"}
        assert after["general"]["flow_latency"] == {**before["general"]["flow_latency"], "raise_above": 9}
        assert after["switches"] == {"7": {"hop_latency": {"change": None}}}
        assert after["changed"]["by"].startswith("data folder's token from 127.0.0.1 (uid ")
        assert (await client.get("/api/v0/limits/buffer_occupancy")).status_code == 404
        bad: list[Any] = [
            {"speed": {}}, {"general": {"hop_latency": {"raise_above": -1}}}, {"switches": {"x": {}}}, [],
            {"general": {"hop_latency": {"change": "general"}}},
            {"general": {"buffer_occupancy": {"change": 1}}}, buffers,
        ]  # fmt: skip
        for wrong in bad:
            assert (await client.patch(url, json=wrong)).status_code == 400, wrong
        assert (await client.get(url)).json() == after
        assert (await client.delete(url)).json()["general"]["flow_latency"] == before["general"][
            "flow_latency"
        ]

    run(api, collector.folder, use)
    assert read_limits(collector.control) == collector.settings.limits


def test_metrics_parse_and_carry_no_flow(api: Any, collector: Any) -> None:
    """The exposition is valid, counters agree with the regions, and no label holds an address of a flow."""

    async def use(client: httpx.AsyncClient) -> str:
        return (await client.get("/metrics")).text

    text = run(api, collector.folder, use)
    families = {family.name: family for family in text_string_to_metric_families(text)}
    assert families["hopscope_reports"].samples[0].value == 3
    assert families["hopscope_flows"].samples[0].value == 3
    occupancy = {s.labels["node_name"]: s.value for s in families["hopscope_queue_occupancy"].samples}
    assert occupancy == {"leaf-1": 0, "spine-1": 1, "leaf-2": 7}
    assert "10.1.0." not in text


def test_exemplars_lead_to_events(api: Any, collector: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """In OpenMetrics a bucket has the newest event with a value in it; the API has that event."""
    parts = [
        Distribution(
            measure, np.array([0], np.uint64), np.array([2**34], np.uint64), np.array([3], np.uint64),
            900, 400, *place,
        )
        for measure, place in ((Measure.HOP_LATENCY, (13, 3, 0)), (Measure.END_TO_END, ()))
    ]  # fmt: skip
    monkeypatch.setattr(CollectorState, "distributions", lambda self: parts)

    async def use(client: httpx.AsyncClient) -> tuple[Any, list[Any]]:
        asked = {"accept": "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5"}
        return (
            await client.get("/metrics", headers=asked),
            (await client.get("/api/v0/events")).json()["items"],
        )

    answer, items = run(api, collector.folder, use)
    assert answer.headers["content-type"].startswith("application/openmetrics-text; version=1.0.0")
    found = {family.name: family for family in openmetrics_families(answer.text)}  # type: ignore[no-untyped-call]
    events = {item["id"]: item for item in items}
    for name, metric in (("hop", "hop_latency"), ("end_to_end", "flow_latency")):
        samples = found[f"hopscope_{name}_latency_seconds"].samples
        bounds = [0.0, *(float(each.labels["le"]) for each in samples if "le" in each.labels)]
        with_event = [
            (low, high, each.exemplar)
            for low, high, each in zip(bounds, bounds[1:], samples, strict=False)
            if each.exemplar
        ]
        assert with_event
        for low, high, exemplar in with_event:
            event = events[exemplar.labels["event_id"]]
            assert (event["metric"], event["flow"]["id"]) == (metric, exemplar.labels["flow"])
            assert low < exemplar.value == event["value"] / 1e9 <= high
            assert (
                f"{event['time'][:19]}+00:00"
                == datetime.fromtimestamp(int(float(exemplar.timestamp)), UTC).isoformat()
            )


def test_metrics_have_latency_drops_and_alarms(
    api: Any, collector: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Buckets of latencies agree with the distributions; drops and alarms have families."""
    parts = [
        Distribution(
            measure, np.array(low, np.uint64), np.array(high, np.uint64), np.array([3, 1], np.uint64),
            3 * 300 + 5000, 5000, *place,
        )
        for measure, place in ((Measure.HOP_LATENCY, (2, 5, 0)), (Measure.END_TO_END, ()))
        for low, high in [((256, 4096), (511, 5119))]
    ]  # fmt: skip
    monkeypatch.setattr(CollectorState, "distributions", lambda self: parts)
    collector.pipeline.shard.counters[INDEX["alarms.queue_occupancy"]] = 2

    async def use(client: httpx.AsyncClient) -> bytes:
        return (await client.get("/metrics")).content

    content = run(api, collector.folder, use)
    families = {family.name: family for family in text_string_to_metric_families(content.decode())}
    for name in ("hop", "end_to_end"):
        samples = families[f"hopscope_{name}_latency_seconds"].samples
        buckets = {s.labels["le"]: s.value for s in samples if s.name.endswith("_bucket")}
        assert (buckets["2.55e-07"], buckets["5.11e-07"], buckets["4.095e-06"]) == (0, 3, 3)
        assert (buckets["8.191e-06"], buckets["+Inf"]) == (4, 4)
        assert {s.name[len(f"hopscope_{name}_latency_seconds") :]: s.value for s in samples}["_sum"] == 5.9e-6
    place = families["hopscope_hop_latency_seconds"].samples[0].labels
    assert (place["node"], place["port"], place["queue"]) == ("2", "5", "0")
    assert families["hopscope_alarms"].samples[2].value == 2
    assert {s.labels["percentile"] for s in families["hopscope_flow_latency_seconds"].samples} == {
        "50", "90", "99", "100",
    }  # fmt: skip
    assert "hopscope_drops" in families
    assert promtool(content) == ""


def promtool(text: bytes) -> str:
    """What `promtool check metrics` finds wrong with an exposition."""
    if shutil.which("promtool") is None and not os.environ.get("HOPSCOPE_REQUIRE_TOOLS"):
        pytest.skip("needs promtool (Debian package prometheus)")
    done = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, check=False)
    return (done.stdout + done.stderr).decode() + (f"exit {done.returncode}" if done.returncode else "")


def test_metrics_follow_the_naming_rules(api: Any, collector: Any) -> None:
    """promtool has nothing to say about any metric, those of a translator, a NIC and labels included."""

    async def use(client: httpx.AsyncClient) -> bytes:
        return (await client.get("/metrics")).content

    assert promtool(b"# HELP busy_ns_total Time.\n# TYPE busy_ns_total counter\nbusy_ns_total 1\n")
    regions, stores = collector.folder / "regions", collector.folder / "direct"
    stores.mkdir(exist_ok=True)
    LABEL_COUNTERS.open(regions).put("labels_total", 7)
    TRANSLATOR_COUNTERS.open(stores).put("dta_acks_total", 7)
    NIC_COUNTERS.open(stores).put("nic_packets_total", 7)
    text = run(api, collector.folder, use)
    for name in ("labels_total", "dta_acks_total", "nic_packets_total"):
        assert f"hopscope_{name} 7.0" in text.decode()
    assert promtool(text) == ""


def test_metrics_are_in_base_units(api: Any, collector: Any) -> None:
    """Times are seconds, shares ratios; label values have no blanks."""

    async def use(client: httpx.AsyncClient) -> str:
        return (await client.get("/metrics")).text

    collector.pipeline.shard.counters[INDEX["busy_ns_total"]] = 1_500_000_000
    collector.pipeline.shard.counters[INDEX["sink_threshold_increase_permille"]] = 250
    text = run(api, collector.folder, use)
    assert 'hopscope_busy_seconds_total{worker="0"} 1.5' in text
    assert 'hopscope_sink_threshold_increase_ratio{worker="0"} 0.25' in text
    assert 'hopscope_rejected_headers_total{header="inner_l4",worker="0"}' in text


def test_health_names_every_component(api: Any, collector: Any, tmp_path: Any) -> None:
    """Ready with a collector; without one 503, and the components say what is missing."""

    async def ready(client: httpx.AsyncClient) -> httpx.Response:
        assert (await client.get("/healthz")).json() == {"status": "ok"}
        return await client.get("/readyz")

    assert run(api, collector.folder, ready).json()["ready"]
    empty = run(api, tmp_path / "nothing", ready)
    assert empty.status_code == 503
    assert not any(part["ready"] for part in empty.json()["components"])


def test_a_full_disk_is_not_ready(api: Any, collector: Any) -> None:
    """The component says how many events wait, and later how many were lost; pages of events say it, too."""

    async def history(client: Any) -> Any:
        parts = (await client.get("/readyz")).json()["components"]
        return next(part for part in parts if part["name"] == "history")

    async def waiting(client: Any) -> Any:
        return (await client.get("/api/v0/events")).json()["waiting"]

    counted = collector.pipeline.shard.counted
    assert run(api, collector.folder, history)["ready"]
    assert run(api, collector.folder, waiting) == 0
    counted.put("journal_failing", 1)
    counted.put("journal_waiting_events", 1234)
    found = run(api, collector.folder, history)
    assert not found["ready"]
    assert "it accepts no events, 1,234 wait in memory" in found["detail"]
    assert run(api, collector.folder, waiting) == 1234
    counted.put("journal_failing", 0)
    counted.put("journal_lost_events_total", 5)
    found = run(api, collector.folder, history)
    assert found["ready"]
    assert found["detail"].endswith("; 5 were lost")
    labels = LABEL_COUNTERS.open(collector.folder / "regions")
    labels.put("label_journal_failing", 1)
    labels.put("label_waiting_events", 3)
    found = run(api, collector.folder, history)
    assert not found["ready"]
    assert "it accepts no events, 1,237 wait in memory" in found["detail"]


def test_full_tables_are_named_and_stop_nothing(api: Any, collector: Any) -> None:
    """Strangers can fill tables: the component says so, and the collector stays ready."""

    async def ready(client: Any) -> Any:
        answer = await client.get("/readyz")
        part = next(part for part in answer.json()["components"] if part["name"] == "tables")
        return answer.json()["ready"], part["ready"], part["detail"]

    assert run(api, collector.folder, ready)[:2] == (True, True)
    region = collector.pipeline.detection.tables["ports"]
    region["shares"][OWNERS] = len(region["ports"])
    collector.pipeline.shard.counted.put("port_table_full_total", 7)
    collector.pipeline.shard.counted.put("source_evictions_total", 3)
    whole, part, detail = run(api, collector.folder, ready)
    assert (whole, part) == (True, False)
    assert "queues and ports 100%" in detail
    assert "; 7 values and reports were not tracked; 3 rows went to sources with fewer" in detail
    collector.pipeline.shard.counted.put("distribution_evictions_total", 2)
    assert run(api, collector.folder, ready)[2].endswith("; 2 distributions made room for others")


def test_reporters_without_room_are_named(tmp_path: Path) -> None:
    """A translator's table of reporters is shown once it has run, and is ready while it has room."""
    assert reporters(tmp_path) == []
    counted = TRANSLATOR_COUNTERS.open(tmp_path)
    counted.put("dta_datagrams_total", 10)
    assert [part.ready for part in reporters(tmp_path)] == [True]
    counted.put("dta_untracked_total", 4)
    counted.put("dta_reporters_full", 1)
    (part,) = reporters(tmp_path)
    assert (part.name, part.ready, part.detail) == (
        "reporters",
        False,
        "sequence numbers of 4 reports were not checked",
    )


def test_a_collector_of_labels_alone_is_ready(api: Any, collector: Any, tmp_path: Any) -> None:
    """Without listeners there are no workers: the label table is what must be there."""
    folder = tmp_path / "labels"
    (folder / "regions").mkdir(parents=True)
    (folder / "journal").mkdir()
    (folder / "owner.json").write_text('{"schema": 1, "pid": 1, "listen": [], "labels": "127.0.0.1:1"}')

    async def regions(client: httpx.AsyncClient) -> Any:
        parts = (await client.get("/readyz")).json()["components"]
        return next(part for part in parts if part["name"] == "regions")

    assert run(api, folder, regions)["detail"] == "no worker has made its regions"
    rule = LabelRule(10**8, 10**7, 10**7, "off")
    LabelTable(folder / "regions" / LABELS, rule)
    assert run(api, folder, regions) == {
        "name": "regions",
        "ready": True,
        "detail": "0 ports with labels",
        "advice": "",
    }
    (folder / "owner.json").write_text('{"schema": 1, "pid": 1, "listen": ["udp://127.0.0.1:1"]}')
    assert not run(api, folder, regions)["ready"]


def test_head_is_get_without_a_body(api: Any, collector: Any) -> None:
    """Load balancers and uptime checks ask with HEAD; the live feed ends after its headers."""

    async def use(client: httpx.AsyncClient) -> None:
        for path in ("/healthz", "/readyz", "/metrics", "/api/v0/summary", "/api/v0/events/live"):
            answer = await client.head(path)
            assert (answer.status_code, answer.content) == (200, b""), path
            assert answer.headers["content-type"]
        assert (await client.head("/api/v0/nothing")).status_code == 404

    run(api, collector.folder, use)


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("DELETE", "/api/v0/flows", "GET, HEAD"),
        ("POST", "/api/v0/flows", "GET, HEAD"),
        ("GET", "/api/v0/sql", "POST"),
        ("POST", "/api/v0/limits/hop_latency", "GET, HEAD, PATCH, PUT"),
        ("POST", "/metrics", "GET, HEAD"),
        ("PUT", "/healthz", "GET, HEAD"),
    ],
)
def test_a_wrong_method_is_405(api: Any, collector: Any, method: str, path: str, allowed: str) -> None:
    """In one line of JSON, with the methods that are allowed."""

    async def use(client: httpx.AsyncClient) -> httpx.Response:
        return await client.request(method, path)

    answer = run(api, collector.folder, use)
    assert (answer.status_code, answer.headers["allow"]) == (405, allowed)
    assert answer.json() == {"error": f"{method} is not allowed here, expected {allowed}"}


PATHS = [
    "/api/v0/flows", "/api/v0/flows/{x}", "/api/v0/switches", "/api/v0/switches/{x}", "/api/v0/ports",
    "/api/v0/queues", "/api/v0/sources", "/api/v0/summary", "/api/v0/events", "/api/v0/limits/{x}",
    "/api/v0/{x}", "/metrics",
]  # fmt: skip
NAMES = [
    "sort", "order", "src", "dst", "prefix", "port", "proto", "node", "offset", "limit", "since", "until",
    "kind", "metric", "flow", "after", "oldest_first",
]  # fmt: skip
VALUES = st.one_of(
    st.text(max_size=40),
    st.integers(-(2**70), 2**70).map(str),
    st.sampled_from(
        ["10.0.0.0/8", "::/0", "-5m", "0x10", "leaf-1", "latency", "raised", "f" * 16, "1-1-1", "9" * 19]
    ),
)


def test_hostile_parameters_never_break_a_route(api: Any, collector: Any) -> None:
    """Whatever the path and the parameters are, the answer is JSON and not a 500."""

    async def use(client: httpx.AsyncClient) -> None:
        loop = asyncio.get_running_loop()

        @settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))
        @given(
            path=st.sampled_from(PATHS),
            inside=VALUES,
            query=st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=3),
        )
        def probe(path: str, inside: str, query: dict[str, str]) -> None:
            url = path.replace("{x}", quote(inside, safe=""))
            answer = asyncio.run_coroutine_threadsafe(client.get(url, params=query), loop).result(30)
            assert answer.status_code != 500, (url, query, answer.text)
            assert answer.status_code in (200, 307, 400, 401, 404, 405, 503), answer.status_code
            if answer.status_code >= 400:
                assert "\n" not in answer.json()["error"]

        await asyncio.to_thread(probe)

    run(api, collector.folder, use)


def test_openapi_describes_every_route(api: Any, tmp_path: Any) -> None:
    """The description lists the routes, each with a summary and the model of its answer."""

    async def use(client: httpx.AsyncClient) -> Any:
        return (await client.get("/api/v0/openapi.json")).json()

    paths = run(api, tmp_path, use)["paths"]
    assert {"/api/v0/flows/{flow_id}", "/api/v0/events/live", "/api/v0/sql", "/readyz"} <= set(paths)
    assert all(operation["summary"] for path in paths.values() for operation in path.values())


@pytest.mark.parametrize(
    ("path", "error"),
    [
        ("/flows?prefx=10.0.0.0/8", "unknown parameter 'prefx'; did you mean prefix?"),
        ("/summary?sort=latency", "unknown parameter 'sort'; expected scope"),
        ("/events?limit=1&begin=5m", "unknown parameter 'begin'; expected since, until, "),
        ("/labels?x=1", "unknown parameter 'x'; expected"),
        ("/direct/stores?x=1", "unknown parameter 'x'; expected"),
    ],
)
def test_an_unknown_parameter_is_an_error(api: Any, collector: Any, path: str, error: str) -> None:
    """A typo in a filter's name must not answer with everything."""

    async def use(client: httpx.AsyncClient) -> httpx.Response:
        return await client.get(f"/api/v0{path}")

    answer = run(api, collector.folder, use)
    assert answer.status_code == 400, answer.text
    assert answer.json()["error"].startswith(error)


def test_errors_of_a_body_say_what_to_send(api: Any, collector: Any) -> None:
    """Neither Python's nor pydantic's words: the key that is unknown, the header that is missing."""

    async def use(client: httpx.AsyncClient) -> list[str]:
        url = "/api/v0/limits/hop_latency"
        answers = [
            await client.patch(url, content=b'{"change": 5}'),
            await client.patch(url, json={"rise_above": 5}),
            await client.put(url, json={"change": 5, "raise_above": 9}),
            await client.patch(url, json={"change": "x"}),
            await client.patch(url, json={"change": True}),
            await client.post("/api/v0/silences", json={"port": True, "until": "2h"}),
            await client.post("/api/v0/sql", json={"sql": "SELECT 1", "limit": True}),
            await client.post("/api/v0/labels/tracked", json={"src": "::1", "dst": "::2", "every": True}),
        ]
        assert {answer.status_code for answer in answers} == {400}
        return [answer.json()["error"] for answer in answers]

    assert run(api, collector.folder, use) == [
        "body: found no JSON, expected JSON with the header `Content-Type: application/json`",
        "rise_above: unknown key; did you mean raise_above?",
        "clear_below: not given, expected a value",
        "change: expected a whole number, found 'x'",
        "change: expected a whole number, found 'True'",
        "port: expected a whole number, found 'True'",
        "limit: expected a whole number, found 'True'",
        "every: expected a whole number, found 'True'",
    ]


def test_starts_without_what_few_ask_for() -> None:
    """Making the application loads neither DuckDB nor the client library of Prometheus: queries do."""
    program = (
        "import sys, hopscope.serve.api, hopscope.serve.scope, hopscope.direct.collectors.open\n"
        "print({'duckdb', 'prometheus_client', 'numba'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
