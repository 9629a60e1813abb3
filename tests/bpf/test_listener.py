"""Reports that an XDP program takes off a veth pair in a network namespace of the test's own."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator

import pytest
from scapy.layers.inet import IP, UDP, IPOption
from scapy.layers.inet6 import IPv6, IPv6ExtHdrDestOpt
from scapy.layers.l2 import Dot1AD, Dot1Q, Ether

from hopscope.bpf.listener import XdpListener
from hopscope.capture.errors import CaptureError
from hopscope.settings.listen import ListenSettings
from support.network.veth import Namespace
from support.packets.xdp_make import built
from support.waiting import HANG_SECONDS

pytestmark = pytest.mark.kernel
ETHERNET = Ether(dst="ff:ff:ff:ff:ff:ff")
REPORT = UDP(sport=7, dport=32766) / b"report"


@pytest.fixture
def namespace(tool: Callable[..., str]) -> Iterator[Namespace]:
    """A namespace with a veth pair."""
    built(tool)
    made = Namespace(f"hopscope-xdp-{os.getpid()}")
    try:
        yield made
    finally:
        made.remove()


@pytest.fixture
def listener(namespace: Namespace) -> Iterator[XdpListener]:
    """What listens at the near end, without a filter."""
    made = XdpListener(ListenSettings(kind="xdp", interface="near"))
    namespace.inside(made.open)
    yield made
    made.close()


def received(listener: XdpListener, count: int) -> list[tuple[bytes, int, int]]:
    """(payload, source, source port) of the next datagrams."""
    found: list[tuple[bytes, int, int]] = []
    until = time.monotonic() + HANG_SECONDS
    while len(found) < count and time.monotonic() < until:
        batch = listener.receive()
        for frame in batch.frames if batch is not None else ():
            start = int(frame["offset"])
            payload = batch.arena[start : start + int(frame["length"])].tobytes() if batch else b""
            source = int(frame["source_hi"]) << 64 | int(frame["source_lo"])
            found.append((payload, source, int(frame["source_port"])))
        time.sleep(0.01)
    return found


def test_headers_around_reports(namespace: Namespace, listener: XdpListener) -> None:
    """VLAN tags, options and extension headers are read; the payload comes with its source."""
    four, six = IP(src="192.0.2.1", dst="192.0.2.2"), IPv6(src="2001:db8::1", dst="2001:db8::2")
    frames = [
        ETHERNET / four / REPORT,
        ETHERNET / Dot1Q(vlan=5) / four / REPORT,
        ETHERNET / Dot1AD(vlan=5) / Dot1Q(vlan=6) / six / REPORT,
        ETHERNET / IP(src="192.0.2.1", dst="192.0.2.2", options=[IPOption(b"\x94\x04\x00\x00")]) / REPORT,
        ETHERNET / six / IPv6ExtHdrDestOpt() / REPORT,
    ]
    with namespace.raw() as far:
        for frame in frames:
            far.send(bytes(frame))
        found = received(listener, len(frames))
    mapped, wide = 0xFFFFC0000201, 0x20010DB8 << 96 | 1
    assert [source for _, source, _ in found] == [mapped, mapped, wide, mapped, wide]
    assert {(payload, port) for payload, _, port in found} == {(b"report", 7)}


def test_everything_else_passes(namespace: Namespace, listener: XdpListener) -> None:
    """Other ports, other protocols, fragments and contradictory lengths reach the network stack."""
    four = IP(src="192.0.2.1", dst="192.0.2.2")
    passing = [
        ETHERNET / four / UDP(dport=32767) / b"another port",
        ETHERNET / IP(src="192.0.2.1", dst="192.0.2.2", proto=17, frag=100) / b"a fragment of something",
        ETHERNET / four / UDP(dport=32766, len=200) / b"too long a length",
        Ether(dst="ff:ff:ff:ff:ff:ff", type=0x88CC) / b"not IP at all",
    ]
    with namespace.raw() as far, namespace.raw("near", 3) as near:
        for frame in passing:
            far.send(bytes(frame))
        far.send(bytes(ETHERNET / four / REPORT))
        far.send(bytes(passing[0]))
        got = [near.recv(2000) for _ in range(len(passing) + 1)]
    assert got == [bytes(frame) for frame in (*passing, passing[0])]
    assert [payload for payload, _, _ in received(listener, 1)] == [b"report"]
    counts = listener.counts()
    assert (counts["xdp_unfiltered"], counts["xdp_fragment"], counts["xdp_bad_length"]) == (1, 1, 1)


def test_interface_that_returns(namespace: Namespace, listener: XdpListener) -> None:
    """An interface that is deleted and made again gets the program again, and is counted."""
    assert listener.counts()["interface_returns_total"] == 0
    namespace.ip("link", "del", "near")
    namespace.ip("link", "add", "near", "type", "veth", "peer", "name", "far")
    for end in ("near", "far"):
        namespace.ip("link", "set", end, "up")
    until = time.monotonic() + HANG_SECONDS
    while "xdp" not in namespace.ip("link", "show", "near") and time.monotonic() < until:
        namespace.inside(listener.receive)
        time.sleep(0.05)
    with namespace.raw() as far:
        far.send(bytes(ETHERNET / IP(src="192.0.2.1", dst="192.0.2.2") / REPORT))
        assert [payload for payload, _, _ in received(listener, 1)] == [b"report"]
    assert listener.counts()["interface_returns_total"] == 1
    assert listener.counts()["interface_gap_ns_total"] > 0


def test_interface_that_returns_with_another_program(
    namespace: Namespace, listener: XdpListener, capsys: pytest.CaptureFixture[str]
) -> None:
    """One warning says why the program is not there; once the other one is gone, it is attached."""
    namespace.ip("link", "del", "near")
    namespace.ip("link", "add", "near", "type", "veth", "peer", "name", "far")
    for end in ("near", "far"):
        namespace.ip("link", "set", end, "up")
    other = XdpListener(ListenSettings(kind="xdp", interface="near"))
    namespace.inside(other.open)
    for _ in range(3):
        listener._due_ns = 0
        namespace.inside(listener.receive)
    assert "".join(capsys.readouterr()).count("near already has an XDP program") == 1
    other.close()
    listener._due_ns = 0
    namespace.inside(listener.receive)
    with namespace.raw() as far:
        far.send(bytes(ETHERNET / IP(src="192.0.2.1", dst="192.0.2.2") / REPORT))
        assert [payload for payload, _, _ in received(listener, 1)] == [b"report"]


def test_frames_for_other_machines(namespace: Namespace, listener: XdpListener) -> None:
    """They pass to the network stack, as long as the interface's address is another one; a promiscuous
    listener takes them.
    """
    packet = IP(src="192.0.2.1", dst="192.0.2.2") / REPORT
    foreign, own = Ether(dst="02:00:00:00:00:77") / packet, Ether(dst="02:00:00:00:00:78") / packet
    namespace.ip("link", "set", "near", "address", "02:00:00:00:00:78")
    namespace.inside(listener._program.look)
    with namespace.raw() as far:
        far.send(bytes(foreign))
        far.send(bytes(own))
        assert len(received(listener, 1)) == 1
        assert listener.counts()["xdp_unfiltered"] == 1
        listener.close()
        everything = XdpListener(ListenSettings(kind="xdp", interface="near", promiscuous=True))
        namespace.inside(everything.open)
        far.send(bytes(foreign))
        assert len(received(everything, 1)) == 1
        assert "promiscuity 1" in namespace.ip("-d", "link", "show", "near")
        everything.close()


def test_one_program_of_an_interface(namespace: Namespace, listener: XdpListener) -> None:
    """A second listener is rejected with what to do; the first goes with `close`."""
    second = XdpListener(ListenSettings(kind="xdp", interface="near"))
    with pytest.raises(CaptureError, match=r"near already has an XDP program: .*dev near xdp off"):
        namespace.inside(second.open)
    assert "xdp" in namespace.ip("link", "show", "near")
    listener.finish()
    assert "xdp" not in namespace.ip("link", "show", "near")


def test_missing_interface(namespace: Namespace) -> None:
    """An interface that is not there is an error that names it."""
    with pytest.raises(CaptureError, match=r"xdp://nowhere\?port=32766: this machine has no such interface"):
        XdpListener(ListenSettings(kind="xdp", interface="nowhere")).open()
