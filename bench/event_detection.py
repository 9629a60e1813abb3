"""Section V-B of INTCollector: what event detection spares, at which error, at which cost."""

from __future__ import annotations

import argparse
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np
import numpy.typing as npt

from harness.common import Bench, median
from hopscope.detect.counters import INDEX
from hopscope.detect.detector import Detector
from hopscope.detect.records import Kind, Metric
from hopscope.fabric.simulation import Simulation, SimulationModel
from hopscope.fabric.switch import ReportModel
from hopscope.fabric.topology import FatTree
from hopscope.fabric.traffic import TrafficModel
from hopscope.runtime.pipeline.mode import pipeline_of
from hopscope.runtime.pipeline.shard import Shard
from hopscope.settings.collector import Settings
from hopscope.settings.detect import DetectSettings
from hopscope.settings.limits import MetricLimits, ThresholdSettings
from hopscope.wire.records import Link, ReportBatch

FLOWS = 5000
REPORTS = 1_000_000
STORED = (Kind.NEW_KEY, Kind.CHANGE, Kind.PUSH)
RATE = 10_000_000_000


def limits(change: int) -> ThresholdSettings:
    """T for the latencies, ns; the other metrics keep one unit of theirs per 20 ns, as they share a cause."""
    other = MetricLimits(change=max(1, change // 20))
    return ThresholdSettings(
        flow_latency=MetricLimits(change=change),
        hop_latency=MetricLimits(change=change),
        queue_occupancy=other,
        queue_congestion=other,
        link_utilization=other,
        buffer_occupancy=other,
    )


def fabric(seconds_of_load: float = REPORTS) -> Simulation:
    """Fat tree of 20 switches, 5,000 flows, every packet reported, all nine fields of INT 0.5."""
    topology = FatTree(4, RATE)
    load = 0.05
    for _ in range(8):  # the load at which hosts send a million packets a second
        traffic = Simulation(
            topology,
            SimulationModel(traffic=TrafficModel(flows=FLOWS, load=load), reports_per_second=0),
        ).traffic
        load *= seconds_of_load / traffic.packets_per_second
    model = TrafficModel(flows=FLOWS, load=load)
    report = ReportModel(version="0.5")
    return Simulation(topology, SimulationModel(traffic=model, report=report, reports_per_second=0, seed=7))


def stored_series(values: npt.NDArray[np.uint32], change: int) -> tuple[int, float]:
    """The plain algorithm: events, and mean square error of what is stored against what was."""
    stored = int(values[0])
    events, square = 1, 0
    for value in values.tolist():
        if abs(value - stored) > change:
            stored = value
            events += 1
        square += (value - stored) ** 2
    return events, square / len(values)


class Watched:
    """Hop latencies of the keys (flow, switch) with the most reports, to compute errors from."""

    def __init__(self, first: ReportBatch, keys: int) -> None:
        ids, _ = self._keys(first)
        common = Counter[int](ids.tolist()).most_common(keys)
        self.keys = np.array(sorted(key for key, _ in common), np.uint64)
        self.values: list[npt.NDArray[np.uint32]] = []
        self.owners: list[npt.NDArray[np.intp]] = []

    @staticmethod
    def _keys(batch: ReportBatch) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint32]]:
        """A number for (flow, switch) of each hop, and its latency."""
        reports = batch.reports[batch.reports["hop_count"] > 0]
        count = reports["hop_count"].astype(np.int64)
        owner = np.repeat(np.arange(len(reports)), count)
        first = np.repeat(reports["first_hop"].astype(np.int64), count)
        start = np.repeat(np.cumsum(count) - count, count)
        hops = batch.hops[first + np.arange(len(owner)) - start]
        flow = (
            reports["src_lo"] * np.uint64(0x9E3779B97F4A7C15)
            ^ reports["dst_lo"] * np.uint64(0xC2B2AE3D27D4EB4F)
            ^ (reports["sport"].astype(np.uint64) << np.uint64(16) | reports["dport"])
            * np.uint64(0x165667B19E3779F9)
        )
        return flow[owner] * np.uint64(31) + hops["node_id"], hops["hop_latency"]

    def add(self, batch: ReportBatch) -> None:
        """Keep the latencies of the watched keys."""
        ids, latency = self._keys(batch)
        at = np.minimum(np.searchsorted(self.keys, ids), len(self.keys) - 1)
        mine = self.keys[at] == ids
        self.owners.append(at[mine])
        self.values.append(latency[mine])

    def series(self) -> list[npt.NDArray[np.uint32]]:
        """Latencies in order of time, by key."""
        owners, values = np.concatenate(self.owners), np.concatenate(self.values)
        return [values[owners == key] for key in range(len(self.keys))]


def reduction(bench: Bench, changes: list[int], seconds: float) -> None:
    """Stored values against raw for each T, over the same reports."""
    simulation = fabric()
    detectors = {
        change: Detector(DetectSettings(flow_rows=32_768, thresholds=limits(change)), None)
        for change in changes
    }
    kinds: dict[int, Counter[int]] = {change: Counter() for change in changes}
    changes_of: dict[int, Counter[int]] = {change: Counter() for change in changes}
    watched: Watched | None = None
    reports = 0
    for batch in simulation.run(seconds):
        watched = watched or Watched(batch, 200)
        watched.add(batch)
        reports += len(batch)
        now = int(batch.reports["time_ns"][-1])
        for change, detector in detectors.items():
            for blocks in (detector.update(batch), detector.tick(now)):
                for block in blocks:
                    kinds[change].update(block["kind"].tolist())
                    changes_of[change].update(block["metric"][block["kind"] == Kind.CHANGE].tolist())
    assert watched is not None
    series = watched.series()
    most = max(series, key=len)
    bench.say(
        f"{reports:,} reports in {seconds:g} s of simulated time; longest series {len(most):,} values\n"
    )
    for change, detector in detectors.items():
        raw = int(detector.counters[INDEX["values_total"]])
        stored = sum(kinds[change][kind] for kind in STORED)
        case: dict[str, object] = {"T_ns": change}
        parts = ", ".join(f"{kinds[change][kind]:,} {kind.label}" for kind in STORED)
        by_metric = ", ".join(
            f"{count:,} {Metric(code).label}" for code, count in changes_of[change].most_common()
        )
        bench.row(
            {**case, "what": "reduction"},
            raw / stored,
            "raw/stored",
            f"{raw:,} values; {parts}; changes: {by_metric}",
        )
        errors = [stored_series(values, change) for values in series]
        events = sum(found for found, _ in errors)
        weights = [len(values) for values in series]
        mean = float(np.average([error for _, error in errors], weights=weights))
        note = f"{events:,} events in {sum(weights):,} latencies of {len(series)} keys"
        bench.row({**case, "what": "MSE, 200 keys"}, mean, "ns^2", note)
        events, error = stored_series(most[:10_000], change)
        note = f"{events:,} events in {len(most[:10_000]):,} latencies"
        bench.row({**case, "what": "MSE, one key"}, error, "ns^2", note)


def cost(bench: Bench, rounds: int) -> None:
    """Time of a report with detection on and off: decode, detect and journal."""
    simulation = fabric()
    frames = [simulation.frames(batch, Link.UDP_PAYLOAD) for batch in simulation.run(0.1)]
    count = sum(len(batch) for batch in frames)
    found: dict[bool, list[float]] = {True: [], False: []}
    for enabled in (True, False):
        with tempfile.TemporaryDirectory() as folder:
            settings = Settings(
                data=Path(folder),
                detect=DetectSettings(enabled=enabled, flow_rows=32_768, thresholds=limits(1000)),
            )
            pipeline = pipeline_of(settings, Shard(settings.history, data=Path(folder)))
            for batch in frames:
                pipeline.step(batch)  # the first meeting of every key
            for _ in range(rounds):
                start = time.perf_counter()
                for batch in frames:
                    pipeline.step(batch)
                found[enabled].append((time.perf_counter() - start) / count * 1e9)
            pipeline.close()
        word = "on" if enabled else "off"
        bench.row({"detection": word, "what": "decode, detect, journal"}, median(found[enabled]), "ns/report")
    bench.row({"what": "off against on"}, median(found[False]) / median(found[True]), "times")


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seconds", type=float, default=12.0, help="simulated time; a push period is 10 s")


def main() -> None:
    """Both parts."""
    bench, arguments = Bench.start(
        "event_detection",
        "values stored with event detection compared with all values (fat tree k = 4, 5,000 "
        "flows, every packet reported, 1 M reports/s), the error of the stored series, and the "
        "cost of storing everything.",
        "real switches: latencies come from simulated 10 Gbit/s queues, whose steps are packets of up to"
        " 1,538 B (1.2 us), not from the paper's report file, which is not published.",
        _arguments,
    )
    seconds = 0.5 if bench.quick else arguments.seconds
    reduction(bench, [20, 100] if bench.quick else [20, 40, 100, 1_000, 10_000, 100_000], seconds)
    cost(bench, 1 if bench.quick else 5)


if __name__ == "__main__":
    main()
