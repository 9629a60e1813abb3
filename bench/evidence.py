"""What it costs to keep the reports that caused notable events: ns of a processor a report, kept or not."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from statistics import median

import numpy as np

from harness.common import Bench
from hopscope.runtime.mode import pipeline_of
from hopscope.runtime.pipeline import Pipeline
from hopscope.runtime.shard import Shard
from hopscope.settings.collector import DetectSettings, HistorySettings, Settings
from hopscope.settings.limits import MetricLimits, ThresholdSettings
from hopscope.wire.encode.encoder import encode_reports, new_hops, new_reports
from hopscope.wire.records import Carried, FrameBatch, Link, ReportBatch

REPORTS, HOPS = 512, 4
INSTRUCTIONS = 0b1111_0001_0000_0000
BUDGET = {"off": (0, 1), "100 a second": (1 << 24, 100), "all": (1 << 24, 100_000)}
"""`history.evidence_bytes` and `history.evidence_per_second`."""


def frames_of(occupancy: np.ndarray) -> FrameBatch:
    """A report of each flow; `occupancy` of the last hop's queue, each flow has one of its own."""
    reports, hops = new_reports(REPORTS), new_hops(HOPS * REPORTS, INSTRUCTIONS)
    number = np.arange(REPORTS)
    reports["time_ns"], reports["source_lo"] = time.time_ns(), 0xFFFF_C000_0201
    reports["src_lo"], reports["dst_lo"] = 0xFFFF_0A00_0001, 0xFFFF_0A01_0000 + number
    reports["sport"], reports["dport"], reports["proto"], reports["ip_version"] = 4000 + number, 80, 6, 4
    reports["int_version"], reports["carried"] = 20, Carried.FLOW | Carried.PORTS | Carried.NODE_ID
    reports["instructions"], reports["hop_count"], reports["first_hop"] = INSTRUCTIONS, HOPS, HOPS * number
    hops["node_id"] = np.tile(np.arange(HOPS) + 11, REPORTS)
    hops["ingress_port"], hops["egress_port"] = 1, np.repeat(number, HOPS)
    hops["hop_latency"], hops["queue_id"], hops["tx_utilization"] = 1000, 2, 40
    hops["queue_occupancy"].reshape(-1, HOPS)[:, -1] = occupancy
    return encode_reports(ReportBatch(reports, hops), link=Link.UDP_PAYLOAD)


def pipeline(folder: Path, budget: tuple[int, int]) -> Pipeline:
    """A worker's pipeline over a folder; its journal is written by a thread, as in a worker."""
    for name in ("journal", "segments", "regions"):
        (folder / name).mkdir(parents=True)
    limits = ThresholdSettings(queue_occupancy=MetricLimits(raise_above=500, clear_below=50))
    history = HistorySettings(evidence_bytes=budget[0], evidence_per_second=budget[1], fsync_seconds=0)
    settings = Settings(
        data=folder, history=history, detect=DetectSettings(flow_rows=1024, thresholds=limits)
    )
    return pipeline_of(settings, Shard(history, data=folder, regions=folder / "regions", thread=True))


def main() -> None:
    """Steady reports, and one report in a hundred that raises or clears an alarm."""
    bench, _ = Bench.start(
        "evidence",
        "ns of a processor a report: decoder, detector, ring and evidence; one worker, frames in memory.",
        "sockets; the journal's thread shares the processors.",
    )
    calm = np.full(REPORTS, 7)
    high = np.where(np.arange(REPORTS) % 100 == 0, 900, 7)
    cases = {"no events": (calm, calm), "1 % raise or clear": (high, calm)}
    rounds = 40 if bench.quick else 200
    with tempfile.TemporaryDirectory(dir="/dev/shm") as place:
        pipelines = {name: pipeline(Path(place) / name, budget) for name, budget in BUDGET.items()}
        for case, (one, other) in cases.items():
            batches = [frames_of(one), frames_of(other)]
            spent: dict[str, list[float]] = {name: [] for name in pipelines}
            for turn in range(rounds + 10):
                for name, each in pipelines.items():
                    begin = time.thread_time_ns()
                    for batch in batches * 4:
                        each.step(batch)
                    if turn >= 10:
                        spent[name].append((time.thread_time_ns() - begin) / (8 * REPORTS))
            without = median(spent["off"])
            for name, values in spent.items():
                note = f"{median(values) - without:+.1f} ns against off"
                bench.row({"case": case, "kept": name}, median(values), "ns/report", note)
        for each in pipelines.values():
            each.close()


if __name__ == "__main__":
    main()
