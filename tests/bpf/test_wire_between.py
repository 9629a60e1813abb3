"""The XDP program of a wire between two veth pairs: what goes on, what passes up, and what ends it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Packet, Raw

from hopscope.bpf.wire_layout import WireCount
from hopscope.bpf.wire_program import WireProgram
from hopscope.capture.ring.offload import driver_of, kind_of
from hopscope.runtime.sink import wire
from hopscope.runtime.sink.wire import WireListener, obstacle
from hopscope.settings.listen import ListenSettings
from hopscope.settings.sink import SinkReportSettings, SinkSettings
from hopscope.wire.dialect import DIALECTS
from hopscope.wire.records import Carrier, Hop
from oracle.insert import Form, insert_int
from support.network.veth import Namespace, received, taken, unfinished
from support.packets.wire_make import PACKETS
from support.packets.xdp_make import built
from support.waiting import HANG_SECONDS, eventually

pytestmark = pytest.mark.kernel
_ALL_PROTOCOLS, MTU = 3, 1500
_HOLDER = """
import sys, time
from hopscope.bpf.wire_program import WireProgram
program = WireProgram(ring_bytes=1 << 16)
program.aim("out")
program.attach("near")
program.turn_on(1500)
print("ready", flush=True)
time.sleep(1000)
"""


@pytest.fixture
def between(tool: Callable[..., str], namespace: Namespace) -> Namespace:
    """`far` to `near`, and `out` to `beyond`."""
    built(tool)
    namespace.pair("out", "beyond")
    return namespace


def datagram(size: int = 100) -> Packet:
    """A UDP packet with a whole checksum."""
    packet = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02") / IP(src="10.0.0.1", dst="10.0.0.2")
    return packet / UDP(sport=1000, dport=2000) / Raw(bytes(range(size)))


def nothing_more(handle: socket.socket) -> bool:
    """Whether nothing has come: what goes on in the kernel is there when `send` has returned."""
    handle.setblocking(False)
    with suppress(BlockingIOError):
        return not handle.recv(70_000)
    handle.settimeout(HANG_SECONDS)
    return True


def test_what_goes_on(between: Namespace) -> None:
    """Whole frames, tagged ones and those with INT arrive at the other end, without their INT; a checksum
    that the sender left to its card passes up, and the ring completes it; so does everything after the end.
    """
    listener = between.listener(output="out")
    program = WireProgram(PACKETS, ring_bytes=1 << 16)

    def attach() -> None:
        program.aim("out")
        assert not program.attach("near"), "generic XDP was asked for"
        program.turn_on(MTU)

    between.inside(attach)
    plain = bytes(datagram())
    tagged = plain[:12] + bytes.fromhex("81000007") + plain[12:]
    with_int = insert_int(plain, [Hop(node_id=1)] * 3, 0x8000, Form(Carrier.UDP, 0), dialect=PACKETS)
    with between.offloading() as sender, between.raw("beyond", _ALL_PROTOCOLS) as beyond:
        for frame, expected in ((plain, plain), (tagged, tagged), (with_int, plain)):
            sender.send(bytes(10) + frame)
            assert taken(beyond, 1) == [expected]
        left = Ether(plain[:14]) / IP(src="10.0.0.1", dst="10.0.0.2") / TCP(dport=80) / Raw(bytes(200))
        for packet, field in ((datagram(), 6), (left, 16)):
            partial, whole = unfinished(Ether(bytes(packet)), field)
            sender.send(partial)
            assert received(listener, 1) == [whole]
        counts = program.counts()
        assert counts[WireCount.CHECKSUM] == 2
        assert (counts[WireCount.FORWARDED], counts[WireCount.STRIPPED]) == (2, 1)
        program.close()
        sender.send(bytes(10) + with_int)
        assert received(listener, 1) == [with_int]
        assert nothing_more(beyond)
    listener.close()


def test_a_missing_output(between: Namespace) -> None:
    """When the output is deleted, frames pass up, and are counted so."""
    listener = between.listener(output="out")
    program = WireProgram(PACKETS, ring_bytes=1 << 16)

    def attach() -> None:
        program.aim("out")
        program.attach("near")
        program.turn_on(MTU)

    between.inside(attach)
    between.ip("link", "del", "out")
    with between.raw() as sender:
        sender.send(bytes(datagram()))
    assert received(listener, 1) == [bytes(datagram())]
    assert program.counts()[WireCount.OFF] == 1
    program.close()
    listener.close()


def test_the_output_is_followed_at_once(between: Namespace, monkeypatch: pytest.MonkeyPatch) -> None:
    """When it goes down, or has a smaller MTU, frames pass up with the next turn of the worker, and are not
    sent to it and lost until somebody looks; when it is up again, they go on.
    """
    listener = between.listener(output="out")
    one = WireListener(listener.settings, PACKETS, lambda key, count: None, lambda: True)
    between.inside(one.open)
    eventually(lambda: between.inside(one.receive) is None and one._index)
    monkeypatch.setattr(wire, "_LOOK_NS", 1 << 62)
    eventually(lambda: between.inside(one.receive) is None and one._due_ns > wire._LOOK_NS)
    frame = bytes(datagram())
    with between.raw() as sender, between.raw("beyond", _ALL_PROTOCOLS) as beyond:
        for change in (("mtu", "100"), ("down",)):
            between.ip("link", "set", "out", *change)
            between.inside(one.receive)
            sender.send(frame)
            assert received(listener, 1) == [frame]
        between.ip("link", "set", "out", "mtu", "1500", "up")
        eventually(lambda: "state UP" in between.ip("link", "show", "dev", "out"))
        between.inside(one.receive)
        sender.send(frame)
        assert taken(beyond, 1) == [frame]
    counts = one.counts()
    assert (counts["wire_long"], counts["wire_off"], counts["wire_unchanged"]) == (1, 1, 1)
    one.close()
    listener.close()


def test_it_goes_with_its_process(between: Namespace) -> None:
    """After a SIGKILL of the process that has the program, frames reach the ring."""
    words = ("ip", "netns", "exec", between.name, sys.executable, "-c", _HOLDER)
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "src")}
    with between.raw() as sender, between.raw("beyond", _ALL_PROTOCOLS) as beyond:
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environment) as holder:
            try:
                assert holder.stdout is not None
                assert holder.stdout.readline() == "ready\n"
                sender.send(bytes(datagram()))
                assert taken(beyond, 1) == [bytes(datagram())]
            finally:
                holder.kill()
        listener = between.listener(output="out")
        sender.send(bytes(datagram()))
        assert received(listener, 1) == [bytes(datagram())]
        assert nothing_more(beyond)
    listener.close()


def test_obstacles(between: Namespace) -> None:
    """What makes the workers forward: settings, dialects, and interfaces that are not of one kind."""
    listen = ListenSettings(kind="mirror", interface="near", output="out")
    sink = SinkSettings(enabled=True)

    def why(sink: SinkSettings = sink, name: str = "spec", **changes: object) -> str:
        changed = listen.model_copy(update=changes)
        return between.inside(lambda: obstacle(changed, sink, (DIALECTS[name],)))

    assert why() == ""
    assert why(output="lo").startswith("near and lo are neither both network cards")
    assert "no such interface" in why(output="gone")
    assert "several workers" in why(workers=2)
    assert "filter" in why(filter="udp")
    assert "keep_offloads" in why(keep_offloads=True)
    assert "neither DSCP nor port" in why(name="geant")
    on_sctp = replace(DIALECTS["spec"], ifa_protocol=132)
    found = between.inside(lambda: obstacle(listen, sink, (on_sctp,)))
    assert found.endswith("does not read IP protocol 132, that of IFA")
    assert "dialect auto" in between.inside(lambda: obstacle(listen, sink, tuple(DIALECTS.values())))
    reporting = SinkReportSettings(to="192.0.2.1:32766")
    assert "whole packets" in why(sink.model_copy(update={"report": reporting}))
    by_flow = reporting.model_copy(update={"when": "flow"})
    assert why(sink.model_copy(update={"report": by_flow})) == ""
    assert between.inside(lambda: (kind_of("near"), driver_of("near"))) == ("veth", "veth")
