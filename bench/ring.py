"""Frames of an interface: a ring read in place beside a UDP socket, and how fast a transmit ring sends."""

from __future__ import annotations

import argparse
import time

from harness.common import Bench
from harness.sending import FOREIGN, PORT, Sending
from harness.veth import pair
from hopscope.capture.listener import Listener
from hopscope.capture.ring.listener import RingListener
from hopscope.capture.udp.listener import UdpListener
from hopscope.settings.listen import ListenSettings

ADDRESS = "192.0.2.1"
LOSS = 0.001
NAP, FEW = 0.001, 256  # as a worker does
CASES = {"ring": FOREIGN, "UDP socket": "02:00:00:00:00:01"}
"""What receives, and to whom frames are sent: past a ring nothing else should take them."""


def listener(what: str) -> Listener:
    """The receiver, open."""
    made: Listener = (
        RingListener(ListenSettings(kind="mirror", interface="near"))
        if what == "ring"
        else UdpListener(ListenSettings(host=ADDRESS, port=PORT))
    )
    made.open()
    return made


def run(sending: Sending, receiver: Listener, rate: float, seconds: float) -> dict[str, float]:
    """Send for some seconds and receive as a worker does; what was sent, received and spent."""
    sending.channel.send((rate, seconds))
    frames, spent, last = 0, 0, 0
    sent: tuple[int, float, int] | None = None
    while sent is None or last:
        if sent is None and sending.channel.poll():
            sent = sending.channel.recv()
            time.sleep(0.05)  # what is left in a block comes after 16 ms
        start = time.thread_time_ns()
        batch = receiver.receive()
        spent += time.thread_time_ns() - start
        last = 0 if batch is None else len(batch)
        frames += last
        if last < FEW:
            time.sleep(NAP)
            last += sent is None
    count, taken, _ = sent
    return {"rate": count / taken, "loss": 1 - frames / count, "ns": spent / max(1, frames)}


def without_loss(sending: Sending, receiver: Listener, seconds: float) -> dict[str, float]:
    """Lower the offered rate, from as fast as the sender can, until the loss is small enough."""
    rate = 0.0
    for _ in range(10):
        found = run(sending, receiver, rate, seconds)
        if found["loss"] <= LOSS:
            break
        rate = found["rate"] * min(0.9, 1 - found["loss"] * 0.9)
    return found


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seconds", type=float, default=2.0, help="length of one run")
    parser.add_argument("--rate", type=float, default=200_000, help="frames a second where the rate is fixed")


def main() -> None:
    """A fixed rate, the highest rate without loss, and the sender alone."""
    bench, arguments = Bench.start(
        "ring",
        "frames of a veth pair, sent by another process from a transmit ring: thread time of "
        f"receive() per frame, and the rate at a loss of at most {LOSS:.1%}.",
        "a network card: on veth the kernel's receive work runs on the sender's core, which "
        "bounds the rates; the time to read a frame's bytes, which the UDP socket has copied "
        "into the cache and the ring has not.",
        _arguments,
    )
    pair(ADDRESS)
    seconds = 0.5 if bench.quick else arguments.seconds
    for payload in (100,) if bench.quick else (100, 1400):
        for what, to in CASES.items():
            sending, receiver = Sending(to, payload), listener(what)
            run(sending, receiver, 10_000, 0.2)  # touches everything once
            case: dict[str, object] = {"what": what, "payload": payload}
            found = run(sending, receiver, arguments.rate, seconds)
            note = f"at {found['rate']:,.0f} frames/s, loss {found['loss']:.3%}"
            bench.row(case, found["ns"], "ns/frame", note)
            found = without_loss(sending, receiver, seconds)
            note = f"{found['ns']:.0f} ns a frame, loss {found['loss']:.3%}"
            bench.row(case, found["rate"], "frames/s", note)
            sending.close()
            receiver.close()
        for bypass in (False, True):
            sending = Sending(CASES["ring"], payload, bypass)
            sending.channel.send((0, seconds))
            count, taken, spent = sending.channel.recv()
            case = {"what": "send", "payload": payload, "bypass": bypass}
            bench.row(case, count / taken, "frames/s", f"{spent / max(1, count):.0f} ns a frame")
            sending.close()


if __name__ == "__main__":
    main()
