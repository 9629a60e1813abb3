"""Two ends with connection management, advertisement and data, frame by frame, without sockets."""

from __future__ import annotations

import numpy as np
import pytest

from hopscope.rdma import reorder
from hopscope.rdma.advertisement import RemoteRegion, encode
from hopscope.rdma.endpoint import MAX_OF_PEER, Endpoint
from hopscope.rdma.records import VERB, Sender, Verb, VerbBlock
from hopscope.rdma.requester import LossMode
from hopscope.wire.address import number_of
from hopscope.wire.reasons import RoceReason
from hopscope.wire.records import FrameBatch, Records
from hopscope.wire.roce.frames import RoceFrames
from hopscope.wire.roce.records import Opcode, RoceFlag
from support.direct.rdma_ends import NIC, PORT, TRANSLATOR, Ends, writes

pytestmark = pytest.mark.kernel


@pytest.mark.parametrize("mode", LossMode)
def test_from_nothing_to_memory(mode: LossMode) -> None:
    """REQ to RTU, the advertisement by SEND, verbs by packets with ICRC, and the end by DREQ."""
    ends = Ends()
    session = ends.connect(mode)
    assert session.ready
    assert session.advertisement.named("store").length == len(ends.memory)
    assert session.room() > 1000
    session.submit(writes(3000))
    for _ in range(20):
        ends.turn()
    assert ends.memory[:3000].all()
    assert not ends.memory[3000:].any()
    ends.translator.disconnect(session, ends.now)
    for _ in range(20):
        ends.turn()
    assert session.lost == "disconnected"
    assert not ends.nic.sessions
    assert not ends.translator.sessions
    assert session.room() == 0


def test_an_unknown_service_is_refused() -> None:
    """A REJ says so, and the session knows why."""
    ends = Ends()
    session = ends.translator.connect(NIC, PORT + 1, 0)
    for _ in range(5):
        ends.turn()
    assert session.lost.startswith("rejected")
    assert not ends.nic.sessions


def test_a_silent_nic_is_given_up() -> None:
    """Nobody there: the request is repeated, and then given up."""
    ends = Ends()
    ends.lost = lambda batch: True
    session = ends.translator.connect(NIC, PORT, 0)
    for _ in range(200):
        ends.turn(100)
    assert "no answer" in session.lost
    assert not ends.translator.sessions


def test_a_peer_has_so_many_connections() -> None:
    """Whoever was killed 16 times and connects again loses his oldest, and everything else still works."""
    ends = Ends()
    sessions = [ends.connect() for _ in range(MAX_OF_PEER + 3)]
    for _ in range(5):
        ends.turn()
    assert len(ends.nic.sessions) == MAX_OF_PEER
    assert [bool(session.lost) for session in sessions] == [True] * 3 + [False] * MAX_OF_PEER
    sessions[-1].submit(writes(10))
    sessions[3].submit(writes(20, 2))
    for _ in range(5):
        ends.turn()
    assert (ends.memory[:20] > 0).all()


def test_a_refused_request_ends_the_connection_and_a_new_one_works() -> None:
    """The region's key is gone: NAK, error state, DREQ; a new connection brings the new key."""
    ends = Ends()
    session = ends.connect()
    rows = ends.nic.table.rows.copy()
    ends.nic.table.rows["used"] = 0
    session.submit(writes(10))
    for _ in range(20):
        ends.turn()
    assert "NAK" in session.lost
    assert session.requester is not None
    assert session.requester.counts()["given_up_verbs_total"] == 10
    assert not ends.nic.sessions
    ends.nic.table.rows[:] = rows
    again = ends.connect()
    again.submit(writes(10))
    for _ in range(20):
        ends.turn()
    assert ends.memory[:10].all()


def test_disorder_within_a_batch_is_no_loss() -> None:
    """200 packets in any order, some twice: all are executed, none is missing, around the wrap too."""
    ends = Ends()
    session = ends.connect()
    number = session.connection.remote_queue_pair
    for start in (0xFFFFA0, None):
        if start is not None:
            ends.nic.pairs.of(number)["expected_psn"] = start
            assert session.requester is not None
            session.requester._state[Sender.PSN] = (
                start - int(session.requester._state[Sender.NEXT])
            ) & 0xFFFFFF
        session.submit(writes(200, value=1 if start else 2))
        batch = ends.translator.frames(ends.now)[0]
        order = np.random.default_rng(5).permutation(np.r_[0:200, 3:9])
        frames = batch.frames[order].copy()
        frames["source_lo"] = number_of(TRANSLATOR)
        ends.nic.receive(FrameBatch(batch.arena, frames), ends.now, 0)
        ends.turn()
        ends.turn()
        assert session.idle
        assert (ends.memory[:200] == (1 if start else 2)).all()
    assert ends.nic.responder.counts[RoceReason.PSN_GAP] == 0
    assert ends.nic.responder.counts[RoceReason.DUPLICATE] == 12


def test_what_is_behind_a_loss_is_held() -> None:
    """One of 100 packets is lost: a NAK names it, it comes alone, and all are executed, once."""
    ends = Ends()
    session = ends.connect()
    verbs: Records = np.zeros(100, VERB)
    verbs["kind"], verbs["value"], verbs["address"] = Verb.FETCH_ADD, 1, np.arange(100) % 5 * 8
    session.submit(VerbBlock(verbs, np.zeros(1, np.uint8), np.array([100, 0], np.uint64)))
    batch = ends.translator.frames(ends.now)[0]
    batch.frames["source_lo"] = number_of(TRANSLATOR)
    ends.nic.receive(FrameBatch(batch.arena, np.delete(batch.frames, 30)), ends.now, 0)
    assert ends.memory[:40].view("<u8").tolist() == [6] * 5
    assert len(ends.nic._reorder) == 69
    ends.nic.receive(FrameBatch(batch.arena, batch.frames[50:60]), ends.now, 0)
    assert len(ends.nic._reorder) == 69
    ends.nic.receive(FrameBatch(batch.arena, batch.frames[30:31]), ends.now, 0)
    assert ends.memory[:40].view("<u8").tolist() == [20] * 5
    assert len(ends.nic._reorder) == 0
    for _ in range(3):
        ends.turn()
    assert session.idle
    assert ends.memory[:40].view("<u8").tolist() == [20] * 5
    assert ends.nic.responder.counts[RoceReason.PSN_GAP] == 10


def test_marked_packets_are_told() -> None:
    """A packet marked by congestion makes the NIC send a CNP, which halves the sender's window."""
    ends = Ends()
    session = ends.connect()
    number = session.connection.remote_queue_pair
    codec = RoceFrames(TRANSLATOR)
    session.submit(writes(1))
    assert session.requester is not None
    sent = session.requester.packets(ends.now)
    assert sent is not None
    rows = sent[0].copy()
    rows["flags"] = RoceFlag.FECN | RoceFlag.ACK_REQUEST
    batch = codec.build(rows, sent[1])
    batch.frames["source_lo"] = number_of(TRANSLATOR)
    ends.nic.receive(batch, ends.now, 0)
    for _ in range(3):
        ends.turn()
    assert int(rows["queue_pair"][0]) == number
    assert ends.nic.notifications == 1
    assert session.requester.counts()["congestion_notifications_total"] == 1


def test_damaged_frames_change_nothing() -> None:
    """Each byte of a write changed in turn: its ICRC is wrong, no memory changes, and it is counted."""
    ends = Ends()
    session = ends.connect()
    session.submit(writes(1, value=0xFF))
    good = ends.translator.frames(ends.now)[0]
    good.frames["source_hi"], good.frames["source_lo"] = 0, number_of(TRANSLATOR)
    length = int(good.frames["length"][0])
    for place in set(range(length)) - {4}:  # FECN and BECN, which the CRC leaves out
        arena = good.arena.copy()
        arena[place] ^= 0x5A
        ends.nic.receive(FrameBatch(arena, good.frames), ends.now, 0)
    assert not ends.memory.any()
    refused = ends.nic.responder.counts[1:].sum()
    assert refused >= length - 1
    assert ends.nic.responder.counts[RoceReason.BAD_ICRC] > 30
    ends.nic.receive(good, ends.now, 0)
    assert ends.memory[0] == 0xFF
    assert int(good.arena[0]) == Opcode.RC_WRITE_ONLY


def test_a_peer_that_asked_for_nonsense_and_is_gone_is_forgotten() -> None:
    """A request was refused, and nobody ends the connection: the NIC does, and its queue pair is free."""
    ends = Ends()
    session = ends.connect()
    assert next(iter(ends.nic.sessions.values())).requester is None
    ends.nic.table.rows["used"] = 0
    session.submit(writes(1))
    batch = ends.translator.frames(ends.now)[0]
    batch.frames["source_lo"] = number_of(TRANSLATOR)
    ends.nic.receive(batch, ends.now, 0)
    for _ in range(20):
        ends.now += 1_000_000_000
        ends.nic.frames(ends.now)
    assert not ends.nic.sessions
    assert not ends.nic.pairs.rows["number"].any()


def test_what_was_held_goes_with_its_connection() -> None:
    """A gap that is never closed takes no room from others once its connection has ended."""
    ends = Ends()
    session = ends.connect()
    session.submit(writes(100))
    batch = ends.translator.frames(ends.now)[0]
    batch.frames["source_lo"] = number_of(TRANSLATOR)
    ends.nic.receive(FrameBatch(batch.arena, batch.frames[1:]), ends.now, 0)
    assert len(ends.nic._reorder) == 99
    ends.translator.disconnect(session, ends.now)
    ends.turn()
    assert not ends.nic.sessions
    assert len(ends.nic._reorder) == 0


def test_requests_in_anothers_name_do_not_end_its_connection() -> None:
    """Many connections are asked for in the name of a peer that never hears of them: its own stays."""
    ends = Ends()
    session = ends.connect()
    stranger = Endpoint(TRANSLATOR)
    for _ in range(3 * MAX_OF_PEER):
        stranger.connect(NIC, PORT, ends.now)
        for batch in stranger.frames(ends.now):
            batch.frames["source_lo"] = number_of(TRANSLATOR)
            ends.nic.receive(batch, ends.now, 0)
    session.submit(writes(10))
    ends.turn()
    assert not session.lost
    assert ends.memory[:10].all()
    assert len(ends.nic.sessions) == MAX_OF_PEER


def test_a_peer_with_many_connections_is_not_cut_by_requests_in_its_name() -> None:
    """All of its connections are established; a stranger's requests end none of them."""
    ends = Ends()
    sessions = [ends.connect() for _ in range(MAX_OF_PEER)]
    stranger = Endpoint(TRANSLATOR)
    for _ in range(MAX_OF_PEER):
        stranger.connect(NIC, PORT, ends.now)
        for batch in stranger.frames(ends.now):
            batch.frames["source_lo"] = number_of(TRANSLATOR)
            ends.nic.receive(batch, ends.now, 0)
    for _ in range(5):
        ends.turn()
    assert not any(session.lost for session in sessions)
    assert len(ends.nic.sessions) == MAX_OF_PEER


def test_packets_after_a_gap_cost_nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """A peer that never sends what is missing keeps its share, and what others lost still comes at once."""
    monkeypatch.setattr(reorder, "PAIR_BYTES", 4096)
    monkeypatch.setattr(reorder, "MAX_BYTES", 6000)
    ends = Ends()
    flooding, other = ends.connect(), ends.connect()
    for session, count in ((flooding, 1000), (other, 200)):
        session.submit(writes(count))
        batch = ends.translator.frames(ends.now)[0]
        batch.frames["source_lo"] = number_of(TRANSLATOR)
        ends.nic.receive(FrameBatch(batch.arena, batch.frames[1:]), ends.now, 0)
    number = other.connection.remote_queue_pair
    assert ends.nic._reorder._waiting[number].packets == 199
    assert sum(waiting.size for waiting in ends.nic._reorder._waiting.values()) <= 6000
    ends.nic.receive(FrameBatch(batch.arena, batch.frames[:1]), ends.now, 0)
    assert number not in ends.nic._reorder._waiting
    for _ in range(20):
        ends.turn()
    assert other.idle
    assert ends.memory[:200].all()


def test_as_many_regions_as_a_nic_has_are_told() -> None:
    """256 regions at an MTU of 1024 are 86 messages, and there are buffers for all."""
    ends = Ends()
    regions = [RemoteRegion(f"store{n}", n << 20, 1 << 20, n + 1, 3) for n in range(256)]
    ends.nic.serve(PORT, lambda connection: encode(regions, connection.path_mtu))
    session = ends.connect()
    assert session.ready
    assert len(session.advertisement.regions) == 256
