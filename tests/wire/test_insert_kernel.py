"""The batch inserter is the scalar one, the sink undoes it, and tshark finds what it makes right."""

from __future__ import annotations

import struct
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hopscope.wire.decode.plain import decode_plain
from hopscope.wire.dialect import DEFAULT
from hopscope.wire.records import HOP, Carrier, Hop, Records
from hopscope.wire.rewrite.strip_batch import Stripper
from oracle.insert import Checksums, Form, insert_int
from oracle.strip import strip_packet
from support.packets.insert_batch import Inserter
from support.packets.packet_cases import TUNNELS, Packet
from support.packets.wire_cases import frame_batch, frames_of

SPEC = replace(DEFAULT, name="sink", packets=True)
HOPS = [Hop(node_id=9, hop_latency=70), Hop(node_id=8, hop_latency=90, queue_id=3, queue_occupancy=300)]
PACKETS = [
    Packet(version, protocol, bytes(range(size)), dscp, options, check, tags, trailer)
    for version in (4, 6)
    for protocol in (6, 17)
    for size, dscp, options, check, tags, trailer in (
        (0, 0, False, True, 0, b""), (7, 0x20, True, True, 2, bytes(5)), (99, 10, False, False, 1, b"\x01"),
    )
]  # fmt: skip


def _records(frames: int, hops: list[Hop]) -> Records:
    records = np.zeros(len(hops), HOP)
    for record, hop in zip(records, hops, strict=True):
        for name in HOP.names or ():
            record[name] = getattr(hop, name)
    return np.tile(records, frames)


def _scalar(frame: bytes, bitmap: int) -> bytes:
    """What the scalar one makes of a frame by the Inserter's choice of forms."""
    for form in (Form(Carrier.UDP_INSERTED, 2), Form()):
        if (frame[23 if frame[12] == 8 else 20 :][:1] == b"\x06") == (form.npt == 2):
            try:
                return insert_int(frame, HOPS, bitmap, form, dialect=SPEC)
            except ValueError:
                return frame
    return frame


@pytest.mark.kernel
@pytest.mark.parametrize("bitmap", [0xB100, 0xFF81, 0x8040])
def test_insert(bitmap: int) -> None:
    """Sound and cut packets over IPv4 and IPv6, with tags, options and trailers; the stripper undoes it."""
    frames = [
        replace(packet, tags=0, options=packet.options and packet.version == 4).frame() for packet in PACKETS
    ]
    frames += [frame[:cut] for frame in frames[1::5] for cut in range(16, len(frame))]
    frames += [frames[1][:20] + b"\x20\x00" + frames[1][22:], Packet(protocol=1).frame()]
    inserter = Inserter(bitmap)
    for filler in (0, 0xFF):
        batch = frame_batch(frames, gap=40, filler=filler)
        out = inserter.insert(batch, _records(len(frames), HOPS))
        made = frames_of(out)
        assert made == [_scalar(frame, bitmap) for frame in frames]
        assert (out.frames["wire_length"] == out.frames["length"]).all()
        grown = sum(len(one) > len(frame) for one, frame in zip(made, frames, strict=True))
        assert (inserter.inserted, inserter.passed) == (grown, len(frames) - grown)
        assert grown >= len(PACKETS)
        assert frames_of(Stripper(SPEC).strip(out, decode_plain(out, SPEC))) == frames
    tagged = [packet.frame() for packet in PACKETS if packet.tags or packet.options]
    out = inserter.insert(frame_batch(tagged), _records(len(tagged), HOPS))
    assert [strip_packet(one, dialect=SPEC) for one in frames_of(out)] == tagged


@pytest.mark.kernel
def test_what_does_not_fit() -> None:
    """Nothing is written beside a frame's room, and numbers that contradict each other are refused."""
    frame, inserter = Packet().frame(), Inserter(0xB100)
    size = len(frame) + 16 + 32
    batch = frame_batch([frame, frame])
    offsets, arena = np.array([8, 200], np.uint64), np.full(200 + size, 0xA5, np.uint8)
    lengths = inserter.insert_into(batch, _records(2, HOPS), arena, offsets, size)
    assert lengths.tolist() == [size, size]
    assert (arena[:8] == 0xA5).all()
    assert (arena[8 + size : 200] == 0xA5).all()
    assert inserter.insert_into(batch, _records(2, HOPS), arena, offsets + np.uint64(1), size).tolist() == [
        size,
        0,
    ]
    long = Packet(payload=bytes(65535 - 28 - 40)).frame()
    assert frames_of(inserter.insert(frame_batch([long]), _records(1, HOPS))) == [long]
    for hops in (_records(1, HOPS)[:1], np.zeros(2 * 64, HOP)):
        with pytest.raises(ValueError, match="hops of 4 words for 2 frames"):
            inserter.insert(batch, hops)
    rejected: list[dict[str, Any]] = [
        {"instructions": 0},
        {"remaining_hops": 256},
        {"dialect": replace(SPEC, inserted_udp_ports=())},
    ]
    for wrong in rejected:
        with pytest.raises(ValueError, match="found"):
            Inserter(**wrong)


def test_tshark_finds_every_checksum_right(tmp_path: Path, tool: Callable[..., str]) -> None:
    """Lengths and checksums of packets with INT, and of what the sink makes of those whose source left, or
    zeroed, the checksum; in tunnels too.
    """
    made: list[tuple[int, bytes]] = []
    for packet in [*PACKETS, *(replace(PACKETS[1], protocol=6, tunnels=(name,)) for name in TUNNELS)]:
        own, frame = Carrier.TCP if packet.protocol == 6 else Carrier.UDP, packet.frame()
        forms = Form(own, 0), Form(own, 0, 10), Form(Carrier.UDP_INSERTED, 2)
        made += [(packet.version, insert_int(frame, HOPS, 0xB100, form, dialect=SPEC)) for form in forms]
        for how in list(Checksums)[1:]:
            inserted = insert_int(frame, HOPS, 0xB101, Form(own, 0, checksums=how), dialect=SPEC)
            made.append((packet.version, strip_packet(inserted, dialect=SPEC)))
    frames = [frame for _, frame in made]
    capture = tmp_path / "inserted.pcap"
    records = (struct.pack("<IIII", 0, 0, len(frame), len(frame)) + frame for frame in frames)
    capture.write_bytes(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1) + b"".join(records))
    command = [tool("tshark"), "-n", "-r", str(capture), "-T", "fields", "-e", "_ws.expert.message"]
    command += ["-e", "ip.checksum.status", "-e", "tcp.checksum.status", "-e", "udp.checksum.status"]
    for protocol in ("ip", "tcp", "udp"):
        command += ["-o", f"{protocol}.check_checksum:TRUE"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert len(said) == len(frames)
    for (version, frame), line in zip(made, said, strict=True):
        message, *status = line.split("\t")
        found = set(",".join(status).split(",")) - {""}
        # good; none; none over IPv6, as INT 2.1 (5.5.2) recommends for inserted headers
        assert found <= ({"1", "3", "4"} if version == 6 else {"1", "3"}), f"{line} {frame.hex()}"
        assert "should be" not in message, line
        assert "bogus" not in message.lower(), line
