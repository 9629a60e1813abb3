"""Redis, the real server: what it holds is what the regions hold, also after it was killed under load."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hopscope.detect.distributions.region import Distributions
from hopscope.detect.records import EVENT, EVENT_VERSION, NO_NODE, Kind, Metric
from hopscope.detect.sink.records import (
    EVICTED,
    EVICTED_VERSION,
    SINK_EVENT,
    SINK_EVENT_VERSION,
    EvictionReason,
    Measure,
    Type,
)
from hopscope.export import exporter as module
from hopscope.export import run as run_module
from hopscope.export.counters import FILE_NAME, KIND, LOST, VERSION, health_of, read_counters
from hopscope.export.run import run
from hopscope.memory.region import Region
from hopscope.memory.ring import RingWriter, create_ring
from hopscope.present.events import when
from hopscope.settings.collector import Settings
from hopscope.settings.destinations.redis import RedisSettings
from support.waiting import HANG_SECONDS, eventually

NAMES = '[nodes]\n1 = "leaf-1"\n[ports.1]\n3 = "to spine"\n'


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MIN_PAUSE", 0.02)
    monkeypatch.setattr(run_module, "CLOSE_SECONDS", 0.5)


@contextmanager
def exporting(folder: Path, sink: bool = True, **redis: Any) -> Iterator[Settings]:
    """The export process's loop, in a thread."""
    (folder / "names.toml").write_text(NAMES)
    settings = Settings(
        data=folder,
        names=folder / "names.toml",
        redis=(RedisSettings(flush_seconds=0.2, timeout_seconds=2.0, **redis),),
    )
    stop = threading.Event()
    thread = threading.Thread(target=run, args=(settings, folder, stop), kwargs={"sink_rings": sink})
    thread.start()
    try:
        yield settings
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


def read_up_to(folder: Path) -> int:
    """Events of the sink that have been read from its ring."""
    with Region.attach(folder / "regions" / FILE_NAME, KIND, VERSION) as region:
        return int(region["next_sink"][0])


def sink_ring(regions: Path, shard: int = 0, capacity: int = 1 << 14) -> RingWriter:
    """Ring of the sink's events."""
    path = regions / f"worker-{shard}.sink-events"
    return RingWriter(create_ring(path, SINK_EVENT, capacity, SINK_EVENT_VERSION))


def sink_events(first: int, count: int, shard: int = 0) -> np.ndarray:
    """Events of two hops and of whole paths."""
    made = np.zeros(count, SINK_EVENT)
    made["sequence"], made["shard"] = np.arange(first, first + count), shard
    made["time_ns"], made["flow_id"] = made["sequence"] * 1000, 77
    made["node_id"] = np.where(made["sequence"] % 3 == 2, NO_NODE, made["sequence"] % 3 + 1)
    made["types"] = Type.LATENCY_ABOVE | Type.PATH_CHANGE
    made["port"], made["hop_count"], made["latency"] = 3, 2, made["sequence"]
    made["path"][:, :2] = 1, 2
    return made


def evicted(flow_id: int, hops: int, first: int) -> np.ndarray:
    """A flow that left, in as many parts as its path needs."""
    made = np.zeros(max(1, -(-hops // 8)), EVICTED)
    made["sequence"], made["flow_id"] = np.arange(first, first + len(made)), flow_id
    made["first_hop"], made["hop_count"] = np.arange(len(made)) * 8, hops
    made["packets"][0], made["last_ns"], made["reason"] = 4, 900, EvictionReason.EXPIRED
    made["latency_samples"], made["latency_sum"], made["latency_latest"] = 4, 10, 3
    cells = made["hops"]
    cells["node_id"], cells["have"], cells["samples"] = np.arange(cells.size).reshape(-1, 8), 1, 4
    cells["latency_latest"], cells["latency_sum"] = 5, 6
    return made


def flows_of(client: Any) -> dict[str, dict[str, str]]:
    """Every flow in Redis by its id."""
    return {key.rpartition(":")[2]: client.hgetall(key) for key in client.scan_iter("hopscope:flow:*", 1000)}


def expected_flow(flow: np.void, hops: np.ndarray) -> dict[str, str]:
    """What a live flow of `Tables` should be in Redis, written once more."""

    def each(latest: str, total: str, bit: int) -> tuple[str, str]:
        told = list(hops)
        values = [str(hop[latest]) if hop["state"] >> bit & 1 else "" for hop in told]
        means = [
            f"{round(int(h[total]) / int(h['samples']), 3):g}" if h["state"] >> bit & 1 else "" for h in told
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
    """Flows, events of both kinds, evictions and distributions are read back as the regions have them; a
    flow that left is marked and expires; one that comes back is live again; nothing changed is written twice.
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
    events = np.zeros(3, EVENT)
    events["sequence"], events["kind"], events["metric"] = range(3), Kind.RAISED, Metric.HOP_LATENCY
    events["node_id"], events["value"], events["flow_id"] = 1, [5, 6, 2**63], 77
    RingWriter(create_ring(regions / "worker-0.events", EVENT, 64, EVENT_VERSION)).write(events)
    ring = sink_ring(regions)
    ring.write(sink_events(0, 3000))
    gone = RingWriter(create_ring(regions / "worker-0.evictions", EVICTED, 64, EVICTED_VERSION))
    gone.write(np.concatenate([evicted(7, 3, 0), evicted(8, 19, 1)[:2]]))
    with exporting(tmp_path, url=server.url):
        eventually(lambda: client.xlen("hopscope:sink_events") == 3000)
        gone.write(evicted(8, 19, 1)[2:])  # the rest of a path in parts
        eventually(lambda: counted(tmp_path, "flows_total") == len(paths))
        eventually(lambda: counted(tmp_path, "evictions_total") == 2)
        eventually(lambda: client.scard("hopscope:distributions") == 2)
        assert {n: f for n, f in flows_of(client).items() if not f["ended"]} == expected_flows(table, paths)
        scores = dict(client.zrange("hopscope:flows", 0, -1, withscores=True))
        assert scores == {f"{n:016x}": float((10**18 + n) // 1000) for n in paths}
        one = client.hgetall("hopscope:flow:" + "8".zfill(16))
        assert one["path"] == ",".join(map(str, range(19)))
        assert (one["hop_latency_mean"], one["queue_occupancy"]) == (",".join(["1.5"] * 19), "," * 18)
        assert (one["reason"], one["ended"], one["packets"]) == ("expired", when(900), "4")
        assert 0 < client.ttl("hopscope:flow:" + "8".zfill(16)) <= 3600
        assert sorted(client.zrange("hopscope:flows:ended", 0, -1)) == ["7".zfill(16), "8".zfill(16)]
        table.put(7, 9, 10**18, [1])  # it had been told as ended, and is live again
        paths[7] = [1]
        table.drop(100)
        gone.write(evicted(100, 2, 4))
        eventually(lambda: client.zscore("hopscope:flows", f"{100:016x}") is None)
        eventually(lambda: client.hget("hopscope:flow:" + "7".zfill(16), "ended") == "")
        assert client.zrange("hopscope:flows:ended", 0, -1) == ["8".zfill(16), f"{100:016x}"]
        eventually(lambda: client.ttl("hopscope:flow:" + "7".zfill(16)) > 3600)
        assert counted(tmp_path, "flows_total") <= len(paths) + 4
    found = [fields for _, fields in client.xrange("hopscope:sink_events")]
    assert [one["id"] for one in found] == [f"0-{n}" for n in range(3000)]
    expected = {
        "types": "latency_above path_change", "flow": f"{77:016x}", "src": "::", "dst": "::", "proto": "0",
        "sport": "0", "dport": "0", "node": "1", "node_name": "leaf-1", "port": "3", "port_name": "to spine",
        "queue": "0", "hop": "0", "hops": "2", "latency": "0", "latency_previous": "0", "occupancy": "0",
        "occupancy_previous": "0", "utilization": "0", "utilization_previous": "0", "path": "",
        "path_names": "",
    }  # fmt: skip
    assert found[0] == {"id": "0-0", "time": when(0), **expected}
    assert (found[2]["node"], found[2]["path"], found[2]["path_names"]) == ("", "1,2", "leaf-1 → 2")
    assert [int(one["latency"]) for one in found] == list(range(3000))
    told = [fields for _, fields in client.xrange("hopscope:events")]
    assert [(one["id"], one["value"], one["node_name"]) for one in told] == [
        ("0-0", "5", "leaf-1"), ("0-1", "6", "leaf-1"), ("0-2", str(2**63), "leaf-1"),
    ]  # fmt: skip
    assert client.smembers("hopscope:distributions") == {"1:queue_occupancy", "all:end_to_end"}
    one = client.hgetall("hopscope:distribution:1:queue_occupancy")
    assert (one["count"], one["sum"], one["highest"], one["le:0"], one["le:5"]) == (
        "10",
        "90",
        "70",
        "7",
        "2",
    )
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
    """The server is killed while events come, stays away, and comes back, empty or with its log: the rings
    are read on meanwhile; every event is in Redis once, or counted as lost; every flow that is live, and no
    other, is there as the table has it; health says what was wrong and since when.
    """
    server = redis_server(*(["--appendonly", "yes", "--appendfsync", "always"] if durable else []))
    server.start()
    table, ring = tables(), sink_ring(regions)
    gone = RingWriter(create_ring(regions / "worker-0.evictions", EVICTED, 64, EVICTED_VERSION))
    paths = {number: [1, 2, 3] for number in range(64, 364)}
    for number, path in paths.items():
        table.put(number, 1, 10**18, path)
    end, total = threading.Event(), 0

    def load() -> None:
        nonlocal total
        while not end.is_set():
            ring.write(sink_events(total, 500))
            total += 500
            number = 64 + total // 500 % 100
            table.put(number, total, 10**18 + total, paths[number])
            time.sleep(0.02)

    thread = threading.Thread(target=load, daemon=True)
    thread.start()
    with exporting(tmp_path, url=server.url, queue_bytes=1 << 20, stream_max=10**7):
        eventually(lambda: counted(tmp_path, "events_total") > 2000)
        server.kill()
        eventually(lambda: f"127.0.0.1:{server.port}. Connection refused" in problem(tmp_path))
        assert not health_of(read_counters(tmp_path)[0]).ok
        dropped, written = counted(tmp_path, "queue_full_total"), total + 10_000
        eventually(lambda: read_up_to(tmp_path) > written)  # nothing waits: it is read, and dropped
        assert counted(tmp_path, "queue_full_total") > dropped
        table.drop(300)
        gone.write(evicted(300, 2, 0))  # while nothing reads it
        client = server.start()
        eventually(lambda: health_of(read_counters(tmp_path)[0]).ok)
        eventually(lambda: client.zcard("hopscope:flows") == len(paths) - 1)
        end.set()
        thread.join()
        gone_id = f"{300:016x}"  # its key stays until it expires
        live = expected_flows(table, paths)
        eventually(lambda: {n: f for n, f in flows_of(client).items() if n != gone_id} == live)
    assert gone_id not in client.zrange("hopscope:flows", 0, -1)
    ids = [fields["id"] for _, fields in client.xrange("hopscope:sink_events")]
    assert len(ids) == len(set(ids))
    assert (counted(tmp_path, "forgotten_total") == 0) == durable
    lost = sum(counted(tmp_path, name) for name, *_ in LOST)
    evictions = 1 - counted(tmp_path, "evictions_total")  # in what was lost
    assert len(ids) + lost == total + evictions
    assert counted(tmp_path, "connections_total") >= 2


def test_commands_rejected_by_the_server(
    redis_server: Callable[..., Any], regions: Path, tmp_path: Path
) -> None:
    """A server without memory is tried again until it has some; entries that it cannot take, since the key
    is something else, are given up and counted; those after ids that are higher than ours get higher ones.
    """
    server = redis_server("--maxmemory-policy", "noeviction")
    client = server.start()
    ring = sink_ring(regions)
    client.config_set("maxmemory", 1)
    with exporting(tmp_path, url=server.url, contents=("events",)):
        ring.write(sink_events(0, 700))
        eventually(lambda: "maxmemory" in problem(tmp_path))
        client.config_set("maxmemory", 0)
        eventually(lambda: counted(tmp_path, "events_total") == 700)
        ahead = int(time.time() * 1000) + 10**7
        client.xadd("hopscope:sink_events", {"id": "foreign"}, f"{ahead}-0")
        ring.write(sink_events(700, 600))
        eventually(lambda: client.xlen("hopscope:sink_events") == 1301)
        client.delete("hopscope:sink_events")
        client.set("hopscope:sink_events", "something else")
        ring.write(sink_events(1300, 5))
        eventually(lambda: counted(tmp_path, "failed_total") == 5)
        assert "WRONGTYPE" in problem(tmp_path)
        client.delete("hopscope:sink_events")
        ring.write(sink_events(1305, 2))
        eventually(lambda: client.xlen("hopscope:sink_events") == 2)
    assert counted(tmp_path, "events_total") == 1302


def test_flows_of_a_collector(
    redis_server: Callable[..., Any], tables: Callable[..., Any], regions: Path, tmp_path: Path
) -> None:
    """Where workers are no sinks, the event that reports that a flow has left marks it; a stream is kept at
    its length; the prefix and what is written are as configured.
    """
    server = redis_server()
    client = server.start()
    table = tables()
    for number in (5, 6):
        table.put(number, 3, 10**18, [1, 2])
    ring = RingWriter(create_ring(regions / "worker-0.events", EVENT, 4096, EVENT_VERSION))
    with exporting(
        tmp_path, sink=False, url=server.url, prefix="mine", stream_max=100, contents=("flows", "events")
    ):
        eventually(lambda: client.zcard("mine:flows") == 2)
        table.drop(5)
        left = np.zeros(2000, EVENT)
        left["sequence"], left["kind"] = np.arange(2000), Kind.PUSH
        left[7]["kind"], left[7]["metric"], left[7]["flow_id"] = Kind.FLOW_RECORD, Metric.FLOW_PATH, 5
        left["value"], left["time_ns"] = 44, 10**18
        ring.write(left)
        eventually(lambda: client.zrange("mine:flows:ended", 0, -1) == ["5".zfill(16)])
        eventually(lambda: counted(tmp_path, "events_total") == 2000)
    assert client.zrange("mine:flows", 0, -1) == ["6".zfill(16)]
    fields = client.hgetall("mine:flow:" + "5".zfill(16))
    assert (fields["packets"], fields["ended"], fields["hop_latency"]) == ("44", when(10**18), ",3")
    assert 100 <= client.xlen("mine:events") < 300
    assert {key.split(":")[1] for key in client.scan_iter()} == {"flow", "flows", "events"}


@pytest.mark.parametrize("given", ["url", "setting", "environment"])
def test_passwords(
    redis_server: Callable[..., Any],
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
    ring = sink_ring(regions)
    for at, password in enumerate(("false-sesame", "open-sesame")):
        monkeypatch.setenv("OF_REDIS", password)
        more = {
            "url": {"url": server.url.replace("//", f"//:{password}@")},
            "setting": {"url": server.url, "password": password},
            "environment": {"url": server.url, "password_env": "OF_REDIS"},
        }[given]
        ring.write(sink_events(3 * at, 3))
        with exporting(tmp_path, **more):
            if at:
                eventually(lambda: client.xlen("hopscope:sink_events") == 3)
            else:
                eventually(lambda: "password" in problem(tmp_path))
    said = capfd.readouterr()
    assert "sesame" not in said.out + said.err
    assert b"sesame" not in (regions / FILE_NAME).read_bytes()


def test_tls(
    redis_server: Callable[..., Any], regions: Path, tmp_path: Path, tool: Callable[..., str]
) -> None:
    """`rediss` verifies the server by the certificates given; an unverified one is rejected."""
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    subprocess.run(
        [
            tool("openssl"), "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
            "-nodes", "-keyout", key, "-out", certificate, "-days", "2", "-subj", "/CN=redis",
            "-addext", "subjectAltName=IP:127.0.0.1",
        ],
        check=True,
        capture_output=True,
    )  # fmt: skip
    server = redis_server(
        "--tls-cert-file", str(certificate), "--tls-key-file", str(key), "--tls-ca-cert-file",
        str(certificate), "--tls-auth-clients", "no",
    )  # fmt: skip
    server.listen = ("--port", "0", "--tls-port")
    client = server.start(ssl=True, ssl_ca_certs=str(certificate))
    url = server.url.replace("redis:", "rediss:")
    ring = sink_ring(regions)
    ring.write(sink_events(0, 3))
    with exporting(tmp_path, url=url):
        eventually(lambda: "CERTIFICATE_VERIFY_FAILED" in problem(tmp_path))
    ring.write(sink_events(3, 3))
    with exporting(tmp_path, url=url, ca_file=certificate):
        eventually(lambda: client.xlen("hopscope:sink_events") == 3)
    client.close()
