"""Both sides of a queue pair over a bad channel: everything is done, once, as in memory."""

from __future__ import annotations

import numpy as np
import pytest

from hopscope.memory.ring import RingReader
from hopscope.rdma.apply_kernel import apply
from hopscope.rdma.records import VERB, Syndrome, Verb, VerbBlock, VerbFlag
from hopscope.rdma.requester import LossMode
from hopscope.wire.reasons import RoceReason
from hopscope.wire.records import Records
from hopscope.wire.roce.records import ROCE, Opcode
from support.direct.rdma_channel import Pair

pytestmark = pytest.mark.kernel
SIZES = (1 << 12, 1 << 14)


def random_verbs(count: int, rng: np.random.Generator, longest: int = 700, atomics: bool = True) -> VerbBlock:
    """Verbs of every kind on memories of `SIZES`; every tenth with immediate data."""
    verbs: Records = np.zeros(count, VERB)
    kinds = (Verb.WRITE, Verb.FETCH_ADD, Verb.CMP_SWAP) if atomics else (Verb.WRITE,)
    verbs["kind"] = rng.choice(kinds, count)
    writes = verbs["kind"] == Verb.WRITE
    verbs["target"] = rng.integers(0, len(SIZES), count)
    short = rng.random(count) < 0.9
    verbs["length"] = np.where(
        writes, np.where(short, rng.integers(0, 20, count), rng.integers(0, longest, count)), 0
    )
    room = np.array(SIZES)[verbs["target"]] - verbs["length"]
    verbs["address"] = rng.integers(0, room - 8)
    verbs["address"][~writes] &= ~np.uint64(7)
    verbs["value"], verbs["compare"] = rng.integers(1, 1 << 40, (2, count))
    verbs["compare"][rng.random(count) < 0.5] = 0
    verbs["immediate"] = np.arange(count)
    verbs["flags"][rng.random(count) < 0.1] = VerbFlag.IMMEDIATE
    payload = rng.integers(0, 256, 4096, dtype=np.uint8)
    verbs["payload_at"] = rng.integers(0, 4096 - verbs["length"])
    return VerbBlock(verbs, payload, np.array([count, 4096], np.uint64))


def executed(block: VerbBlock) -> list[np.ndarray]:
    """The memories after these verbs, executed here."""
    memories = [np.zeros(size, np.uint8) for size in SIZES]
    for target, memory in enumerate(memories):
        payload = block.payload.view()
        payload.flags.writeable = False
        apply(block.verbs, np.uint64(0), np.uint64(len(block)), payload, memory, np.uint64(target))
    return memories


def part(block: VerbBlock, first: int, last: int) -> VerbBlock:
    """Some verbs of a block."""
    return VerbBlock(block.verbs[first:last], block.payload, np.array([last - first, 4096], np.uint64))


@pytest.mark.parametrize("rate", [0.0, 0.02])
def test_memory_is_as_if_there_were_no_network(rate: float) -> None:
    """20,000 verbs of every kind, lost, reordered, doubled: the same bytes and notices."""
    pair = Pair(SIZES, rate=rate, window=300, packets=1024)
    block = random_verbs(20_000, np.random.default_rng(7))
    expected = executed(block)
    for first in range(0, len(block), 500):
        pair.requester.submit(part(block, first, first + 500))
        pair.turn()
    pair.drain()
    for memory, wanted in zip(pair.memories, expected, strict=True):
        assert (memory == wanted).all()
    counts = pair.requester.counts()
    assert counts["completed_verbs_total"] == counts["verbs_total"] == len(block)
    assert (counts["retransmitted_packets_total"] > 0) == (rate > 0)
    assert pair.responder.counts[RoceReason.DUPLICATE] > 0 or rate == 0
    told = RingReader(pair.notices, "oldest").read(1 << 14)[0]["immediate"]
    assert told.tolist() == np.flatnonzero(block.verbs["flags"] & VerbFlag.IMMEDIATE).tolist()


def test_no_counter_is_incremented_twice() -> None:
    """5,000 additions of 1 through a channel that loses, reorders and doubles a tenth of all packets."""
    pair = Pair(SIZES, rate=0.1, retries=50)
    verbs: Records = np.zeros(5_000, VERB)
    verbs["kind"], verbs["value"] = Verb.FETCH_ADD, 1
    verbs["address"] = np.random.default_rng(3).integers(0, 64, len(verbs)) * 8
    pair.requester.submit(VerbBlock(verbs, np.zeros(0, np.uint8), np.array([len(verbs), 0], np.uint64)))
    pair.drain()
    expected = np.bincount((verbs["address"] // 8).astype(np.int64), minlength=64)
    assert (pair.memories[0][:512].view("<u8") == expected).all()


def test_a_lost_connection_is_told() -> None:
    """Nobody answers: after the last try it is failed, takes nothing, and has counted what it had."""
    pair = Pair(SIZES, rate=1.0, retries=3)
    pair.requester.submit(random_verbs(100, np.random.default_rng(1)))
    for _ in range(400):
        pair.turn()
    assert "no answer, 3 times" in pair.requester.failed
    assert pair.requester.room() == 0
    pair.requester.submit(random_verbs(7, np.random.default_rng(1)))
    counts = pair.requester.counts()
    assert (counts["given_up_verbs_total"], counts["timeouts_total"]) == (107, 4)
    assert pair.requester.idle


def test_what_the_peer_would_refuse_is_not_sent() -> None:
    """A verb outside of its target, or misaligned, is refused here: a NAK would end the connection."""
    pair = Pair(SIZES)
    verbs: Records = np.zeros(5, VERB)
    verbs["kind"] = [Verb.WRITE, Verb.WRITE, Verb.FETCH_ADD, Verb.CMP_SWAP, 9]
    verbs["target"] = [2, 0, 0, 0, 0]
    verbs["address"] = [0, SIZES[0] - 1, 4, SIZES[0], 0]
    verbs["length"] = 2
    pair.requester.submit(VerbBlock(verbs, np.zeros(8, np.uint8), np.array([5, 8], np.uint64)))
    assert pair.requester.counts()["rejected_verbs_total"] == 5
    assert pair.requester.idle


def test_a_nak_ends_the_connection() -> None:
    """A region that is gone at the peer: its NAK fails the requester, and what is behind is given up."""
    pair = Pair(SIZES)
    pair.table.rows["used"] = 0
    pair.requester.submit(random_verbs(50, np.random.default_rng(5)))
    pair.turn()
    assert f"{Syndrome.ACCESS_ERROR:#04x}" in pair.requester.failed
    assert not any(memory.any() for memory in pair.memories)
    counts = pair.requester.counts()
    assert counts["given_up_verbs_total"] + counts["completed_verbs_total"] == 50


def test_a_message_waits_for_a_buffer() -> None:
    """SEND without a posted buffer: RNR NAK, and sent again after its time, also in several packets."""
    pair = Pair(SIZES)
    message = bytes(range(200)) * 4
    pair.requester.send(message)
    pair.turn()
    assert not pair.pairs.inbox[pair.number]
    pair.pairs.of(pair.number)["receives"] = 1
    pair.drain()
    assert list(pair.pairs.inbox[pair.number]) == [message]
    assert pair.requester.counts()["not_ready_naks_total"] >= 1


def test_resynchronisation() -> None:
    """DTA 5.2: after a loss the NAK's number is taken, the next reports are dropped, and then all is well."""
    pair = Pair(SIZES, mode=LossMode.RESYNC, rate=0.0, resync_drop=50)
    verbs: Records = np.zeros(300, VERB)
    verbs["kind"], verbs["length"], verbs["address"] = Verb.WRITE, 1, np.arange(300)
    block = VerbBlock(verbs, np.ones(1, np.uint8), np.array([300, 4096], np.uint64))
    pair.requester.submit(part(block, 0, 100))
    pair.turn()
    pair.there.rate = 1.0
    pair.requester.submit(part(block, 100, 110))
    pair.turn()
    pair.there.rate, pair.there.late = 0.0, (np.zeros(0, ROCE), np.zeros(0, np.uint8))
    for first in range(110, 300, 10):
        pair.requester.submit(part(block, first, first + 10))
        pair.turn()
    written = np.flatnonzero(pair.memories[0])
    assert written.tolist() == [*range(100), *range(170, 300)]
    counts = pair.requester.counts()
    assert (counts["resynchronisations_total"], counts["dropped_verbs_total"]) == (1, 50)
    assert counts["abandoned_packets_total"] == 20


def test_resynchronisation_survives_a_bad_channel() -> None:
    """Losses, duplicates and late NAKs: it comes back every time, and most of what is sent is written."""
    pair = Pair(SIZES, mode=LossMode.RESYNC, rate=0.003, resync_drop=20)
    block = random_verbs(40_000, np.random.default_rng(2), longest=100, atomics=False)
    for first in range(0, len(block), 20):
        pair.requester.submit(part(block, first, first + 20))
        pair.turn()
    counts = pair.requester.counts()
    assert counts["resynchronisations_total"] > 50
    assert pair.responder.counts[RoceReason.NONE] > 0.5 * counts["packets_total"]
    assert counts["verbs_total"] + counts["dropped_verbs_total"] == len(block)


def test_unreliable_connection() -> None:
    """UC: nothing comes back; what arrives is written, and what is lost stays lost."""
    pair = Pair(SIZES, mode=LossMode.UNRELIABLE)
    block = random_verbs(5_000, np.random.default_rng(4), atomics=False)
    for first in range(0, len(block), 250):
        pair.requester.submit(part(block, first, first + 250))
        pair.there.rate = 1.0 if first == 1000 else 0.0
        pair.turn()
        if first == 1000:
            pair.there.late = (np.zeros(0, ROCE), np.zeros(0, np.uint8))
    assert pair.requester.idle
    kept = np.r_[0:1000, 1250:5000]
    block.verbs = block.verbs[kept]
    block.fill[0] = len(kept)
    for memory, wanted in zip(pair.memories, executed(block), strict=True):
        assert (memory == wanted).all()


def test_congestion_notifications_halve_the_window() -> None:
    """A CNP halves what may be on its way, and what is acknowledged gives it back."""
    pair = Pair(SIZES, window=256)
    notification = np.zeros(1, ROCE)
    notification["opcode"], notification["queue_pair"], notification["partition"] = Opcode.CNP, 0x77, 0xFFFF
    notification["source_hi"], notification["source_lo"] = pair.requester.link.peer
    pair.requester.receive(notification, 0)
    pair.requester.submit(random_verbs(1000, np.random.default_rng(4), atomics=False))
    sent = pair.requester.packets(1)
    assert sent is not None
    assert len(sent[0]) == 128
    assert pair.requester.packets(2) is None
    assert pair.requester.counts()["congestion_notifications_total"] == 1
    for _ in range(400):
        pair.turn()
    assert pair.requester.idle
    pair.requester.submit(random_verbs(1000, np.random.default_rng(4), atomics=False))
    again = pair.requester.packets(pair.now)
    assert again is not None
    assert len(again[0]) == 256
