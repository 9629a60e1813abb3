"""Capture files out: others read back what was written."""

from __future__ import annotations

import io
import os
import pty
import subprocess
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether
from scapy.utils import RawPcapReader, rdpcap

from hopscope.capture.errors import CaptureError
from hopscope.capture.pcap.reader import PcapReader, PcapWriter
from hopscope.wire.records import FRAME, FrameBatch, Link


def batch_of(bodies: list[bytes], link: int = Link.ETHERNET, **fields: int) -> FrameBatch:
    frames = np.zeros(len(bodies), FRAME)
    frames["length"] = frames["wire_length"] = [len(body) for body in bodies]
    frames["offset"] = np.cumsum(frames["length"]) - frames["length"] + 3
    frames["time_ns"] = 1_700_000_000_123_456_789 + np.arange(len(bodies))
    frames["link"] = link
    for name, value in fields.items():
        frames[name] = value
    return FrameBatch(np.frombuffer(b"xyz" + b"".join(bodies), np.uint8), frames)


def bytes_of(batch: FrameBatch) -> list[bytes]:
    return [
        batch.arena[o : o + n].tobytes()
        for o, n in zip(batch.frames["offset"].tolist(), batch.frames["length"].tolist(), strict=True)
    ]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.binary(max_size=40), max_size=6),
    st.booleans(),
    st.booleans(),
    st.sampled_from([Link.ETHERNET, Link.NULL, Link.RAW_IP, Link.LINUX_SLL, Link.LINUX_SLL2]),
)
def test_round_trip(bodies: list[bytes], pcapng: bool, nanoseconds: bool, link: Link) -> None:
    """What is written is read back: bytes, wire lengths, links, and times to the resolution of the file."""
    file = io.BytesIO()
    batch = batch_of(bodies, link)
    batch.frames["wire_length"] += 5
    writer = PcapWriter(file, link=link, nanoseconds=nanoseconds, pcapng=pcapng)
    writer.write(batch)
    writer.write(batch)
    writer.close()
    file.seek(0)
    found = list(PcapReader(file))
    assert sum(map(len, found)) == writer.packets == 2 * len(bodies)
    if bodies:
        (back,) = found
        assert bytes_of(back) == bodies * 2
        tick = 1 if nanoseconds else 1000
        for name in ("wire_length", "link"):
            assert (back.frames[name] == np.tile(batch.frames[name], 2)).all()
        assert (back.frames["time_ns"] == np.tile(batch.frames["time_ns"] // tick * tick, 2)).all()


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("a.pcap", "nanosecond pcap"),
        ("a.pcapng", "pcapng"),
        ("a.pcap.gz", "nanosecond pcap (gzip"),
        ("a.pcapng.gz", "pcapng (gzip"),
    ],
)
def test_capinfos_reads_what_is_written(
    tmp_path: Path, tool: Callable[..., str], name: str, kind: str
) -> None:
    """Wireshark's tool finds the type, the number of packets and the first time."""
    path = tmp_path / name
    with PcapWriter(path) as writer:
        writer.write(batch_of([b"a" * 60, b"b" * 61, b"c" * 1500]))
    out = subprocess.run(
        [tool("capinfos"), "-t", "-c", "-a", "-S", str(path)],
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    ).stdout
    assert kind in out
    assert "Number of packets:   3" in out
    assert "1700000000.123456789" in out


def test_scapy_reads_microseconds(tmp_path: Path) -> None:
    """A µs pcap has the old magic and truncated times."""
    path = tmp_path / "micro.pcap"
    with PcapWriter(path, nanoseconds=False) as writer:
        writer.write(batch_of([b"a" * 60]))
    with RawPcapReader(str(path)) as reader:
        assert not reader.nano
        ((body, meta),) = list(reader)
    assert (body, meta.sec, meta.usec) == (b"a" * 60, 1_700_000_000, 123_456)


def test_several_links_in_a_pcapng_and_none_in_a_pcap() -> None:
    """A pcapng describes an interface for each link; a pcap refuses the second one and says what to do."""
    file = io.BytesIO()
    with PcapWriter(file, pcapng=True) as writer:
        writer.write(batch_of([b"eth"]))
        writer.write(batch_of([b"raw"], Link.RAW_IP))
        writer.write(batch_of([b"eth2"]))
    file.seek(0)
    links = [link for batch in PcapReader(file) for link in batch.frames["link"].tolist()]
    assert links == [Link.ETHERNET, Link.RAW_IP, Link.ETHERNET]
    with pytest.raises(CaptureError, match=r"cannot hold one of link type 101; write a \.pcapng"):
        PcapWriter(io.BytesIO()).write(batch_of([b"raw"], Link.RAW_IP))


def test_udp_payloads_get_headers(tmp_path: Path) -> None:
    """Payloads of a socket become Ethernet, IPv4 or IPv6 and UDP, as scapy and its checksum confirm."""
    path = tmp_path / "udp.pcap"
    v4 = batch_of([b"report", b""], Link.UDP_PAYLOAD, source_lo=0xFFFF_C000_0201, port=32766)
    v6 = batch_of([b"six"], Link.UDP_PAYLOAD, source_hi=0x2001_0DB8 << 32, source_lo=7, port=54321)
    with PcapWriter(path) as writer:
        writer.write(v4)
        writer.write(v6)
        writer.write(batch_of([b"q" * 65_520], Link.UDP_PAYLOAD, source_lo=0xFFFF_C000_0201, port=1))
    first, empty, six, _ = rdpcap(str(path))
    assert (first[IP].src, first[UDP].dport, bytes(first[UDP].payload)) == ("192.0.2.1", 32766, b"report")
    stated = first[IP].chksum
    del first[IP].chksum
    assert Ether(bytes(first))[IP].chksum == stated
    assert (empty[UDP].len, bytes(empty[UDP].payload)) == (8, b"")
    assert (six[IPv6].src, six[UDP].dport, bytes(six[UDP].payload)) == ("2001:db8::7", 54321, b"six")
    (back,) = PcapReader(path)
    assert back.frames["length"][-1] == 14 + 65_535, "cut to what IPv4 can hold"


def test_standard_output(monkeypatch: pytest.MonkeyPatch) -> None:
    """`-` writes to standard output and leaves it open."""
    out = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", SimpleNamespace(buffer=out))
    with PcapWriter("-") as writer:
        writer.write(batch_of([b"abc"]))
    out.seek(0)
    assert [bytes_of(batch) for batch in PcapReader(out)] == [[b"abc"]]


def test_a_terminal_gets_no_capture() -> None:
    """Bytes of a capture would be rubbish there: it is one clear line."""
    master, slave = pty.openpty()
    with (
        os.fdopen(slave, "w") as terminal,
        redirect_stdout(terminal),
        pytest.raises(CaptureError, match="cannot be written to a terminal"),
    ):
        PcapWriter("-")
    os.close(master)


def test_what_cannot_be_written(tmp_path: Path) -> None:
    """A folder that is missing, a full disk and a link type without a number are one clear line."""
    with pytest.raises(CaptureError, match=r"cannot be written \(No such file or directory\)"):
        PcapWriter(tmp_path / "missing" / "a.pcap")
    with pytest.raises(CaptureError, match="frames of another link type cannot be written; Ethernet, raw IP"):
        PcapWriter(tmp_path / "a.pcap", link=Link.OTHER)
    if Path("/dev/full").exists():
        writer = PcapWriter("/dev/full")
        with pytest.raises(CaptureError, match=r"/dev/full: cannot be written \(No space left on device\)"):
            writer.close()
        (tmp_path / "full.pcap.gz").symlink_to("/dev/full")
        with pytest.raises(
            CaptureError, match=r"full\.pcap\.gz: cannot be written \(No space left on device\)"
        ):
            PcapWriter(tmp_path / "full.pcap.gz").close()
