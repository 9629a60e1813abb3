"""Three routers with INT-label at tc between two hosts, which notice nothing; the collector sees every port.

host a ── router 1 ── router 2 ── router 3 ── host b
          labels      labels      takes labels off
"""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from itertools import product
from pathlib import Path

import numpy as np
import pytest

import hopscope
from hopscope.settings.label import TrackedFlowSettings
from hopscope.switch.labels.maps import EVERY, LabelMaps
from hopscope.switch.labels.sender import LabelSender
from hopscope.switch.senders import Senders
from hopscope.switch.settings import SwitchSettings
from hopscope.testbed.namespaces import NamespaceError
from hopscope.wire.label.codec import Labelled, push_label, read_blocks
from hopscope.wire.label.layout import LabelItem
from support.network.namespaces import clear_abandoned
from support.network.switch_routers import PREFIX, ROUTERS, WITHOUT_LABELS, LabelRouters
from support.packets.packet_cases import Packet
from support.packets.xdp_make import built
from support.processes.collector_process import Collector

pytestmark = [pytest.mark.e2e, pytest.mark.kernel]
PORT, GAP, INTERVALS, PACKETS = 5001, 0.002, 20, 50_000
"""UDP port; the pause between packets in seconds; intervals whose coverage is judged, and most packets that
are sent for them."""
MTU = 9200
FRAME = 14 + 20 + 8 + 1000
"""Bytes of one with 1000 bytes of payload, as a queue counts it: before it gets a label."""
B = {4: "10.77.3.2", 6: "fd77:3::2"}
"""Addresses of host b."""


@pytest.fixture(scope="module")
def routers(tmp_path_factory: pytest.TempPathFactory, tool: Callable[..., str]) -> Iterator[LabelRouters]:
    """The namespaces, which go at the end; where they are not allowed the tests are skipped."""
    for name in ("ip", "ping"):
        tool(name)
    built(tool)
    clear_abandoned(PREFIX)
    with ExitStack() as stack:
        try:
            routers = LabelRouters(tmp_path_factory.mktemp("routers"), stack, mtu=MTU)
            routers.ip("a", "link", "set", "right", "mtu", str(MTU))
            yield routers
        except (OSError, NamespaceError) as error:
            if os.environ.get("HOPSCOPE_REQUIRE_TOOLS") == "1":
                raise
            pytest.skip(f"no network namespaces with veth pairs here: {error}")


def exported(routers: LabelRouters, name: str = "r3") -> list[Labelled]:
    """The blocks that a router's process sends to the collector."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as collector:
        collector.bind(("127.0.0.1", 0))
        collector.settimeout(0.2)
        with closing(LabelSender(routers.pins / name, *collector.getsockname())) as sender:
            sender.drain()
        blocks: list[Labelled] = []
        while True:
            try:
                found, error = read_blocks(collector.recv(1 << 14))
            except TimeoutError:
                return blocks
            assert error is None
            blocks += found


def test_packets_arrive_as_they_were_sent_with_the_labels_of_their_path(routers: LabelRouters) -> None:
    """Datagrams, TCP and pings, whose checksums the hosts leave to their cards, arrive as sent, also at a
    router; the labels name the interfaces and times of all three routers.
    """
    for name in ROUTERS:
        routers.switch(name, "attach", "interval = 1e-6\n")
    path = [(int(name[1]), *(routers.index(name, side) for side in ("left", "right"))) for name in ROUTERS]
    exported(routers)
    before = time.time_ns()
    for version, size in product((4, 6), (1, 2, 100, 1201, 1471)):
        family = socket.AF_INET if version == 4 else socket.AF_INET6
        with (
            routers.socket("b", family, socket.SOCK_DGRAM) as receiver,
            routers.socket("a", family, socket.SOCK_DGRAM) as sender,
        ):
            receiver.bind((B[version], PORT))
            payload = np.random.default_rng(size).bytes(size)
            sender.sendto(payload, (B[version], PORT))
            assert receiver.recv(2000) == payload
    blocks = [block for block in exported(routers) if block.next_header == 17]
    assert len(blocks) == 10
    for block in blocks:
        assert [(item.node_id, item.ingress_port, item.egress_port) for item in block.path()] == path
        times = [item.time_ns for item in block.path()]
        assert before - 10**8 < times[0] < times[1] < times[2] < time.time_ns() + 10**8
        elapsed = time.time_ns() - before  # a neighbour that does not answer is asked again after a second
        assert all(0 < item.latency_ns < elapsed for item in block.path()), block.path()
    content = np.random.default_rng(5).bytes(300_000)
    server = routers.socket("b", socket.AF_INET, socket.SOCK_STREAM)
    with server, routers.socket("a", socket.AF_INET, socket.SOCK_STREAM) as client:
        server.bind((B[4], PORT))
        server.listen()
        client.connect((B[4], PORT))
        taken, _ = server.accept()
        with taken:
            client.sendall(content[:100_000])
            assert taken.recv(100_000, socket.MSG_WAITALL) == content[:100_000]
    for address in (*B.values(), "10.77.2.2", "fd77:2::2"):
        assert " 0% packet loss" in routers.run("a", "ping", "-c", "3", "-i", "0.05", "-s", "1400", address)
    assert routers.counts("r3")["OWN"] > 0
    assert 'hopscope_int_labels_total{result="restored"}' in routers.switch("r3", "metrics")
    assert routers.counts("r1").get("FAILED", 0) == 0


def test_tracked_flows_and_registers(routers: LabelRouters) -> None:
    """A tracked flow is labelled by all, the last hop says which flow it is, and 250 labels are taken off; a
    port whose Reg2 says so labels every packet, a port that labels once in a thousand seconds does not.
    """
    for name in ROUTERS:
        routers.switch(name, "attach", 'algorithm = "base-a"\ninterval = 1000\n')
    send(routers, 1)
    with closing(LabelMaps.pinned(routers.pins / "r1")) as maps:
        maps.replace_tracked([TrackedFlowSettings(src="10.77.0.1", dst=B[4], every=5)])
    exported(routers)
    send(routers, 20)
    blocks = exported(routers)
    assert [[item.node_id for item in block.path()] for block in blocks] == 4 * [[1, 2, 3]]
    assert all(block.flow is not None and block.flow.destination_port == PORT for block in blocks)
    with closing(LabelMaps.pinned(routers.pins / "r1")) as maps:
        maps.replace_tracked([])
    with closing(LabelMaps.pinned(routers.pins / "r2")) as maps:
        assert maps.set_reg2(routers.index("r2", "right"), EVERY)
    send(routers, 20)
    assert [[item.node_id for item in block.path()] for block in exported(routers)] == 20 * [[2]]
    (link,) = json.loads(routers.ip("r2", "-j", "link", "show", "left"))
    frame = bytearray(Packet(4, 17, b"payload").frame())
    frame[:6] = bytes.fromhex(link["address"].replace(":", ""))
    frame[26:34] = bytes([10, 77, 0, 1, 10, 77, 3, 2])
    frame[36:38] = PORT.to_bytes(2, "big")
    frame[24:26] = frame[40:42] = bytes(2)  # no checksum of UDP; that of IP:
    words = np.frombuffer(bytes(frame[14:34]), ">u2").sum(dtype=np.int64)
    frame[24:26] = int(0xFFFF - words % 0xFFFF).to_bytes(2, "big")
    labelled = bytes(frame)
    for node in range(248):
        labelled = push_label(labelled, LabelItem(node + 9, 1, 2, 10**9), tracked=True)
    wire = routers.socket("r1", socket.AF_PACKET, socket.SOCK_RAW, 0)
    receiver = routers.socket("b", socket.AF_INET, socket.SOCK_DGRAM)
    with wire, receiver:
        receiver.bind((B[4], PORT))
        wire.bind(("right", 0))
        wire.send(labelled)
        assert receiver.recv(2000) == b"payload"
    (block,) = exported(routers)
    assert [item.node_id for item in block.path()] == [
        *range(9, 257),
        1,
        2,
    ]  # for that of r3 there is no room


def send(routers: LabelRouters, count: int) -> None:
    """Datagrams from a to b; each arrives before the next is sent."""
    receiver = routers.socket("b", socket.AF_INET, socket.SOCK_DGRAM)
    with receiver, routers.socket("a", socket.AF_INET, socket.SOCK_DGRAM) as sender:
        receiver.bind((B[4], PORT))
        for number in range(count):
            sender.sendto(bytes([number]), (B[4], PORT))
            assert receiver.recv(2000) == bytes([number])


def test_the_queues_in_a_label_are_those_of_tc(routers: LabelRouters) -> None:
    """In front of two slow shapers, queues of one interface (mq), the labels of a burst have the bytes of the
    packets before them that wait.
    """
    for name in ROUTERS:
        routers.switch(name, "attach", 'algorithm = "base-a"\ninterval = 1000\n')
    send(routers, 1)
    with closing(LabelMaps.pinned(routers.pins / "r1")) as maps:
        maps.set_reg2(routers.index("r1", "right"), EVERY)
    routers.run("r1", "tc", "qdisc", "add", "dev", "right", "root", "handle", "1:", "mq")
    shaper = ("tbf", "rate", "400kbit", "burst", "3000", "limit", "100000")
    for queue in ("1:1", "1:2"):
        routers.run("r1", "tc", "qdisc", "add", "dev", "right", "parent", queue, *shaper)
    exported(routers)
    receiver = routers.socket("b", socket.AF_INET, socket.SOCK_DGRAM)
    try:
        with receiver, routers.socket("a", socket.AF_INET, socket.SOCK_DGRAM) as sender:
            receiver.bind((B[4], PORT))
            for _ in range(10):
                sender.sendto(bytes(1000), (B[4], PORT))
            assert [len(receiver.recv(2000)) for _ in range(10)] == 10 * [1000]
    finally:
        routers.run("r1", "tc", "qdisc", "del", "dev", "right", "root")
    lengths = [block.path()[0].occupancy for block in exported(routers)]
    assert len(lengths) == 10
    assert not any(length % FRAME for length in lengths), lengths
    assert lengths[0] == 0
    assert max(lengths) >= 4 * FRAME


def test_coverage_at_the_collector(routers: LabelRouters, tmp_path: Path) -> None:
    """At the paper's setting, T = 50 ms and a telemetry interval of 100 ms, `hopscope collect` hears of every
    port in more than 99 % of the intervals. Without [switch.label] labels end, and their maps are gone.
    """
    for name in ROUTERS:
        routers.switch(name, "attach", "interval = 0.05\n")
    exported(routers)
    small = (
        "--set",
        "detect.flow_rows=64",
        "--set",
        "detect.ports=1024",
        "--set",
        "history.ring_events=16384",
    )
    listen = ("--set", "label.listen=127.0.0.1:0", "--listen", "udp://127.0.0.1:0", "--http-port", "0")
    collector = Collector(tmp_path / "data", *small, *listen)
    try:
        collector.start()
        port = int(collector.owner["labels"].rpartition(":")[2])
        label = {"collector": f"127.0.0.1:{port}"}
        settings = {"node_id": 3, "interfaces": ["left"], "pins": routers.pins / "r3", "label": label}
        labels = hopscope.open(tmp_path / "data").state.labels
        turns: list[int] = []

        def shares() -> list[float]:
            """Coverage of the intervals with packets all the time, and for 0.2 s before."""
            found, when = labels.coverage(1000), np.array(turns)
            pauses = np.diff(when, append=when[-1:] + 10**9)
            shares = []
            for begin, active, reported in found[["begin_ns", "active", "reported"]].tolist():
                first, last = np.searchsorted(when, [begin - 2 * 10**8, begin + 10**8])
                if first and pauses[first - 1 : last].max() < 3 * 10**7:
                    shares.append(reported / max(active, 1))
            return shares

        judged: list[float] = []

        def is_enough() -> bool:
            """A busy machine keeps packets waiting, and a collector, which counts labels late then."""
            judged[:] = shares()[-INTERVALS:]
            return len(judged) == INTERVALS and (sum(judged) > 0.99 * INTERVALS or len(turns) >= PACKETS)

        with closing(Senders(SwitchSettings.model_validate(settings))) as sender:
            traffic(routers, sender, turns, is_enough)
        assert sum(judged) > 0.99 * INTERVALS
        ports = set(zip(labels.ports()["node_id"].tolist(), labels.ports()["port"].tolist(), strict=True))
        assert ports >= {(int(name[1]), routers.index(name, "right")) for name in ROUTERS}
    finally:
        collector.kill_all()
    for name in ROUTERS:
        routers.switch(name, "attach", WITHOUT_LABELS)
        assert not list((routers.pins / name).glob("label*"))
    send(routers, 3)
    assert routers.switch("r1", "detach") == "detached\n"


def traffic(routers: LabelRouters, sender: Senders, turns: list[int], is_enough: Callable[[], bool]) -> None:
    """Packets from a to b until it is enough; what they carry is sent on. Adds to `turns` when, ns."""
    receiver = routers.socket("b", socket.AF_INET, socket.SOCK_DGRAM)
    with receiver, routers.socket("a", socket.AF_INET, socket.SOCK_DGRAM) as source:
        receiver.bind((B[4], PORT))
        while len(turns) % 50 or not is_enough():
            source.sendto(b"payload", (B[4], PORT))
            assert receiver.recv(2000) == b"payload"
            sender.turn()
            turns.append(time.time_ns())
            time.sleep(GAP)
    sender.drain()
