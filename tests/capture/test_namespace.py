"""What a sink meets in a network namespace: another sink, other interfaces than it needs, no loopback."""

from __future__ import annotations

import ctypes
import os
import socket

import pytest

from hopscope.capture.claim import claim
from hopscope.capture.errors import CaptureError
from hopscope.capture.udp.sender import UdpSender
from support.network.veth import Namespace


def test_one_claim(namespace: Namespace) -> None:
    """A second claim says who has the first, by any name of the interface, until that is closed; the other
    direction is free.
    """
    namespace.ip("link", "property", "add", "dev", "near", "altname", "nearby")
    first = namespace.inside(lambda: claim("near", "far"))
    other = namespace.inside(lambda: claim("far", "near"))
    for name in ("near", "nearby"):
        with pytest.raises(CaptureError, match=rf"{name}: another sink \(process {os.getpid()}\) forwards"):
            namespace.inside(lambda name=name: claim(name, "far"))  # type: ignore[misc]
    first.close()
    namespace.inside(lambda: claim("nearby", "far")).close()
    other.close()


def test_loopback_is_down(namespace: Namespace) -> None:
    """In a new namespace, to which a sink is easily moved, an error of the first datagram says what to do."""
    with pytest.raises(CaptureError, match="Network is unreachable: the loopback interface is down"):
        namespace.inside(lambda: UdpSender("127.0.0.1", 9))


@pytest.mark.parametrize("user", [0, 65534])
def test_only_a_sink_of_root_or_of_this_user_is_one(namespace: Namespace, user: int) -> None:
    """A name that another user has taken keeps no sink from forwarding."""

    def take() -> socket.socket:
        libc = ctypes.CDLL(None)
        libc.setfsuid(user)  # of this thread alone
        made = socket.socket(socket.AF_UNIX)
        libc.setfsuid(0)
        made.bind("\0hopscope-forwards-near")
        made.listen()
        return made

    with namespace.inside(take):
        if user:
            namespace.inside(lambda: claim("near", "far")).close()
        else:
            with pytest.raises(CaptureError, match=rf"another sink \(process {os.getpid()}\) forwards"):
                namespace.inside(lambda: claim("near", "far"))
    namespace.inside(lambda: claim("near", "far")).close()


@pytest.mark.parametrize(
    ("lane", "message"),
    [
        (("gone", "far"), "gone: this machine has no such interface"),
        (("near", "gone"), "gone: this machine has no such interface"),
        (("near", "lo"), "lo: found no Ethernet interface"),
        (("lo", "near"), "lo: found no Ethernet interface"),
        (("near", "nearby"), "near and nearby: found names of one interface"),
    ],
)
def test_between_two_interfaces(namespace: Namespace, lane: tuple[str, str], message: str) -> None:
    """Frames go from one Ethernet interface to another; any other pair is an error that says why."""
    namespace.ip("link", "property", "add", "dev", "near", "altname", "nearby")
    with pytest.raises(CaptureError, match=message):
        namespace.inside(lambda: claim(*lane))
