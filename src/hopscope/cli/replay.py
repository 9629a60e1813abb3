"""`hopscope replay`: a capture through the same pipeline as live reports."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .decode import decide
from .options import (
    AutoDialectOption,
    CaptureArgument,
    ConfigOption,
    IntDscpOption,
    IntPortOption,
    MarkerOption,
    PacketsOption,
    PortOption,
    SetOption,
    changes,
    find_dialects,
    load,
)

if TYPE_CHECKING:
    from ..config import DetectSettings, Settings
    from ..pipeline import Pipeline
    from ..wire.dialect import Dialect
    from ..wire.records import FrameBatch


def replay(
    file: CaptureArgument,
    data: Annotated[
        Path | None,
        typer.Option("--data", "-d", metavar="FOLDER", help="Keep the events in this data folder."),
    ] = None,
    speed: Annotated[
        float,
        typer.Option(
            min=0, metavar="FACTOR", help="Times as fast as it was captured; 0: as fast as possible."
        ),
    ] = 0,
    port: PortOption = None,
    dialect: AutoDialectOption = "spec",
    packets: PacketsOption = False,
    int_dscp: IntDscpOption = None,
    int_port: IntPortOption = None,
    marker: MarkerOption = None,
    events: Annotated[
        bool, typer.Option("--events", help="Print every event, a JSON object a line.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary's counters as JSON.")] = False,
    config: ConfigOption = None,
    overrides: SetOption = None,
) -> None:
    """Run detection over a capture file and print what was found.

    Time is that of the capture. With --data the events are kept, to be queried; without, nothing is written.
    Exit status: 0; 1 where the file is damaged or cut and was read up to there; 2 where it cannot be read.
    """
    from ..capture.pcap import Reader
    from ..metrics import INDEX
    from ..names import Names
    from ..summary import summary_lines

    settings = load(config, overrides).settings
    changed = changes(port, packets, int_dscp, int_port, marker)
    possible = tuple(map(changed.of, find_dialects(dialect, settings)))
    names = Names.load(settings.names)
    reader = Reader(file)
    begin = time.monotonic()
    chosen, batches = decide(iter(reader), possible)
    with _pipeline(settings, data, names if events else None) as pipeline:
        _feed(batches, pipeline, chosen, speed, settings.detect)
        counters = {key: int(pipeline.counters[slot]) for key, slot in INDEX.items()}
    seconds = time.monotonic() - begin
    if as_json:
        print(json.dumps({key: count for key, count in counters.items() if count}))
    else:
        print("\n".join(summary_lines(counters)), file=sys.stderr if events else sys.stdout)
        print(f"took       {seconds:.2f} s", file=sys.stderr)
    if reader.damage:
        print(f"hopscope: {reader.damage}", file=sys.stderr)
        raise typer.Exit(1)


@contextmanager
def _pipeline(settings: Settings, data: Path | None, names: object) -> Iterator[Pipeline]:
    """A pipeline in memory or over a data folder that nobody else holds, whose journals become segments."""
    from ..data_folder import DataFolder
    from ..detect.as_json import event_object
    from ..pipeline import Pipeline
    from ..wire.records import Records

    def show(block: Records) -> None:
        sys.stdout.writelines(json.dumps(event_object(row, names)) + "\n" for row in block)  # type: ignore[arg-type]

    seen = None if names is None else show
    if data is None:
        yield Pipeline(settings, seen=seen)
        return
    from ..history.archive import archive_once

    with DataFolder(data, settings.regions) as folder:
        folder.write_owner()
        pipeline = Pipeline(settings, data=folder.path, seen=seen)
        try:
            yield pipeline
        finally:
            pipeline.close()
        archive_once(folder.path, settings.history)


def _feed(
    batches: Iterator[FrameBatch],
    pipeline: Pipeline,
    dialect: Dialect,
    speed: float,
    settings: DetectSettings,
) -> None:
    from ..detect.clock import CaptureClock
    from ..wire.records import FrameBatch

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
                FrameBatch(frames.arena, frames.frames[start:end], frames.first_packet + start), dialect
            )
    pipeline.flush()
    pipeline.tick(clock.newest_ns)
