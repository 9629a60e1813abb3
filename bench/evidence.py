"""What it costs to keep the reports that caused notable events: ns of a processor a report, kept or not."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from statistics import median

import numpy as np

from harness.common import Bench
from hopscope.detect.counters import DETECTOR
from hopscope.detect.merge import Merge
from hopscope.runtime.pipeline.mode import mode_of, pipeline_of
from hopscope.runtime.pipeline.shard import Shard
from hopscope.settings.collector import Settings
from hopscope.settings.detect import DetectSettings
from hopscope.settings.history import HistorySettings
from hopscope.settings.limits import MetricLimits, ThresholdSettings
from hopscope.settings.listen import ListenSettings
from hopscope.wire.encode.encoder import encode_reports, new_hops, new_reports
from hopscope.wire.records import Carried, FrameBatch, Link, ReportBatch

REPORTS, HOPS, WARM = 512, 4, 40
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


def settings_for(folder: Path, budget: tuple[int, int], workers: int) -> Settings:
    """A folder of data, and limits that the frames cross."""
    for name in ("journal", "segments", "regions"):
        (folder / name).mkdir(parents=True)
    limits = ThresholdSettings(queue_occupancy=MetricLimits(raise_above=500, clear_below=50))
    history = HistorySettings(evidence_bytes=budget[0], evidence_per_second=budget[1], fsync_seconds=0)
    listen = (ListenSettings(port=0, workers=workers),)
    detect = DetectSettings(flow_rows=1024, thresholds=limits)
    return Settings(data=folder, listen=listen, history=history, detect=detect)


class One:
    """A single worker over a folder; its journal is written by a thread, as in a worker."""

    def __init__(self, folder: Path, budget: tuple[int, int]) -> None:
        settings = settings_for(folder, budget, 1)
        shard = Shard(settings.history, data=folder, regions=folder / "regions", thread=True)
        self.pipeline = pipeline_of(settings, shard)

    def step(self, batches: list[FrameBatch]) -> tuple[float, ...]:
        """Seconds of a processor that batches take."""
        begin = time.thread_time()
        for batch in batches:
            self.pipeline.step(batch)
        return (time.thread_time() - begin,)

    def close(self) -> None:
        """Stop."""
        self.pipeline.close()


class Two:
    """Two workers and their detector, one after the other."""

    def __init__(self, folder: Path, budget: tuple[int, int]) -> None:
        settings = settings_for(folder, budget, 2)
        mode, regions = mode_of(settings), folder / "regions"
        mode.make_queues(regions)
        shard = Shard(settings.history, process=DETECTOR, data=folder, regions=regions, thread=True)
        self.pipeline = mode.pipeline(shard)
        self.merge = Merge(mode.queues(regions))
        self.workers = [mode.hand_over(number, regions) for number in range(2)]

    def step(self, batches: list[FrameBatch]) -> tuple[float, ...]:
        """Seconds of a processor that batches take of the workers, and of the detector."""
        begin = time.thread_time()
        for number, batch in enumerate(batches):
            self.workers[number % 2].step(batch)
        handed = time.thread_time()
        for reports, clock in self.merge.batches(time.monotonic_ns(), everything=True):
            self.pipeline.take(reports, clock)
        return handed - begin, time.thread_time() - handed

    def close(self) -> None:
        """Stop."""
        self.pipeline.close()


def main() -> None:
    """Steady reports, and one report in a hundred that raises or clears an alarm."""
    bench, _ = Bench.start(
        "evidence",
        "CPU time per report: decoder, detector, ring and evidence, with frames in memory. One "
        "worker; two workers (decoder, datagrams and queue), and their detector. Best of all "
        "rounds.",
        "sockets; the journal's thread, workers and detector share cores and caches.",
    )
    calm = np.full(REPORTS, 7)
    high = np.where(np.arange(REPORTS) % 100 == 0, 900, 7)
    cases = {"no events": (calm, calm), "1 % raise or clear": (high, calm)}
    rounds = 60 if bench.quick else 200
    for kind, whats in ((One, ("one worker",)), (Two, ("worker of two", "detector of two"))):
        with tempfile.TemporaryDirectory(dir="/dev/shm") as place:
            collectors = {name: kind(Path(place) / name, budget) for name, budget in BUDGET.items()}
            for case, (one, other) in cases.items():
                batches = [frames_of(one), frames_of(other)] * 4
                spent: dict[str, list[tuple[float, ...]]] = {name: [] for name in collectors}
                for turn in range(WARM + rounds):
                    for name, each in collectors.items():
                        found = each.step(batches)
                        if turn >= WARM:
                            spent[name].append(found)
                for number, what in enumerate(whats):
                    ns = {
                        name: [found[number] / (len(batches) * REPORTS) * 1e9 for found in values]
                        for name, values in spent.items()
                    }
                    for name, values in ns.items():
                        row: dict[str, object] = {"what": what, "case": case, "kept": name}
                        note = (
                            f"{min(values) / min(ns['off']):.3f} of off; median {median(values):.1f},"
                            f" {median(values) / median(ns['off']):.3f} of off"
                        )
                        bench.row(row, min(values), "ns/report", note)
            for each in collectors.values():
                each.close()


if __name__ == "__main__":
    main()
