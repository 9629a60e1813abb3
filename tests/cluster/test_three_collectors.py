"""Three real collectors of one cluster, and one alone that gets everything: postcards of each packet are
spread over the three, and a source of reports moves from one to another and back.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import httpx
import numpy as np
import pytest

from hopscope.capture.udp.listener import UdpSender
from hopscope.cluster.counters import CLUSTER_COUNTERS
from hopscope.cluster.moved.part import member_hash
from hopscope.cluster.status import read_status
from hopscope.detect.counters import DETECTOR, INDEX, attach_counters, counter_files, counters_of
from hopscope.detect.records import EVENT, EVENT_VERSION, Kind, Metric
from hopscope.detect.report_queue import attach_queue
from hopscope.memory.rings import newest
from hopscope.wire.encode.encoder import encode_reports, mapped_v4, new_hops, new_reports
from hopscope.wire.records import Carried, Link, Records, ReportBatch
from support.cluster.members import make, settings_of
from support.processes.collector_process import Collector
from support.servers.server_process import NO_TLS, NatsServer
from support.waiting import eventually

pytestmark = pytest.mark.e2e
NAMES = ("c1", "c2", "c3")
FLOWS, PACKETS = 40, 300
PATHS = [(11, 15, 19), (11, 16, 19), (12, 15, 18, 19), (12, 19)]
QUICK = {"heartbeat_seconds": 0.3, "member_seconds": 60, "replicas": 1, "answer_seconds": 30}
"""A member that a busy machine stops for seconds is not gone: its flows would move."""


@pytest.fixture(scope="module")
def collectors(tmp_path_factory: pytest.TempPathFactory, nats: NatsServer) -> Iterator[dict[str, Collector]]:
    """The three, which agree on who owns what, and `alone`, which is in no cluster."""
    folder = tmp_path_factory.mktemp("three")
    make(settings_of(nats.url, "three", "c1"))
    small = {"detect.flow_rows": 256, "detect.ports": 1024, "detect.sources": 64, "detect.silent_seconds": 0}
    small |= {
        "detect.queue_reports": 8192,
        "history.ring_events": 16384,
        "postcards.packets": 1024,
        "postcards.window_ms": 8000,
    }
    made = {}
    for name in (*NAMES, "alone"):
        given: dict[str, Any] = {**small, "listen": "[{port=0}]", "serve.port": 0, "member": name}
        given["serve.enabled"] = "true" if name == "c1" else "false"
        if name != "alone":
            given |= {f"cluster.{key}": value for key, value in QUICK.items()}
            given |= {"cluster.name": "three", "cluster.nats": nats.url, "cluster.postcards": "exchange"}
        flags = [word for key, value in given.items() for word in ("--set", f"{key}={value}")]
        made[name] = Collector(folder / name, *flags)
        made[name].launch()
    try:
        for each in made.values():
            each.wait_for('"collecting"')
        eventually(lambda: all(_agrees(made[name]) for name in NAMES), lambda: str(_states(made)))
        yield made
    finally:
        for each in made.values():
            each.stop()


def _states(made: dict[str, Collector]) -> list[Any]:
    return [read_status(made[name].data / "regions") for name in NAMES]


def _agrees(one: Collector) -> bool:
    slots = read_status(one.data / "regions").get("postcards", {})
    return slots.get("members") == list(NAMES) and 0 < slots["slots"] < 16_384 and bool(_slots(one) < 16_384)


def _slots(one: Collector) -> int:
    from hopscope.detect.postcards.share import attach_slots

    return int(attach_slots(one.data / "regions")["mine"].sum())


def events_of(one: Collector, shard: int = 0) -> Records:
    """What the ring of a collector has of a shard."""
    blocks = newest(one.data / "regions", "events", EVENT_VERSION, 16_384)
    blocks = [block for block in blocks if len(block) and block["shard"][0] == shard]
    return np.concatenate(blocks) if blocks else np.zeros(0, EVENT)


def count_of(one: Collector, key: str) -> int:
    """A counter of all its processes."""
    files = counter_files(one.data / "regions").values()
    return sum(int(attach_counters(path)[INDEX[key]]) for path in files)


def counts_of(one: Collector) -> dict[str, int]:
    """Everything that it has counted."""
    regions = one.data / "regions"
    counted = {key: count_of(one, key) for key in INDEX} | CLUSTER_COUNTERS.read(regions)
    return {key: count for key, count in counted.items() if count and "busy" not in key}


def frame(rows: Records, hops: Records, ttl: int) -> Any:
    """A datagram with one report; its inner packet has this TTL."""
    made = encode_reports(ReportBatch(rows, hops), link=Link.UDP_PAYLOAD, inner_ip=True)
    body = made.arena[: made.frames["length"][0]]
    at = bytes(body).index(b"\x45", 12)
    body[at + 8] = ttl
    return made


def postcard(flow: int, packet: int, node: int, ttl: int, sequence: int) -> Any:
    """The postcard of a switch about a packet."""
    rows, hops = new_reports(1), new_hops(1, 0x9000 | 0x2000)
    rows["carried"] |= np.uint8(Carried.OWN_HOP | Carried.NODE_ID)
    rows["source_lo"] = mapped_v4(np.array([0x7F000001], np.uint32))
    rows["src_lo"] = mapped_v4(np.array([0x0A000000 + flow], np.uint32))
    rows["dst_lo"] = mapped_v4(np.array([0x0A000100], np.uint32))
    rows["sport"], rows["dport"], rows["node_id"] = 1000 + flow, 53, node
    rows["packet_id"], rows["sequence"], hops["node_id"], hops["hop_latency"] = (
        1 + packet,
        sequence,
        node,
        100,
    )
    return frame(rows, hops, ttl)


def path_of(flow: int) -> tuple[int, ...]:
    return PATHS[flow % len(PATHS)]


def of_paths(events: Records) -> set[Any]:
    """Events of paths, without times and what is keyed by a collector's secret."""
    wanted = events[(events["metric"] == Metric.FLOW_PATH) & (events["kind"] != Kind.PUSH)]
    names = ("kind", "src_lo", "dst_lo", "sport", "value", "previous", "hop_count")
    return {(*(int(row[name]) for name in names), tuple(row["path"].tolist())) for row in wanted}


def test_paths_are_whole(collectors: dict[str, Collector]) -> None:
    """Every packet's postcards reach three members in turn: the events of paths are those of the collector
    that got all of them, each at one member; each flow has the path that its packets took, and no report is
    lost.
    """
    dice = random.Random(4)
    senders = {name: UdpSender("127.0.0.1", each.port) for name, each in collectors.items()}
    numbers: Counter[tuple[str, int]] = Counter()
    total = 0
    for packet in range(PACKETS):
        flow = packet % FLOWS
        at = dice.randrange(3)
        for hop, node in enumerate(path_of(flow)):
            for name in (NAMES[(at + hop) % 3], "alone"):
                made = postcard(flow, packet, node, 64 - hop, numbers[name, node])
                numbers[name, node] += 1
                assert senders[name].send(made) == 1
        total += len(path_of(flow))
        if packet % FLOWS == FLOWS - 1 or packet == PACKETS - 1:  # a busy machine forwards them late
            eventually(
                lambda: sum(count_of(collectors[name], "joined_postcards_total") for name in NAMES) == total,  # noqa: B023
                lambda: "\n".join(map(str, map(counts_of, collectors.values()))),
            )
    eventually(lambda: count_of(collectors["alone"], "joined_postcards_total") == total)
    expected = of_paths(events_of(collectors["alone"]))
    assert len(expected) == FLOWS
    found = {name: of_paths(events_of(collectors[name])) for name in NAMES}
    assert set().union(*found.values()) == expected
    assert sum(map(len, found.values())) == FLOWS
    assert all(found.values())
    for _, src, _, _, _, _, count, path in expected:
        assert path[:count] == path_of(src & 0xFF)
    for name in NAMES:
        one = collectors[name]
        assert count_of(one, "lost_reports") == count_of(one, "duplicate_reports_total") == 0
        assert count_of(one, "given_postcards_lost_total") == count_of(one, "late_postcards_total") == 0
    given = sum(count_of(collectors[name], "given_postcards_total") for name in NAMES)
    counts = [CLUSTER_COUNTERS.read(collectors[name].data / "regions") for name in NAMES]
    assert sum(each["cluster_postcards_received_total"] for each in counts) == given > total / 2
    for key in ("missing", "unsent", "unqueued"):
        assert not any(each[f"cluster_postcards_{key}_total"] for each in counts)
    assert attach_queue(collectors["c1"].data / "regions" / "cluster.postcards")["cursor"][0] > 0
    for sender in senders.values():
        sender.close()


def report(node: int, sequence: int, flow: int) -> Any:
    """A report of a packet that has crossed two switches, by the second."""
    rows, hops = new_reports(1), new_hops(2, 0x9000 | 0x2000)
    rows["carried"] |= np.uint8(Carried.NODE_ID)
    rows["source_lo"] = mapped_v4(np.array([0x7F000001], np.uint32))
    rows["src_lo"] = mapped_v4(np.array([0x0A000000 + flow], np.uint32))
    rows["dst_lo"] = mapped_v4(np.array([0x0A000100], np.uint32))
    rows["sport"], rows["dport"], rows["node_id"], rows["sequence"] = 2000 + flow, 53, node, sequence
    rows["int_version"], rows["instructions"], rows["hop_count"] = 20, 0xB000, 2
    hops["node_id"], hops["hop_latency"] = (1, node), 100
    return encode_reports(ReportBatch(rows, hops), link=Link.UDP_PAYLOAD)


def test_a_source_moves_and_comes_back(collectors: dict[str, Collector]) -> None:
    """Numbers 0-99 reach c1, 100-199 c2, 200-299 c1. Ten are lost on the way back, and three at c2: c1
    counts 100 lost, and in the end 10; c2 counts 3; moved are 90. The cluster has lost the 13 that no member
    received. Both moves of the source are events, and that of the flow.
    """
    node, flow = 77, 200
    senders = {name: UdpSender("127.0.0.1", collectors[name].port) for name in ("c1", "c2")}
    before = {name: count_of(collectors[name], "lost_reports") for name in NAMES}
    taken = {name: count_of(collectors[name], "reports_total") for name in NAMES}

    def send(name: str, numbers: Any) -> None:
        for number in numbers:
            assert senders[name].send(report(node, number, flow)) == 1
            taken[name] += 1
        eventually(lambda: count_of(collectors[name], "reports_total") == taken[name])

    def lost(name: str) -> int:
        return count_of(collectors[name], "lost_reports") - before[name]

    def moves(name: str) -> list[tuple[Kind, int]]:
        events = events_of(collectors[name], 1022)
        events = events[(events["node_id"] == node) | (events["sport"] == 2000 + flow)]
        return [(Kind(int(row["kind"])), int(row["previous"])) for row in events]

    def counted(name: str, key: str) -> int:
        return CLUSTER_COUNTERS.read(collectors[name].data / "regions")[key]

    send("c1", range(100))
    quiet(collectors["c1"])
    send("c2", [number for number in range(100, 190) if number not in (120, 121, 150)])
    eventually(lambda: (Kind.SOURCE_MOVED, member_hash("c1")) in moves("c2"), lambda: str(moves("c2")))
    eventually(lambda: (Kind.MOVED, member_hash("c1")) in moves("c2"), lambda: str(moves("c2")))
    send("c1", range(200, 300))
    eventually(lambda: (lost("c1"), lost("c2")) == (10, 3), lambda: str((lost("c1"), lost("c2"))))
    eventually(lambda: moves("c1") == [(Kind.SOURCE_MOVED, member_hash("c2"))], lambda: str(moves("c1")))
    assert sorted(moves("c2")) == [(Kind.MOVED, member_hash("c1")), (Kind.SOURCE_MOVED, member_hash("c1"))]
    detector = counters_of(DETECTOR).read(collectors["c1"].data / "regions")
    assert detector["moved_reports_total"] == 90
    eventually(lambda: counted("c1", "cluster_moved_reports_total") == 90)
    assert counted("c2", "cluster_moved_reports_total") == lost("c3") == 0
    whole = eventually(lambda: whole_answer(collectors["c1"], "sources"), every=0.2)
    (found,) = [item for item in whole["items"] if item["node"]["id"] == node]
    assert (found["received"], found["lost"], found["moved"]) == (287, 13, 90)
    summary = eventually(lambda: whole_answer(collectors["c1"], "summary"), every=0.2)
    assert summary["lost"] == 13 + sum(before.values())
    assert not moves("c3")
    (row,) = [row for row in events_of(collectors["c2"], 1022) if row["sport"] == 2000 + flow]
    assert (row["sport"], row["ip_version"], row["src_lo"] & 0xFF) == (2000 + flow, 4, flow)
    assert 0 <= row["value"] < 30 * 10**9
    for sender in senders.values():
        sender.close()


def whole_answer(one: Collector, path: str) -> dict[str, Any]:
    """What all members answer; empty if one is late, as on a busy machine."""
    url = f"{one.owner['api']}api/v0/{path}"
    found = httpx.get(url, params={"scope": "cluster"}, timeout=30, verify=NO_TLS).json()
    return found if found["cluster"]["complete"] else {}


def quiet(one: Collector) -> None:
    """Wait until the process of the cluster has looked twice since the last report."""
    sent = _turns(one)
    eventually(lambda: _turns(one) >= sent + 3)


def _turns(one: Collector) -> int:
    return int(read_status(one.data / "regions").get("moved", {}).get("turns", 0))
