"""State in regions: read whole from elsewhere, continued by a restarted worker, rejected when foreign."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hopscope.detect.detector import Detector
from hopscope.detect.flows.reading.state import StateReader
from hopscope.detect.flows.tables import memory_bytes
from hopscope.detect.records import FLOW, FLOW_ROW, HOP_STATE, INLINE_HOPS, NO_VALUE, WAYS
from hopscope.memory.region import RegionError
from hopscope.settings.detect import DetectSettings
from hopscope.wire.records import Have
from support.waiting import HANG_SECONDS

pytestmark = pytest.mark.kernel

SMALL: dict[str, Any] = {"ports": 256, "sources": 16, "flow_rows": 16, "hop_pool": 4}


def fill(make: Any, detector: Detector, flows: int = 5, **more: Any) -> None:
    list(
        detector.update(
            make.batch([make.Report(make.path(1, 2, latency=i), i, **more) for i in range(flows)])
        )
    )


def test_reader_sees_flows_hops_ports_sources(make: Any, tmp_path: Path) -> None:
    """What a detector knows is read from its folder: flows and their hops, ports, sources."""
    detector = Detector(DetectSettings(**SMALL), tmp_path)
    fill(make, detector)
    list(detector.update(make.batch([make.Report(make.path(*range(1, 13)), 7, sequence=1)])))
    reader = StateReader.attach(tmp_path)
    flows = reader.flows()
    assert len(flows) == 6
    for flow in flows:
        hops = reader.hops_of(flow)
        count = 12 if flow["hop_count"] == 12 else 2
        assert hops["node_id"].tolist() == list(range(1, count + 1))
        assert (hops["latency_latest"].sum(), flow["packets"]) == (flow["latency_latest"], 1)
    some = flows[[5, 0, 3]]
    paths = reader.paths_of(some)
    assert sorted(paths.flows["flow_id"].tolist()) == sorted(some["flow_id"].tolist())
    for row, flow in enumerate(paths.flows):
        alone = reader.path_of(flow)
        assert alone is not None
        assert paths.of(row).hops.tolist() == alone.hops.tolist() == reader.hops_of(flow).tolist()
        assert (paths.of(row).number.tolist(), paths.of(row).queue.tolist()) == (
            alone.number.tolist(),
            alone.queue.tolist(),
        )
    assert len(reader.paths_of(flows[:0]).flows) == 0
    assert len(reader.ports()) == 12 * 3
    (source,) = reader.sources()
    assert (source["received"], source["highest"]) == (6, 1)
    flows[0]["src_lo"] += 1
    assert len(reader.hops_of(flows[0])) == 0


@pytest.mark.parametrize("length", [8, 9, 12, 64])
def test_every_hop_of_a_path_is_measured(make: Any, tmp_path: Path, length: int) -> None:
    """Latest latency, sum and samples of each hop and of the flow, after three reports of steady hops."""
    detector = Detector(DetectSettings(**SMALL), tmp_path)
    for latency in (10, 11, 12):
        hops = [make.Hop(node, latency + node, occupancy=node) for node in range(1, length + 1)]
        events = make.run(detector, [make.Report(hops, 1, sequence=latency)])
        assert bool(events) == (latency == 10)
    reader = StateReader.attach(tmp_path)
    (flow,) = reader.flows()
    found = reader.hops_of(flow)
    nodes = np.arange(1, length + 1)
    assert found["latency_latest"].tolist() == (12 + nodes).tolist()
    assert found["latency_sum"].tolist() == (33 + 3 * nodes).tolist()
    assert found["samples"].tolist() == [3] * length
    assert found["queue_latest"].tolist() == nodes.tolist()
    assert (flow["packets"], flow["latency_samples"]) == (3, 3)
    assert flow["latency_latest"] == (12 + nodes).sum()
    assert flow["latency_sum"] == (33 + 3 * nodes).sum()


def test_a_hop_without_a_queue_and_a_link_has_no_value_of_them(make: Any, tmp_path: Path) -> None:
    """Latest values are unavailable until a report has them, not 0."""
    detector = Detector(DetectSettings(**SMALL), tmp_path)
    bare = make.Hop(have=int(Have.NODE_ID | Have.HOP_LATENCY))

    def latest() -> tuple[int, int]:
        reader = StateReader.attach(tmp_path)
        (hop,) = reader.hops_of(reader.flows()[0])
        return int(hop["queue_latest"]), int(hop["utilization_latest"])

    list(detector.update(make.batch([make.Report([bare], 1)])))
    assert latest() == (NO_VALUE, NO_VALUE)
    list(detector.update(make.batch([make.Report([make.Hop(occupancy=3)], 1)])))
    assert latest() == (3, 0)


def test_shards_are_merged_by_newest(make: Any, tmp_path: Path) -> None:
    """A flow or a queue that two shards know appears once, as the newer one says; samples of a queue are
    summed, and its highest value is that of both.
    """
    for shard, time_ns, latency in ((0, 10, 30), (1, 20, 20)):
        detector = Detector(DetectSettings(**SMALL), tmp_path, shard)
        report = make.Report(make.path(1, latency=latency, occupancy=latency), 0, time=time_ns, source=shard)
        list(detector.update(make.batch([report])))
    reader = StateReader.attach(tmp_path)
    (flow,) = reader.flows()
    assert flow["latency_latest"] == 20
    assert reader.hops_of(flow)["latency_latest"].tolist() == [20]
    paths = reader.paths_of(reader.flows())
    assert (paths.flows["latency_latest"].tolist(), paths.hops["latency_latest"].tolist()) == ([20], [20])
    ports = reader.ports()
    assert sorted(ports["latest"][:, 0]) == [0, 0, 20]
    assert sorted(ports["highest"][:, 0]) == [0, 0, 30]
    assert ports["samples"].tolist() == [2, 2, 2]
    assert len(reader.sources()) == 2


def test_restarted_worker_continues(make: Any, tmp_path: Path) -> None:
    """A detector on existing regions knows its flows: nothing is new to it."""
    settings = DetectSettings(**SMALL)
    fill(make, Detector(settings, tmp_path))
    again = Detector(settings, tmp_path)
    assert make.run(again, [make.Report(make.path(1, 2, latency=i), i, sequence=1) for i in range(5)]) == []


def test_rows_left_odd_are_dropped(make: Any, tmp_path: Path) -> None:
    """A row that a killed worker was writing is not shown, and is emptied when the worker is back."""
    settings = DetectSettings(**SMALL)
    detector = Detector(settings, tmp_path)
    fill(make, detector)
    list(detector.update(make.batch([make.Report(make.path(*range(1, 13)), 3)])))
    for kind, name in (("flows", "rows"), ("ports", "ports"), ("sources", "sources")):
        table = detector.tables[kind][name]
        used = table["tag"].any(axis=1) if kind == "flows" else table["version"] > 0
        table["version"][used] |= 1
    reader = StateReader.attach(tmp_path)
    assert [len(rows) for rows in (reader.flows(), reader.ports(), reader.sources())] == [0, 0, 0]
    again = Detector(settings, tmp_path)
    assert again.tables["flows"]["pool"][0] == 4
    assert len(make.run(again, [make.Report(make.path(1, 2, latency=i), i) for i in range(5)])) == 5 * 4 + 6
    assert len(StateReader.attach(tmp_path).flows()) == 5


def test_other_settings_recreate_regions(make: Any, tmp_path: Path) -> None:
    """Regions of another size are recreated; whoever had mapped the old ones can tell."""
    fill(make, Detector(DetectSettings(**SMALL), tmp_path))
    reader = StateReader.attach(tmp_path)
    Detector(DetectSettings(**{**SMALL, "flow_rows": 32}), tmp_path)
    assert not reader.is_current()
    reader = StateReader.attach(tmp_path)
    assert reader.is_current()
    assert len(reader.flows()) == 0
    assert len(reader.ports()) == 6


def test_foreign_files_are_rejected(tmp_path: Path) -> None:
    """A file that is no region is never overwritten, nor read as one."""
    (tmp_path / "worker-0.ports").write_bytes(b"my thesis")
    with pytest.raises(RegionError, match="not a Hopscope region"):
        Detector(DetectSettings(**SMALL), tmp_path)
    assert (tmp_path / "worker-0.ports").read_bytes() == b"my thesis"
    with pytest.raises(RegionError, match="has no state of a worker"):
        StateReader.attach(tmp_path / "nothing")


def test_sizes(tmp_path: Path) -> None:
    """The size of memory is known before it is allocated; a flow with 8 hops takes less than 650 bytes."""
    settings = DetectSettings(**SMALL)
    detector = Detector(settings, tmp_path)
    arrays = [region[name] for region in detector.tables.values() for name in region.shape()]
    assert memory_bytes(settings) == sum(array.nbytes for array in arrays)
    assert FLOW.itemsize + INLINE_HOPS * HOP_STATE.itemsize + FLOW_ROW.itemsize / WAYS < 650


HAMMER = """
import sys
from pathlib import Path
import numpy as np
from hopscope.settings.detect import DetectSettings
from hopscope.settings.limits import MetricLimits, ThresholdSettings
from hopscope.detect.detector import Detector
from hopscope.wire.records import HOP, REPORT, ReportBatch

folder = Path(sys.argv[1])
none = ThresholdSettings(**{name: MetricLimits() for name in ThresholdSettings.model_fields})
detector = Detector(DetectSettings(ports=256, sources=16, flow_rows=16, hop_pool=4, thresholds=none), folder)
reports, hops = np.zeros(4096, REPORT), np.zeros(4096 * 3, HOP)
reports["src_lo"] = np.arange(4096) % 300
reports["carried"], reports["ip_version"], reports["int_version"], reports["version"] = 32, 4, 20, 20
reports["hop_count"], reports["first_hop"] = 3, np.arange(4096) * 3
hops["node_id"], hops["present"] = np.arange(4096 * 3) % 3 + 1, 0x18F
value = 0
while not (folder / "stop").exists():
    value += 1
    hops["hop_latency"] = value % 1000
    reports["time_ns"] += 1
    for _ in detector.update(ReportBatch(reports, hops)):
        pass
    (folder / "ready").touch()
"""


@pytest.mark.e2e
def test_a_reader_during_a_busy_worker(tmp_path: Path) -> None:
    """While a worker takes millions of reports and evicts flows, every flow that is read is whole."""
    process = subprocess.Popen([sys.executable, "-c", HAMMER, tmp_path])
    try:
        deadline = time.monotonic() + HANG_SECONDS
        while not (tmp_path / "ready").exists() and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.05)
        reader = StateReader.attach(tmp_path)
        seen = 0
        until = time.monotonic() + 2
        while time.monotonic() < until or seen <= 1000:
            flows = reader.flows()
            seen += len(flows)
            assert len(np.unique(flows["src_lo"])) == len(flows)
            assert (flows["latency_latest"] % 3 == 0).all()
            assert (flows["packets"] == flows["latency_samples"]).all()
            for flow in flows[:3]:
                hops = reader.hops_of(flow)
                assert len(set(hops["latency_latest"].tolist())) <= 1
                assert len(set(hops["samples"].tolist())) <= 1
        assert seen > 1000
        assert process.poll() is None
    finally:
        (tmp_path / "stop").touch()
        process.wait(HANG_SECONDS)
    assert process.returncode == 0
