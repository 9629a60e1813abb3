"""The reporter: what it says is read back, and what a NACK names is sent again, once and not for ever."""

from __future__ import annotations

import random

import numpy as np
import pytest

from hopscope.direct.reporter import RETRANSMIT_SLOTS, Reporter
from hopscope.direct.translation.sequence import SequenceTracker
from hopscope.wire.dta.ack import encode_answers
from hopscope.wire.dta.forms import Form
from hopscope.wire.dta.parser import DtaParser
from hopscope.wire.dta.records import DTA_ANSWER
from hopscope.wire.reasons import DtaReason
from hopscope.wire.records import FRAME, FrameBatch, Link
from oracle.dta import parse_scalar
from oracle.dta_codec import DtaAck, push_ack
from support.direct.direct_make import as_bytes

pytestmark = pytest.mark.kernel
NUMBERED = [Form.THREE, Form.SIZED]


def datagrams(payloads: list[bytes]) -> FrameBatch:
    frames = np.zeros(len(payloads), FRAME)
    frames["length"] = frames["wire_length"] = [len(one) for one in payloads]
    frames["offset"] = np.cumsum(frames["length"]) - frames["length"]
    frames["link"] = Link.UDP_PAYLOAD
    return FrameBatch(np.frombuffer(b"".join(payloads), np.uint8), frames)


def ack(form: Form, sequence: int, **fields: int) -> FrameBatch:
    out = bytearray()
    push_ack(out, DtaAck(sequence, bool(fields.pop("nack", 0)), **fields), form)
    return datagrams([bytes(out)])


def numbers(batch: FrameBatch | None, form: Form) -> list[int]:
    return [] if batch is None else parse_scalar(batch, form)["sequence"].tolist()


@pytest.mark.parametrize("form", Form)
def test_all_primitives_are_read_back(form: Form) -> None:
    """Keys, values, lists, counters and hops arrive as they were given, with running numbers."""
    reporter, parser = Reporter(form, first=254), DtaParser(form)
    keys, data = as_bytes(np.arange(5, dtype=np.uint64)), as_bytes(np.arange(5, 10, dtype=np.uint64))
    counts = np.arange(5, dtype=np.uint64) << np.uint64(40)
    hops = np.arange(1, 6)
    frames = (
        reporter.key_write(keys, data, redundancy=2, immediate=True),
        reporter.append(np.arange(5, dtype=np.uint64) + 7, data),
        reporter.key_increment(keys, counts, redundancy=3),
        reporter.postcard(keys, hops, data),
    )
    sequence = 254
    for opcode, batch in enumerate(frames, 1):
        reports = parser.parse(batch)
        assert not reports["reason"].any()
        assert (reports["opcode"] == opcode).all()
        mask = (1 << form.sequence_bits) - 1
        assert reports["sequence"].tolist() == [number & mask for number in range(sequence, sequence + 5)]
        sequence += 5
        for name, want in (("key", keys), ("data", data)):
            got = [batch.arena[at : at + 4].tobytes() for at in reports[f"{name}_at"].tolist()]
            if (opcode, name) not in ((2, "key"), (3, "data")):
                assert got == [row.tobytes() for row in want]
        assert (reports["flags"] == (opcode == 1)).all()
        if opcode == 2:
            assert reports["list"].tolist() == [7, 8, 9, 10, 11]
        if opcode == 3:
            assert reports["counter"].tolist() == counts.tolist()
        if opcode == 4:
            assert reports["hop"].tolist() == hops.tolist()
        assert reports["redundancy"].tolist() == [{1: 2, 3: 3}.get(opcode, 0)] * 5
    assert reporter.counts["sent"] == 20
    assert reporter.receive(ack(Form.THREE, 1)) is None


@pytest.mark.parametrize("form", NUMBERED)
def test_a_lossy_network(form: Form) -> None:
    """Between a reporter and a tracker that lose, double and reorder both reports and NACKs, and a
    translator that rejects some: each report is taken exactly once.
    """
    rng, reporter = random.Random(7), Reporter(form, first=(1 << form.sequence_bits) - 100, tries=200)
    parser, tracker = DtaParser(form), SequenceTracker(form)
    taken: list[int] = []

    def carry(batch: FrameBatch | None) -> FrameBatch | None:
        """To the tracker, as far as it gets there; its NACKs."""
        if batch is None:
            return None
        rows = [row for row in range(len(batch)) for _ in range(rng.choice((0, 1, 1, 1, 1, 1, 1, 2)))]
        for at in range(len(rows) - 1):
            if rng.random() < 0.1:
                rows[at], rows[at + 1] = rows[at + 1], rows[at]
        there = FrameBatch(batch.arena, batch.frames[rows])
        reports = parser.parse(there)
        tracker.track(reports, parser.frames)
        for report in reports:
            if report["reason"] == 0:
                if rng.random() < 0.05:
                    report["reason"] = DtaReason.RATE_LIMITED
                else:
                    at = int(report["key_at"])
                    taken.append(int.from_bytes(there.arena[at : at + 4].tobytes(), "big"))
        answers = tracker.nacks(reports, parser.frames)
        return encode_answers(answers[[rng.random() < 0.9 for _ in answers]], form)

    count = RETRANSMIT_SLOTS[form] // 4
    for start in range(0, 20 * count, count):
        keys = as_bytes(np.arange(start, start + count, dtype=np.uint64))
        nacks = carry(reporter.key_write(keys, keys, retransmit=True))
        for _ in range(12):
            nacks = carry(reporter.receive(nacks)) if nacks is not None else None
            if nacks is None or not len(nacks):  # NACKs are lost, too
                nacks = carry(reporter.retransmit_all())
        nacks = carry(reporter.retransmit_all())
    assert sorted(taken) == list(range(20 * count))
    assert reporter.counts["resent"] > 0 < tracker.counts["duplicate"]
    assert tracker.counts["lost"] == tracker.counts["stale"] == reporter.counts["unsolicited"] == 0


@pytest.mark.parametrize("form", NUMBERED)
def test_what_a_nack_names(form: Form) -> None:
    """The published NACK names the last report that was accepted, and all after it are sent again; ours
    names a run. Reports that did not ask for it are not kept.
    """
    reporter = Reporter(form, first=250)
    keys = as_bytes(np.arange(10, dtype=np.uint64))
    flagged = np.arange(10) % 5 != 3
    reporter.key_write(keys, keys, retransmit=flagged)
    wrap = 1 << form.sequence_bits
    want = [(250 + number) % wrap for number in range(10) if flagged[number]]
    assert reporter.kept == len(want)
    if form is Form.THREE:
        assert numbers(reporter.receive(ack(form, 251, nack=1)), form) == want[2:]
        assert numbers(reporter.receive(ack(form, 249, nack=1)), form) == want
    else:
        assert numbers(reporter.receive(ack(form, 252, nack=1, count=3)), form) == want[2:4]
    assert numbers(reporter.receive(ack(form, want[1])), form) == []
    assert reporter.counts["acknowledged"] == 2
    assert numbers(reporter.retransmit_all(), form) == want[2:]


@pytest.mark.parametrize("form", NUMBERED)
def test_a_nack_and_then_an_acknowledgment(form: Form) -> None:
    """Both come at once: what is acknowledged is not sent again, not even as an empty datagram, over the wrap
    of the numbers, too.
    """
    wrap = 1 << form.sequence_bits
    reporter = Reporter(form, first=wrap - 3)
    keys = as_bytes(np.arange(6, dtype=np.uint64))
    reporter.key_write(keys, keys, retransmit=True)
    late = ack(form, wrap - 3, nack=1, count=5) if form is Form.SIZED else ack(form, wrap - 4, nack=1)
    done = ack(form, 0)
    both = datagrams([bytes(each.arena) for each in (late, done)])
    again = reporter.receive(both)
    want = [1] if form is Form.SIZED else [1, 2]
    assert again is not None
    assert len(again) == len(want)
    assert numbers(again, form) == want
    assert reporter.counts["resent"] == len(want)
    assert reporter.receive(datagrams([bytes(each.arena) for each in (late, ack(form, 2))])) is None


@pytest.mark.parametrize("form", NUMBERED)
def test_the_buffer_is_bounded(form: Form) -> None:
    """A report is sent again so many times, and kept while no more than a bound of others follow it; what is
    asked for beyond that is given up, and counted.
    """
    reporter, slots = Reporter(form, first=0, tries=2), RETRANSMIT_SLOTS[form]
    keys = as_bytes(np.arange(slots + 3, dtype=np.uint64))
    reporter.key_write(keys, keys, retransmit=True)
    assert (reporter.kept, reporter.counts["aged"]) == (slots, 3)
    nack = ack(form, 0, nack=1, count=4) if form is Form.SIZED else ack(form, 255, nack=1)
    first = [3] if form is Form.SIZED else list(range(3, slots + 3))
    for _ in range(2):
        assert numbers(reporter.receive(nack), form) == first
    assert numbers(reporter.receive(nack), form) == []
    assert reporter.counts["given_up"] == 3 * 3 + len(first)


@pytest.mark.parametrize("form", NUMBERED)
def test_hostile_answers(form: Form) -> None:
    """Answers about reports that were never sent, random ones and damaged ones are counted, at most; reports
    are not sent more often than `tries`.
    """
    rng, reporter = random.Random(8), Reporter(form, tries=3)
    assert reporter.receive(ack(form, 5, nack=1, count=int(form is Form.SIZED))) is None
    keys = as_bytes(np.arange(100, dtype=np.uint64))
    reporter.key_write(keys, keys, retransmit=True)
    answers = np.zeros(3000, DTA_ANSWER)
    answers["sequence"] = [rng.getrandbits(32) for _ in answers]
    answers["nack"], answers["count"] = 1, [rng.randrange(65536) for _ in answers]
    sent = 0
    for at in range(0, 3000, 100):
        batch = encode_answers(answers[at : at + 100], form)
        again = reporter.receive(batch)
        sent += 0 if again is None else len(again)
    junk = datagrams([rng.randbytes(rng.randrange(12)) for _ in range(500)])
    reporter.receive(junk)
    assert sent <= 3 * RETRANSMIT_SLOTS[form]
    assert reporter.counts["unsolicited"] > 0 < reporter.counts["damaged"]


def test_unsendable_reports() -> None:
    """Wrong shapes and sizes are one clear line."""
    reporter, four = Reporter(Form.SIZED), np.zeros((2, 4), np.uint8)
    for keys, data, opcode, why in (
        (four, four[:1], 1, "one row each"),
        (four[:, :3], four, 2, "list of 3 bytes"),
        (four, four, 3, "counter of 4 bytes"),
        (np.zeros((2, 256), np.uint8), four, 1, "at most 255"),
    ):
        with pytest.raises(ValueError, match=why):
            reporter.report(opcode, keys, data)
    with pytest.raises(ValueError, match="redundancy"):
        reporter.key_write(four, four, redundancy=256)
    with pytest.raises(ValueError, match="above 4294967295"):
        reporter.append(np.array([1 << 32], np.uint64), four[:1])
    with pytest.raises(ValueError, match="retransmit"):
        Reporter(Form.TWO).key_write(four, four, retransmit=True)
