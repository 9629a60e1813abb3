"""Whatever comes: the kernel does what the plain responder does, and changes nothing outside of memory."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hopscope.rdma.apply_kernel import apply
from hopscope.rdma.memory_table import MemoryTable
from hopscope.rdma.queue_pair import QueuePairs
from hopscope.rdma.records import Service
from hopscope.rdma.responder import Responder
from hopscope.wire.reasons import RoceReason
from hopscope.wire.roce.records import ROCE, Opcode
from oracle.responder import PlainPair
from support.direct.rdma_make import BYTES, MTU, PEER, Rig

pytestmark = pytest.mark.kernel
GUARD = 64
Packet = dict[str, int | bytes]
MESSAGE = st.one_of(
    st.tuples(st.just("write"), st.integers(0, 2 * MTU + 20), st.sampled_from([0, 1, 8, 2000, BYTES - 500])),
    st.tuples(
        st.just("write"), st.sampled_from([0, 1, 8, MTU, 2 * MTU]), st.sampled_from([5, BYTES - 2 * MTU])
    ),
    st.tuples(st.just("send"), st.sampled_from([0, 30, MTU + 44, 3 * MTU]), st.just(0)),
    st.tuples(st.just("add"), st.just(0), st.sampled_from([0, 8, 8, 4088, 4])),
    st.tuples(st.just("swap"), st.just(0), st.sampled_from([0, 8])),
)
MUTATION = st.tuples(
    st.integers(0, 60),
    st.sampled_from(
        [
            ("drop", 0), ("double", 0), ("double", 3), ("double", 9), ("swap", 0), ("again", 0),
            ("opcode", 12), ("opcode", 10), ("opcode", 8), ("opcode", 1), ("opcode", 17), ("opcode", 0x55),
            ("at", 3), ("at", -8),
            ("at", BYTES - 4), ("at", BYTES), ("at", -(1 << 44)), ("key", 1), ("key", 256), ("length", 1),
            ("length", 1 << 31), ("length", -1), ("payload", 4), ("payload", -1), ("payload", -MTU),
            ("queue_pair", 256), ("queue_pair", 1), ("source_lo", 1), ("source_hi", 1), ("partition", 1),
            ("partition", -0x8000), ("reason", 2), ("psn", 1 << 23), ("psn", 5), ("compare", 1),
        ]
    ),
)  # fmt: skip


def packets_of(rig: Rig, messages: list[tuple[str, int, int]], psn: int, flags: int) -> list[Packet]:
    """Requests as a good requester sends them."""
    packets: list[Packet] = []
    unreliable = int(rig.pairs.of(rig.number)["service"]) << 5
    for number, (kind, length, at) in enumerate(messages):
        starts = range(0, max(length, 1), MTU)
        for start in starts:
            first, last = start == 0, start + MTU >= length
            step = (4 if last else 0) if first else (2 if last else 1)
            if last and number % 3 == 2:
                step += 1
            opcode = {"add": 20, "swap": 19, "write": 6 + step, "send": step}[kind]
            packets.append(
                {
                    "opcode": opcode + unreliable, "psn": (psn + len(packets)) % 2**24, "key": rig.key,
                    "address": rig.base + at, "payload": bytes([number + 1]) * min(MTU, length - start),
                    "length": length, "value": number + 3, "compare": 0, "queue_pair": rig.number,
                    "flags": (flags >> (len(packets) % 8)) & 1, "source_hi": PEER[0], "source_lo": PEER[1],
                    "partition": 0xFFFF, "reason": 0,
                }
            )  # fmt: skip
    return packets


def mutate(packets: list[Packet], place: int, what: tuple[str, int]) -> None:
    """Change one packet, or the order of packets."""
    kind, value = what
    at = place % max(1, len(packets))
    if not packets:
        return
    if kind == "drop":
        del packets[at]
    elif kind == "double":
        packets.insert(min(at + value, len(packets)), dict(packets[at]))
    elif kind == "again":
        packets.extend(dict(packet) for packet in packets[at : at + 4])
    elif kind == "swap":
        packets[at - 1], packets[at] = packets[at], packets[at - 1]
    elif kind == "opcode":
        packets[at]["opcode"] = value
    elif kind == "payload":
        old = packets[at]["payload"]
        assert isinstance(old, bytes)
        packets[at]["payload"] = old + b"xxxx" if value > 0 else old[:value]
    else:
        field, bits = ("address", 64) if kind == "at" else (kind, 32)
        old = packets[at][field]
        assert isinstance(old, int)
        bits = {"psn": 24, "source_hi": 64, "source_lo": 64, "partition": 16, "reason": 8}.get(field, bits)
        packets[at][field] = (old + value) % 2**bits


@settings(max_examples=250)
@given(
    messages=st.lists(MESSAGE, min_size=1, max_size=14),
    mutations=st.lists(MUTATION, max_size=3),
    service=st.sampled_from([Service.RC, Service.RC, Service.UC]),
    psn=st.sampled_from([0, 5, 0xFFFFFD]),
    access=st.sampled_from([1, 2, 3, 3, 3, 3, 3]),
    receives=st.sampled_from([0, 1, 14, 14]),
    flags=st.integers(0, 255),
    cut=st.integers(0, 25),
)
def test_as_the_plain_one(
    messages: list[tuple[str, int, int]], mutations: list[tuple[int, tuple[str, int]]], service: Service,
    psn: int, access: int, receives: int, flags: int, cut: int,
) -> None:  # fmt: skip
    """Same reasons, answers, memory and expected number, in one batch or two; guards around it stay."""
    whole = np.full(BYTES + 2 * GUARD, 0xA5, np.uint8)
    whole[GUARD:-GUARD] = 0
    rig = Rig(service, psn, access, receives)
    rig.table.retarget(rig.key, whole[GUARD:-GUARD])
    plain = PlainPair(
        rig.number,
        PEER,
        service is Service.UC,
        psn,
        MTU,
        rig.base,
        rig.key,
        access,
        bytearray(BYTES),
        receives,
    )
    packets = packets_of(rig, messages, psn, flags)
    for place, what in mutations:
        mutate(packets, place, what)
    for part in (packets[:cut], packets[cut:]):
        answers = rig.take(*part)
        plain.answers.clear()
        assert rig.reasons() == plain.batch(part)
        assert answers[["opcode", "syndrome", "psn", "value"]].tolist() == plain.answers
        row = rig.pairs.of(rig.number)
        assert (int(row["expected_psn"]), int(row["message"])) == (plain.psn, plain.message % 2**24)
    assert whole[GUARD:-GUARD].tobytes() == bytes(plain.memory)
    assert (whole[:GUARD] == 0xA5).all()
    assert (whole[-GUARD:] == 0xA5).all()


def test_noise_changes_nothing() -> None:
    """200,000 records of random bits, of which none can know number, address and key: no memory changes."""
    rng = np.random.default_rng(11)
    pairs, table = QueuePairs(), MemoryTable()
    memory = np.zeros(BYTES, np.uint8)
    table.add(memory)
    for _ in range(100):
        pairs.connect(pairs.create(), PEER, 1, 0, mtu=MTU)
    records = np.frombuffer(rng.bytes(200_000 * ROCE.itemsize), ROCE).copy()
    records["reason"] = 0
    records["queue_pair"][::2] = rng.choice(pairs.rows["number"][:100], 100_000)
    records["source_hi"][::4], records["source_lo"][::4] = PEER
    responder = Responder(table, pairs)
    responder.execute(records, np.zeros(8, np.uint8), 0)
    assert not memory.any()
    assert responder.verbs_executed == 0
    # empty writes with the right numbers are the only requests that name no memory
    empty = np.isin(records["opcode"] & 31, (Opcode.RC_WRITE_ONLY, Opcode.RC_WRITE_ONLY_IMMEDIATE))
    done = (records["reason"] == RoceReason.NONE) & (records["opcode"] < 64) & ~empty
    assert set(records["opcode"][done] & 31) <= set(range(13, 19))


def test_a_verb_outside_is_refused_by_memory_itself() -> None:
    """Whatever the checks before it say, `apply` writes nothing outside, and takes no kind that it lacks."""
    from hopscope.rdma.records import VERB

    verbs = np.zeros(4, VERB)
    verbs["kind"], verbs["length"] = [1, 2, 3, 4], 8
    verbs["address"] = [57, 64, 1, 0]
    memory, payload = np.zeros(64, np.uint8), np.ones(64, np.uint8)
    payload.flags.writeable = False
    assert apply(verbs, np.uint64(0), np.uint64(4), payload, memory, np.uint64(0)) == 4
    assert not memory.any()
