"""What `sink.py` measures with: packets of the paper's workload through decoder, sink and stripper."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from hopscope.detect.sink.detector import SinkDetector
from hopscope.settings.collector import Settings
from hopscope.wire.decode.decoder import Decoder
from hopscope.wire.dialect import DEFAULT
from hopscope.wire.records import FrameBatch, Records
from hopscope.wire.rewrite.strip_batch import Stripper
from support.packets.int_packets import IntPackets, Workload

from .common import median

CHUNK = 32 * 4096
"""Packets that are made before they are measured, in batches of 4,096."""
PACKETS = replace(DEFAULT, packets=True)


def settings(rows: int, **limits: dict[str, int]) -> Settings:
    """A sink with a table of `rows` rows and no other limits than these, by measure."""
    names = ("hop_latency", "queue_occupancy", "link_utilization", "flow_latency")
    thresholds = {name: {"change": "never", **limits.get(name, {})} for name in names}
    sink = {"enabled": True, "journal_events": 0}
    return Settings.model_validate({"sink": sink, "detect": {"flow_rows": rows, "thresholds": thresholds}})


def above(share: float, highest: int = 300) -> int:
    """The limit of a measure that this share of its values exceeds."""
    scale = highest / 6
    return int(-scale * np.log(share + (1 - share) * np.exp(-(highest + 1) / scale)))


@dataclass(frozen=True)
class Rates:
    """Medians over chunks, ns a packet, and what happened in them per packet."""

    decode: float
    update: float
    strip: float
    events: float
    hits: float
    """Share of packets whose flow was in the table."""

    @property
    def plain(self) -> float:
        """Packets a second without stripping."""
        return 1e9 / (self.decode + self.update)

    @property
    def stripped(self) -> float:
        """Packets a second with stripping."""
        return 1e9 / (self.decode + self.update + self.strip)


def measure(workload: Workload, chosen: Settings, warm: int, chunks: int) -> Rates:
    """Rates of a workload: `warm` chunks first that are not counted.

    In three quarters of these, all flows have equal shares, if there are few enough: the steady state.
    """
    packets, alike = IntPackets(workload, CHUNK), IntPackets(replace(workload, skew=0.0), CHUNK)
    few = workload.flows <= CHUNK
    decoder, detector, stripper = Decoder(PACKETS), SinkDetector(chosen), Stripper(PACKETS)
    counted: list[tuple[float, float, float]] = []
    before = (0, 0, 0)
    for number in range(warm + chunks):
        block = alike if few and number < warm * 3 // 4 else packets
        block.fill(number * CHUNK)
        if number == warm:
            before = _totals(detector)
        taken = np.zeros(3)
        for frames in block.batches():
            taken += _batch(frames, decoder, detector, stripper)
        if number >= warm:
            counted.append(tuple((taken / CHUNK * 1e9).tolist()))
    events, live, evicted = (now - then for now, then in zip(_totals(detector), before, strict=True))
    total = chunks * CHUNK
    decode, update, strip = (median(times) for times in zip(*counted, strict=True))
    return Rates(decode, update, strip, events / total, 1 - (live + evicted) / total)


def _batch(
    frames: FrameBatch, decoder: Decoder, detector: SinkDetector, stripper: Stripper
) -> tuple[float, float, float]:
    """Seconds of decoding, updating and stripping one batch."""
    start = time.perf_counter()
    reports = decoder.decode(frames, trails=True)
    decoded = time.perf_counter()
    for _ in detector.update(reports):
        pass
    updated = time.perf_counter()
    stripper.strip(frames, reports)
    return decoded - start, updated - decoded, time.perf_counter() - updated


def _totals(detector: SinkDetector) -> tuple[int, int, int]:
    """(events, live flows, evictions) so far."""
    tags = detector.tables["flows"]["rows"]["tag"]
    live = sum(int(np.count_nonzero(part)) for part in _parts(tags))
    return detector.event_ring.head, live, detector.eviction_ring.head


def _parts(array: npt.NDArray[Any]) -> Iterator[npt.NDArray[Any]]:
    return (array[at : at + 4096] for at in range(0, len(array), 4096))


class Stamped:
    """In place of a detector's kernels: each packet alone, between two reads of the time stamp counter."""

    def __init__(self) -> None:
        from . import stamps_kernel

        self._kernels: Any = stamps_kernel
        self.taken: list[npt.NDArray[np.uint32]] = []
        self.caused: list[npt.NDArray[np.uint8]] = []

    def update_kernel(self, reports: Records, start: int, hops: Records, *rest: Any) -> tuple[int, ...]:
        """As `sink_kernel.update_kernel`; its events and evictions are in no ring."""
        taken, caused = np.zeros(len(reports), np.uint32), np.zeros(len(reports), np.uint8)
        self._kernels.stamp(reports, hops, *rest, taken, caused)
        self.taken.append(taken)
        self.caused.append(caused)
        return len(reports), 0, 0, 0


def ticks_per_ns(seconds: float = 0.2) -> float:
    """Rate of the time stamp counter."""
    from . import stamps_kernel

    one = np.zeros(2, np.uint64)
    stamps_kernel.read(one, np.uint64(0))
    start = time.perf_counter_ns()
    stamps_kernel.read(one, np.uint64(0))
    while time.perf_counter_ns() - start < seconds * 1e9:
        pass
    stamps_kernel.read(one, np.uint64(1))
    return float(one[1] - one[0]) / (time.perf_counter_ns() - start)


def operations(chosen: Settings, workload: Workload, warm: int, chunks: int) -> tuple[Any, Any, float]:
    """(ns of each packet, what it caused (`stamps_kernel`), ns of the stamps alone)."""
    from . import stamps_kernel

    packets = IntPackets(workload, CHUNK)
    decoder, detector, stamped = Decoder(PACKETS), SinkDetector(chosen), Stamped()
    for number in range(warm + chunks):
        packets.fill(number * CHUNK)
        if number == warm:
            detector._kernels = stamped
        for frames in packets.batches():
            for _ in detector.update(decoder.decode(frames)):
                pass
    bare = np.zeros(10_000, np.uint32)
    stamps_kernel.nothing(bare)
    rate = ticks_per_ns()
    return np.concatenate(stamped.taken) / rate, np.concatenate(stamped.caused), median(bare) / rate
