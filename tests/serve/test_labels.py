"""The API's routes about labels, over a real region."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import numpy as np

from hopscope.detect.records import EVENT, NO_NODE, NO_PORT, Kind, Metric
from hopscope.history.writing.journal import JournalWriter
from hopscope.labels import tracked_state
from hopscope.labels.counters import LABEL_COUNTERS
from hopscope.labels.registers import Registers
from hopscope.labels.state import FILE_NAME, LabelRule
from hopscope.labels.table import LabelTable
from hopscope.labels.tracked import TrackedTable
from hopscope.runtime.supervisor.control import ControlServer
from hopscope.runtime.supervisor.tracking import change_tracked_flows, tracked_flows
from hopscope.wire.label.records import LABEL, LABEL_FLOW

MS = 1_000_000
START = 1_700_000_000 * 1000 * MS


def get(api: Any, folder: Path, *paths: str) -> list[tuple[int, Any]]:
    """Status and JSON of each path."""

    async def talk() -> list[tuple[int, Any]]:
        async with api(folder) as client:
            found = [await client.get(f"/api/v0/{path}") for path in paths]
            return [(one.status_code, one.json()) for one in found]

    return asyncio.run(talk())


def write(folder: Path) -> None:
    """Three ports over a second: one is heard of always, one at first, one never."""
    (folder / "regions").mkdir(exist_ok=True)
    table = LabelTable(
        folder / "regions" / FILE_NAME, LabelRule(100 * MS, 50 * MS, 50 * MS, "shift"), ports=16
    )
    table.rows_of([13], [9], add=True)
    start = time.time_ns() - 2_000 * MS
    for step in range(40):
        now = start + step * 50 * MS
        labels = np.zeros(2 if step < 20 else 1, LABEL)
        labels["node_id"], labels["egress_port"] = [13, 11][: len(labels)], [3, 4][: len(labels)]
        labels["time_ns"], labels["latency_ns"], labels["position"] = now, 900, range(len(labels))
        table.update(labels, now)
        table.tick(now)
    table.set_shift(table.rows_of([11], [4]), np.array([5], np.uint8))


def test_ports_and_coverage_are_told(api: Any, tmp_path: Path) -> None:
    """Ports by age, by switch and by name; coverage by interval and as a mean."""
    write(tmp_path)
    oldest, one, raised, series, wrong = get(
        api, tmp_path, "labels?sort=age&order=desc", "labels?node=leaf-2&limit=1", "labels?sort=s&order=desc",
        "labels/coverage?last=12", "labels/coverage?last=0",
    )  # fmt: skip
    assert (oldest[1]["mode"], oldest[1]["interval_ns"], oldest[1]["total"]) == ("shift", 50 * MS, 3)
    assert [item["port"]["id"] for item in oldest[1]["items"]] == [9, 4, 3]
    never, late, fresh = oldest[1]["items"]
    assert never["last_seen"] is never["age_ns"] is never["latency_ns"] is None
    assert int(late["age_ns"]) - int(fresh["age_ns"]) == 20 * 50 * MS
    assert fresh["port"] == {"id": 3, "name": "to host-9"}
    assert (fresh["labels"], fresh["latency_ns"], fresh["s"]) == (40, 900, 0)
    assert fresh["labels_per_second"] > 10
    assert (one[1]["total"], len(one[1]["items"])) == (2, 1)
    assert one[1]["items"][0]["node"] == {"id": 13, "name": "leaf-2"}
    assert raised[1]["items"][0]["s"] == 5
    shares = [item["coverage"] for item in series[1]["items"]]
    assert shares[-5:] == [0.5] * 5
    assert shares[0] == 1
    assert series[1]["mean"] == np.mean(shares)
    assert (series[1]["intervals"], series[1]["expected_intervals"]) == (12, 12)
    assert series[1]["items"][0]["packets"] == 2
    assert wrong[0] == 400


def follow(folder: Path) -> None:
    """Two tracked flows: one over leaf-2 that has changed its way, and one without ports elsewhere."""
    (folder / "regions").mkdir(exist_ok=True)
    start = time.time_ns() - 1_000 * MS
    table = TrackedTable(folder / "regions" / tracked_state.FILE_NAME, start)
    for step, middle in enumerate((11, 11, 12)):
        labels = np.zeros(5, LABEL)
        labels["node_id"], labels["packet"] = [13, middle, 13, 14, 15], [0, 0, 0, 1, 1]
        labels["position"], labels["tracked"] = [0, 1, 2, 0, 1], 1
        labels["egress_port"], labels["latency_ns"] = [3, 1, 2, 1, 1], [100, 800 - step, 50, 5, 6]
        labels["time_ns"], labels["occupancy"] = start + step, 64 * step
        flows = np.zeros(2, LABEL_FLOW)
        flows["packet"], flows["proto"], flows["sport"] = [0, 1], [6, 1], [443, 0]
        flows["src_lo"], flows["dst_lo"] = 0xFFFF0A000002, [0xFFFF0A000102, 0xFFFF0A000202]
        table.update(labels[: 3 if step else 5], flows[: 1 if step else 2], start + step * 100 * MS)
    table.tick(start + 300 * MS)


def test_tracked_flows_are_told(api: Any, tmp_path: Path) -> None:
    """Ways by switch and port with names, latency and queue by hop, the way before; sorted and filtered."""
    follow(tmp_path)
    pages = get(
        api, tmp_path, "labels/flows", "labels/flows?sort=latency&order=asc", "labels/flows?node=leaf-2",
        "labels/flows?dst=10.0.2.0/24&proto=icmp", "labels/flows?port=443", "labels/flows?sort=age",
        "labels/flows?src=nonsense",
    )  # fmt: skip
    assert [page[0] for page in pages] == [200] * 5 + [400] * 2
    both, slow, through, other, ported = (page[1] for page in pages[:5])
    assert [item["hop_count"] for item in both["items"]] == [3, 2]
    assert [item["latency_ns"] for item in slow["items"]] == [11, 948]
    assert through["total"] == ported["total"] == other["total"] == 1
    first, plain = both["items"][0], other["items"][0]
    assert first == ported["items"][0] | {"age_ns": first["age_ns"]}
    assert first["flow"] == {"src": "10.0.0.2", "dst": "10.0.1.2", "proto": 6, "sport": 443, "dport": 0}
    assert [hop["node"]["id"] for hop in first["path"]] == [13, 12, 13]
    assert [hop["node"]["id"] for hop in first["previous_path"]] == [13, 11, 13]
    assert first["path"][0]["node"]["name"] == "leaf-2"
    assert first["path"][0]["egress_port"] == {"id": 3, "name": "to host-9"}
    old = first["previous_path"][1]
    assert (old["latency_ns"], old["highest_latency_ns"], old["highest_occupancy"]) == (799, 800, 64)
    assert (first["packets"], first["changes"], first["late"], first["partial"]) == (3, 1, 0, 0)
    assert first["changed"] == first["last_seen"] > first["first_seen"]
    assert (plain["changed"], plain["previous_path"], plain["packets"]) == (None, None, 1)


def test_without_labels_there_is_nothing(api: Any, tmp_path: Path) -> None:
    """A collector that takes no labels answers with empty lists."""
    ports, series, flows = get(api, tmp_path, "labels", "labels/coverage", "labels/flows")
    assert flows == (200, {"total": 0, "offset": 0, "items": []})
    assert (ports[0], ports[1]["mode"], ports[1]["items"]) == (200, None, [])
    assert (series[0], series[1]["telemetry_ns"], series[1]["items"]) == (200, None, [])


def test_the_alarm_of_coverage_is_open_while_coverage_is_low(api: Any, tmp_path: Path) -> None:
    """History has its beginning alone, as of a collector that was killed: the process of now says whether."""
    write(tmp_path)
    for part in ("journal", "segments"):
        (tmp_path / part).mkdir()
    events = np.zeros(1, EVENT)
    events["kind"], events["metric"], events["time_ns"] = Kind.RAISED, Metric.LABEL_COVERAGE, time.time_ns()
    events["time_ns"] -= 60_000 * MS
    events["node_id"], events["port"] = NO_NODE, NO_PORT
    with JournalWriter(tmp_path, 1023) as journal:
        journal.append(events)
    counts = LABEL_COUNTERS.open(tmp_path / "regions")
    for low in (0, 1):
        counts.put("label_coverage_low", low)
        ((_, found),) = get(api, tmp_path, "alarms")
        assert [each["metric"] for each in found["items"]] == ["label_coverage"] * low


def write_history(folder: Path) -> None:
    """Two periods of a port, one of another, and of coverage."""
    for part in ("journal", "segments"):
        (folder / part).mkdir(exist_ok=True)
    events = np.zeros(8, EVENT)
    events["kind"], events["node_id"], events["port"] = Kind.LABEL_RECORD, 13, 3
    events["metric"][:6] = [Metric.LABEL_LATENCY, Metric.LABEL_OCCUPANCY] * 3
    events["metric"][6:] = Metric.LABEL_COVERAGE
    events["port"][4:6], events["node_id"][6:], events["port"][6:] = 4, NO_NODE, NO_PORT
    events["value"], events["previous"] = np.arange(8) + 100, np.arange(8) + 200
    events["value"][6:], events["previous"][6:] = [990_000, 880_000], [900_000, 0]
    events["ident"], events["time_ns"] = 50, START
    events["time_ns"][[2, 3, 4, 5, 7]] += 10_000 * MS
    with JournalWriter(folder, 1023) as journal:
        journal.append(events)


def test_labels_have_a_history(api: Any, tmp_path: Path) -> None:
    """Ports by period with names, newest first; by switch and time; and coverage."""
    write_history(tmp_path)
    every, late, none, series = get(
        api, tmp_path, "labels/history", "labels/history?since=2023-11-14T22:13:25Z&node=leaf-2&limit=1",
        "labels/history?node=11", "labels/coverage/history",
    )  # fmt: skip
    assert [item["port"]["id"] for item in every[1]["items"]] == [3, 4, 3]
    assert every[1]["items"][2] == {
        "time": "2023-11-14T22:13:20.000000000Z", "node": {"id": 13, "name": "leaf-2"},
        "port": {"id": 3, "name": "to host-9"}, "labels": 50, "latency_ns": 100, "highest_latency_ns": 200,
        "occupancy": 101, "highest_occupancy": 201,
    }  # fmt: skip
    assert (late[1]["truncated"], [item["latency_ns"] for item in late[1]["items"]]) == (True, [102])
    assert none[1] == {"items": [], "truncated": False}
    assert [(item["coverage"], item["lowest"]) for item in series[1]["items"]] == [(0.88, 0), (0.99, 0.9)]


def test_half_of_a_record_of_labels_is_shown(api: Any, tmp_path: Path) -> None:
    """A damaged file may have had the event of the queue."""
    (tmp_path / "segments").mkdir()
    event = np.zeros(1, EVENT)
    event["kind"], event["metric"], event["node_id"] = Kind.LABEL_RECORD, Metric.LABEL_LATENCY, 13
    event["value"], event["previous"] = 100, 200
    with JournalWriter(tmp_path, 1023) as journal:
        journal.append(event)
    ((_, found),) = get(api, tmp_path, "labels/history")
    (item,) = found["items"]
    assert (item["latency_ns"], item["highest_latency_ns"]) == (100, 200)
    assert (item["occupancy"], item["highest_occupancy"]) == (None, None)


def test_flows_are_tracked_through_the_api(api: Any, tmp_path: Path) -> None:
    """A flow comes, changes and goes, with a token; what is wrong is a line, and a collector without
    registers says so.
    """
    (tmp_path / "regions").mkdir()
    path = tmp_path / "registers.region"
    Registers.create(path, [(1, 1)], 50 * MS)
    place: list[Path | None] = [path]

    def answer(request: dict[str, Any], peer: str) -> dict[str, Any]:
        if "tracked" in request:
            return {"tracked": tracked_flows(place[0])}
        return {"tracked": change_tracked_flows(place[0], request["set_tracked"])}

    server = ControlServer(tmp_path, answer)
    server.start()
    flow = {"src": "10.0.0.2", "dst": "10.0.1.2"}
    six = {"src": "fd00::2", "dst": "fd00::3", "every": 7}

    async def talk() -> list[tuple[int, Any]]:
        async with api(tmp_path) as client:
            path = "/api/v0/labels/tracked"
            found = [
                await client.post(path, json=flow),
                await client.post(path, json=six),
                await client.post(path, json=flow | {"every": 5}),
                await client.delete(path, params=flow),
                await client.delete(path, params=flow),
                await client.post(path, json={"src": "10.0.0.2", "dst": "fd00::3"}),
                await client.post(path, json=flow | {"every": 0}),
                await client.get(path),
            ]
            place[0] = None
            found.append(await client.get(path))
            return [(one.status_code, one.json()) for one in found]

    try:
        found = asyncio.run(talk())
    finally:
        server.close()
    assert [status for status, _ in found] == [200, 200, 200, 200, 400, 400, 400, 200, 400]
    assert found[0][1] == [flow | {"every": 100}]
    assert found[2][1] == [flow | {"every": 5}, six]
    assert found[3][1] == found[7][1] == [six]
    assert "not tracked" in found[4][1]["error"]
    assert found[5][1]["error"] == "found 10.0.0.2 and fd00::3, expected addresses of one version"
    assert "no label.registers" in found[8][1]["error"]


def test_ports_have_metrics(api: Any, tmp_path: Path) -> None:
    """Labels, age, latency and queue by port; a port without a label has no age; coverage of all."""
    write(tmp_path)

    async def talk() -> str:
        async with api(tmp_path) as client:
            return str((await client.get("/metrics")).text)

    text = asyncio.run(talk())
    port = 'node="13",node_name="leaf-2",port="3",port_name="to host-9"'
    assert f"hopscope_label_port_labels_total{{{port}}} 40.0" in text
    assert f"hopscope_label_port_latency_seconds{{{port}}} 9e-07" in text
    assert f"hopscope_label_port_silent{{{port}}} 0.0" in text
    assert 'hopscope_label_port_shift{node="11",node_name="leaf-1",port="4",port_name=""} 5.0' in text
    assert text.count("\nhopscope_label_port_labels_total{") == 3
    assert text.count("\nhopscope_label_port_age_seconds{") == 2
    assert "\nhopscope_label_coverage_ratio 0." in text
    assert 'hopscope_alarms{metric="label_age",worker="labels"} 0.0' in text
    counts = LABEL_COUNTERS.open(tmp_path / "regions")
    counts.put("label_silent_ports", 2)
    counts.put("label_coverage_low", 1)
    text = asyncio.run(talk())
    assert 'hopscope_alarms{metric="label_age",worker="labels"} 2.0' in text
    assert 'hopscope_alarms{metric="label_coverage",worker="labels"} 1.0' in text
