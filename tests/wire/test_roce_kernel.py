"""RoCEv2 in batches: what is built is parsed, and what is damaged is refused."""

from __future__ import annotations

import random

import numpy as np
import numpy.typing as npt
import pytest

from hopscope.wire import layout
from hopscope.wire.reasons import RoceReason
from hopscope.wire.records import ROCE, FrameBatch, Link, Records
from hopscope.wire.roce_frames import RoceFrames

pytestmark = pytest.mark.kernel

OPCODES = [opcode for opcode, headers in enumerate(layout.ROCE_HEADERS) if headers]
ADDRESSES = [("127.0.0.2", "127.0.0.1"), ("fd00::2", "fd00::1")]


def rows_of(opcodes: list[int], seed: int, to: str) -> tuple[Records, npt.NDArray[np.uint8]]:
    """A row of each opcode, with random values in the fields that it has, and the payload of all."""
    rng = random.Random(seed)
    rows = np.zeros(len(opcodes), ROCE)
    payload = np.frombuffer(rng.randbytes(1 << 16), np.uint8)
    number = RoceFrames(to).setup
    for row, opcode in zip(rows, opcodes, strict=True):
        has = layout.ROCE_HEADERS[opcode]
        row["opcode"], row["queue_pair"], row["psn"] = opcode, rng.getrandbits(24), rng.getrandbits(24)
        row["partition"], row["flags"] = rng.getrandbits(16), rng.getrandbits(5)
        row["source_hi"], row["source_lo"] = number[0], number[1]
        if has & (layout.HAS_RETH | layout.HAS_ATOMIC):
            row["address"], row["key"] = rng.getrandbits(64), rng.getrandbits(32)
        if has & layout.HAS_RETH:
            row["length"] = rng.getrandbits(32)
        if has & layout.HAS_ATOMIC:
            row["compare"] = rng.getrandbits(64)
        if has & (layout.HAS_ATOMIC | layout.HAS_ATOMIC_ACK):
            row["value"] = rng.getrandbits(64)
        if has & layout.HAS_AETH:
            row["syndrome"], row["message"] = rng.getrandbits(8), rng.getrandbits(24)
        if has & layout.HAS_DETH:
            row["queue_key"], row["source_queue_pair"] = rng.getrandbits(32), rng.getrandbits(24)
        if has & layout.HAS_IMMEDIATE:
            row["immediate"] = rng.getrandbits(32)
        if has & layout.HAS_PAYLOAD:
            row["payload_bytes"] = rng.choice([0, 1, 2, 3, 4, 7, 8, 20, 64, 1024, 4096])
            row["payload_at"] = rng.randrange(1 << 15)
    return rows, payload


@pytest.mark.parametrize("link", [Link.UDP_PAYLOAD, Link.ETHERNET])
@pytest.mark.parametrize(("sender", "receiver"), ADDRESSES)
def test_what_is_built_is_parsed(sender: str, receiver: str, link: Link) -> None:
    """Every opcode, with pads of all lengths, comes back field by field, over IPv4 and IPv6."""
    rows, payload = rows_of(OPCODES * 8, 1, receiver)
    there = RoceFrames(sender, link=link)
    sent = there.build(rows, payload)
    if link == Link.UDP_PAYLOAD:
        sent.frames["source_hi"], sent.frames["source_lo"] = there.setup[0], there.setup[1]
    found = RoceFrames(receiver).parse(sent)
    assert not found["reason"].any()
    for ours, theirs in zip(rows, found, strict=True):
        size = int(ours["payload_bytes"])
        sent_bytes = payload[int(ours["payload_at"]) :][:size]
        assert (sent.arena[int(theirs["payload_at"]) :][:size] == sent_bytes).all()
        assert theirs["source_port"] == layout.ROCE_PORT
        assert (theirs["source_hi"], theirs["source_lo"]) == (there.setup[0], there.setup[1])
        same = [
            name for name in ROCE.names or () if not name.startswith(("source_h", "source_l", "source_po"))
        ]
        same.remove("payload_at")
        assert [ours[name] for name in same] == [theirs[name] for name in same]


@pytest.mark.parametrize("link", [Link.UDP_PAYLOAD, Link.ETHERNET])
def test_every_flipped_bit_is_found(link: Link) -> None:
    """One bit changed anywhere in the transport packet is a wrong ICRC, but for the byte that it leaves out."""
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
    assert set(accepted // 8) <= {4}
    assert set(found["reason"].tolist()) == {RoceReason.NONE, RoceReason.BAD_ICRC}
