"""A network namespace with a veth pair, for tests of what reads and sends frames."""

from __future__ import annotations

import ctypes
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.inet6 import IPv6
from scapy.packet import Packet

from hopscope.capture.ring.listener import RingListener, RingSender
from hopscope.settings.listen import ListenSettings
from hopscope.wire.records import Link

from ..waiting import HANG_SECONDS, eventually

T = TypeVar("T")
BROADCAST = bytes.fromhex("ffffffffffff02000000000aabcd")
FOREIGN = bytes.fromhex("02aabbccddee02000000000aabcd")
_PACKET, _AUXDATA, _VNET_HDR, _IGNORE_OUTGOING = 263, 8, 15, 23


class Namespace:
    """A network namespace with a veth pair, `near` and `far`."""

    def __init__(self, name: str) -> None:
        self.name = name
        run("ip", "netns", "add", name)
        # no router solicitations, duplicate address detection, …: what comes is what was sent, also after an
        # MTU too small for IPv6, from which an interface begins again
        self.run("sysctl", "-qw", "net.ipv6.conf.default.disable_ipv6=1")
        self.pair("near", "far")

    def pair(self, *ends: str) -> None:
        """Make a veth pair, up: the kernel drops frames until it has noticed the carrier."""
        self.ip("link", "add", ends[0], "type", "veth", "peer", "name", ends[1])
        for end in ends:
            self.ip("link", "set", end, "up")
        for end in ends:
            eventually(lambda end=end: "state UP" in self.ip("link", "show", "dev", end))  # type: ignore[misc]

    def run(self, *words: str) -> None:
        """A command inside."""
        run("ip", "netns", "exec", self.name, *words)

    def ip(self, *words: str) -> str:
        """What the `ip` command prints inside."""
        return run("ip", "-n", self.name, *words)

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
        return results[0]

    def raw(self, end: str = "far", protocol: int = 0) -> socket.socket:
        """A raw socket at one end; without a protocol it only sends."""

        def make() -> socket.socket:
            handle = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
            handle.settimeout(HANG_SECONDS)
            handle.setsockopt(_PACKET, _AUXDATA, 1)
            handle.setsockopt(_PACKET, _IGNORE_OUTGOING, 1)
            handle.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
            handle.bind((end, protocol))
            return handle

        return self.inside(make)

    def offloading(self) -> socket.socket:
        """A raw socket at the far end, to which frames are given behind a virtio_net_hdr."""
        handle = self.raw()
        handle.setsockopt(_PACKET, _VNET_HDR, 1)
        return handle

    def listener(self, **settings: Any) -> RingListener:
        """What listens at the near end."""
        listener = RingListener(ListenSettings(kind="mirror", interface="near", **settings))
        self.inside(listener.open)
        return listener

    def sender(self, **options: Any) -> RingSender:
        """What sends at the near end."""
        return self.inside(lambda: RingSender("near", **options))

    def remove(self) -> None:
        """Take it away, and the pair with it."""
        run("ip", "netns", "del", self.name)


_LOOKS, _PAUSE = 10, 0.02
"""Between two looks a block of the ring is handed over, which the kernel holds back for 16 ms at most."""


def run(*words: str) -> str:
    """What a command prints that has to succeed."""
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


def received(listener: RingListener, count: int, seconds: float = HANG_SECONDS) -> list[bytes]:
    """The next frames, as bytes; fewer if none has come for some seconds and several looks."""
    frames: list[bytes] = []
    until, looks = time.monotonic() + seconds, 0
    while len(frames) < count and (time.monotonic() < until or looks < _LOOKS):
        batch = listener.receive()
        if batch is None:
            looks += 1
            time.sleep(_PAUSE)
            continue
        until, looks = time.monotonic() + seconds, 0
        for frame in batch.frames:
            assert frame["link"] == Link.ETHERNET
            assert frame["wire_length"] == frame["length"]
            start = int(frame["offset"])
            frames.append(batch.arena[start : start + int(frame["length"])].tobytes())
    return frames


def taken(handle: socket.socket, count: int) -> list[bytes]:
    """The next frames of a raw socket, with the VLAN tags that the kernel took off (tpacket_auxdata)."""
    frames: list[bytes] = []
    for _ in range(count):
        frame, controls, _, _ = handle.recvmsg(70_000, 256)
        for _, kind, words in controls:
            status, *_, tci, protocol = struct.unpack("<IIIHHHH", words)
            if kind == _AUXDATA and status & 0x10:
                frame = (
                    frame[:12] + struct.pack(">HH", protocol if status & 0x40 else 0x8100, tci) + frame[12:]
                )
        frames.append(frame)
    return frames


def unfinished(packet: Packet, field: int, segment: int = 0) -> tuple[bytes, bytes]:
    """A packet whose checksum, `field` bytes into its last header, is left to the card (behind a
    virtio_net_hdr), and as it is on the wire. `segment`: bytes in which the card is to send TCP.
    """
    whole = bytes(packet)
    protocol, layer = (6, TCP) if TCP in packet else (17, UDP)
    at = len(whole) - len(bytes(packet[layer]))
    if IP in packet:
        ends = socket.inet_aton(packet[IP].src) + socket.inet_aton(packet[IP].dst)
    else:
        ends = b"".join(socket.inet_pton(socket.AF_INET6, to) for to in (packet[IPv6].src, packet[IPv6].dst))
    total = protocol + len(whole) - at + sum(struct.unpack(f">{len(ends) // 2}H", ends))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    partial = whole[: at + field] + struct.pack(">H", total) + whole[at + field + 2 :]
    header = struct.pack("<BBHHHH", 1, 1 if segment else 0, at + 20 if segment else 0, segment, at, field)
    return header + partial, whole
