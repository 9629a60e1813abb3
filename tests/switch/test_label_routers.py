"""Three routers with INT-label at tc between two hosts, which notice nothing; the collector sees every port.

host a ── router 1 ── router 2 ── router 3 ── host b
          labels      labels      takes labels off
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from itertools import pairwise, product
from pathlib import Path

import numpy as np
import pytest

import hopscope
from hopscope.settings.label import TrackedFlowSettings
from hopscope.switch.label_maps import EVERY, LabelMaps
from hopscope.switch.label_sender import LabelSender
from hopscope.switch.senders import Senders
from hopscope.switch.settings import SwitchSettings
from hopscope.testbed.namespaces import NamespaceError, inside, run
from hopscope.wire.label.codec import Labelled, push_label, read_blocks
from hopscope.wire.label.layout import LabelItem
from support.collector_process import Collector
from support.namespaces import clear_abandoned
from support.packet_cases import Packet
from support.waiting import HANG_SECONDS, eventually
from support.xdp_make import built

pytestmark = [pytest.mark.e2e, pytest.mark.kernel]
SOURCES = Path(__file__).parents[2] / "src"
PREFIX = "hopscope-labels"
"""Of the names of namespaces."""
ROUTERS = ("r1", "r2", "r3")
NAMES = ("a", *ROUTERS, "b")
PORT, SECONDS, GAP = 5001, 3.0, 0.002
"""UDP port; how long packets are sent for the coverage, and how often."""
MTU = 9200
B = {4: "10.79.3.2", 6: "fd79:3::2"}
"""Addresses of host b."""


class Routers:
    """The namespaces, in a line: each has `left` and `right`, with addresses 10.79.N.1 and .2 of link N."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.folder, self.pins = folder, folder / "bpf"
        self.pins.mkdir()
        run("mount", "-t", "bpf", "bpf", str(self.pins))
        stack.callback(run, "umount", str(self.pins))
        self.full = {name: f"{PREFIX}-{os.getpid()}-{name}" for name in NAMES}
        for full in self.full.values():
            run("ip", "netns", "add", full)
            stack.callback(run, "ip", "netns", "del", full)
        for number, (one, other) in enumerate(pairwise(NAMES)):
            run("ip", "-n", self.full[one], "link", "add", "right", "mtu", str(MTU), "type", "veth",
                "peer", "name", "left", "mtu", str(MTU), "netns", self.full[other])  # fmt: skip
            for name, side, host in ((one, "right", 1), (other, "left", 2)):
                for address in (f"10.79.{number}.{host}/24", f"fd79:{number}::{host}/64"):
                    self.ip(name, "address", "add", address, "dev", side, *("nodad",) * (":" in address))
                self.ip(name, "link", "set", side, "up")
        for at, name in enumerate(NAMES):
            self.run(name, "sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1")
            for number in range(len(NAMES) - 1):
                if number not in (at - 1, at):
                    via = f"{at}::2" if number > at else f"{at - 1}::1"
                    self.ip(name, "-6", "route", "add", f"fd79:{number}::/64", "via", f"fd79:{via}")
                    via = via.replace("::", ".")
                    self.ip(name, "route", "add", f"10.79.{number}.0/24", "via", f"10.79.{via}")

    def ip(self, name: str, *words: str) -> str:
        """What ip(8) prints in a namespace."""
        return run("ip", "-n", self.full[name], *words)

    def run(self, name: str, *words: str) -> str:
        """What a command prints in a namespace."""
        return run("ip", "netns", "exec", self.full[name], *words, seconds=HANG_SECONDS)

    def switch(self, name: str, command: str, label: str | None = "") -> str:
        """`hopscope switch COMMAND` on a router; `label`: lines of [switch.label], None: without."""
        sides = {"r1": ('"right"', '"left"'), "r2": ('"left", "right"', ""), "r3": ('"left"', '"right"')}
        inner, hosts = sides[name]
        file = self.folder / f"{name}.toml"
        file.write_text(
            f"[switch]\nnode_id = {name[1]}\ninterfaces = [{inner}]\nhosts = [{hosts}]\n"
            f'pins = "{self.pins / name}"\n' + (f"[switch.label]\n{label}" if label is not None else "")
        )
        words = [sys.executable, "-m", "hopscope", "switch", command, "--config", str(file)]
        done = subprocess.run(
            ["ip", "netns", "exec", self.full[name], *words], capture_output=True, text=True, check=False,
            env={**os.environ, "PYTHONPATH": str(SOURCES)}, timeout=HANG_SECONDS,
        )  # fmt: skip
        assert not done.returncode, done.stderr
        return done.stdout

    def counts(self, name: str) -> dict[str, int]:
        """Counters of INT-label of a router that are not 0."""
        with closing(LabelMaps.pinned(self.pins / name)) as maps:
            return {count.name: number for count, number in maps.counts().items() if number}

    def socket(self, name: str, *kind: int) -> socket.socket:
        """A socket in a namespace."""
        made: socket.socket = inside(self.full[name], lambda: socket.socket(*kind))
        made.settimeout(HANG_SECONDS)
        return made

    def index(self, name: str, side: str) -> int:
        """Number of an interface."""
        return int(self.ip(name, "-o", "link", "show", side).split(":")[0])

    def mac(self, name: str, side: str) -> bytes:
        """Its address."""
        (found,) = json.loads(self.ip(name, "-j", "link", "show", side))
        return bytes.fromhex(found["address"].replace(":", ""))


@pytest.fixture(scope="module")
def routers(tmp_path_factory: pytest.TempPathFactory, tool: Callable[..., str]) -> Iterator[Routers]:
    """The namespaces, which go at the end; where they are not allowed the tests are skipped."""
    for name in ("ip", "ping"):
        tool(name)
    built(tool)
    clear_abandoned(PREFIX)
    with ExitStack() as stack:
        try:
            yield Routers(tmp_path_factory.mktemp("routers"), stack)
        except (OSError, NamespaceError) as error:
            if os.environ.get("HOPSCOPE_REQUIRE_TOOLS") == "1":
                raise
            pytest.skip(f"no network namespaces with veth pairs here: {error}")


def exported(routers: Routers, name: str = "r3") -> list[Labelled]:
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


def test_packets_arrive_as_they_were_sent_with_the_labels_of_their_path(routers: Routers) -> None:
    """Datagrams, TCP and pings, whose checksums the hosts leave to their cards, arrive as sent, also at a
    router; the labels name the interfaces and times of all three routers.
    """
    for name in ROUTERS:
        routers.switch(name, "attach", "interval = 1e-7\n")
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
        assert all(0 < item.latency_ns < 10**9 for item in block.path())
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
    for address in (*B.values(), "10.79.2.2", "fd79:2::2"):
        assert " 0% packet loss" in routers.run("a", "ping", "-c", "3", "-i", "0.05", "-s", "1400", address)
    assert routers.counts("r3")["OWN"] > 0
    assert 'hopscope_int_labels_total{result="restored"}' in routers.switch("r3", "metrics")
    assert routers.counts("r1").get("FAILED", 0) == 0


def test_tracked_flows_and_registers(routers: Routers) -> None:
    """A tracked flow is labelled by all, the last hop says which flow it is, and 250 labels are taken off; a
    port whose Reg2 says so labels every packet, a port that labels once in a thousand seconds does not.
    """
    for name in ROUTERS:
        routers.switch(name, "attach", 'algorithm = "base-a"\ninterval = 1000\n')
    send(routers, 1)
    with closing(LabelMaps.pinned(routers.pins / "r1")) as maps:
        maps.replace_tracked([TrackedFlowSettings(src="10.79.0.1", dst=B[4], every=5)])
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
    frame = bytearray(Packet(4, 17, b"payload").frame())
    frame[:6] = routers.mac("r2", "left")
    frame[26:34] = bytes([10, 79, 0, 1, 10, 79, 3, 2])
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


def send(routers: Routers, count: int) -> None:
    """Datagrams from a to b; each arrives before the next is sent."""
    receiver = routers.socket("b", socket.AF_INET, socket.SOCK_DGRAM)
    with receiver, routers.socket("a", socket.AF_INET, socket.SOCK_DGRAM) as sender:
        receiver.bind((B[4], PORT))
        for number in range(count):
            sender.sendto(bytes([number]), (B[4], PORT))
            assert receiver.recv(2000) == bytes([number])


def test_coverage_at_the_collector(routers: Routers, tmp_path: Path) -> None:
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
        began = time.time_ns()
        label = {"collector": f"127.0.0.1:{port}"}
        settings = {"node_id": 3, "interfaces": ["left"], "pins": routers.pins / "r3", "label": label}
        with closing(Senders(SwitchSettings.model_validate(settings))) as sender:
            traffic(routers, sender)
        ended = time.time_ns()

        labels = hopscope.open(tmp_path / "data").state.labels

        def intervals() -> list[float]:
            """Coverage of those that have traffic from beginning to end; empty while the last is open."""
            found = labels.coverage(1000)
            if not len(found) or found["begin_ns"].max() < ended:
                return []
            within = (found["begin_ns"] > began + 2 * 10**8) & (found["begin_ns"] < ended - 4 * 10**8)
            shares: list[float] = (found["reported"] / found["active"].clip(1))[within].tolist()
            return shares

        covered = eventually(intervals, "no coverage of the traffic")
        assert len(covered) > SECONDS / 0.1 - 10
        assert sum(covered) / len(covered) > 0.99
        ports = set(zip(labels.ports()["node_id"].tolist(), labels.ports()["port"].tolist(), strict=True))
        assert ports >= {(int(name[1]), routers.index(name, "right")) for name in ROUTERS}
    finally:
        collector.kill_all()
    for name in ROUTERS:
        routers.switch(name, "attach", None)
        assert not list((routers.pins / name).glob("label*"))
    send(routers, 3)
    assert routers.switch("r1", "detach") == "detached\n"


def traffic(routers: Routers, sender: Senders) -> None:
    """Packets from a to b for a while; what they carry is sent on."""
    receiver = routers.socket("b", socket.AF_INET, socket.SOCK_DGRAM)
    with receiver, routers.socket("a", socket.AF_INET, socket.SOCK_DGRAM) as source:
        receiver.bind((B[4], PORT))
        until = time.monotonic() + SECONDS
        while time.monotonic() < until:
            source.sendto(b"payload", (B[4], PORT))
            assert receiver.recv(2000) == b"payload"
            sender.turn()
            time.sleep(GAP)
    sender.drain()
