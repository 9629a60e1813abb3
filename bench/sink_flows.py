"""Six million flows offered to the sink's table: is every packet in a flow that lives or left, and occupancy
as theory says?
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.common import Bench
from harness.figures import COLORS, Sheet
from harness.sink import settings
from hopscope.detect.flows.tables import memory_bytes
from hopscope.detect.records import INLINE_HOPS, WAYS
from hopscope.detect.sink.detector import SinkDetector
from hopscope.settings.detect import DetectSettings
from hopscope.wire.decode.decoder import Decoder
from hopscope.wire.decode.plain import PlainDecoder
from hopscope.wire.dialect import DEFAULT
from support.packets.int_packets import IntPackets, Workload

BATCH = 4096
DIALECT = replace(DEFAULT, packets=True)
BLOCK = 1 << 18
"""Packets made at a time."""
PAPER = 1 << 19
DOCS = Path(__file__).parents[1] / "docs" / "images" / "sink"
FIRST_SOURCE = 10 << 24
"""Source address of the first flow; they follow each other."""
DEVIATIONS = 4.0
MAX_SHOWN = 40
"""Flows a row that the figure shows."""
Numbers = npt.NDArray[np.int64]


@dataclass
class Kept:
    """What there is of each flow: packets and the sum of end-to-end latencies, int64 [flows] each."""

    packets: Numbers
    latencies: Numbers

    @classmethod
    def of(cls, flows: int) -> Kept:
        """Nothing yet."""
        return cls(np.zeros(flows, np.int64), np.zeros(flows, np.int64))

    def add(self, flow: npt.NDArray[Any], packets: npt.NDArray[Any] | int, latencies: Any) -> None:
        """Add to some flows; one may occur more than once."""
        np.add.at(self.packets, flow, packets)
        np.add.at(self.latencies, flow, latencies)


@dataclass
class Outcome:
    """One table under one load."""

    rows: int
    distinct: int
    """Flows that had a packet."""
    packets: int
    evictions: int
    wrong: int
    """Flows whose packets or latencies, live and evicted, are not those that were sent."""
    unaccounted: int
    """Packets received, less those of all flows, live and evicted."""
    sizes: Numbers
    """Rows that have 0 … 12 flows, int64 [13]."""
    rate: float
    """Packets a second through decode and detection, in the second half."""

    @property
    def live(self) -> int:
        """Flows in the table."""
        return int(self.sizes @ np.arange(WAYS + 1))

    @property
    def hit_rate(self) -> float:
        """Share of packets that found their flow."""
        return 1 - (self.live + self.evictions) / self.packets


def offer(
    workload: Workload, rows: int, packets: int, decoder: Decoder | PlainDecoder | None = None
) -> Outcome:
    """Send packets through decode and a table of `rows` rows; evicted flows are taken as it runs."""
    detector, decoder = SinkDetector(settings(rows)), decoder or Decoder(DIALECT, BATCH)
    sent, kept = Kept.of(workload.flows), Kept.of(workload.flows)
    ring, evictions = detector.eviction_ring, 0
    taken, late = 0.0, 0
    block = IntPackets(workload, min(BLOCK, packets), BATCH)
    for first in range(0, packets, BLOCK):
        block.fill(first)
        count = min(BLOCK, packets - first)
        flow = block.flow[:count]
        sent.add(flow, 1, block.values[:count, :, 0].sum(axis=1, dtype=np.int64))
        for frames in block.batches(count):
            start = time.perf_counter()
            for _ in detector.update(decoder.decode(frames)):
                pass
            if 2 * first >= packets:
                taken, late = taken + time.perf_counter() - start, late + len(frames)
            gone = ring.records[np.arange(evictions, ring.head) % ring.capacity]
            evictions = ring.head
            kept.add((gone["src_lo"] & 0xFFFFFFFF) - FIRST_SOURCE, gone["packets"], gone["latency_sum"])
    tables = detector.tables["flows"]
    used = tables["rows"]["tag"] != 0
    at = np.flatnonzero(used.reshape(-1))
    live = tables["flows"][at]
    kept.add((live["src_lo"] & 0xFFFFFFFF) - FIRST_SOURCE, live["packets"], live["latency_sum"])
    wrong = (kept.packets != sent.packets) | (kept.latencies != sent.latencies)
    return Outcome(
        rows, int(np.count_nonzero(sent.packets)), packets, evictions, int(np.count_nonzero(wrong)),
        packets - int(kept.packets.sum()), np.bincount(used.sum(axis=1), minlength=WAYS + 1),
        late / taken if late else math.nan,
    )  # fmt: skip


def shares(flows: int, rows: int) -> npt.NDArray[np.float64]:
    """Probability that a row is given 0, 1 … flows, float64: Poisson, of mean flows / rows."""
    mean = flows / rows
    k = np.arange(max(WAYS + 2, math.ceil(mean + 12 * math.sqrt(mean) + 20)))
    logs = k * math.log(mean) - mean - np.array([math.lgamma(one + 1) for one in k.tolist()])
    return np.asarray(np.exp(logs))


def expected(flows: int, rows: int) -> tuple[tuple[float, float], tuple[float, float]]:
    """(live flows, their standard error), (share of full rows, its standard error).

    A row of 12 ways that never forgets but to make room has min(12, flows that it was given).  The number of
    flows is known, which takes from the variance of a sum over Poisson rows what goes along with that number:
    var f - cov(f, k)^2 / mean for each row.
    """
    p = shares(flows, rows)
    k = np.arange(len(p))
    mean = flows / rows

    def over_rows(f: npt.NDArray[Any]) -> tuple[float, float]:
        average = float(p @ f)
        along = float(p @ (f * k)) - average * mean
        return average, math.sqrt(max(0.0, float(p @ (f * f)) - average**2 - along**2 / mean) / rows)

    (live, live_error), full = over_rows(np.minimum(k, WAYS)), over_rows((k >= WAYS).astype(float))
    return (live * rows, live_error * rows), full


def failures(found: Outcome) -> list[str]:
    """What is not as it must be."""
    (live, live_error), (full, full_error) = expected(found.distinct, found.rows)
    wrong = []
    if found.unaccounted or found.wrong:
        wrong.append(f"{found.unaccounted:,} packets unaccounted for, {found.wrong:,} flows wrong")
    if abs(found.live - live) > DEVIATIONS * live_error + 0.5:
        wrong.append(f"{found.live:,} flows live, theory {live:,.0f} ± {live_error:,.0f}")
    measured = found.sizes[WAYS] / found.rows
    if abs(measured - full) > DEVIATIONS * full_error + 0.5 / found.rows:
        wrong.append(f"{measured:.4%} of the rows full, theory {full:.4%} ± {full_error:.4%}")
    return wrong


def add_rows(bench: Bench, popularity: str, found: Outcome) -> list[str]:
    """Add the rows of one table; returns what failed."""
    (live, live_error), (full, full_error) = expected(found.distinct, found.rows)
    measured = found.sizes[WAYS] / found.rows
    case: dict[str, object] = {"rows": f"2^{found.rows.bit_length() - 1}", "popularity": popularity}
    note = f"{found.distinct:,} flows had packets; evicted {found.evictions:,} times"
    bench.row(case | {"what": "packets"}, found.packets, "packets", note)
    note = f"{found.wrong:,} of {found.distinct:,} flows wrong"
    bench.row(case | {"what": "packets unaccounted for"}, found.unaccounted, "packets", note)
    note = f"theory {live:,.0f} ± {live_error:,.1f}"
    bench.row(case | {"what": "live flows"}, found.live, "flows", note)
    note = f"theory {100 * full:.4g} ± {100 * full_error:.2g}"
    bench.row(case | {"what": "full rows"}, 100 * measured, "%", note)
    bench.row(case | {"what": "hit rate"}, 100 * found.hit_rate, "%")
    bench.row(
        case | {"what": "decode + detect"}, found.rate / 1e6, "M packets/s", "second half of the packets"
    )
    return failures(found)


def sheet(outcomes: Sequence[tuple[str, Outcome]]) -> Sheet:
    """Flows a row, measured and by theory, of every table that has rows to spare; and hit rates."""

    def draw(figure: Any) -> None:
        left, right = figure.subplots(1, 2, width_ratios=[3, 2])
        names = list(dict.fromkeys(name for name, _ in outcomes))
        for number, (name, found) in enumerate(
            (name, found) for name, found in outcomes if found.rows == max(one.rows for _, one in outcomes)
        ):
            color, k = COLORS[1 + number % 4], np.arange(WAYS + 1)
            theory = shares(found.distinct, found.rows)
            theory = np.append(theory[:WAYS], theory[WAYS:].sum())
            width = 0.8 / len(names)
            left.bar(k + width * (number - 0.5 * (len(names) - 1)), found.sizes / found.rows, width,
                     color=color, alpha=0.6, label=f"{name}, {found.distinct / 1e6:.2f} M flows")  # fmt: skip
            left.plot(k, theory, color=color, marker="o", lw=1)
        left.set_xlabel("flows in a row")
        left.set_ylabel("share of rows")
        left.legend(title="bars: measured; lines: theory", loc="upper left")
        left.set_title(f"2^{max(one.rows for _, one in outcomes).bit_length() - 1} rows", fontsize=9)
        for number, name in enumerate(names):
            points = sorted((found.rows, 100 * found.hit_rate) for one, found in outcomes if one == name)
            right.plot(*zip(*points, strict=True), color=COLORS[1 + number % 4], marker="o", label=name)
        right.set_xscale("log", base=2)
        right.set_xlabel("rows of 12 flows")
        right.set_ylabel("hit rate, %")
        right.set_ylim(0, 100)
        right.legend(loc="lower right")

    rows: list[dict[str, object]] = []
    for name, found in outcomes:
        theory = shares(found.distinct, found.rows)
        theory = np.append(theory[:WAYS], theory[WAYS:].sum())
        rows += [
            {"rows": found.rows, "popularity": name, "flows_in_row": k, "measured": int(found.sizes[k]),
             "theory": float(theory[k] * found.rows), "hit_rate": found.hit_rate}
            for k in range(WAYS + 1)
        ]  # fmt: skip
    return Sheet("flows", "The flow table with 6 M flows offered", draw, rows, width=8)


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--flows", type=int, help="flows offered; default 6 million")
    parser.add_argument("--packets", type=int, help="packets of a case; default 24 million")
    parser.add_argument(
        "--figure", type=Path, nargs="?", const=DOCS, help="folder of flows.png and flows.csv"
    )


def main() -> int:
    """Three tables, two loads; status 1 where a check fails."""
    bench, arguments = Bench.start(
        "sink_flows",
        "the fate of 6 million flows in tables of 2^13, 2^16 and 2^19 (the paper's) rows of 12 "
        "flows: packets of all flows, live and evicted, compared with packets received, flow "
        "by flow; live flows and full rows compared with the theory of balls into bins; how "
        "often a packet finds its flow; packets per second.",
        "sockets; ageing by time, which never occurs; the reader of the eviction ring, whose "
        "time is not counted.",
        _arguments,
    )
    flows = arguments.flows or (600_000 if bench.quick else 6_000_000)
    packets = arguments.packets or (1_500_000 if bench.quick else 24_000_000)
    outcomes, wrong = [], []
    for rows in (1 << 13, 1 << 16) if bench.quick else (1 << 13, 1 << 16, PAPER):
        for name, skew in (("heavy-tailed", 1.0), ("all alike", 0.0)):
            if skew == 0 and rows == 1 << 13 and not bench.quick:
                continue  # a hit is a rarity there
            found = offer(Workload(flows=flows, skew=skew), rows, packets)
            wrong += [
                f"2^{rows.bit_length() - 1} rows, {name}: {what}" for what in add_rows(bench, name, found)
            ]
            outcomes.append((name, found))
    size = memory_bytes(DetectSettings(flow_rows=PAPER))
    note = f"{WAYS * PAPER:,} flows, {INLINE_HOPS} hops each"
    bench.row({"rows": "2^19", "what": "memory"}, size / 1e9, "GB", note)
    if arguments.figure:
        sheet(outcomes).save(arguments.figure)
    for line in wrong:
        bench.say(f"FAILED: {line}")
    if not wrong:
        bench.say("every packet is in exactly one flow, live or evicted; occupancy is as theory says")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
