"""RoCEv2 packets of every opcode, as ROCE records and as packets of the scalar codec."""

from __future__ import annotations

import random

import numpy as np
import numpy.typing as npt

from hopscope.wire.records import Records
from hopscope.wire.roce import layout
from hopscope.wire.roce.frames import RoceFrames
from hopscope.wire.roce.layout import Aeth, AtomicEth, Bth, Deth, Reth
from hopscope.wire.roce.records import ROCE, RoceFlag
from oracle.roce import Packet

OPCODES = [opcode for opcode, headers in enumerate(layout.ROCE_HEADERS) if headers]
SIZES = [0, 1, 2, 3, 4, 7, 8, 20, 64, 1024, 4096]


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
            row["payload_bytes"] = rng.choice(SIZES)
            row["payload_at"] = rng.randrange(1 << 15)
    return rows, payload


def packet_of(row: np.void, payload: npt.NDArray[np.uint8]) -> Packet:
    """A record as the scalar codec has it."""
    opcode, at = int(row["opcode"]), int(row["payload_at"])
    has = layout.ROCE_HEADERS[opcode]
    flags = {flag.name.lower(): int(bool(row["flags"] & flag)) for flag in RoceFlag}
    numbers = {name: int(row[name]) for name in ("queue_pair", "psn", "partition")}
    bth = Bth(opcode=opcode, **numbers, **flags)
    packet = Packet(bth, payload=payload[at : at + int(row["payload_bytes"])].tobytes())
    address, key, value = int(row["address"]), int(row["key"]), int(row["value"])
    if has & layout.HAS_RETH:
        packet.reth = Reth(address, key, int(row["length"]))
    if has & layout.HAS_ATOMIC:
        packet.atomic = AtomicEth(address, key, value, int(row["compare"]))
    if has & layout.HAS_AETH:
        packet.aeth = Aeth(int(row["syndrome"]), int(row["message"]))
    if has & layout.HAS_ATOMIC_ACK:
        packet.original = value
    if has & layout.HAS_DETH:
        packet.deth = Deth(int(row["queue_key"]), int(row["source_queue_pair"]))
    if has & layout.HAS_IMMEDIATE:
        packet.immediate = int(row["immediate"])
    return packet
