"""`hopscope replay`: a capture through the same pipeline as live reports."""

from __future__ import annotations

import sys
import time
from collections import Counter
from pathlib import Path

from ..decode.command import advise, advise_of_templates, advise_without_hops, decide, mixed_decoder
from ..options.declare import option
from ..options.reading import CaptureArgument, ReadingOptions
from ..options.settings import NamedOptions
from ..output.file_end import end_of_file
from ..output.printer import Summary
from .feeding import FileOutput, feed, open_pipeline


def replay(
    file: CaptureArgument,
    reading: ReadingOptions,
    output: FileOutput,
    settings: NamedOptions,
    data: Path | None = option("--data -d FOLDER", "Keep the events in this data folder."),
    speed: float = option(
        "--speed FACTOR", "Multiple of the captured speed; 0: as fast as possible.", 0, min=0
    ),
) -> None:
    """Run detection over a capture file and print what was found.

    Times are those of the capture. With --data, the events are kept for queries, and flows get records at the
    end; without it, nothing is written. Exit status: 0; 1 if the file is damaged or truncated and was read up
    to that point; 2 if it cannot be read.
    """
    from ...base.names import Names
    from ...capture.pcap.reader import PcapReader
    from ...detect.counters import by_key
    from ...runtime.pipeline.summary import family
    from ...runtime.warmup import compile_parts

    loaded = settings.load()
    possible = reading.dialects(loaded)
    names = Names.load(loaded.names)
    reader = PcapReader(file)
    compile_parts("files")
    begin = time.monotonic()
    dialect, batches = decide(iter(reader), possible)
    decoder = mixed_decoder(dialect, loaded)
    with open_pipeline(loaded, data, names if output.events else None) as pipeline:
        feed(batches, pipeline, dialect, speed, loaded.detect, source=decoder)
    output.print(pipeline, sys.stderr if output.events and output.form is Summary.TEXT else sys.stdout)
    if output.form is Summary.TEXT:
        sys.stdout.flush()  # keeps the order if both streams go to one pipe
        print(f"took       {time.monotonic() - begin:.2f} s", file=sys.stderr)
    counters = by_key(pipeline.shard.counters)
    others = counters["other_frames_total"]
    rejected = Counter(family(counters, "rejected_reports_total")) - decoder.rejected
    advise(reading, possible, rejected, reader.unread < others == reader.packets)
    advise_of_templates(decoder)
    if counters["reports_total"] and not counters["hops_total"]:
        advise_without_hops(file, reading, possible, loaded)
    end_of_file(reader)
