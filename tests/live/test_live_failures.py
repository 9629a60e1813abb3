"""A sink in a wire whose processes or interfaces fail: frames go on."""

from __future__ import annotations

import json
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from hopscope.detect.counters import INDEX, attach_counters
from support.network.veth import BROADCAST, Namespace
from support.packets import by_hand
from support.packets.xdp_make import built
from support.processes.counter_sums import counters_in
from support.waiting import HANG_SECONDS, eventually

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]
RATE = 250
"""Frames per second: each takes a block of the ring."""
FLOWS = 16
PAIR = ("--pair", "near:out", "--workers", "2")
_PATIENCE = 5.0
"""Seconds without a frame after which what is missing is lost."""


class Wire:
    """A namespace in which a sink forwards from `near` (other end: `far`) to `out` (other end: `beyond`)."""

    def __init__(self, folder: Path, tool: Callable[..., str]) -> None:
        for name in ("ip", "sysctl"):
            tool(name)
        if os.geteuid():
            pytest.skip("network namespaces need root")
        self.folder, self.tool = folder, tool
        self.space = Namespace(f"hopscope-wire-{os.getpid()}")
        self.space.ip("link", "set", "lo", "up")
        self.add("out", "beyond")
        self.process: subprocess.Popen[bytes] | None = None

    def add(self, one: str, other: str) -> None:
        """Make a veth pair."""
        self.space.ip("link", "add", one, "type", "veth", "peer", "name", other)
        for end in (one, other):
            self.space.run("sysctl", "-qw", f"net.ipv6.conf.{end}.disable_ipv6=1")
            self.space.ip("link", "set", end, "up")

    def start(
        self, *words: str, lanes: Sequence[str] = ("near", "--output", "out"), command: str = "sink"
    ) -> None:
        """Start the sink, and wait until it forwards; with API if `words` name its port."""
        page = () if "--http-port" in words else ("--no-serve",)
        source = str(Path(__file__).parents[2] / "src")
        log = self.folder / f"sink-{time.monotonic_ns()}.log"
        with log.open("w") as file:
            self.process = subprocess.Popen(
                ["ip", "netns", "exec", self.space.name, sys.executable, "-m", "hopscope", command, *lanes,
                 "--data", str(self.folder / "data"), *page,
                 "--set", f"regions={self.folder / 'regions'}", "--set", "detect.flow_rows=64",
                 "--set", "history.ring_events=16384", *words],
                stdout=file, stderr=file, stdin=subprocess.DEVNULL, start_new_session=True,
                env={**os.environ, "PYTHONPATH": os.pathsep.join([source, os.environ.get("PYTHONPATH", "")])},
            )  # fmt: skip
        self.log = log
        eventually(lambda: '"collecting"' in log.read_text() or self.process.poll() is not None)  # type: ignore[union-attr]
        assert self.process.poll() is None, log.read_text()
        owner = json.loads((self.folder / "data" / "owner.json").read_text())
        self.url, self.pid = (owner["api"] or "").rstrip("/"), owner["pid"]

    def get(self, path: str) -> tuple[int, Any]:
        """Status and JSON of a path of its API."""

        def ask() -> tuple[int, Any]:
            opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
            try:
                with opener.open(self.url + path, timeout=300) as answer:
                    return answer.status, json.load(answer)
            except urllib.error.HTTPError as error:
                return error.code, json.load(error)

        return self.space.inside(ask)

    def members(self) -> dict[str, dict[str, Any]]:
        """Processes of the sink by name, as its control socket reports them."""
        with socket.socket(socket.AF_UNIX) as control:
            control.connect(str(self.folder / "data" / "control.sock"))
            control.sendall(b'{"status": true}\n')
            answer = json.loads(control.makefile().readline())
        return {member["name"]: member for member in answer["processes"]}

    def warm_standby(self) -> bool:
        """Whether a standby waits."""
        found = self.members().get("standby")
        return bool(found and found["warm"])

    def kill_all(self) -> None:
        """SIGKILL for the supervisor and all of its processes."""
        assert self.process is not None
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(HANG_SECONDS)

    def stop(self) -> None:
        """End the sink gracefully."""
        assert self.process is not None
        os.kill(self.pid, signal.SIGTERM)
        assert self.process.wait(HANG_SECONDS) == 0, self.log.read_text()

    def close(self) -> None:
        """Take all of it away."""
        if self.process is not None:
            with suppress(ProcessLookupError):
                self.kill_all()
        self.space.remove()


class Traffic:
    """Numbered packets of FLOWS flows into one end, and those that come out at the other."""

    def __init__(
        self, wire: Wire, into: str = "far", out: str = "beyond", of: Callable[[int], bytes] | None = None
    ) -> None:
        self._sender, self._receiver = wire.space.raw(into), wire.space.raw(out, 0x0800)
        self._receiver.settimeout(0.2)
        self._frame = of or packet
        self.sent = 0
        self.got: list[int] = []
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=work) for work in (self._send, self._receive)]

    def __enter__(self) -> Traffic:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()
        self._sender.close()
        self._receiver.close()

    def _send(self) -> None:
        while not self._stop.is_set():
            with suppress(OSError):  # the interface is gone
                self._sender.send(self._frame(self.sent))
            self.sent += 1
            time.sleep(1 / RATE)

    def _receive(self) -> None:
        """Until all frames are there, or none has come for a while since the last was sent."""
        last = time.monotonic()
        while not self._stop.is_set() or (len(self.got) < self.sent and time.monotonic() < last + _PATIENCE):
            with suppress(TimeoutError, OSError):
                self.got.append(int.from_bytes(self._receiver.recv(2000)[34:38], "big"))
                last = time.monotonic()

    def flows(self, frames: int = 100) -> bool:
        """Wait until more frames arrive."""
        before = len(self.got)
        return bool(eventually(lambda: len(self.got) >= before + frames))


def packet(number: int) -> bytes:
    """A frame with an IPv4 packet of a protocol that nothing takes; its source address names its flow."""
    header = struct.pack(">BxHHHBBH4B4B", 0x45, 84, 0, 0, 64, 253, 0, 10, 0, 0, number % FLOWS, 10, 0, 1, 1)
    return BROADCAST[:12] + b"\x08\x00" + header + number.to_bytes(4, "big") + bytes(60)


def plain(number: int) -> bytes:
    """The same as an ICMP message, which a program forwards."""
    return packet(number)[:23] + b"\x01" + packet(number)[24:]


@pytest.fixture
def wire(tool: Callable[..., str], tmp_path: Path) -> Iterator[Wire]:
    made = Wire(tmp_path, tool)
    yield made
    made.close()


def test_a_killed_worker_loses_no_frame(wire: Wire) -> None:
    """The standby takes over while frames wait in the ring; at most those that the worker held, which it took
    at once, are gone. Without a bypass, which would pass them earlier if the machine is busy.
    """
    wire.start("--set", "sink.bypass=false")
    eventually(wire.warm_standby)
    with Traffic(wire) as traffic:
        traffic.flows()
        before = wire.members()["worker-0"]["pid"]
        os.kill(before, signal.SIGKILL)
        traffic.flows(300)
        eventually(lambda: wire.members()["worker-0"]["pid"] not in (None, before))
        assert wire.members()["worker-0"]["restarts"] == 1
    lost = sorted(set(range(traffic.sent)) - set(traffic.got))
    assert not lost or lost[-1] - lost[0] + 1 == len(lost), lost
    assert len(lost) <= 32, "on a busy machine several wait when it takes some"
    assert len(traffic.got) == len(set(traffic.got))
    assert traffic.got == sorted(traffic.got)


SLOW_LOAD = """
import os
import time
from hopscope.bpf import wire_program

load = wire_program.WireProgram.__init__

def load_later(*values, **more):
    while os.path.exists(os.environ["HOLD"]):
        time.sleep(0.01)
    load(*values, **more)

wire_program.WireProgram.__init__ = load_later
"""
"""A module that Python imports at its start: no program is loaded while a file is there."""


def test_no_frame_waits_for_a_program(wire: Wire, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that takes over forwards while the kernel checks its XDP programs, which forward then."""
    built(wire.tool)
    hold, modules = tmp_path / "hold", tmp_path / "modules"
    modules.mkdir()
    (modules / "sitecustomize.py").write_text(SLOW_LOAD)
    monkeypatch.setenv("PYTHONPATH", str(modules))
    monkeypatch.setenv("HOLD", str(hold))
    wire.start("--forwarding", "xdp", "--set", "sink.bypass=false", lanes=PAIR[:2])
    eventually(wire.warm_standby)

    def forwarded() -> int:
        return counters_in(wire.folder / "data" / "regions")["xdp_forwarded_frames_total.unchanged"]

    with Traffic(wire, of=plain) as traffic:
        eventually(lambda: forwarded() > 0)
        hold.touch()
        os.kill(wire.members()["worker-0"]["pid"], signal.SIGKILL)
        traffic.flows(300)
        before = forwarded()
        traffic.flows()
        assert forwarded() == before
        hold.unlink()
        eventually(lambda: forwarded() > before)


def test_upgrades_lose_no_frame(wire: Wire) -> None:
    """Sinks take over one after the other, of two workers in both directions: every frame passes once, in the
    order of its flow, and counters go on.  A sink with other interfaces may not.
    """
    words = ("--take-over", "--set", "sink.bypass_seconds=60")
    wire.start(*words, lanes=PAIR)
    with Traffic(wire) as there, Traffic(wire, "beyond", "far") as back:
        for _ in range(2):
            there.flows()
            before = wire.process
            wire.start(*words, lanes=PAIR)
            assert before is not None
            assert before.wait(HANG_SECONDS) == 0
        there.flows()
        back.flows()
    for traffic in (there, back):
        assert sorted(traffic.got) == list(range(traffic.sent))
        for flow in range(FLOWS):
            numbers = [number for number in traffic.got if number % FLOWS == flow]
            assert numbers == sorted(numbers)
    running = wire.process
    with pytest.raises(AssertionError, match="the running sink has other interfaces, workers or rings"):
        wire.start(*words)
    wire.process = running
    counted = counters_in(wire.folder / "data" / "regions")
    assert counted["forwarded_frames_total"] == there.sent + back.sent
    assert counted["bypassed_frames_total"] == counted["abandoned_frames_total"] == 0


def test_two_workers_in_both_directions(wire: Wire) -> None:
    """A worker that is killed is replaced, frames bypass one that hangs, and both workers receive at an
    interface that comes back, in both directions: frames are lost or doubled only at these moments.
    """
    wire.start("--http-port", "0", "--set", "sink.bypass_seconds=3", lanes=PAIR)
    eventually(wire.warm_standby)
    with Traffic(wire) as there, Traffic(wire, "beyond", "far") as back:
        there.flows()
        killed = wire.members()["worker-1"]["pid"]
        os.kill(killed, signal.SIGKILL)
        there.flows(300)
        eventually(lambda: wire.members()["worker-1"]["pid"] not in (None, killed))
        hung = wire.members()["worker-0"]["pid"]
        os.kill(hung, signal.SIGSTOP)
        there.flows(300)
        os.kill(hung, signal.SIGCONT)
        for traffic in (there, back):
            traffic.flows(300)
    for traffic in (there, back):
        assert_passed(traffic, lost=6, in_order=False)
    wire.space.ip("link", "del", "near")
    eventually(lambda: not interfaces(wire)["near"])
    wire.add("near", "far")
    eventually(lambda: all(interfaces(wire).values()))
    with Traffic(wire) as there, Traffic(wire, "beyond", "far") as back:
        for traffic in (there, back):
            traffic.flows(2 * FLOWS)
    for traffic in (there, back):
        assert {number % FLOWS for number in traffic.got} == set(range(FLOWS))  # of both workers


def report(number: int) -> bytes:
    """A frame with a report of one of FLOWS sources to port 5000."""
    payload = by_hand.report_1_0(by_hand.ethernet(by_hand.ipv4(by_hand.udp(bytes(8)))))
    ip = struct.pack(
        ">BxHHHBBH4B4B", 0x45, 28 + len(payload), 0, 0, 64, 17, 0, 10, 0, 0, number % FLOWS, 10, 0, 1, 1
    )
    return BROADCAST[:12] + b"\x08\x00" + ip + struct.pack(">4H", 7, 5000, 8 + len(payload), 0) + payload


def test_listeners_of_an_interface_come_back(wire: Wire) -> None:
    """Both workers of a mirror port, and both of a ring of reports, receive again at an interface that was
    deleted and made again.
    """
    words = ("--listen", "mirror://near?workers=2", "--listen", "ring://near?port=5000&workers=2")
    wire.start(*words, "--http-port", "0", command="collect", lanes=())

    def counted(key: str) -> list[int]:
        regions = wire.folder / "data" / "regions"
        files = [regions / f"worker-{i}.counters" for i in range(2)]
        return [int(attach_counters(file)[INDEX[key]]) for file in files]

    def more(key: str, before: list[int]) -> bool:
        return all(a > b for a, b in zip(counted(key), before, strict=True))

    for _ in range(2):
        frames, reports = counted("frames_total"), counted("reports_total")
        with Traffic(wire) as traffic:
            eventually(lambda frames=frames: more("frames_total", frames))  # type: ignore[misc]
        with Traffic(wire, of=report):
            eventually(lambda reports=reports: more("reports_total", reports))  # type: ignore[misc]
        assert not traffic.got
        wire.space.ip("link", "del", "near")
        eventually(lambda: not interfaces(wire)["near"])
        wire.add("near", "far")
        eventually(lambda: all(interfaces(wire).values()))


def interfaces(wire: Wire) -> dict[str, bool]:
    """Interfaces that /readyz names, and whether they are ready; not ready as a whole if one is not."""
    status, answer = wire.get("/readyz")
    found = {
        part["name"].removeprefix("interface "): part["ready"]
        for part in answer["components"]
        if part["name"].startswith("interface ")
    }
    assert all(found.values()) or status == 503
    return found


def test_interfaces_that_go_and_come_back(wire: Wire) -> None:
    """Input and output are deleted and made again: meanwhile /readyz names them, then traffic flows again."""
    wire.start("--http-port", "0")
    assert interfaces(wire) == {"near": True, "out": True}
    for near, far in (("near", "far"), ("out", "beyond")):
        with Traffic(wire) as traffic:
            traffic.flows()
            wire.space.ip("link", "del", near)
            eventually(lambda near=near: not interfaces(wire)[near])  # type: ignore[misc]
        wire.add(near, far)
        eventually(lambda: all(interfaces(wire).values()))
        with Traffic(wire) as traffic:
            traffic.flows()  # the worker has the new socket
        with Traffic(wire) as traffic:
            traffic.flows()
            eventually(lambda: traffic.sent > 400)
        assert len(traffic.got) >= traffic.sent - 1
    counted = {counter["name"]: counter["value"] for counter in wire.get("/api/v0/summary")[1]["counters"]}
    assert counted["hopscope_interface_returns_total"] == 1  # of an input
    assert counted["hopscope_interface_gap_seconds_total"] > 0
    assert wire.members()["worker-0"]["restarts"] == 0


def test_frames_bypass_a_sink_that_does_not_run(wire: Wire) -> None:
    """Stopped, started again, hung, and killed with all its processes: the kernel passes frames on, in order
    and once. Only what waited in the ring of a killed sink is gone: half a second.
    """
    wire.start()
    with Traffic(wire) as traffic:
        traffic.flows()
        wire.stop()
        traffic.flows()
        wire.start("--http-port", "0")
        traffic.flows()
        counted = {
            counter["name"]: counter["value"] for counter in wire.get("/api/v0/summary")[1]["counters"]
        }
        assert counted["hopscope_forwarded_frames_total"] > 0
    assert_passed(traffic, lost=4)
    with Traffic(wire) as traffic:
        traffic.flows()
        hung = wire.members()["worker-0"]["pid"]
        os.kill(hung, signal.SIGSTOP)
        traffic.flows(300)
        os.kill(hung, signal.SIGCONT)
        traffic.flows()
    assert_passed(traffic, lost=2, in_order=False)  # what waited in the ring comes later
    with Traffic(wire) as traffic:
        traffic.flows()
        wire.kill_all()
        traffic.flows(300)
    assert_passed(traffic, lost=RATE)


def test_without_a_bypass_the_wire_is_cut(wire: Wire) -> None:
    """A start with `sink.bypass = false` takes that of an earlier one away."""
    wire.start()
    wire.stop()
    with Traffic(wire) as traffic:
        traffic.flows()
    wire.start("--set", "sink.bypass=false")
    wire.stop()
    with Traffic(wire) as traffic:
        eventually(lambda: traffic.sent > 100)
    assert not traffic.got


def assert_passed(traffic: Traffic, lost: int, *, in_order: bool = True) -> None:
    """All but some frames came out, each once."""
    missing = set(range(traffic.sent)) - set(traffic.got)
    assert len(missing) <= lost, sorted(missing)
    assert len(traffic.got) - len(set(traffic.got)) <= 2
    if in_order:
        assert sum(a > b for a, b in pairwise(traffic.got)) <= 2
