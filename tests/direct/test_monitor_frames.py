"""Captured packets as observations, compared with the scalar codecs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hopscope.capture.pcap.reader import read
from hopscope.direct.monitors.frames import observe_frames
from hopscope.wire.buffer import Buffer
from hopscope.wire.errors import WireError
from hopscope.wire.headers import ethernet
from hopscope.wire.layout import SOURCE_MAC, TARGET_MAC
from hopscope.wire.observation import fold
from hopscope.wire.reasons import Place
from hopscope.wire.records import FRAME, FrameBatch, Link
from oracle.packet_id import packet_id

pytestmark = pytest.mark.kernel
TCP, UDP = 6, 17


def scalar(raw: bytes, link: int) -> tuple[object, ...] | None:
    """The same, read by the codecs: flow, packet id, length, payload, sequence, acknowledgment, flags."""
    buf = Buffer(raw)
    try:
        type_, _ = ethernet.pull_link(buf, link)
        version = ethernet.ip_version_of(type_)
        if not version:
            return None
        at = buf.at
        ip = ethernet.pull_ip(buf, version, Place(0), any_length=True)
    except WireError:
        return None
    length, limit = ip.length or len(raw) - at, min(len(raw), at + (ip.length or len(raw)))
    ports, behind, told, headers = b"\0" * 4, None, (0, 0, 0), 0
    later = bool(ip.fragment_offset)
    if ip.protocol in (TCP, UDP) and not later and buf.at + 4 <= limit:
        ports, behind = raw[buf.at : buf.at + 4], buf.at + 4
        headers = 8 if ip.protocol == UDP else 20
        if ip.protocol == TCP and buf.at + 20 <= limit:
            head = raw[buf.at : buf.at + 20]
            told = (int.from_bytes(head[4:8], "big"), int.from_bytes(head[8:12], "big"), head[13])
            headers = max(20, head[12] >> 4 << 2)
    ends = [fold(a >> 64, a & (1 << 64) - 1).to_bytes(4, "big") for a in (ip.source, ip.destination)]
    flow = b"".join(ends) + bytes([ip.protocol]) + ports
    payload = max(0, length - (buf.at - at) - headers)
    return (flow, packet_id(ip, raw, behind, limit), length, payload, *told)


def told(batch: FrameBatch) -> list[tuple[object, ...]]:
    names = ("packet", "size", "payload", "sequence", "acknowledgment", "flags")
    return [(o["flow"].tobytes(), *(int(o[name]) for name in names)) for o in observe_frames(batch, 7)]


def batch_of(raws: list[bytes], link: int = Link.ETHERNET) -> FrameBatch:
    frames = np.zeros(len(raws), FRAME)
    frames["length"] = [len(raw) for raw in raws]
    frames["offset"] = np.cumsum(frames["length"]) - frames["length"]
    frames["link"] = link
    frames["time_ns"] = np.arange(len(raws))
    return FrameBatch(np.frombuffer(b"".join(raws) + b"\xff" * 64, np.uint8), frames)


def packet(version: int, protocol: int, payload: bytes = b"hello") -> bytes:
    out = bytearray()
    ethernet.push_ethernet(out, ethernet.Ethernet(TARGET_MAC, SOURCE_MAC, 0x0800 if version == 4 else 0x86DD))
    l4 = bytearray()
    if protocol == TCP:
        ethernet.push_tcp(l4, ethernet.Tcp(1234, 80, 7, 9, 2, 100, options=b"\1\1\1\1"))
    else:
        ethernet.push_udp(l4, ethernet.Udp(1234, 53, 8 + len(payload), 0))
    prefix = 0xFFFF_0000_0000 if version == 4 else 0x20010DB8 << 96
    ip = ethernet.Ip(version, prefix | 0x0A000001, prefix | 0x0A000002, protocol)
    ip.length = (20 if version == 4 else 40) + len(l4) + len(payload)
    ethernet.push_ip(out, ip)
    return bytes(out + l4 + payload)


@pytest.mark.parametrize("version", [4, 6])
@pytest.mark.parametrize("protocol", [TCP, UDP])
def test_frames_cut_anywhere_agree_with_the_codecs(version: int, protocol: int) -> None:
    """Whole and cut at every byte, with other bytes after: the same observation, or none."""
    whole = packet(version, protocol)
    raws = [whole[:end] for end in range(len(whole) + 1)]
    expected = [found for raw in raws if (found := scalar(raw, Link.ETHERNET)) is not None]
    assert told(batch_of(raws)) == expected
    assert len(expected) > 5


def test_damaged_frames_agree_with_the_codecs() -> None:
    """Random bytes over headers: both read the same, and nothing fails."""
    rng = np.random.default_rng(5)
    wholes = [packet(version, protocol) for version in (4, 6) for protocol in (TCP, UDP)]
    raws = []
    for number in range(2000):
        raw = bytearray(wholes[number % 4])
        for _ in range(3):
            raw[rng.integers(12, len(raw))] = rng.integers(0, 256)
        raws.append(bytes(raw))
    expected = [found for raw in raws if (found := scalar(raw, Link.ETHERNET)) is not None]
    assert told(batch_of(raws)) == expected
    assert 500 < len(expected) < 2000


@pytest.mark.shared
@pytest.mark.parametrize("name", ["tcpreplay_test.pcap", "dpkt_http.pcap"])
def test_captures_agree_with_the_codecs(shared: Path, name: str) -> None:
    """Packets that this project did not make: the same as the codecs read, with their times."""
    for batch in read(shared / "traffic" / name):
        expected, times = [], []
        for frame in batch.frames:
            at = int(frame["offset"])
            found = scalar(batch.arena[at : at + int(frame["length"])].tobytes(), int(frame["link"]))
            if found is not None:
                expected.append(found)
                times.append(int(frame["time_ns"]))
        assert told(batch) == expected
        assert observe_frames(batch)["time_ns"].tolist() == times
        assert len(expected) > 40
