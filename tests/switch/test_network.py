"""What a switch reports of real drops and queues of the kernel, and a host that is the end of INT."""

from __future__ import annotations

import errno
import socket
from contextlib import closing
from dataclasses import replace
from threading import Thread
from typing import Any

import numpy as np
import pytest

from hopscope.bpf import tc
from hopscope.bpf.kernel_types import enumeration
from hopscope.switch.program import attach, detach
from hopscope.switch.settings import load_switch
from hopscope.testbed.namespaces import inside
from hopscope.wire.decode.plain import DecodedReport, read_plain
from hopscope.wire.dialect import DEFAULT
from hopscope.wire.records import Flag, Link
from support.network.namespaces import Program
from support.network.switch_routers import SOURCES, Routers
from support.packets.wire_cases import frame_batch
from support.waiting import eventually

pytestmark = pytest.mark.e2e
PORT = 5001
TO_B, TO_ROUTER = ("10.77.3.2", PORT), ("10.77.1.2", PORT)
IP_TTL = 2
COLLECTOR = 'collector = "127.0.0.1:32766"\n'
WATCH = f"[[switch.watch]]\nport = {PORT}\n"
PACKETS = replace(DEFAULT, packets=True, ports=())
ITEMS = 'instructions = ["node_id", "queue_occupancy", "egress_utilization"]\n'


class Collector:
    """What router 2 reports, at its loopback interface."""

    def __init__(self, routers: Routers) -> None:
        routers.ip("r2", "link", "set", "lo", "up")
        self._socket = routers.socket("r2", socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 32766))
        self._socket.setblocking(False)
        self.reports: list[DecodedReport] = []

    def __enter__(self) -> Collector:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def wait(self, count: int) -> list[DecodedReport]:
        """So many reports, from the last call on."""

        def enough() -> bool:
            try:
                datagram = self._socket.recv(4000)
            except BlockingIOError:
                return len(self.reports) >= count
            self.reports += read_plain(frame_batch([datagram], Link.UDP_PAYLOAD))
            return len(self.reports) >= count

        eventually(enough, lambda: f"only {len(self.reports)} of {count} reports")
        found, self.reports = self.reports, []
        return found


def running(routers: Routers, more: str) -> Program:
    """`hopscope switch run` at router 2."""
    words = tuple(routers.command("r2", "run", COLLECTOR + more))
    program = Program(words, routers.folder / "r2.log", {"PYTHONPATH": str(SOURCES)})
    program.wait_for("reports go to")
    return program


@pytest.mark.kernel
def test_the_kernel_says_why_it_drops(routers: Routers) -> None:
    """Each of four kinds of drops is reported once for each packet that does not arrive, with its reason, and
    counted; packets that are not watched are not, nor those of other namespaces.
    """
    names = {number: name for name, number in enumeration("skb_drop_reason").items()}
    with Collector(routers) as collector:
        program = running(routers, f'drops = true\n{WATCH}mode = "drops"\n')
        sender = routers.socket("a", socket.AF_INET, socket.SOCK_DGRAM)
        receiver = routers.socket("b", socket.AF_INET, socket.SOCK_DGRAM)
        router = routers.socket("r2", socket.AF_INET, socket.SOCK_DGRAM)
        try:
            receiver.bind(("10.77.3.2", PORT))
            # a full queue
            routers.run(
                "r2",
                *[
                    "tc",
                    "qdisc",
                    "add",
                    "dev",
                    "right",
                    "root",
                    "tbf",
                    "rate",
                    "200kbit",
                    "burst",
                    "1600",
                    "limit",
                    "4000",
                ],
            )
            sent = 40
            for _ in range(sent):
                sender.sendto(bytes(1000), TO_B)
            arrived = 0
            receiver.settimeout(1)
            try:
                while True:
                    receiver.recv(2000)
                    arrived += 1
            except TimeoutError:
                pass
            full = collector.wait(sent - arrived)
            routers.run("r2", *["tc", "qdisc", "del", "dev", "right", "root"])
            assert 0 < arrived < sent
            assert len(full) == sent - arrived
            assert {hop_ports(each)[1] for each in full} == {index(routers, "r2", "right")}
            assert {names[each.row.drop_reason] for each in full} <= {
                "SKB_DROP_REASON_QDISC_DROP", "SKB_DROP_REASON_QDISC_OVERLIMIT",
            }  # fmt: skip
            # a TTL that ends at router 2
            sender.setsockopt(socket.IPPROTO_IP, IP_TTL, 2)
            sender.sendto(b"short-lived", TO_B)
            (ended,) = collector.wait(1)
            sender.setsockopt(socket.IPPROTO_IP, IP_TTL, 64)
            assert (ended.row.ttl, hop_ports(ended)[0]) == (1, index(routers, "r2", "left"))
            # no route
            routers.ip("r2", "route", "del", "10.77.3.0/24")
            sender.sendto(b"nowhere", TO_B)
            sender.sendto(b"not watched", ("10.77.3.2", PORT + 1))
            (lost,) = collector.wait(1)
            assert names[lost.row.drop_reason] == "SKB_DROP_REASON_IP_INNOROUTES"
            # a socket that is not read
            router.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2304)
            router.bind(TO_ROUTER)
            for _ in range(20):
                sender.sendto(bytes(1000), TO_ROUTER)
            (first, *_) = collector.wait(15)
            assert names[first.row.drop_reason] == "SKB_DROP_REASON_SOCKET_RCVBUFF"
            assert all(each.row.flags & Flag.DROPPED for each in (*full, ended, lost, first))
            counted = routers.counts("r2")
            assert counted["dropped_ip_innoroutes"] == 1
            queue = [counted.get(f"dropped_qdisc_{each}", 0) for each in ("drop", "overlimit")]
            assert sum(queue) == len(full)
        finally:
            for each in (sender, receiver, router):
                each.close()
            program.stop()


def test_a_queue_is_as_long_as_the_kernel_says(routers: Routers) -> None:
    """In front of a slow shaper each packet of a burst finds those before it in the queue, as `tc` counts."""
    routers.run(
        "r1",
        *[
            "tc",
            "qdisc",
            "add",
            "dev",
            "right",
            "root",
            "tbf",
            "rate",
            "400kbit",
            "burst",
            "1600",
            "limit",
            "100000",
        ],
    )
    routers.switch("r1", "attach", ITEMS + WATCH)
    wire = routers.socket("b", socket.AF_PACKET, socket.SOCK_RAW, 0)
    wire.bind(("left", 0x0003))
    with closing(wire), routers.socket("a", socket.AF_INET, socket.SOCK_DGRAM) as sender:
        for _ in range(30):
            sender.sendto(bytes(1000), TO_B)
        queued = routers.run("r1", *["tc", "-s", "qdisc", "show", "dev", "right"])
        lengths: list[int] = []
        while len(lengths) < 30:
            frame = wire.recv(4000)
            if frame[12:14] == b"\x08\x00" and frame[23] == 17 and frame[36:38] == PORT.to_bytes(2, "big"):
                (found,) = read_plain(frame_batch([frame]), PACKETS)
                lengths.append(found.hops[0].queue_occupancy)
    assert lengths == sorted(lengths)
    assert lengths[0] == 0
    backlog = int(queued.split("backlog ")[1].split("b ")[1].split("p")[0])
    assert 0 < backlog <= lengths[-1] + 1  # a packet leaves every 20 ms, and tc may start late
    assert lengths[-1] >= 20


@pytest.mark.kernel
def test_int_can_end_at_a_host(routers: Routers) -> None:
    """Both hosts are in the INT domain: the first puts INT into its own packets, and the sockets of the other
    one get datagrams and a TCP stream as they were sent.
    """
    routers.ip("a", "link", "set", "right", "gso_max_segs", "1", "mtu", "1900")
    for interface in ("left", "right"):
        routers.run("r1", "ethtool", "-K", interface, "gro", "off")
    watch = f'{WATCH}protocol = "any"\n'
    for name in ("a", "r1", "r2", "r3", "b"):
        routers.switch(name, "attach", watch * (name == "a"))
    receiver = routers.socket("b", socket.AF_INET, socket.SOCK_DGRAM)
    with receiver, routers.socket("a", socket.AF_INET, socket.SOCK_DGRAM) as sender:
        receiver.bind(TO_B)
        for size in (0, 1, 100, 1000):
            payload = np.random.default_rng(size).bytes(size)
            sender.sendto(payload, TO_B)
            assert receiver.recv(2000) == payload
    content = np.random.default_rng(5).bytes(100_000)
    server = routers.socket("b", socket.AF_INET, socket.SOCK_STREAM)
    with server, routers.socket("a", socket.AF_INET, socket.SOCK_STREAM) as client:
        server.bind(TO_B)
        server.listen()
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 1200)
        client.connect(TO_B)
        taken, _ = server.accept()
        with taken:
            client.sendall(content)
            assert taken.recv(len(content), socket.MSG_WAITALL) == content
    counts = routers.counts("b")
    assert counts["sink"] == routers.counts("a")["source"] > 70
    assert "gso" not in routers.counts("a")
    assert counts["reports_no_sender"] == counts["sink"]


def shape(routers: Routers, name: str, rate: str, limit: int) -> None:
    """A token bucket at the right of a router, with a queue of `limit` bytes."""
    words = ("tc", "qdisc", "add", "dev", "right", "root", "tbf", "rate", rate, "burst", "1600")
    routers.run(name, *words, "limit", str(limit))


def test_postcards_of_merged_segments(routers: Routers) -> None:
    """A TCP stream in buffers of many segments passes unchanged where INT-XD watches it; INT-MD is refused
    where they would be merged, with the command that helps.
    """
    routers.switch("r1", "attach", f'{WATCH}protocol = "tcp"\nmode = "xd"\n')
    content = np.random.default_rng(6).bytes(5_000_000)
    server = routers.socket("b", socket.AF_INET, socket.SOCK_STREAM)
    with server, routers.socket("a", socket.AF_INET, socket.SOCK_STREAM) as client:
        server.bind(TO_B)
        server.listen()
        client.connect(TO_B)
        taken, _ = server.accept()
        with taken:
            sender = Thread(target=client.sendall, args=(content,))
            sender.start()
            assert taken.recv(len(content), socket.MSG_WAITALL) == content
            sender.join()
    assert 0 < routers.counts("r1")["postcard"] < len(content) // 1448  # larger than a segment
    routers.run("r1", "ethtool", "-K", "left", "gro", "on")
    with pytest.raises(AssertionError, match=r"left merges TCP segments .*ethtool -K left gro off"):
        routers.switch("r1", "attach", f'{WATCH}protocol = "tcp"\n')


def test_filters_of_clsact_where_there_is_no_tcx(routers: Routers, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a kernel without tcx the programs are filters: they write INT, are replaced, and leave nothing."""
    monkeypatch.setattr(tc, "_link", lambda *_: -errno.EINVAL)
    routers.command("r1", "attach", WATCH)
    settings = load_switch(routers.folder / "r1.toml")
    wire = routers.socket("b", socket.AF_PACKET, socket.SOCK_RAW, 0)
    wire.bind(("left", 0x0003))
    with closing(wire), routers.socket("a", socket.AF_INET, socket.SOCK_DGRAM) as sender:
        for _ in range(2):
            inside(routers.full["r1"], lambda: attach(settings))
            sender.sendto(bytes(100), TO_B)
            while (frame := wire.recv(4000))[36:38] != PORT.to_bytes(2, "big"):
                pass
            (found,) = read_plain(frame_batch([frame]), PACKETS)
            assert [hop.node_id for hop in found.hops] == [1]
    assert routers.counts("r1")["source"] == 2
    shown = routers.run("r1", "tc", "filter", "show", "dev", "right", "egress")
    assert shown.count("direct-action") == 1
    inside(routers.full["r1"], lambda: detach(settings))
    assert not routers.run("r1", "tc", "filter", "show", "dev", "right", "egress")
    assert not list(routers.pins.glob("r1*"))


def test_what_a_switch_does_is_shown(routers: Routers) -> None:
    """`watch`, `metrics` and `check` of a router that has written INT."""
    routers.switch("r1", "attach", ITEMS + WATCH)
    with routers.socket("a", socket.AF_INET, socket.SOCK_DGRAM) as sender:
        for _ in range(5):
            sender.sendto(bytes(100), TO_B)
    eventually(lambda: routers.counts("r1").get("source") == 5)
    config = routers.command("r1", "watch", ITEMS + WATCH)
    shown = routers.run("r1", *config[4:], "--interval", "0.1", "--count", "1")
    assert ["source", "0", "5"] in [line.split() for line in shown.splitlines()]
    assert any(line.startswith("right ") for line in shown.splitlines())
    text = routers.switch("r1", "metrics", ITEMS + WATCH)
    assert 'hopscope_int_packets_total{result="source"} 5.0' in text
    assert 'hopscope_int_hops_total{interface="right"} 5.0' in text
    assert "tcx" in routers.switch("r1", "check", ITEMS + WATCH)


def hop_ports(found: DecodedReport) -> tuple[int, int]:
    """Ingress and egress interface of a report's own hop."""
    own: Any = found.metadata
    return own.ingress_port, own.egress_port


def index(routers: Routers, name: str, interface: str) -> int:
    """Number of an interface."""
    return int(routers.ip(name, "-o", "link", "show", interface).split(":")[0])
