"""Connections by RDMA-CM: both sides agree, whatever the network does; strangers change nothing."""

from __future__ import annotations

import dataclasses
import random
from typing import Any

import pytest

from hopscope.rdma.connection import (
    MILLISECOND,
    Accept,
    Connection,
    ConnectionState,
    HandshakeLimits,
    service_of,
)
from hopscope.rdma.handshake import Connections
from hopscope.wire.roce.cm import (
    MESSAGES,
    CmReject,
    Disconnect,
    Disconnected,
    Message,
    Ready,
    Reject,
    Reply,
    Request,
    pull_message,
    push_message,
)

A, B, C = 0xFFFF_7F00_0002, 0xFFFF_7F00_0001, 0xFFFF_7F00_0003
SERVICE = service_of(1330)
GOOD = Request(local_id=9, service=SERVICE, queue_pair=0x55, private=b"\0\x40")


class Network:
    """Carries messages between two sides, and loses, doubles and delays them."""

    def __init__(self, loss: float = 0.0, seed: int = 1, limits: HandshakeLimits | None = None) -> None:
        self.rng = random.Random(seed)
        self.loss = loss
        self.now = 1_000_000_000
        self.asked: list[Connection] = []
        self.accept: Accept | CmReject = Accept(0x2000, 77, b"welcome")
        limits = limits or HandshakeLimits()
        self.sides = {
            A: Connections(A, limits=limits, rng=random.Random(seed)),
            B: Connections(B, {SERVICE: self.answer}, limits=limits, rng=random.Random(seed + 1)),
        }
        self.under_way: list[tuple[int, int, int, bytes]] = []
        self.log: list[Message] = []

    def answer(self, connection: Connection) -> Accept | CmReject:
        self.asked.append(connection)
        return self.accept

    def put(self, source: int, to: int, message: Message) -> None:
        self.log.append(message)
        copies = 0 if self.rng.random() < self.loss else 1 + (self.rng.random() < self.loss)
        for _ in range(copies):
            delay = self.rng.randrange(1, 300 if self.loss else 2) * MILLISECOND
            self.under_way.append((self.now + delay, source, to, push_message(message)))

    def run(self, milliseconds: int) -> None:
        for _ in range(milliseconds // 10):
            self.now += 10 * MILLISECOND
            for address, side in self.sides.items():
                for to, message in side.outgoing(self.now):
                    self.put(address, to, message)
            due = sorted(one for one in self.under_way if one[0] <= self.now)
            self.under_way = [one for one in self.under_way if one[0] > self.now]
            for _, source, to, raw in due:
                if to in self.sides:
                    self.sides[to].receive(source, pull_message(raw), self.now)

    def connect(self, **fields: object) -> Connection:
        return self.sides[A].connect(B, SERVICE, 0x1000, 5, self.now, **fields)  # type: ignore[arg-type]


def test_both_sides_know_the_same() -> None:
    """REQ, REP, RTU: queue pairs, first numbers, MTU, service and private data are known to both."""
    net = Network()
    active = net.connect(path_mtu=2048, private=b"hello")
    net.run(100)
    (passive,) = net.asked
    assert active.state is passive.state is ConnectionState.ESTABLISHED
    assert (active.queue_pair, active.psn) == (passive.remote_queue_pair, passive.remote_psn) == (0x1000, 5)
    assert (passive.queue_pair, passive.psn) == (active.remote_queue_pair, active.remote_psn) == (0x2000, 77)
    assert active.path_mtu == passive.path_mtu == 2048
    assert active.reliable
    assert passive.reliable
    assert (passive.private, active.private) == (b"hello", b"welcome")
    assert (passive.peer, active.peer) == (A, B)
    assert [type(one) for one in net.log] == [Request, Reply, Ready]
    assert net.sides[A].changes() == [active]
    assert net.sides[B].changes() == [passive]
    assert net.sides[A].changes() == []


def test_an_unreliable_connection() -> None:
    """UC is asked for and granted as such."""
    net = Network()
    net.connect(reliable=False)
    net.run(100)
    assert not net.asked[0].reliable
    assert net.asked[0].state is ConnectionState.ESTABLISHED


@pytest.mark.parametrize("from_active", [True, False])
def test_disconnecting(from_active: bool) -> None:
    """DREQ and DREP: either side ends it, both know, and both forget it after a while."""
    net = Network()
    active = net.connect()
    net.run(100)
    passive = net.asked[0]
    side, one = (A, active) if from_active else (B, passive)
    net.sides[side].disconnect(one, net.now)
    net.run(100)
    assert active.state is passive.state is ConnectionState.CLOSED
    assert {active.why, passive.why} == {"disconnected", "disconnected by the peer"}
    net.run(3000)
    assert not any(side._by_id or side._passive for side in net.sides.values())


@pytest.mark.parametrize("seed", range(20))
def test_a_bad_network(seed: int) -> None:
    """A third of all messages lost, as many doubled, all delayed by up to 0.3 s: made once, and ended."""
    net = Network(0.33, seed)
    active = net.connect()
    net.run(15_000)
    (passive,) = net.asked
    assert [one.state for one in (active, passive)] == [ConnectionState.ESTABLISHED] * 2
    assert active.remote_queue_pair == passive.queue_pair
    net.sides[A].disconnect(active, net.now)
    net.run(15_000)
    assert [one.state for one in (active, passive)] == [ConnectionState.CLOSED] * 2
    assert net.sides[B].counters.established == net.sides[A].counters.established == 1
    assert len(net.asked) == 1


def test_nobody_answers() -> None:
    """The REQ is repeated at growing intervals, then the connection is closed with a reason."""
    net = Network(limits=HandshakeLimits(timeout_ns=100 * MILLISECOND, repeats=3))
    lone = net.sides[A].connect(C, SERVICE, 0x1000, 5, net.now)
    net.run(1400)
    assert len(net.log) == 4
    assert (lone.state, lone.why) == (ConnectionState.REQUESTED, "")
    net.run(300)
    assert (lone.state, lone.why) == (ConnectionState.CLOSED, "no answer to 4 messages")
    assert net.sides[A].changes() == [lone]
    assert net.sides[A].counters.timeouts == 1


def test_an_rtu_that_never_comes() -> None:
    """A half-open connection is closed after its repetitions, and the peer is told; `confirm` stands in."""
    net = Network(limits=HandshakeLimits(timeout_ns=100 * MILLISECOND, repeats=2))
    side = net.sides[B]
    for number in (1, 2):
        side.receive(C, dataclasses.replace(GOOD, local_id=number, queue_pair=8 + number), net.now)
    side.confirm(net.asked[1])
    assert net.asked[1].state is ConnectionState.ESTABLISHED
    net.run(1000)
    assert net.asked[0].state is ConnectionState.CLOSED
    reject = net.log[-1]
    assert isinstance(reject, Reject)
    assert (reject.reason, reject.remote_id) == (CmReject.TIMEOUT, 1)
    assert net.asked[1].state is ConnectionState.ESTABLISHED


def test_a_peer_that_restarts_with_its_old_number() -> None:
    """A REQ of another transaction is a new one, which replaces the old connection once it is established; a
    repeated REQ is answered with the same REP.
    """
    net = Network()
    side = net.sides[B]
    again = dataclasses.replace(GOOD, transaction=2, psn=GOOD.psn + 1)
    side.receive(C, GOOD, net.now)
    side.confirm(net.asked[0])
    for request in (again, again):
        side.receive(C, request, net.now)
    first, second = net.asked
    replies = [message for _, message in side.outgoing(net.now) if isinstance(message, Reply)]
    assert [reply.local_id for reply in replies] == [first.local_id, second.local_id, second.local_id]
    assert first.state is ConnectionState.ESTABLISHED
    side.confirm(second)
    assert [each.state for each in net.asked] == [ConnectionState.CLOSED, ConnectionState.ESTABLISHED]
    assert second.remote_psn == again.psn


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"service": service_of(1331)}, CmReject.INVALID_SERVICE),
        ({"class_version": 1}, CmReject.UNSUPPORTED_CLASS_VERSION),
        ({"service_type": 2}, CmReject.INVALID_SERVICE_TYPE),
        ({"extended_type": 1}, CmReject.INVALID_SERVICE_TYPE),
        ({"private": b"\x10\x40"}, CmReject.UNSUPPORTED_REQUEST),
        ({"private": b"\0\x50"}, CmReject.UNSUPPORTED_REQUEST),
        ({"queue_pair": 1}, CmReject.UNSUPPORTED_REQUEST),
        ({"path_mtu": 0}, CmReject.INVALID_MTU),
        ({"path_mtu": 5}, CmReject.INVALID_MTU),
        ({}, CmReject.CONSUMER),
    ],
)
def test_requests_that_are_refused(fields: dict[str, object], reason: CmReject) -> None:
    """Unknown service, versions, transport, queue pair, MTU, or the owner's no: a REJ that says so."""
    net = Network(limits=HandshakeLimits(path_mtu=1024))
    net.accept = CmReject.CONSUMER
    side = net.sides[B]
    side.receive(C, dataclasses.replace(GOOD, **fields), net.now)  # type: ignore[arg-type]
    ((to, reject),) = side.outgoing(net.now)
    assert to == C
    assert isinstance(reject, Reject)
    assert (reject.reason, reject.remote_id, reject.rejected) == (reason, 9, 0)
    assert (reject.info_length, reject.info >> 568) == ((1, 3) if reason is CmReject.INVALID_MTU else (0, 0))
    assert side.counters.rejected == 1
    assert not side._by_id


def test_the_asker_hears_why() -> None:
    """A REJ closes the connection with its reason in words."""
    net = Network()
    net.accept = CmReject.NO_QUEUE_PAIR
    active = net.connect()
    net.run(100)
    assert (active.state, active.why) == (ConnectionState.CLOSED, "rejected: no queue pair")


def test_half_open_connections_are_few() -> None:
    """A flood of requests without RTU takes no more than its share, and a REJ says so."""
    net = Network(limits=HandshakeLimits(half_open=8))
    side = net.sides[B]
    for number in range(1, 101):
        side.receive(C + number, dataclasses.replace(GOOD, local_id=number), net.now)
    answers = [message for _, message in side.outgoing(net.now)]
    assert sum(isinstance(one, Reply) for one in answers) == 8
    refused = [one.reason for one in answers if isinstance(one, Reject)]
    assert refused == [CmReject.NO_RESOURCES] * 92
    assert len(side._by_id) == 8


def test_requests_in_others_names_do_not_keep_a_peer_out() -> None:
    """100 requests a second from addresses that never answer, and a peer still connects, again and again."""
    net = Network(limits=HandshakeLimits(half_open=8))
    side = net.sides[B]
    for number in range(1, 301):
        stranger = C + number % 8
        side.receive(stranger, dataclasses.replace(GOOD, local_id=number, queue_pair=9 + number), net.now)
        if number % 50 == 0:
            active = net.connect()
            net.run(100)
            assert active.state is ConnectionState.ESTABLISHED
        net.run(10)
    assert len(side._by_id) <= 8 + 6 + 1


def test_a_request_in_anothers_name_ends_nothing() -> None:
    """With a peer's address and queue pair, but without the number that only the peer is sent."""
    net = Network()
    side = net.sides[B]
    side.receive(C, GOOD, net.now)
    mine = net.asked[0]
    side.receive(C, Ready(local_id=9, remote_id=mine.local_id), net.now)
    for number in range(10, 30):
        side.receive(C, dataclasses.replace(GOOD, local_id=number), net.now)
        side.receive(C, Ready(local_id=number, remote_id=number), net.now)
    net.run(20_000)
    assert mine.state is ConnectionState.ESTABLISHED
    assert side.changes().count(mine) == 1


def test_a_peer_that_starts_again() -> None:
    """A new request for the same queue pair replaces the peer's old connection, which is told as closed."""
    net = Network()
    side = net.sides[B]
    for number in (1, 2):
        side.receive(C, dataclasses.replace(GOOD, local_id=number), net.now)
        side.receive(C, Ready(local_id=number, remote_id=net.asked[-1].local_id), net.now)
    old, new = net.asked
    assert (old.state, new.state) == (ConnectionState.CLOSED, ConnectionState.ESTABLISHED)
    assert "replaced" in old.why
    assert side.changes() == [old, old, new]


def established() -> tuple[Network, Connection, Connection]:
    net = Network()
    active = net.connect()
    net.run(100)
    for side in net.sides.values():
        side.changes()
    return net, active, net.asked[0]


def test_strangers_change_nothing() -> None:
    """Messages of others, with numbers guessed wrong or from another address, end nothing and are counted."""
    net, active, passive = established()
    side = net.sides[B]
    right: dict[str, Any] = {"local_id": passive.remote_id, "remote_id": passive.local_id}
    before = dataclasses.replace(passive)
    tries = [
        (C, Disconnect(**right, queue_pair=passive.queue_pair)),
        (A, Disconnect(local_id=right["local_id"], remote_id=1, queue_pair=passive.queue_pair)),
        (A, Disconnect(local_id=1, remote_id=right["remote_id"], queue_pair=passive.queue_pair)),
        (A, Disconnect(**right, queue_pair=3)),
        (C, Reject(**right)),
        (A, Reject(local_id=1, remote_id=right["remote_id"])),
        (C, Ready(**right)),
        (C, Disconnected(**right)),
        (C, Reply(**right, queue_pair=4)),
        (A, Reply(**right, queue_pair=4)),
    ]
    for peer, message in tries:
        side.receive(peer, message, net.now)
    assert side.counters.unknown == len(tries)
    assert dataclasses.replace(passive) == before
    assert active.state is ConnectionState.ESTABLISHED
    kinds = [type(message) for _, message in side.outgoing(net.now)]
    assert kinds.count(Reject) == 2  # to the REPs that nobody asked for
    assert kinds.count(Disconnected) == 3


def test_duplicates_are_answered_again() -> None:
    """A REQ gets the same REP, a REP another RTU, a DREQ another DREP; nothing is made twice."""
    net, active, passive = established()
    request, reply, ready = net.log
    a, b = net.sides[A], net.sides[B]
    b.receive(A, request, net.now)
    assert b.outgoing(net.now) == [(A, reply)]
    a.receive(B, reply, net.now)
    assert a.outgoing(net.now) == [(B, ready)]
    b.receive(A, ready, net.now)
    assert b.outgoing(net.now) == []
    a.disconnect(active, net.now)
    ((_, goodbye),) = a.outgoing(net.now)
    for _ in range(2):
        b.receive(A, goodbye, net.now)
    first, second = b.outgoing(net.now)
    assert first == second
    assert isinstance(first[1], Disconnected)
    assert b.counters.established == b.counters.closed == 1
    assert b.counters.duplicates == 3
    assert passive.state is ConnectionState.CLOSED


def test_any_messages_at_all() -> None:
    """50,000 random messages of a few peers, some with the right numbers: no exception, and limits hold."""
    net = Network(limits=HandshakeLimits(half_open=16, connections=40))
    rng = random.Random(11)
    side = net.sides[B]
    for _ in range(50_000):
        kind = rng.choice(list(MESSAGES.values()))
        numbers = [*side._by_id, *(one.remote_id for one in side._by_id.values()), rng.getrandbits(32)]
        fields: dict[str, Any] = {
            name: rng.choice([0, rng.getrandbits(mask.bit_length())]) for name, _, mask in kind.header.shifts
        }
        fields["local_id"] = rng.choice([*numbers, rng.randrange(4)])
        if "remote_id" in fields:
            fields["remote_id"] = rng.choice(numbers)
        if "service" in fields:
            fields |= {"service": SERVICE, "extended_type": 0, "path_mtu": rng.randrange(7)}
        if "queue_pair" in fields:
            fields["queue_pair"] = rng.choice([0, 2, 3, 0x2000])
        private = rng.choice([b"", b"\0\x40", b"\0\x60abc"])
        net.now += 50 * MILLISECOND
        side.receive(A + rng.randrange(4), kind(private=private, **fields), net.now)
        if rng.random() < 0.1:
            side.outgoing(net.now)
            side.changes()
        assert len(side._by_id) <= 40
        assert sum(one.state is ConnectionState.REPLIED for one in side._by_id.values()) <= 16
    assert side.counters.established > 10
    assert side.counters.unknown > 10
    assert side.counters.timeouts > 10


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"path_mtu": 1500}, "path MTU: found 1500, expected one of 256, 512"),
        ({"private": bytes(57)}, "57 bytes of"),
    ],
)
def test_what_cannot_be_asked_for(fields: dict[str, object], message: str) -> None:
    """An MTU that InfiniBand does not have, or too much private data, is a clear error."""
    with pytest.raises(ValueError, match=message):
        Network().connect(**fields)
