"""Receive rings for a sink in a wire: blocks of several sizes, and slots of one frame."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt

from harness.common import Bench
from harness.sending import FOREIGN, Sending
from harness.slots import SlotListener
from harness.veth import pair
from hopscope.capture.ring.listener import RingListener
from hopscope.capture.ring.socket import bind_ring
from hopscope.settings.listen import ListenSettings
from hopscope.wire.records import FrameBatch

RING_BYTES = 1 << 25
PAYLOAD = 58  # frames of 100 bytes
NAP, FEW = 0.001, 256  # as a worker does
LOW_RATE, LOW_SECONDS = 800, 4.0
"""At which a block rarely holds two frames."""
RATES = (1_000, 20_000, 100_000)
STANDSTILL = 0.2
"""Seconds that a restart may take."""
RESTART_RATES = (50_000, 200_000)
_SETTLE = 0.05


class Receiver(Protocol):
    """What has a ring."""

    def open(self) -> None:
        """Make it."""

    def receive(self) -> FrameBatch | None:
        """What has come."""

    def counts(self) -> dict[str, int]:
        """What has not."""

    def close(self) -> None:
        """End it."""


def blocks(block_bytes: int) -> Receiver:
    """A ring of TPACKET_V3, with the retire time of a sink in a wire."""
    settings = ListenSettings(kind="mirror", interface="near", output="far", ring_bytes=RING_BYTES)
    handle = bind_ring(settings, block_bytes=block_bytes)
    return RingListener(settings, sock=handle, block_bytes=block_bytes)


def slots(slot_bytes: int) -> Receiver:
    """A ring of TPACKET_V2."""
    return SlotListener("near", RING_BYTES, slot_bytes)


RINGS: dict[str, Callable[[], Receiver]] = {
    "blocks of 128 KiB": lambda: blocks(1 << 17),
    "blocks of 16 KiB": lambda: blocks(1 << 14),
    "blocks of 4 KiB": lambda: blocks(1 << 12),
    "slots of 2 KiB": lambda: slots(1 << 11),
    "slots of 16 KiB": lambda: slots(1 << 14),
}
"""Those of 4 and 2 KiB do not hold jumbo frames (9,000 bytes)."""


@dataclass
class Run:
    """What a ring took."""

    sent: int = 0
    frames: int = 0
    spent_ns: int = 0
    sender_ns: int = 0
    delays: list[npt.NDArray[np.int64]] = field(default_factory=list)


def run(sending: Sending, receiver: Receiver, rate: float, seconds: float, still: float = 0) -> Run:
    """Send for some seconds and receive as a worker does; `still`: seconds without a look in the middle."""
    sending.channel.send((rate, seconds))
    found, last = Run(), 1
    pause_at = time.monotonic() + seconds / 2 if still else float("inf")
    answer: tuple[int, float, int] | None = None
    while answer is None or last:
        if answer is None and sending.channel.poll():
            answer = sending.channel.recv()
            time.sleep(_SETTLE)
        if time.monotonic() >= pause_at:
            time.sleep(still)
            pause_at = float("inf")
        start = time.thread_time_ns()
        batch = receiver.receive()
        found.spent_ns += time.thread_time_ns() - start
        last = 0 if batch is None else len(batch)
        if batch is not None:
            found.delays.append(time.time_ns() - batch.frames["time_ns"].astype(np.int64))
            found.frames += last
        if last < FEW:
            time.sleep(NAP)
    found.sent, _, found.sender_ns = answer
    return found


def held(sending: Sending, receiver: Receiver, rate: float, seconds: float) -> tuple[int, int]:
    """Frames that a ring holds if no process reads it, and how many were sent."""
    sending.channel.send((rate, seconds))
    sent = sending.channel.recv()[0]
    time.sleep(_SETTLE)
    frames = 0
    while (batch := receiver.receive()) is not None:
        frames += len(batch)
    return frames, sent


def measure(bench: Bench, name: str, make: Callable[[], Receiver], quick: bool) -> None:
    """All figures of a ring."""
    seconds = 0.5 if quick else 2.0

    def row(what: str, rate: float, value: float, unit: str, note: str = "") -> None:
        bench.row({"ring": name, "what": what, "frames/s": rate or "most"}, value, unit, note)

    sending, receiver = Sending(FOREIGN, PAYLOAD), make()
    receiver.open()
    run(sending, receiver, 10_000, 0.2)  # touches everything once
    for rate in RATES:
        found = run(sending, receiver, rate, seconds)
        delays = np.concatenate(found.delays) / 1000
        most = f"99.9 % below {np.percentile(delays, 99.9):,.0f} us"
        row("delay", rate, float(np.median(delays)), "us, median", most)
        if rate == RATES[-1]:
            row("receive", rate, found.spent_ns / found.frames, "ns/frame")
    found = run(sending, receiver, 0, seconds)
    row("send, with the kernel's receiving", 0, found.sender_ns / found.sent, "ns/frame")
    low_seconds = 1.0 if quick else LOW_SECONDS
    frames, sent = held(sending, receiver, LOW_RATE, low_seconds)
    note = f"{sent:,} sent" + (": none lost" if frames == sent else "")
    row("held without a reader", LOW_RATE, frames, "frames", note)
    frames, sent = held(sending, receiver, 0, seconds)
    row("held without a reader", 0, frames, "frames", f"{sent:,} sent")
    for rate in RESTART_RATES:
        found = run(sending, receiver, rate, 1.0, STANDSTILL)
        note = f"of {found.sent:,}"
        row(
            f"lost in {1000 * STANDSTILL:.0f} ms without a reader",
            rate,
            found.sent - found.frames,
            "frames",
            note,
        )
    sending.close()
    receiver.close()


def arguments(parser: argparse.ArgumentParser) -> None:
    """Of this benchmark."""
    parser.add_argument("--ring", choices=RINGS, help="only this one")


def main() -> None:
    """All rings, or one."""
    bench, chosen = Bench.start(
        "wire_rings",
        f"receive rings of {RING_BYTES >> 20} MiB with frames of 100 bytes from a veth pair: "
        "time from the kernel's stamp until a worker sees a frame, thread time, frames held "
        f"without a reader, and frames lost in a restart of {1000 * STANDSTILL:.0f} ms. Blocks: "
        "TPACKET_V3, retired after 1 ms; slots: TPACKET_V2.",
        "a network card: on veth the kernel's receive work runs on the sender's core.",
        arguments,
    )
    pair("192.0.2.1")
    names = [chosen.ring] if chosen.ring else list(RINGS)
    for name in names:
        measure(bench, name, RINGS[name], bench.quick)


if __name__ == "__main__":
    main()
