"""Frames of an interface: a veth pair in a network namespace of the test's own."""

from __future__ import annotations

import ctypes
import os
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from hopscope.capture.errors import CaptureError
from hopscope.capture.ring import RingListener
from hopscope.capture.sockets import bind_share
from hopscope.config import ListenSettings
from hopscope.wire.records import Link

T = TypeVar("T")

pytestmark = pytest.mark.kernel
BROADCAST = bytes.fromhex("ffffffffffff02000000000aabcd")
FOREIGN = bytes.fromhex("02aabbccddee02000000000aabcd")


class Namespace:
    """A network namespace with a veth pair, `near` and `far`."""

    def __init__(self, name: str) -> None:
        self.name = name
        _ip("netns", "add", name)
        _ip("-n", name, "link", "add", "near", "type", "veth", "peer", "name", "far")
        for end in ("near", "far"):
            _ip("-n", name, "link", "set", end, "up")

    def inside(self, work: Callable[[], T]) -> T:
        """Do this in a thread that has entered the namespace; sockets stay in it."""
        results: list[Any] = []

        def enter() -> None:
            with Path(f"/run/netns/{self.name}").open("rb") as file:
                if ctypes.CDLL(None, use_errno=True).setns(file.fileno(), 0x40000000):
                    results.append(OSError(ctypes.get_errno(), "setns"))
                    return
            try:
                results.append(work())
            except Exception as error:
                results.append(error)

        thread = threading.Thread(target=enter)
        thread.start()
        thread.join()
        if isinstance(results[0], Exception):
            raise results[0]
        found: T = results[0]
        return found

    def sender(self, end: str = "far") -> socket.socket:
        """A raw socket that sends frames at one end."""

        def make() -> socket.socket:
            handle = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
            handle.bind((end, 0))
            return handle

        return self.inside(make)

    def listener(self, **settings: Any) -> RingListener:
        """What listens at the near end."""
        listener = RingListener(ListenSettings(kind="mirror", interface="near", **settings))
        self.inside(listener.open)
        return listener

    def remove(self) -> None:
        """Take it away, and the pair with it."""
        _ip("netns", "del", self.name)


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


@pytest.fixture
def namespace() -> Iterator[Namespace]:
    if os.geteuid() != 0:
        pytest.skip("a packet socket and a network namespace need root")
    try:
        made = Namespace(f"hopscope-test-{os.getpid()}")
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no network namespace with a veth pair here: {error}")
    yield made
    made.remove()


def received(listener: RingListener, count: int, seconds: float = 5) -> list[bytes]:
    """The next frames with our type, tagged or not, as bytes."""
    frames: list[bytes] = []
    until = time.monotonic() + seconds
    while len(frames) < count and time.monotonic() < until:
        batch = listener.receive()
        for frame in batch.frames if batch is not None else ():
            assert batch is not None
            assert frame["link"] == Link.ETHERNET
            assert frame["wire_length"] == frame["length"]
            start = int(frame["offset"])
            raw = batch.arena[start : start + int(frame["length"])].tobytes()
            if b"\xab\xcd" in (raw[12:14], raw[16:18], raw[20:22]):
                frames.append(raw)
    return frames


def test_frames_to_anybody(namespace: Namespace) -> None:
    """Frames to everybody and, promiscuous, to other machines come whole and in order; one's own do not."""
    listener = namespace.listener()
    sent = [head + bytes([i]) * (46 + i * 90) for i, head in enumerate([BROADCAST, FOREIGN] * 8)]
    with namespace.sender("near") as own, namespace.sender() as far:
        own.send(BROADCAST + b"own" * 20)
        for frame in sent:
            far.send(frame)
        assert received(listener, len(sent)) == sent
        assert listener.receive() is None
    assert listener.counts()["kernel_drops_total"] == 0
    listener.close()


@pytest.mark.parametrize("tags", ["81000064", "88a80064", "88a8006481000007"])
def test_tags_are_put_back(namespace: Namespace, tags: str) -> None:
    """A VLAN tag that the kernel takes off is in the frame again, be it 802.1Q or 802.1ad."""
    listener = namespace.listener()
    frame = BROADCAST[:12] + bytes.fromhex(tags) + BROADCAST[12:] + b"x" * 60
    with namespace.sender() as far:
        far.send(frame)
        assert received(listener, 1) == [frame]
    listener.close()


def test_drops_are_counted(namespace: Namespace) -> None:
    """What the ring had no room for is counted as dropped by the kernel; with room again frames come again,
    and the next worker goes on counting.
    """
    listener = namespace.listener(ring_bytes=1024 * 1024)
    frames = [BROADCAST + bytes([i % 256, i // 256]) + b"x" * 1000 for i in range(1500)]
    with namespace.sender() as far:
        for frame in frames:
            far.send(frame)
        got = received(listener, len(frames), seconds=0.3)
        drops = listener.counts()["kernel_drops_total"]
        assert drops > 0
        assert got == frames[: len(got)]
        assert len(got) + drops == len(frames)
        far.send(frames[0])
        assert received(listener, 1) == frames[:1]
    again = RingListener(listener.settings, sock=listener._socket)
    again.open()
    assert again.counts()["kernel_drops_total"] == drops
    listener.close()


def test_an_interface_that_goes_down_comes_back(namespace: Namespace) -> None:
    """Going down is no failure; an interface that is gone is one, told in a line."""
    listener = namespace.listener()
    _ip("-n", namespace.name, "link", "set", "near", "down")
    assert namespace.inside(listener.receive) is None
    _ip("-n", namespace.name, "link", "set", "near", "up")
    with namespace.sender() as far:
        until = time.monotonic() + 5
        while not (got := received_now(namespace, listener)) and time.monotonic() < until:
            far.send(BROADCAST + b"x" * 60)
            time.sleep(0.01)
        assert got
    _ip("-n", namespace.name, "link", "del", "near")
    with pytest.raises(CaptureError, match="mirror://near: the interface is gone"):
        namespace.inside(lambda: [listener.receive() for _ in range(3)])
    listener.close()


def received_now(namespace: Namespace, listener: RingListener) -> int:
    """Frames that are there."""
    batch = namespace.inside(listener.receive)
    return 0 if batch is None else len(batch)


def test_interfaces_that_cannot_be_read(namespace: Namespace) -> None:
    """No such interface is one line."""
    with pytest.raises(CaptureError, match="mirror://nowhere: this machine has no such interface"):
        bind_share(ListenSettings(kind="mirror", interface="nowhere"))


def test_without_permission_there_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without root or the capability the start says what is needed."""

    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(socket, "socket", refuse)
    with pytest.raises(CaptureError, match="mirror://lo: reading an interface needs root or the capability"):
        bind_share(ListenSettings(kind="mirror", interface="lo"))
