"""One socket both ways: frames go to whom they are for, as they are, and come back from there."""

from __future__ import annotations

import ipaddress
import socket

import numpy as np
import pytest

from hopscope.capture.errors import CaptureError
from hopscope.capture.udp.datagram import DatagramSocket
from hopscope.wire.records import FRAME, FrameBatch, Link

pytestmark = pytest.mark.kernel


def frames(sizes: list[int], to: list[tuple[str, int]]) -> FrameBatch:
    """Frames of these sizes, each to its address and port; each is full of its own number."""
    rows = np.zeros(len(sizes), FRAME)
    rows["length"] = rows["wire_length"] = sizes
    rows["offset"] = np.cumsum(sizes) - np.array(sizes)
    rows["link"] = Link.UDP_PAYLOAD
    rows["source_lo"] = [0xFFFF_0000_0000 | int(ipaddress.ip_address(host)) for host, _ in to]
    rows["port"] = [port for _, port in to]
    return FrameBatch(np.repeat(np.arange(len(sizes), dtype=np.uint8), sizes), rows)


def received(one: DatagramSocket, count: int) -> list[tuple[int, int, int, int]]:
    """(number, length, source address and port) of so many frames."""
    got: list[tuple[int, int, int, int]] = []
    for _ in range(1000):
        batch = one.receive()
        for row in batch.frames if batch is not None else ():
            assert batch is not None
            part = batch.arena[int(row["offset"]) : int(row["offset"]) + int(row["length"])]
            assert (part == part[0]).all()
            got.append((int(part[0]), len(part), int(row["source_lo"]), int(row["source_port"])))
        if len(got) >= count:
            break
    return got


def test_frames_reach_their_receivers() -> None:
    """Trains and single frames to two sockets, told apart by address; both see the sender's own."""
    ends = [DatagramSocket(host, 0) for host in ("127.0.7.1", "127.0.7.2", "127.0.7.3")]
    for end in ends:
        end.open()
    one, two = (("127.0.7.2", ends[1].port), ("127.0.7.3", ends[2].port))
    to = [one] * 40 + [two] * 10 + [one, two]
    assert ends[0].send(frames([60] * 20 + [90] * 30 + [1000, 7], to)) == 52
    source = (0xFFFF_7F00_0701, ends[0].port)
    wanted = [(i, 60, *source) for i in range(20)] + [(i, 90, *source) for i in range(20, 40)]
    assert received(ends[1], 41) == [*wanted, (50, 1000, *source)]
    assert received(ends[2], 11) == [*((i, 90, *source) for i in range(40, 50)), (51, 7, *source)]
    for end in ends:
        end.close()


def test_what_has_no_room_is_counted() -> None:
    """Of more than an unread socket holds, what was sent is what was received and what was dropped."""
    one, two = DatagramSocket("127.0.7.1", 0), DatagramSocket("127.0.7.2", 0)
    for end in (one, two):
        end.open()
    assert two._socket is not None
    two._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16_384)
    to = [("127.0.7.2", two.port)]
    sent = sum(one.send(frames([200 + number % 2], to)) for number in range(500))  # no trains
    got, dropped = len(received(two, 500)), two.counts()["kernel_drops_total"]
    assert dropped > 0
    assert got + dropped == sent == 500
    for end in (one, two):
        end.close()


def test_what_cannot_be_sent_is_counted() -> None:
    """A receiver of another family stops nothing."""
    end = DatagramSocket("127.0.7.4", 0)
    end.open()
    batch = frames([10, 10], [("127.0.7.4", end.port)] * 2)
    batch.frames["source_hi"][0] = 0x2001 << 48
    assert end.send(batch) == 1
    assert end.unsendable == 1
    end.close()


def test_a_wildcard_is_refused() -> None:
    """A queue pair has one address."""
    with pytest.raises(CaptureError, match="not a single address"):
        DatagramSocket("0.0.0.0", 0).open()
