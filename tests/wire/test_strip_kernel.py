"""The stripper does what its oracle does, for sound, cut and damaged packets, and stays within its bounds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from hopscope.fabric.simulation import Simulation, SimulationModel
from hopscope.fabric.switch import ReportModel
from hopscope.fabric.topology import FatTree
from hopscope.fabric.traffic import TrafficModel
from hopscope.wire.craft.frames import craft
from hopscope.wire.decode.decoder import Decoder
from hopscope.wire.decode.plain import decode_plain
from hopscope.wire.dialect import DIALECTS, Dialect
from hopscope.wire.records import Carried, Carrier, Kind, Link, ReportBatch
from oracle.encode import encode_scalar
from oracle.insert import Checksums, Form, insert_int
from support.packets.packet_cases import TUNNELS, Packet
from support.packets.strip_cases import HOPS, SPEC, assert_same, mutants, stripper_of
from support.packets.wire_cases import frame_batch, frames_of

pytestmark = pytest.mark.kernel

MARKED = replace(SPEC, marker=b"INT")
"""A marker of an odd number of bytes: what is behind it changes places in the checksum."""
OPEN = replace(DIALECTS["intcollector"], packets=True, int_dscp=(0x17,))


def _forms(protocol: int) -> list[tuple[Form, Dialect]]:
    """Every way to put INT into TCP or UDP."""
    own = Carrier.TCP if protocol == 6 else Carrier.UDP
    old = replace(DIALECTS["int-0.4"], inserted_udp_ports=(0x1000,))
    found = [(Form(own, 0, version), SPEC) for version in (5, 10, 20)] + [(Form(own, 0, 4), old)]
    found += [(Form(own, 0, version), MARKED) for version in (5, 10, 20)]
    found += [(Form(Carrier.UDP_INSERTED, 2), SPEC), (Form(own, 0, 10), OPEN), (Form(own, 0, 5), OPEN)]
    found += [(Form(own, 0), replace(SPEC, fixed_tcp=True, length_with_shim=True, name="fixed"))]
    found += [(Form(own, 0, 5), replace(SPEC, shims=((1, 1, True, True),), name="numbered"))]
    if protocol == 6:
        found += [(Form(Carrier.UDP_INSERTED, 0, version), SPEC) for version in (5, 10, 20)]
    else:
        found += [(Form(own, 1), SPEC)]
    return [(replace(form, checksums=how), one) for form, one in found for how in Checksums]


def _packets(tunnels: tuple[str, ...] = ()) -> list[Packet]:
    return [
        Packet(version, protocol, payload, dscp, options, check, tags, trailer, tunnels)
        for version in (4, 6)
        for protocol in (6, 17)
        for payload, dscp, options, check, tags, trailer in (
            (b"", 0, False, True, 0, b""), (b"payload", 0x20, True, True, 2, bytes(5)),
            (bytes(range(99)), 10, False, False, 1, b"\x01"),
        )
    ]  # fmt: skip


@pytest.mark.parametrize("protocol", [6, 17])
def test_tcp_and_udp(protocol: int) -> None:
    """Every form and treatment of checksums, over IPv4 and IPv6, with and without options, tags, trailers."""
    by_dialect: dict[Dialect, list[bytes]] = {}
    for form, dialect in _forms(protocol):
        for packet in _packets():
            if packet.protocol == protocol:
                inserted = insert_int(packet.frame(), HOPS, 0xA000, form, dialect=dialect)
                by_dialect.setdefault(dialect, []).append(inserted)
    unsaid = [frame[:16] + bytes(2) + frame[18:] for frame in by_dialect[SPEC] if frame[12] == 8]
    by_dialect[replace(SPEC, any_ip_length=True)] = unsaid
    for dialect, frames in by_dialect.items():
        assert sum(one.removed > 0 for one in assert_same(frames, dialect)) > len(frames) // 2
        assert_same([frame[14:] for frame in frames if frame[12] == 8], dialect, Link.RAW_IP)


def _tunnelled() -> list[bytes]:
    """INT in the headers of tunnels, behind TCP in tunnels, and with GRE that the source added."""
    carriers = {"gre": Carrier.GRE, "vxlan": Carrier.VXLAN_GPE, "geneve": Carrier.GENEVE}
    frames = []
    for packet in _packets()[::2]:
        for name in TUNNELS:
            for around in ((), ("vxlan",), ("gtp_u", "gre checksum")):
                one = replace(packet, protocol=6, tunnels=(name, *around))
                for how in (Checksums.UPDATE, Checksums.LEAVE):
                    forms = [
                        Form(Carrier.TCP, 0, checksums=how),
                        Form(Carrier.UDP_INSERTED, 2, checksums=how),
                    ]
                    carrier = carriers.get(name.split("_")[0].split()[0])
                    if carrier:
                        old = carrier != Carrier.GRE and "vxlan" not in one.tunnels  # those have no G
                        versions = (5, 10, 20) if old else (20,)
                        forms += [Form(carrier, 1, version, checksums=how) for version in versions]
                    frames += [insert_int(one.frame(), HOPS, 0xA000, form, dialect=SPEC) for form in forms]
        frames.append(insert_int(packet.frame(), HOPS, 0xA000, Form(Carrier.GRE, added=True), dialect=SPEC))
    return frames


def test_tunnels() -> None:
    """Every length, next protocol and checksum around the INT."""
    assert all(one.removed and not one.unverified for one in assert_same(_tunnelled()))


def test_cut_and_mutated() -> None:
    """Every frame cut at every byte, and mutants of all: alike, and nothing outside is read or written."""
    frames = [insert_int(packet.frame(), HOPS, 0xA000, form, dialect=one)
              for packet in (_packets()[1], _packets()[7], _packets()[10])
              for form, one in _forms(packet.protocol) if one is SPEC and form.checksums < 2]  # fmt: skip
    frames += _tunnelled()[3::19]
    cut = [frame[:end] for frame in frames[::4] for end in range(len(frame))]
    assert {one.removed > 0 for one in assert_same(cut)} == {True, False}
    found = assert_same(mutants(frames, 1, 2000))
    assert {(one.removed > 0, one.unverified) for one in found} == {(0, 0), (1, 0), (1, 1)}


def test_reports_of_other_frames() -> None:
    """Rows that say nothing true of their frames do no harm: nothing is written beside a frame's room."""
    frames = _tunnelled()[::7] + [packet.frame() for packet in _packets()]
    batch, rng = frame_batch(frames), np.random.default_rng(5)
    found = decode_plain(batch, SPEC)
    rows = np.resize(found.reports, len(frames))
    offsets, stripper = np.arange(len(frames), dtype=np.uint64) * np.uint64(1000), stripper_of(SPEC)
    for turn in range(40):
        rng.shuffle(rows)
        rows["packet"] = np.arange(len(frames))
        if turn > 20:
            rows["int_at"] = rng.integers(0, 300, len(frames))
            rows["carrier"], rows["npt"] = rng.integers(0, 9, len(frames)), rng.integers(0, 4, len(frames))
            rows["int_version"] = rng.choice([1, 4, 5, 10, 20, 99], len(frames))
        arena = np.full(len(frames) * 1000, 0xA5, np.uint8)
        shuffled = ReportBatch(rows, rows[:0], trails=found.trails)
        lengths = stripper.strip_into(batch, shuffled, arena, offsets, 600)
        for at, length, frame in zip(offsets.tolist(), lengths.tolist(), frames, strict=True):
            assert length <= len(frame)
            assert (arena[at + length : at + 1000] == 0xA5).all()


def test_trails_are_needed() -> None:
    """Reports without trails are an error; both decoders leave the same."""
    frames = [frame for frame in _tunnelled() if len(frame) > 14] + [Packet().frame(), b""]
    batch = frame_batch(frames)
    decoder, plain = Decoder(SPEC), decode_plain(batch, SPEC)
    with pytest.raises(ValueError, match=f"found 0 trails for {len(frames)} frames"):
        stripper_of(SPEC).strip(batch, decoder.decode(batch))
    trails = decoder.decode(batch, trails=True).trails
    counts = trails[0, : len(frames)] & 0xFF
    assert counts.min() == 0
    assert counts.max() > 4
    for frame, count in enumerate(counts.tolist()):
        assert trails[: count + 1, frame].tolist() == plain.trails[: count + 1, frame].tolist()


def test_what_is_no_int_md() -> None:
    """INT-MX, reports, other link types, empty frames and ordinary packets go through."""
    objects: list[dict[str, Any]] = [
        {"flow": {"proto": 17}, "int": {"mode": "mx", "instructions": "0x8800"}, "hops": []},
        {"flow": {"proto": 6}, "int": {}, "hops": [{"node_id": 1}], "report": {}},
    ]
    frames = [*frames_of(craft(objects)), b"", bytes(70), *(packet.frame() for packet in _packets())]
    for link in (Link.ETHERNET, Link.NULL, Link.OTHER, Link.LINUX_SLL):
        assert not any(one.removed for one in assert_same(frames, SPEC, link))


def test_what_does_not_fit() -> None:
    """A frame that takes more than its room, or than the arena has, has length 0 and is not counted."""
    frame = insert_int(Packet().frame(), HOPS, 0xA000, dialect=SPEC)
    batch = frame_batch([frame, Packet().frame()] * 2)
    arena, stripper = np.zeros(400, np.uint8), stripper_of(SPEC)
    size = len(Packet().frame())
    offsets = np.array([0, 100, 200, 400 - size + 1], np.uint64)
    reports = decode_plain(batch, SPEC)
    assert stripper.strip_into(batch, reports, arena, offsets, size).tolist() == [size] * 3 + [0]
    assert (stripper.stripped, stripper.passed) == (2, 1)
    assert not stripper.strip_into(batch, reports, arena, offsets, size - 1).any()


def test_frames_of_a_batch() -> None:
    """`strip` gives a frame for each, in order, with the times and the lengths that they had on the wire."""
    packets = [Packet(payload=bytes(number)) for number in range(40)]
    frames = [insert_int(packet.frame(), HOPS, 0xA000, dialect=SPEC) for packet in packets]
    frames[7] = packets[7].frame()
    batch = frame_batch(frames)
    batch.frames["time_ns"] = np.arange(40)
    batch.frames["wire_length"] += 9
    out = stripper_of(SPEC).strip(batch, decode_plain(batch, SPEC))
    assert frames_of(out) == [packet.frame() for packet in packets]
    assert out.frames["time_ns"].tolist() == list(range(40))
    assert (out.frames["wire_length"] == out.frames["length"] + 9).all()
    empty = frame_batch([])
    assert len(stripper_of(SPEC).strip(empty, decode_plain(empty, SPEC))) == 0


def test_parts_of_a_batch() -> None:
    """`strip_into` takes any part of a batch, and counts what is in it."""
    packets = [Packet(payload=bytes(number)) for number in range(40)]
    frames = [insert_int(packet.frame(), HOPS, 0xA000, dialect=SPEC) for packet in packets]
    frames[7] = packets[7].frame()
    batch, stripper = frame_batch(frames), stripper_of(SPEC)
    reports = decode_plain(batch, SPEC)
    for first, last in ((0, 5), (5, 6), (6, 9), (9, 40), (40, 40)):
        offsets = np.arange(last - first, dtype=np.uint64) * np.uint64(200)
        arena = np.zeros(200 * 40, np.uint8)
        lengths = stripper.strip_into(batch, reports, arena, offsets, 200, first)
        out = [arena[at : at + n].tobytes() for at, n in zip(offsets.tolist(), lengths.tolist(), strict=True)]
        assert out == [packet.frame() for packet in packets[first:last]]
        passed = first <= 7 < last
        assert (stripper.stripped, stripper.passed) == (last - first - passed, passed)


@pytest.mark.parametrize(("version", "start"), [("0.5", 12), ("1.0", 16), ("2.0", 20)])
def test_packets_of_the_fabric(version: str, start: int) -> None:
    """Packets that a simulated network put INT into are those that it would have sent without."""
    traffic = TrafficModel(flows=200)
    model = SimulationModel(traffic, report=ReportModel(version=version), reports_per_second=0, seed=3)
    batch = Simulation(FatTree(4), model).step(0.0005)
    rows = batch.reports[(batch.reports["int_version"] > 0) & (batch.reports["hop_count"] > 0)]
    rows = rows[(rows["index"] == 0) & (rows["kind"] == Kind.INT)][:200]
    rows["carried"] = Carried.FLOW | Carried.PORTS
    rows["inner_length"] = 0  # as long as what is there
    plain = rows.copy()
    plain["int_version"] = 0
    made, without = (
        frames_of(encode_scalar(ReportBatch(one, batch.hops), link=Link.UDP_PAYLOAD)) for one in (rows, plain)
    )
    assert len(made) > 50
    found = assert_same([frame[start:] for frame in made])
    assert all(one.removed for one in found)
    for one, frame in zip(found, without, strict=True):
        own = frame[start:]
        assert one.frame[: len(own)] == own[: len(one.frame)]
        assert not any(one.frame[len(own) :])  # padding to words
        assert not any(own[len(one.frame) :])
