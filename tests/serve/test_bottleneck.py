"""Who is to blame, from each source that a data folder may have: in the API, on the page, by the command."""

from __future__ import annotations

import asyncio
import json
import time
from subprocess import CompletedProcess
from typing import Any

import numpy as np
import pytest

from hopscope.detect.distributions.region import Distributions
from hopscope.detect.records import FLOW
from hopscope.present.collector_state import CollectorState
from hopscope.serve.overview.contributors import ContributorsReader
from hopscope.wire.encode.encoder import new_hops, new_reports
from hopscope.wire.records import ReportBatch
from support.processes.command import hopscope

pytestmark = pytest.mark.kernel
INSTRUCTIONS = 0xF100
SCRIPT = "<script>alert(1)</script>"


def count(distributions: Distributions, latencies: tuple[int, int, int], packets: int = 100) -> None:
    """Packets over the collector's three switches with these hop latencies."""
    reports = new_reports(packets)
    reports["hop_count"], reports["first_hop"] = 3, 3 * np.arange(packets)
    reports["int_version"], reports["int_mode"], reports["time_ns"] = 20, 1, 10**18
    hops = new_hops(3 * packets, INSTRUCTIONS)
    hops["node_id"], hops["egress_port"], hops["queue_id"] = np.tile((11, 12, 13), packets), 3, 2
    hops["hop_latency"] = np.tile(latencies, packets)
    hops["queue_occupancy"], hops["tx_utilization"] = np.tile((0, 1, 7), packets), 40
    assert distributions.update(ReportBatch(reports, hops)) == 0


@pytest.fixture
def distributions(collector: Any) -> Distributions:
    """A worker's distributions, of 100 packets of which the last hop takes most."""
    made: Distributions = collector.pipeline.distributions
    made.bins[:] = 0
    for name in ("sum", "highest"):
        made.rows[name] = 0
    count(made, (100, 300, 1600))
    return made


def ask(collector: Any, api: Any, *urls: str) -> list[Any]:
    """(Status, answer) of each."""

    async def talk() -> list[Any]:
        async with api(collector.folder) as client:
            answers = [await client.get(f"/api/v0/{url}") for url in urls]
        return [(answer.status_code, answer.json()) for answer in answers]

    return asyncio.run(talk())


def test_api_with_distributions(collector: Any, distributions: Distributions, api: Any) -> None:
    """Shares, quantiles, occupancy of all packets, names; slow flows of now, drops of history."""
    urls = ("bottleneck", "bottleneck?since=1h&limit=1", "bottleneck?since=never", "bottleneck?limit=0")
    (status, got), (_, windowed), (bad, _), (none, _) = ask(collector, api, *urls)
    assert (status, bad, none) == (200, 400, 400)
    assert got["source"] == windowed["source"] == "distributions"
    first, second, third = got["items"]
    assert first["node"] == {"id": 13, "name": "leaf-2"}
    assert first["port"] == {"id": 3, "name": "to host-9"}
    assert (first["queue"], first["share"], first["mean_ns"], first["packets"]) == (2, 0.8, 1600, 100)
    assert first["p99_ns"]["lower"] <= 1600 <= first["p99_ns"]["upper"]
    assert first["occupancy"] == {"latest": 7, "mean": 7.0, "highest": 7}
    assert first["utilization"] == {"latest": 40, "mean": 40.0, "highest": 40}
    assert (second["share"], third["share"]) == (0.15, 0.05)
    assert got["end_to_end"]["mean_ns"] == 2000
    # the live flows' latency, 3000 ns, is above that of 95 % of the packets
    assert (got["slow_flows"], first["slow_flows"]) == (3, 3)
    assert [one["node"]["id"] for one in windowed["items"]] == [13]
    assert (got["truncated"], windowed["truncated"]) == (False, True)
    assert windowed["since"] < windowed["until"]


def test_api_of_a_flow(collector: Any, distributions: Distributions, api: Any) -> None:
    """A live flow's hops beside what is usual at their places; one that left by its events; nobody's none."""
    flow = collector_flow(collector)
    urls = (f"flows/{flow}/bottleneck?by=mean", "flows/00000000000000ff/bottleneck")
    (_, got), (_, none) = ask(collector, api, *urls)
    assert (got["source"], got["latency_ns"]) == ("flows", 3000)
    assert got["quantile"] == {"lower": 1.0, "upper": 1.0}
    assert [(one["node"]["id"], one["share"], one["latency_ns"]) for one in got["items"]] == [
        (node, 1 / 3, 1000) for node in (11, 12, 13)
    ]
    assert got["items"][0]["quantile"] == {"lower": 1.0, "upper": 1.0}
    assert got["items"][2]["quantile"] == {"lower": 0.0, "upper": 0.0}
    assert got["items"][0]["median_ns"]["lower"] <= 100 <= got["items"][0]["median_ns"]["upper"]
    assert (none["source"], none["items"]) == ("none", [])


def collector_flow(collector: Any) -> str:
    """Id of one of its flows."""
    return f"{int(CollectorState(collector.folder).flows()['flow_id'][0]):016x}"


def test_api_without_distributions(collector: Any, api: Any) -> None:
    """Sums over live flows now; in a time window, and of a flow that has left, stored values of history."""
    (collector.folder / "regions" / "worker-0.distributions").unlink()
    collector.report(latency=3000)
    (_, now), (_, then) = ask(collector, api, "bottleneck", "bottleneck?since=1h")
    assert (now["source"], then["source"]) == ("flows", "events")
    for got in (now, then):
        assert {one["node"]["id"] for one in got["items"]} == {11, 12, 13}
        assert [one["share"] for one in got["items"]] == [pytest.approx(1 / 3)] * 3
    assert [one["mean_ns"] for one in now["items"]] == [2000] * 3
    assert now["items"][0]["occupancy"]["latest"] is not None
    assert then["items"][0]["queue"] is None


def test_page(collector: Any, distributions: Distributions) -> None:
    """The panel shows the last minute: a place that grew slow comes first, what was before is left out."""
    state = CollectorState(collector.folder, fresh_seconds=0)
    reader = ContributorsReader(state)
    flows = state.flows()
    assert reader.snapshot(flows, 0.0).items[0].place == (13, 3, 2)
    assert "so far" in reader.contributors.note
    count(distributions, (9000, 300, 300))
    assert reader.snapshot(flows, 1.0).items[0].place == (13, 3, 2)  # not yet time to look again
    contributors = reader.snapshot(flows, 20.0)
    assert "in the last 20 s" in contributors.note
    assert [(one.place[0], one.packets) for one in contributors.items] == [(11, 100), (12, 100), (13, 100)]
    for second in range(40, 200, 20):
        contributors = reader.snapshot(flows, float(second))
    assert contributors.items == ()


def test_page_without_distributions(collector: Any) -> None:
    """Live flows are summed; a collector without flows has none."""
    (collector.folder / "regions" / "worker-0.distributions").unlink()
    contributors = ContributorsReader(CollectorState(collector.folder)).snapshot(np.empty(0, FLOW))
    assert "live flows" in contributors.note
    assert len(contributors.items) == 3
    assert (
        ContributorsReader(CollectorState(collector.folder / "nowhere")).snapshot(np.empty(0, FLOW)).items
        == ()
    )


def test_command(collector: Any, distributions: Distributions) -> None:
    """A table for people, an object for programs; mistakes are one line."""

    def run(*words: str) -> CompletedProcess[str]:
        return hopscope("query", "bottleneck", "--data", collector.folder, *words)

    table = run()
    assert table.stdout.splitlines()[1].split()[:6] == ["13", "3", "2", "80.0%", "1.60", "µs"], table.stderr
    assert "distributions of all packets" in table.stderr
    limited = run("--format", "json", "--limit", "1")
    assert [one["share"] for one in json.loads(limited.stdout)["items"]] == [0.8]
    assert "more than 1 rows: see --limit" in limited.stderr
    assert "more than" not in table.stderr
    flow = run("--flow", "dport=80", "--by", "mean")
    assert flow.stdout.splitlines()[0].split()[:4] == ["hop", "node", "port", "queue"]
    assert "3 live flows" in flow.stderr
    for words in (("--flow", "dport=80", "--since", "1h"), ("--flow-id", "x"), ("--since", "x")):
        wrong = run(*words)
        assert (wrong.returncode, len(wrong.stderr.splitlines())) == (2, 1), wrong.stderr


def test_a_peak_is_kept_although_the_port_table_forgets_it(collector: Any, api: Any) -> None:
    """Without distributions the highest occupancy is that of history: the table's is since the last push."""
    (collector.folder / "regions" / "worker-0.distributions").unlink()
    collector.report(occupancy=900)
    collector.report(occupancy=9)
    for seconds in (1, 11, 22):  # pushes
        collector.pipeline.tick(time.time_ns() + seconds * 10**9)
    ports = CollectorState(collector.folder).ports()
    assert int(ports["highest"][:, 0].max()) < 900
    ((_, now),) = ask(collector, api, "bottleneck")
    assert now["source"] == "flows"
    (last,) = (item for item in now["items"] if item["node"]["id"] == 13)
    assert (last["occupancy"]["latest"], last["occupancy"]["highest"]) == (9, 900)
