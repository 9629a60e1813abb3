"""Frames out at an interface: the near end of a veth pair, with a plain socket at the far end."""

from __future__ import annotations

import time

import numpy as np
import pytest

from hopscope.capture.errors import CaptureError
from hopscope.capture.ring.listener import RingSender
from support.network.veth import BROADCAST, Namespace, taken
from support.waiting import HANG_SECONDS, eventually

pytestmark = pytest.mark.kernel
ALL = 3
SMALL = 1 << 17
"""A ring of 64 slots."""


def write(sender: RingSender, frames: list[bytes]) -> np.ndarray:
    """Write frames into the next slots; their lengths."""
    places = sender.slots(len(frames))
    for place, frame in zip(places.tolist(), frames, strict=False):
        sender.arena[place : place + len(frame)] = np.frombuffer(frame, np.uint8)
    return np.array([len(frame) for frame in frames[: len(places)]], np.uint32)


def numbered(count: int, *lengths: int) -> list[bytes]:
    """Frames that are told apart, of these lengths in turn."""
    heads = [BROADCAST + i.to_bytes(4, "big") for i in range(count)]
    return [head + b"x" * (lengths[i % len(lengths)] - len(head)) for i, head in enumerate(heads)]


def test_what_is_sent_arrives(namespace: Namespace) -> None:
    """Frames of all lengths that Ethernet has, with tags too, arrive byte for byte and in order, also when
    the ring goes round many times.
    """
    frames = numbered(1000, 60, 61, 594, 1514)
    frames[3::8] = [frame[:12] + b"\x81\x00\x00\x07" + frame[12:] for frame in frames[3::8]]
    sender = namespace.sender(ring_bytes=SMALL)
    with namespace.raw("far", ALL) as far:
        for at in range(0, len(frames), 50):
            part = frames[at : at + 50]
            assert sender.send(write(sender, part)) == 50
            assert taken(far, 50) == part
    assert (sender.sent, sender.dropped, sender.rejected, sender.waiting) == (1000, 0, 0, 0)
    sender.close()


def test_long_frames(namespace: Namespace) -> None:
    """An interface with an MTU of 9000 has slots for its frames; past the queueing discipline too."""
    for end in ("near", "far"):
        namespace.ip("link", "set", end, "mtu", "9000")
    sender = namespace.sender(bypass=True)
    assert sender.longest == 9014
    frames = numbered(30, 9014, 8000)
    with namespace.raw("far", ALL) as far:
        assert sender.send(write(sender, frames)) == 30
        assert taken(far, 30) == frames
    sender.close()


def test_frames_that_cannot_be_sent(namespace: Namespace) -> None:
    """Frames that are too short or too long for the interface are counted as refused, those of length 0 are
    not sent at all, and their neighbours arrive; a tag may make a frame four bytes longer.
    """
    frames = numbered(8, 100, 1514, 200, 300, 1515, 1516, 400, 500)
    frames[6] = BROADCAST[:12] + b"\x81\x00\x00\x07" + b"y" * 1502
    sender = namespace.sender(ring_bytes=SMALL)
    assert sender.room == 1518
    with namespace.raw("far", ALL) as far:
        lengths = write(sender, frames)
        lengths[0], lengths[2] = 13, 0
        sender.send(lengths)
        assert taken(far, 4) == [frames[1], frames[3], frames[6], frames[7]]
        assert (sender.sent, sender.rejected, sender.dropped) == (4, 3, 0)
        sender.send(write(sender, frames[:1]))
        assert taken(far, 1) == frames[:1]
    sender.close()


def test_a_smaller_mtu_meanwhile(namespace: Namespace) -> None:
    """Where the interface's MTU is lowered, the frames that are too long now are refused, no others."""
    sender = namespace.sender(ring_bytes=SMALL)
    namespace.ip("link", "set", "near", "mtu", "1000")
    frames = numbered(60, 1514, 900, 1015, 1014)
    with namespace.raw("far", ALL) as far:
        sender.send(write(sender, frames))
        assert taken(far, 30) == [frame for frame in frames if len(frame) <= 1014]
    assert (sender.sent, sender.rejected, sender.waiting, sender.longest) == (30, 30, 0, 1014)
    sender.close()


def test_a_full_ring_says_so(namespace: Namespace) -> None:
    """What an interface does not take waits in the ring: there are fewer slots, then none, and nothing waits
    for one; when it takes frames again, all arrive in order.
    """
    slow = ["tbf", "rate", "8kbit", "burst", "1600", "limit", "3000"]
    namespace.run("tc", "qdisc", "add", "dev", "near", "root", *slow)
    sender = namespace.sender(ring_bytes=SMALL)
    frames = numbered(100, 1000)
    with namespace.raw("far", ALL) as far:
        assert len(sender.slots(100)) == 64
        first = sender.send(write(sender, frames[:40]))
        assert 0 < first < 10
        assert sender.waiting == 40 - first
        lengths = write(sender, frames[40:])
        assert len(lengths) <= 64 - sender.waiting
        sender.send(lengths)
        assert len(sender.slots(100)) < 10
        namespace.run("tc", "qdisc", "del", "dev", "near", "root")
        lost = sender.sent  # with the queue
        sender.flush()
        assert sender.waiting == 0
        assert sender.sent == 40 + len(lengths)
        rest = taken(far, sender.sent - lost)
        while rest[-1] != frames[sender.sent - 1]:
            rest += taken(far, 1)
        assert rest[-(sender.sent - lost) :] == frames[lost : sender.sent]
    sender.close()


def test_an_interface_that_is_down_or_gone(namespace: Namespace) -> None:
    """Frames for it are dropped and counted, not kept; when it is up again they go out."""
    sender = namespace.sender(ring_bytes=SMALL)
    frames = numbered(20, 100)
    namespace.ip("link", "set", "near", "down")
    assert sender.send(write(sender, frames)) == 0
    assert (sender.dropped, sender.waiting, len(sender.slots(100))) == (20, 0, 64)
    namespace.ip("link", "set", "near", "up")
    until = time.monotonic() + HANG_SECONDS
    with namespace.raw("far", ALL) as far:
        while not sender.sent and time.monotonic() < until:
            sender.send(write(sender, frames[:1]))
        assert taken(far, 1) == frames[:1]
    namespace.ip("link", "del", "near")
    before = sender.dropped
    assert sender.send(write(sender, frames)) == 0
    assert sender.dropped == before + 20
    sender.close()


def test_an_interface_without_a_carrier(namespace: Namespace) -> None:
    """Frames for a veth whose other end is down are counted as dropped, those that waited too: the kernel
    would take them, and throw them away. When the other end is up again they go out.
    """
    slow = ["tbf", "rate", "8kbit", "burst", "1600", "limit", "3000"]
    namespace.run("tc", "qdisc", "add", "dev", "near", "root", *slow)
    sender = namespace.sender(ring_bytes=SMALL)
    frames = numbered(30, 1000)
    sender.send(write(sender, frames))
    waiting = sender.waiting
    assert waiting > 20
    namespace.run("tc", "qdisc", "del", "dev", "near", "root")
    namespace.ip("link", "set", "far", "down")
    eventually(lambda: "NO-CARRIER" in namespace.ip("link", "show", "near"))
    assert sender.flush() == 0
    assert sender.send(write(sender, frames)) == 0
    assert (sender.dropped, sender.waiting, len(sender.slots(100))) == (waiting + 30, 0, 64)
    namespace.ip("link", "set", "far", "up")
    until = time.monotonic() + HANG_SECONDS
    with namespace.raw("far", ALL) as far:
        while not sender.send(write(sender, frames[:1])) and time.monotonic() < until:
            pass
        assert taken(far, 1) == frames[:1]
    sender.close()


def test_interfaces_that_cannot_be_used(namespace: Namespace) -> None:
    """No such interface is one line."""
    with pytest.raises(CaptureError, match="nowhere: this machine has no such interface"):
        namespace.inside(lambda: RingSender("nowhere"))
