"""Decode alone, and decode + detect, on one core: reports a second against hops, fields and flows."""

from __future__ import annotations

import time

from harness.common import Bench, median
from hopscope.detect.detector import Detector
from hopscope.detect.flows.tables import memory_bytes
from hopscope.detect.records import EVENT
from hopscope.fabric.load import payloads
from hopscope.settings.collector import DetectSettings
from hopscope.wire.decode.decoder import Decoder
from hopscope.wire.dialect import DIALECTS
from hopscope.wire.records import FrameBatch

BATCH = 4096
ROWS = 32_768
"""Rows of the flow table: 393,216 flows, so that 100,000 meet no full row."""


def batches(hops: int, fields: int, flows: int) -> list[FrameBatch]:
    """Enough batches that every flow is met, and at least 64 Ki reports."""
    count = max(16, -(-flows * 3 // BATCH))
    return [payloads(BATCH, hops, fields, flows, number * BATCH) for number in range(count)]


def one_round(work: list[FrameBatch], decoder: Decoder, detector: Detector | None) -> tuple[float, int]:
    """Seconds for all batches once, and events."""
    events = 0
    start = time.perf_counter()
    for frames in work:
        reports = decoder.decode(frames)
        if detector is not None:
            for block in detector.update(reports):
                events += len(block)
    return time.perf_counter() - start, events


def measure(bench: Bench, hops: int, fields: int, flows: int, rounds: int) -> None:
    """Both figures for one case, in alternating rounds."""
    work = batches(hops, fields, flows)
    decoder = Decoder(DIALECTS["spec"], BATCH)
    detector = Detector(DetectSettings(flow_rows=ROWS, push_seconds=0), None)
    one_round(work, decoder, detector)  # every flow is known now; what follows is the steady state
    alone, both, events = [], [], 0
    for _ in range(rounds):
        alone.append(one_round(work, decoder, None)[0])
        seconds, found = one_round(work, decoder, detector)
        both.append(seconds)
        events += found
    count = len(work) * BATCH
    case: dict[str, object] = {"hops": hops, "fields": fields, "flows": flows}
    for what, times in (("decode", alone), ("decode+detect", both)):
        typical, best = median(times), min(times)
        note = f"{typical / count * 1e9:.0f} ns a report, best round {count / best / 1e6:.2f} M/s"
        if what != "decode":
            note += f", {events} events"
        bench.row({"what": what, **case}, count / typical, "reports/s", note)


def main() -> None:
    """Every case of hops, fields and flows."""
    bench, _ = Bench.start(
        "decode_detect",
        "reports per second through the compiled decoder and the detector, one core, frames in memory.",
        "sockets, the journal (steady state: no events), and the first meeting of a flow.",
    )
    rounds = 5 if bench.quick else 15
    cases = [(h, f, n) for h in (1, 3, 6) for f in (1, 8) for n in (1, 100, 100_000)]
    if bench.quick:
        cases = [(1, 8, 100), (3, 8, 100), (6, 8, 100), (3, 1, 100), (3, 8, 100_000)]
    for hops, fields, flows in cases:
        measure(bench, hops, fields, flows, rounds)
    size = memory_bytes(DetectSettings(flow_rows=ROWS)) - memory_bytes(DetectSettings(flow_rows=1))
    bench.row({"what": "flow table", "flows": ROWS * 12}, size / (ROWS * 12), "bytes/flow")
    bench.row({"what": "event"}, EVENT.itemsize, "bytes/event")


if __name__ == "__main__":
    main()
