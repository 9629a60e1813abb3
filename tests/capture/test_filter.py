"""Filters of frames as text: libpcap compiles them."""

from __future__ import annotations

import ctypes.util
import socket

import pytest

from hopscope.capture.bpf import assemble, attach
from hopscope.capture.ring.filter import compile_filter

SO_ATTACH_FILTER = 26
needs_libpcap = pytest.mark.skipif(ctypes.util.find_library("pcap") is None, reason="libpcap is not here")


def accepted(program: bytes, frames: list[bytes]) -> list[bytes]:
    """What the kernel lets through, in a socket that sees frames from their first octet on."""
    near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with near, far:
        attach(near, socket.SOL_SOCKET, SO_ATTACH_FILTER, program)
        found = []
        for frame in frames:
            far.send(frame)
            try:
                found.append(near.recv(2048, socket.MSG_DONTWAIT))
            except BlockingIOError:
                continue
        return found


def udp(dport: int) -> bytes:
    """A frame of 192.0.2.1 with UDP."""
    ip = bytes.fromhex("45000024000000004011000cc0000201c0000202")
    return bytes(12) + b"\x08\x00" + ip + b"\x12\x34" + dport.to_bytes(2) + bytes(12)


@needs_libpcap
def test_a_text_chooses_frames() -> None:
    """As tcpdump would."""
    frames = [udp(4791), udp(4792), bytes(12) + b"\x86\xdd" + bytes(60)]
    assert accepted(compile_filter("udp port 4791"), frames) == frames[:1]
    assert accepted(compile_filter("ip6 or src 192.0.2.1 and not port 4791"), frames) == frames[1:]


@needs_libpcap
def test_a_wrong_text_says_why() -> None:
    """The message is libpcap's."""
    with pytest.raises(ValueError, match="syntax error"):
        compile_filter("udp prt 4791")


def test_without_libpcap(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines of a program still work; a text says what is missing."""
    monkeypatch.setattr(ctypes.util, "find_library", lambda name: None)
    assert compile_filter(" ") == b""
    assert compile_filter("1\n6 0 0 64\n") == assemble([(6, 0, 0, 64)])
    with pytest.raises(ValueError, match="libpcap"):
        compile_filter("udp")
