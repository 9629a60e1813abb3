"""The page Sink in a real browser, which is in the namespace of a sink between two interfaces."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Raw

from hopscope.wire.records import Carrier, Hop
from oracle.insert import Form, insert_int
from support.network.veth import Namespace, taken
from support.packets.wire_make import PACKETS
from support.processes.browser import PROGRAMS, Browser, Chromium
from support.servers.server_process import NO_TLS
from support.waiting import HANG_SECONDS, eventually

pytestmark = [pytest.mark.e2e, pytest.mark.kernel, pytest.mark.timeout(600)]
PLAIN, WITH_INT, DAMAGED, UNKNOWN = 50, 100, 7, 3
ALL = PLAIN + WITH_INT + DAMAGED + UNKNOWN
SHIM = 14 + 20 + 8
"""Bytes before it: Ethernet, IPv4, UDP."""


@dataclass
class Sink:
    """A page in the namespace of a sink that has forwarded ALL frames."""

    url: str
    page: Browser
    out: list[bytes]
    """Frames that came out of it."""


def packet(port: int) -> bytes:
    """An ordinary packet."""
    made = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02") / IP(src="10.0.0.1", dst="10.0.0.2")
    return bytes(made / UDP(sport=port, dport=2000) / Raw(bytes(range(100))))


def with_int(port: int) -> bytes:
    """The same over three switches, which take 1, 2 and 3 us."""
    hops = [Hop(node_id=node, hop_latency=1000 * node) for node in (1, 2, 3)]
    return insert_int(packet(port), hops, 0xA000, Form(Carrier.UDP, 0), dialect=PACKETS)


def damaged(port: int) -> bytes:
    """The same; its shim says that the INT is longer than the packet."""
    frame = bytearray(with_int(port))
    frame[SHIM + 1] = 60
    return bytes(frame)


def unknown(port: int) -> bytes:
    """The same; its version of INT does not exist."""
    frame = bytearray(with_int(port))
    frame[SHIM + 4] |= 0xF0
    return bytes(frame)


ODD = [damaged(1002)] * DAMAGED + [unknown(1003)] * UNKNOWN
SENT = [packet(1000)] * PLAIN + [with_int(1001)] * WITH_INT + ODD


@pytest.fixture(scope="module")
def sink(tool: Callable[..., str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sink]:
    """It has forwarded packets with INT and without."""
    if os.geteuid() != 0:
        pytest.skip("a sink and a network namespace need root")
    program = tool(*PROGRAMS)
    try:
        namespace = Namespace(f"hopscope-pages-{os.getpid()}")
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no network namespace with a veth pair here: {error}")
    folder = tmp_path_factory.mktemp("sink")
    namespace.ip("link", "set", "lo", "up")
    namespace.ip("link", "add", "out", "type", "veth", "peer", "name", "beyond")
    for end in ("out", "beyond"):
        namespace.run("sysctl", "-qw", f"net.ipv6.conf.{end}.disable_ipv6=1")
        namespace.ip("link", "set", end, "up")
    words = ["ip", "netns", "exec", namespace.name, sys.executable, "-m", "hopscope", "sink", "near", "-o"]
    words += ["out", "--data", str(folder / "data"), "--http-port", "0"]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(words, stdout=log, stderr=log)
    try:
        url = _address(namespace, process, folder)
        chromium = namespace.inside(lambda: Chromium(program, folder / "browser"))
        with chromium:
            context = chromium.page()
            page = namespace.inside(context.__enter__)
            yield Sink(url, page, _forwarded(namespace))
            context.__exit__(None, None, None)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(HANG_SECONDS)
        namespace.remove()


def _address(namespace: Namespace, process: subprocess.Popen[bytes], folder: Path) -> str:
    """Of the sink's console, once it is ready."""
    eventually(lambda: '"collecting"' in (folder / "log").read_text() or process.poll() is not None)
    assert process.poll() is None, (folder / "log").read_text()
    url: str = json.loads((folder / "data/owner.json").read_text())["api"]

    def ready() -> bool:
        try:
            return httpx.get(f"{url}readyz", trust_env=False, verify=NO_TLS).status_code == 200
        except httpx.HTTPError:
            return False

    eventually(lambda: namespace.inside(ready), "the sink is not ready", 0.1)
    return url


def _forwarded(namespace: Namespace) -> list[bytes]:
    with namespace.raw("beyond", 3) as beyond, namespace.raw("far") as far:
        for frame in SENT:
            far.send(frame)
        return taken(beyond, len(SENT))


def figure(sink: Sink, title: str, text: str) -> None:
    """Wait until a figure says this."""
    sink.page.wait(
        "[...document.querySelectorAll('.figure')]"
        f".some((e) => e.innerText.startsWith({title!r}) && e.innerText.includes({text!r}))"
    )


def test_the_page_counts_what_went_through(sink: Sink) -> None:
    """Frames, packets whose telemetry was removed or is damaged and why, and interfaces: as the test
    has sent them, and as they came out. The flow with INT is under Flows, with the path that was in it; no
    latency is said to be stored before one was.
    """
    assert sorted(sink.out) == sorted([packet(1000)] * PLAIN + [packet(1001)] * WITH_INT + ODD)
    page = sink.page
    page.open(sink.url)
    page.click(".rail a", "Sink")
    for title, text in (
        ("Frames in", f"{ALL} total"),
        ("Forwarded", f"{ALL} total"),
        ("Telemetry removed", f"{WITH_INT} packets total"),
        ("Telemetry damaged", f"\n{DAMAGED}\n"),
        ("Not forwarded", "\n0\n"),
        ("Missed", "\n0\n"),
    ):
        figure(sink, title, text)
    figure(sink, "Telemetry damaged", f"{UNKNOWN} more of unknown form")
    assert {row[0].partition(" ")[0]: row[1] for row in page.rows("Telemetry not removed")} == {
        "unstripped": str(DAMAGED), "bad": str(DAMAGED), "unknown": str(UNKNOWN),
    }  # fmt: skip

    def passed() -> list[str]:
        return [row[1] for row in page.rows("In the kernel") if row[0].startswith("INT ")]

    eventually(lambda: passed() == [str(DAMAGED + UNKNOWN)], lambda: f"{page.rows('In the kernel')}")
    page.wait(f"document.querySelector('[aria-label=Interfaces] tbody').innerText.includes('{ALL}')")
    rows = {row[0]: row for row in page.rows("Interfaces")}
    assert rows["near"][1:3] == ["receives", "up"]
    assert rows["out"][1:3] == ["sends", "up"]
    assert rows["near"][3].partition(",")[0] == rows["out"][6].partition(",")[0] == str(ALL)
    page.click(".rail a", "Flows")
    page.click(".table a", "10.0.0.1:1001")
    page.see("[aria-label=Hops] td", "3.00 µs")
    assert [row[1:4] for row in page.rows("Hops")] == [
        ["1", "1.00 µs", "–"], ["2", "2.00 µs", "–"], ["3", "3.00 µs", "–"],
    ]  # fmt: skip
    assert page.rows("Hops")[0][5] == "1.00 µs to 1.00 µs"
    assert not page.problems


def test_a_phone_shows_all_of_the_sink(sink: Sink) -> None:
    """The page is no wider than a phone, and the rail shows where one is."""
    sink.page.size(390, 844, phone=True)
    sink.page.open(f"{sink.url}sink")
    figure(sink, "Frames in", f"{ALL} total")
    wide = "Math.max(...[...document.querySelectorAll('.reasons table')].map((e) => e.scrollWidth))"
    assert sink.page.run("document.documentElement.scrollWidth") <= 390
    assert 0 < sink.page.run(wide) <= 390
    right = "document.querySelector('.rail [aria-current]').getBoundingClientRect().right"
    assert sink.page.run(right) <= 390
