"""The API's routes and metrics about switches that the controller reaches."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hopscope.control.rules import configured, write_rules
from hopscope.control.status import write_status
from hopscope.labels import tracked_state
from hopscope.labels.tracked import TrackedTable
from hopscope.runtime.supervisor.control import ControlServer
from hopscope.runtime.supervisor.tracking import answer_rules
from hopscope.settings.collector import Settings
from hopscope.settings.switches import WatchRule
from hopscope.wire.label.records import LABEL, LABEL_FLOW
from support.processes.command import run

SWITCHES = {"leaf1": {"kind": "ebpf", "node": 11}, "leaf2": {"kind": "ebpf", "node": 99}}
RULE = WatchRule(destination="192.0.2.0/24", port=5001).model_dump(mode="json")
STATUS = {
    "name": "leaf1", "kind": "ebpf", "node": 11, "place": "/sys/fs/bpf/x", "state": "down",
    "since_ns": 1_700_000_000_000_000_001, "in_sync": False, "error": "it does not answer",
    "error_ns": 1_700_000_000_000_000_002, "lacks": ["reg2"], "refuses": {"watch": "no mx"},
    "wanted": {"watch": [], "reg2": {"3": 2}}, "actual": None, "ports": None,
    "counts": {"connections": 1, "failures": 7, "reads": 3, "drifts": 0, "changes": 2},
}  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A data folder whose supervisor answers about rules."""
    regions = tmp_path / "regions"
    regions.mkdir()
    settings = Settings.model_validate(
        {"switches": SWITCHES, "label": {"listen": "127.0.0.1:0"}, "control": {"watch": [RULE]}}
    )
    write_rules(regions, configured(settings))
    server = ControlServer(tmp_path, lambda request, _: answer_rules(settings, regions, request))
    server.start()
    yield tmp_path
    server.close()


def talk(api: Any, folder: Path, *requests: tuple[str, str, Any]) -> list[tuple[int, Any]]:
    """Status and answer of each (method, path, body)."""

    async def ask() -> list[tuple[int, Any]]:
        async with api(folder) as client:
            answers = [await client.request(method, path, json=body) for method, path, body in requests]
            return [
                (each.status_code, each.json() if "json" in each.headers["content-type"] else each.text)
                for each in answers
            ]

    return asyncio.run(ask())


def test_switches_are_shown(api: Any, folder: Path) -> None:
    """Their state, what is asked of them, what failed last; metrics have them, too."""
    write_status(folder / "regions", [STATUS])
    (status, found), (_, metrics) = talk(
        api, folder, ("GET", "/api/v0/control/switches", None), ("GET", "/metrics", None)
    )
    assert (status, found["total"], found["in_sync"]) == (200, 1, 0)
    (switch,) = found["items"]
    assert switch["node"] == {"id": 11, "name": "leaf-1"}
    assert switch["since"] == "2023-11-14T22:13:20.000000001Z"
    assert switch["error_time"] == "2023-11-14T22:13:20.000000002Z"
    for name in STATUS.keys() - {"node", "since_ns", "error_ns"}:
        assert switch[name] == STATUS[name]
    labels = '{kind="ebpf",node="11",switch="leaf1"}'
    for line in (f"up{labels} 0.0", f"in_sync{labels} 0.0", f"failures_total{labels} 7.0"):
        assert f"hopscope_switch_{line}" in metrics


def test_rules_change_through_the_api(api: Any, folder: Path) -> None:
    """A rule comes last; all can be set; what does not fit is a line, and changes nothing."""
    path = "/api/v0/control/watch"
    other = RULE | {"switches": ["leaf2"], "protocol": "tcp"}
    found = talk(
        api, folder, ("GET", path, None), ("POST", path, {"switches": ["leaf2"], **{
            name: other[name] for name in ("destination", "port", "protocol")
        }}), ("PUT", path, {"items": [other]}), ("POST", path, {"switches": ["leaf3"]}),
        ("POST", path, {"port": 70000}), ("POST", path, {"prot": "tcp"}),
        ("PUT", path, {"items": [{"sample": n} for n in range(1, 34)]}), ("GET", path, None),
    )  # fmt: skip
    assert [status for status, _ in found] == [200, 200, 200, 400, 400, 400, 400, 200]
    assert found[0][1] == {"items": [RULE]}
    assert found[1][1] == {"items": [RULE, other]}
    assert found[2][1] == found[7][1] == {"items": [other]}
    assert "found switch 'leaf3', expected one of leaf1, leaf2" in found[3][1]["error"]
    assert "found 33 rules for leaf1, expected 32 or fewer" in found[6][1]["error"]


def test_tracked_flows_are_those_of_the_switches(api: Any, folder: Path) -> None:
    """With switches, the API of tracked flows needs no registers."""
    path = "/api/v0/labels/tracked"
    flow = {"src": "10.0.0.2", "dst": "10.0.1.2"}
    query = f"{path}?src=10.0.0.2&dst=10.0.1.2"
    found = talk(
        api, folder, ("POST", path, flow), ("POST", path, flow | {"every": 5}), ("DELETE", query, None),
        ("DELETE", query, None),
    )  # fmt: skip
    assert [status for status, _ in found] == [200, 200, 200, 400]
    assert [answer for _, answer in found[:3]] == [[flow | {"every": 100}], [flow | {"every": 5}], []]


def test_links_come_from_a_file_lldp_and_paths(api: Any, collector: Any, tmp_path: Path) -> None:
    """INT paths of the live flows, 11 to 12 to 13 by port 3 each; a tracked flow, which knows ingress ports,
    too; a neighbour by LLDP; a file, which counts first. The command prints the same.
    """
    links, regions = tmp_path / "links.toml", collector.folder / "regions"
    links.write_text("[links.12]\n3 = 14\n")
    (collector.folder / "owner.json").write_text(json.dumps({"schema": 1, "pid": 1, "links": str(links)}))
    here = {"number": 8, "name": "eth8", "mac": "", "chassis": "x", "port": "eno1", "system": "host-9"}
    write_status(regions, [STATUS | {"ports": {"system": "leaf-1", "ports": [here]}}])
    table = TrackedTable(regions / tracked_state.FILE_NAME, time.time_ns())
    labels, flows = np.zeros(2, LABEL), np.zeros(1, LABEL_FLOW)
    labels["node_id"], labels["position"], labels["tracked"] = [11, 12], [0, 1], 1
    labels["egress_port"], labels["ingress_port"] = [3, 4], [0, 7]
    table.update(labels, flows, time.time_ns())
    table.tick(time.time_ns())
    (_, all_links), (_, some) = talk(
        api,
        collector.folder,
        ("GET", "/api/v0/topology", None),
        ("GET", "/api/v0/topology?node=leaf-1", None),
    )
    found = {
        (link["node"]["id"], link["port"]["id"]): (
            link["next_node"] and link["next_node"]["id"], link["next_port"] and link["next_port"]["id"],
            link["neighbour"], link["sources"], link["disputed"],
        )
        for link in all_links["items"]
    }  # fmt: skip
    assert found == {
        (11, 3): (12, 7, None, ["paths"], False),
        (11, 8): (None, None, "host-9 eno1", ["lldp"], False),
        (12, 3): (14, None, None, ["file"], True),
    }
    assert some["total"] == 2
    file = collector.folder.parent / "seen.toml"
    status, out, _ = run(
        "control", "topology", "--data", collector.folder, "--format", "json", "--file", str(file)
    )
    assert status == 0
    assert '"node-11:3 - node-12:7"' in file.read_text()
    assert [json.loads(line)["leads_to"] for line in out.splitlines()] == ["12", "host-9 eno1", "14"]
    table.close()
