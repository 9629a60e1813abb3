"""Whether every datagram is accounted for on every path, at twice the load that a receiver takes."""

from __future__ import annotations

import argparse
import socket
import time
from contextlib import closing
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from direct_udp import Stream, opened
from harness.common import Bench
from harness.sending import CONTEXT
from harness.sink import settings as of_sink
from harness.veth import pair
from hopscope.base.process.loop import drain
from hopscope.capture.ring.paced_sender import PacedSender
from hopscope.capture.udp.sender import UdpSender
from hopscope.fabric.load import Load
from hopscope.runtime.direct.intake import counts
from hopscope.runtime.pipeline.mode import mode_of, pipeline_of
from hopscope.runtime.processes.worker import Receiver, Worker, detector_of, dialects_of, listener_of
from hopscope.settings.collector import Settings
from hopscope.settings.detect import DetectSettings
from hopscope.wire.records import FRAME, FrameBatch, Link
from support.packets.int_packets import IntPackets, Workload

ADDRESS, PORT = "192.0.2.1", 32766
BUFFER = 2**20
"""Bytes of a socket's buffer or of a ring: full long before a pause ends."""
PAUSE_SECONDS = 0.05
"""A receiver takes what comes for so long, and then takes nothing for as long."""
SETTLE_SECONDS = 0.2
TRAIN = 64
PATHS: dict[str, dict[str, object]] = {
    "udp": {"kind": "udp", "port": 0, "receive_buffer_bytes": BUFFER},
    "udp, trains": {"kind": "udp", "port": 0, "receive_buffer_bytes": BUFFER},
    "udp, rate limit": {"kind": "udp", "port": 0, "receive_buffer_bytes": BUFFER, "rate_limit": 1000},
    "ring": {"kind": "ring", "interface": "near", "port": PORT, "ring_bytes": BUFFER},
    "xdp": {"kind": "xdp", "interface": "near", "port": PORT, "ring_bytes": BUFFER},
    "sink": {"kind": "mirror", "interface": "near", "ring_bytes": BUFFER},
}
"""Settings of the listeners; the receiver of all but the last is a collector of reports."""
FILTERED = "done in the kernel"
REASONS = {
    "frames_total": "received",
    "xdp_datagrams_total.filtered": FILTERED,
    "kernel_drops_total": "dropped, no room",
    "denied_frames_total": "denied",
    "rate_limited_frames_total": "above the rate limit",
    "oversized_frames_total": "oversized",
    "abandoned_frames_total": "abandoned",
    "xdp_passed_datagrams_total.fragment": "fragments",
    "xdp_passed_datagrams_total.bad_length": "of a bad length",
}
"""Counters that a datagram is counted in, once."""


def int_packets() -> FrameBatch:
    """INT packets of five hops, of one length."""
    made = IntPackets(Workload(flows=1000), 16_384)
    made.fill(0)
    length = int(made.frames["length"][0])
    rows = made.arena.reshape(len(made.frames), -1)[:, :length].copy()
    frames = np.zeros(len(rows), FRAME)
    frames["offset"], frames["length"] = np.arange(len(rows)) * length, length
    return FrameBatch(rows.reshape(-1), frames)


def send(channel: Connection) -> None:
    """A process that sends as fast as it can: asked (path, port, seconds), it answers the datagrams sent."""
    for path, port, seconds in iter(channel.recv, None):
        udp, trains = path.startswith("udp"), path.endswith("trains")
        if udp:
            load = Load(hops=3, flows=20_000, sources=4, run=TRAIN if trains else 1)
            sender: Any = UdpSender("127.0.0.1", port, trains=trains, by_source=True)
        else:
            load = Load(hops=3, flows=20_000, sources=4, link=Link.ETHERNET, collector=ADDRESS, port=PORT)
            sender = PacedSender("far")
            load.octets[:, :12] = list(bytes.fromhex("020000000001") + sender.address)
        packets = int_packets() if path == "sink" else None
        until, again = time.monotonic() + seconds, True
        while again:
            sender.send(packets or load.next(4096, 2048))
            again = time.monotonic() < until
        channel.send(sender.sent)
        sender.close()


def overload(bench: Bench, path: str, sending: Connection, seconds: float) -> None:
    """A worker that does nothing for half of the time."""
    listen = PATHS[path]
    rows = DetectSettings(flow_rows=32_768, push_seconds=0)
    settings = (
        of_sink(32_768).model_copy(update={"listen": Settings.model_validate({"listen": [listen]}).listen})
        if path == "sink"
        else Settings.model_validate({"listen": [listen], "detect": rows})
    )
    mode, steps = mode_of(settings), pipeline_of(settings)
    worker, (one,) = Worker(steps), settings.listen
    dialects = dialects_of(one, mode)
    listener = listener_of(one, 0, None, detector_of(steps, mode, dialects), dialects[0])
    listener.open()
    worker.receivers.append(Receiver(listener, dialects, bench.say))
    sent = 0
    for length in (0.0, seconds):  # first a few, with which kernels are loaded
        sending.send((path, getattr(listener, "port", PORT), length))
        while not sending.poll():
            until = time.monotonic() + PAUSE_SECONDS
            while time.monotonic() < until:
                worker.turn()
            time.sleep(PAUSE_SECONDS)
        sent += sending.recv()
        time.sleep(SETTLE_SECONDS)
        drain(worker.turn, 10)
    worker.drain()
    found = {what: steps.counted[key] for key, what in REASONS.items() if steps.counted[key]}
    worker.close()
    if FILTERED in found:  # the program's count is merged into that of all frames
        found["received"] -= found[FILTERED]
    if path.endswith("trains"):  # the kernel counts one for each train
        found["dropped, no room"] *= TRAIN
    report(bench, path, sent, found)


def direct(bench: Bench, rounds: int) -> None:
    """A translator of DTA whose worker takes nothing while more than twice as much as fits is sent."""
    with TemporaryDirectory(dir="/dev/shm") as folder:
        process = opened("Key-Write", 1, Path(folder), False, "32MiB")
        (intake,) = process.intakes
        (listener,) = intake.sockets
        assert listener._socket is not None
        listener._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER)
        stream, sent = Stream("Key-Write"), 0
        with closing(UdpSender("127.0.0.1", process.port, trains=False, by_source=True)) as sender:
            for _ in range(rounds):
                sent += sum(sender.send(batch) for batch in stream.frames)
                stream.advance()
                drain(intake.turn, 10)
        told = counts([intake])
        process.close()
    found = {"received": told["datagrams"], "dropped, no room": told["kernel_drops_total"]}
    report(bench, "DTA", sent, found)


def report(bench: Bench, path: str, sent: int, found: dict[str, int]) -> None:
    """What became of the datagrams, and how many nobody has counted."""
    parts = " + ".join(f"{count:,} {what}" for what, count in found.items())
    unknown = sent - sum(found.values())
    bench.row({"path": path}, unknown, "datagrams unaccounted for", f"{sent:,} sent = {parts}")


def arguments(parser: argparse.ArgumentParser) -> None:
    """Of this benchmark."""
    parser.add_argument("--paths", nargs="+", choices=[*PATHS, "DTA"], default=[*PATHS, "DTA"])
    parser.add_argument("--seconds", type=float, default=3.0, help="length of one run")


def main() -> None:
    """All paths."""
    bench, chosen = Bench.start(
        "loss",
        "the fate of each datagram, sent as fast as one core can to a receiver that is idle "
        "half of the time and has a buffer of 1 MiB, too small for the datagrams of that time.",
        "losses before the receiving machine.",
        arguments,
    )
    pair(ADDRESS)
    sending, other = CONTEXT.Pipe()
    sender = CONTEXT.Process(target=send, args=(other,))
    sender.start()
    for path in chosen.paths:
        if path == "DTA":
            direct(bench, 2 if bench.quick else 10)
        else:
            overload(bench, path, sending, 1.0 if bench.quick else chosen.seconds)
    sending.send(None)
    sender.join()


if __name__ == "__main__":
    main()
