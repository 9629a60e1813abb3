"""Three routers with INT at tc between two hosts: datagrams arrive with their path, all else as it was sent.

host a ── router 1 ── router 2 ── router 3 ── (sink) ── host b
          source      transit     transit
"""

from __future__ import annotations

import json
import socket
import sys
import time
import urllib.request
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from hopscope.settings.watch import WatchSettings
from hopscope.switch.watches import read_watches, replace_watches
from hopscope.testbed.namespaces import inside
from hopscope.wire.decode.plain import read_plain
from hopscope.wire.dialect import DEFAULT
from support.network.namespaces import Program
from support.network.switch_programs import total
from support.network.switch_routers import ROUTERS, SOURCES, Routers
from support.packets.wire_cases import frame_batch
from support.waiting import HANG_SECONDS, eventually

pytestmark = pytest.mark.e2e
PORT = 5001
SIZES = (1, 2, 100, 1201, 1471)
HOP_WORDS = 7
CLOCKS_NS = 10**8
"""The kernel's clocks differ by less; were the leap seconds wrong, it would be seconds."""
SEGMENT, UDP_SEGMENT = 500, 103
PACKETS = replace(DEFAULT, packets=True, ports=())


WATCH = f"[[switch.watch]]\nport = {PORT}\n"


def frames_at_b(routers: Routers, version: int) -> list[tuple[bytes, bytes]]:
    """(payload that a sent, frame that came to b's interface)."""
    family, address = ((socket.AF_INET, "10.77.3.2"), (socket.AF_INET6, "fd77:3::2"))[version == 6]
    wire = routers.socket("b", socket.AF_PACKET, socket.SOCK_RAW, 0)
    wire.bind(("left", 0x0003))
    sender = routers.socket("a", family, socket.SOCK_DGRAM)
    random, found = np.random.default_rng(version), []
    with wire, sender:
        for size in SIZES[: 4 if version == 6 else 5]:
            payload = random.bytes(size)
            sender.sendto(payload, (address, PORT))
            while True:
                frame = wire.recv(4000)
                l4, protocol = (34, 23) if version == 4 else (54, 20)
                is_ip = frame[12:14] == (b"\x08\x00" if version == 4 else b"\x86\xdd")
                if is_ip and frame[protocol] == 17 and frame[l4 + 2 : l4 + 4] == PORT.to_bytes(2, "big"):
                    found.append((payload, frame))
                    break
    return found


def test_datagrams_arrive_with_their_path(routers: Routers) -> None:
    """INT of three hops in front of the payload as sent, with true interfaces and with times that can be: a
    hop has a packet after the hop before has sent it. Host a leaves checksums to its card, and router 3 has
    to compute them.
    """
    routers.run("r3", "ethtool", "-K", "right", "tx", "off")
    for name in ROUTERS:
        assert "right" in routers.switch(name, "attach", WATCH * (name == "r1"))
    indexes = [
        tuple(int(routers.ip(name, "-o", "link", "show", each).split(":")[0]) for each in ("left", "right"))
        for name in ROUTERS
    ]
    before = time.time_ns()
    sent = [(version, *each) for version in (4, 6) for each in frames_at_b(routers, version)]
    after_all = time.time_ns()
    for version, payload, frame in sent:
        ip, l4 = (26, 34) if version == 4 else (22, 54)
        assert frame[l4 + 8 + 16 + 3 * 4 * HOP_WORDS :] == payload
        assert (total(frame[ip:]) + 17 + len(frame) - l4) % 0xFFFF == 0
        assert version == 6 or total(frame[14:34]) % 0xFFFF == 0
        (found,) = read_plain(frame_batch([frame]), PACKETS)
        assert [hop.node_id for hop in found.hops] == [1, 2, 3]
        assert [(hop.ingress_port, hop.egress_port) for hop in found.hops] == indexes
        assert all(hop.ingress_time + hop.hop_latency == hop.egress_time for hop in found.hops)
        assert before - CLOCKS_NS < found.hops[0].ingress_time < after_all + CLOCKS_NS
        for hop, after in pairwise(found.hops):
            assert hop.egress_time <= after.ingress_time
    assert routers.counts("r1")["source"] == routers.counts("r3")["transit"] == len(sent)


def test_life_of_the_programs(routers: Routers) -> None:
    """They outlive the command, go on counting when they are replaced, and leave nothing behind; TCP, pings,
    fragments, segments in one buffer, and other datagrams pass as they are.
    """
    routers.switch("r1", "attach", WATCH)
    sent = len(frames_at_b(routers, 4))
    assert routers.counts("r1")["source"] == sent
    routers.switch("r1", "attach")
    sent_later = len(frames_at_b(routers, 4))
    assert (routers.counts("r1")["source"], routers.counts("r1")["unwatched"]) == (sent, sent_later)
    for address in ("10.77.3.2", "fd77:3::2"):
        assert " 0% packet loss" in routers.run("a", "ping", "-c", "3", "-i", "0.05", "-s", "1400", address)
    content = np.random.default_rng(5).bytes(300_000)
    server = routers.socket("b", socket.AF_INET, socket.SOCK_STREAM)
    with server, routers.socket("a", socket.AF_INET, socket.SOCK_STREAM) as client:
        server.bind(("10.77.3.2", PORT))
        server.listen()
        client.connect(("10.77.3.2", PORT))
        taken, _ = server.accept()
        with taken:
            client.sendall(content[:100_000])
            assert taken.recv(100_000, socket.MSG_WAITALL) == content[:100_000]
    routers.switch("r1", "attach", WATCH)
    receiver = routers.socket("b", socket.AF_INET, socket.SOCK_DGRAM)
    with receiver, routers.socket("a", socket.AF_INET, socket.SOCK_DGRAM) as sender:
        receiver.bind(("10.77.3.2", PORT))
        sender.sendto(content[:4000], ("10.77.3.2", PORT))
        assert receiver.recv(5000) == content[:4000]
        sender.setsockopt(socket.IPPROTO_UDP, UDP_SEGMENT, SEGMENT)
        sender.sendto(content[: 4 * SEGMENT], ("10.77.3.2", PORT))
        assert b"".join(receiver.recv(5000) for _ in range(4)) == content[: 4 * SEGMENT]
    one = WatchSettings(port=PORT, sample=3, destination="10.77.3.0/24")
    other = WatchSettings(source="fd77::/32", protocol="any", sample_by="flow")
    for entries in ((one, other), (), (other,)):
        replace_watches(routers.pins / "r1", entries)
        assert read_watches(routers.pins / "r1") == entries
    sent_later += len(frames_at_b(routers, 4))
    counts = routers.counts("r1")
    assert counts["unwatched"] >= sent_later
    assert (counts["fragment"], counts["gso"], counts["source"]) == (3, 1, sent)
    assert routers.switch("r1", "detach") == "detached\n"
    assert routers.switch("r1", "detach") == "nothing was attached\n"
    assert not list(routers.pins.glob("r1*"))


def test_a_tunnel_whose_checksums_are_left_to_a_card(routers: Routers) -> None:
    """The packets of a VXLAN tunnel whose inner checksum is left to a card are watched, but cannot change:
    what goes through the tunnel arrives.
    """
    macs = {"a": "02:00:00:00:00:0a", "b": "02:00:00:00:00:0b"}
    for name, other, host, device, remote in (
        ("a", "b", 1, "right", "10.77.3.2"),
        ("b", "a", 2, "left", "10.77.0.1"),
    ):
        routers.ip(name, "link", "add", "tunnel", "address", macs[name], "type", "vxlan", "id", "5",
                   "dstport", "4789", "remote", remote, "dev", device)  # fmt: skip
        routers.ip(name, "address", "add", f"10.78.0.{host}/24", "dev", "tunnel")
        routers.ip(name, "link", "set", "tunnel", "up")
        routers.ip(name, "neighbour", "add", f"10.78.0.{3 - host}", "lladdr", macs[other], "dev", "tunnel")
    routers.switch("r1", "attach", "[[switch.watch]]\nport = 4789\n")
    receiver = routers.socket("b", socket.AF_INET, socket.SOCK_DGRAM)
    with receiver, routers.socket("a", socket.AF_INET, socket.SOCK_DGRAM) as sender:
        receiver.bind(("10.78.0.2", PORT))
        for size in SIZES[:4]:
            payload = np.random.default_rng(size).bytes(size)
            sender.sendto(payload, ("10.78.0.2", PORT))
            assert receiver.recv(2000) == payload
    assert routers.counts("r1")["refused"] >= len(SIZES[:4])


@pytest.mark.kernel
def test_a_sink_restores_datagrams_and_knows_their_path(made: Callable[..., Routers]) -> None:
    """With `hopscope sink` as the last hop, host b receives what host a sent, and the sink has its path."""
    routers = made(sink=True)
    for name in ROUTERS:
        routers.switch(name, "attach", WATCH * (name == "r1"))
    routers.ip("sink", "link", "set", "lo", "up")
    data = routers.folder / "data"
    words = ("ip", "netns", "exec", routers.full["sink"], sys.executable, "-m", "hopscope", "sink")
    regions = f"regions={routers.folder / 'regions'}"
    more = ["--http-port", "0", "--set", regions, "--set", "detect.flow_rows=64"]
    more += ["--set", "sink.bypass_seconds=30"]  # frames bypass a worker that a busy machine does not run
    program = Program(
        (*words, "--pair", "s0:s1", "--data", str(data), *more),
        routers.folder / "sink.log", {"PYTHONPATH": str(SOURCES)},
    )  # fmt: skip
    receiver = routers.socket("b", socket.AF_INET, socket.SOCK_DGRAM)
    try:
        program.wait_for('"collecting"')
        with receiver, routers.socket("a", socket.AF_INET, socket.SOCK_DGRAM) as sender:
            receiver.bind(("10.77.3.2", PORT))
            for size in SIZES:
                payload = np.random.default_rng(size).bytes(size)
                sender.sendto(payload, ("10.77.3.2", PORT))
                assert receiver.recv(2000) == payload
        api = json.loads((data / "owner.json").read_text())["api"].rstrip("/")

        def flows() -> list[dict[str, Any]]:
            found: list[dict[str, Any]] = answer(routers, f"{api}/api/v0/flows")["items"]
            return [flow for flow in found if flow["packets"] == len(SIZES)]

        eventually(flows, "the sink has not all packets of the flow")
        detail = answer(routers, f"{api}/api/v0/flows/{flows()[0]['flow']['id']}")
        assert [hop["node"]["id"] for hop in detail["path"]] == [1, 2, 3]
    finally:
        program.stop()
        program.kill()


def answer(routers: Routers, url: str, name: str = "sink") -> Any:
    """JSON of a URL, asked from within a namespace."""

    def ask() -> Any:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(url, timeout=HANG_SECONDS) as said:
            return json.load(said)

    return inside(routers.full[name], ask)


@pytest.mark.kernel
@pytest.mark.parametrize("mode", ["md", "mx", "xd"])
def test_a_collector_knows_the_path_to_the_sink(routers: Routers, mode: str) -> None:
    """Datagrams and a TCP connection arrive as they were sent, and `hopscope collect`, which gets the reports
    of router 3 (with postcards, of all routers), has the path of both.
    """
    for name, interface, off in (
        *((name, side, ("gro",)) for name in ROUTERS for side in ("left", "right")),
        ("a", "right", ("tso", "gso")), ("b", "left", ("tso", "gso")),
    ):  # fmt: skip
        routers.run(name, "ethtool", "-K", interface, *(word for each in off for word in (each, "off")))
    watch = f'[[switch.watch]]\nport = {PORT}\nprotocol = "any"\nmode = "{mode}"\n'
    to = {"r1": "10.77.2.2", "r2": "10.77.2.2", "r3": "127.0.0.1"}
    routers.ip("r3", "link", "set", "lo", "up")
    data = routers.folder / "data"
    words = ("ip", "netns", "exec", routers.full["r3"], sys.executable, "-m", "hopscope", "collect")
    regions = f"regions={routers.folder / 'regions'}"
    more = ["--listen", "udp://0.0.0.0:32766", "--http-port", "0", "--data", str(data)]
    more += ["--log-format", "json", "--set", regions, "--set", "detect.flow_rows=64"]
    more += ["--set", "postcards.window_ms=500"]  # a busy machine wakes processes late
    environment = {"PYTHONPATH": str(SOURCES)}
    with ExitStack() as stack:
        programs = [Program((*words, *more), routers.folder / "collect.log", environment)]
        stack.callback(lambda: [each.stop() for each in programs[::-1]])
        programs[0].wait_for('"collecting"')
        for name in ROUTERS:
            watched = watch * (name == "r1" or mode == "xd")
            if mode == "md" and name != "r3":
                routers.switch(name, "attach", watched)
                continue
            text = f'collector = "{to[name]}:32766"\n{watched}' + "# sink" * (name == "r3")
            log = routers.folder / f"{name}.log"
            programs.append(Program(tuple(routers.command(name, "run", text)), log, environment))
            programs[-1].wait_for("reports go to")
        receiver = routers.socket("b", socket.AF_INET, socket.SOCK_DGRAM)
        with receiver, routers.socket("a", socket.AF_INET, socket.SOCK_DGRAM) as sender:
            receiver.bind(("10.77.3.2", PORT))
            for size in SIZES[:4]:
                payload = np.random.default_rng(size).bytes(size)
                sender.sendto(payload, ("10.77.3.2", PORT))
                assert receiver.recv(2000) == payload
        content = np.random.default_rng(5).bytes(100_000)
        server = routers.socket("b", socket.AF_INET, socket.SOCK_STREAM)
        with server, routers.socket("a", socket.AF_INET, socket.SOCK_STREAM) as client:
            server.bind(("10.77.3.2", PORT))
            server.listen()
            client.connect(("10.77.3.2", PORT))
            taken, _ = server.accept()
            with taken:
                client.sendall(content)
                assert taken.recv(len(content), socket.MSG_WAITALL) == content
        api = json.loads((data / "owner.json").read_text())["api"].rstrip("/")

        def paths() -> list[list[int]]:
            flows = answer(routers, f"{api}/api/v0/flows", "r3")["items"]
            found = []
            for flow in flows:
                detail = answer(routers, f"{api}/api/v0/flows/{flow['flow']['id']}", "r3")
                found.append([hop["node"]["id"] for hop in detail["path"]])
            return found

        eventually(lambda: paths() == [[1, 2, 3]] * 2, lambda: f"the paths are {paths()}")
