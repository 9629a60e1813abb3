"""Reports read in a ring (`ring://`) against the same from memory: receive, decode and detect on one core."""

from __future__ import annotations

import time

from harness.common import Bench, median
from harness.veth import pair
from hopscope.capture.ring.paced_sender import PacedSender
from hopscope.capture.ring.report_listener import ReportListener
from hopscope.detect.detector import Detector
from hopscope.fabric.load import Load
from hopscope.settings.detect import DetectSettings
from hopscope.settings.listen import ListenSettings
from hopscope.wire.decode.decoder import Decoder
from hopscope.wire.dialect import DEFAULT
from hopscope.wire.records import FrameBatch, Link

PORT = 32766
FILLED = 3
"""Blocks of the load that the ring is filled with, before it is read: 49,152 reports."""
BATCH = 4096
SETTLE_SECONDS = 0.05
"""The kernel hands the last block over after 16 ms."""


class Detection:
    """Decoder and detector, and the processor time that they and the receiving take."""

    def __init__(self) -> None:
        self._decoder = Decoder(DEFAULT)
        self._detector = Detector(DetectSettings(flow_rows=32_768, push_seconds=0), None)

    def take(self, batch: FrameBatch) -> None:
        """Decode and detect."""
        for _ in self._detector.update(self._decoder.decode(batch)):
            pass


def measure(bench: Bench, hops: int, flows: int, rounds: int) -> None:
    """Both, in alternating rounds."""
    ring = ReportListener(ListenSettings(kind="ring", interface="near", port=PORT))
    ring.open()
    sender, detection = PacedSender("far"), Detection()
    memory = Load(hops=hops, flows=flows, sources=4)
    frames = Load(hops=hops, flows=flows, sources=4, link=Link.ETHERNET, collector="192.0.2.1", port=PORT)
    frames.octets[:, :12] = list(bytes.fromhex("ffffffffffff") + sender.address)
    times: dict[str, list[float]] = {"ring": [], "memory": []}
    for number in range(rounds + 1):
        for _ in range(FILLED):
            sender.send(frames.next(len(frames.octets)))
        time.sleep(SETTLE_SECONDS)
        start, count = time.thread_time_ns(), 0
        while (batch := ring.receive()) is not None:
            detection.take(batch)
            count += len(batch)
        between, again = time.thread_time_ns(), 0
        while again < count:
            batch = memory.next(BATCH)
            detection.take(batch)
            again += len(batch)
        if number and count:  # at first, all flows are new
            times["ring"].append((between - start) / count)
            times["memory"].append((time.thread_time_ns() - between) / again)
    ratios = [one / other for one, other in zip(times["ring"], times["memory"], strict=True)]
    for what, spent in times.items():
        case: dict[str, object] = {"from": what, "hops": hops, "flows": flows}
        note = f"{median(ratios):.2f} times memory (median of pairs)" if what == "ring" else ""
        bench.row(case, median(spent), "ns/report", note)
    ring.close()
    sender.close()


def main() -> None:
    """Hops and flows."""
    bench, _ = Bench.start(
        "report_ring",
        "CPU time to take and decode a report of eight fields per hop and to detect its "
        "events: from a ring that the kernel has filled with frames of a veth pair, and from "
        "memory; medians of alternating rounds.",
        "the kernel's copy into the ring, on the core where the frame arrives; pauses, counters and history.",
    )
    pair("192.0.2.1")
    for hops in (1, 3, 6):
        for flows in (100,) if bench.quick else (100, 100_000):
            measure(bench, hops, flows, 5 if bench.quick else 15)


if __name__ == "__main__":
    main()
