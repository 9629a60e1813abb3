"""Distributions against ground truth: exact counts, quantiles within bounds, and what counting costs."""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.common import Bench, seconds_of
from harness.figures import COLORS, Sheet
from hopscope.detect.distributions.quantiles import Distribution, grouped
from hopscope.detect.distributions.reader import copy_region
from hopscope.detect.distributions.region import Distributions
from hopscope.detect.sink.records import Measure
from hopscope.settings.sink import DistributionSettings
from hopscope.wire.encode.encoder import new_hops, new_reports
from hopscope.wire.records import Have, ReportBatch

HOPS = 5
BATCH = 4096
MEANS = {Measure.HOP_LATENCY: 3000.0, Measure.QUEUE_OCCUPANCY: 60.0, Measure.LINK_UTILIZATION: 20.0}
"""Of exponentially distributed values (SmartNIC INT sink, IV-A 3)."""
FIELDS = ("hop_latency", "queue_occupancy", "tx_utilization")
QUANTILES = (0.5, 0.9, 0.99, 0.999)
EDGES = tuple(range(5, 500, 5))
Values = npt.NDArray[np.uint64]


def batches(packets: int, seed: int = 1) -> list[ReportBatch]:
    """Packets of five hops with all three measures."""
    draw, made = np.random.default_rng(seed), []
    for _ in range(packets // BATCH):
        reports, hops = new_reports(BATCH), new_hops(BATCH * HOPS, 0)
        reports["int_version"], reports["hop_count"] = 20, HOPS
        reports["first_hop"] = np.arange(BATCH) * HOPS
        hops["present"] = (
            Have.NODE_ID | Have.PORTS | Have.HOP_LATENCY | Have.QUEUE_OCCUPANCY | Have.TX_UTILIZATION
        )
        hops["node_id"] = np.tile(np.arange(1, HOPS + 1), BATCH)
        for field, mean in zip(
            ("hop_latency", "queue_occupancy", "tx_utilization"), MEANS.values(), strict=True
        ):
            hops[field] = draw.exponential(mean, len(hops))
        made.append(ReportBatch(reports, hops))
    return made


def truth(found: list[ReportBatch]) -> dict[Measure, Values]:
    """All values of the first switch, and the sums of the paths."""
    hops = np.concatenate([batch.hops for batch in found]).reshape(-1, HOPS)
    return {
        Measure.HOP_LATENCY: hops["hop_latency"][:, 0].astype(np.uint64),
        Measure.QUEUE_OCCUPANCY: hops["queue_occupancy"][:, 0].astype(np.uint64),
        Measure.LINK_UTILIZATION: hops["tx_utilization"][:, 0].astype(np.uint64),
        Measure.END_TO_END: hops["hop_latency"].sum(axis=1, dtype=np.uint64),
    }


def wrong(one: Distribution, values: Values) -> int:
    """Values that are in another bin than they should be, or in none."""
    order = np.searchsorted(one.upper, values)
    expected = np.bincount(order, minlength=len(one.upper))[: len(one.upper)]
    inside = values >= one.lower[np.minimum(order, len(one.lower) - 1)]
    return int(np.abs(expected - one.counts.astype(np.int64)).sum()) + int(np.count_nonzero(~inside))


def figure(shown: dict[Measure, Distribution], values: dict[Measure, Values]) -> Sheet:
    """The first switch's histograms as counted, quantiles with their bounds, and the values' own."""

    def draw(figure: Any) -> None:
        axes = figure.subplots(2, 2).reshape(-1)
        for each, (measure, one) in zip(axes, shown.items(), strict=True):
            ends = np.minimum(one.upper, one.highest) + np.uint64(1)
            width = (ends - one.lower).astype(float)
            each.bar(one.lower, one.counts / width, width, align="edge", color=COLORS[2], alpha=0.45, lw=0)
            top = int(one.highest)
            edges = np.unique(np.geomspace(1, top + 1, 60).astype(int))
            density = np.histogram(values[measure], edges)[0] / np.diff(edges)
            each.plot(edges[:-1], density, color=COLORS[4], lw=1, label="values themselves")
            for q in QUANTILES:
                found = one.quantile(q)
                assert found is not None
                each.axvspan(found.lower, found.upper, color=COLORS[1], alpha=0.25, lw=0)
                each.axvline(float(np.quantile(values[measure], q)), color=COLORS[1], lw=0.8)
            each.set_xscale("log")
            each.set_yscale("log")
            each.set_xlim(left=max(1, top / 3000))
            each.set_title(measure.label.replace("_", " "), fontsize=9)
        axes[0].legend(loc="lower left")
        for each in axes[::2]:
            each.set_ylabel("packets per unit")

    rows: list[dict[str, object]] = [
        {"measure": measure.label, "lower": low, "upper": high, "count": count}
        for measure, one in shown.items()
        for low, high, count in zip(one.lower.tolist(), one.upper.tolist(), one.counts.tolist(), strict=True)
    ]
    title = "Bins as counted; quantiles 50, 90, 99 and 99.9 % with their bounds"
    return Sheet("distributions", title, draw, rows, width=7.2)


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--packets", type=int, default=1_000_000, help="packets of five hops")
    parser.add_argument("--figure", type=Path, help="folder for distributions.png and .csv")


def main() -> None:
    """Logarithmic bins, then configured ones."""
    bench, arguments = Bench.start(
        "distributions",
        "packets of 5 hops with 3 measures, exponential: values in a wrong bin and the largest error of a"
        " quantile, of the first switch; the time to count a packet's 15 values and its latency.",
        "decoding and the flow table; there is one queue a switch, so all bins are in the cache.",
        _arguments,
    )
    found = batches(100_000 if bench.quick else arguments.packets)
    values = truth(found)
    for name, settings in (
        ("logarithmic", DistributionSettings(queues=16)),
        ("configured", DistributionSettings(queues=16, queue_occupancy=EDGES, link_utilization=EDGES)),
    ):
        counts = Distributions(settings)
        for batch in found:
            counts.update(batch)
        parts = grouped(copy_region(counts.region, 0).distributions(), "switch")
        shown = {one.measure: one for one in parts if one.node in (1, None)}
        for measure, one in shown.items():
            errors = []
            for q in QUANTILES:
                range_ = one.quantile(q)
                true = int(np.quantile(values[measure], q, method="inverted_cdf"))
                assert range_ is not None
                assert range_.upper is not None
                assert range_.lower <= true <= range_.upper
                errors.append(abs(range_.estimate - true) / true)
            case: dict[str, object] = {"bins": name, "measure": measure.label}
            bench.row(case, wrong(one, values[measure]), "wrong", f"of {one.count:,}")
            bench.row(case, 100 * max(errors), "% error", "the largest of p50, p90, p99, p99.9")
        if arguments.figure and name == "logarithmic":
            figure(shown, values).save(arguments.figure)
        taken = min(seconds_of(partial(counts.update, found[0]), 100))  # one batch: it stays in the cache
        bench.row({"bins": name}, taken * 1e9 / BATCH, "ns/packet")


if __name__ == "__main__":
    main()
