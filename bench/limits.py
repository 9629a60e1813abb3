"""How fast one core decodes and detects, against all that a report's content decides: one table, one run."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import numpy as np

from harness.common import Bench, median
from harness.dialects import OTHERS, SPECIFIED, Format, frames_of
from harness.sink import measure, settings
from hopscope.detect.detector import Detector
from hopscope.fabric.load import report_batch
from hopscope.settings.detect import DetectSettings
from hopscope.wire.decode.decoder import Decoder
from hopscope.wire.dialect import DEFAULT, Dialect
from hopscope.wire.encode.encoder import encode_reports
from hopscope.wire.records import FrameBatch, Link
from support.packets.int_packets import Workload

BATCH, FEWEST, MOST = 4096, 16, 96
"""Reports of a batch; batches of a case."""
HOPS, FIELDS, FLOWS = (1, 3, 6, 12), (1, 8), (1, 100, 100_000, 1_000_000)
SHARES = (0.0, 0.001, 0.01, 0.1)
"""Shares of reports that cause events."""
LONG = 100_000
"""Flows of 12 hops that have all of these: 360 MB. Of a million, the others keep eight."""
STEP_NS = 1_000_000
"""By which a hop's latency changes for one report: more than any threshold."""
SHAPES = ((3, 8, 100), (6, 8, 100), (3, 1, 100), (3, 8, 50_000))
"""Hops, fields and flows in the formats of dialects."""


@dataclass
class Case:
    """Frames of one kind, what they are read with, and the seconds of each round."""

    columns: dict[str, object]
    work: list[FrameBatch]
    decoder: Decoder
    detector: Detector
    decoded: list[float] = field(default_factory=list)
    detected: list[float] = field(default_factory=list)
    events: int = 0

    @classmethod
    def of(cls, columns: dict[str, object], work: list[FrameBatch], dialect: Dialect, flows: int) -> Case:
        """A case whose flows have room in the table, and have all been seen once; LONG of them also have room
        for more than eight hops.
        """
        rows = 131_072 if flows > 100_000 else 32_768
        detector = Detector(DetectSettings(flow_rows=rows, hop_pool=min(flows, LONG), push_seconds=0), None)
        case = cls(columns, work, Decoder(dialect, BATCH), detector)
        case.run(None)
        case.run(detector)
        return case

    def run(self, detector: Detector | None) -> float:
        """Seconds of a processor for all batches, once."""
        self.events = 0
        start = time.thread_time()
        for frames in self.work:
            reports = self.decoder.decode(frames)
            if detector is not None:
                for block in detector.update(reports):
                    self.events += len(block)
        return time.thread_time() - start

    def round(self) -> None:
        """Decode alone, then decode and detect."""
        self.decoded.append(self.run(None))
        self.detected.append(self.run(self.detector))

    def report(self, bench: Bench) -> None:
        """The rates of the best rounds."""
        reports = sum(len(frames) for frames in self.work)
        for what, seconds in (("decode", self.decoded), ("decode+detect", self.detected)):
            best, middle = (figure / reports * 1e9 for figure in (min(seconds), median(seconds)))
            text = f"{best:.1f} ns a report, median {middle:.1f}"
            if what != "decode" and self.events:
                text += f", {self.events / reports:.3g} events a report"
            bench.row({"what": what, **self.columns}, 1e9 / best, "reports/s", text)

    def times(self, other: Case) -> float:
        """How often the time of another case decode and detect takes: median of the rounds."""
        return median(mine / theirs for mine, theirs in zip(self.detected, other.detected, strict=True))


def batches(hops: int, fields: int, flows: int, share: float = 0.0) -> list[FrameBatch]:
    """Reports 2.0; `share` of them cause events: half by another latency of a hop, half by its end."""
    found = []
    random = np.random.default_rng(16)
    for number in range(min(MOST, max(FEWEST, -(-flows * 3 // BATCH)))):
        batch = report_batch(BATCH, hops, fields, flows, number * BATCH)
        changed = np.flatnonzero(random.random(BATCH) < share / 2)
        batch.hops["hop_latency"][changed * hops] += STEP_NS
        found.append(encode_reports(batch, link=Link.UDP_PAYLOAD))
    return found


def contents(bench: Bench, rounds: int) -> None:
    """Hops, fields and flows, then events."""
    grid = [(h, f, n, 0.0) for n in FLOWS for h in HOPS for f in FIELDS]
    grid += [(3, 8, n, share) for n in (100, 100_000) for share in SHARES[1:]]
    if bench.quick:
        grid = [(3, 8, 100, 0.0), (6, 8, 100, 0.0), (3, 8, 100_000, 0.0), (3, 8, 100, 0.01)]
    for hops, fields, flows, share in grid:
        columns: dict[str, object] = {"hops": hops, "fields": fields, "flows": flows}
        if share:
            columns["share of reports with events"] = share
        case = Case.of(columns, batches(hops, fields, flows, share), DEFAULT, flows)
        for _ in range(rounds):
            case.round()
        case.report(bench)


def formats(bench: Bench, rounds: int) -> None:
    """Every dialect beside the specified format that comes next, in interleaved rounds."""
    named: dict[str, tuple[Format, str]] = {}
    for (report, version), form in SPECIFIED.items():
        name = _name(report, version)
        named[name] = form, name
    named |= {name: (form, _name(*nearest)) for name, (form, nearest) in OTHERS.items()}
    for hops, fields, flows in SHAPES[:1] if bench.quick else SHAPES:
        cases = {}
        for name, (form, _) in named.items():
            columns: dict[str, object] = {"format": name, "hops": hops, "fields": fields, "flows": flows}
            count = max(FEWEST // 2, -(-flows * 3 // BATCH))
            work = [frames_of(form, BATCH, hops, fields, flows, n * BATCH) for n in range(count)]
            cases[name] = Case.of(columns, work, form.dialect, flows)
        for _ in range(rounds if flows < 1000 else 5):
            for case in cases.values():
                case.round()
        for case in cases.values():
            case.report(bench)
        for name, (_, nearest) in named.items():
            if name != nearest:
                columns = {
                    "dialect": name,
                    "compared with": nearest,
                    "hops": hops,
                    "fields": fields,
                    "flows": flows,
                }
                bench.row(columns, cases[name].times(cases[nearest]), "times the time, decode+detect")


def _name(report: str | None, version: str) -> str:
    return f"Report {report}" if report else f"packets, INT {version}"


def sink(bench: Bench, chunks: int) -> None:
    """Packets at a sink, 5 nodes and 4 instructions."""
    for flows, size in ((1000, 15), (100_000, 15), (1_000_000, 18)):
        rates = measure(Workload(flows=flows), settings(1 << size), 12, chunks)
        note = f"decode {rates.decode:.0f} ns, update {rates.update:.0f} ns, {rates.hits:.1%} hits"
        columns: dict[str, object] = {"what": "sink", "nodes": 5, "instructions": 4, "flows": flows}
        bench.row(columns, rates.plain, "packets/s", note)


def main() -> None:
    """All three."""
    bench, _ = Bench.start(
        "limits",
        "reports per CPU second through decoder and detector (best round), and packets per "
        "second through decoder and sink (median), on one core, frames in memory.",
        "sockets, the journal, and the first report of each flow.",
    )
    contents(bench, 3 if bench.quick else 4)
    formats(bench, 5 if bench.quick else 11)
    sink(bench, 2 if bench.quick else 3)


if __name__ == "__main__":
    main()
