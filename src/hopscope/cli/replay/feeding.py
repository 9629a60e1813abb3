"""Runs a capture file through the pipeline of a worker, for `replay` and `sink`."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, TextIO

from ..options.declare import Options, option
from ..output.printer import Summary, SummaryOption

if TYPE_CHECKING:
    from ...base.names import Names
    from ...runtime.pipeline.steps import Pipeline
    from ...runtime.sink.forward import Forward
    from ...settings.collector import Settings
    from ...settings.detect import DetectSettings
    from ...wire.dialect import Dialect
    from ...wire.mixed.decoder import MixedDecoder
    from ...wire.records import FrameBatch


@dataclass(frozen=True)
class FileOutput(Options):
    """What is printed about a capture file."""

    title: ClassVar = "Output"

    events: bool = option("--events", "Print every event, one JSON object per line.", False)
    form: SummaryOption = Summary.TEXT

    def print(self, pipeline: Pipeline, stream: TextIO) -> None:
        """Print the summary."""
        from ...detect.counters import by_key
        from ...runtime.pipeline.summary import summary_lines

        counters = by_key(pipeline.shard.counters)
        if self.form is Summary.JSON:
            print(json.dumps({key: count for key, count in counters.items() if count}), file=stream)
        else:
            print("\n".join(summary_lines(counters)), file=stream)


@contextmanager
def open_pipeline(settings: Settings, data: Path | None, names: Names | None) -> Iterator[Pipeline]:
    """A pipeline in memory, or on a data folder that no collector uses, whose journals become segments at the
    end.
    """
    from ...memory.data_folder import DataFolder
    from ...present.events import continues, event_object, long_paths
    from ...runtime.pipeline.lost_alarms import end_alarms
    from ...runtime.pipeline.mode import pipeline_of
    from ...runtime.pipeline.shard import Shard, keep_leftovers
    from ...wire.records import Records

    def show(block: Records) -> None:
        assert names is not None
        paths = long_paths(block)
        shown = block[~continues(block)]
        sys.stdout.writelines(json.dumps(event_object(row, names, paths)) + "\n" for row in shown)

    on_events = None if names is None else show
    if data is None:
        pipeline = pipeline_of(settings, Shard(settings.history, on_events=on_events))
        yield pipeline
        pipeline.close()
        return
    from ...base import log
    from ...detect.distributions.reader import copy_region
    from ...detect.records import EVENT_VERSION
    from ...history.errors import HistoryError
    from ...history.files.layout import reject_later
    from ...history.writing.archive import archive_once
    from ...history.writing.periods import take_once

    if any((data / "segments").glob("*.parquet")):
        print(f"hopscope: {data} has a history already: events are added to it", file=sys.stderr)
    reject_later(data)
    log.configure(level=settings.log.level, form=settings.log.format)
    with DataFolder(data, settings.regions, keep_leftovers) as folder:
        if folder.events_wait:
            raise HistoryError(f"{data}: its disk does not take the events of the collector that ran before")
        end_alarms(folder, settings.detect.queue_by_port)
        named = None if settings.names is None else str(settings.names.absolute())
        folder.write_owner(events=EVENT_VERSION, names=named)
        pipeline = pipeline_of(settings, Shard(settings.history, data=folder.path, on_events=on_events))
        try:
            yield pipeline
        finally:
            pipeline.close()
        if pipeline.distributions is not None:
            take_once(folder.path, copy_region(pipeline.distributions.region, 0))
        archive_once(folder.path, settings.history)


def feed(
    batches: Iterator[FrameBatch],
    pipeline: Pipeline,
    dialect: Dialect,
    speed: float,
    settings: DetectSettings,
    forward: Forward | None = None,
    source: MixedDecoder | None = None,
) -> None:
    """Step a pipeline through batches, with ticks in capture time; `speed` 0: as fast as possible. `source`
    decodes the frames; None: the dialect's decoder.
    """
    from ...detect.clock import CaptureClock
    from ...wire.records import FrameBatch

    clock = CaptureClock(settings)
    first_ns, begin = 0, time.monotonic()
    for frames in batches:
        for ticks, start, end in clock.cut(frames.frames["time_ns"]):
            for now_ns in ticks:
                if speed:
                    first_ns = first_ns or now_ns
                    time.sleep(max(0.0, begin + (now_ns - first_ns) / 1e9 / speed - time.monotonic()))
                pipeline.tick(now_ns)
            pipeline.step(
                FrameBatch(frames.arena, frames.frames[start:end], frames.first_packet + start),
                dialect,
                forward,
                source,
            )
    if source is not None:
        _count_samples(pipeline, source.counts())
    pipeline.flush()
    pipeline.tick(clock.newest_ns)


def _count_samples(pipeline: Pipeline, counts: Mapping[str, int]) -> None:
    """Set the counters of samples and flow records, which a worker collects from its decoders."""
    from ...detect.counters import COUNTERS

    for counter in COUNTERS:
        owner, _, name = (counter.of or "").partition(".")
        if owner == "received" and name in counts:
            pipeline.counted.put(counter.key, counts[name])
