"""Hostile peers: packets with a right ICRC and all else wrong neither stop an endpoint nor change memory."""

from __future__ import annotations

import numpy as np
import pytest

from hopscope.rdma import management
from hopscope.rdma.connection import service_of
from hopscope.wire.address import number_of
from hopscope.wire.records import Records
from hopscope.wire.roce import layout
from hopscope.wire.roce.frames import RoceFrames
from hopscope.wire.roce.records import ROCE
from support.direct.rdma_ends import NIC, TRANSLATOR, Ends, writes

pytestmark = pytest.mark.kernel
OPCODES = [code for code in range(256) if layout.ROCE_HEADERS[code]]


def noise(rng: np.random.Generator, ends: Ends, count: int) -> tuple[Records, np.ndarray]:
    """Packets whose fields are random or right, each by chance; the key is never right."""
    rows: Records = np.frombuffer(rng.bytes(count * ROCE.itemsize), ROCE).copy()
    rows["opcode"] = rng.choice(OPCODES, count)
    numbers = [*ends.nic.sessions, 1, 0, 77]
    rows["queue_pair"] = rng.choice(numbers, count)
    rows["partition"] = np.where(rng.random(count) < 0.9, 0xFFFF, rows["partition"])
    near = rng.random(count) < 0.8
    expected = ends.nic.pairs.rows["expected_psn"][rows["queue_pair"] % 256]
    rows["psn"] = np.where(near, expected + rng.integers(0, 3, count), rows["psn"]) & 0xFFFFFF
    rows["payload_at"] = 0
    with_payload = np.array([bool(layout.ROCE_HEADERS[code] & layout.HAS_PAYLOAD) for code in rows["opcode"]])
    rows["payload_bytes"] = np.where(with_payload, rng.choice([0, 1, 8, 256, 1024, 1030], count), 0)
    rows["source_hi"], rows["source_lo"] = 0, number_of(NIC)
    return rows, rng.integers(0, 256, 2000, dtype=np.uint8)


def test_noise_from_a_connected_peer() -> None:
    """150 batches on live connections, some of which they end; new ones are made, and work, in between."""
    rng = np.random.default_rng(21)
    ends = Ends()
    codec = RoceFrames(TRANSLATOR)
    for number in range(150):
        if number % 15 == 0:
            session = ends.connect()
            session.submit(writes(5))
            for _ in range(4):
                ends.turn()
            assert ends.memory[:5].all()
            ends.memory[:] = 0
        rows, payload = noise(rng, ends, 40)
        batch = codec.build(rows, payload)
        batch.frames["source_lo"] = number_of(TRANSLATOR)
        ends.nic.receive(batch, ends.now, 0)
        ends.turn()
    assert not ends.memory.any()
    assert (ends.nic.responder.counts[1:] > 0).sum() >= 6


def test_damaged_connection_messages() -> None:
    """Messages of a real handshake, each with up to 40 bytes changed: no exception, no lasting session."""
    rng = np.random.default_rng(22)
    ends = Ends()
    codec = RoceFrames(TRANSLATOR)
    for number in range(400):
        other = ends.translator.connections.connect(
            number_of(NIC), service_of(1330), 200 + number, number, ends.now, path_mtu=1024
        )
        messages = ends.translator.connections.outgoing(ends.now)
        rows, payload = management.packets(messages)
        arena = payload.copy()
        for _ in range(rng.integers(0, 40)):
            arena[rng.integers(0, len(arena))] = rng.integers(0, 256)
        batch = codec.build(rows, arena)
        batch.frames["source_lo"] = number_of(TRANSLATOR)
        ends.nic.receive(batch, ends.now, 0)
        ends.now += 1_000_000
        ends.nic.frames(ends.now)
        ends.translator.connections.disconnect(other, ends.now)
        ends.translator.connections.outgoing(ends.now)
    for _ in range(100):
        ends.now += 1_000_000_000
        ends.nic.frames(ends.now)
    assert not ends.nic.sessions
    assert not ends.nic.pairs.rows["number"].any()
    assert ends.nic.connections.counters.damaged > 0
    assert ends.connect().ready
