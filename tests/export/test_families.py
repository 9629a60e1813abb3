"""Metrics of flows and processes: which flows are the top ones, and what a process uses."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from hopscope.base.names import Names
from hopscope.base.process import control_client
from hopscope.detect.flows import fair_kernel
from hopscope.detect.records import FLOW, PORT, SOURCE
from hopscope.export.metrics import families as module
from hopscope.export.metrics.destination import Round
from hopscope.export.metrics.influx import lines_of
from hopscope.naming.interfaces import read_interfaces, rows_of, write_interfaces
from hopscope.settings.serve import TopFlowSettings
from hopscope.wire.address import address


def test_top_flows() -> None:
    """As many as asked for, the highest first, by mean latency or by packets; none unless asked for."""
    flows = np.zeros(4, FLOW)
    flows["flow_id"], flows["packets"] = [1, 2, 3, 4], [40, 30, 20, 10]
    flows["latency_sum"], flows["latency_samples"] = [100, 900, 0, 5000], [10, 3, 0, 10]
    flows["src_lo"] = 0xFFFF0A000001

    def found(**given: Any) -> list[tuple[str, str, float]]:
        rows = module._top_flows(flows, TopFlowSettings(**given))
        return [(one.name, one.labels["flow"][-1], one.value) for each in rows for one in each.samples]

    latency, packets = "hopscope_top_flow_latency_seconds", "hopscope_top_flow_packets_total"
    assert found() == []
    assert found(count=2) == [
        *((latency, "4", 500e-9), (latency, "2", 300e-9), (packets, "4", 10.0), (packets, "2", 30.0)),
    ]
    by = found(count=3, by="packets")
    assert [row[1] for row in by if row[0] == packets] == ["1", "2", "3"]
    assert [row[1] for row in by if row[0] == latency] == ["1", "2"]


def test_counters_of_interfaces(tmp_path: Path) -> None:
    """What a device does not count has no series; InfluxDB gets them as fields of ports."""
    counters = {3: {"in_bytes": 1 << 40, "out_discards": 5}, 4: {"in_bytes": 6}}
    write_interfaces(tmp_path, rows_of(7, counters, 1))
    names = Names({7: "leaf-7"}, {(7, 3): "to core"})
    one = module.Families(SimpleNamespace(regions=tmp_path), names, tmp_path, tmp_path)  # type: ignore[arg-type]
    found = list(one._interfaces(read_interfaces(tmp_path)))
    place = {"node": "7", "node_name": "leaf-7"}
    assert [(each.name, each.labels, each.value) for family in found for each in family.samples] == [
        ("hopscope_interface_in_bytes_total", {**place, "port": "3", "port_name": "to core"}, 1 << 40),
        ("hopscope_interface_in_bytes_total", {**place, "port": "4", "port_name": ""}, 6),
        ("hopscope_interface_out_discards_total", {**place, "port": "3", "port_name": "to core"}, 5),
    ]
    assert next(lines_of(Round(2, tuple(found)), "m")) == (
        "int_port,collector=m,node=leaf-7,node_id=7,port=to\\ core,port_id=3 "
        "interface_in_bytes_total=1099511627776.0 2000000"
    )
    write_interfaces(tmp_path, rows_of(7, {}, 1))
    assert list(one._interfaces(read_interfaces(tmp_path))) == []


def made_sources(steady: int, fleeting: int) -> Any:
    """SOURCE rows that send steadily, between those that sent up to seven reports, and are heard of last."""
    random = np.random.default_rng(1)
    rows = np.zeros(steady + fleeting, SOURCE)
    rows["source_lo"] = 0xFFFF0A000000 + np.arange(len(rows))
    few = random.permutation(len(rows)) < fleeting
    for field in ("received", "lost", "duplicate", "reordered"):
        rows[field] = np.where(few, random.integers(1, 8, len(rows)), random.integers(8, 1 << 40, len(rows)))
    rows["silent"], rows["last_ns"] = random.integers(0, 2, len(rows)), few
    return rows


@pytest.mark.parametrize(
    ("steady", "fleeting", "kept"),
    [(20, 1000, 1020), (20, 1001, 20), (0, 1001, 0), (5100, 10, 5000), (5100, 2000, 5000)],
)
def test_sources_with_few_reports_have_no_series_if_they_are_many(
    tmp_path: Path, steady: int, fleeting: int, kept: int
) -> None:
    """A storm of made-up sources is no new series at each scrape: those that send steadily keep theirs, the
    others are sums, so that a sum over all is that of all rows.
    """
    rows = made_sources(steady, fleeting)
    one = module.Families(SimpleNamespace(), Names(), tmp_path, tmp_path)  # type: ignore[arg-type]
    *families, others = one._sources(rows)
    sums = {sample.labels["what"]: sample.value for sample in others.samples}
    assert (sums["sources"], one._left_out) == (len(rows) - kept, len(rows) - kept)
    for family in families:
        what = family.name.removeprefix("hopscope_source_")
        column = what.removesuffix("_reports")
        values = {sample.labels["source"]: int(sample.value) for sample in family.samples}
        assert len(values) == kept
        assert sum(values.values()) + sums[what] == int(rows[column].sum())
        highest = rows[np.argsort(rows["received"])[len(rows) - kept :]]
        for row in highest:
            assert values[address(int(row["source_hi"]), int(row["source_lo"]))] == int(row[column])


def test_places_with_few_samples_have_no_series_if_they_are_many(tmp_path: Path) -> None:
    """The same of ports: those of made-up switches leave the others their series."""
    rows = np.zeros(1501, PORT)
    rows["node_id"], rows["samples"], rows["last_ns"] = np.arange(1501), 7, 9
    rows["samples"][[5, 700]], rows["last_ns"][[5, 700]] = 8, 1
    one = module.Families(SimpleNamespace(), Names(), tmp_path, tmp_path)  # type: ignore[arg-type]
    assert one._bounded(rows, "samples")["node_id"].tolist() == [5, 700]
    assert one._left_out == 1499
    assert len(one._bounded(rows[:1000], "samples")) == 1000
    assert module.STEADY == fair_kernel.STEADY


def test_what_a_process_uses(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Its time on processors and its memory, of those that run."""
    status = {"processes": [
        {"name": "worker-0", "pid": os.getpid(), "alive": True, "restarts": 1},
        {"name": "archive", "pid": None, "alive": False, "restarts": 0},
    ]}  # fmt: skip
    monkeypatch.setattr(control_client, "request", lambda *_, **__: status)
    one = module.Families(SimpleNamespace(), Names(), tmp_path, tmp_path)  # type: ignore[arg-type]
    values = {(each.name, each.labels["process"]): each.value for f in one._processes() for each in f.samples}
    assert values["hopscope_process_up", "archive"] == 0
    assert ("hopscope_process_cpu_seconds_total", "archive") not in values
    times = os.times()
    used = values["hopscope_process_cpu_seconds_total", "worker-0"]
    assert 0 < used <= times.user + times.system + 0.05
    memory = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    assert memory / 2 < values["hopscope_process_resident_memory_bytes", "worker-0"] < memory * 2
