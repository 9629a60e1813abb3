"""Measures decoding, and decoding with detection, on one core, with Telemetry Reports 2.0 in memory.

The cost of sockets, rings and the journal is not included. All flows are known and no value changes, so there
are no events: this is what a collector does most of the time.
"""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass

from ..detect.detector import Detector
from ..fabric.load import payloads
from ..settings.detect import DetectSettings
from ..wire.decode.decoder import Decoder
from ..wire.dialect import DIALECTS
from ..wire.records import FrameBatch

BATCH = 4096
ROWS = 32_768
"""Rows of the flow table, for 393,216 flows, so that 100,000 flows fill no row."""
_BATCHES = 16
"""Minimum number of batches of a case."""
_VISITS = 3
"""Mean number of reports of each flow, if that takes more batches."""


@dataclass(frozen=True, slots=True)
class Case:
    """The kind of reports to measure."""

    hops: int
    fields: int
    """Fields of a hop: 1 (the node id) or 8."""
    flows: int


CASES = tuple(
    Case(hops, fields, flows) for hops in (1, 3, 6) for fields in (1, 8) for flows in (1, 100, 100_000)
)
QUICK_CASES = (Case(1, 8, 100), Case(3, 8, 100), Case(6, 8, 100), Case(3, 1, 100), Case(3, 8, 100_000))


@dataclass(frozen=True, slots=True)
class Speed:
    """Time per report in ns, one value for each round."""

    decode: tuple[float, ...]
    both: tuple[float, ...]
    """Decoding and detection."""
    events: int
    """Events of all rounds; 0 unless something is wrong."""

    @property
    def decode_ns(self) -> float:
        """Median of decoding."""
        return statistics.median(self.decode)

    @property
    def both_ns(self) -> float:
        """Median of decoding and detection."""
        return statistics.median(self.both)


def measure(case: Case, rounds: int, batches: int = _BATCHES) -> Speed:
    """Measure a case in `rounds` alternating rounds of at least `batches` batches."""
    count = max(batches, -(-case.flows * _VISITS // BATCH))
    work = [payloads(BATCH, case.hops, case.fields, case.flows, number * BATCH) for number in range(count)]
    decoder = Decoder(DIALECTS["spec"], BATCH)
    detector = Detector(DetectSettings(flow_rows=ROWS, push_seconds=0), None)
    _round(work, decoder, detector)  # every flow is known after it
    decode, both, events = [], [], 0
    for _ in range(rounds):
        decode.append(_round(work, decoder, None)[0])
        taken, found = _round(work, decoder, detector)
        both.append(taken)
        events += found
    return Speed(tuple(decode), tuple(both), events)


def _round(work: list[FrameBatch], decoder: Decoder, detector: Detector | None) -> tuple[float, int]:
    """Time per report in ns, and the number of events."""
    events = 0
    start = time.perf_counter_ns()
    for frames in work:
        reports = decoder.decode(frames)
        if detector is not None:
            for block in detector.update(reports):
                events += len(block)
    return (time.perf_counter_ns() - start) / sum(map(len, work)), events
