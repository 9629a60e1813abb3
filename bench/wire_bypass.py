"""What passes frames while a sink does not run: tc redirect, XDP redirect, a bridge."""

from __future__ import annotations

import argparse
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Callable
from functools import partial

import numpy as np

from harness.bypasses import GENERIC, NATIVE, Bridge, Redirect, Way, XdpRedirect, received
from harness.common import Bench
from harness.sending import FOREIGN, Sending, frame
from harness.veth import add_pair, pair

PAYLOAD = 58  # frames of 100 bytes
RATE = 5_000
"""Frames per second while it is switched on and off."""
WAYS: dict[str, Callable[[], Way]] = {
    "tc redirect": Redirect,
    "XDP redirect, generic": partial(XdpRedirect, GENERIC),
    "XDP redirect, native": partial(XdpRedirect, NATIVE),
    "bridge": Bridge,
}
_STAMPS = 35  # SO_TIMESTAMPNS
_ALL_PROTOCOLS, _PACKET, _IGNORE_OUTGOING = 3, 263, 23
_NUMBER = 42
"""Where frames have a number: after Ethernet, IPv4 and UDP."""


def raw(end: str, protocol: int = 0) -> socket.socket:
    """A packet socket at one end; without a protocol it only sends."""
    made = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    made.setsockopt(_PACKET, _IGNORE_OUTGOING, 1)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
    made.setsockopt(socket.SOL_SOCKET, _STAMPS, 1)
    made.settimeout(0.2)
    made.bind((end, protocol))
    return made


def numbered(number: int) -> bytes:
    """A frame with a number."""
    plain = frame(FOREIGN, 0, PAYLOAD)
    return plain[:_NUMBER] + struct.pack(">Q", number) + plain[_NUMBER + 8 :]


def cost(sending: Sending, seconds: float) -> tuple[float, int, int]:
    """Thread time of the sender per frame, ns; frames sent, and arrived."""
    before = received("beyond")
    sending.channel.send((0, seconds))
    sent, _, spent = sending.channel.recv()
    time.sleep(0.05)
    return spent / sent, sent, received("beyond") - before


def delays(frames: int) -> list[float]:
    """Time from before a frame is sent until the kernel's stamp at the other end, us."""
    sender, receiver, found = raw("far"), raw("beyond", _ALL_PROTOCOLS), []
    for number in range(frames):
        begin = time.time_ns()
        sender.send(numbered(number))
        _, controls, _, _ = receiver.recvmsg(2000, 64)
        seconds, nanoseconds = struct.unpack("<qq", controls[0][2])
        found.append((seconds * 10**9 + nanoseconds - begin) / 1000)
        time.sleep(0.0005)
    sender.close()
    receiver.close()
    return found


class Counting:
    """Numbered frames at RATE, and those that arrive."""

    def __init__(self) -> None:
        self._sender, self._receiver = raw("far"), raw("beyond", _ALL_PROTOCOLS)
        self.sent = 0
        self.got: list[int] = []
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=work) for work in (self._send, self._receive)]
        for thread in self._threads:
            thread.start()

    def _send(self) -> None:
        start = time.perf_counter()
        while not self._stop.is_set():
            while self.sent < RATE * (time.perf_counter() - start):
                self.sent += 1
                self._sender.send(numbered(self.sent))
            time.sleep(0.0001)

    def _receive(self) -> None:
        while True:
            try:
                self.got.append(struct.unpack_from(">Q", self._receiver.recv(2000), _NUMBER)[0])
            except TimeoutError:
                if self._stop.is_set():
                    return

    def close(self) -> None:
        """Stop, once all has arrived."""
        self._stop.set()
        for thread in self._threads:
            thread.join()
        self._sender.close()
        self._receiver.close()


def switch(way: Way, rounds: int) -> tuple[list[int], list[int]]:
    """Frames that do not pass from `on` until `off` has returned, and those that arrive twice, by round."""
    lost, twice = [], []
    for _ in range(rounds):
        counting = Counting()
        time.sleep(0.1)
        first = counting.sent + 2  # one may be on its way
        way.on()
        time.sleep(0.1)
        way.off()
        last = counting.sent
        time.sleep(0.1)
        counting.close()
        lost.append(len(set(range(first, last)) - set(counting.got)))
        twice.append(len(counting.got) - len(set(counting.got)))
    return lost, twice


def measure(bench: Bench, name: str, way: Way, sending: Sending) -> None:
    """All figures of a bypass."""
    seconds, rounds = (0.3, 2) if bench.quick else (2.0, 20)
    lost, twice = switch(way, rounds)
    way.on()
    time.sleep(0.1)
    costs = [cost(sending, seconds) for _ in range(2 if bench.quick else 5)]
    spent, sent, arrived = min(costs)
    note = f"{arrived / sent:.2%} of {sent:,} arrived"
    bench.row({"bypass": name, "what": "send, with all of the kernel's work"}, spent, "ns/frame", note)
    found = delays(200 if bench.quick else 2000)
    note = f"99 % below {np.percentile(found, 99):.1f} us"
    bench.row({"bypass": name, "what": "delay"}, float(np.median(found)), "us, median", note)
    way.off()
    note = f"most in a round {max(lost)}, at {RATE:,} frames/s; {sum(twice)} twice"
    bench.row({"bypass": name, "what": "lost when switched on and off"}, sum(lost) / rounds, "frames", note)
    way.remove()


def arguments(parser: argparse.ArgumentParser) -> None:
    """Of this benchmark."""
    parser.add_argument("--bypass", choices=WAYS, help="only this one")


def main() -> None:
    """All of them."""
    bench, chosen = Bench.start(
        "wire_bypass",
        "frames of 100 bytes from one veth pair to another through the kernel: time of the "
        "sender's thread, in which all of the kernel's work runs; time from before the system "
        "call until a frame arrives at the other end; frames lost while the bypass is switched "
        "on and off.",
        "network cards and their drivers: XDP in a driver that takes frames from its own "
        "memory costs less; the cost of a sink, which does not run here.",
        arguments,
    )
    pair("192.0.2.1")
    add_pair("out", "beyond")
    subprocess.run(["ethtool", "-K", "beyond", "gro", "on"], check=True)  # NAPI, for XDP redirect
    sending = Sending(FOREIGN, PAYLOAD)
    cost(sending, 0.1)  # touches everything once
    spent = min(cost(sending, 0.3 if bench.quick else 2.0)[0] for _ in range(3))
    bench.row({"bypass": "none", "what": "send, with all of the kernel's work"}, spent, "ns/frame")
    for name in [chosen.bypass] if chosen.bypass else WAYS:
        measure(bench, name, WAYS[name](), sending)
    sending.close()


if __name__ == "__main__":
    main()
