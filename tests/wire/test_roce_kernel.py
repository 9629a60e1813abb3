"""RoCEv2 in batches: what is built is parsed, what is damaged is refused, and the scalar codec agrees."""

from __future__ import annotations

import ipaddress
import random
import zlib

import numpy as np
import numpy.typing as npt
import pytest

from hopscope.wire.address import MAPPED
from hopscope.wire.reasons import RoceReason
from hopscope.wire.records import FRAME, FrameBatch, Link, Records
from hopscope.wire.roce import layout
from hopscope.wire.roce.cm import RoceError
from hopscope.wire.roce.frames import RoceFrames
from hopscope.wire.roce.records import ROCE
from oracle.roce import ETHERTYPE_ROCE_V1, NEXT_BTH, RoceFrame, icrc, pull_packet, read_frame, write_frame
from support.packets.roce_cases import OPCODES, packet_of, rows_of

pytestmark = pytest.mark.kernel

ADDRESSES = [("127.0.0.2", "127.0.0.1"), ("fd00::2", "fd00::1")]


def number(address: str) -> int:
    found = ipaddress.ip_address(address)
    return int(found) | (MAPPED if found.version == 4 else 0)


def from_sender(batch: FrameBatch, sender: RoceFrames) -> FrameBatch:
    """Payloads as the receiver's socket describes them."""
    batch.frames["source_hi"], batch.frames["source_lo"] = sender.setup[0], sender.setup[1]
    return batch


def batch_of(bodies: list[bytes], link: Link = Link.ETHERNET, around: int = 0) -> FrameBatch:
    """Frames with `around` between them."""
    arena = bytearray([around]) * 64
    frames = np.zeros(len(bodies), FRAME)
    for frame, body in zip(frames, bodies, strict=True):
        frame["offset"], frame["length"] = len(arena), len(body)
        arena += body + bytes([around]) * 64
    frames["link"] = link
    return FrameBatch(np.frombuffer(bytes(arena), np.uint8), frames)


@pytest.mark.parametrize("link", [Link.UDP_PAYLOAD, Link.ETHERNET])
@pytest.mark.parametrize(("sender", "receiver"), ADDRESSES)
def test_what_is_built_is_parsed(sender: str, receiver: str, link: Link) -> None:
    """Every opcode, with pads of all lengths, comes back field by field, over IPv4 and IPv6."""
    rows, payload = rows_of(OPCODES * 8, 1, receiver)
    there = RoceFrames(sender, link=link)
    sent = there.build(rows, payload)
    if link == Link.UDP_PAYLOAD:
        from_sender(sent, there)
    found = RoceFrames(receiver).parse(sent)
    assert not found["reason"].any()
    for ours, theirs in zip(rows, found, strict=True):
        size = int(ours["payload_bytes"])
        sent_bytes = payload[int(ours["payload_at"]) :][:size]
        assert (sent.arena[int(theirs["payload_at"]) :][:size] == sent_bytes).all()
        assert theirs["source_port"] == layout.ROCE_PORT
        assert (theirs["source_hi"], theirs["source_lo"]) == (there.setup[0], there.setup[1])
        other = ("source_hi", "source_lo", "source_port", "payload_at")
        same = [name for name in ROCE.names or () if name not in other]
        assert [ours[name] for name in same] == [theirs[name] for name in same]


@pytest.mark.parametrize(("sender", "receiver"), ADDRESSES)
def test_the_scalar_codec_writes_the_same_frames(sender: str, receiver: str) -> None:
    """Whole frames of every opcode are equal byte for byte, and the scalar codec reads them back."""
    rows, payload = rows_of(OPCODES * 4, 3, receiver)
    sent = RoceFrames(sender, link=Link.ETHERNET, port=49_152).build(rows, payload)
    for row, frame in zip(rows, sent.frames, strict=True):
        packet = packet_of(row, payload)
        raw = sent.arena[int(frame["offset"]) :][: int(frame["length"])].tobytes()
        assert raw == write_frame(RoceFrame(packet, number(sender), number(receiver), 49_152))
        read = read_frame(raw)
        assert (read.packet, read.sport) == (packet, 49_152)
        assert (read.source, read.destination) == (number(sender), number(receiver))


@pytest.mark.parametrize(("sender", "receiver"), ADDRESSES)
def test_payloads_of_the_scalar_codec_are_taken(sender: str, receiver: str) -> None:
    """What a socket hands over of frames that the scalar codec wrote (identification 0, DF) is right."""
    rows, payload = rows_of(OPCODES * 2, 10, receiver)
    raws = [
        write_frame(RoceFrame(packet_of(row, payload), number(sender), number(receiver), 777))[head:]
        for row in rows
        for head in [62 if ":" in sender else 42]
    ]
    batch = from_sender(batch_of(raws, Link.UDP_PAYLOAD), RoceFrames(sender))
    batch.frames["source_port"] = 777
    found = RoceFrames(receiver).parse(batch)
    assert not found["reason"].any()
    for row, read in zip(rows, found, strict=True):
        assert packet_of(read, batch.arena) == packet_of(row, payload)
    for wrong in ("source_port", "source_lo"):
        other = batch.frames.copy()
        other[wrong] ^= 1
        assert (
            RoceFrames(receiver).parse(FrameBatch(batch.arena, other))["reason"] == RoceReason.BAD_ICRC
        ).all()


def mutants(seed: int, count: int) -> list[bytes]:
    """Damaged frames, most of them with the right ICRC again, so that what follows it is reached."""
    rng = random.Random(seed)
    out = []
    for _ in range(count):
        sender, receiver = rng.choice(ADDRESSES)
        rows, payload = rows_of([rng.choice(OPCODES)], rng.getrandbits(32), receiver)
        rows["payload_bytes"] %= 64
        batch = RoceFrames(sender, link=Link.ETHERNET).build(rows, payload)
        raw = bytearray(batch.arena[: int(batch.frames["length"][0])])
        for _ in range(rng.choice([0, 1, 1, 2])):
            raw[rng.choice([rng.randrange(len(raw)), rng.randrange(12, min(80, len(raw)))])] = (
                rng.getrandbits(8)
            )
        if rng.random() < 0.3:
            raw = raw[: rng.randrange(len(raw))] if rng.random() < 0.5 else raw + rng.randbytes(9)
        if rng.random() < 0.3:
            raw[12:12] = b"\x81\x00\x00\x05"
        out.append(bytes(repaired(raw)) if rng.random() < 0.8 else bytes(raw))
    return out


def repaired(raw: bytearray) -> bytearray:
    """The frame with the ICRC that its bytes ask for, where its lengths let it have one."""
    start = 18 if raw[12:14] == b"\x81\x00" else 14
    if len(raw) < start + 60:
        return raw
    udp = start + (40 if raw[start] >> 4 == 6 else (raw[start] & 15) * 4)
    end = udp + int.from_bytes(raw[udp + 4 : udp + 6], "big")
    if max(udp, start + 48) + 24 <= end <= len(raw):
        raw[end - 4 : end] = icrc(bytes(raw[start : end - 4]))
    return raw


def read_or_not(raw: bytes) -> RoceFrame | RoceError:
    try:
        return read_frame(raw)
    except RoceError as error:
        return error


def test_the_scalar_codec_agrees_on_mutants() -> None:
    """4,000 damaged frames: the same reason from both, and the same fields where there is none."""
    raws = mutants(4, 4000)
    batch = batch_of(raws)
    found = RoceFrames("127.0.0.1").parse(batch)
    seen = set()
    for raw, row in zip(raws, found, strict=True):
        frame = read_or_not(raw)
        reason = frame.reason if isinstance(frame, RoceError) else RoceReason.NONE
        seen.add(reason)
        assert row["reason"] == reason, (raw.hex(), str(frame), RoceReason(row["reason"]))
        if isinstance(frame, RoceError):
            continue
        assert packet_of(row, batch.arena) == frame.packet
        assert (int(row["source_hi"]) << 64 | int(row["source_lo"]), row["source_port"]) == (
            frame.source,
            frame.sport,
        )
    assert seen == {
        RoceReason.NONE, RoceReason.TRUNCATED, RoceReason.BAD_ICRC, RoceReason.UNKNOWN_OPCODE,
        RoceReason.BAD_LENGTH,
    }  # fmt: skip


def test_damaged_v1_is_refused() -> None:
    """Damaged packets behind the EtherType of RoCEv1 are read or refused; nothing else is raised."""
    for raw in mutants(9, 2000):
        v1 = bytearray(raw)
        v1[12:14] = ETHERTYPE_ROCE_V1.to_bytes(2, "big")
        v1[20:21] = bytes([NEXT_BTH])
        assert isinstance(read_or_not(bytes(v1)), RoceError | RoceFrame)


@pytest.mark.parametrize("link", [Link.ETHERNET, Link.UDP_PAYLOAD])
def test_a_frame_is_read_within_its_bytes(link: Link) -> None:
    """What lies around a frame in the arena changes nothing, also where the frame is cut."""
    raws = mutants(5, 800)
    if link == Link.UDP_PAYLOAD:
        raws = [raw[42:] for raw in raws]
    there, here = RoceFrames("127.0.0.2"), RoceFrames("127.0.0.1", any_ip_id=True)
    zeros, ones = (from_sender(batch_of(raws, link, around), there) for around in (0, 255))
    assert (here.parse(zeros).copy() == here.parse(ones)).all()
    beyond = zeros.frames.copy()
    beyond["offset"] += len(zeros.arena)
    assert (here.parse(FrameBatch(zeros.arena, beyond))["reason"] == RoceReason.TRUNCATED).all()


@pytest.mark.parametrize("link", [Link.UDP_PAYLOAD, Link.ETHERNET])
def test_every_flipped_bit_is_found(link: Link) -> None:
    """One bit changed anywhere in the transport packet is a wrong ICRC, but for the byte it leaves out."""
    rows, payload = rows_of([0x0A], 2, "127.0.0.1")
    rows["payload_bytes"] = 20
    there = RoceFrames("127.0.0.2", link=link)
    sent = there.build(rows, payload)
    begin = 42 if link == Link.ETHERNET else 0
    size = int(sent.frames["length"][0])
    arena = np.tile(sent.arena[:size], (size * 8, 1))
    for bit in range(begin * 8, size * 8):
        arena[bit, bit // 8] ^= 1 << bit % 8
    frames = np.repeat(sent.frames, size * 8)
    frames["offset"] = np.arange(size * 8) * size
    frames["source_lo"] = there.setup[1] if link == Link.UDP_PAYLOAD else 0
    found = RoceFrames("127.0.0.1").parse(FrameBatch(arena.reshape(-1), frames))[begin * 8 :]
    accepted = np.flatnonzero(found["reason"] == RoceReason.NONE)
    assert set((accepted // 8).tolist()) == {4}
    assert set(found["reason"].tolist()) == {RoceReason.NONE, RoceReason.BAD_ICRC}


def payload_with(identification: int, flags: int, size: int, seed: int) -> bytes:
    """A WRITE_ONLY from 127.0.0.2, as it leaves a machine that numbers its IPv4 packets."""
    rows, payload = rows_of([0x0A], seed, "127.0.0.1")
    rows["payload_bytes"] = size
    raw = bytearray(write_frame(RoceFrame(packet_of(rows[0], payload), number("127.0.0.2"),
                                          number("127.0.0.1"), layout.ROCE_PORT)))  # fmt: skip
    raw[18:22] = identification.to_bytes(2, "big") + flags.to_bytes(2, "big")
    return bytes(raw[42:-4]) + icrc(bytes(raw[14:-4]))


def test_any_identification() -> None:
    """Solved from the ICRC: any identification, with and without DF, at any length up to 8 KiB."""
    rng = random.Random(6)
    raws = [
        payload_with(rng.getrandbits(16), rng.choice([0, 0x4000]), size, size)
        for size in [*range(0, 600, 7), 1024, 2047, 4096, 8192]
    ]
    batch = from_sender(batch_of(raws, Link.UDP_PAYLOAD), RoceFrames("127.0.0.2"))
    batch.frames["source_port"] = layout.ROCE_PORT
    assert not RoceFrames("127.0.0.1", any_ip_id=True).parse(batch)["reason"].any()
    assert (RoceFrames("127.0.0.1").parse(batch)["reason"] == RoceReason.BAD_ICRC).all()


def test_any_identification_is_what_trying_all_finds() -> None:
    """Damage that some identification would explain is accepted, all other is not: as by trying all 2^17."""
    rng = random.Random(7)
    good = payload_with(0, 0x4000, 8, 8)
    head = bytearray(write_frame(RoceFrame(pull_packet(good[:-4]), number("127.0.0.2"), number("127.0.0.1"),
                                           layout.ROCE_PORT))[14:42])  # fmt: skip
    head[1] = head[8] = head[10] = head[11] = head[26] = head[27] = 0xFF
    wrong = good[:-4] + rng.randbytes(4)
    explained = bytearray(good)
    explained[-4:] = payload_with(0xBEEF, 0, 8, 8)[-4:]
    for raw, expected in ((wrong, RoceReason.BAD_ICRC), (bytes(explained), RoceReason.NONE)):
        body = bytearray(raw[:-4])
        body[4] = 0xFF
        found = False
        for identification in range(1 << 16):
            for flags in (b"\x40\x00", b"\x00\x00"):
                head[4:8] = identification.to_bytes(2, "big") + flags
                crc = zlib.crc32(body, zlib.crc32(head, zlib.crc32(b"\xff" * 8)))
                found |= crc.to_bytes(4, "little") == raw[-4:]
        batch = from_sender(batch_of([raw], Link.UDP_PAYLOAD), RoceFrames("127.0.0.2"))
        batch.frames["source_port"] = layout.ROCE_PORT
        row = RoceFrames("127.0.0.1", any_ip_id=True).parse(batch)[0]
        assert row["reason"] == expected
        assert found == (expected == RoceReason.NONE)


def test_any_identification_lets_pass_what_it_says() -> None:
    """Of random ICRCs, one in 2^15 passes: 100,000 give 3.05 expected, at most 11 (4.5 deviations)."""
    good = np.frombuffer(payload_with(0, 0x4000, 8, 8), np.uint8)
    rng = np.random.default_rng(8)
    arena = np.tile(good, (100_000, 1))
    arena[:, -4:] = rng.integers(0, 256, (100_000, 4), dtype=np.uint8)
    frames = np.zeros(len(arena), FRAME)
    frames["offset"], frames["length"] = np.arange(len(arena)) * len(good), len(good)
    frames["link"], frames["source_port"] = Link.UDP_PAYLOAD, layout.ROCE_PORT
    batch = from_sender(FrameBatch(arena.reshape(-1), frames), RoceFrames("127.0.0.2"))
    passed = RoceFrames("127.0.0.1", any_ip_id=True).parse(batch)["reason"] == RoceReason.NONE
    assert passed.sum() <= 11


@pytest.mark.parametrize(
    "fields",
    [
        {"opcode": 0xC0},
        {"payload_at": 95, "payload_bytes": 6},
        {"payload_bytes": 65_001},
        {"opcode": 0x11, "payload_bytes": 4},
    ],
)
def test_what_is_no_packet_is_not_built(fields: dict[str, int]) -> None:
    """An unknown opcode, a payload that is not there, too long, or not its opcode's: one clear error."""
    rows: Records = np.zeros(2, ROCE)
    rows["opcode"] = 0x0A
    for name, value in fields.items():
        rows[name][1] = value
    payload: npt.NDArray[np.uint8] = np.zeros(100, np.uint8)
    with pytest.raises(ValueError, match="row 1 is not a RoCEv2 packet: opcode 0x"):
        RoceFrames("127.0.0.1").build(rows, payload)


def test_a_wildcard_is_no_address() -> None:
    """The ICRC covers the receiver's address, so it has to be known."""
    with pytest.raises(ValueError, match="not a single address"):
        RoceFrames("0.0.0.0")


@pytest.mark.parametrize("link", [Link.UDP_PAYLOAD, Link.ETHERNET])
def test_packets_without_icrc_are_taken_on_request(link: Link) -> None:
    """Zeros for the ICRC, as the published translator leaves them: read whole with `any_icrc`, else rejected;
    a cut is found in both cases.
    """
    rows, payload = rows_of([0x0A], 2, "127.0.0.1")
    there = RoceFrames("127.0.0.2", link=link)
    sent = there.build(rows, payload)
    size = int(sent.frames["length"][0])
    right = RoceFrames("127.0.0.1").parse(from_sender(sent, there)).copy()
    assert not right["reason"].any()
    sent.arena[int(sent.frames["offset"][0]) + size - 4 : int(sent.frames["offset"][0]) + size] = 0
    batch = from_sender(sent, there)
    assert RoceFrames("127.0.0.1", any_ip_id=True).parse(batch)["reason"][0] == RoceReason.BAD_ICRC
    unchecked = RoceFrames("127.0.0.1", any_icrc=True)
    assert (unchecked.parse(batch)[0] == right[0]).all()
    batch.frames["length"][0] = 20
    assert unchecked.parse(batch)["reason"][0] == RoceReason.TRUNCATED
