"""`hopscope replay`: a capture through the same pipeline as live reports."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from .decode import decide
from .feeding import feed, open_pipeline
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
    from ..base.names import Names
    from ..capture.pcap.reader import PcapReader
    from ..detect.counters import INDEX
    from ..runtime.summary import summary_lines
    from .announce import compile_parts

    settings = load(config, overrides).settings
    changed = changes(port, packets, int_dscp, int_port, marker)
    possible = tuple(map(changed.of, find_dialects(dialect, settings)))
    names = Names.load(settings.names)
    reader = PcapReader(file)
    compile_parts("files")
    begin = time.monotonic()
    chosen, batches = decide(iter(reader), possible)
    with open_pipeline(settings, data, names if events else None) as pipeline:
        feed(batches, pipeline, chosen, speed, settings.detect)
        counters = {key: int(pipeline.shard.counters[slot]) for key, slot in INDEX.items()}
    seconds = time.monotonic() - begin
    if as_json:
        print(json.dumps({key: count for key, count in counters.items() if count}))
    else:
        print("\n".join(summary_lines(counters)), file=sys.stderr if events else sys.stdout)
        print(f"took       {seconds:.2f} s", file=sys.stderr)
    if reader.damage:
        print(f"hopscope: {reader.damage}", file=sys.stderr)
        raise typer.Exit(1)
