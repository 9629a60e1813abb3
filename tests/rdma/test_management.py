"""Connection management as packets: two sides over frames, and what is no message."""

from __future__ import annotations

import socket

import numpy as np
import numpy.typing as npt
import pytest

from hopscope.rdma import management
from hopscope.rdma.connection import Accept, Connection, ConnectionState, service_of
from hopscope.rdma.handshake import Connections
from hopscope.wire.reasons import RoceReason
from hopscope.wire.records import FRAME, FrameBatch, Link, Records
from hopscope.wire.roce import cm
from hopscope.wire.roce.cm import Request, push_message
from hopscope.wire.roce.frames import RoceFrames
from hopscope.wire.roce.records import ROCE
from support.network.veth import Namespace, taken

pytestmark = pytest.mark.kernel

A, B = 0xFFFF_7F00_0002, 0xFFFF_7F00_0001
SERVICE = service_of(1337)
IP_MTU_DISCOVER, IP_PMTUDISC_DO = 10, 2


def carry(source: Connections, frames: RoceFrames, to: Connections, there: RoceFrames) -> int:
    """Send what is due from one side to the other, as frames; how many."""
    messages = source.outgoing(0)
    if messages:
        batch = frames.build(*management.packets(messages))
        batch.frames["source_hi"], batch.frames["source_lo"] = frames.setup[0], frames.setup[1]
        management.receive(to, there.parse(batch), batch.arena, 0)
    return len(messages)


def test_a_connection_over_frames() -> None:
    """REQ, REP, RTU, DREQ and DREP, each as one packet with a right ICRC."""
    asked: list[Connection] = []

    def accept(connection: Connection) -> Accept:
        asked.append(connection)
        return Accept(0x200, 3)

    a, b = Connections(A), Connections(B, {SERVICE: accept})
    frames_a, frames_b = RoceFrames("127.0.0.2"), RoceFrames("127.0.0.1")
    active = a.connect(B, SERVICE, 0x100, 1, 0)
    assert carry(a, frames_a, b, frames_b) == carry(b, frames_b, a, frames_a) == 1
    assert carry(a, frames_a, b, frames_b) == 1
    assert [one.state for one in (active, *asked)] == [ConnectionState.ESTABLISHED] * 2
    assert asked[0].peer == A
    a.disconnect(active, 0)
    assert carry(a, frames_a, b, frames_b) == carry(b, frames_b, a, frames_a) == 1
    assert [one.state for one in (active, *asked)] == [ConnectionState.CLOSED] * 2
    assert a.counters.damaged == b.counters.damaged == 0


def row(**fields: int) -> tuple[Records, npt.NDArray[np.uint8]]:
    """A REQ as it is parsed, with other values in some fields."""
    rows, payload = management.packets([(A, Request(local_id=5, service=SERVICE, queue_pair=9))])
    for name, value in fields.items():
        rows[name] = value
    return rows, payload


@pytest.mark.parametrize(
    "fields",
    [{"queue_key": 1}, {"opcode": 0x04}, {"opcode": 0x65}, {"queue_pair": 7}, {"payload_bytes": 252}],
)
def test_what_is_no_message(fields: dict[str, int]) -> None:
    """Another key, opcode, queue pair or size is counted as damaged, and gets no answer."""
    side = Connections(B)
    management.receive(side, *row(**fields), 0)
    assert (side.counters.damaged, side.outgoing(0)) == (1, [])


def test_other_management_is_no_message() -> None:
    """Another class, version, method, or an attribute that is not known."""
    side = Connections(B)
    good = push_message(Request(local_id=5))
    for at, value in ((0, 2), (1, 3), (3, 1), (17, 0x11), (16, 1)):
        raw = bytearray(good)
        raw[at] = value
        rows, _ = row()
        management.receive(side, rows, np.frombuffer(bytes(raw), np.uint8), 0)
    assert (side.counters.damaged, side.outgoing(0)) == (5, [])


def test_refused_packets_are_no_messages() -> None:
    """A row with a reason (a wrong ICRC) is not looked at."""
    side = Connections(B)
    management.receive(side, *row(reason=2), 0)
    assert (side.counters.damaged, side.counters.rejected, side.outgoing(0)) == (0, 0, [])


def test_no_messages() -> None:
    """Nothing to send is no frame."""
    rows, payload = management.packets([])
    assert len(rows) == len(payload) == 0
    assert rows.dtype == ROCE
    assert cm.MAD_SIZE == 256
    assert isinstance(RoceFrames("127.0.0.1").build(rows, payload), FrameBatch)


def test_linux_sends_the_ip_header_that_is_made_up(namespace: Namespace) -> None:
    """A datagram of an unconnected socket that is not to be fragmented, seen on loopback with its IP header:
    its ICRC, computed without knowing that header, is right.
    """
    namespace.ip("link", "set", "lo", "up")
    wire = namespace.raw("lo", 3)
    sender, receiver = namespace.inside(
        lambda: [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2)]
    )
    with wire, sender, receiver:
        receiver.bind(("127.0.0.77", 4791))
        sender.setsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO)
        sender.bind(("127.0.0.2", 0))
        here = RoceFrames("127.0.0.2", port=sender.getsockname()[1])
        rows, payload = row(source_lo=0xFFFF_7F00_004D)
        batch = here.build(rows, payload)
        for _ in range(3):
            sender.sendto(batch.arena[: int(batch.frames["length"][0])].tobytes(), ("127.0.0.77", 4791))
        for raw in taken(wire, 3):
            assert raw[30:34] == bytes([127, 0, 0, 77])
            frame = np.zeros(1, FRAME)
            frame["length"], frame["link"] = len(raw), Link.ETHERNET
            found = RoceFrames("127.0.0.77").parse(FrameBatch(np.frombuffer(raw, np.uint8), frame))
            assert found["reason"].tolist() == [RoceReason.NONE]
