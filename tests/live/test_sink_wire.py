"""`hopscope sink` in a wire between two veth pairs: every packet is accounted for, by what arrives there."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import sys
import threading
import urllib.request
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Raw

from hopscope.wire.records import Carrier, Hop
from oracle.ifa import IfaForm, insert_ifa
from oracle.insert import Form, insert_int
from support.network.namespaces import Program
from support.network.veth import Namespace
from support.packets.ioam_cases import NEW, OLD, extension, insert, trace
from support.packets.packet_cases import Packet
from support.packets.wire_make import PACKETS
from support.packets.xdp_make import built
from support.processes.counter_sums import counters_in
from support.waiting import HANG_SECONDS, eventually

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]
_ALL_PROTOCOLS, _SO_RCVBUFFORCE = 3, 33
PLAIN = [
    bytes(
        Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")
        / IP(src=f"10.0.0.{flow}", dst="10.0.1.1")
        / UDP(sport=1000 + flow, dport=2000)
        / Raw(bytes(100))
    )
    for flow in range(1, 41)
]
WITH_INT = [
    insert_int(frame, [Hop(node_id=1)] * 3, 0x8000, Form(Carrier.UDP, 0), dialect=PACKETS) for frame in PLAIN
]


@pytest.fixture
def wire(tool: Callable[..., str], namespace: Namespace) -> Namespace:
    """`far` to `near`, and `out` to `beyond`: a sink belongs between `near` and `out`."""
    built(tool)
    namespace.pair("out", "beyond")
    namespace.ip("link", "set", "lo", "up")
    return namespace


class Sink(Program):
    """The command in a namespace, with small tables."""

    def __init__(self, wire: Namespace, data: Path, *options: str, before: Path | None = None) -> None:
        """`before`: a folder where Python looks for modules first."""
        page = () if "--http-port" in options else ("--no-serve",)
        words = (
            "ip", "netns", "exec", wire.name, sys.executable, "-m", "hopscope", "sink", *options, *page,
            "--data", str(data), "--set", "detect.flow_rows=64",
            "--set", f"regions={data}-regions", "--set", "history.ring_events=16384",
        )  # fmt: skip
        self._regions = data / "regions"
        super().__init__(
            words, data.with_suffix(".log"), {"PYTHONPATH": os.pathsep.join([str(before or ""), *sys.path])}
        )

    def counted(self, name: str) -> int:
        """A counter, for all values of its labels."""
        found = counters_in(self._regions)
        return sum(count for key, count in found.items() if key.partition(".")[0] == name)

    def summary(self) -> dict[str, list[int]]:
        """Numbers in the lines of the summary, by the first word."""
        assert self.stop(signal.SIGINT) == 0, self.said()
        lines = [line for line in self.said().splitlines() if line and not line.startswith("{")]
        return {
            line.split()[0]: [int(text.replace(",", "")) for text in re.findall(r"\d[\d,]*", line)]
            for line in lines
        }


class Traffic:
    """Packets with INT, sent at `far` one after the other until `stop`; what arrives at `beyond`."""

    def __init__(self, wire: Namespace) -> None:
        self._sender, self._socket = wire.raw(), wire.raw("beyond", _ALL_PROTOCOLS)
        self._socket.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, 1 << 26)
        self._socket.settimeout(0.05)
        self._stopped, self._ended = threading.Event(), threading.Event()
        self.sent, self.frames = 0, WITH_INT
        self.arrived: list[bytes] = []
        self._sending, self._taking = (
            threading.Thread(target=work, daemon=True) for work in (self._send, self._take)
        )
        self._sending.start()
        self._taking.start()

    def _send(self) -> None:
        while not self._stopped.wait(0.0003):
            self._sender.send(self.frames[self.sent % len(self.frames)])
            self.sent += 1

    def _take(self) -> None:
        while True:
            try:
                self.arrived.append(self._socket.recv(70_000))
            except OSError:  # nothing came, or the interface is down
                if self._ended.is_set():
                    return

    def count(self, kind: Sequence[bytes]) -> int:
        """How many of these have arrived."""
        return sum(frame in kind for frame in list(self.arrived))

    def stop(self) -> None:
        """Send no more."""
        self._stopped.set()
        self._sending.join(HANG_SECONDS)

    def end(self) -> None:
        """Send no more, and take what has arrived."""
        self.stop()
        self._ended.set()
        self._taking.join(HANG_SECONDS)

    def close(self) -> None:
        """End, and close the sockets."""
        self.end()
        self._sender.close()
        self._socket.close()


SLOW_START = """
import time
from hopscope.runtime.pipeline.mode import Sink

opened = Sink.forwarder

def open_later(*values, **more):
    time.sleep(2)
    return opened(*values, **more)

Sink.forwarder = open_later
"""
"""A module that Python imports at its start: workers take longer to be ready than the page."""


def answers(url: str) -> bool:
    """Whether an URL answers with status 200."""
    try:
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url, timeout=10):
            return True
    except OSError:
        return False


@pytest.mark.parametrize("form", ["readyz", "log"])
def test_a_sink_that_is_ready_strips_every_packet(wire: Namespace, tmp_path: Path, form: str) -> None:
    """With two workers from a file, once /readyz answers 200, or the log says `collecting`: none that is sent
    later arrives with its INT.
    """
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(SLOW_START)
    (tmp_path / "sink.toml").write_text(
        "sink.bypass_seconds = 60\n"  # however busy this machine is, a worker that forwards is not bypassed
        + "".join(
            f"[[listen]]\nkind = 'mirror'\ninterface = '{name}'\noutput = '{to}'\nworkers = 2\n"
            for name, to in (("near", "out"), ("out", "near"))
        )
    )
    words = ["--config", str(tmp_path / "sink.toml")] + ["--http-port", "0"] * (form == "readyz")
    with closing(Traffic(wire)) as traffic:
        traffic.frames = WITH_INT[:20]
        sink = Sink(wire, tmp_path / "data", *words, before=tmp_path / "site")
        try:
            if form == "readyz":
                owner = tmp_path / "data" / "owner.json"
                eventually(owner.exists)
                url = json.loads(owner.read_text())["api"].rstrip("/")
                eventually(lambda: wire.inside(lambda: answers(f"{url}/readyz")))
            else:
                sink.wait_for('"collecting"')
            traffic.frames = WITH_INT[20:]
            eventually(lambda: traffic.count(PLAIN[20:]) > 500)
            traffic.stop()
            sink.summary()
            traffic.end()
        finally:
            sink.kill()
    assert traffic.count(WITH_INT[20:]) == 0


def test_one_sink_forwards(wire: Namespace, tmp_path: Path) -> None:
    """A second sink in the same wire does not start and names the first, in another folder and mount
    namespace (`ip netns exec` makes one), whichever direction they share; once the first was killed, it
    starts.
    """
    first = Sink(wire, tmp_path / "first", "--pair", "near:out")
    try:
        first.wait_for('"collecting"')
        for number, options in enumerate((("--pair", "near:out"), ("out", "-o", "near"))):
            second = Sink(wire, tmp_path / f"second-{number}", *options)
            assert second.process.wait(HANG_SECONDS) == 2
            assert f"another sink (process {first.process.pid}) forwards its frames" in second.said()
    finally:
        first.kill()
    third = Sink(wire, tmp_path / "third", "--pair", "near:out")
    try:
        third.wait_for('"collecting"')
    finally:
        third.kill()


@pytest.mark.parametrize("options", [(), ("--forwarding", "ring"), ("--workers", "2")])
def test_the_summary_adds_up(wire: Namespace, tmp_path: Path, options: tuple[str, ...]) -> None:
    """Frames that came while the sink started, that went on, and that found the output down are all frames;
    as many are stripped as arrive without INT, or were in the output's hands when it went down.
    """
    with closing(Traffic(wire)) as traffic:
        sink = Sink(wire, tmp_path / "data", "--pair", "near:out", *options)
        try:
            sink.wait_for('"collecting"')
            eventually(lambda: options or sink.counted("xdp_forwarded_frames_total"))
            eventually(lambda: traffic.count(PLAIN) > 200)
            wire.ip("link", "set", "beyond", "down")
            sent, arrived = traffic.sent, traffic.count(PLAIN)
            eventually(lambda: traffic.sent > sent + 200 and sink.counted("forward_drops_total"))
            wire.ip("link", "set", "beyond", "up")
            eventually(lambda: traffic.count(PLAIN) > arrived + 1000)
            traffic.stop()
            summary = sink.summary()
            traffic.end()
        finally:
            sink.kill()
    forwarded, stripped, *in_kernel = summary["forwarded"]
    (out,) = json.loads(wire.ip("-s", "-j", "link", "show", "out"))
    refused = out["stats64"]["tx"]["dropped"]  # by the output, at the moment when it went down
    assert stripped == forwarded
    assert forwarded - refused <= traffic.count(PLAIN) <= forwarded
    assert summary["received"][2] == forwarded + summary["bypassed"][0] + summary["dropped"][0]
    assert in_kernel or options


@pytest.mark.parametrize("options", [(), ("--forwarding", "ring"), ("--no-strip",)])
def test_ifa_and_ioam_in_a_wire(wire: Namespace, tmp_path: Path, options: tuple[str, ...]) -> None:
    """The workers remove IFA and IOAM, while the program forwards INT and plain frames; damaged IFA stays,
    and is counted.
    """
    packets = [
        Packet(version, protocol, bytes([version, protocol, tags]) * 20, tags=tags)
        for version in (4, 6) for protocol in (6, 17) for tags in (0, 1)
    ]  # fmt: skip
    frames, restored = [PLAIN[0], WITH_INT[1]], [PLAIN[0], PLAIN[1]]
    for packet in packets:
        plain = packet.frame()
        frames.append(insert_ifa(plain, IfaForm(), 14 + 4 * packet.tags))
        restored.append(plain)
    with_ioam = Packet(6, 6, b"IOAM").frame()
    frames.append(insert(with_ioam, extension(trace([NEW, OLD], 0xF00000, 4, free=4))))
    restored.append(with_ioam)
    damaged = frames[2][:34] + b"\x2e" + frames[2][35:]
    # a packet socket gets frames without their tag
    expected = [
        frame[:12] + frame[16:] if frame[12:14] == b"\x81\x00" else frame
        for frame in (frames if "--no-strip" in options else restored)
    ]
    with closing(Traffic(wire)) as traffic:
        traffic.frames = [PLAIN[0]]
        sink = Sink(wire, tmp_path / "data", "--pair", "near:out", *options)
        try:
            sink.wait_for('"collecting"')
            eventually(lambda: "ring" in options or sink.counted("xdp_forwarded_frames_total"))
            traffic.frames = [*frames, damaged]
            eventually(lambda: all(traffic.count([frame]) > 20 for frame in [*expected, damaged]))
            eventually(lambda: sink.counted("unstripped_packets_total") > 20 or "--no-strip" in options)
            traffic.stop()
            summary = sink.summary()
            traffic.end()
        finally:
            sink.kill()
    assert traffic.count([*expected, damaged]) == len(traffic.arrived)
    telemetry = traffic.count(expected[1:])
    assert summary["forwarded"][1] == (0 if "--no-strip" in options else telemetry)
