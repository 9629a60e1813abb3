"""Offloads of the ends of a veth pair, with ethtool and tshark as witnesses."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from scapy.layers.inet import IP, TCP
from scapy.layers.l2 import Ether

from hopscope.capture.errors import CaptureError
from hopscope.capture.pcap.reader import PcapWriter
from hopscope.capture.ring import offload
from hopscope.capture.ring.offload import features, prepare
from support.network.veth import Namespace, received, run, unfinished
from support.packets.wire_cases import frame_batch

pytestmark = pytest.mark.kernel


def shown(namespace: Namespace, end: str) -> dict[str, bool]:
    """What ethtool shows."""
    words = ["ip", "netns", "exec", namespace.name, "ethtool", "-k", end]
    lines = subprocess.run(words, check=True, capture_output=True, text=True).stdout.splitlines()[1:]
    pairs = (line.strip().split(": ") for line in lines)
    return {name: state.split()[0] == "on" for name, state in pairs}


def test_features_are_those_that_ethtool_shows(namespace: Namespace, tool: Callable[..., str]) -> None:
    """All features under one's own name there have the same state; some are fixed."""
    tool("ethtool")
    found = namespace.inside(lambda: features("near"))
    witness = shown(namespace, "near")
    same = found.keys() & witness.keys()
    assert len(same) > 30
    assert {name: found[name].active for name in same} == {name: witness[name] for name in same}
    assert found["tx-tcp-segmentation"].changeable
    assert not found["rx-lro"].changeable


def test_frames_are_cut_and_not_merged(
    namespace: Namespace, tool: Callable[..., str], tmp_path: Path
) -> None:
    """Prepared, a connection's 60,000 bytes come in frames that the MTU allows, with checksums that tshark
    finds right; told in a line each; closing puts back what was on, and nothing else.
    """
    tshark = tool("tshark")
    namespace.run(tool("ethtool"), "-K", "near", "gro", "on")
    before = {end: shown(namespace, end) for end in ("near", "far")}
    prepared = namespace.inside(lambda: prepare("near"))
    assert prepared.lines == [
        "near: GRO and LRO switched off until the end: they merge packets of a connection",
        "far: segmentation offload switched off until the end: it leaves frames longer than the MTU",
    ]
    listener = namespace.listener()
    packet = Ether(dst="ff:ff:ff:ff:ff:ff") / IP(dst="192.0.2.2") / TCP(flags="A") / (bytes(range(200)) * 300)
    with namespace.offloading() as far:
        far.send(unfinished(packet, 16, 1448)[0])
    frames = received(listener, 42)
    listener.close()
    assert [len(frame) for frame in frames] == [1502] * 41 + [54 + 60_000 - 41 * 1448]
    assert b"".join(frame[54:] for frame in frames) == bytes(packet)[54:]
    path = tmp_path / "cut.pcap"
    with PcapWriter(path) as writer:
        writer.write(frame_batch(frames))
    checks = ["-o", "tcp.check_checksum:TRUE", "-o", "ip.check_checksum:TRUE"]
    fields = ["-T", "fields", "-e", "ip.checksum.status", "-e", "tcp.checksum.status"]
    told = subprocess.run([tshark, "-r", path, *checks, *fields], check=True, capture_output=True, text=True)
    assert told.stdout.split() == ["1", "1"] * 42
    namespace.inside(prepared.close)
    assert {end: shown(namespace, end) for end in ("near", "far")} == before


def test_what_is_only_told(
    namespace: Namespace, tool: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is changed where that is not wanted or not permitted, and the lines say so; the end of a pair
    that is in another namespace is for the user; an interface that is none is one line.
    """
    namespace.run(tool("ethtool"), "-K", "near", "gro", "on")
    before = {end: shown(namespace, end) for end in ("near", "far")}
    lines = namespace.inside(lambda: prepare("near", change=False)).lines
    assert lines[0] == "near: GRO and LRO left on; they merge packets of a connection"

    def refuse(*_: object) -> None:
        raise PermissionError(1, os.strerror(1))

    with monkeypatch.context() as patch:
        patch.setattr(offload._Device, "switch", refuse)
        lines = namespace.inside(lambda: prepare("near")).lines
    assert lines[1].startswith("far: segmentation offload not switched off (operation not permitted); it lea")
    assert {end: shown(namespace, end) for end in ("near", "far")} == before
    run("ip", "netns", "add", other := f"{namespace.name}-other")
    try:
        namespace.ip("link", "set", "far", "netns", other)
        prepared = namespace.inside(lambda: prepare("near"))
    finally:
        run("ip", "netns", "del", other)
    assert "near: its other end is in another namespace" in prepared.lines[1]
    prepared.close()
    assert namespace.inside(lambda: prepare("lo")).lines == []
    with pytest.raises(CaptureError, match="nowhere: this machine has no such interface"):
        prepare("nowhere")
