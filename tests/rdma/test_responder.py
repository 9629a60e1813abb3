"""The receiving side of queue pairs: each rule of the transport, one by one."""

from __future__ import annotations

import numpy as np
import pytest

from hopscope.memory.ring import RingReader
from hopscope.rdma.memory_table import RdmaError
from hopscope.rdma.records import Access, NoticeFlag, PairState, Service, Syndrome
from hopscope.wire.reasons import RoceReason
from hopscope.wire.roce.records import Opcode, RoceFlag
from support.direct.rdma_make import BYTES, MTU, PEER, PEER_NUMBER, Rig, add, write

pytestmark = pytest.mark.kernel
ACK = {"flags": RoceFlag.ACK_REQUEST}


def test_a_write_is_executed_and_acknowledged() -> None:
    """Bytes land at base + offset; a request for an answer gets one ACK with the message number."""
    rig = Rig(psn=7)
    answers = rig.take(write(7, b"abc", 5), write(8, b"de", 100, **ACK))
    assert rig.memory[5:8].tobytes() == b"abc"
    assert rig.memory[100:102].tobytes() == b"de"
    assert len(answers) == 1
    assert int(answers[0]["opcode"]) == Opcode.RC_ACK
    assert int(answers[0]["syndrome"]) == Syndrome.ACK
    assert (int(answers[0]["psn"]), int(answers[0]["message"])) == (8, 2)
    assert int(answers[0]["queue_pair"]) == PEER_NUMBER
    assert (int(answers[0]["source_hi"]), int(answers[0]["source_lo"])) == PEER


def test_acknowledgments_of_a_batch_are_one() -> None:
    """Ten requests that ask for an answer get one, for the last of them."""
    rig = Rig()
    answers = rig.take(*(write(psn, b"x", psn, **ACK) for psn in range(10)))
    assert answers["psn"].tolist() == [9]


def test_numbers_wrap() -> None:
    """PSN 2^24 - 1 is followed by 0, and what is before it is a duplicate."""
    rig = Rig(psn=0xFFFFFE)
    rig.take(*(write(psn, b"x", i) for i, psn in enumerate((0xFFFFFE, 0xFFFFFF, 0, 1))))
    assert rig.reasons() == [RoceReason.NONE] * 4
    answers = rig.take(write(0xFFFFFF, b"y"))
    assert rig.reasons() == [RoceReason.DUPLICATE]
    assert answers["psn"].tolist() == [1]
    assert rig.memory[0] == ord("x")


def test_a_gap_is_told_once() -> None:
    """What is behind a gap is not executed; one NAK says which number is expected, until it has come."""
    rig = Rig()
    answers = rig.take(write(0, b"a"), write(2, b"c", 2), write(3, b"d", 3, **ACK))
    assert rig.reasons() == [RoceReason.NONE, RoceReason.PSN_GAP, RoceReason.PSN_GAP]
    assert [(int(a["syndrome"]), int(a["psn"])) for a in answers] == [(Syndrome.SEQUENCE_ERROR, 1)]
    assert len(rig.take(write(4, b"e", 4))) == 0
    answers = rig.take(write(1, b"b", 1), write(3, b"d", 3))
    assert [(int(a["syndrome"]), int(a["psn"])) for a in answers] == [(Syndrome.SEQUENCE_ERROR, 2)]
    assert rig.memory[:5].tobytes() == b"ab\0\0\0"


def test_a_gap_is_told_again_after_many_packets() -> None:
    """A requester that waits for a NAK that was lost gets another, behind 1024 more packets."""
    rig = Rig()
    answers = rig.take(*(write(psn, b"x") for psn in range(1, 1500)))
    assert answers["psn"].tolist() == [0, 0]


def test_atomics_are_executed_once() -> None:
    """A duplicate of an atomic gets the kept value and changes nothing, also within its own batch."""
    rig = Rig()
    answers = rig.take(add(0, 5), add(0, 5), add(1, 7), add(0, 5), add(1, 7))
    assert answers["value"].tolist() == [0, 0, 5, 0, 5]
    assert answers["psn"].tolist() == [0, 0, 1, 0, 1]
    assert rig.memory[:8].view("<u8")[0] == 12
    assert rig.take(add(1, 7))["value"].tolist() == [5]
    assert rig.memory[:8].view("<u8")[0] == 12


def test_a_kept_value_is_forgotten_after_256_others() -> None:
    """The cache keeps 256 results; a duplicate of an older one is neither executed nor answered."""
    rig = Rig()
    rig.take(*(add(psn, 1) for psn in range(300)))
    assert rig.memory[:8].view("<u8")[0] == 300
    assert rig.take(*(add(psn, 1) for psn in range(300)))["value"].tolist() == list(range(44, 300))
    assert rig.memory[:8].view("<u8")[0] == 300


def test_the_newest_result_of_a_number_is_kept() -> None:
    """Numbers come again after 2^24 packets: a duplicate gets the result of the last atomic of its number."""
    rig = Rig()
    rig.take(add(0, 5))
    rig.pairs.of(rig.number)["expected_psn"] = 0  # as after 2^24 other requests
    assert rig.take(add(0, 1))["value"].tolist() == [5]
    assert rig.take(add(0, 1))["value"].tolist() == [5]
    assert rig.memory[:8].view("<u8")[0] == 6


def test_compare_and_swap() -> None:
    """Written only where the old value is the one compared with; the old value is answered."""
    rig = Rig()
    swap = {"opcode": Opcode.RC_CMP_SWAP, "at": 8}
    answers = rig.take({**swap, "psn": 0, "value": 9}, {**swap, "psn": 1, "value": 4})
    assert answers["value"].tolist() == [0, 9]
    assert rig.memory[8:16].view("<u8")[0] == 9


def test_a_message_of_several_packets() -> None:
    """FIRST, MIDDLE and LAST write one after the other, and are one message."""
    rig = Rig()
    data = bytes(range(256)) * 2 + b"end"
    first = {"opcode": Opcode.RC_WRITE_FIRST, "psn": 0, "payload": data[:256], "at": 10, "length": len(data)}
    middle = {"opcode": Opcode.RC_WRITE_MIDDLE, "psn": 1, "payload": data[256:512], "key": 0}
    last = {"opcode": Opcode.RC_WRITE_LAST, "psn": 2, "payload": data[512:], "key": 0, **ACK}
    assert len(rig.take(first, middle)) == 0
    assert rig.take(last)["message"].tolist() == [1]
    assert rig.memory[10 : 10 + len(data)].tobytes() == data


@pytest.mark.parametrize(
    ("packet", "reason", "syndrome"),
    [
        (write(0, b"a", key=1), RoceReason.BAD_KEY, Syndrome.ACCESS_ERROR),
        (write(0, b"ab", BYTES - 1), RoceReason.OUT_OF_BOUNDS, Syndrome.ACCESS_ERROR),
        (write(0, b"a", -1), RoceReason.OUT_OF_BOUNDS, Syndrome.ACCESS_ERROR),
        (write(0, b"a", 1 << 63), RoceReason.OUT_OF_BOUNDS, Syndrome.ACCESS_ERROR),
        (add(0, 1, BYTES - 7), RoceReason.OUT_OF_BOUNDS, Syndrome.ACCESS_ERROR),
        (add(0, 1, 4), RoceReason.MISALIGNED, Syndrome.INVALID_REQUEST),
        (add(0, 1, payload=b"abcd"), RoceReason.BAD_LENGTH, Syndrome.INVALID_REQUEST),
        (write(0, b"abc", length=4), RoceReason.BAD_LENGTH, Syndrome.INVALID_REQUEST),
        (write(0, bytes(MTU + 4)), RoceReason.BAD_LENGTH, Syndrome.INVALID_REQUEST),
        (write(0, b"", opcode=Opcode.RC_WRITE_LAST), RoceReason.BAD_SEQUENCE, Syndrome.INVALID_REQUEST),
        (write(0, b"", opcode=Opcode.RC_SEND_MIDDLE), RoceReason.BAD_SEQUENCE, Syndrome.INVALID_REQUEST),
        (write(0, b"", opcode=Opcode.RC_READ_REQUEST), RoceReason.UNKNOWN_OPCODE, Syndrome.INVALID_REQUEST),
    ],
)
def test_a_bad_request_ends_the_connection(
    packet: dict[str, object], reason: RoceReason, syndrome: Syndrome
) -> None:
    """A NAK of its class is the answer, and nothing changes, neither behind it (9.9.3.1)."""
    rig = Rig()
    answers = rig.take(packet, write(0, b"x"), write(1, b"x"))
    assert rig.reasons()[0] == reason
    assert rig.reasons()[1:] == [RoceReason.UNKNOWN_QUEUE_PAIR] * 2
    assert [(int(a["syndrome"]), int(a["psn"])) for a in answers] == [(syndrome, 0)]
    assert not rig.memory.any()
    assert rig.pairs.of(rig.number)["state"] == PairState.ERROR


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"queue_pair": 0x123456}, RoceReason.UNKNOWN_QUEUE_PAIR),
        ({"source_lo": 1}, RoceReason.UNKNOWN_QUEUE_PAIR),
        ({"partition": 0x8001}, RoceReason.BAD_PARTITION),
        ({"opcode": Opcode.UC_WRITE_ONLY}, RoceReason.UNKNOWN_OPCODE),
        ({"reason": RoceReason.BAD_ICRC}, RoceReason.BAD_ICRC),
    ],
)
def test_a_stranger_is_dropped(fields: dict[str, object], reason: RoceReason) -> None:
    """No answer, no change, no step of the connection, but a count."""
    rig = Rig()
    assert len(rig.take(write(0, b"x", **fields))) == 0
    assert rig.reasons() == [reason]
    assert rig.responder.counts[reason] == 1
    rig.take(write(0, b"y"))
    assert rig.memory[0] == ord("y")


@pytest.mark.parametrize(("access", "packet"), [(Access.WRITE, add(0, 1)), (Access.ATOMIC, write(0, b"a"))])
def test_access_is_by_right(access: int, packet: dict[str, object]) -> None:
    """A region that allows one kind of operation refuses the other."""
    rig = Rig(access=access)
    rig.take(packet)
    assert rig.reasons() == [RoceReason.NO_ACCESS]
    assert not rig.memory.any()


def test_unreliable_connections_go_on() -> None:
    """UC: no answers; a gap drops the message in progress, and the next that begins is taken."""
    rig = Rig(Service.UC)
    first = {"opcode": Opcode.UC_WRITE_FIRST, "psn": 0, "payload": bytes([1]) * MTU, "length": 2 * MTU}
    last = {"opcode": Opcode.UC_WRITE_LAST, "psn": 2, "payload": bytes([2]) * MTU}
    only = {"opcode": Opcode.UC_WRITE_ONLY, "payload": b"only", "at": 1000, **ACK}
    assert (
        len(rig.take(first, last, {**only, "psn": 9}, {**only, "psn": 10, "key": 0}, {**only, "psn": 11}))
        == 0
    )
    assert rig.reasons() == [
        RoceReason.NONE, RoceReason.PSN_GAP, RoceReason.NONE, RoceReason.BAD_KEY, RoceReason.NONE,
    ]  # fmt: skip
    assert rig.memory[1000:1004].tobytes() == b"only"
    assert not rig.memory[MTU : 2 * MTU].any()


def test_immediate_data_is_told() -> None:
    """A notice says what was written where; an empty write with immediate data has no memory."""
    rig = Rig()
    reader = RingReader(rig.notices, "oldest")
    only = {"opcode": Opcode.RC_WRITE_ONLY_IMMEDIATE, "immediate": 0xCAFE}
    rig.take(
        {**only, "psn": 0, "payload": b"abc", "at": 6}, {**only, "psn": 1, "key": 0},
        write(2, b"s", flags=RoceFlag.SOLICITED), write(3, b"quiet"),
    )  # fmt: skip
    told, _ = reader.read()
    assert told[["address", "length", "immediate", "target", "flags"]].tolist() == [
        (6, 3, 0xCAFE, 0, NoticeFlag.IMMEDIATE), (0, 0, 0xCAFE, 0xFFFF, NoticeFlag.IMMEDIATE),
        (0, 1, 0, 0, NoticeFlag.SOLICITED),
    ]  # fmt: skip
    assert set(told["time_ns"].tolist()) == {5}
    assert set(told["queue_pair"].tolist()) == {rig.number}


def test_a_message_needs_a_buffer() -> None:
    """SEND goes into a posted buffer; without one the answer is RNR NAK, and it may come again."""
    rig = Rig(receives=1)
    send = {"opcode": Opcode.RC_SEND_ONLY, "payload": b"hello"}
    rig.take({**send, "psn": 0})
    assert list(rig.pairs.inbox[rig.number]) == [b"hello"]
    answers = rig.take({**send, "psn": 1})
    assert rig.reasons() == [RoceReason.NOT_READY]
    assert int(answers[0]["syndrome"]) & 0xE0 == Syndrome.NOT_READY
    rig.pairs.of(rig.number)["receives"] = 1
    parts = ((Opcode.RC_SEND_FIRST, bytes(MTU)), (Opcode.RC_SEND_LAST, b"."))
    rig.take(*({"opcode": op, "payload": part, "psn": 1 + i} for i, (op, part) in enumerate(parts)))
    assert rig.pairs.inbox[rig.number][-1] == bytes(MTU) + b"."


def test_a_key_goes_to_a_new_memory() -> None:
    """A new epoch's memory takes what comes under the old key; another size is refused."""
    rig = Rig()
    fresh = np.zeros(BYTES, np.uint8)
    rig.table.retarget(rig.key, fresh)
    rig.take(write(0, b"new"))
    assert fresh[:3].tobytes() == b"new"
    assert not rig.memory.any()
    with pytest.raises(RdmaError, match="4,095"):
        rig.table.retarget(rig.key, fresh[1:])
    with pytest.raises(RdmaError, match="no memory region"):
        rig.table.retarget(rig.key ^ 1, fresh)
