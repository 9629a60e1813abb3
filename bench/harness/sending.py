"""A process that sends frames from the far end of a veth pair, out of a transmit ring."""

from __future__ import annotations

import multiprocessing
import struct
import time
from multiprocessing.connection import Connection

import numpy as np

from hopscope.capture.ring.listener import RingSender

CONTEXT = multiprocessing.get_context("spawn")
PORT = 32766
BURST = 256
FLOWS = 64
FOREIGN = "02:aa:bb:cc:dd:ee"
"""Destination of frames that only a ring should receive."""


def frame(to: str, flow: int, payload: int) -> bytes:
    """A UDP datagram to the near end's address, without a UDP checksum."""
    ip = struct.pack(">BBHHHBBH", 0x45, 0, 28 + payload, 0, 0, 64, 17, 0) + bytes(
        (192, 0, 2, 2, 192, 0, 2, 1)
    )
    total = sum(struct.unpack(">10H", ip))
    total = (total & 0xFFFF) + (total >> 16)
    ip = ip[:10] + struct.pack(">H", ~total & 0xFFFF) + ip[12:]
    udp = struct.pack(">4H", 1000 + flow, PORT, 8 + payload, 0)
    return bytes.fromhex(to.replace(":", "")) + bytes.fromhex("0200000000020800") + ip + udp + bytes(payload)


def send(channel: Connection, given: list[bytes], bypass: bool) -> None:
    """A process that sends frames from the far end in turns: given (rate, seconds), it answers (frames,
    seconds, ns).

    Bursts last a millisecond at most.
    """
    sender = RingSender("far", bypass=bypass)
    places = sender.slots(1 << 20)
    for slot, place in enumerate(places.tolist()):
        octets = given[slot % len(given)]
        sender.arena[place : place + len(octets)] = np.frombuffer(octets, np.uint8)
    lengths = np.full(BURST, len(given[0]), np.uint32)
    channel.send(True)
    for rate, seconds in iter(channel.recv, None):
        burst = min(BURST, max(1, int(rate / 1000))) if rate else BURST
        before, spent, start = sender.sent, time.thread_time_ns(), time.perf_counter()
        asked, now = 0, start
        while now - start < seconds:
            if not rate or asked < rate * (now - start):
                room = len(sender.slots(burst))
                sender.send(lengths[:room])
                asked += room
            now = time.perf_counter()
        while sender.waiting:
            sender.flush()
        channel.send((sender.sent - before, now - start, time.thread_time_ns() - spent))
    sender.close()


class Sending:
    """The other process."""

    def __init__(self, to: str, payload: int, bypass: bool = True, given: list[bytes] | None = None) -> None:
        """`given`: other frames than those of `frame`, all of one length."""
        given = given or [frame(to, flow, payload) for flow in range(FLOWS)]
        self.channel, other = CONTEXT.Pipe()
        self._process = CONTEXT.Process(target=send, args=(other, given, bypass))
        self._process.start()
        self.channel.recv()

    def close(self) -> None:
        """End it."""
        self.channel.send(None)
        self._process.join()
