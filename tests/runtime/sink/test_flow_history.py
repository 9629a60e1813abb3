"""The flows of a run are in history when it has ended: packets, means and worst hops, of all workers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hopscope.capture.pcap.writer import PcapWriter
from hopscope.detect.counters import INDEX
from hopscope.history.query import History
from hopscope.runtime.pipeline.mode import pipeline_of
from hopscope.runtime.pipeline.shard import Shard
from hopscope.settings.collector import Settings
from hopscope.settings.dialects import Changes
from hopscope.wire.craft.frames import craft
from hopscope.wire.dialect import DEFAULT
from hopscope.wire.records import FrameBatch, Link
from support.processes.command import hopscope

pytestmark = pytest.mark.kernel
SECOND = 10**9
T0 = 1_700_000_000 * SECOND
PACKETS = Changes(ports=(), packets=True).of(DEFAULT)


def settings(sink: bool, **more: Any) -> Settings:
    small = {"flow_rows": 1, "ports": 64, "sources": 16, "hop_pool": 4, "idle_seconds": 20.0}
    given = {"detect": small, "sink": {"enabled": sink, **more}, "distributions": {"queues": 64}}
    return Settings.model_validate({**given, "history": {"ring_events": 1024}})


def packets(flows: list[int], time_ns: int, latency: int) -> FrameBatch:
    """A packet of each flow over the switches 1 and 2, of which the second takes twice as long."""
    made = craft(
        [
            {
                "int": {"instructions": "0xe400"},
                "flow": {"proto": 17, "sport": flow},
                "hops": [
                    {"node_id": node, "hop_latency": node * (1 + latency + flow), "egress_port": 7,
                     "egress_time": time_ns + node}
                    for node in (1, 2)
                ],
            }
            for flow in flows
        ]
    )  # fmt: skip
    made.frames["time_ns"] = time_ns + np.arange(len(flows))
    return made


@pytest.mark.parametrize("sink", [True, False])
def test_all_packets_of_two_workers_are_in_flow_records(tmp_path: Path, sink: bool) -> None:
    """Flows are evicted, expire, and are there at the end, in two shards whose journals threads write: the
    records of all flows have all packets, means are those of the packets, the worst hop is the slow one.
    """
    chosen, regions = settings(sink), tmp_path / "regions"
    regions.mkdir()
    pipelines = [
        pipeline_of(chosen, Shard(chosen.history, number, data=tmp_path, regions=regions, thread=True))
        for number in range(2)
    ]
    truth: dict[int, list[int]] = {}
    times = [T0 + (turn if turn < 3 else turn + 8) * 5 * SECOND for turn in range(6)]
    for turn, now in enumerate(times):
        for number, pipeline in enumerate(pipelines):
            flows = [1000 * number + 3 * turn + k % 25 for k in range(60)]
            pipeline.step(packets(flows, now, 100 * turn), PACKETS)
            for later in range(1, 40, 3) if turn == 2 else (1,):
                pipeline.tick(now + later * SECOND)
            for flow in flows:
                truth.setdefault(flow, []).append(1 + 100 * turn + flow)
    for pipeline in pipelines:
        pipeline.close()
        assert pipeline.shard.counters[INDEX["unrecorded_flows_total"]] == 0
        assert pipeline.shard.counters[INDEX["journal_lost_events_total"]] == 0
        assert pipeline.shard.counters[INDEX["flow_evictions_total"]] > 0
        assert pipeline.shard.counters[INDEX["flow_expiries_total"]] > 0
    with History(tmp_path) as history:
        rows = {row["sport"]: row for row in history.flows(limit=None).rows()}
        found = {row["switch_ns"] for row in history.events(limit=None, kinds=["new_key"]).rows()}
    assert {flow: row["packets"] for flow, row in rows.items()} == {f: len(n) for f, n in truth.items()}
    for flow, latencies in truth.items():
        row = rows[flow]
        assert row["mean_latency"] == pytest.approx(3 * sum(latencies) / len(latencies), abs=3)
        assert (row["worst_node_id"], row["worst_port"]) == (2, 7)
        assert 2 * min(latencies) <= row["worst_latency"] <= 2 * max(latencies)
    assert {now + 2 for now in times} <= found


def test_a_capture_through_a_sink(tmp_path: Path) -> None:
    """`hopscope sink FILE --data`, then `query flows`: every flow with its packets, though all were live."""
    capture, data = tmp_path / "int.pcap", tmp_path / "data"
    with capture.open("wb") as file, PcapWriter(file, link=Link.ETHERNET) as writer:
        for number in range(3):
            writer.write(packets([1, 2, 3, 3], T0 + number * SECOND, 50))
    done = hopscope("sink", str(capture), "--data", str(data), "--http-port", "0")
    assert done.returncode == 0, done.stderr
    found = hopscope("query", "flows", "--data", str(data), "--format", "json")
    rows = [json.loads(line) for line in found.stdout.splitlines()]
    assert {row["flow"]["sport"]: row["packets"] for row in rows} == {1: 3, 2: 3, 3: 6}
    assert {row["worst_hop"]["node"]["id"] for row in rows} == {2}
    assert {row["flow"]["sport"]: row["worst_hop"]["latency"] for row in rows} == {1: 104, 2: 106, 3: 108}
    table = hopscope("query", "flows", "--data", str(data))
    assert "worst_hop" in table.stdout
    assert "2:7" in table.stdout
