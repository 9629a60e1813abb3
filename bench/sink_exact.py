"""Is what the sink tells exactly so? Distributions, flows and events against the packets' own columns."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from harness.common import Bench
from harness.sink import settings as settings_of_sink
from harness.sink_ring import arrival_to_event, send_through
from harness.veth import pair
from hopscope.detect.counters import INDEX
from hopscope.detect.distributions.reader import DistributionReader, ShardCounts
from hopscope.detect.sink.detector import SinkDetector
from hopscope.detect.sink.records import Measure
from hopscope.detect.sink.rings import SinkEvents
from hopscope.settings.collector import Settings
from hopscope.wire.decode.decoder import Decoder
from hopscope.wire.dialect import DEFAULT
from hopscope.wire.records import ReportBatch
from support.events.sink_truth import (
    Differences,
    Flows,
    Histograms,
    Limits,
    binned,
    differences,
    limits_for,
)
from support.packets.int_packets import IntPackets, Workload

BATCH = 4096
BLOCK = 1 << 16
RATES = (0.1e6, 0.5e6, 1e6, 2e6)
"""Events a second of the packets' time."""
PAPER_EVENTS = 0.4e6
"""Section IV-E."""
PAPER_PERCENT = 0.04
ROWS = 65_536
"""Of the flow table: 100,000 flows meet no full row."""
HOP_FIELDS = ("latency", "queue", "utilization")


def settings(limits: Limits, rows: int = ROWS) -> Settings:
    """A sink with these limits, and no quota."""
    names = ("hop_latency", "queue_occupancy", "link_utilization", "flow_latency")
    given = zip(names, limits.change, limits.above, strict=True)
    return settings_of_sink(rows, **{name: {"change": c, "raise_above": a} for name, c, a in given})


def blocks(workload: Workload, packets: int) -> Iterator[tuple[IntPackets, int]]:
    """All packets, in blocks; the number is how many of the block's are meant."""
    block = IntPackets(workload, min(BLOCK, packets), BATCH)
    for first in range(0, packets, BLOCK):
        block.fill(first)
        yield block, min(BLOCK, packets - first)


def new_decoder() -> Decoder:
    """A decoder of packets."""
    return Decoder(replace(DEFAULT, packets=True), BATCH)


def calibrated(workload: Workload, rates: tuple[float, ...]) -> list[Limits]:
    """Limits that give about so many events a second of the packets' time."""
    flows, block = Flows(workload), IntPackets(workload, BLOCK)
    for first in (0, BLOCK):
        block.fill(first)
        found = flows.add(block, BLOCK)
    return [limits_for(found, rate / workload.rate) for rate in rates]


class Case:
    """One sink, its event ring read as it runs, and what was wrong with it so far."""

    def __init__(self, folder: Path, limits: Limits, rows: int = ROWS) -> None:
        self.limits = limits
        self.folder = folder
        self.detector = SinkDetector(settings(limits, rows), folder)
        self.ring = SinkEvents(folder)
        self.events = self.missed = self.invented = 0
        self._new: list[np.ndarray[tuple[int], np.dtype[np.void]]] = []

    def take(self, batch: ReportBatch) -> None:
        """Give a batch to the sink; read its ring."""
        for _ in self.detector.update(batch):
            pass
        while len(records := self.ring.read(BLOCK)[0]):
            self._new.append(records)

    def compare(self, true: Differences) -> None:
        """Compare the events since the last call with those that there should be."""
        expected = true.events(self.limits, self.events)
        found = np.concatenate([expected[:0], *self._new])
        self._new = []
        self.events += len(expected)
        missed, invented = differences(expected, found)
        self.missed += missed
        self.invented += invented

    def counts(self) -> ShardCounts:
        """Distributions, as another process reads them."""
        return DistributionReader.attach(self.folder).counts()[0]


def compare_counts(measure: Measure, true: Histograms, counts: ShardCounts) -> tuple[int, int, int]:
    """(values, difference over all bins, switches whose sum or highest value is another)."""
    values = true.of(measure)
    expected = binned(values, counts.edges[measure])
    bins, sums, highest = (np.zeros(shape, np.int64) for shape in (expected.shape, len(values), len(values)))
    whole = measure == Measure.END_TO_END
    place = np.zeros(1, np.int64) if whole else counts.rows["node_id"][1:].astype(np.int64) - 1
    rows, column = (slice(0, 1) if whole else slice(1, None)), 0 if whole else int(measure)
    foreign = (place < 0) | (place >= len(values))
    np.add.at(bins, place[~foreign], counts.bins[rows, column][~foreign].astype(np.int64))
    np.add.at(sums, place[~foreign], counts.rows["sum"][rows, column][~foreign].astype(np.int64))
    np.maximum.at(highest, place[~foreign], counts.rows["highest"][rows, column][~foreign])
    of_value = np.arange(values.shape[1])
    other = (sums != values @ of_value) | (highest != ((values > 0) * of_value).max(axis=1))
    off = np.abs(bins - expected).sum() + int(counts.bins[rows, column][foreign].sum())
    return int(values.sum()), int(off), int(np.count_nonzero(other)) + int(np.count_nonzero(foreign))


def wrong_flows(true: Flows, detector: SinkDetector) -> int:
    """Flows with other packets, sums or latest values than there were."""
    tables, hops = detector.tables["flows"], true.workload.hops
    at = np.flatnonzero(tables["rows"]["tag"].reshape(-1))
    flows = tables["flows"][at]
    number = (flows["src_lo"] & 0xFFFFFFFF).astype(np.int64) - (10 << 24)
    states = tables["hops"][: 8 * len(tables["flows"])].reshape(-1, 8)[at, :hops]
    wrong = flows["packets"] != true.packets[number]
    wrong |= flows["latency_sum"] != true.sums[number, :, 0].sum(axis=1)
    wrong |= flows["latency_latest"] != true.latest[number, :, 0].sum(axis=1)
    for measure, name in enumerate(HOP_FIELDS):
        wrong |= (states[f"{name}_sum"] != true.sums[number, :, measure]).any(axis=1)
        wrong |= (states[f"{name}_latest"] != true.latest[number, :, measure]).any(axis=1)
    return int(np.count_nonzero(wrong)) + abs(int(np.count_nonzero(true.packets)) - len(at))


def from_memory(bench: Bench, workload: Workload, packets: int, rates: tuple[float, ...]) -> list[str]:
    """All cases in one pass over the packets; returns what failed."""
    wrong = []
    decoder, histograms, flows = new_decoder(), Histograms(workload), Flows(workload)
    with ExitStack() as stack:
        shm = "/dev/shm" if Path("/dev/shm").is_dir() else None
        folders = [stack.enter_context(tempfile.TemporaryDirectory(dir=shm)) for _ in rates]
        limits = calibrated(workload, rates)
        cases = [Case(Path(folder), one) for folder, one in zip(folders, limits, strict=True)]
        for block, count in blocks(workload, packets):
            for frames in block.batches(count):
                reports = decoder.decode(frames)
                for each in cases:
                    each.take(reports)
            histograms.add(block, count)
            true = flows.add(block, count)
            for each in cases:
                each.compare(true)
        for rate, each in zip(rates, cases, strict=True):
            what: dict[str, object] = {"from": "memory", "events/s": f"{rate / 1e6:g} M"}
            told = each.events / packets * workload.rate / 1e6
            evicted = int(each.detector.counters[INDEX["flow_evictions_total"]])
            lacking = flows_wrong = wrong_flows(flows, each.detector)
            note = f"of {each.events:,} events ({told:.3g} M/s): {each.missed:,} missed,"
            note += f" {each.invented:,} invented"
            bench.row(what | {"what": "events"}, each.missed + each.invented, "wrong", note)
            note = f"of {np.count_nonzero(flows.packets):,} flows; {evicted:,} evicted"
            bench.row(what | {"what": "flows"}, flows_wrong, "wrong", note)
            lacking += each.missed + each.invented + evicted
            for measure in Measure:
                total, off, other = compare_counts(measure, histograms, each.counts())
                note = f"of {total:,} values; {other} sums or highest values"
                bench.row(what | {"what": measure.label}, off + other, "wrong", note)
                lacking += off + other
            if lacking:
                wrong.append(f"{rate / 1e6:g} M events/s: {lacking:,} differences to the truth")
    return wrong


def from_ring(bench: Bench, workload: Workload, packets: int) -> list[str]:
    """Through a veth pair, at the highest rate without loss; returns what failed."""
    configured = settings(calibrated(workload, (PAPER_EVENTS,))[0])
    found = send_through(workload, packets, new_decoder(), partial(SinkDetector, configured))
    true = Histograms(workload)
    for block, count in blocks(workload, found.sent):
        true.add(block, count)
    note = f"{found.sent:,} sent, {found.received:,} received, {found.kernel_drops:,} dropped by the kernel"
    what: dict[str, object] = {"from": "ring"}
    bench.row(what | {"what": "rate"}, found.rate, "packets/s", note)
    wrong = []
    for measure in Measure:
        total, off, other = compare_counts(measure, true, found.counts)
        note = f"the paper: {PAPER_PERCENT} %; {off:,} of {total:,} values; {other} sums or highest values"
        bench.row(what | {"what": measure.label}, 100 * off / total, "% off", note)
        if 100 * off / total > PAPER_PERCENT:
            wrong.append(f"ring, {measure.label}: {100 * off / total:.3g} % off")
    for forwards in (True, False):
        delays, rate = arrival_to_event(workload, new_decoder(), partial(SinkDetector, configured), forwards)
        median, most = (float(np.quantile(delays, q)) / 1e3 for q in (0.5, 0.999))
        note = f"99.9 % below {most:,.0f} us; {len(delays):,} events at {rate:,.0f} packets/s; "
        note += "frames go on" if forwards else "frames end here"
        bench.row(what | {"what": "arrival to event, median"}, median, "us", note)
    return wrong


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--packets", type=int, help="default 10 million")
    parser.add_argument("--ring", action="store_true", help="through a veth pair too; needs root")


def main() -> int:
    """From memory, and from a ring; status 1 where anything is not exact."""
    bench, arguments = Bench.start(
        "sink_exact",
        "packets of 5 nodes with 4 instructions, 100,000 flows, through decoder and sink: "
        "values in a wrong bin, wrong sums or flows, events that were missed or invented, at "
        "several rates of events.",
        "speed; eviction, which does not occur here; quotas, which are off.",
        _arguments,
    )
    if arguments.ring:
        try:
            pair("192.0.2.1")
        except OSError as error:
            bench.say(f"--ring: {error.strerror}")
            return 1
    packets = arguments.packets or (300_000 if bench.quick else 10_000_000)
    workload = Workload()
    wrong = from_memory(bench, workload, packets, RATES)
    if arguments.ring:
        wrong += from_ring(bench, workload, packets)
    for line in wrong:
        bench.say(f"FAILED: {line}")
    if not wrong:
        bench.say("all equal")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
