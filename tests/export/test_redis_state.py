"""State in Redis, the real server: what it holds is what the regions hold, also after it was killed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hopscope.detect.distributions.region import Distributions
from hopscope.detect.records import EVENT, NO_VALUE, Kind, Metric
from hopscope.detect.sink.records import Measure
from hopscope.export import run as run_module
from hopscope.export.counters import FILE_NAME, LOST, health_of, read_counters
from hopscope.export.run import run
from hopscope.history.writing.journal import JournalWriter
from hopscope.present.events import when
from hopscope.settings.collector import Settings
from support.waiting import HANG_SECONDS, eventually

NAMES = '[nodes]\n1 = "leaf-1"\n[ports.1]\n3 = "to spine"\n'


@pytest.fixture(autouse=True)
def _short_close(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_module, "CLOSE_SECONDS", 0.5)


@contextmanager
def exporting(folder: Path, **redis: Any) -> Iterator[None]:
    """The export process's loop, in a thread."""
    (folder / "names.toml").write_text(NAMES)
    given = {"kind": "redis_state", "flush_seconds": 0.2, "timeout_seconds": 2.0, "batch_seconds": 0}
    settings = Settings.model_validate(
        {"data": folder, "names": folder / "names.toml", "export": {"state": given | redis}}
    )
    stop = threading.Event()
    thread = threading.Thread(target=run, args=(settings, folder, stop))
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(HANG_SECONDS)
        assert not thread.is_alive()


def counted(folder: Path, name: str) -> int:
    """A counter of the server."""
    return int(read_counters(folder)[name].sum())


def problem(folder: Path) -> str:
    """What is wrong with the server."""
    return "".join(health_of(row).problem for row in read_counters(folder))


def flow_record(flow_id: int, path: list[int], sequence: int) -> np.ndarray:
    """The flow record of a flow that left, in as many parts as its path needs."""
    made = np.zeros(max(1, -(-len(path) // 8)), EVENT)
    made["sequence"], made["flow_id"] = np.arange(sequence, sequence + len(made)), flow_id
    made["kind"], made["metric"], made["hop_count"] = Kind.FLOW_RECORD, Metric.FLOW_PATH, len(path)
    made["value"], made["previous"], made["time_ns"] = 44, 1_000, 2_000
    made["hop"] = np.arange(len(made)) * 8
    made["path"] = np.array(path + [0] * (8 * len(made) - len(path))).reshape(-1, 8)
    return made


def flows_of(client: Any) -> dict[str, dict[str, str]]:
    """Every flow in Redis by its id."""
    return {key.rpartition(":")[2]: client.hgetall(key) for key in client.scan_iter("hopscope:flow:*", 1000)}


def expected_flow(flow: np.void, hops: np.ndarray) -> dict[str, str]:
    """What a live flow of `Tables` should be in Redis, written once more.

    Means and the latest latency are there by the bits of `state`.  Of queues and links it is what was last
    reported: a collector keeps no sums of them.
    """

    def each(latest: str, total: str, bit: int) -> tuple[str, str]:
        there = [hop["state"] & 1 if bit == 0 else hop[latest] != NO_VALUE for hop in hops]
        values = [str(hop[latest]) if yes else "" for hop, yes in zip(hops, there, strict=True)]
        means = [
            f"{round(int(h[total]) / int(h['samples']), 3):g}" if h["state"] >> bit & 1 else "" for h in hops
        ]
        return ",".join(values), ",".join(means)

    nodes = hops["node_id"].tolist()
    fields = {
        "id": f"{int(flow['flow_id']):016x}",
        "src": ".".join(map(str, (int(flow["src_lo"]) & 0xFFFFFFFF).to_bytes(4, "big"))),
        "dst": "10.0.0.1",
        "proto": "6",
        "sport": str(flow["sport"]),
        "dport": "80",
        "packets": str(flow["packets"]),
        "first": when(1_000),
        "last": when(int(flow["last_ns"])),
        "latency": str(flow["latency_latest"]),
        "latency_mean": "9",
        "path": ",".join(map(str, nodes)),
        "path_names": " → ".join("leaf-1" if node == 1 else str(node) for node in nodes),
        "ports": ",".join(str(at) for at in range(len(nodes))),
        "ended": "",
        "reason": "",
    }
    for bit, (name, latest, total) in enumerate(
        (
            ("hop_latency", "latency_latest", "latency_sum"),
            ("queue_occupancy", "queue_latest", "queue_sum"),
            ("link_utilization", "utilization_latest", "utilization_sum"),
        )
    ):
        fields[name], fields[f"{name}_mean"] = each(latest, total, bit)
    return fields


def expected_flows(table: Any, paths: dict[int, list[int]]) -> dict[str, dict[str, str]]:
    """The same of all flows of a table whose paths are inline."""
    found = {}
    for at in np.flatnonzero(table.rows["tag"].reshape(-1)):
        flow = table.flows[at]
        hops = table.hops[at * 8 : at * 8 + len(paths[int(flow["flow_id"])])]
        found[f"{int(flow['flow_id']):016x}"] = expected_flow(flow, hops)
    return found


def test_what_it_holds_is_what_the_regions_hold(
    redis_server: Callable[..., Any], tables: Callable[..., Any], regions: Path, tmp_path: Path
) -> None:
    """Flows and distributions are read back as the regions have them; a flow that left is marked and expires;
    one that comes back is live again; nothing unchanged is written twice.
    """
    server = redis_server()
    client = server.start()
    paths = {number: [number % 5 + node for node in range(number % 8)] for number in range(100, 400)}
    table = tables()
    for number, path in paths.items():
        table.put(number, number % 7 + 1, 10**18 + number, path)
    counts = Distributions(Settings().distributions, regions, 0)
    counts.rows["key"][1], counts.rows["node_id"][1] = 1 << 63 | 1, 1
    cells = counts.bins.reshape(-1, 3, 128)
    cells[1, Measure.QUEUE_OCCUPANCY, [0, 5, 20]] = 7, 2, 1
    counts.rows["highest"][1, Measure.QUEUE_OCCUPANCY], counts.rows["sum"][1, 1] = 70, 90
    cells[0, 0, 9] = 4
    id_7, id_8, id_100 = (f"{number:016x}" for number in (7, 8, 100))
    with JournalWriter(tmp_path, 0) as journal, exporting(tmp_path, url=server.url, begin="oldest"):
        journal.append(flow_record(7, [1, 2, 3], 0))
        journal.append(flow_record(8, list(range(1, 20)), 1))
        eventually(lambda: counted(tmp_path, "flows_total") == len(paths))
        eventually(lambda: client.zrange("hopscope:flows:ended", 0, -1) == [id_7, id_8])
        eventually(lambda: client.scard("hopscope:distributions") == 2)
        assert {n: f for n, f in flows_of(client).items() if not f["ended"]} == expected_flows(table, paths)
        scores = dict(client.zrange("hopscope:flows", 0, -1, withscores=True))
        assert scores == {f"{n:016x}": float((10**18 + n) // 1000) for n in paths}
        one = client.hgetall(f"hopscope:flow:{id_8}")
        assert one["path"] == ",".join(map(str, range(1, 20)))
        assert (one["first"], one["last"], one["ended"]) == (when(1_000), when(2_000), when(2_000))
        assert (one["packets"], one["path_names"][:10]) == ("44", "leaf-1 → 2")
        assert 0 < client.ttl(f"hopscope:flow:{id_8}") <= 3600
        table.put(7, 9, 10**18, [1])  # it had ended, and is live again
        paths[7] = [1]
        table.drop(100)
        journal.append(flow_record(100, paths[100], 4))
        eventually(lambda: client.zscore("hopscope:flows", id_100) is None)
        eventually(lambda: client.hget(f"hopscope:flow:{id_7}", "ended") == "")
        assert client.zrange("hopscope:flows:ended", 0, -1) == sorted([id_8, id_100])
        eventually(lambda: client.ttl(f"hopscope:flow:{id_7}") > 3600)
        assert counted(tmp_path, "flows_total") <= len(paths) + 4
        left = client.hgetall(f"hopscope:flow:{id_100}")
        assert (left["packets"], left["hop_latency"], left["path"]) == ("44", ",3,,3", "0,1,2,3")
    assert client.smembers("hopscope:distributions") == {"1:queue_occupancy", "all:end_to_end"}
    one = client.hgetall("hopscope:distribution:1:queue_occupancy")
    found = one["count"], one["sum"], one["highest"], one["le:0"], one["le:5"]
    assert found == ("10", "90", "70", "7", "2")
    assert (one["p50"], one["node_name"]) == ("0", "leaf-1")
    assert client.hget("hopscope:distribution:all:end_to_end", "count") == "4"
    assert [counted(tmp_path, name) for name, *_ in LOST] == [0] * len(LOST)
    assert not client.keys("*next*")


@pytest.mark.parametrize("durable", [False, True], ids=["empty", "append-only"])
def test_killed_and_restarted_under_load(
    redis_server: Callable[..., Any],
    tables: Callable[..., Any],
    regions: Path,
    tmp_path: Path,
    durable: bool,
) -> None:
    """The server is killed while flows change, and comes back, empty or with its log: every live flow, and no
    other, is there as the table has it, and one that left meanwhile is marked.
    """
    server = redis_server(*(["--appendonly", "yes", "--appendfsync", "always"] if durable else []))
    server.start()
    table = tables()
    paths = {number: [1, 2, 3] for number in range(64, 364)}
    for number, path in paths.items():
        table.put(number, 1, 10**18, path)
    end = threading.Event()

    def load() -> None:
        turn = 0
        while not end.wait(0.01):
            turn += 1
            table.put(64 + turn % 100, turn, 10**18 + turn, [1, 2, 3])

    thread = threading.Thread(target=load, daemon=True)
    thread.start()
    with JournalWriter(tmp_path, 0) as journal, exporting(tmp_path, url=server.url, begin="oldest"):
        eventually(lambda: counted(tmp_path, "flows_total") > 600)
        server.kill()
        eventually(lambda: f"127.0.0.1:{server.port}. Connection refused" in problem(tmp_path))
        assert not health_of(read_counters(tmp_path)[0]).ok
        table.drop(300)
        journal.append(flow_record(300, [1, 2, 3], 0))
        client = server.start()
        eventually(lambda: health_of(read_counters(tmp_path)[0]).ok)
        eventually(lambda: client.zcard("hopscope:flows") == len(paths) - 1)
        end.set()
        thread.join()
        gone_id = f"{300:016x}"  # its key stays until it expires
        live = expected_flows(table, paths)
        eventually(lambda: {n: f for n, f in flows_of(client).items() if n != gone_id} == live)
        eventually(lambda: client.zrange("hopscope:flows:ended", 0, -1) == [gone_id])
    assert gone_id not in client.zrange("hopscope:flows", 0, -1)
    assert counted(tmp_path, "connections_total") >= 2


def test_what_the_server_rejects_comes_later(
    redis_server: Callable[..., Any], tables: Callable[..., Any], regions: Path, tmp_path: Path
) -> None:
    """A server without memory, or with a key of another type, is tried again until it takes everything; flows
    whose end history lacks leave the list when their hashes have expired.
    """
    server = redis_server("--maxmemory-policy", "noeviction")
    client = server.start()
    table = tables()
    table.put(5, 1, 10**18, [1])
    client.config_set("maxmemory", 1)
    with exporting(tmp_path, url=server.url, prefix="mine", ttl_seconds=60, contents=("flows",)):
        eventually(lambda: "maxmemory" in problem(tmp_path))
        client.config_set("maxmemory", 0)
        eventually(lambda: client.zcard("mine:flows") == 1)
        client.set("mine:flow:" + "6".zfill(16), "something else")
        table.drop(5)
        table.put(6, 1, 10**18 + 200 * 10**9, [1])
        eventually(lambda: "WRONGTYPE" in problem(tmp_path))
        client.delete("mine:flow:" + "6".zfill(16))
        eventually(lambda: client.hget("mine:flow:" + "6".zfill(16), "path") == "1")
        assert client.zrange("mine:flows", 0, -1) == ["6".zfill(16)]
    assert {key.split(":")[1] for key in client.scan_iter()} == {"flow", "flows"}


def test_only_some_flows(
    redis_server: Callable[..., Any], tables: Callable[..., Any], regions: Path, tmp_path: Path
) -> None:
    """The filters of events hold for live flows, too."""
    server = redis_server()
    client = server.start()
    table = tables()
    for number in range(1, 60):
        table.put(number, 3, 10**18, [1, 2] if number < 40 else [3])
    given = {"nodes": [2, 9], "prefixes": ["0.0.0.8/29", "10.7.0.0/16"], "contents": ("flows",)}
    with exporting(tmp_path, url=server.url, **given):
        eventually(lambda: client.zcard("hopscope:flows") == 8)
    assert {int(number, 16) for number in client.zrange("hopscope:flows", 0, -1)} == set(range(8, 16))


@pytest.mark.parametrize("given", ["url", "setting", "environment"])
def test_passwords(
    redis_server: Callable[..., Any],
    tables: Callable[..., Any],
    regions: Path,
    tmp_path: Path,
    given: str,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """A password from the URL, the settings or the environment opens the server; with a wrong one health
    says so. No log, counter or health has it.
    """
    server = redis_server("--requirepass", "open-sesame")
    client = server.start(password="open-sesame")
    tables().put(5, 1, 10**18, [1])
    for at, password in enumerate(("false-sesame", "open-sesame")):
        monkeypatch.setenv("OF_REDIS", password)
        more = {
            "url": {"url": server.url.replace("//", f"//:{password}@")},
            "setting": {"url": server.url, "user": "default", "password": password},
            "environment": {"url": server.url, "password": "env:OF_REDIS"},
        }[given]
        with exporting(tmp_path, **more):
            if at:
                eventually(lambda: client.zcard("hopscope:flows") == 1)
            else:
                eventually(lambda: "password" in problem(tmp_path))
    said = capfd.readouterr()
    assert "sesame" not in said.out + said.err
    assert b"sesame" not in (regions / FILE_NAME).read_bytes()
