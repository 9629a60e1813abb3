"""What several workers cost: ns a report in a worker and in the detector, against a single worker."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from harness.common import Bench, median
from hopscope.detect.merge import Merge
from hopscope.fabric.load import report_batch
from hopscope.runtime.pipeline.mode import mode_of
from hopscope.runtime.pipeline.shard import Shard
from hopscope.runtime.pipeline.steps import HandOver, Pipeline
from hopscope.runtime.processes.detector import Detector
from hopscope.settings.collector import Settings
from hopscope.settings.detect import DetectSettings
from hopscope.settings.listen import ListenSettings
from hopscope.wire.dialect import Clock
from hopscope.wire.records import ReportBatch

CLOCK = Clock()
REPORTS = 49_152


def settings_for(workers: int) -> Settings:
    """A collector whose steady state has no events."""
    return Settings(
        listen=(ListenSettings(port=0, workers=workers),),
        detect=DetectSettings(flow_rows=32_768, push_seconds=0),
    )


def batches(size: int, hops: int, flows: int) -> list[ReportBatch]:
    """REPORTS decoded reports with eight fields, in batches received one after the other."""
    now, made = time.time_ns(), []
    for number in range(REPORTS // size):
        batch = report_batch(size, hops, 8, flows, number * size)
        batch.reports["time_ns"] = now + number
        made.append(batch)
    return made


def single(work: list[ReportBatch], pipeline: Pipeline) -> float:
    """Seconds that a single worker takes after decoding."""
    start = time.thread_time()
    for batch in work:
        pipeline.take(batch, CLOCK)
    return time.thread_time() - start


def several(work: list[ReportBatch], steps: list[HandOver], detector: Detector) -> tuple[float, float]:
    """Seconds that workers take to hand the reports over, and the detector to take them."""
    start = time.thread_time()
    for number, batch in enumerate(work):
        steps[number % len(steps)].take(batch, CLOCK)
    for each in steps:
        each.close()
    handed = time.thread_time()
    taken = detector.turn()
    assert taken == REPORTS, f"the queues held {taken}"
    return handed - start, time.thread_time() - handed


def measure(bench: Bench, folder: Path, size: int, hops: int, flows: int, workers: int, rounds: int) -> None:
    """All three for one case, in alternating rounds."""
    folder.mkdir()
    work = batches(size, hops, flows)
    settings = settings_for(workers)
    alone = mode_of(settings_for(1)).pipeline(Shard(settings.history))
    mode_of(settings).make_queues(folder)
    steps = [mode_of(settings).hand_over(worker, folder) for worker in range(workers)]
    merge = Merge(mode_of(settings).queues(folder))
    detector = Detector(mode_of(settings).pipeline(Shard(settings.history)), merge)
    times: dict[str, list[float]] = {"one worker": [], "worker of several": [], "detector": []}
    for number in range(rounds + 1):
        found = single(work, alone), *several(work, steps, detector)
        if number:  # at first, all flows are new
            for what, seconds in zip(times, found, strict=True):
                times[what].append(seconds)
    for what, spent in times.items():
        case: dict[str, object] = {"what": what, "batch": size, "hops": hops, "flows": flows}
        ns = min(spent) / REPORTS * 1e9
        note = f"{ns / hops:.1f} ns a hop, median of rounds {median(spent) / REPORTS * 1e9:.0f}"
        bench.row(case, ns, "ns/report", note)


def main() -> None:
    """Batches, hops and flows; four workers."""
    bench, _ = Bench.start(
        "several_workers",
        "CPU time of the steps after decoding: joining and detection by a single worker; the "
        "copy into the queue by one of four workers; merging, joining and detection by their "
        "detector. Eight fields per hop, no events; best of 15 rounds.",
        "separate processes: here all steps run one after the other on one core, so records "
        "may still be in its cache.",
    )
    rounds = 5 if bench.quick else 15
    cases = [(b, h, f) for b in (64, 512) for h in (1, 3, 5) for f in (100, 100_000)]
    if bench.quick:
        cases = [(512, 3, 100)]
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        for number, (size, hops, flows) in enumerate(cases):
            measure(bench, Path(folder) / str(number), size, hops, flows, 4, rounds)


if __name__ == "__main__":
    main()
